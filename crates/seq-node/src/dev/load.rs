//! Artificial activity in a development cluster, so that the web console and the metrics have something to show. It
//! consists of a load on many users, and of a repeated series of operations.

use std::time::Duration;

use anyhow::Context;
use seq_client::Client;
use seq_command::output::note;
use seq_command::plan::Mode;
use seq_command::store_client::StoreClient;
use seq_core::plan::Fingerprint;
use seq_core::set_spec::SetSpec;
use seq_load::key_distribution::{Distribution, UidSampler};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::store_of;

/// Interval of the requests of the load.
const TICK: Duration = Duration::from_millis(20);

/// Limit on the numbers that the load allocates in a second. It is what requests with at most 10,000 users each can
/// allocate at the interval [`TICK`].
pub(super) const MAX_RATE: u32 = 500_000;

/// Users of the load.
const USERS: u64 = 1_000_000;

/// Interval of the operations.
const OPERATION: Duration = Duration::from_secs(20);

/// Attempts to let an allocator serve again after its drain, and the pause between two of them. Together they are
/// longer than an election of the store's leader, which is a usual cause of a failure here.
const UNDRAIN_ATTEMPTS: u32 = 20;
const UNDRAIN_PAUSE: Duration = Duration::from_secs(1);

/// The mode of the operations: each is made at once.
const MAKE: Mode = Mode::Make(Fingerprint::NONE);

/// Parses a rate, written as 5000 or 5k.
///
/// # Errors
/// The text is no rate, or the rate is 0 or too high.
pub(super) fn rate(text: &str) -> Result<u32, String> {
    let (digits, thousands) = text.strip_suffix('k').map_or((text, 1), |digits| (digits, 1_000));
    let rate = digits.replace('_', "").parse::<u32>().ok().and_then(|rate| rate.checked_mul(thousands));
    rate.filter(|rate| (1..=MAX_RATE).contains(rate)).ok_or_else(|| "a rate is 1 to 500k numbers a second".to_owned())
}

/// Allocates `rate` numbers a second for users of a set, without an end. A few of the users take most of the numbers.
///
/// # Errors
/// No node of the set has routes.
pub(super) async fn run(spec: SetSpec, rate: u32) -> anyhow::Result<()> {
    let seeds = spec.allocs.iter().map(|alloc| &alloc.addr);
    let client = seeds.fold(Client::builder(), |builder, addr| builder.seed(addr)).connect().await;
    let client = client.context("the load cannot start")?;
    let users = (spec.uids.end - spec.uids.start).min(USERS);
    let mut sampler = UidSampler::new(Distribution::Zipf, users as u32, 1, 0..1);
    let began = Instant::now();
    let mut sent = 0;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        // Numbers that were not allocated during a fault are not allocated later.
        let count = (due - sent).min(u64::from(rate / 20).clamp(1, 10_000));
        sent = due;
        if count == 0 {
            continue;
        }
        let uids: Vec<u64> = (0..count).map(|_| spec.uids.start + u64::from(sampler.sample().0)).collect();
        // A refusal is ignored here, because it is one of the events that the console shows.
        drop(client.next_many(&uids).await);
    }
}

/// Repeats operations on a set: drains one allocator after another and then lets it serve again, and transfers the
/// leadership of the set's store between two drains. No request of a caller is refused because of these operations.
/// They end only if an allocator cannot be made to serve again, because otherwise all allocators would be drained one
/// by one.
pub(super) async fn operate(spec: SetSpec) {
    for turn in 0.. {
        let alloc = &spec.allocs[turn % spec.allocs.len()].name;
        sleep(OPERATION).await;
        let drain = async |drained| store(&spec).await?.drain(alloc, drained, &[], MAKE).await;
        // A drain that fails may have been made after all, so the allocator is let to serve again in any case.
        if let Err(error) = drain(true).await {
            note(format_args!("--chaos: the drain of {alloc} failed: {error:#}"));
        }
        sleep(OPERATION).await;
        if let Err(error) = repeat(UNDRAIN_ATTEMPTS, UNDRAIN_PAUSE, async || drain(false).await).await {
            note(format_args!(
                "--chaos: {alloc} stays drained, so the operations end; `seqsvr node undrain {alloc}` lets it serve again: {error:#}"
            ));
            return;
        }
        sleep(OPERATION).await;
        let next = spec.stores[turn % spec.stores.len()].id;
        let transfer = async { store(&spec).await?.transfer(next, MAKE).await };
        if let Err(error) = transfer.await {
            note(format_args!("--chaos: the transfer of the leadership failed: {error:#}"));
        }
    }
}

/// Repeats an operation until it succeeds, at most `attempts` times.
///
/// # Errors
/// The error of the last attempt.
async fn repeat<T, E>(attempts: u32, pause: Duration, operation: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..attempts {
        if let Ok(done) = operation().await {
            return Ok(done);
        }
        sleep(pause).await;
    }
    operation().await
}

/// Returns a client of a set's store that has already requested the name of the set, because changes need this name.
async fn store(spec: &SetSpec) -> anyhow::Result<StoreClient> {
    let mut store = store_of(spec);
    store.nodes().await?;
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_fails_is_repeated_within_a_bound() {
        let calls = std::cell::Cell::new(0);
        let succeeds_at = async |call: u32| {
            calls.set(0);
            repeat(UNDRAIN_ATTEMPTS, UNDRAIN_PAUSE, async || {
                calls.set(calls.get() + 1);
                if calls.get() < call { Err(calls.get()) } else { Ok(calls.get()) }
            })
            .await
        };
        assert_eq!(succeeds_at(1).await, Ok(1));
        assert_eq!(succeeds_at(UNDRAIN_ATTEMPTS).await, Ok(UNDRAIN_ATTEMPTS));
        assert_eq!(succeeds_at(UNDRAIN_ATTEMPTS + 1).await, Err(UNDRAIN_ATTEMPTS), "the error of the last attempt");
    }

    #[test]
    fn a_rate_may_be_in_thousands() {
        assert_eq!((rate("5k"), rate("250"), rate("500_000")), (Ok(5_000), Ok(250), Ok(MAX_RATE)));
        for wrong in ["0", "501k", "-1", "5m", "k", "", "99999999999"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
