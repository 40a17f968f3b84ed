//! The sections that need a raise, in line for the ceiling keeper.
//!
//! Bounded by the sections of the set: `Section` tells exactly one caller to put it in line, and tells the next one only
//! after the keeper has answered it. A lost section can stand here beside its successor until the keeper gets to it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ownership::OwnedSection;

#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: Mutex<Vec<Arc<OwnedSection>>>,
    arrived: Notify,
}

impl Line {
    /// Puts a section in line. Only for who was told to by the section.
    pub(crate) fn join(&self, section: Arc<OwnedSection>) {
        self.waiting.lock().push(section);
        self.arrived.notify_one();
    }

    /// Takes up to `most` sections out, oldest first.
    pub(crate) fn take(&self, most: usize) -> Vec<Arc<OwnedSection>> {
        let mut waiting = self.waiting.lock();
        if waiting.len() <= most {
            return std::mem::take(&mut *waiting);
        }
        waiting.drain(..most).collect()
    }

    /// Completes after a section joined since the last call completed. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
