//! The faults of a world. Each is a window of time with a number, so that a run can be repeated with some of them.

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000 * MS;

/// How long things go wrong.
pub(crate) const FAULTS_END: u64 = 30 * SECOND;

/// One kind of fault, with its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages from one host to another are lost.
    CutOneWay { from: usize, to: usize },
    /// Messages between two hosts are lost.
    Cut { a: usize, b: usize },
    /// A host is cut off, outwards, inwards or both.
    Isolate { host: usize, outward: bool, inward: bool },
    /// Messages are lost, so many in a thousand.
    Loss(u64),
    /// Messages arrive twice, so many in a thousand.
    Duplicates(u64),
    /// Messages take up to so long, in milliseconds.
    Slow(u64),
    /// A few messages are delivered up to 20 seconds later.
    Ancient(u64),
    /// Responses of the store are lost, so many in a thousand.
    ResponsesLost(u64),
    /// Responses of other AllocSvrs in handovers are lost, so many in a thousand.
    PeerResponsesLost(u64),
    /// A process does nothing for a while.
    Stall(usize),
    /// A machine sleeps.
    Suspend(usize),
    /// A process dies, and its successor starts after a while.
    Crash(usize),
    /// A second process is started under a name.
    Twin(usize),
    /// A process leaves in good order, and its successor starts.
    Leave(usize),
    /// An operator drains an AllocSvr.
    Drain(usize),
    /// An operator moves a section to an AllocSvr, and has it balanced again later.
    Move(u32, usize),
    /// An operator pauses balancing in a set permanently.
    PauseBalancing(usize),
    /// A wall clock is set, by so many milliseconds.
    WallStep(usize, i64),
    /// Another member leads; the old one does not know for a while.
    Elect(usize),
    /// Nothing is committed in a set.
    StorePause(usize),
    /// A member of the store does nothing for a while; what is sent to it waits.
    StallMember(usize),
    /// The arbiters of a set evaluate late.
    LateLook(usize),
    /// Proposals of the arbiters of a set are committed late.
    LateReassign(usize),
    /// Responses of a set are read from the state later than their entry was applied.
    LateNews(usize),
    /// The link between a machine and the store is cut; those to callers and other AllocSvrs work.
    Severed(usize),
    /// One process under a name receives no response of the store.
    Mute(usize, usize),
    /// Renewals of a name are lost, and raises too; commits of handovers arrive.
    OnlyCommits(usize),
    /// Raises of a name are lost.
    NoRaises(usize),
    /// Commits of handovers of a name are lost.
    NoCommits(usize),
    /// The responses to them are lost.
    NoCommitResponses(usize),
    /// Renewals of a name are lost.
    NoRenewals(usize),
    /// Forged messages of a handover are sent to a name.
    Forge(usize),
    /// Every member's data directory is put back to its state of so many milliseconds before, and all of them start
    /// again.
    RollBack(u64),
    /// Some sections of a set are to migrate.
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
    /// Processes of a set receive calls of the other set, and none of their responses arrives there.
    Silence(usize),
    /// The routes of a process have sections in the other set that are not there, under the epoch of the caller.
    Unsettle(usize),
    /// A backup of a set is made.
    Backup(usize),
    /// A set is restored from its backup.
    Restore(usize),
    /// A set is merged into the other set. A migration to the merged set may begin just before that closes.
    Merge(usize, bool),
    /// A clock runs at a rate beyond every margin, in millionths: only promises without clocks hold.
    WildRate(usize, u64),
}

/// One fault.
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

/// What kind of a world a seed makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Sections change owner only by handover: no gap, no request refused.
    Calm,
    /// Everything breaks, clocks within their margin: every promise.
    Stormy,
    /// Clocks beyond any margin: the promises that need none.
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
