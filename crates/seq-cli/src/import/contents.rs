//! The contents of a source: its records, and the facts that the plan and the report state.

use seq_command::output::grouped;
use serde::Serialize;

use super::records::Records;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    File,
    Redis,
    RedisCluster,
}

/// The records that were read, as the plan and the report state them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    /// The file, or the servers that were read: each a master.
    pub(super) servers: Vec<String>,
    /// Counters that were found, skipped and gone ones included.
    pub(super) found: u64,
    /// Keys that expired or were deleted between their listing and their reading.
    pub(super) gone: u64,
    /// Records that are none, which `--skip-invalid` leaves out.
    pub(super) skipped: u64,
}

/// All records of a source, with what proves that they are all.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) records: Records,
    pub(super) facts: Facts,
}

impl Facts {
    /// Describes the records that were read, in a line.
    pub(super) fn line(&self) -> String {
        let Facts { kind, servers, found, gone, skipped } = self;
        let (what, records) = match kind {
            Kind::File => (servers.join(", "), "records"),
            Kind::Redis => (format!("master {}", servers.join(", ")), "keys"),
            Kind::RedisCluster => {
                (format!("cluster of {} masters with all slots: {}", servers.len(), servers.join(", ")), "keys")
            }
        };
        let mut line = format!("source: {what}; {} {records}", grouped(*found));
        for (count, what) in [(*gone, "gone meanwhile"), (*skipped, "invalid and skipped")] {
            if count > 0 {
                line.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        line
    }
}
