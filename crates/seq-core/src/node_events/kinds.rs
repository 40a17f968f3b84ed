//! The kinds of events of a process, with their names and severities.

use crate::state::Severity;

/// The kind of an event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEventKind {
    /// The certificate is about to expire, or has expired.
    CertificateExpiring,
    /// Another certificate is in use.
    CertificateReloaded,
    /// The wall clock was set.
    ClockStep,
    /// Connections were refused because a limit was reached.
    ConnectionsRefused,
    /// Requests were denied.
    Denied,
    /// The disk completes writes again.
    DiskResponds,
    /// A sync of the disk takes long.
    DiskSlow,
    /// The process permanently stopped serving.
    Halted,
    /// TLS handshakes failed.
    HandshakesFailed,
    /// The lease ended.
    LeaseLost,
    /// There is a lease again.
    LeaseRegained,
    /// The order of numbers is violated.
    OrderViolated,
    /// The connection to a majority was lost.
    QuorumLost,
    /// There is a connection to a majority again.
    QuorumRegained,
    /// Changed files could not be used.
    ReloadFailed,
    /// Changed files are in use.
    Reloaded,
    /// Requests were refused because too many were pending, or for lack of memory.
    RequestsShed,
}

/// Occurrences of one cause. They are counted, because they may occur at any rate: peers of the process cause refusals,
/// and a damaged counter violates the order with each response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// Connections that were refused because a limit was reached.
    Connections,
    /// Counters of uids that are lower than at an earlier reading.
    CountersFell,
    /// Requests that the role or the token of their sender does not allow.
    Denied,
    /// TLS handshakes that failed.
    Handshakes,
    /// Numbers above the ceiling of their section.
    NumbersAboveCeiling,
    /// Responses of owners with a number that is not above the number before it.
    ResponsesOutOfOrder,
    /// Requests that were refused because too many were pending, or for lack of memory.
    Shed,
}

impl Occurrences {
    /// All causes.
    pub const ALL: [Occurrences; 7] = [
        Occurrences::Connections,
        Occurrences::CountersFell,
        Occurrences::Denied,
        Occurrences::Handshakes,
        Occurrences::NumbersAboveCeiling,
        Occurrences::ResponsesOutOfOrder,
        Occurrences::Shed,
    ];

    /// Returns the kind of the event that counts these occurrences.
    #[must_use]
    pub fn kind(self) -> NodeEventKind {
        match self {
            Occurrences::Connections => NodeEventKind::ConnectionsRefused,
            Occurrences::Denied => NodeEventKind::Denied,
            Occurrences::Handshakes => NodeEventKind::HandshakesFailed,
            Occurrences::Shed => NodeEventKind::RequestsShed,
            Occurrences::CountersFell | Occurrences::NumbersAboveCeiling | Occurrences::ResponsesOutOfOrder => {
                NodeEventKind::OrderViolated
            }
        }
    }

    /// Returns the text of the event beside its kind; empty if the kind alone states the cause.
    pub(super) fn detail(self) -> &'static str {
        match self {
            Occurrences::CountersFell => "the counter of a user fell in the memory of this process",
            Occurrences::NumbersAboveCeiling => "a number is above the ceiling of its section",
            Occurrences::ResponsesOutOfOrder => {
                "the owner of a section responded with a number that is not above the one before it"
            }
            Occurrences::Connections | Occurrences::Denied | Occurrences::Handshakes | Occurrences::Shed => "",
        }
    }

    /// Returns the place in [`Occurrences::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        self as usize
    }
}

impl NodeEventKind {
    /// All kinds, in the order of [`NodeEventKind::NAMES`].
    pub const ALL: [NodeEventKind; 17] = [
        NodeEventKind::CertificateExpiring,
        NodeEventKind::CertificateReloaded,
        NodeEventKind::ClockStep,
        NodeEventKind::ConnectionsRefused,
        NodeEventKind::Denied,
        NodeEventKind::DiskResponds,
        NodeEventKind::DiskSlow,
        NodeEventKind::Halted,
        NodeEventKind::HandshakesFailed,
        NodeEventKind::LeaseLost,
        NodeEventKind::LeaseRegained,
        NodeEventKind::OrderViolated,
        NodeEventKind::QuorumLost,
        NodeEventKind::QuorumRegained,
        NodeEventKind::ReloadFailed,
        NodeEventKind::Reloaded,
        NodeEventKind::RequestsShed,
    ];

    /// The names of all kinds, in order of the alphabet. No kind of a set's event has one of these names.
    pub const NAMES: [&'static str; 17] = [
        "certificate_expiring",
        "certificate_reloaded",
        "clock_step",
        "connections_refused",
        "denied",
        "disk_responds",
        "disk_slow",
        "halted",
        "handshakes_failed",
        "lease_lost",
        "lease_regained",
        "order_violated",
        "quorum_lost",
        "quorum_regained",
        "reload_failed",
        "reloaded",
        "requests_shed",
    ];

    /// Returns the name of the kind, in [`NodeEventKind::NAMES`].
    #[must_use]
    pub fn name(self) -> &'static str {
        NodeEventKind::NAMES[self as usize]
    }

    /// Returns the severity. Refusals that only their sender notices are part of normal operation, because strangers
    /// connect to every open port.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            NodeEventKind::Halted | NodeEventKind::OrderViolated => Severity::Fault,
            NodeEventKind::CertificateExpiring
            | NodeEventKind::ClockStep
            | NodeEventKind::ConnectionsRefused
            | NodeEventKind::DiskSlow
            | NodeEventKind::LeaseLost
            | NodeEventKind::QuorumLost
            | NodeEventKind::ReloadFailed
            | NodeEventKind::RequestsShed => Severity::Attention,
            NodeEventKind::CertificateReloaded
            | NodeEventKind::Denied
            | NodeEventKind::DiskResponds
            | NodeEventKind::HandshakesFailed
            | NodeEventKind::LeaseRegained
            | NodeEventKind::QuorumRegained
            | NodeEventKind::Reloaded => Severity::Info,
        }
    }
}
