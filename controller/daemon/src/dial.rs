//! Opening channels to workers: the one place that knows how.
//!
//! With credentials, a worker must show the certificate of the node that is dialled, whatever
//! its address. Without, only this machine is dialled: whoever answers is believed.

use std::time::Duration;

use penstock_identity::client::{Client, ConnectError, Expected};
use penstock_identity::{Credentials, Identity, Kind, NameError};
use penstock_slowpath_api::v1::slow_path_client::SlowPathClient;
use tonic::Status;
use tonic::transport::Channel;

/// Why a worker cannot be dialled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one.
    #[error("worker_address {address:?} cannot be dialled: {source}; write host:port")]
    Address {
        /// As declared.
        address: String,
        /// What is wrong.
        source: tonic::transport::Error,
    },
    /// No certificate can be for this node.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Somebody else answers there, or does not want us.
    #[error("{0}")]
    Identity(ConnectError),
    /// Without TLS nobody vouches for what is beyond this machine.
    #[error(
        "worker_address {address:?} is not on this machine, and penstockd runs with --insecure; \
         give it --tls-ca, --tls-cert and --tls-key, or use a loopback address"
    )]
    NotLocal {
        /// As declared.
        address: String,
    },
    /// Nobody answers there.
    #[error("cannot connect to {address}: {}", cause(.source))]
    Connect {
        /// As declared.
        address: String,
        /// What happened.
        source: tonic::transport::Error,
    },
    /// Somebody may be there, but does not answer in time.
    #[error("{address} did not accept a connection within {after:?}")]
    Timeout {
        /// As declared.
        address: String,
        /// How long was waited.
        after: Duration,
    },
}

/// How channels are made. The default has no credentials.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    credentials: Option<Credentials>,
}

impl Dialer {
    /// Shows these to workers, and wants to see theirs.
    #[must_use]
    pub const fn new(credentials: Credentials) -> Self {
        Self {
            credentials: Some(credentials),
        }
    }

    /// Connects to the worker of a node, `nodes/NAME`.
    ///
    /// # Errors
    /// When it cannot be reached within `deadline`, or is not that node's.
    pub async fn connect(
        &self,
        node: &str,
        address: &str,
        deadline: Duration,
    ) -> Result<Channel, Error> {
        let endpoint =
            p4runtime::transport::endpoint(format!("http://{address}")).map_err(|source| {
                Error::Address {
                    address: address.to_owned(),
                    source,
                }
            })?;
        let connecting = async {
            let Some(credentials) = &self.credentials else {
                if !is_local(address) {
                    return Err(Error::NotLocal {
                        address: address.to_owned(),
                    });
                }
                return endpoint.connect().await.map_err(|source| Error::Connect {
                    address: address.to_owned(),
                    source,
                });
            };
            let name = node.strip_prefix("nodes/").unwrap_or(node);
            let expected = Expected::Exactly(Identity::new(Kind::Node, name)?);
            Client::new(credentials.clone(), expected)
                .channel(endpoint, address)
                .await
                .map_err(Error::Identity)
        };
        match tokio::time::timeout(deadline, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::Timeout {
                address: address.to_owned(),
                after: deadline,
            }),
        }
    }
}

/// Whether `HOST:PORT` cannot be anything but this machine. Other names are not looked up:
/// what they stand for may change.
fn is_local(address: &str) -> bool {
    match address.rsplit_once(':') {
        Some(("localhost", _)) => true,
        _ => address
            .parse()
            .is_ok_and(|it: std::net::SocketAddr| it.ip().is_loopback()),
    }
}

/// A SlowPath client on an open channel.
pub fn slow_path(channel: Channel) -> SlowPathClient<Channel> {
    SlowPathClient::new(channel)
        .max_decoding_message_size(p4runtime::transport::MAX_MESSAGE)
        .max_encoding_message_size(p4runtime::transport::MAX_MESSAGE)
}

/// tonic's own text is "transport error": the last cause says what it was.
fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A status in a sentence: its message, or the name of its code.
pub fn words(status: &Status) -> String {
    match status.message() {
        "" => status.code().to_string(),
        message => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn what_is_on_this_machine() {
        for (address, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            ("10.0.0.1:1", false),
            ("0.0.0.0:1", false),
            ("localhost.example:1", false),
            ("host-a:1", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_local(address), expected, "{address}");
        }
    }
}
