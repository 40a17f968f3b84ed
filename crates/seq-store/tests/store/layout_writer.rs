//! The set that creates series hands this to another set.

use seq_proto::v1::series_admin_service_client::SeriesAdminServiceClient;
use seq_proto::v1::{
    CounterShape, CreateSeriesRequest, LayoutWriter, RetireSeriesRequest, SetLayoutWriterRequest,
    SetLayoutWriterResponse, Shape, shape,
};
use seq_testkit::until;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::cluster::{Cluster, channel, reason};
use crate::sets::{list, two_sets};

/// A fingerprint that no plan has except by accident.
const OTHER: u64 = 0x5eed;

fn series(cluster: &Cluster) -> SeriesAdminServiceClient<Channel> {
    SeriesAdminServiceClient::new(channel(cluster.admin_addr(1)))
}

fn to(set: &str) -> SetLayoutWriterRequest {
    SetLayoutWriterRequest { to: set.to_owned(), ..SetLayoutWriterRequest::default() }
}

async fn requested(of: &Cluster, request: SetLayoutWriterRequest) -> Result<SetLayoutWriterResponse, Status> {
    series(of).set_layout_writer(request).await.map(Response::into_inner)
}

async fn created(of: &Cluster, name: &str, dry_run: bool) -> Result<u32, Status> {
    let kind = shape::Kind::Counter(CounterShape { offset: 1, increment: 1, max_id: 1_000 });
    let shape = Some(Shape { kind: Some(kind) });
    let request = CreateSeriesRequest { name: name.to_owned(), shape, dry_run, ..CreateSeriesRequest::default() };
    let response = series(of).create_series(request).await?.into_inner();
    Ok(response.series.unwrap().lanes.unwrap().first_section)
}

/// Hands the creation of series to another set, and waits until that set has stated that it creates them.
pub(crate) async fn hand_over_series(of: &Cluster, to_set: &str) -> LayoutWriter {
    until("the other set has taken the series over", async || {
        // The other set may not know yet that this set creates series, which is refused.
        let writer = requested(of, to(to_set)).await.ok()?.writer?;
        writer.taken.then_some(writer)
    })
    .await
}

/// Returns whether each set creates series, as two sets list them.
async fn writes(a: &Cluster, b: &Cluster) -> [[bool; 2]; 2] {
    let flags = |sets: Vec<seq_proto::v1::SetInfo>| [sets[0].writes_series, sets[1].writes_series];
    [flags(list(a).await), flags(list(b).await)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_are_created_by_the_set_to_which_this_was_handed() {
    let (mut a, mut b) = two_sets().await;
    let first = created(&a, "first", false).await.unwrap();
    let plan = until("the other set knows the set that creates series", async || {
        requested(&a, SetLayoutWriterRequest { dry_run: true, ..to("im-b") }).await.ok()
    })
    .await;
    assert_eq!(reason(created(&b, "b", true).await), "LAYOUT_WRITER");
    assert_eq!(writes(&a, &b).await, [[true, false], [false, true]]);
    let writer = plan.writer.unwrap();
    assert_eq!((writer.term, writer.changes, writer.taken, plan.changed), (1, 1, false, false));
    assert_ne!(plan.fingerprint, 0);
    created(&a, "second", true).await.unwrap();

    assert_eq!(reason(requested(&a, to("im-x")).await), "UNKNOWN_SET");
    assert_eq!(reason(requested(&a, to("im-a")).await), "OWN_SET");
    assert_eq!(reason(requested(&b, to("im-a")).await), "LAYOUT_WRITER");
    let stale = SetLayoutWriterRequest { plan: OTHER, ..to("im-b") };
    assert_eq!(reason(requested(&a, stale).await), "STALE_PLAN");
    let planned = SetLayoutWriterRequest { plan: plan.fingerprint, ..to("im-b") };
    assert!(requested(&a, planned.clone()).await.unwrap().changed);
    assert!(!requested(&a, planned).await.unwrap().changed, "the request is repeated after a lost response");
    assert_eq!(reason(created(&a, "second", false).await), "LAYOUT_WRITER");
    let retire = RetireSeriesRequest { name: "first".into(), ..RetireSeriesRequest::default() };
    assert_eq!(reason(series(&a).retire_series(retire.clone()).await), "LAYOUT_WRITER");

    assert_eq!(hand_over_series(&a, "im-b").await, LayoutWriter { taken: true, ..writer });
    assert_eq!(created(&b, "second", false).await.unwrap(), first + 1, "its sections follow those of the first series");
    assert_eq!(writes(&a, &b).await, [[false, true], [true, false]]);
    series(&b).retire_series(retire).await.unwrap();

    // And back, with everything that happened in the meantime.
    let back = hand_over_series(&b, "im-a").await;
    assert_eq!((back.term, back.changes), (2, 3));
    assert_eq!(created(&a, "third", false).await.unwrap(), first + 2);
    assert_eq!(reason(created(&b, "fourth", false).await), "LAYOUT_WRITER");
    b.stop_all().await;
    a.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_does_not_respond_is_handed_nothing() {
    let (mut a, mut b) = two_sets().await;
    b.stop_all().await;
    for dry_run in [true, false] {
        assert_eq!(reason(requested(&a, SetLayoutWriterRequest { dry_run, ..to("im-b") }).await), "SET_UNAVAILABLE");
    }
    created(&a, "first", false).await.unwrap();
    a.stop_all().await;
}
