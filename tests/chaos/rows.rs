//! The rows: the fault of each row, its length, and its assertions in addition to the order.

use seq_testkit::rows::Tier;

use crate::machine::{self, Need};

mod allocs;
mod clocks;
mod crashes;
mod disks;
mod distance;
mod failover;
mod ids;
mod keys;
mod names;
mod pairs;
mod pauses;
mod sets;
mod skew;
mod stores;

/// One fault.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) tier: Tier,
    pub(crate) needs: &'static [Need],
    pub(crate) run: fn(),
}

impl seq_testkit::rows::Row for Row {
    fn name(&self) -> &str {
        self.name
    }

    fn what(&self) -> &str {
        self.what
    }

    fn tier(&self) -> Tier {
        self.tier
    }

    fn lacks(&self) -> Vec<String> {
        machine::lacks(self.needs).into_iter().map(ToString::to_string).collect()
    }

    fn run(&self) {
        (self.run)();
    }
}

const NET: &[Need] = &[Need::Namespaces];
const CUTS: &[Need] = &[Need::Namespaces, Need::Iptables];
const DISTANCES: &[Need] = &[Need::Namespaces, Need::Iptables, Need::Python];
const SYNCS: &[Need] = &[Need::Namespaces, Need::Strace];
const CLOCKS: &[Need] = &[Need::Namespaces, Need::Faketime];
const MEMORY: &[Need] = &[Need::Namespaces, Need::MemoryGroups];
const DISKS: &[Need] = &[Need::Namespaces, Need::Disk];
const ALL: &[Need] = &[Need::Namespaces, Need::Iptables, Need::Faketime, Need::Disk];

const fn row(name: &'static str, tier: Tier, needs: &'static [Need], run: fn(), what: &'static str) -> Row {
    Row { name, what, tier, needs, run }
}

/// Returns the number of repetitions in a row, which `CHAOS_TRIALS` sets.
fn trials(usual: usize) -> usize {
    let trials = std::env::var("CHAOS_TRIALS");
    trials.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("CHAOS_TRIALS={text}: a number of trials")))
}

/// All rows, in the order in which they run.
pub(crate) const ROWS: &[Row] = &[
    row("alloc_kill", Tier::Short, NET, allocs::kill, "an allocator is killed; others serve its sections"),
    row(
        "alloc_kill_and_restart",
        Tier::Full,
        NET,
        allocs::kill_and_restart,
        "an allocator is killed and restarted at once, five times",
    ),
    row(
        "alloc_restart_in_turn",
        Tier::Short,
        NET,
        allocs::restart_in_turn,
        "each allocator is terminated and restarted: no call fails, no number is missing",
    ),
    row(
        "alloc_pause_short",
        Tier::Short,
        NET,
        pauses::short,
        "an allocator is stopped past its lease, with requests in its sockets",
    ),
    row("alloc_pause_long", Tier::Full, NET, pauses::long, "an allocator is stopped for 1, 10 and 60 s"),
    row("alloc_pauses", Tier::Long, NET, pauses::many, "500 pauses around the end of the lease, allocators in turn"),
    row(
        "alloc_cut_from_store",
        Tier::Short,
        CUTS,
        allocs::cut_from_store,
        "no packets between an allocator and the store",
    ),
    row("alloc_deaf_to_store", Tier::Full, CUTS, allocs::deaf_to_store, "no packets from the store to an allocator"),
    row("alloc_mute_to_store", Tier::Full, CUTS, allocs::mute_to_store, "no packets from an allocator to the store"),
    row(
        "alloc_cut_from_peers",
        Tier::Full,
        CUTS,
        allocs::cut_from_peers,
        "no packets between an allocator and the other allocators",
    ),
    row(
        "alloc_behind_a_firewall",
        Tier::Full,
        CUTS,
        allocs::behind_a_firewall,
        "other allocators do not reach an allocator's port for callers; it hands over, without a refusal",
    ),
    row("alloc_cut_from_all", Tier::Full, CUTS, allocs::cut_from_all, "no packets to and from an allocator"),
    row("alloc_deaf", Tier::Full, CUTS, allocs::deaf, "no packets to an allocator, callers' included"),
    row("alloc_mute", Tier::Full, CUTS, allocs::mute, "no packets from an allocator, callers' included"),
    row(
        "alloc_cut_from_leader",
        Tier::Full,
        CUTS,
        allocs::cut_from_leader,
        "an allocator reaches every store except the leader",
    ),
    row(
        "store_leader_kills",
        Tier::Full,
        NET,
        stores::leader_kills,
        "the store's leader is killed every 5 s for 2 minutes",
    ),
    row("store_leader_kill", Tier::Short, NET, stores::leader_kill, "the store's leader is killed twice"),
    row(
        "store_leader_sees_one",
        Tier::Full,
        CUTS,
        stores::leader_sees_one,
        "the store's leader reaches one follower of two",
    ),
    row("store_leader_cut", Tier::Full, CUTS, stores::leader_cut, "the store's leader reaches no other member"),
    row(
        "store_leader_pause",
        Tier::Full,
        NET,
        stores::leader_pause,
        "the store's leader is stopped, for shorter and longer than an election",
    ),
    row("store_follower_pause", Tier::Full, NET, stores::follower_pause, "a follower of the store is stopped for 8 s"),
    row(
        "start_in_every_order",
        Tier::Full,
        NET,
        stores::start_in_every_order,
        "everything is killed and restarted, the stores in every order, before and after the allocators",
    ),
    row(
        "store_of_other_settings",
        Tier::Full,
        CUTS,
        skew::stores,
        "the leader allows longer leases than the next one; an allocator has one and is cut off",
    ),
    row(
        "store_leader_mute_to_allocs",
        Tier::Full,
        CUTS,
        stores::leader_mute_to_allocs,
        "no packets from the store's leader to allocators, and it does not reach one follower of two",
    ),
    row(
        "store_leader_cut_from_allocs",
        Tier::Full,
        CUTS,
        stores::leader_cut_from_allocs,
        "no packets between the store's leader and all allocators",
    ),
    row(
        "store_leader_deaf",
        Tier::Full,
        CUTS,
        stores::leader_deaf,
        "the store's leader accepts no connection of a store or an allocator, and its own stay",
    ),
    row(
        "allocs_all_silent",
        Tier::Full,
        NET,
        stores::allocs_all_silent,
        "all allocators are stopped, then killed: the store's leadership does not change again and again",
    ),
    row(
        "store_links_lossy",
        Tier::Short,
        DISTANCES,
        distance::shortly,
        "50 ms of round trip between the stores, and 1 % of the packets are lost, for 6 s",
    ),
    row(
        "store_links_50_ms",
        Tier::Full,
        DISTANCES,
        distance::of_50_ms,
        "50 ms of round trip between the stores, and 1 and 5 % of the packets are lost",
    ),
    row(
        "store_links_100_ms",
        Tier::Full,
        DISTANCES,
        distance::of_100_ms,
        "100 ms of round trip between the stores under the wan preset, and 1 and 5 % of the packets are lost",
    ),
    row(
        "store_links_200_ms",
        Tier::Full,
        DISTANCES,
        distance::of_200_ms,
        "200 ms of round trip between the stores under the wan preset, and 1 and 5 % of the packets are lost",
    ),
    row("store_majority_lost", Tier::Full, NET, stores::majority_lost, "two stores of three are down for 6 s"),
    row("store_disk_full", Tier::Full, DISKS, disks::full, "the disk of a store is filled, and freed again"),
    row(
        "store_sync_error",
        Tier::Full,
        SYNCS,
        disks::sync_error,
        "a sync of the leader's disk fails: it aborts, the others continue",
    ),
    row("store_sync_hang", Tier::Full, SYNCS, disks::sync_hang, "a sync of the leader's disk hangs: another one leads"),
    row(
        "clock_steps_alloc",
        Tier::Full,
        CLOCKS,
        clocks::steps_alloc,
        "an allocator's clock steps an hour forward and back",
    ),
    row(
        "clock_steps_store",
        Tier::Full,
        CLOCKS,
        clocks::steps_store,
        "the stores' clocks step an hour forward and back",
    ),
    row(
        "clock_rates_alloc",
        Tier::Full,
        CLOCKS,
        clocks::rates_alloc,
        "an allocator's clock runs a tenth too fast, then too slow, and it is paused",
    ),
    row(
        "clock_rates_store",
        Tier::Full,
        CLOCKS,
        clocks::rates_store,
        "the stores' clocks run a tenth too fast, then too slow, and an allocator is paused",
    ),
    row("two_allocs_of_one_name", Tier::Full, NET, names::twins, "two allocators run under one name"),
    row(
        "alloc_of_another_set",
        Tier::Full,
        NET,
        names::another_set,
        "an allocator of another set registers with this set's store",
    ),
    row(
        "sets_split_and_merge",
        Tier::Short,
        NET,
        sets::split_and_merge,
        "sections migrate to another set and back: no call fails, no number is missing",
    ),
    row(
        "sets_faults",
        Tier::Full,
        CUTS,
        sets::faults,
        "sections migrate to another set and back while leaders or allocators are killed, or the sets are cut off",
    ),
    row(
        "sets_matrix",
        Tier::Full,
        CUTS,
        sets::matrix::matrix,
        "each step of a migration is held while a leader, the allocators or the CLI are killed, or the sets are cut off",
    ),
    row(
        "sets_restored_twice",
        Tier::Full,
        NET,
        sets::restores::twice,
        "each of two sets is lost and restored, then both at the same time, from the same two backups",
    ),
    row(
        "sets_restored_in_migration",
        Tier::Full,
        NET,
        sets::restores::in_migration,
        "the source or the target of a running migration is lost and restored, from before it and from its middle",
    ),
    row(
        "set_closed_and_restored",
        Tier::Full,
        NET,
        sets::restores::closed,
        "a set is merged and closed, and the other one is lost and restored, from before that and from after",
    ),
    row("set_lost", Tier::Short, NET, sets::set_lost, "all processes of one set of two are killed, and started again"),
    row(
        "ids_clock_back",
        Tier::Full,
        CLOCKS,
        ids::clock_back,
        "ids of series: a node's clock is an hour behind, and it is killed",
    ),
    row(
        "ids_clock_ahead",
        Tier::Short,
        CLOCKS,
        ids::clock_ahead,
        "ids of series: a node's clock is an hour ahead for 10 s",
    ),
    row(
        "ids_two_holders",
        Tier::Full,
        CUTS,
        ids::two_holders,
        "ids of series: a node is cut off from the store for 20 s, and callers stay with it",
    ),
    row(
        "ids_copied_host",
        Tier::Full,
        NET,
        ids::copied_host,
        "ids of series: a second process with the name of a node takes its lanes while the node is stopped, twice",
    ),
    row("ids_store_gone", Tier::Full, NET, ids::store_gone, "ids of series: two stores of three are down for 25 s"),
    row("ids_power", Tier::Full, NET, ids::power, "ids of series: all processes are killed and started, twice"),
    row("ids_alloc_kill", Tier::Short, NET, ids::alloc_kill, "ids of series: each allocator is killed and started"),
    row(
        "ids_migrate",
        Tier::Short,
        NET,
        ids::migrate,
        "ids of series: all their sections migrate to another set and back: no call fails, no number is missing",
    ),
    row(
        "ids_restored",
        Tier::Full,
        NET,
        ids::restored,
        "ids of series: the set is lost and restored from the same backup, twice",
    ),
    row(
        "ids_overflow",
        Tier::Full,
        NET,
        ids::limits::overflow,
        "ids of series: callers ask for more ids of one lane than it has",
    ),
    row(
        "tickets_set_lost",
        Tier::Full,
        NET,
        ids::tickets::set_lost,
        "tickets of two counters in two sets: all processes of one set are killed for 20 s and started, twice",
    ),
    row("ids_end", Tier::Full, CLOCKS, ids::limits::end, "ids of series: all clocks read the last seconds of a shape"),
    row(
        "keys_evict",
        Tier::Full,
        NET,
        keys::evict,
        "keys: nodes have room for a tenth of the keys that are called at random, and an allocator is killed",
    ),
    row(
        "keys_migrate",
        Tier::Short,
        NET,
        keys::migrate,
        "keys: 16 neighbouring buckets migrate to another set and back, twice: no call fails, no number is missing",
    ),
    row(
        "keys_rolling",
        Tier::Full,
        NET,
        keys::rolling,
        "keys: each allocator and each store is terminated and restarted: no call fails, no number is missing",
    ),
    row(
        "keys_skewed",
        Tier::Full,
        NET,
        keys::skewed,
        "keys: more keys than a node may have are in one bucket: memory is bounded, other buckets are served",
    ),
    row(
        "crash_300",
        Tier::Full,
        NET,
        crashes::killed,
        "allocators in turn are killed and reported dead, by a supervisor and by a guard: no call fails, and no takeover waits",
    ),
    row(
        "crash_oom",
        Tier::Full,
        MEMORY,
        crashes::out_of_memory,
        "the kernel ends allocators at the limit of their memory: the same; then a guard ends with its server",
    ),
    row(
        "crash_loop",
        Tier::Full,
        NET,
        crashes::in_a_loop,
        "an allocator crashes at each start, before and after its registration: no section moves, and no call fails",
    ),
    row(
        "crash_late",
        Tier::Full,
        NET,
        crashes::reported_late,
        "the death of a process is reported after the next process of the node has registered: nothing changes",
    ),
    row(
        "host_cut",
        Tier::Full,
        NET,
        crashes::host_cut,
        "a host has no network, and its allocator lives on or ends: nothing is reported, and takeovers wait for the lease",
    ),
    row("pairs", Tier::Short, ALL, pairs::trials, "two or three faults at a time, drawn from a seed"),
    row(
        "failover",
        Tier::Long,
        NET,
        failover::host_lost,
        "an allocator's host is lost: time without a response for its sections",
    ),
];
