//! The rows: the fault that each stages, the features of the driver that it needs, and its function.

use std::panic::{AssertUnwindSafe, catch_unwind};

use seq_testkit::rows::{Tier, note};

use crate::driver::Sdk;
use crate::rust_sdk::Fault;
use crate::sdks;

mod basics;
mod cuts;
mod errors;
mod faults;
mod keys;
mod lifecycle;
mod limits;
mod releases;
mod sets;
mod speed;
mod tls;

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    tier: Tier,
    /// Features that the driver must have, and abilities of the machine.
    pub(crate) needs: &'static [&'static str],
    run: fn(&Sdk),
    /// Fault of a driver with which the row fails.
    fault: Fault,
}

impl Row {
    /// Returns whether the row runs with all tests.
    pub(crate) fn is_short(&self) -> bool {
        self.tier == Tier::Short
    }

    /// Returns the needs of the row that the driver or this machine does not meet.
    fn lacks(&self, sdk: &Sdk) -> Vec<String> {
        let lacks_one = |need: &&'static str| match OF_MACHINE.iter().find(|(name, _)| name == need) {
            Some((_, lacks)) => lacks(),
            None => sdk.lacks(&[need]),
        };
        self.needs.iter().flat_map(lacks_one).collect()
    }
}

/// Returns the tools that this machine lacks.
type Lacks = fn() -> Vec<String>;

/// Abilities of a machine that rows need.
const OF_MACHINE: [(&str, Lacks); 2] =
    [("namespaces", lifecycle::private_hosts), ("older release", releases::older_program)];

/// A row with the SDK that it runs with.
pub(crate) struct OfSdk<'a> {
    row: &'static Row,
    sdk: &'a Sdk,
}

/// Returns all rows for an SDK.
pub(crate) fn of(sdk: &Sdk) -> impl Iterator<Item = OfSdk<'_>> {
    ROWS.iter().map(move |row| OfSdk { row, sdk })
}

impl seq_testkit::rows::Row for OfSdk<'_> {
    fn name(&self) -> &str {
        self.row.name
    }

    fn column(&self) -> &str {
        &self.sdk.name
    }

    fn what(&self) -> &str {
        self.row.what
    }

    fn tier(&self) -> Tier {
        self.row.tier
    }

    fn lacks(&self) -> Vec<String> {
        self.row.lacks(self.sdk)
    }

    fn settings(&self) -> String {
        self.sdk.settings.clone()
    }

    fn run(&self) {
        (self.row.run)(self.sdk);
    }
}

/// A row with a driver whose fault it must detect.
pub(crate) struct Planted {
    row: &'static Row,
    sdk: Sdk,
}

/// Returns all rows, each with its fault.
pub(crate) fn planted() -> Vec<Planted> {
    ROWS.iter().map(|row| Planted { row, sdk: sdks::with_fault(row.fault) }).collect()
}

impl seq_testkit::rows::Row for Planted {
    fn name(&self) -> &str {
        self.row.name
    }

    fn column(&self) -> &str {
        "with fault"
    }

    fn what(&self) -> &str {
        self.row.what
    }

    fn tier(&self) -> Tier {
        self.row.tier
    }

    fn lacks(&self) -> Vec<String> {
        self.row.lacks(&self.sdk)
    }

    fn settings(&self) -> String {
        self.sdk.settings.clone()
    }

    fn run(&self) {
        let ran = catch_unwind(AssertUnwindSafe(|| (self.row.run)(&self.sdk)));
        assert!(ran.is_err(), "the row does not detect the fault {:?} of the driver", self.row.fault);
        note(format_args!("the row detects the fault {:?}", self.row.fault));
    }
}

const fn row(
    name: &'static str,
    tier: Tier,
    needs: &'static [&'static str],
    run: fn(&Sdk),
    fault: Fault,
    what: &'static str,
) -> Row {
    Row { name, what, tier, needs, run, fault }
}

/// All rows, in the order in which they run.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row("basics", Tier::Short, &[], basics::basics, Fault::Hidden, "every call: counts, batches, a uid twice, reads, advances"),
    row("errors", Tier::Short, &[], errors::errors, Fault::Vague, "each refusal has the kind, the retry and the outcome of the table"),
    row("bad-server", Tier::Full, &[], errors::bad_server, Fault::Unreported, "responses that no sound server sends"),
    row("damaged", Tier::Full, &[], releases::damaged, Fault::Unreported, "responses that are truncated, or state to have 2 GiB"),
    row("older-server", Tier::Full, &[], releases::older, Fault::Hidden, "a server that does not have the stream"),
    row("older-release", Tier::Full, &["older release"], releases::older_release, Fault::Hidden, "servers of the release before"),
    row("newer-server", Tier::Full, &[], releases::newer, Fault::Hidden, "responses with fields of a later release"),
    row("keys-basic", Tier::Short, &["keys"], keys::basic, Fault::Hidden, "every call for keys: batches, bytes, wrong sizes, an unknown keyspace"),
    row("keys-owner-dies", Tier::Short, &["keys"], keys::owner_dies, Fault::Hasty, "owners are killed while keys are numbered: no call fails"),
    row("64-bits", Tier::Short, &[], basics::bits, Fault::Double, "uids and numbers that no double has"),
    row("routing", Tier::Full, &[], limits::routing, Fault::Unrouted, "10,000 calls reach the owners directly: no node forwards"),
    row("coalescing", Tier::Full, &["coalesce"], limits::coalescing, Fault::Unshared, "256 callers share messages; no call waits for another"),
    row("kill", Tier::Full, &[], faults::kill, Fault::Hasty, "an allocator is killed under load, and comes back"),
    row("hung", Tier::Short, &[], faults::hung, Fault::Hasty, "an allocator hangs under load, and continues"),
    row("lost-response", Tier::Short, &[], cuts::lost_response, Fault::Unreported, "connections are cut before, in and after a response"),
    row("deadline", Tier::Full, &[], limits::deadline, Fault::Late, "a call ends at its own deadline, which servers know"),
    row("drain", Tier::Full, &[], faults::drain, Fault::Hidden, "drains and restarts: no call fails, no number is missing"),
    row("tls", Tier::Short, &["tls"], tls::tls, Fault::Vague, "TLS with a client's certificate, and without the right one"),
    row("tls-rotation", Tier::Full, &["tls", "reload"], tls::rotation, Fault::Stale, "certificates and authority change under load"),
    row("tls-refused", Tier::Full, &["tls"], tls::refused, Fault::Vague, "revoked, expired, another host: refused with the cause"),
    row("token", Tier::Full, &["tls", "token"], tls::token, Fault::Loud, "a tenant's token: its uids, its quota, a wrong token"),
    row("start", Tier::Full, &[], lifecycle::start, Fault::Vague, "seeds that are down, hung, of a store, or without routes"),
    row("dns", Tier::Full, &["namespaces"], lifecycle::dns, Fault::Vague, "a host without an address, and one whose address changes"),
    row("close", Tier::Full, &[], lifecycle::close, Fault::Deaf, "a client is closed with calls in flight"),
    row("leak", Tier::Full, &[], lifecycle::leak, Fault::Hoard, "100 clients leave no thread, no socket and no memory"),
    row("cancel", Tier::Full, &["cancel"], lifecycle::cancel, Fault::Deaf, "10,000 abandoned calls leave the client usable"),
    row("fork", Tier::Full, &["fork"], lifecycle::fork, Fault::Hidden, "a client is used in a forked process, with calls in flight"),
    row("stream-end", Tier::Full, &["coalesce"], cuts::stream_end, Fault::Unreported, "connections end with 512 calls in flight: each ends once"),
    row("store-lost", Tier::Full, &[], faults::store_lost, Fault::Hidden, "the store has no majority for a while"),
    row("set-down", Tier::Full, &[], sets::down, Fault::Vague, "a set is down: items of other sets do not wait"),
    row("set-hung", Tier::Full, &[], sets::hung, Fault::Vague, "all processes of a set hang: the other set serves"),
    row("migration", Tier::Full, &[], sets::migration, Fault::Unrouted, "sections move between sets under load"),
    row("overload", Tier::Full, &[], limits::overload, Fault::Stubborn, "servers refuse all calls, then half: retries keep to the budget"),
    row("speed", Tier::Long, &[], speed::speed, Fault::Hidden, "256 callers: calls/s and CPU time of a call, beside the Rust SDK"),
];
