//! Every bound that a request can exceed, with its reason.

use core::time::Duration;

/// Most numbers that an item of a call may take. It is a hundred default steps, so that one caller cannot raise a
/// section's ceiling too far above the numbers of the 99,999 other users that share it.
pub const MAX_COUNT: u32 = 1_000_000;

/// Highest number that an advance may name under any configuration. An advance also raises the section's ceiling to
/// this number, and after a takeover every uid of the section starts at the ceiling. Because of this limit, these uids
/// still have half of all numbers left. The limit is also the greatest distance that a slot can hold.
pub const MAX_ADVANCE: u64 = (1 << 62) - 1;

/// Distance above a section's ceiling up to which an advance may go, unless an operator configures a larger one. A user
/// takes fewer numbers in a lifetime, so counters of another system can be imported by advances. An advance also raises
/// the ceiling, and the other uids of the section may later start at the ceiling. Above 2^53, JavaScript, Lua and JSON
/// round numbers. It takes nine million advances of this distance to raise the ceiling so far, so no single advance
/// can.
pub const DEFAULT_MAX_ADVANCE: u64 = 1_000_000_000;

/// Longest distance by which one raise moves a ceiling, four times the largest step. Because a ceiling never falls, one
/// request without this bound could permanently use up all numbers of a section. A more distant ceiling takes several
/// raises. Raises of lanes with a clock are bounded by the clock of the store's leader instead, see
/// [`MAX_CLOCK_AHEAD_MS`].
pub const MAX_RAISE: u64 = 4 * MAX_STEP;

/// Milliseconds by which the clock of an AllocSvr may be ahead of the clock of the store's leader. If it is further
/// ahead, the leader lowers the ceilings that the AllocSvr requests for lanes with a clock. Twitter's Snowflake had the
/// same limit: it did not start with a larger difference.
pub const MAX_CLOCK_AHEAD_MS: u32 = 10_000;

/// Numbers by which the ceiling of a section may rise at once, 2^38, in addition to the rise that [`RAISE_RATE`]
/// allows. A takeover, or an advance by [`DEFAULT_MAX_ADVANCE`], uses at most a 256th of this number, so owners and
/// operators reach the limit only by much longer advances.
pub const RAISE_BURST: u64 = 1 << 38;

/// Numbers per second by which the ceiling of a section may rise in the long run, 2^30. This is ten thousand per second
/// for each of 100,000 uids, and more than an AllocSvr allocates for all its sections together. At this rate the
/// numbers of a section last for 272 years.
pub const RAISE_RATE: u64 = 1 << 30;

/// Most items in one request. A request with so many items stays under 256 KiB on the wire and takes less than a
/// millisecond of work, so it does not noticeably delay later requests on the same core.
pub const MAX_ITEMS: usize = 10_000;

/// Largest allocation request that a gRPC port accepts, in bytes. [`MAX_ITEMS`] items with counts and epochs fit, even
/// if each field has its longest encoding. The memory that a caller can make a server hold is a multiple of this size.
pub const MAX_CALL_BYTES: usize = 256 * 1024;

/// Largest request that a gRPC port accepts if it is no allocation request, in bytes. It is twice the size of
/// [`MAX_ITEMS`] items in their longest encoding.
pub const MAX_REQUEST_BYTES: usize = 512 * 1024;

/// Largest response that a client accepts, in bytes. A whole route table of [`MAX_SECTIONS`] sections is smaller.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Number of times that servers may forward a request. A node with an old route table forwards it to the owner in that
/// table. This owner may forward it once more, to the node to which the section was handed over in the meantime.
pub const MAX_HOPS: u32 = 2;

/// Most raises in one request to the store. With this limit the Raft entry stays under 128 KiB, so the log stores it in
/// one write.
pub const MAX_RAISES: usize = 4_096;

/// Most bytes of copies in one renewal. With this limit the Raft entry stays under 128 KiB even if the renewal has as
/// many releases as allowed, so the log stores it in one write.
pub const MAX_COPY_PART_BYTES: usize = 48 * 1024;

/// Largest copy of a section that the store keeps, 1 MiB. The copy of a section of the default size fits if no uid took
/// more than 2^41 numbers. If a copy is larger, the store keeps only its highest number, and the next ownership of the
/// section starts there.
pub const MAX_KEPT_COPY_BYTES: usize = 1024 * 1024;

/// Most bytes of all copies together that a store keeps, 64 MiB. It is enough for 20 million uids with numbers, and
/// limited because every snapshot contains the copies. Of any further section the store keeps only the highest number,
/// and the next ownership starts there.
pub const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of kept copies in one response of the store. The first copy is sent even if it is larger.
pub const MAX_GRANTED_COPY_BYTES: usize = 1024 * 1024;

/// Most events of a set that a store keeps. Every snapshot contains them, with at most 1 MiB.
pub const MAX_EVENTS: usize = 4_096;

/// Number of the newest events that may still grow. A change that belongs to one of them is added to it, instead of
/// becoming a new event. So if up to this many nodes lose their sections at the same time, the changes for each node
/// are one event.
pub const OPEN_EVENTS: usize = 128;

/// Longest pause, in milliseconds, between two changes that are one event. A slow migration sends one section every few
/// seconds, and its departures should still be one event.
pub const EVENT_PAUSE_MS: u64 = 10_000;

/// Most nodes that an event lists as next owners, so that it stays below 256 bytes.
pub const MAX_EVENT_NODES: usize = 16;

/// Most watchers of a set's events at one member of the store. Each watcher takes a connection and the memory of a copy
/// of a page of events.
pub const MAX_EVENT_WATCHERS: usize = 1_024;

/// Longest wait that a set's terms may have, one hour. It is limited because the sections of a dead node are
/// unavailable during the wait.
pub const MAX_LEASE_WAIT: Duration = Duration::from_secs(3_600);

/// Most sections in a layout, and so in a set. At the default size they contain 100 billion uids and take 40 MB of
/// committed state.
pub const MAX_SECTIONS: u32 = 1_048_576;

/// Most spaces in a layout: the space of uids, and the lanes of 1,023 series. The number is limited because each route
/// table contains the whole layout.
pub const MAX_SPACES: usize = 1_024;

/// Milliseconds by which the clocks of members of a set's store may differ, also between members from before and after
/// a restore. For lanes with a clock, a restore assumes that no lost ceiling was above the ceiling that is allowed at
/// the time of the restored store's clock plus this difference.
pub const MAX_CLOCK_SPREAD_MS: u64 = 60_000;

/// Most numbers that a request may skip if it asks for numbers above a given number. It is as many as an item may take.
pub const MAX_AFTER: u64 = MAX_COUNT as u64;

/// Most sections of one series. They are enough for 16,384 lanes with a section each, and the store applies an entry
/// that adds them within milliseconds.
pub const MAX_SERIES_SECTIONS: u32 = 16_384;

/// Longest encoding of a series' shape, in bytes: eight numbers of 64 bits.
pub const MAX_SHAPE_BYTES: usize = 64;

/// Most other sets that a store's log knows. The number is limited because their records stay in the committed state
/// permanently.
pub const MAX_SETS: usize = 1_024;

/// Most addresses of its AllocSvrs that a set sends to other sets. They are enough to find a node that responds, for
/// any size of the set.
pub const MAX_SET_ADDRS: usize = 16;

/// Most migrations of a set. The number is limited because the record of each migration, 64 bytes, stays in the
/// committed state permanently.
pub const MAX_MIGRATIONS: usize = 65_536;

/// Most runs of sections in one migration. With this limit the Raft entry stays under 128 KiB, so the log stores it in
/// one write.
pub const MAX_RUNS: usize = 4_096;

/// Most sections in one command by which sections depart without an owner, arrive, or are noted as arrived in another
/// set. With this limit the Raft entry stays under 128 KiB, so the log stores it in one write.
pub const MAX_MOVES: usize = 1_024;

/// Highest epoch under which a set accepts a section from another set. Each later change of the section's owner adds
/// one to the epoch, and there are enough epochs above this limit for all later changes.
pub const MAX_ARRIVED_EPOCH: u64 = 1 << 62;

/// Most restores of all sets of a cluster together. With this limit the epochs after the last restore are still below
/// [`MAX_ARRIVED_EPOCH`].
pub const MAX_RESTORES: u32 = (1 << 30) - 1;

/// Most restores that one fence adds to the count of restores. Every set that is restored afterwards raises its
/// ceilings by one [`RESTORE_MARGIN`] for each counted restore, so no set may raise the count at will. This limit
/// corresponds to a thousand margins, which are 2^50 numbers.
pub const MAX_RESTORE_STEP: u32 = 1_024;

/// Most by which the revision of another set may grow between two reports of that set, in addition to 2^32 for each
/// restore in between. It is as much as two hundred thousand commands per second for six hours.
pub const MAX_REVISION_STEP: u64 = 1 << 32;

/// Distance by which a restore raises a ceiling. It must be more than any section has allocated since the backup, and
/// is as much as a million numbers per second for twelve days.
pub const RESTORE_MARGIN: u64 = 1 << 40;

/// Highest ceiling that a restore may give a section: half of all numbers are left then.
pub const MAX_RESTORED_CEILING: u64 = 1 << 62;

/// Most ceilings in one response: a quarter of a megabyte.
pub const MAX_CEILINGS: usize = 10_000;

/// Most sections in one request of an operator to move sections to a node. An operator can still read a list of this
/// length.
pub const MAX_MOVED: usize = 1_000;

/// Most events of the audit log in the committed state, where they take less than 2 MiB. Each operation has two events.
pub const MAX_AUDIT_EVENTS: usize = 1_000;

/// Longest text in an event of the audit log, in bytes. It is enough for a command line with some names.
pub const MAX_AUDIT_TEXT: usize = 512;

/// Largest section, in uids. It is limited because a freeze copies every slot, which are 128 MiB at this size.
pub const MAX_SECTION_SIZE: u32 = 16_777_216;

/// Largest step. It is far more than a core allocates in a second, and a very small part of all numbers.
pub const MAX_STEP: u64 = 1 << 32;

/// Longest name of a set, node or series, in bytes: a DNS label.
pub const MAX_NAME_BYTES: usize = 63;

/// Longest address of a node, in bytes: a DNS name and a port.
pub const MAX_ADDR_BYTES: usize = 261;

/// Most AllocSvrs that may ever register in a set. The number is limited because their records stay in the committed
/// state permanently.
pub const MAX_NODES: usize = 1_024;

/// Largest weight of an AllocSvr. Weights are relative to each other, and a ratio of 32 to 1 covers the different
/// machines of one set. The number of points on the placement ring is proportional to the weights; the points take 84
/// MB at most.
pub const MAX_WEIGHT: u32 = 32;

/// Numbers of members that a store may have. A store with an even number of members survives no more failures than a
/// store with one member less. Every member above five slows each write.
pub const STORE_COUNTS: [usize; 3] = [1, 3, 5];
