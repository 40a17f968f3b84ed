//! Bounds of a run of the model of restores, the bugs that can be planted in it, and its events.

use crate::explore::listed;

/// The bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) budget: Budget,
    /// The bug that is planted.
    pub(crate) bug: Option<Bug>,
}

impl Bounds {
    /// Returns whether the bug is planted.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// Number of events of each kind that may occur: in a run, or from a state on. Arrays are by set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Number of sets, 2 or 3.
    pub(crate) sets: u8,
    /// Numbers that are taken.
    pub(crate) serves: u8,
    pub(crate) migrations: u8,
    pub(crate) backups: [u8; 3],
    pub(crate) restores: [u8; 3],
    /// Restores with a larger margin.
    pub(crate) larger: u8,
    /// Lineages that sets begin by themselves. Sets that are in quarantine at the same time may outdo each other for as
    /// long as they learn of each other's counts before their fences arrive.
    pub(crate) begins: u8,
    pub(crate) closes: u8,
}

listed! {
    /// A variation of the protocol that must be caught.
    enum Bug;

    /// The operator counts the restores of a set since its backup.
    NthOfBackup,
    /// The margin is added once, for any number of restores since the ceiling was committed.
    OneMargin,
    /// A larger margin is no larger count, and the next restore has the default margin.
    MarginFalls,
    /// A quarantine waits for the lease of its own set only.
    WaitsByOwnTerms,
    /// A newer lineage of a set voids no response.
    VoidKeepsClaims,
    /// A tombstone that a restored set learned is not sent to its target.
    RecoveredNotSent,
    /// A restored set serves at once.
    NoQuarantine,
    /// A closed set gets no request, whether or not the backup knew that it is closed.
    ClosedNotAsked,
    /// A set that closes is inherited without its record.
    InheritanceSkipped,
}

listed! {
    /// An event that a run should reach.
    enum Event;

    /// A set began a lineage by itself, because another set knew of more restores.
    BegunByItself,
    /// The owner of a lost store took a number.
    Ghost,
    /// A quarantined section is resident again.
    Home,
    /// A record of another set showed that the section departed to the restored set.
    InResponse,
    /// A record of another set showed that the section is elsewhere.
    Gone,
    /// A quarantine waited for a lease.
    Waited,
    /// A newer lineage of a set voided its response.
    Voided,
    /// A tombstone that had arrived is sent again.
    SentAgain,
    /// The record of a closing set was inherited.
    Inherited,
    /// A set closed.
    Closed,
}
