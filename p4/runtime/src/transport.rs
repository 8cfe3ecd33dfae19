//! Limits of a channel, the same at both ends.
//!
//! The defaults of HTTP/2 and gRPC are too small twice: the status of a failed
//! batch travels in headers, and a switch answers a read of everything with one
//! message. Beyond a limit, calls fail in ways that say nothing of the cause, or
//! hang; so whoever opens or serves a channel does it through here.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Server};

use crate::v1::p4_runtime_client::P4RuntimeClient;
use crate::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};

/// The longest message, either way.
pub const MAX_MESSAGE: usize = 64 << 20;

/// All headers or trailers of a call together.
pub const MAX_HEADERS: u32 = 1 << 20;

/// An idle channel is probed this often, so that a lost peer is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long a peer may be silent after a probe or during connection.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Where to connect to: add TLS, then `connect`, then [`client`].
///
/// # Errors
///
/// `uri` is no URI.
pub fn endpoint(uri: impl Into<String>) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(uri.into())?
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_timeout(TIMEOUT)
        .tcp_nodelay(true))
}

/// A client on an open channel.
#[must_use]
pub fn client(channel: Channel) -> P4RuntimeClient<Channel> {
    P4RuntimeClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// The service of a server.
#[must_use]
pub fn service<S: P4Runtime>(implementation: S) -> P4RuntimeServer<S> {
    P4RuntimeServer::new(implementation)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// A server: add TLS, then [`service`].
#[must_use]
pub fn server() -> Server {
    Server::builder()
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(TIMEOUT))
        .tcp_nodelay(true)
}
