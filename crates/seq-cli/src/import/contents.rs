//! The contents of an import's source. They are its records, and facts about these records that the command prints.

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

/// Facts about the records of a source, which the command prints before and after the import.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    /// Path of the file, or addresses of the Redis masters, that contained the records.
    pub(super) servers: Vec<String>,
    /// Number of records that were found, including `gone` and `skipped`.
    pub(super) found: u64,
    /// Number of keys in Redis that the scan returned, but that expired or were deleted before their values were read.
    pub(super) gone: u64,
    /// Number of invalid records that were left out because of `--skip-invalid`.
    pub(super) skipped: u64,
}

/// All records of a source, with facts about how many records were found and where.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) records: Records,
    pub(super) facts: Facts,
}

impl Facts {
    /// Returns a line of text about the records that were read.
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
        for (count, what) in [(*gone, "gone before they were read"), (*skipped, "invalid and skipped")] {
            if count > 0 {
                line.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        line
    }
}
