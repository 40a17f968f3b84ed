//! The end of this process's incarnation by another process with the same node name.
//!
//! The store lets one incarnation of a node serve at a time. When it lets another process replace this one's, this process
//! must not register again: the two would replace each other for as long as both run. It publishes the reason, then stops.
//!
//! **Invariant:** once an eviction is published, the allocator's tasks are shutting down and register no more.

use std::sync::Arc;

use seq_core::Incarnation;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Another process replaced this node's incarnation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AllocSvr {node} was replaced by the process at {}: incarnation {} replaced {}", addr.as_deref().unwrap_or("an unknown address"), by.0, replaced.0)]
pub struct Eviction {
    /// The name that both processes have.
    pub node: String,
    /// The incarnation of this process.
    pub replaced: Incarnation,
    /// The incarnation that serves now.
    pub by: Incarnation,
    /// Where the other process serves, as `host:port`; `None` where the store did not name it.
    pub addr: Option<String>,
}

/// Publishes the eviction of one allocator, and stops the allocator with it. Clones are handles on the same one.
#[derive(Clone, Debug)]
pub(crate) struct Evictions {
    published: Arc<watch::Sender<Option<Eviction>>>,
    /// The allocator's shutdown.
    shutdown: CancellationToken,
}

impl Evictions {
    /// No eviction so far. `shutdown` stops the allocator's tasks.
    pub(crate) fn new(shutdown: CancellationToken) -> Evictions {
        Evictions { published: Arc::new(watch::Sender::new(None)), shutdown }
    }

    /// Publishes an eviction and asks every task of the allocator to end. The first eviction stays.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the session evicts once registration tells a newcomer from a restart")
    )]
    pub(crate) fn evict(&self, eviction: Eviction) {
        self.published.send_if_modified(|published| {
            let is_first = published.is_none();
            published.get_or_insert(eviction);
            is_first
        });
        // After the reason: whatever stops because of it can read why.
        self.shutdown.cancel();
    }

    /// The eviction, if there was one; also after the end.
    pub(crate) fn published(&self) -> Option<Eviction> {
        self.published.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_eviction_stops_the_allocator_and_says_where_the_other_process_is() {
        let shutdown = CancellationToken::new();
        let evictions = Evictions::new(shutdown.clone());
        assert_eq!((evictions.published(), shutdown.is_cancelled()), (None, false));
        let first = Eviction {
            node: "a1".to_owned(),
            replaced: Incarnation(15),
            by: Incarnation(16),
            addr: Some("10.0.0.7:7400".to_owned()),
        };
        evictions.evict(first.clone());
        evictions.evict(Eviction { by: Incarnation(17), addr: None, ..first.clone() });
        assert!(shutdown.is_cancelled());
        let text = evictions.clone().published().unwrap().to_string();
        assert_eq!(text, "AllocSvr a1 was replaced by the process at 10.0.0.7:7400: incarnation 16 replaced 15");
        let unnamed = Eviction { addr: None, ..first }.to_string();
        assert!(unnamed.contains("at an unknown address"), "{unnamed}");
    }
}
