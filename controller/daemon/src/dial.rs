//! Opening channels to workers: the one place that knows how.

use std::time::Duration;

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

/// How channels are made.
#[derive(Clone, Debug, Default)]
pub struct Dialer {}

impl Dialer {
    /// Connects to a worker.
    ///
    /// # Errors
    /// When it cannot be reached within `deadline`.
    pub async fn connect(&self, address: &str, deadline: Duration) -> Result<Channel, Error> {
        let endpoint =
            p4runtime::transport::endpoint(format!("http://{address}")).map_err(|source| {
                Error::Address {
                    address: address.to_owned(),
                    source,
                }
            })?;
        match tokio::time::timeout(deadline, endpoint.connect()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(source)) => Err(Error::Connect {
                address: address.to_owned(),
                source,
            }),
            Err(_) => Err(Error::Timeout {
                address: address.to_owned(),
                after: deadline,
            }),
        }
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
