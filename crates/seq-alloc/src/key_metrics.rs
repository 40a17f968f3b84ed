//! Metrics of the counters of keys, published once a second.

use std::fmt;

use metrics::{Counter, Gauge, counter, gauge};
use seq_api::metrics as names;

use crate::ownership::Table;

/// Metrics of one allocator.
pub(crate) struct KeyMetrics {
    keys: Gauge,
    bytes: Gauge,
    room: Gauge,
    most: Gauge,
    evicted: Counter,
}

impl fmt::Debug for KeyMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMetrics").finish_non_exhaustive()
    }
}

impl KeyMetrics {
    pub(crate) fn new(set: &str, node: &str) -> KeyMetrics {
        let labels = [("set", set.to_owned()), ("node", node.to_owned())];
        KeyMetrics {
            keys: gauge!(names::KEYS, &labels),
            bytes: gauge!(names::KEY_BYTES, &labels),
            room: gauge!(names::KEY_ROOM, &labels),
            most: gauge!(names::KEYS_MAX, &labels),
            evicted: counter!(names::KEYS_EVICTED_TOTAL, &labels),
        }
    }

    /// Counts evicted counters.
    pub(crate) fn evicted(&self, counters: usize) {
        self.evicted.increment(counters as u64);
    }

    /// Publishes the counters in a table, the number of keys for which it has room, and the limit on it.
    pub(crate) fn publish(&self, table: &Table, room: u64, most: u64) {
        let (mut keys, mut bytes) = (0, 0);
        for bucket in table.iter().filter(|owned| owned.has_keys()) {
            keys += u64::from(bucket.uids());
            bytes += bucket.slots() * size_of::<u64>();
        }
        self.keys.set(keys as f64);
        self.bytes.set(bytes as f64);
        self.room.set(room as f64);
        self.most.set(most as f64);
    }
}
