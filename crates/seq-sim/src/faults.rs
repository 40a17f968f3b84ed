//! The faults that happen in a simulated world. Each fault lasts for a limited time and has a number, so that a run can
//! be repeated with only some of its faults.

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000 * MS;

/// The time at which all faults of a world of one set end. No fault begins after this time.
pub(crate) const FAULTS_END: u64 = 30 * SECOND;

/// A kind of fault, with its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages from one host to another are lost.
    CutOneWay { from: usize, to: usize },
    /// Messages between two hosts are lost.
    Cut { a: usize, b: usize },
    /// Messages from `host` to all other hosts are lost if `outward` is set, and messages from all other hosts to
    /// `host` if `inward` is set.
    Isolate { host: usize, outward: bool, inward: bool },
    /// Of a thousand messages, this number are lost.
    Loss(u64),
    /// Of a thousand messages, this number arrive twice.
    Duplicates(u64),
    /// Half of the messages are delayed, each by up to this number of milliseconds.
    Slow(u64),
    /// Of a thousand messages, this number arrive up to 20 seconds late.
    Ancient(u64),
    /// Of a thousand responses of stores, this number are lost.
    ResponsesLost(u64),
    /// Of a thousand responses of targets of handovers, this number are lost.
    PeerResponsesLost(u64),
    /// A process stalls.
    Stall(usize),
    /// A machine is suspended.
    Suspend(usize),
    /// A process dies, and its successor starts after a while.
    Crash(usize),
    /// A second process of an AllocSvr is started under the same name.
    Twin(usize),
    /// A process leaves in an orderly way, and its successor starts.
    Leave(usize),
    /// An operator drains an AllocSvr.
    Drain(usize),
    /// An operator moves a section to an AllocSvr. At the end of the fault, the operator allows balancing to move the
    /// section again.
    Move(u32, usize),
    /// An operator pauses balancing in a set permanently.
    PauseBalancing(usize),
    /// The wall clock of a machine is set forward by this number of milliseconds, or back if the number is negative.
    WallStep(usize, i64),
    /// A member of a store becomes the leader, while the previous leader still believes for some time that it leads.
    Elect(usize),
    /// The store of a set commits no entries.
    StorePause(usize),
    /// A member of the store stalls; its messages wait.
    StallMember(usize),
    /// The arbiters of a set evaluate late.
    LateLook(usize),
    /// Changes of owner that the arbiters of a set propose are committed late.
    LateReassign(usize),
    /// The store of a set reads the content of a response from its state some time after it has applied the entry of
    /// the request.
    LateNews(usize),
    /// The links between the machine of an AllocSvr and the members of its store are cut, while the machine's links to
    /// callers and other AllocSvrs work.
    Severed(usize),
    /// The process that listens on the given port of an AllocSvr receives no response of the store.
    Mute(usize, usize),
    /// Renewals and raises that an AllocSvr sends to the store are lost, while its requests to commit handovers arrive.
    OnlyCommits(usize),
    /// Raises of an AllocSvr are lost.
    NoRaises(usize),
    /// Commits of handovers of an AllocSvr are lost.
    NoCommits(usize),
    /// Responses to an AllocSvr's commits of handovers are lost.
    NoCommitResponses(usize),
    /// Renewals of an AllocSvr are lost.
    NoRenewals(usize),
    /// Forged messages of a handover are sent to an AllocSvr.
    Forge(usize),
    /// The data directories of all members of the store are put back to their state of this number of milliseconds ago,
    /// and all members start again.
    RollBack(u64),
    /// A migration of some sections of a set begins.
    Migrate(usize, u64),
    /// The migrations of a set are paused.
    PauseMigrations(usize),
    /// The newest migration of a set is rolled back.
    Rollback(usize),
    /// The newest migration of a set is completed.
    Complete(usize),
    /// All processes of a set end.
    Blackout(usize),
    /// Messages between the stores of two sets are lost, or arrive seconds later.
    Divide,
    /// Processes of a set receive calls that processes of the other set forward, but their responses to the other set
    /// are lost.
    Silence(usize),
    /// The routes of an AllocSvr wrongly state that all sections are in the other set. For a forwarded call, they state
    /// the epoch that the call names.
    Unsettle(usize),
    /// A backup of a set is made.
    Backup(usize),
    /// A set is restored from its backup.
    Restore(usize),
    /// A set is merged into the other set. If the second field is true, a migration to the merged set begins just
    /// before the merged set closes.
    Merge(usize, bool),
    /// The creation of series is handed to the other set.
    HandOver,
    /// The clocks of a machine run at this rate, in millionths, which is outside of every margin. Only promises that
    /// need no clock hold in such a world.
    WildRate(usize, u64),
}

/// A fault, with its begin and duration in nanoseconds of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) kind: Kind,
}

impl Fault {
    pub(crate) fn describe(&self) -> String {
        let (at, lasts) = (self.at as f64 / SECOND as f64, self.lasts as f64 / SECOND as f64);
        format!("at {at:.3} s for {lasts:.3} s: {:?}", self.kind)
    }
}

/// The kind of a world. It decides which faults are drawn and which promises are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Sections change owner only by handovers and migrations. The checks require that numbers have no gaps and that no
    /// call for numbers is refused.
    Calm,
    /// All faults may occur except wrong clock rates. All promises are checked, except the promises of calm weather.
    Stormy,
    /// Clocks run at rates outside of every margin. Only the promises that need no clock are checked.
    Wild,
}

impl Weather {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Weather::Calm => "calm",
            Weather::Stormy => "stormy",
            Weather::Wild => "wild",
        }
    }
}
