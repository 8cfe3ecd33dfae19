//! Calls with deadlines.

use std::time::Duration;

use penstock_api::client::{self, Client};
use penstock_api::v1;
use penstock_identity::{Credentials, Files};
use penstock_policies::document::Kind;
use tonic::{Request, Response, Status};

use crate::args::Global;
use crate::failure::Failure;

/// Where penstockd listens unless told otherwise.
const LOCAL: &str = "127.0.0.1:9500";

/// A connection and how long each call may take.
pub(crate) struct Session {
    pub(crate) client: Client,
    timeout: Duration,
}

impl Session {
    pub(crate) async fn open(global: &Global) -> Result<Self, Failure> {
        let tls = match (&global.tls_ca, &global.tls_cert, &global.tls_key) {
            (None, None, None) => None,
            (Some(ca), Some(certificate), Some(key)) => Some(Credentials::load(&Files {
                ca: ca.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            })?),
            _ => {
                let problem = "--tls-ca, --tls-cert and --tls-key (or PENSTOCK_CA, \
                               PENSTOCK_CERT and PENSTOCK_KEY) go together: give all or none";
                return Err(Failure::Usage(problem.to_owned()));
            }
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let options = client::Options {
            server: (global.server.clone()).unwrap_or_else(|| format!("{scheme}://{LOCAL}")),
            connect_timeout: global.call_timeout,
            tls,
        };
        Ok(Self {
            client: client::connect(options).await?,
            timeout: global.call_timeout,
        })
    }

    /// A request that the server may give up on, and a wait that ends in any case.
    pub(crate) async fn call<Q, A, F>(
        &self,
        request: Q,
        send: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = Request::new(request);
        request.set_timeout(self.timeout);
        match tokio::time::timeout(self.timeout, send(request)).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(self.late()),
        }
    }

    /// The next message of a stream; nothing at its end.
    pub(crate) async fn next<T>(
        &self,
        stream: &mut tonic::Streaming<T>,
    ) -> Result<Option<T>, Failure> {
        match tokio::time::timeout(self.timeout, stream.message()).await {
            Ok(message) => Ok(message?),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> Failure {
        Failure::Server(Status::deadline_exceeded(format!(
            "waited {:?}",
            self.timeout
        )))
    }

    /// All resources of a kind below a name, page by page.
    pub(crate) async fn list(
        &self,
        parent: &str,
        kind: Option<Kind>,
    ) -> Result<Vec<v1::Resource>, Failure> {
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListRequest {
                parent: parent.to_owned(),
                kind: kind.map_or_else(String::new, |kind| kind.name().to_owned()),
                page_size: 1000,
                page_token,
            };
            let mut resources = self.client.resources.clone();
            let page = self
                .call(request, |r| async move { resources.list(r).await })
                .await?;
            all.extend(page.resources);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    pub(crate) async fn get(&self, name: &str) -> Result<v1::Resource, Failure> {
        let request = v1::GetRequest {
            name: name.to_owned(),
        };
        let mut resources = self.client.resources.clone();
        self.call(request, |r| async move { resources.get(r).await })
            .await
    }
}

/// A port's full name from itself or from TENANT/VPC/PORT.
pub(crate) fn port_name(text: &str) -> String {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [tenant, vpc, port] => format!("tenants/{tenant}/vpcs/{vpc}/ports/{port}"),
        _ => text.to_owned(),
    }
}

/// A node's full name from itself or its last segment.
pub(crate) fn node_name(text: &str) -> String {
    if text.contains('/') {
        text.to_owned()
    } else {
        format!("nodes/{text}")
    }
}
