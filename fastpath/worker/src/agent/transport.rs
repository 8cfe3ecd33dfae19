//! The one place where the channel to the controller is made.

use std::time::Duration;

use p4runtime::transport;
use penstock_slowpath_api::v1::slow_path_server::SlowPathServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use super::{p4rt, slowpath};

/// After a stop, calls have this long to end; streams never would by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Serves both services until `stop` ends.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    p4rt: p4rt::Server,
    slowpath: slowpath::Server,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (stopping, mut stopped) = tokio::sync::watch::channel(false);
    let slowpath = SlowPathServer::new(slowpath)
        .max_decoding_message_size(transport::MAX_MESSAGE)
        .max_encoding_message_size(transport::MAX_MESSAGE);
    let server = transport::server()
        .add_service(transport::service(p4rt))
        .add_service(slowpath)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move {
            drop(stopped.wait_for(|stopping| *stopping).await);
        });
    let grace = async {
        stop.await;
        stopping.send_replace(true);
        tokio::time::sleep(GRACE).await;
    };
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => ended,
        () = grace => Ok(()),
    }
}
