//! Who may call.

use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::Peer;
use crate::{Identity, Kind};

/// Turns away calls of kinds that are not admitted.
///
/// The connection is from our authority already; the answer says what it is not good for,
/// which a refusal in the handshake could not.
#[derive(Clone, Debug)]
pub struct Guard {
    pub(super) lock: Option<(Identity, &'static [Kind])>,
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some((ours, admits)) = &self.lock else {
            return Ok(request);
        };
        let peer = request.extensions().get::<Peer>();
        let identity = peer.and_then(|peer| peer.identity.as_ref());
        match identity {
            Some(identity) if admits.contains(&identity.kind()) => Ok(request),
            Some(identity) => {
                tracing::warn!(%identity, address = ?peer.map(|peer| peer.address), "refused a call");
                let admits: Vec<_> = admits.iter().map(|kind| kind.as_str()).collect();
                Err(Status::permission_denied(format!(
                    "you are {identity}, and {ours} hears only {}; call with the certificate of \
                     one",
                    admits.join(" or ")
                )))
            }
            None => Err(Status::unauthenticated(format!(
                "{ours} does not know who you are; call with a certificate"
            ))),
        }
    }
}
