//! The limits on requests, state and names of the service, each with its reason.

use core::time::Duration;

/// Maximum count of numbers that one item of a call may take. It is a hundred default steps, so that one caller cannot
/// raise a section's ceiling too far above the numbers of the 99,999 other users that share the section.
pub const MAX_COUNT: u32 = 1_000_000;

/// Highest number to which an advance may raise a uid under any configuration. An advance also raises the section's
/// ceiling to this number, and after a takeover every uid of the section starts at the ceiling. Because of this limit,
/// these uids still have half of all numbers left. The limit is also the greatest distance that a slot can hold.
pub const MAX_ADVANCE: u64 = (1 << 62) - 1;

/// Default of the longest distance above a section's ceiling to which an advance may raise a uid. An operator may
/// configure another distance. A user takes fewer numbers in a lifetime, so advances can import the counters of another
/// system. The distance is limited because an advance also raises the ceiling, and other uids of the section may later
/// start at the ceiling. JavaScript, Lua and JSON round numbers above 2^53, and it takes nine million advances of this
/// distance to raise a ceiling to 2^53.
pub const DEFAULT_MAX_ADVANCE: u64 = 1_000_000_000;

/// Longest distance by which one raise moves a ceiling, four times the largest step. A ceiling never falls, so without
/// this limit a single request could permanently use up all numbers of a section. A ceiling that is further away takes
/// several raises. Raises of lanes with a clock are limited by the clock of the store's leader instead, see
/// [`MAX_CLOCK_AHEAD_MS`].
pub const MAX_RAISE: u64 = 4 * MAX_STEP;

/// Maximum time, in milliseconds, by which the clock of an AllocSvr may be ahead of the clock of the store's leader. If
/// the AllocSvr's clock is further ahead, the leader lowers the ceilings that the AllocSvr requests for lanes with a
/// clock. Twitter's Snowflake had the same limit: it did not start if the clocks differed by more.
pub const MAX_CLOCK_AHEAD_MS: u32 = 10_000;

/// Distance by which the ceiling of a section may rise at once, in addition to the rise that [`RAISE_RATE`] allows over
/// time. It is 2^38 numbers. A takeover, or an advance by [`DEFAULT_MAX_ADVANCE`], uses at most a 256th of this
/// distance, so owners and operators reach the limit only by much longer advances.
pub const RAISE_BURST: u64 = 1 << 38;

/// Rate at which the ceiling of a section may rise in the long run, in numbers per second. It is 2^30, which is ten
/// thousand per second for each of 100,000 uids, and more than an AllocSvr allocates for all its sections together. At
/// this rate the numbers of a section last for 272 years.
pub const RAISE_RATE: u64 = 1 << 30;

/// Maximum number of items in one request. A request with this number of items takes less than 256 KiB on the wire and
/// less than a millisecond of work, so it does not noticeably delay later requests on the same core.
pub const MAX_ITEMS: usize = 10_000;

/// Maximum size of an allocation request at a gRPC port, in bytes. [`MAX_ITEMS`] items with counts and epochs fit, even
/// if each field has its longest encoding. The size is limited because a caller can make a server hold several requests
/// of this size in memory.
pub const MAX_CALL_BYTES: usize = 256 * 1024;

/// Maximum size, in bytes, of a request at a gRPC port that is not an allocation request. It is twice the size of
/// [`MAX_ITEMS`] items in their longest encoding.
pub const MAX_REQUEST_BYTES: usize = 512 * 1024;

/// Maximum size of a response that a client accepts, in bytes. A whole route table of [`MAX_SECTIONS`] sections is
/// smaller.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of times that servers may forward a request. A node with an outdated route table forwards the request
/// to the owner in that table. If this owner has handed the section over in the meantime, it forwards the request once
/// more, to the next owner.
pub const MAX_HOPS: u32 = 2;

/// Maximum number of raises in one request to the store. With this limit the Raft entry stays under 128 KiB, so the log
/// stores it in one write.
pub const MAX_RAISES: usize = 4_096;

/// Maximum total size of the parts of section copies in one renewal, in bytes. With this limit the Raft entry stays
/// under 128 KiB even if the renewal releases as many sections as it may, so the log stores the entry in one write.
pub const MAX_COPY_PART_BYTES: usize = 48 * 1024;

/// Size up to which the store keeps the copy of a section, in bytes: 1 MiB. The copy of a section of the default size
/// fits if no uid took more than 2^41 numbers. If a copy is larger, the store keeps only the highest number in the
/// copy, and the next ownership of the section starts at this number.
pub const MAX_KEPT_COPY_BYTES: usize = 1024 * 1024;

/// Maximum total size of the copies that a store keeps, in bytes: 64 MiB. It is enough for 20 million uids with
/// numbers, and limited because every snapshot contains the copies. If the copy of a further section would exceed the
/// limit, the store keeps only the highest number in that copy, and the next ownership of the section starts at this
/// number.
pub const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum total size of the kept copies in one response of the store, in bytes. The first copy is sent even if it
/// alone is larger.
pub const MAX_GRANTED_COPY_BYTES: usize = 1024 * 1024;

/// Maximum number of events that a store keeps for its set. It is limited because every snapshot contains the events,
/// which take at most 1 MiB.
pub const MAX_EVENTS: usize = 4_096;

/// Number of the newest events to which a later change may be added. If a change belongs to one of these events, it is
/// added to that event instead of becoming a new event. So if up to this many nodes lose their sections at the same
/// time, all changes for one node are one event.
pub const OPEN_EVENTS: usize = 128;

/// Maximum time, in milliseconds, between a change and the next change that is added to the same event. A slow
/// migration sends one section every few seconds, and all its departures should be one event.
pub const EVENT_PAUSE_MS: u64 = 10_000;

/// Maximum number of nodes that an event lists as next owners, so that the event stays below 256 bytes.
pub const MAX_EVENT_NODES: usize = 16;

/// Maximum number of bytes of the cause in an event, so that the event stays below 256 bytes.
pub const MAX_EVENT_CAUSE_BYTES: usize = 96;

/// Maximum number of clients that watch a set's events at one member of the store. Each of them takes a connection, and
/// memory for a copy of one page of events.
pub const MAX_EVENT_WATCHERS: usize = 1_024;

/// Longest lease wait that the terms of a set may have, one hour. It is limited because the sections of a dead node are
/// unavailable during the wait.
pub const MAX_LEASE_WAIT: Duration = Duration::from_secs(3_600);

/// Maximum number of sections in a layout, and so in a set. At the default size of a section they contain 100 billion
/// uids and take 40 MB of committed state.
pub const MAX_SECTIONS: u32 = 1_048_576;

/// Maximum number of spaces in a layout, which are the space of uids and the lanes of 1,023 series. It is limited
/// because each route table contains the whole layout.
pub const MAX_SPACES: usize = 1_024;

/// Maximum number of bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;

/// Maximum number of keys with a counter in one bucket. Their copy, which a handover has in memory twice, takes as much
/// memory as those of two of the largest sections of uids.
pub const MAX_BUCKET_KEYS: usize = MAX_SECTION_SIZE as usize;

/// Maximum number of keyspaces of a cluster. Their buckets are a quarter of [`MAX_SECTIONS`].
pub const MAX_KEYSPACES: usize = 16;

/// Maximum time, in milliseconds, by which the clocks of two members of a set's store may differ, even if one of them
/// was a member before a restore from a backup and the other is a member after it. A restore relies on this limit for
/// lanes with a clock. It assumes that no lost ceiling was above the highest ceiling that is allowed at the time on the
/// restored store's clock plus this difference.
pub const MAX_CLOCK_SPREAD_MS: u64 = 60_000;

/// Maximum count of numbers that a request may skip when it asks for numbers above a given number. It is the same as
/// the maximum count of one item.
pub const MAX_AFTER: u64 = MAX_COUNT as u64;

/// Maximum number of sections of one series. It is enough for 16,384 lanes with a section for each lane. The store
/// applies a log entry that adds this number of sections within milliseconds.
pub const MAX_SERIES_SECTIONS: u32 = 16_384;

/// Maximum length of the encoding of a series' shape, in bytes. Eight numbers of 64 bits fit.
pub const MAX_SHAPE_BYTES: usize = 64;

/// Maximum number of other sets that a store's log knows. It is limited because the records of these sets stay in the
/// committed state permanently.
pub const MAX_SETS: usize = 1_024;

/// Maximum number of its own AllocSvrs whose addresses a set sends to other sets. For a set of any size, these
/// addresses are enough to find an AllocSvr that responds.
pub const MAX_SET_ADDRS: usize = 16;

/// Maximum number of migrations that may ever begin in one set, and also of migrations of other sets by which sections
/// arrived in it. It is limited because the record of each migration, 64 bytes, stays in the committed state
/// permanently.
pub const MAX_MIGRATIONS: usize = 65_536;

/// Maximum number of runs of sections in one migration. With this limit the Raft entry stays under 128 KiB, so the log
/// stores it in one write.
pub const MAX_RUNS: usize = 4_096;

/// Maximum number of sections in one command of a migration. Such a command lets sections depart without an owner, lets
/// sections arrive, or notes that sections arrived in another set. With this limit the Raft entry stays under 128 KiB,
/// so the log stores it in one write.
pub const MAX_MOVES: usize = 1_024;

/// Highest epoch under which a set accepts a section from another set. Each later change of the section's owner adds
/// one to the epoch, and there are enough epochs above this limit for all later changes.
pub const MAX_ARRIVED_EPOCH: u64 = 1 << 62;

/// Maximum number of restores of all sets of a cluster together. With this limit the epochs after the last restore are
/// still below [`MAX_ARRIVED_EPOCH`].
pub const MAX_RESTORES: u32 = (1 << 30) - 1;

/// Maximum number by which the count of restores in another set's lineage may be above the highest count that this
/// set's log knows. Every set that is restored afterwards raises its ceilings by one [`RESTORE_MARGIN`] for each
/// counted restore, so no set may raise the count at will. This limit corresponds to a thousand margins, which are 2^50
/// numbers.
pub const MAX_RESTORE_STEP: u32 = 1_024;

/// Maximum growth of another set's revision between two reports of that set, in addition to 2^32 for each restore of
/// that set in between. It is as much as two hundred thousand commands per second for six hours.
pub const MAX_REVISION_STEP: u64 = 1 << 32;

/// Distance by which a restore from a backup raises the ceiling of a section. It must be more than any section has
/// allocated since the backup was made, and is as much as a million numbers per second for twelve days.
pub const RESTORE_MARGIN: u64 = 1 << 40;

/// Highest ceiling that a restore from a backup may give a section. Half of all numbers are left above this ceiling.
pub const MAX_RESTORED_CEILING: u64 = 1 << 62;

/// Maximum number of ceilings in one response. They take a quarter of a megabyte.
pub const MAX_CEILINGS: usize = 10_000;

/// Maximum number of sections that an operator may move to a node with one request. An operator can still read a list
/// of this length.
pub const MAX_MOVED: usize = 1_000;

/// Maximum number of events of the audit log in the committed state, where they take less than 2 MiB. Each operation
/// has two events, its begin and its end.
pub const MAX_AUDIT_EVENTS: usize = 1_000;

/// Maximum length of a text in an event of the audit log, in bytes. It is enough for a command line with some names.
pub const MAX_AUDIT_TEXT: usize = 512;

/// Maximum number of uids in a section. It is limited because a freeze copies all slots of the section, which take 128
/// MiB at this size.
pub const MAX_SECTION_SIZE: u32 = 16_777_216;

/// Largest step of a section. It is far more than a core allocates in a second, and a very small part of all numbers.
pub const MAX_STEP: u64 = 1 << 32;

/// Maximum length of the name of a set, node or series, in bytes. It is the length of a DNS label.
pub const MAX_NAME_BYTES: usize = 63;

/// Maximum length of the address of a node, in bytes. It is enough for a DNS name and a port.
pub const MAX_ADDR_BYTES: usize = 261;

/// Maximum number of AllocSvrs that may ever register in a set. It is limited because their records stay in the
/// committed state permanently.
pub const MAX_NODES: usize = 1_024;

/// Largest weight of an AllocSvr. Weights are relative to each other, and a ratio of 32 to 1 covers the different
/// machines of one set. The weight is limited because the number of a node's points on the hash ring of
/// [`placement`](crate::placement) is proportional to its weight. All points together take at most 84 MB.
pub const MAX_WEIGHT: u32 = 32;

/// The allowed numbers of members of a store. A store with an even number of members survives no more failures than a
/// store with one member less. Each member above five makes every write slower.
pub const STORE_COUNTS: [usize; 3] = [1, 3, 5];
