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

/// A kind of refusal. Peers of the process cause refusals, so they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// A connection, because a limit was reached.
    Connections,
    /// A request that the role or the token of its sender does not allow.
    Denied,
    /// A TLS handshake that failed.
    Handshakes,
    /// A request, because too many were pending or for lack of memory.
    Shed,
}

impl Refusals {
    /// All kinds of refusal.
    pub const ALL: [Refusals; 4] = [Refusals::Connections, Refusals::Denied, Refusals::Handshakes, Refusals::Shed];

    /// Returns the kind of the event that counts these refusals.
    #[must_use]
    pub fn kind(self) -> NodeEventKind {
        match self {
            Refusals::Connections => NodeEventKind::ConnectionsRefused,
            Refusals::Denied => NodeEventKind::Denied,
            Refusals::Handshakes => NodeEventKind::HandshakesFailed,
            Refusals::Shed => NodeEventKind::RequestsShed,
        }
    }

    /// Returns the place in [`Refusals::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        match self {
            Refusals::Connections => 0,
            Refusals::Denied => 1,
            Refusals::Handshakes => 2,
            Refusals::Shed => 3,
        }
    }
}

impl NodeEventKind {
    /// All kinds, in the order of [`NodeEventKind::NAMES`].
    pub const ALL: [NodeEventKind; 16] = [
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
        NodeEventKind::QuorumLost,
        NodeEventKind::QuorumRegained,
        NodeEventKind::ReloadFailed,
        NodeEventKind::Reloaded,
        NodeEventKind::RequestsShed,
    ];

    /// The names of all kinds, in order of the alphabet. No kind of a set's event has one of these names.
    pub const NAMES: [&'static str; 16] = [
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
            NodeEventKind::Halted => Severity::Fault,
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
