//! Reported deaths of AllocSvr processes.

use std::time::Duration;

use seq_proto::v1::{RegisterRequest, RegisterResponse, ReportDeathRequest};
use seq_testkit::until;
use tonic::Status;

use crate::cluster::{Cluster, Disk, LEASE_MS, reason};

/// Number of the first process of a1.
const FIRST: u64 = 0xa1;

/// A wait that no test outlasts: sections change owner in time only because of a report.
const LEASE_WAIT: Duration = Duration::from_secs(3_600);

impl Cluster {
    /// Creates a set of three stores with [`LEASE_WAIT`].
    async fn patient() -> Cluster {
        let mut cluster = Cluster::new(3, Disk::Memory);
        cluster.options.lease_wait = LEASE_WAIT;
        cluster.start_all().await;
        cluster.ready().await;
        cluster
    }

    /// Registers a process that follows the incarnation `follows`.
    async fn register_process(&self, node: &str, process: u64, follows: u64) -> Result<RegisterResponse, Status> {
        let (set, addr) = ("im-a".into(), "127.0.0.1:9".into());
        let (node, token, lease_ms) = (node.into(), process + follows, LEASE_MS);
        let request =
            RegisterRequest { set, node, addr, token, lease_ms, follows, process, ..RegisterRequest::default() };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.register(request).await }
        })
        .await
    }

    /// Reports a death to a member; returns the incarnation that died.
    async fn report_death(&self, member: u64, node: &str, process: u64) -> Result<u64, Status> {
        let request = ReportDeathRequest { set: "im-a".into(), node: node.into(), process };
        self.control(member).report_death(request).await.map(|response| response.into_inner().incarnation)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sections_of_a_dead_process_get_another_owner_at_once() {
    let mut cluster = Cluster::patient().await;
    let first = cluster.register_process("a1", FIRST, 0).await.unwrap();
    let other = cluster.register_process("a2", 0xa2, 0).await.unwrap();
    let (renewed, owned) = cluster.owns(&first, 5).await;
    let (mut seq, _) = cluster.owns(&other, 5).await;

    // A follower forwards the report. Reports of other processes change nothing.
    let follower = cluster.follower().await;
    assert_eq!(cluster.report_death(follower, "a1", 0xff).await.unwrap(), 0);
    assert_eq!(cluster.report_death(follower, "a2", FIRST).await.unwrap(), 0);
    cluster.renew(&first, renewed + 1).await.unwrap();
    assert_eq!(cluster.report_death(follower, "a1", FIRST).await.unwrap(), first.incarnation);
    until("the other node gets the sections", async || {
        seq += 1;
        let update = cluster.renew(&other, seq).await.unwrap().update.unwrap();
        (update.sections.len() == 10).then_some(())
    })
    .await;
    let raise = cluster.raise(&first, owned.sections[0], owned.epochs[0], 5_000).await;
    assert_eq!(reason(raise), "PROCESS_DIED", "a raise that was late");
    assert_eq!(reason(cluster.renew(&first, renewed + 2).await), "PROCESS_DIED");
    assert_eq!(cluster.report_death(follower, "a1", FIRST).await.unwrap(), 0, "a repeat");

    // The process registers no more, and the next one does.
    let again = cluster.register_process("a1", FIRST, first.incarnation).await;
    assert_eq!(reason(again), "PROCESS_DIED");
    let next = cluster.register_process("a1", 0xb1, first.incarnation).await.unwrap();
    assert_eq!(next.incarnation, first.incarnation + 1);
    assert_eq!(cluster.report_death(follower, "a1", FIRST).await.unwrap(), 0, "a report that was late");
    cluster.renew(&next, 1).await.unwrap();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_reports_are_refused_by_name_and_propose_nothing() {
    let mut cluster = Cluster::started(1, Disk::Memory).await;
    let session = cluster.register("a1", 1).await;
    // The leader proposes owners after a registration.
    cluster.owns(&session, 10).await;
    let before = cluster.level().await;
    assert_eq!(reason(cluster.report_death(1, "a1", 0).await), "BAD_TOKEN");
    assert_eq!(reason(cluster.report_death(1, "a2", 7).await), "UNKNOWN_NODE");
    assert_eq!(reason(cluster.report_death(1, "", 7).await), "UNKNOWN_NODE");
    let of_other_set = ReportDeathRequest { set: "im-b".into(), node: "a1".into(), process: 7 };
    assert_eq!(reason(cluster.control(1).report_death(of_other_set).await), "OTHER_SET");
    assert_eq!(cluster.level().await, before);
    cluster.stop_all().await;
}
