//! Every bound that a request can exceed, with its reason.

use core::time::Duration;

/// Most numbers that an item of a call may take: a hundred default steps, so that one caller cannot push a section's
/// shared ceiling out of sight of the other 99,999 users.
pub const MAX_COUNT: u32 = 1_000_000;

/// Highest number that an advance may name under any configuration. The ceiling goes there with it, and the section's
/// next owner starts every uid of the section at the ceiling, with half of all numbers still ahead. It is also the
/// highest distance that a slot holds.
pub const MAX_ADVANCE: u64 = (1 << 62) - 1;

/// Distance above its section's ceiling that an advance may go unless an operator configures more. It is more than the
/// numbers that a user takes in a lifetime, so that an import fits. Nine million such advances fit below 2^53, where
/// JavaScript, Lua and JSON doubles begin to round, so no single request takes the neighbours there.
pub const DEFAULT_MAX_ADVANCE: u64 = 1_000_000_000;

/// Longest distance that one raise moves a ceiling: four of the largest steps. A ceiling never falls, so one request
/// must not spend the numbers of a section; a ceiling further away takes several raises. The bound of ticks is the
/// clock of the store's leader instead, see [`MAX_CLOCK_AHEAD_MS`].
pub const MAX_RAISE: u64 = 4 * MAX_STEP;

/// Milliseconds by which the clock of an AllocSvr may be ahead of the clock of its store's leader before its raises of
/// ticks are cut short: the difference up to which Twitter's Snowflake started.
pub const MAX_CLOCK_AHEAD_MS: u32 = 10_000;

/// Numbers that the ceiling of a section may rise at once, 2^38, in addition to [`RAISE_RATE`]. A takeover, or an
/// advance as far as [`DEFAULT_MAX_ADVANCE`], is at most a 256th of it, so owners and operators reach it only by far
/// advances.
pub const RAISE_BURST: u64 = 1 << 38;

/// Numbers a second that the ceiling of a section may rise in the long run, 2^30: ten thousand a second for each of its
/// 100,000 uids, more than an AllocSvr allocates for all of its sections. At this rate the numbers of a section last
/// for 272 years.
pub const RAISE_RATE: u64 = 1 << 30;

/// Most items in one request: a full batch stays under 256 KiB on the wire and under a millisecond of work, so it does
/// not delay the requests behind it on its core.
pub const MAX_ITEMS: usize = 10_000;

/// Largest allocation request that a gRPC port accepts, in bytes: [`MAX_ITEMS`] items with counts and epochs, each at
/// its widest. The memory that a caller can make a server hold is a multiple of it.
pub const MAX_CALL_BYTES: usize = 256 * 1024;

/// Largest request of another kind that a gRPC port accepts, in bytes: [`MAX_ITEMS`] items of the widest encoding,
/// twice over.
pub const MAX_REQUEST_BYTES: usize = 512 * 1024;

/// Largest response that a client accepts, in bytes: a whole route table of [`MAX_SECTIONS`] sections, with room.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Number of times that servers may forward a request: from a node with an old table to the owner in that table, and
/// from there to the node that the section was handed over to in the meantime.
pub const MAX_HOPS: u32 = 2;

/// Most raises in one request to the store: the Raft entry stays under 128 KiB, one write of the log.
pub const MAX_RAISES: usize = 4_096;

/// Most bytes of copies in one renewal: with the most releases its Raft entry stays under 128 KiB, one write of the
/// log.
pub const MAX_COPY_PART_BYTES: usize = 48 * 1024;

/// Largest copy of a section that the store keeps, 1 MiB: a section of the default size in which every uid took up to
/// 2^41 numbers. If the copy is larger, the next ownership of the section starts at the copy's highest number.
pub const MAX_KEPT_COPY_BYTES: usize = 1024 * 1024;

/// Most bytes of the copies that a store keeps, 64 MiB: the copies of 20 million touched uids. They are in every
/// snapshot. Any further section starts at its highest number.
pub const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of kept copies in one response of the store, in addition to the first copy.
pub const MAX_GRANTED_COPY_BYTES: usize = 1024 * 1024;

/// Most events of a set that a store keeps, 1 MiB at most; they are in every snapshot.
pub const MAX_EVENTS: usize = 4_096;

/// Newest events that a change may continue: the takeovers and handovers of this many nodes at once are one event each.
pub const OPEN_EVENTS: usize = 128;

/// Longest pause, in milliseconds, between two changes of one event: a slow migration sends a section each few seconds.
pub const EVENT_PAUSE_MS: u64 = 10_000;

/// Most nodes that an event lists as next owners, so that it stays below 256 bytes.
pub const MAX_EVENT_NODES: usize = 16;

/// Most watchers of the events of a set at one member: each has a connection, and a copy of a page of events.
pub const MAX_EVENT_WATCHERS: usize = 1_024;

/// Longest wait that a set's terms may have, one hour: the sections of a dead node are unavailable for that time.
pub const MAX_LEASE_WAIT: Duration = Duration::from_secs(3_600);

/// Most sections in a set: 100 billion uids at the default size, and 40 MB of committed state.
pub const MAX_SECTIONS: u32 = 1_048_576;

/// Most spaces in a layout: the uids, and 1,023 series of lanes. The whole layout is in each route table.
pub const MAX_SPACES: usize = 1_024;

/// Milliseconds by which the clocks of a set's stores may differ over time and restores: the ceilings of ticks that a
/// restore may have lost are bounded by the clock of the restored store, with this much more.
pub const MAX_CLOCK_SPREAD_MS: u64 = 60_000;

/// Most numbers by which a request for numbers above a given one may skip ahead, as many as an item may take.
pub const MAX_AFTER: u64 = MAX_COUNT as u64;

/// Most sections of one series: enough for one for each of 16,384 lanes, and an entry that adds them takes
/// milliseconds.
pub const MAX_SERIES_SECTIONS: u32 = 16_384;

/// Longest encoding of a series' shape, in bytes: eight numbers of 64 bits.
pub const MAX_SHAPE_BYTES: usize = 64;

/// Most other sets that a store's log knows, because their records stay in the committed state permanently.
pub const MAX_SETS: usize = 1_024;

/// Most addresses of AllocSvrs that a set states of itself: enough to find a node that responds, for any size of the
/// set.
pub const MAX_SET_ADDRS: usize = 16;

/// Most migrations in a store's log, because the record of each migration stays there permanently, 64 bytes each.
pub const MAX_MIGRATIONS: usize = 65_536;

/// Most runs of sections in one migration: its entry stays under 128 KiB, one write of the log.
pub const MAX_RUNS: usize = 4_096;

/// Most sections in one departure without a freeze, arrival or note of arrivals: the entry stays under 128 KiB, one
/// write of the log.
pub const MAX_MOVES: usize = 1_024;

/// Highest epoch with which this set accepts a section from another set. Each later change of the section's owner adds
/// one, and the epochs above this limit are enough for all of them.
pub const MAX_ARRIVED_EPOCH: u64 = 1 << 62;

/// Most restores of the sets of a cluster: the epochs after the last restore are within [`MAX_ARRIVED_EPOCH`].
pub const MAX_RESTORES: u32 = (1 << 30) - 1;

/// Most restores that a fence adds to the count: a thousand margins, 2^50 numbers. Each counted restore costs every set
/// that is restored afterwards a margin, so no set may raise the count at will.
pub const MAX_RESTORE_STEP: u32 = 1_024;

/// Longest distance that the revision of another set advances between two readings of its facts, in addition to the
/// 2^32 of each restore: two hundred thousand commands a second for six hours.
pub const MAX_REVISION_STEP: u64 = 1 << 32;

/// Distance by which a restore raises a ceiling: more numbers than any section has allocated since its backup, a
/// million a second for twelve days.
pub const RESTORE_MARGIN: u64 = 1 << 40;

/// Highest ceiling that a restore may give a section: half of all numbers are left then.
pub const MAX_RESTORED_CEILING: u64 = 1 << 62;

/// Most ceilings in one response: a quarter of a megabyte.
pub const MAX_CEILINGS: usize = 10_000;

/// Most sections in one request to move them to a node: a page that an operator can read.
pub const MAX_MOVED: usize = 1_000;

/// Most events of the audit log in the committed state, two for each operation: less than 2 MiB of it.
pub const MAX_AUDIT_EVENTS: usize = 1_000;

/// Longest text in an event of the audit log, in bytes: a command line with some names.
pub const MAX_AUDIT_TEXT: usize = 512;

/// Largest section, in uids: freezing it copies every slot, 128 MiB at this size.
pub const MAX_SECTION_SIZE: u32 = 16_777_216;

/// Largest step: far more than a core allocates in a second, and far from the end of the numbers.
pub const MAX_STEP: u64 = 1 << 32;

/// Longest name of a set, node or series, in bytes: a DNS label.
pub const MAX_NAME_BYTES: usize = 63;

/// Longest address of a node, in bytes: a DNS name and a port.
pub const MAX_ADDR_BYTES: usize = 261;

/// Most AllocSvrs that a set may ever register, because their records stay in the committed state permanently.
pub const MAX_NODES: usize = 1_024;

/// Largest weight of an AllocSvr: weights are relative to each other, and 32 to 1 spans the machines of one set. The
/// placement ring has points in proportion, 84 MB of them at worst.
pub const MAX_WEIGHT: u32 = 32;

/// Numbers of members that a store may have: an even number survives no more failures than one member less, and every
/// member past five slows each write.
pub const STORE_COUNTS: [usize; 3] = [1, 3, 5];
