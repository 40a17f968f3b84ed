//! Catalogue of all metrics of the program, in one table.
//!
//! A metric is recorded with the constant that has its name, as in
//! `metrics::counter!(ALLOCATIONS_TOTAL, "set" => set)`, so that no name can be misspelt. No label has a uid or a
//! section as its value, so that the number of time series does not grow with the size of a set.

use std::time::Instant;

use metrics_process::Collector;
use seq_core::node_events::Refusals;
use seq_kit::admission::ConnectionMetrics;
use seq_kit::metrics::{InstallError, Kind, Metric, Recorder, Unit};
use seq_kit::refusal_log::RefusalLog;
use seq_kit::telemetry::traces::SpanCounts;

use crate::node_events::NodeEvents;

/// Defines a constant for every metric's name, with the metric's help as its documentation, and [`CATALOGUE`].
macro_rules! catalogue {
    ($(
        $(#[doc = $help:literal])+
        $constant:ident = $name:literal, $kind:ident, $unit:ident, $labels:expr $(, $buckets:expr)?;
    )*) => {
        $( $(#[doc = $help])+ pub const $constant: &str = $name; )*

        /// Every metric, in the order of the documentation.
        pub const CATALOGUE: &[Metric] = &[$( Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            help: concat!($($help),+).trim_ascii(),
            labels: &$labels,
            buckets: { let buckets: &[f64] = &[]; $( let _ = buckets; let buckets: &[f64] = $buckets; )? buckets },
        } ),*];
    };
}

/// Upper bounds of histogram buckets, in seconds, from the duration of an allocation from memory on one core to the
/// longest time for which a caller waits.
const LATENCY: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Upper bounds of histogram buckets, in seconds, from the duration of a sync on a fast disk to the duration of a sync
/// on a failing disk.
const DISK: &[f64] =
    &[0.000_05, 0.000_1, 0.000_2, 0.000_3, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Upper bounds of histogram buckets, in seconds, from the pause of a handover to an outage that an operator ends. The
/// alert about sections that were unserved for long counts the samples above 10 s.
const UNSERVED: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

/// Upper bounds of histogram buckets, from one number for each write of a ceiling to a hundred default steps for each
/// write.
const PER_RAISE: &[f64] = &[1.0, 10.0, 100.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 100_000.0, 1_000_000.0];

/// Upper bounds of histogram buckets, from one item to the largest number of items in a message.
const BATCH: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 4_096.0, 10_000.0];

/// Upper bounds of histogram buckets, in seconds, from a millisecond to the longest time by which an id may be ahead of
/// the clock.
const AHEAD: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

catalogue! {
    /// Allocated numbers, and refused items by their gRPC code.
    ALLOCATIONS_TOTAL = "seqsvr_allocations_total", Counter, Count, ["set", "via", "code"];
    /// Time from a decoded request to its response, sampled from one request in 16.
    REQUEST_SECONDS = "seqsvr_request_seconds", Histogram, Seconds, ["set", "via"], LATENCY;
    /// Ceiling raises that an AllocSvr requested, by outcome (committed, refused, failed, delayed).
    CEILING_RAISES_TOTAL = "seqsvr_ceiling_raises_total", Counter, Count, ["set", "outcome"];
    /// Time from the request of a raise to the response that it is committed.
    CEILING_RAISE_SECONDS = "seqsvr_ceiling_raise_seconds", Histogram, Seconds, ["set"], LATENCY;
    /// Time that requests waited at a ceiling; empty in a healthy set.
    CEILING_STALL_SECONDS = "seqsvr_ceiling_stall_seconds", Histogram, Seconds, ["set"], LATENCY;
    /// Highest ceiling of the sections that an AllocSvr serves, without the ceilings of series with a time.
    CEILING_MAX = "seqsvr_ceiling_max", Gauge, Count, ["set", "node"];
    /// Distance from the highest ceiling (`seqsvr_ceiling_max`) to 2^53, above which JSON doubles and JavaScript round,
    /// and to 2^63, where the numbers end.
    CEILING_HEADROOM = "seqsvr_ceiling_headroom", Gauge, Count, ["set", "node", "below"];
    /// Distance by which a committed raise moved a ceiling, that is, numbers that a write of a section allows to each
    /// of its uids.
    ALLOCATIONS_PER_RAISE = "seqsvr_allocations_per_raise", Histogram, Count, ["set"], PER_RAISE;
    /// Sections in one raise request to the store.
    RAISE_BATCH_SECTIONS = "seqsvr_raise_batch_sections", Histogram, Count, ["set"], BATCH;
    /// Sections by state as a node sees them (served on an AllocSvr; owned, unowned and delayed on a StoreSvr). A
    /// delayed section departed from the set more than a second ago and has not arrived in the other set.
    SECTIONS = "seqsvr_sections", Gauge, Count, ["set", "node", "state"];
    /// Index of the section with the most section writes of the last 10 s, by rank (1 to 10), on the leader; -1 if no
    /// section has the rank, and on other members.
    TOP_SECTION = "seqsvr_top_section", Gauge, Count, ["set", "node", "rank"];
    /// Numbers per second by which the ceiling of the section with the same rank in `seqsvr_top_section` rose.
    TOP_SECTION_RAISED = "seqsvr_top_section_raised", Gauge, Count, ["set", "node", "rank"];
    /// Highest number of restores of any set of the cluster, as far as a store's log knows them.
    SET_RESTORES = "seqsvr_set_restores", Gauge, Count, ["set", "node"];
    /// Number of restores in a set's lineage, if the set began this lineage by itself; otherwise 0.
    SET_LINEAGE_BEGUN = "seqsvr_set_lineage_begun", Gauge, Count, ["set", "node"];
    /// Sections of the migrations that began in a set and are not completed or rolled back, by state (waiting: not
    /// departed yet; departed: not known to have arrived in the other set; arrived).
    MIGRATION_SECTIONS = "seqsvr_migration_sections", Gauge, Count, ["set", "node", "state"];
    /// Migrations that began in a set and cannot move a section now, on the leader; 0 on other members.
    MIGRATIONS_STUCK = "seqsvr_migrations_stuck", Gauge, Count, ["set", "node"];
    /// Connected watchers of a set's events.
    EVENT_WATCHERS = "seqsvr_event_watchers", Gauge, Count, ["set", "node"];
    /// Events that were removed from a set's event log before a connected watcher had received them, because the
    /// watcher reads too slowly. Events that the watcher did not request count too.
    EVENTS_LOST_TOTAL = "seqsvr_events_lost_total", Counter, Count, ["set", "node"];
    /// Version of the route table that a node holds.
    ROUTE_VERSION = "seqsvr_route_version", Gauge, Count, ["node"];
    /// Items that a node forwarded to their owner.
    FORWARDED_TOTAL = "seqsvr_forwarded_total", Counter, Count, ["set", "node"];
    /// Items that a node forwarded to another set, by the name of that set (`other` for sets after the 64th).
    FORWARDED_TO_SETS_TOTAL = "seqsvr_forwarded_to_sets_total", Counter, Count, ["set", "node", "to"];
    /// Forwarded items that arrived at a node without their section.
    WRONG_OWNER_TOTAL = "seqsvr_wrong_owner_total", Counter, Count, ["set", "node"];
    /// Times that a serving thread was late and halved the number of requests that its HTTP/2 connections may have at a
    /// time.
    REQUEST_LIMIT_LOWERED_TOTAL = "seqsvr_request_limit_lowered_total", Counter, Count, ["node"];
    /// Ids taken from series, and refused requests for ids by their gRPC code. The label `shape` has the name of the
    /// series' shape, or `counter` or `timed` if the shape has no name.
    IDS_TOTAL = "seqsvr_ids_total", Counter, Count, ["set", "shape", "via", "code"];
    /// Time by which the last id of a response is ahead of the node's clock, sampled from one request in 16.
    IDS_AHEAD_SECONDS = "seqsvr_ids_ahead_seconds", Histogram, Seconds, ["set"], AHEAD;
    /// Series of the cluster, by state (serves, retired, unread: its shape is of a later release).
    SERIES = "seqsvr_series", Gauge, Count, ["set", "state"];
    /// Earliest time at which a series ends because its ids contain a time, in seconds since 1970; absent without such
    /// a series.
    SERIES_END_SECONDS = "seqsvr_series_end_seconds", Gauge, Seconds, ["set"];
    /// Lanes of series with a time that an AllocSvr owns.
    LANES = "seqsvr_lanes", Gauge, Count, ["set", "node"];
    /// Owned lanes that allocate no id now, because they began ahead of the clock or because the clock of the node is
    /// wrong.
    LANES_RESTING = "seqsvr_lanes_resting", Gauge, Count, ["set", "node"];
    /// Time left of an AllocSvr's lease; at 0 it serves no section.
    LEASE_REMAINING_SECONDS = "seqsvr_lease_remaining_seconds", Gauge, Seconds, ["node"];
    /// Times that an AllocSvr's lease expired. After each of them the AllocSvr served no section until a renewal
    /// succeeded.
    LEASE_EXPIRED_TOTAL = "seqsvr_lease_expired_total", Counter, Count, ["node"];
    /// Times that an AllocSvr withdrew, because callers could not reach it or because its certificate was about to
    /// expire.
    WITHDRAWALS_TOTAL = "seqsvr_withdrawals_total", Counter, Count, ["node"];
    /// Other AllocSvrs of its set that an AllocSvr cannot reach at their addresses for callers. Some of them may not
    /// run.
    PEERS_UNREACHED = "seqsvr_peers_unreached", Gauge, Count, ["node"];
    /// Handovers of sections from an AllocSvr, by outcome (made, refused, thawed).
    HANDOVERS_TOTAL = "seqsvr_handovers_total", Counter, Count, ["set", "outcome"];
    /// Time for which a handover pauses a section, from the freeze at the source until the target serves the section.
    HANDOVER_PAUSE_SECONDS = "seqsvr_handover_pause_seconds", Histogram, Seconds, ["set"], LATENCY;
    /// Handovers after which the section started at its ceiling, because its copy was missing, unreadable or
    /// inconsistent with the section. Each such handover skips numbers.
    HANDOVER_COPIES_LOST_TOTAL = "seqsvr_handover_copies_lost_total", Counter, Count, ["set"];
    /// Upper bound of the skipped numbers, by cause (takeover, handover, advance). A section that starts at its ceiling
    /// after a takeover or a handover counts as a step and a half, or as its ceiling if that is lower.
    BURNED_SEQUENCES_TOTAL = "seqsvr_burned_sequences_total", Counter, Count, ["set", "cause"];
    /// Time for which a section was served by no node, one sample for each section, by cause. Handover: from the freeze
    /// at the source until the target serves the section. Lease: from the expiry of an AllocSvr's lease until a renewal
    /// succeeded. Takeover: from the last renewal of the former owner that the leader saw, until the change of owner
    /// was committed. Migration: from the departure to the arrival in the other set, as the leader of the source set
    /// saw it.
    SECTION_UNSERVED_SECONDS = "seqsvr_section_unserved_seconds", Histogram, Seconds, ["set", "cause"], UNSERVED;
    /// Violations of the order of numbers that a node has found; must stay 0. Causes: a counter fell between two
    /// readings (fell); a number was above the committed ceiling of its section (above_ceiling); an owner responded to
    /// an AllocSvr or a proxy with numbers that are not above the number before them (response).
    ORDER_VIOLATION_TOTAL = "seqsvr_order_violation_total", Counter, Count, ["node", "cause"];
    /// Renewals of an AllocSvr's incarnation, by outcome (ok, failed).
    RENEWALS_TOTAL = "seqsvr_renewals_total", Counter, Count, ["set", "outcome"];
    /// Memory that holds counters of touched pages.
    SLOT_BYTES = "seqsvr_slot_bytes", Gauge, Bytes, ["set", "node"];
    /// Keys of keyspaces that have a counter at a node.
    KEYS = "seqsvr_keys", Gauge, Count, ["set", "node"];
    /// Memory that holds counters of keys.
    KEY_BYTES = "seqsvr_key_bytes", Gauge, Bytes, ["set", "node"];
    /// Keys for whose counters the buckets of a node have room.
    KEY_ROOM = "seqsvr_key_room", Gauge, Count, ["set", "node"];
    /// Limit on the keys for which the buckets of a node have room (setting alloc.max_keys).
    KEYS_MAX = "seqsvr_keys_max", Gauge, Count, ["set", "node"];
    /// Counters of keys that were evicted because they were not used for long and the node or their bucket had room for
    /// few further keys. An evicted key skips numbers.
    KEYS_EVICTED_TOTAL = "seqsvr_keys_evicted_total", Counter, Count, ["set", "node"];
    /// 1 on the Raft leader of a set's store, 0 on the other members.
    RAFT_IS_LEADER = "seqsvr_raft_is_leader", Gauge, Count, ["set", "node"];
    /// 1 while a member is the leader and a majority acknowledged it recently, or while it receives messages of a
    /// leader; otherwise 0.
    RAFT_QUORUM = "seqsvr_raft_quorum", Gauge, Count, ["set", "node"];
    /// Voters of a store by state as a member sees them (all; responding, which is 0 on members that do not lead).
    RAFT_VOTERS = "seqsvr_raft_voters", Gauge, Count, ["set", "node", "state"];
    /// Round trip of the last heartbeat to another member, on the leader.
    RAFT_ROUND_TRIP_SECONDS = "seqsvr_raft_round_trip_seconds", Gauge, Seconds, ["set", "node", "member"];
    /// Times that a member transferred the leadership because no AllocSvr reached it.
    RAFT_UNREACHED_TRANSFERS_TOTAL = "seqsvr_raft_unreached_transfers_total", Counter, Count, ["set", "node"];
    /// Requests that a follower forwarded to the leader, by outcome (answered, unreachable).
    CONTROL_FORWARDED_TOTAL = "seqsvr_control_forwarded_total", Counter, Count, ["set", "node", "outcome"];
    /// Format of a store's commands and states, as a member has applied it.
    RAFT_FORMAT = "seqsvr_raft_format", Gauge, Count, ["set", "node"];
    /// Newest format that a member's release reads.
    RAFT_NEWEST_FORMAT = "seqsvr_raft_newest_format", Gauge, Count, ["set", "node"];
    /// 1 if a member has found that members of the store have different states after the same log entry; otherwise 0.
    RAFT_STATE_DIFFERS = "seqsvr_raft_state_differs", Gauge, Count, ["set", "node"];
    /// Raft term that a member of the store is in.
    RAFT_TERM = "seqsvr_raft_term", Gauge, Count, ["set", "node"];
    /// Index of the last entry in a member's log.
    RAFT_LAST_LOG_INDEX = "seqsvr_raft_last_log_index", Gauge, Count, ["set", "node"];
    /// Index of the last entry applied to a member's state.
    RAFT_APPLIED_INDEX = "seqsvr_raft_applied_index", Gauge, Count, ["set", "node"];
    /// Index that a member's newest snapshot covers.
    RAFT_SNAPSHOT_INDEX = "seqsvr_raft_snapshot_index", Gauge, Count, ["set", "node"];
    /// Time from the proposal of a command to its output from the state machine, on the leader.
    RAFT_COMMIT_SECONDS = "seqsvr_raft_commit_seconds", Histogram, Seconds, ["set"], LATENCY;
    /// Bytes of the files in a store's data directory.
    DATA_BYTES = "seqsvr_data_bytes", Gauge, Bytes, ["set", "node"];
    /// Bytes left on the file system of a store's data directory, for the user of the process.
    DATA_FREE_BYTES = "seqsvr_data_free_bytes", Gauge, Bytes, ["set", "node"];
    /// Time of one sync of the store's log to disk.
    STORAGE_SYNC_SECONDS = "seqsvr_storage_sync_seconds", Histogram, Seconds, ["set", "node"], DISK;
    /// Log entries that shared one sync.
    STORAGE_SYNC_ENTRIES = "seqsvr_storage_sync_entries", Histogram, Count, ["set", "node"], BATCH;
    /// Ceiling raises that a member of the store applied; the same on every member.
    RAISES_APPLIED_TOTAL = "seqsvr_raises_applied_total", Counter, Count, ["set", "node"];
    /// Raises of ticks that a store's leader bounded by its own clock, because the clock of the AllocSvr is ahead.
    RAISES_CLAMPED_TOTAL = "seqsvr_raises_clamped_total", Counter, Count, ["set", "node"];
    /// Raise requests of an AllocSvr that the leader of a store refused because a ceiling would rise too fast.
    RAISES_TOO_FAST_TOTAL = "seqsvr_raises_too_fast_total", Counter, Count, ["set", "node", "alloc"];
    /// Deaths of AllocSvr processes that their parents reported and that the leader of a store noted.
    DEATHS_REPORTED_TOTAL = "seqsvr_deaths_reported_total", Counter, Count, ["set", "node"];
    /// Open client connections of a node.
    CONNECTIONS = "seqsvr_connections", Gauge, Count, ["node"];
    /// Connections closed at once because a node had reached its limit.
    CONNECTIONS_REFUSED_TOTAL = "seqsvr_connections_refused_total", Counter, Count, ["node"];
    /// Connections closed because the peer sent more HTTP/2 frames (PING, SETTINGS and others) than its requests and
    /// responses explain.
    CONNECTIONS_FLOODED_TOTAL = "seqsvr_connections_flooded_total", Counter, Count, ["node"];
    /// Memory that requests and their unread responses hold.
    REQUEST_MEMORY_BYTES = "seqsvr_request_memory_bytes", Gauge, Bytes, ["node"];
    /// Requests refused because they did not fit into the memory left for their connection.
    REQUESTS_OUT_OF_MEMORY_TOTAL = "seqsvr_requests_out_of_memory_total", Counter, Count, ["node"];
    /// Connections whose TLS handshake failed: no certificate, a certificate that is not accepted here, or another
    /// protocol.
    HANDSHAKES_FAILED_TOTAL = "seqsvr_handshakes_failed_total", Counter, Count, ["node"];
    /// Unfinished connections dropped for newer connections, because a port had too many of them.
    HANDSHAKES_REFUSED_TOTAL = "seqsvr_handshakes_refused_total", Counter, Count, ["node"];
    /// Requests that the role in the sender's certificate does not allow.
    REQUESTS_DENIED_TOTAL = "seqsvr_requests_denied_total", Counter, Count, ["node"];
    /// Wrong passwords at the Redis port, and tokens that belong to no tenant.
    AUTH_FAILURES_TOTAL = "seqsvr_auth_failures_total", Counter, Count, ["node"];
    /// Numbers that a tenant's quota admitted. The first 64 tenants of the tenants file have their names as label
    /// values; all other tenants share the label value `other`.
    TENANT_NUMBERS_TOTAL = "seqsvr_tenant_numbers_total", Counter, Count, ["node", "tenant"];
    /// Requests and items that a tenant's quotas refused, by cause (rate, uid, series, cap, connections).
    TENANT_REFUSED_TOTAL = "seqsvr_tenant_refused_total", Counter, Count, ["node", "tenant", "cause"];
    /// Open connections of a tenant.
    TENANT_CONNECTIONS = "seqsvr_tenant_connections", Gauge, Count, ["node", "tenant"];
    /// Readings of the tenants file that found a change, by outcome (loaded, failed); a failed reading changes nothing.
    TENANT_RELOADS_TOTAL = "seqsvr_tenant_reloads_total", Counter, Count, ["node", "outcome"];
    /// When the certificate of a node expires, in seconds since 1970; absent without TLS.
    CERTIFICATE_EXPIRY_SECONDS = "seqsvr_certificate_expiry_seconds", Gauge, Seconds, ["node"];
    /// Readings of a node's certificate files that found a change, by outcome (loaded, failed); a failed reading
    /// changes nothing.
    CERTIFICATE_RELOADS_TOTAL = "seqsvr_certificate_reloads_total", Counter, Count, ["node", "outcome"];
    /// Seconds by which a node's wall clock is ahead of the middle of the wall clocks of its store's members; negative
    /// if it is behind.
    CLOCK_OFFSET_SECONDS = "seqsvr_clock_offset_seconds", Gauge, Seconds, ["set", "node"];
    /// Spans of traces, by outcome (exported; dropped: the queue was full; failed: the collector did not take them).
    TRACE_SPANS_TOTAL = "seqsvr_trace_spans_total", Counter, Count, ["outcome"];
    /// Seconds since the process started.
    UPTIME_SECONDS = "seqsvr_uptime_seconds", Gauge, Seconds, [];
    /// Always 1; its labels name the version and the source revision.
    BUILD_INFO = "seqsvr_build_info", Gauge, Count, ["version", "revision"];
}

/// Installs the recorder of the process, with every metric of the catalogue. It is called once per process.
///
/// # Errors
/// If the process already has a recorder.
pub fn install() -> Result<Recorder, InstallError> {
    let started = Instant::now();
    let process = Collector::default();
    let described = process.clone();
    let recorder = Recorder::install(CATALOGUE, move || {
        metrics::gauge!(UPTIME_SECONDS).set(started.elapsed().as_secs_f64());
        process.collect();
    })?;
    described.describe();
    Ok(recorder)
}

/// Sets the labels of [`BUILD_INFO`].
pub fn build_info(version: &'static str, revision: &'static str) {
    metrics::gauge!(BUILD_INFO, "version" => version, "revision" => revision).set(1.0);
}

/// Returns the metrics of a node's connections. Refused connections are also counted in the node's `events`.
#[must_use]
pub fn connection_metrics(node: &str, events: &NodeEvents) -> ConnectionMetrics {
    let refused = metrics::counter!(CONNECTIONS_REFUSED_TOTAL, "node" => node.to_owned());
    let flooded = metrics::counter!(CONNECTIONS_FLOODED_TOTAL, "node" => node.to_owned());
    ConnectionMetrics {
        open: metrics::gauge!(CONNECTIONS, "node" => node.to_owned()),
        refused: events.counted(Refusals::Connections, refused),
        flooded: events.logged(Refusals::Connections, flooded),
    }
}

/// Returns the log of a node's failed handshakes. They are also counted in the node's `events`.
#[must_use]
pub fn failed_handshakes(node: &str, events: &NodeEvents) -> RefusalLog {
    let failed = metrics::counter!(HANDSHAKES_FAILED_TOTAL, "node" => node.to_owned());
    events.logged(Refusals::Handshakes, failed)
}

/// Returns the log of a node's requests with a wrong password or token. They are also counted in the node's `events` as
/// denied requests.
#[must_use]
pub fn auth_failures(node: &str, events: &NodeEvents) -> RefusalLog {
    let failures = metrics::counter!(AUTH_FAILURES_TOTAL, "node" => node.to_owned());
    events.logged(Refusals::Denied, failures)
}

/// Returns the log of the requests that a node denies. They are also counted in the node's `events`.
#[must_use]
pub fn denied_requests(node: &str, events: &NodeEvents) -> RefusalLog {
    let denied = metrics::counter!(REQUESTS_DENIED_TOTAL, "node" => node.to_owned());
    events.logged(Refusals::Denied, denied)
}

/// Returns the times for which sections of `set` were unserved, for one of the causes of [`SECTION_UNSERVED_SECONDS`].
pub fn section_unserved(set: &str, cause: &'static str) -> metrics::Histogram {
    metrics::histogram!(SECTION_UNSERVED_SECONDS, "set" => set.to_owned(), "cause" => cause)
}

/// Returns the counter of violations of the order that the process `node` finds, for one of the causes of
/// [`ORDER_VIOLATION_TOTAL`].
pub fn order_violations(node: &str, cause: &'static str) -> metrics::Counter {
    metrics::counter!(ORDER_VIOLATION_TOTAL, "node" => node.to_owned(), "cause" => cause)
}

/// Returns the counters of the process' spans.
#[must_use]
pub fn span_counts() -> SpanCounts {
    let of = |outcome: &'static str| metrics::counter!(TRACE_SPANS_TOTAL, "outcome" => outcome);
    SpanCounts { exported: of("exported"), dropped: of("dropped"), failed: of("failed") }
}

/// Returns the counter of connections that a node dropped before their handshake was finished, to make room for newer
/// connections.
pub fn unfinished_dropped(node: &str) -> metrics::Counter {
    metrics::counter!(HANDSHAKES_REFUSED_TOTAL, "node" => node.to_owned())
}

#[cfg(test)]
mod tests;
