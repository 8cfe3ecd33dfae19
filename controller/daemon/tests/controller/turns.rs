//! Who writes when: one after the other, and nobody who has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_daemon::store::{Batch, Error, Memory, Rows, Store};
use tonic::Code;

use crate::controller::{Controller, LIMITS};
use crate::samples::tenant;
use crate::waiting::soon;

/// A store that waits at a gate before it writes.
#[derive(Debug, Default)]
struct Gated {
    inner: Memory,
    closed: Arc<AtomicBool>,
}

impl Store for Gated {
    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(key)
    }

    fn snapshot(&self, prefix: &[u8]) -> Result<(u64, Rows), Error> {
        self.inner.snapshot(prefix)
    }

    fn commit(&self, batch: &Batch, expected: u64) -> Result<u64, Error> {
        // A commit runs on a thread of its own. It does not wait for ever.
        for _ in 0..2000 {
            if !self.closed.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.inner.commit(batch, expected)
    }
}

#[tokio::test]
async fn what_was_given_up_before_its_turn_leaves_nothing() {
    let store = Gated::default();
    let closed = Arc::clone(&store.closed);
    let controller = Arc::new(Controller::with_store(Arc::new(store), LIMITS).await);
    // The start writes, too; it is over when a request is answered.
    assert!(controller.list("", "", 0).await.is_empty());
    closed.store(true, Ordering::SeqCst);
    let mut begun = Vec::new();
    for name in ["first", "second", "third"] {
        let apply = {
            let controller = Arc::clone(&controller);
            async move { controller.apply(vec![tenant(name)]).await }
        };
        if name == "second" {
            // Gives up while the first one writes.
            let result = tokio::time::timeout(Duration::from_millis(300), apply).await;
            assert!(result.is_err());
        } else {
            begun.push(tokio::spawn(apply));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    closed.store(false, Ordering::SeqCst);
    for apply in begun {
        soon("an answer", apply).await.unwrap().unwrap();
    }
    assert!(controller.get("tenants/first").await.is_ok());
    assert!(controller.get("tenants/third").await.is_ok());
    let status = controller.get("tenants/second").await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    Arc::into_inner(controller).unwrap().stop().await;
}
