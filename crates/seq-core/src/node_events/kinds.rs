//! The kinds of events of a process, with their names and severities.

use crate::event_kinds::event_kinds;
use crate::state::Severity;

event_kinds! {
    /// The kind of an event of a process.
    NodeEventKind {
        /// The certificate is about to expire, or has expired.
        CertificateExpiring = "certificate_expiring",
        /// Another certificate is in use.
        CertificateReloaded = "certificate_reloaded",
        /// The wall clock was set.
        ClockStep = "clock_step",
        /// Connections were refused because a limit was reached.
        ConnectionsRefused = "connections_refused",
        /// Requests were denied.
        Denied = "denied",
        /// The disk completes writes again.
        DiskResponds = "disk_responds",
        /// A sync of the disk takes long.
        DiskSlow = "disk_slow",
        /// The process permanently stopped serving.
        Halted = "halted",
        /// TLS handshakes failed.
        HandshakesFailed = "handshakes_failed",
        /// The lease ended.
        LeaseLost = "lease_lost",
        /// There is a lease again.
        LeaseRegained = "lease_regained",
        /// The connection to a majority was lost.
        QuorumLost = "quorum_lost",
        /// There is a connection to a majority again.
        QuorumRegained = "quorum_regained",
        /// Changed files could not be used.
        ReloadFailed = "reload_failed",
        /// Changed files are in use.
        Reloaded = "reloaded",
        /// Requests were refused because too many were pending, or for lack of memory.
        RequestsShed = "requests_shed",
    }
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
