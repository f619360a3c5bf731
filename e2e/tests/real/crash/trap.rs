//! What waits for a write of the operator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use tf_testing::operators::Operator;
use tf_testing::proxy::{Match, Point, Proxy};
use tf_testing::request::RequestInfo;
use tokio::sync::oneshot;

/// Springs once, when the API server has acted and the operator does not know the answer.
pub struct Trap {
    armed: Arc<AtomicBool>,
    sprung: oneshot::Receiver<RequestInfo>,
}

impl Trap {
    /// Waits for the so-manieth request that counts, from now on. Kills the victim at it.
    pub fn set(proxy: &Proxy, counts: Match, after: u64, victim: Option<Arc<Mutex<Operator>>>) -> Self {
        let armed = Arc::new(AtomicBool::new(true));
        let (send, sprung) = oneshot::channel();
        let is_armed = Arc::clone(&armed);
        proxy.after_nth(counts, after, Point::BeforeDelivery, move |answered| async move {
            if is_armed.swap(false, Ordering::SeqCst) {
                if let Some(victim) = victim {
                    let _ = victim.lock().unwrap().process.kill();
                }
                let _ = send.send(answered.request);
            }
        });
        Self { armed, sprung }
    }

    /// Waits until it has sprung, at this request.
    pub async fn sprung(&mut self) -> Result<RequestInfo> {
        Ok((&mut self.sprung).await?)
    }

    /// Takes it away. The request at which it has sprung before, if it has; then the victim is dead.
    pub async fn disarm(mut self) -> Result<Option<RequestInfo>> {
        if self.armed.swap(false, Ordering::SeqCst) { Ok(None) } else { self.sprung().await.map(Some) }
    }
}
