//! The nodes that respond, as commands and pages show them.

use std::collections::BTreeMap;

use seq_proto::v1::StatusResponse;
use serde::Serialize;

use super::set_view::Registered;
use crate::alloc_state::AllocState;
use crate::certificate::CertificateView;

/// A StoreSvr that responds.
#[derive(Debug, Serialize)]
pub struct StoreView {
    /// Name of its set.
    pub set: String,
    /// Name of the node.
    pub name: String,
    /// Address at which it responded, as `host:port`.
    pub addr: String,
    /// Raft id of the StoreSvr, 1 or above.
    pub id: u64,
    /// Whether it leads the store.
    pub leader: bool,
    /// Whether the StoreSvr reports that a majority of the store's members is connected.
    pub quorum: bool,
    /// Milliseconds since the StoreSvr last reported a majority; 0 while it reports one, or if it has not since its
    /// start.
    pub quorum_lost_ms: u64,
    /// Longest round trip between members, in milliseconds, for which the timeouts of the StoreSvr suffice.
    pub max_round_trip_ms: u64,
    /// Round trips of heartbeats in microseconds, by member. Only the leader measures them.
    pub round_trip_us: BTreeMap<String, u64>,
    /// Raft term.
    pub term: u64,
    /// Index of its last log entry.
    pub last_log_index: u64,
    /// Index of the last entry that it applied.
    pub applied_index: u64,
    /// Index that its newest snapshot covers; 0 if it has none.
    pub snapshot_index: u64,
    /// Raises applied since it started.
    pub raises_applied: u64,
    /// Address of the admin port, if the response has it.
    #[serde(skip)]
    pub admin: Option<String>,
    /// Address of the port for metrics and probes, from the set file; absent without a set file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// The certificate; absent if the node has no TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateView>,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Source revision of the program.
    pub revision: String,
}

/// An AllocSvr that responds.
#[derive(Debug, Serialize)]
pub struct AllocView {
    /// Name of its set.
    pub set: String,
    /// Name of the node.
    pub name: String,
    /// Address at which it responded, as `host:port`.
    pub addr: String,
    /// State of the node, from its response and its record in the store.
    pub state: AllocState,
    /// Incarnation of its process.
    pub incarnation: u64,
    /// Number of sections that it owns.
    pub sections: u32,
    /// Milliseconds left of its lease; 0 without a lease.
    pub lease_remaining_ms: u64,
    /// Milliseconds since the node's lease expired; 0 if the node has a lease or never had one.
    pub lease_ended_ms: u64,
    /// Numbers allocated since it started.
    pub allocations: u64,
    /// Numbers allocated per second since the previous sample; absent in the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers_per_second: Option<f64>,
    /// Raises per second since the previous sample; absent in the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raises_per_second: Option<f64>,
    /// Items forwarded to other owners since it started.
    pub forwarded: u64,
    /// Raises since it started.
    pub raises: u64,
    /// Raises that the store refused since it started.
    pub raises_refused: u64,
    /// Version of its route table.
    pub route_version: u64,
    /// Memory of the counters of uids, in bytes.
    pub slot_bytes: u64,
    /// Address of the port for metrics and probes, from the set file; absent without a set file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Address of the Redis port, from the set file; absent without a set file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<String>,
    /// The certificate; absent if the node has no TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateView>,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Source revision of the program.
    pub revision: String,
}

/// A proxy that responds.
#[derive(Debug, Serialize)]
pub struct ProxyView {
    /// Name of the node.
    pub name: String,
    /// Address at which it responded, as `host:port`.
    pub addr: String,
    /// The certificate; absent if the node has no TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateView>,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Source revision of the program.
    pub revision: String,
}

impl ProxyView {
    pub(super) fn new(addr: &str, response: &StatusResponse, certificate: Option<CertificateView>) -> ProxyView {
        ProxyView {
            name: response.node.clone(),
            addr: addr.to_owned(),
            certificate,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }
}

impl AllocView {
    /// Returns the state of an allocator that responds. `record` is its record in the store. The number of sections is
    /// taken from the allocator's own response, because the record lags behind during a drain.
    pub(super) fn state_of(&self, record: Option<&Registered>) -> AllocState {
        let (drained, leaving) = record.map_or((false, false), |record| (record.drained, record.leaving));
        match AllocState::of_live(drained, leaving, self.sections) {
            AllocState::Serves if self.lease_remaining_ms == 0 => AllocState::NoLease,
            state => state,
        }
    }
}
