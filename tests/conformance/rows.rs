//! The rows: what each of them stages, the features of the driver that it needs, and its function.

use seq_testkit::rows::Tier;

use crate::driver::Sdk;

mod basics;
mod cuts;
mod errors;
mod faults;
mod lifecycle;
mod limits;
mod releases;
mod sets;
mod tls;

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    tier: Tier,
    /// Features that the driver must have.
    pub(crate) needs: &'static [&'static str],
    run: fn(&Sdk),
}

impl Row {
    /// Returns whether the row runs with all tests.
    pub(crate) fn is_short(&self) -> bool {
        self.tier == Tier::Short
    }
}

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
        self.sdk.lacks(self.row.needs)
    }

    fn settings(&self) -> String {
        self.sdk.settings.clone()
    }

    fn run(&self) {
        (self.row.run)(self.sdk);
    }
}

const fn row(name: &'static str, tier: Tier, needs: &'static [&'static str], run: fn(&Sdk), what: &'static str) -> Row {
    Row { name, what, tier, needs, run }
}

/// All rows, in the order in which they run.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row("basics", Tier::Short, &[], basics::basics, "every call: counts, batches, a uid twice, reads, advances"),
    row("errors", Tier::Short, &[], errors::errors, "each refusal has the kind, the retry and the outcome of the table"),
    row("bad-server", Tier::Full, &[], errors::bad_server, "responses that no sound server sends"),
    row("damaged", Tier::Full, &[], releases::damaged, "responses that are truncated, or state to have 2 GiB"),
    row("older-server", Tier::Full, &[], releases::older, "a server that does not have the stream"),
    row("newer-server", Tier::Full, &[], releases::newer, "responses with fields of a later release"),
    row("64-bits", Tier::Short, &[], basics::bits, "uids and numbers that no double has"),
    row("routing", Tier::Full, &[], limits::routing, "10,000 calls reach the owners directly: no node forwards"),
    row("coalescing", Tier::Full, &["stream"], limits::coalescing, "256 callers share messages; no call waits for another"),
    row("kill", Tier::Full, &[], faults::kill, "an allocator is killed under load, and comes back"),
    row("hung", Tier::Short, &[], faults::hung, "an allocator hangs under load, and continues"),
    row("lost-response", Tier::Short, &[], cuts::lost_response, "connections are cut before, in and after a response"),
    row("deadline", Tier::Full, &[], limits::deadline, "a call ends at its own deadline, which servers know"),
    row("drain", Tier::Full, &[], faults::drain, "drains and restarts: no call fails, no number is missing"),
    row("tls", Tier::Short, &["tls"], tls::tls, "TLS with a client's certificate, and without the right one"),
    row("tls-rotation", Tier::Full, &["tls", "reload"], tls::rotation, "certificates and authority change under load"),
    row("tls-refused", Tier::Full, &["tls"], tls::refused, "revoked, expired, another host: refused with the cause"),
    row("token", Tier::Full, &["tls", "token"], tls::token, "a tenant's token: its uids, its quota, a wrong token"),
    row("start", Tier::Full, &[], lifecycle::start, "seeds that are down, hung, of a store, or without routes"),
    row("close", Tier::Full, &[], lifecycle::close, "a client is closed with calls in flight"),
    row("leak", Tier::Full, &[], lifecycle::leak, "100 clients leave no thread, no socket and no memory"),
    row("cancel", Tier::Full, &["cancel"], lifecycle::cancel, "10,000 abandoned calls leave the client usable"),
    row("fork", Tier::Full, &["fork"], lifecycle::fork, "a client is used in a forked process, with calls in flight"),
    row("stream-end", Tier::Full, &["stream"], cuts::stream_end, "a stream ends with 512 calls in flight: each ends once"),
    row("store-lost", Tier::Full, &[], faults::store_lost, "the store has no majority for a while"),
    row("set-down", Tier::Full, &[], sets::down, "a set is down: items of other sets do not wait"),
    row("migration", Tier::Full, &[], sets::migration, "sections move between sets under load"),
    row("overload", Tier::Full, &[], limits::overload, "servers refuse all calls, then half: retries keep to the budget"),
];
