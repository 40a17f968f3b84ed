//! What a set file says: the uids of a set, and the nodes that serve them.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// One set, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// Name of the set, a DNS label.
    pub name: String,
    /// Its uids, end exclusive.
    pub uids: Range<u64>,
    /// Neighbouring uids that share a ceiling.
    pub section_size: u32,
    /// How far a ceiling is raised at a time.
    pub step: u64,
    /// The members of the set's store, in order of id.
    pub stores: Vec<StoreSpec>,
    /// The set's AllocSvrs, in order of name.
    pub allocs: Vec<AllocSpec>,
}

/// One member of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Raft id, 1 or above. A new disk gets a new id.
    pub id: u64,
    /// Name, a DNS label.
    pub name: String,
    /// Address of the gRPC port, "host:port".
    pub addr: String,
    /// Address of the port for metrics and probes, "host:port".
    pub http: String,
}

/// One AllocSvr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocSpec {
    /// Name, a DNS label.
    pub name: String,
    /// Address of the gRPC port, "host:port".
    pub addr: String,
    /// Address of the port for metrics and probes, "host:port".
    pub http: String,
    /// Share of the sections relative to the other AllocSvrs, 1 or above.
    pub weight: u32,
}
