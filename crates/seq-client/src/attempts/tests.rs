//! Backoff, budgets, and refusals that are followed at once.

use seq_core::{Refusal, SectionId};
use seq_proto::status::to_status;

use super::*;
use crate::directory::Routes;

const ADDR: &str = "a:1";

/// Returns the state of a client that knows the sets 1 (uids 0..10) and 2 (uids 10..20), both sections since epoch 5.
fn shared() -> Shared {
    let routes = Routes::default();
    for id in [1, 2] {
        let run = |section: u32| {
            let is_own = u64::from(section) + 1 == id;
            v1::RouteRun {
                first_section: section,
                sections: 1,
                owner: u32::from(is_own),
                epoch: 5,
                away_set_id: if is_own { 0 } else { 3 - id },
            }
        };
        let table = v1::Routes {
            set_id: id,
            set: format!("set-{id}"),
            version: 1,
            uid_end: 20,
            section_size: 10,
            nodes: vec![v1::RouteNode { id: 1, name: "a1".to_owned(), addr: format!("set-{id}:1") }],
            runs: vec![run(0), run(1)],
            ..v1::Routes::default()
        };
        routes.adopt(&table, Some(&Arc::from(format!("set-{id}:1")))).unwrap();
    }
    Shared {
        pool: seq_channel::Pool::new(),
        routes,
        seeds: Vec::new(),
        batchers: None,
        key_batchers: None,
        refreshed: tokio::sync::Mutex::default(),
        allocs_only: false,
        addrs: parking_lot::Mutex::default(),
    }
}

fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

fn moved(set: u64, since: u64) -> Status {
    to_status(&Refusal::Moved { section: SectionId(0), set: SetId(set), since: Epoch(since) })
}

fn exhaust(attempts: &Attempts<'_>) {
    while attempts.spend(Instant::now()) {}
}

#[test]
fn backoff_doubles_is_jittered_and_is_never_shorter_than_requested() {
    let ms = Duration::from_millis;
    assert_eq!([1, 2, 3, 7, 90].map(|made| backoff(made, None, 0.0)), [ms(10), ms(20), ms(40), ms(500), ms(500)]);
    assert_eq!(backoff(2, None, 1.0), ms(10));
    assert_eq!(backoff(1, Some(ms(100)), 0.0), ms(100));
    assert_eq!(backoff(1, Some(ms(100)), 1.0), ms(150));
    assert_eq!(backoff(20, Some(ms(100)), 0.0), ms(500));
}

#[tokio::test(start_paused = true)]
async fn backoff_never_passes_the_deadline() {
    let shared = shared();
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut attempts = Attempts::new(&shared, deadline);
    attempts.target(1).unwrap();
    attempts.made = 1;
    while attempts.pause(None, false).await {
        attempts.made += 1;
    }
    assert!(Instant::now() < deadline);
    // Without jitter the backoffs are 10, 20 .. 320 ms and then 500 ms each.
    assert!((10..=20).contains(&attempts.made), "{} attempts", attempts.made);
    assert!(!attempts.pause(Some(Duration::from_secs(4)), false).await);
}

#[tokio::test(start_paused = true)]
async fn each_set_has_a_budget_of_its_own() {
    let shared = shared();
    let (mut down, mut up) = (Attempts::new(&shared, in_an_hour()), Attempts::new(&shared, in_an_hour()));
    down.target(1).unwrap();
    up.target(11).unwrap();
    exhaust(&down);
    assert!(!down.pause(None, true).await);
    assert!(up.pause(None, true).await);
    // A node that forwards reports an unreachable set, and that set's budget pays.
    let (mut forwarded, addr) = (Attempts::new(&shared, in_an_hour()), ADDR.into());
    forwarded.target(11).unwrap();
    let unavailable = Refusal::SetUnavailable { section: SectionId(1), set: SetId(1) };
    let error = forwarded.prepare_retry(Some(Place::Uid(11)), &addr, to_status(&unavailable)).await.unwrap_err();
    let CallError::SetUnavailable(error) = error else { panic!("{error:?}") };
    assert_eq!((error.uid, error.set, error.name.as_str()), (Some(11), 1, "set-1"));
    assert!(error.retry_after.is_some() && !error.may_have_applied);
    assert_eq!(error.to_string(), "uid 11: the section is in set \"set-1\", of which no node can be reached");
    assert!(up.pause(None, true).await, "the set that forwarded keeps its budget");
}

#[tokio::test(start_paused = true)]
async fn a_move_is_followed_without_backoff_and_budget_only_if_it_is_newer() {
    let shared = shared();
    let addr = ADDR.into();
    let mut attempts = Attempts::new(&shared, in_an_hour());
    attempts.target(1).unwrap();
    exhaust(&attempts);
    let began = Instant::now();
    // A claim that is not newer than the request's route leads to a retry, for which there is no budget.
    for since in [4, 5] {
        let error = attempts.prepare_retry(Some(Place::Uid(1)), &addr, moved(2, since)).await.unwrap_err();
        assert!(matches!(&error, CallError::Refused(refused) if refused.reason == Reason::Moved), "{error:?}");
        assert!(error.is_retryable());
    }
    let set = |shared: &Shared| shared.routes.load().route(1).map(|route| (route.set, route.epoch.0));
    assert_eq!(set(&shared), Some((SetIndex(0), 5)));
    attempts.prepare_retry(Some(Place::Uid(1)), &addr, moved(2, 6)).await.unwrap();
    assert_eq!(set(&shared), Some((SetIndex(1), 6)));
    assert_eq!(Instant::now(), began, "no backoff");
    // The next request carries the claim's epoch.
    assert_eq!(attempts.target(1).unwrap().epoch, 6);
    // The same for an item of a batch or a stream; here the claim leads back.
    exhaust(&attempts);
    let item = |since| {
        let refusal = Refusal::Moved { section: SectionId(0), set: SetId(1), since: Epoch(since) };
        seq_proto::status::to_item(0, &refusal)
    };
    attempts.prepare_item_retry(Place::Uid(1), &addr, item(6)).await.unwrap_err();
    attempts.prepare_item_retry(Place::Uid(1), &addr, item(7)).await.unwrap();
    assert_eq!(set(&shared), Some((SetIndex(0), 7)));
}

#[tokio::test(start_paused = true)]
async fn moves_that_a_call_follows_at_once_are_bounded() {
    let shared = shared();
    let addr = ADDR.into();
    let mut attempts = Attempts::new(&shared, in_an_hour());
    for hop in 0..u64::from(MAX_FOLLOWED) {
        attempts.target(1).unwrap();
        exhaust(&attempts);
        attempts.prepare_retry(Some(Place::Uid(1)), &addr, moved(1 + hop % 2, 6 + hop)).await.unwrap();
    }
    attempts.target(1).unwrap();
    exhaust(&attempts);
    attempts.prepare_retry(Some(Place::Uid(1)), &addr, moved(1, 100)).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_set_without_routes_is_asked_for_all_of_them_once_in_a_while() {
    let shared = shared();
    let mut attempts = Attempts::new(&shared, in_an_hour());
    // A node of another set forwards for a set without addresses.
    shared.routes.adopt_claims(&[(Place::Uid(1), Claim { set: SetId(9), since: Epoch(9) })]);
    let target = attempts.target(1).unwrap();
    assert!(["set-1:1", "set-2:1"].contains(&&*target.addr), "{}", target.addr);
    assert_eq!((target.route_version, target.epoch), (Some(1), 9));
    let directory = shared.routes.load();
    let unknown = directory.by_id(SetId(9)).unwrap();
    assert_eq!([unknown.known_version(), unknown.known_version()], [Some(0), None]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!([unknown.known_version(), unknown.known_version()], [Some(0), None]);
}
