//! Membership changes under load: refusals, retained data, and the end of removed members.

use std::future::Future;
use std::time::Duration;

use seq_proto::status;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient;
use seq_proto::v1::{
    AddLearnersRequest, AddLearnersResponse, ChangeVotersRequest, ListMembersRequest, ListMembersResponse, NewMember,
    TransferLeaderRequest,
};
use seq_store::{ConfigError, RaftStartError, StartError};
use seq_testkit::until;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::cluster::{Cluster, Disk, TIMEOUT, reason};
use crate::load::Load;

/// Reasons after which the same request to the same or another member may succeed.
const PASSING: [&str; 6] =
    ["NOT_LEADER", "NO_LEADER", "CHANGE_IN_PROGRESS", "STARTING", "COMMIT_TIMED_OUT", "NOT_TAKEN_OVER"];

type Admin = StoreAdminServiceClient<Channel>;

/// Sends a request to the current leader.
async fn ask<T, F>(cluster: &Cluster, call: impl Fn(Admin) -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    until("a response of the leader", async || {
        for id in cluster.running() {
            match call(cluster.admin(id)).await {
                Ok(response) => return Some(Ok(response.into_inner())),
                Err(refusal) => match status::reason(&refusal) {
                    Some(reason) if !PASSING.contains(&reason.as_str()) => return Some(Err(refusal)),
                    // The member stops or starts, or the refusal is transient.
                    _ => {}
                },
            }
        }
        None
    })
    .await
}

pub(crate) async fn list(cluster: &Cluster) -> ListMembersResponse {
    ask(cluster, |mut admin| async move { admin.list_members(ListMembersRequest {}).await }).await.unwrap()
}

async fn add_learner(cluster: &Cluster, id: u64) -> Result<AddLearnersResponse, Status> {
    let member = NewMember { id, name: format!("s{id}"), addr: cluster.addr(id).to_owned(), ..NewMember::default() };
    let request = AddLearnersRequest { set: "im-a".into(), members: vec![member], ..AddLearnersRequest::default() };
    ask(cluster, |mut admin| {
        let request = request.clone();
        async move { admin.add_learners(request).await }
    })
    .await
}

async fn change(cluster: &Cluster, add: &[u64], remove: &[u64]) -> Result<Vec<u64>, Status> {
    let request = ChangeVotersRequest {
        set: "im-a".into(),
        add: add.to_vec(),
        remove: remove.to_vec(),
        ..ChangeVotersRequest::default()
    };
    ask_change(cluster, request).await
}

async fn ask_change(cluster: &Cluster, request: ChangeVotersRequest) -> Result<Vec<u64>, Status> {
    let response = ask(cluster, |mut admin| {
        let request = request.clone();
        async move { admin.change_voters(request).await }
    })
    .await?;
    Ok(response.voters)
}

/// Changes the voters as an operator does: adds, waits, and gives the votes.
pub(crate) async fn promote(cluster: &Cluster, add: &[u64], remove: &[u64]) -> Vec<u64> {
    for id in add {
        add_learner(cluster, *id).await.unwrap();
    }
    until("the change is made", async || match change(cluster, add, remove).await {
        Ok(voters) => Some(voters),
        Err(refusal) => {
            assert_eq!(status::reason(&refusal).as_deref(), Some("NOT_CAUGHT_UP"), "{refusal:?}");
            None
        }
    })
    .await
}

/// Transfers leadership to a member, once the member can take it.
pub(crate) async fn lead(cluster: &Cluster, to: u64) {
    until("leadership goes over", async || {
        let response = ask(cluster, |mut admin| {
            let request = TransferLeaderRequest { set: "im-a".into(), to, ..TransferLeaderRequest::default() };
            async move { admin.transfer_leader(request).await }
        });
        match response.await {
            Ok(response) => {
                assert_eq!(response.leader, to);
                Some(())
            }
            Err(refusal) => {
                assert_eq!(status::reason(&refusal).as_deref(), Some("NOT_CAUGHT_UP"), "{refusal:?}");
                None
            }
        }
    })
    .await;
}

/// Returns three members under load, whose AllocSvr does not wait for another AllocSvr.
fn three(disk: Disk) -> Cluster {
    let mut cluster = Cluster::new(3, disk);
    cluster.options.registration_grace = Duration::from_millis(1);
    cluster
}

/// Checks that a removed member stops by itself and logs why.
async fn stops_as_removed(cluster: &mut Cluster, id: u64) {
    let member = cluster.member(id);
    let (tasks, removal) = (member.tasks.clone(), member.handle.removal());
    tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it notices");
    assert_eq!((removal(), tasks.failed()), (true, None), "store {id} knows why it stops");
    cluster.stop(id).await;
}

fn voters(list: &ListMembersResponse) -> Vec<u64> {
    list.members.iter().filter(|member| member.voter).map(|member| member.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_is_replaced_under_load() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = three(disk);
        let new = cluster.newcomer(disk, &[1, 2]);
        cluster.start_all().await;
        cluster.ready().await;
        let load = Load::begin(&cluster).await;
        let dead = 3;
        load.beside(async {
            load.more(50).await;
            cluster.stop(dead).await;
            load.more(50).await;
            cluster.start(new).await;
            assert_eq!(promote(&cluster, &[new], &[dead]).await, [1, 2, new]);
            load.more(50).await;
        })
        .await;
        cluster.ready().await;
        let seen = list(&cluster).await;
        assert_eq!(voters(&seen), [1, 2, new]);
        assert_eq!((seen.members.len(), seen.changing, &seen.used_ids[..]), (3, false, &[1, 2, 3, 4][..]));
        load.check(&cluster).await;
        cluster.level().await;

        // The dead member comes back, with its disk.
        let error = cluster.try_start(dead).await.unwrap_err();
        assert!(matches!(error, StartError::Raft(RaftStartError::Removed { .. })), "{error}");
        assert_eq!(reason(add_learner(&cluster, dead).await), "USED_STORE_ID");
        assert_eq!(voters(&list(&cluster).await), [1, 2, new]);

        // The new member counts: if another member is gone, it completes the majority.
        cluster.stop(1).await;
        load.check(&cluster).await;
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_replaced_under_load() {
    let mut cluster = three(Disk::Memory);
    let new = cluster.newcomer(Disk::Memory, &[1, 2]);
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    let old = cluster.leader().await;
    load.beside(async {
        cluster.start(new).await;
        load.more(50).await;
        let voters = promote(&cluster, &[new], &[old]).await;
        assert!(voters.contains(&new) && !voters.contains(&old), "{voters:?}");
        load.more(50).await;
        // The old member runs, but receives nothing.
        stops_as_removed(&mut cluster, old).await;
    })
    .await;
    assert_ne!(cluster.leader().await, old);
    load.check(&cluster).await;
    cluster.level().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_grow_to_five_and_shrink_again_under_load() {
    let mut cluster = three(Disk::Memory);
    cluster.newcomer(Disk::Memory, &[1, 2, 3, 5]);
    cluster.newcomer(Disk::Memory, &[1, 2, 3, 4]);
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    load.beside(async {
        load.more(50).await;
        cluster.start(4).await;
        cluster.start(5).await;
        assert_eq!(promote(&cluster, &[4, 5], &[]).await, [1, 2, 3, 4, 5]);
        // A repeat changes nothing.
        assert_eq!(promote(&cluster, &[4, 5], &[]).await, [1, 2, 3, 4, 5]);
        load.more(50).await;
    })
    .await;
    cluster.ready().await;
    load.check(&cluster).await;
    load.beside(async {
        let leader = cluster.leader().await;
        let goes = [leader, leader % 5 + 1];
        let stay: Vec<u64> = (1..=5).filter(|id| !goes.contains(id)).collect();
        assert_eq!(change(&cluster, &[], &goes).await.unwrap(), stay);
        for id in goes {
            stops_as_removed(&mut cluster, id).await;
        }
        assert_eq!(change(&cluster, &[], &goes).await.unwrap(), stay);
        load.more(50).await;
    })
    .await;
    load.check(&cluster).await;
    assert_eq!(list(&cluster).await.used_ids, [1, 2, 3, 4, 5]);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_is_gone_blocks_nothing_and_gets_no_vote() {
    let mut cluster = three(Disk::Memory);
    let absent = cluster.newcomer(Disk::Memory, &[1, 2]);
    cluster.options.snapshot_interval_entries = 100;
    cluster.options.log_retained_entries = 10;
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    // The list names its data directory, so the member must have been reached once.
    assert_eq!(reason(add_learner(&cluster, absent).await), "MEMBER_NOT_REACHED");
    cluster.start(absent).await;
    load.beside(async {
        assert_eq!(add_learner(&cluster, absent).await.unwrap().added, [absent]);
        cluster.stop(absent).await;
        assert!(add_learner(&cluster, absent).await.unwrap().added.is_empty(), "repeating it changes nothing");
        load.more(1_000).await;
        // The member counts as live for some election timeouts after its last response, in which any number of raises
        // fits.
        let learner = until("the learner is no longer live", async || {
            list(&cluster).await.members.into_iter().find(|member| member.id == absent && !member.live)
        })
        .await;
        assert_eq!(reason(change(&cluster, &[absent], &[3]).await), "NOT_CAUGHT_UP");
        // Lag is counted in entries, and the raises of the four sections may share an entry.
        assert!(!learner.voter && !learner.caught_up && learner.lag > 200, "{learner:?}");
        assert_eq!(change(&cluster, &[], &[absent]).await.unwrap(), [1, 2, 3]);
        load.more(50).await;
    })
    .await;
    assert_eq!(list(&cluster).await.members.len(), 3);
    assert_eq!(reason(add_learner(&cluster, absent).await), "USED_STORE_ID");
    // Started after all, the member learns that it was removed.
    let error = cluster.try_start(absent).await.unwrap_err();
    assert!(matches!(error, StartError::Raft(RaftStartError::Removed { .. })), "{error}");
    load.check(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_learner_that_is_removed_stops() {
    let mut cluster = three(Disk::Memory);
    let new = cluster.newcomer(Disk::Memory, &[1, 2]);
    cluster.start_all().await;
    cluster.ready().await;
    cluster.start(new).await;
    add_learner(&cluster, new).await.unwrap();
    until("the learner has the log", async || {
        list(&cluster).await.members.iter().any(|member| member.id == new && member.caught_up).then_some(())
    })
    .await;
    assert_eq!(change(&cluster, &[], &[new]).await.unwrap(), [1, 2, 3]);
    stops_as_removed(&mut cluster, new).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_cannot_be_are_refused_by_name_and_change_nothing() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let before = list(&cluster).await;
    for (add, remove, expected) in [
        (&[9][..], &[][..], "UNKNOWN_MEMBER"),
        (&[], &[9], "UNKNOWN_MEMBER"),
        (&[], &[3], "EVEN_VOTERS"),
        (&[], &[1, 2, 3], "NO_VOTERS"),
        (&[2], &[2], "ADDED_AND_REMOVED"),
    ] {
        assert_eq!(reason(change(&cluster, add, remove).await), expected, "{add:?} {remove:?}");
    }
    let member =
        |id, name: &str, addr: &str| NewMember { id, name: name.into(), addr: addr.into(), ..NewMember::default() };
    let taken = cluster.addr(2).to_owned();
    let five = || (4..9).map(|id| member(id, &format!("s{id}"), &format!("127.0.0.1:{id}")));
    for (members, expected) in [
        (Vec::new(), "BAD_COUNT"),
        (five().chain([member(9, "s9", "127.0.0.1:9")]).collect(), "BAD_COUNT"),
        (vec![member(0, "s0", "127.0.0.1:9")], "BAD_STORE_ID"),
        (vec![member(4, "", "127.0.0.1:9")], "BAD_NAME"),
        (vec![member(4, "s4", "host")], "BAD_ADDR"),
        (vec![member(3, "s3", "127.0.0.1:9")], "OTHER_MEMBER"),
        (vec![member(4, "s3", "127.0.0.1:9")], "TAKEN"),
        (vec![member(4, "s4", &taken)], "TAKEN"),
        (vec![member(4, "s4", "127.0.0.1:9"), member(5, "s4", "127.0.0.1:10")], "TAKEN"),
    ] {
        let request = AddLearnersRequest { set: "im-a".into(), members, ..AddLearnersRequest::default() };
        let response = ask(&cluster, |mut admin| {
            let request = request.clone();
            async move { admin.add_learners(request).await }
        });
        assert_eq!(reason(response.await), expected, "{request:?}");
    }
    let other = ChangeVotersRequest { set: "im-b".into(), ..ChangeVotersRequest::default() };
    assert_eq!(reason(ask_change(&cluster, other).await), "OTHER_SET");
    let after = list(&cluster).await;
    assert_eq!((before.membership, before.used_ids), (after.membership, after.used_ids));

    // The vote of a member that does not respond must not be relied on.
    let silent = cluster.follower().await;
    cluster.stop(silent).await;
    let goes = cluster.follower().await;
    let request = ChangeVotersRequest {
        set: "im-a".into(),
        remove: vec![goes],
        allow_even: true,
        ..ChangeVotersRequest::default()
    };
    until("the leader misses it", async || {
        let refused = status::reason(
            &ask_change(&cluster, ChangeVotersRequest { dry_run: true, ..request.clone() }).await.err()?,
        );
        (refused.as_deref() == Some("NO_MAJORITY")).then_some(())
    })
    .await;
    assert_eq!(reason(ask_change(&cluster, request).await), "NO_MAJORITY");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_forwards_to_the_leader_and_leadership_goes_where_it_is_sent() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let leader = cluster.leader().await;
    let to = leader % 3 + 1;
    let request = TransferLeaderRequest { set: "im-a".into(), to, ..TransferLeaderRequest::default() };
    assert_eq!(cluster.admin(to).list_members(ListMembersRequest {}).await.unwrap().into_inner().leader, leader);
    until("it can take over", async || {
        list(&cluster).await.members.iter().any(|member| member.id == to && member.caught_up).then_some(())
    })
    .await;
    let term = cluster.status(leader).await.term;
    assert_eq!(cluster.admin(to).transfer_leader(request).await.unwrap().into_inner().leader, to);
    assert_eq!(cluster.leader().await, to);
    assert_eq!(cluster.status(to).await.term, term + 1);
    for (to, expected) in [(9, "UNKNOWN_MEMBER"), (0, "UNKNOWN_MEMBER")] {
        let request = TransferLeaderRequest { set: "im-a".into(), to, ..TransferLeaderRequest::default() };
        let response = ask(&cluster, |mut admin| {
            let request = request.clone();
            async move { admin.transfer_leader(request).await }
        });
        assert_eq!(reason(response.await), expected);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_outside_of_the_group_needs_the_join_option() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let new = cluster.newcomer(Disk::Memory, &[1, 2]);
    cluster.joins.clear();
    let error = cluster.try_start(new).await.unwrap_err();
    assert!(matches!(error, StartError::Raft(RaftStartError::NotAMember { id, .. }) if id == new), "{error}");
    assert!(error.to_string().contains("--join"), "{error}");

    let mut config = cluster.config(new);
    config.join = true;
    config.spec.stores.retain(|store| store.id == new);
    assert_eq!(config.validate().unwrap_err(), ConfigError::NothingToJoin { set: "im-a".into() });
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_of_newcomers_forms_no_second_group() {
    // A group of one, with the highest id, that is to grow.
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.files = (1..=2).map(|id| (id, vec![1, 2, 3])).collect();
    cluster.first = vec![3];
    cluster.start_all().await;
    cluster.ready().await;
    cluster.stop(3).await;
    // The newcomers were started without the join option, and the member that has the data is down.
    cluster.start(1).await;
    cluster.start(2).await;
    cluster.start(3).await;
    for id in [1, 2] {
        let member = cluster.member(id);
        let tasks = member.tasks.clone();
        tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it learns that there is a group");
        assert_eq!(tasks.failed(), Some("store probe"));
        assert_eq!(member.handle.leader(), None, "store {id} is of no group");
        cluster.stop(id).await;
    }
    cluster.ready().await;
    assert_eq!(voters(&list(&cluster).await), [3]);
    cluster.stop_all().await;
}
