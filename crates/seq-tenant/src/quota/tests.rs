use std::collections::VecDeque;

use proptest::prelude::*;
use seq_core::{Count, Epoch};

use super::*;

fn tenant(change: impl FnOnce(&mut TenantSpec)) -> Arc<Tenant> {
    let mut spec = crate::file::parse("[[tenant]]\nname = \"im\"\ncertificates = [\"chat\"]").unwrap().remove(0);
    change(&mut spec);
    Arc::new(Tenant::new(spec, "a1", 0, None))
}

fn item(uid: u64, count: u32) -> DecodedItem {
    Ok(Item { uid: Uid(uid), count: Count::new(count).unwrap(), epoch: Epoch(0) })
}

#[tokio::test(start_paused = true)]
async fn items_of_others_and_above_a_cap_are_refused_each_for_itself() {
    let tenant = tenant(|spec| {
        spec.uids = vec![10..20, 30..40];
        spec.max_count = Some(5);
    });
    let mut items = [item(9, 1), item(10, 5), item(19, 6), item(20, 1), item(30, 1), Err(Refusal::EmptyBatch)];
    tenant.admit_items(&mut items);
    let expected = [
        Err(Refusal::OtherTenantsUid { uid: Uid(9) }),
        item(10, 5),
        Err(Refusal::CountAboveQuota { count: 6, most: 5 }),
        Err(Refusal::OtherTenantsUid { uid: Uid(20) }),
        item(30, 1),
        Err(Refusal::EmptyBatch),
    ];
    assert_eq!(items, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_of_some_series_names_no_lane_by_its_address() {
    let (all, some) = (tenant(|_| {}), tenant(|spec| spec.series = Some(["tweets".to_owned()].into())));
    let lane = Uid(ADDRESSES | 7 << 24);
    assert_eq!((all.admit_uid(lane), some.admit_uid(Uid(7))), (Ok(()), Ok(())));
    assert_eq!(some.admit_uid(lane), Err(Refusal::OtherTenantsUid { uid: lane }));
}

#[tokio::test(start_paused = true)]
async fn a_second_of_numbers_may_be_taken_at_once_and_then_at_the_rate() {
    let tenant = tenant(|spec| spec.numbers_per_s = NonZeroU32::new(100));
    let admitted = |counts: &[u32]| {
        let mut items: Vec<_> = counts.iter().map(|count| item(1, *count)).collect();
        tenant.admit_items(&mut items);
        items.iter().map(Result::is_ok).collect::<Vec<_>>()
    };
    assert_eq!(admitted(&[60, 50, 40]), [true, false, true], "in order, as far as the quota goes");
    assert_eq!(admitted(&[1]), [false]);
    assert_eq!(admitted(&[101]), [false], "never at once");
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(admitted(&[50, 1]), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn calls_and_advances_have_quotas_of_their_own() {
    let tenant = tenant(|spec| {
        spec.calls_per_s = NonZeroU32::new(2);
        spec.max_advance = 10;
    });
    assert_eq!(
        [tenant.admit_call(), tenant.admit_call(), tenant.admit_call()],
        [Ok(()), Ok(()), Err(Refusal::QuotaExceeded)]
    );
    let advance = |to| tenant.admit_advance(Seq(100), Seq(to));
    assert_eq!(advance(110), Ok(()));
    assert_eq!(advance(111), Err(Refusal::AdvanceTooFar { to: 111, bound: Seq(110) }));
}

#[tokio::test(start_paused = true)]
async fn advances_are_charged_as_numbers() {
    let tenant = tenant(|spec| {
        spec.numbers_per_s = NonZeroU32::new(1_000);
        spec.max_advance = 1_000_000;
    });
    let advance = |from, to| tenant.admit_advance(Seq(from), Seq(to));
    assert_eq!(advance(100, 700), Ok(()));
    assert_eq!(advance(700, 1_300), Err(Refusal::QuotaExceeded));
    assert_eq!(advance(700, 1_100), Ok(()), "what is left");
    assert_eq!(advance(1_100, 900), Ok(()), "it has no effect, and costs nothing");
    assert_eq!(advance(1_100, 2_101), Err(Refusal::AdvanceTooFar { to: 2_101, bound: Seq(2_100) }), "never at once");
    let mut items = [item(1, 1)];
    tenant.admit_items(&mut items);
    assert_eq!(items, [Err(Refusal::QuotaExceeded)], "of the same quota");
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(advance(1_100, 1_600), Ok(()));
}

#[test]
fn connections_are_counted_until_they_end() {
    let tenant = tenant(|spec| spec.connections = Some(2));
    let open: Vec<_> = (0..3).map(|_| tenant.connect()).collect();
    assert_eq!(open.iter().flatten().count(), 2);
    drop(open);
    let again = tenant.connect();
    let next = Arc::new(Tenant::new(tenant.spec().clone(), "a1", 0, Some(&tenant)));
    let more = [next.connect(), next.connect()];
    assert!(again.is_some() && more[0].is_some() && more[1].is_none(), "a new definition counts on");
}

proptest! {
    /// Any second admits at most two seconds' worth: the saved units, and the new units.
    #[test]
    fn no_second_admits_more_than_its_share(steps in prop::collection::vec((0u64..400, 1u32..60), 1..100)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let tenant = tenant(|spec| spec.numbers_per_s = NonZeroU32::new(100));
            let (mut now, mut taken) = (0, VecDeque::new());
            for (pause, count) in steps {
                tokio::time::advance(Duration::from_millis(pause)).await;
                now += pause;
                let mut items = [item(1, count)];
                tenant.admit_items(&mut items);
                if items[0].is_ok() {
                    taken.push_back((now, count));
                }
                while taken.front().is_some_and(|(at, _)| at + 1_000 <= now) {
                    taken.pop_front();
                }
                let second: u32 = taken.iter().map(|(_, count)| count).sum();
                assert!(second <= 200, "{taken:?}");
            }
        });
    }
}
