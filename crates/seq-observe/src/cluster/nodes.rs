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
    /// Whether the StoreSvr reports that it is connected to a majority of the store's members.
    pub quorum: bool,
    /// Milliseconds since the StoreSvr last reported a majority of the store's members. It is 0 while the StoreSvr
    /// reports a majority, and if it has reported none since its start.
    pub quorum_lost_ms: u64,
    /// Longest round trip between the store's members with which the timeouts of this StoreSvr still work, in
    /// milliseconds.
    pub max_round_trip_ms: u64,
    /// Round trips of the leader's heartbeats to the other members, in microseconds, by the name of the member. The map
    /// is empty for followers.
    pub round_trip_us: BTreeMap<String, u64>,
    /// Time within which 99 of 100 syncs of its log ended in the last minute, in microseconds. It is absent if there
    /// were none, or if its release does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_p99_us: Option<u64>,
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
    /// Address of the port for metrics and probes, as the set file states it. It is absent if no set file is used.
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
#[derive(Debug, Default, Serialize)]
pub struct AllocView {
    /// Name of its set.
    pub set: String,
    /// Name of the node.
    pub name: String,
    /// Address at which it responded, as `host:port`.
    pub addr: String,
    /// State of the AllocSvr, derived from its response and from its record in the store.
    pub state: AllocState,
    /// Incarnation of its process.
    pub incarnation: u64,
    /// Number of sections that it owns.
    pub sections: u32,
    /// Milliseconds left of its lease; 0 without a lease.
    pub lease_remaining_ms: u64,
    /// Time for which the AllocSvr serves after a renewal of its lease, in milliseconds. It is 0 if the AllocSvr's
    /// release does not report it.
    #[serde(skip)]
    pub lease_ms: u64,
    /// Milliseconds since the AllocSvr's lease expired. It is 0 if the AllocSvr has a lease or never had a lease.
    pub lease_ended_ms: u64,
    /// Numbers allocated since it started.
    pub allocations: u64,
    /// Numbers that the AllocSvr allocated per second since the previous view of the cluster. It is absent in the first
    /// view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers_per_second: Option<f64>,
    /// Raises per second since the previous view of the cluster. It is absent in the first view.
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
    /// Address of the port for metrics and probes, as the set file states it. It is absent if no set file is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Address of the Redis port, as the set file states it. It is absent if no set file is used.
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
#[derive(Debug, Default, Serialize)]
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
    /// Returns the state of an AllocSvr that responds. `record` is its record in the store. The number of sections is
    /// taken from the AllocSvr's own response instead of the record, because the record lags behind during a drain.
    pub(super) fn state_of(&self, record: Option<&Registered>) -> AllocState {
        let (drained, leaving) = record.map_or((false, false), |record| (record.drained, record.leaving));
        match AllocState::of_live(drained, leaving, self.sections) {
            AllocState::Serves if self.lease_remaining_ms == 0 => AllocState::NoLease,
            state => state,
        }
    }
}
