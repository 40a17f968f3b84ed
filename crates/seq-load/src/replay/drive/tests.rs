//! Replays against correct services in memory, failing services, and services that violate the order.

use std::collections::BTreeMap;

use seq_core::Seq;

use super::*;
use crate::reply::Reply;

/// Changes the replies of a call, by its index from 0.
type Interference = fn(call: u64, uids: &[u64], replies: &mut [Reply]);

#[derive(Default)]
struct Memory {
    last: RefCell<BTreeMap<u64, u64>>,
    calls: Cell<u64>,
    in_flight: Cell<usize>,
    most_in_flight: Cell<usize>,
    interference: Option<Interference>,
}

impl Transport for &Memory {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        let call = self.calls.replace(self.calls.get() + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        self.most_in_flight.set(self.most_in_flight.get().max(self.in_flight.get()));
        tokio::task::yield_now().await;
        let give = |uid: &u64| {
            let mut last = self.last.borrow_mut();
            let last = last.entry(*uid).or_default();
            *last += 1;
            Reply::Given { value: Seq(*last), prev: Seq(*last - 1), lost: 0 }
        };
        replies.extend(uids.iter().map(give));
        // Replies overtake each other.
        for _ in 0..call % 3 {
            tokio::task::yield_now().await;
        }
        if let Some(interference) = self.interference {
            interference(call, uids, replies);
        }
        self.in_flight.set(self.in_flight.get() - 1);
    }
}

fn failed(retryable: bool, lost: u32) -> Reply {
    let reason = if retryable { "UNSERVED" } else { "EXHAUSTED" };
    Reply::Failed(Rc::new(Failure { reason: reason.to_owned(), message: "no".to_owned(), retryable, lost }))
}

/// Returns 600 messages in two groups of 4 and 3 members that share one member.
fn trace() -> Trace {
    Trace {
        messages: (0..600).map(|at| Message { second: 100 + at / 10, group: (at % 2) as u32 }).collect(),
        groups: vec![vec![User(0), User(1), User(2), User(3)], vec![User(3), User(4), User(5)]],
        uids: (0..6).map(|user| Uid(1_000 + user)).collect(),
    }
}

/// Number of messages in flight.
const WORKERS: usize = 8;

const OPTIONS: ReplayOptions = ReplayOptions { speed: None, limit: usize::MAX, timeout: Duration::from_secs(60) };

async fn replay(service: &Memory, options: ReplayOptions) -> State {
    let trace = trace();
    let drive = Drive::new(&trace, vec![service; WORKERS], options, Checker::new(trace.uids.len()));
    drive.run().await;
    drive.into_state()
}

#[tokio::test(start_paused = true)]
async fn every_member_of_every_message_gets_a_number() {
    let service = Memory::default();
    let state = replay(&service, OPTIONS).await;
    let tally = state.checker.tally();
    assert_eq!((state.messages, tally.allocations), (600, trace().numbers()));
    assert_eq!((tally.violations(), tally.foreign_prevs, state.retried), (0, 0, 0));
    assert_eq!(service.last.borrow()[&1_003], 600);
    assert_eq!(service.most_in_flight.get(), 8);
}

#[tokio::test(start_paused = true)]
async fn members_without_a_number_are_retried() {
    let interference: Interference = |call, _, replies| match call % 10 {
        // The response is lost: the numbers are a gap.
        3 => replies.fill(failed(true, 1)),
        7 => replies[0] = failed(true, 1),
        _ => {}
    };
    let service = Memory { interference: Some(interference), ..Memory::default() };
    let state = replay(&service, OPTIONS).await;
    let tally = state.checker.tally();
    assert_eq!((state.messages, tally.allocations), (600, trace().numbers()));
    assert_eq!((tally.violations(), tally.foreign_prevs), (0, 0), "the lost calls explain every gap");
    assert!(state.retried > 100 && state.unknown_calls > 100, "{} {}", state.retried, state.unknown_calls);
    assert_eq!(state.reasons.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_number_is_found() {
    let interference: Interference = |call, uids, replies| {
        if call == 300 && uids[0] == 1_000 {
            replies[2] = Reply::Given { value: Seq(5), prev: Seq(4), lost: 0 };
        }
    };
    let service = Memory { interference: Some(interference), ..Memory::default() };
    let state = replay(&service, OPTIONS).await;
    let tally = state.checker.tally();
    assert_eq!((tally.duplicates, tally.decreases), (1, 1));
    let violation = state.checker.details()[0].item;
    assert_eq!((trace().uid(violation.user), violation.value), (Uid(1_002), 5));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_service_ends_the_replay_after_the_timeout() {
    let service = Memory { interference: Some(|_, _, replies| replies.fill(failed(true, 0))), ..Memory::default() };
    let state = replay(&service, ReplayOptions { timeout: Duration::from_secs(5), ..OPTIONS }).await;
    let gave_up = state.gave_up.unwrap();
    assert_eq!((state.messages, gave_up.uid), (0, Uid(1_000)));
    assert!(gave_up.after >= Duration::from_secs(5) && gave_up.after < Duration::from_secs(7), "{:?}", gave_up.after);
    assert_eq!(state.checker.tally().allocations, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_not_retryable_ends_the_replay() {
    let interference: Interference = |call, _, replies| {
        if call == 20 {
            replies[0] = failed(true, 0);
            replies[2] = failed(false, 0);
        }
    };
    let service = Memory { interference: Some(interference), ..Memory::default() };
    let state = replay(&service, OPTIONS).await;
    let gave_up = state.gave_up.unwrap();
    assert_eq!((&*gave_up.failure.reason, gave_up.after), ("EXHAUSTED", Duration::ZERO));
    assert!(state.messages < 60, "{}", state.messages);
}

#[tokio::test(start_paused = true)]
async fn stopping_drops_messages_that_are_not_due() {
    let service = Memory::default();
    let trace = trace();
    let options = ReplayOptions { speed: Some(0.001), ..OPTIONS };
    let drive = Drive::new(&trace, vec![&service; WORKERS], options, Checker::new(trace.uids.len()));
    let (run, stop) = (drive.run(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drive.stop();
    });
    futures::future::join(run, stop).await;
    assert_eq!(drive.elapsed(), Duration::from_secs(1));
    // The ten messages of the first second, without the eight that waited for the next second.
    assert_eq!(drive.messages_done(), 10);
}

#[tokio::test(start_paused = true)]
async fn messages_keep_their_recorded_pace() {
    let service = Memory::default();
    let trace = trace();
    let options = ReplayOptions { speed: Some(10.0), limit: 101, ..OPTIONS };
    let drive = Drive::new(&trace, vec![&service; WORKERS], options, Checker::new(trace.uids.len()));
    drive.run().await;
    // The message at 100 is ten seconds after the first.
    let took = drive.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_millis(1_100), "{took:?}");
    assert_eq!(drive.messages_done(), 101);
}
