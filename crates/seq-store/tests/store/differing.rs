//! A member whose state differs from the state of the majority stops, and the other members report why.

use std::path::Path;
use std::time::Duration;

use seq_core::SectionId;
use seq_core::state::SectionRecord;
use seq_raft::{Peer, RestoredGroup, StateMachine as _, form_restored};
use seq_store::{DataDir, SetState};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, TIMEOUT};
use crate::restored::backup;

/// Forms the directories of a group from one backup, as `restore` does. In the directories of `differing` the ceiling
/// of section 3 is higher by one. The identity of a group that `restore` forms covers its content, but the identity
/// here does not.
async fn formed(cluster: &mut Cluster, place: &Path, differing: &[u64]) {
    let state = backup(cluster).await.state().clone();
    cluster.stop_all().await;
    let peer = |id: u64| {
        let addr = cluster.addr(id).to_owned();
        Peer { id, name: format!("s{id}"), raft_addr: addr.clone(), addr }
    };
    let peers: Vec<Peer> = cluster.ids().into_iter().map(peer).collect();
    for id in cluster.ids() {
        let mut state = state.clone();
        state.raise_format(SetState::FORMAT);
        state.0.store_ids = cluster.ids();
        if differing.contains(&id) {
            let Some(SectionRecord::Resident(record)) = state.0.sections.get(SectionId(3)) else { unreachable!() };
            let mut record = *record;
            record.max_seq.0 += 1;
            state.0.sections.put(SectionId(3), SectionRecord::Resident(record));
        }
        let dir = place.join(id.to_string());
        let group = RestoredGroup { cluster: &cluster.name, peers: &peers, format: SetState::FORMAT, seed: [7; 32] };
        form_restored(&dir, id, &group, state).unwrap();
        cluster.data[id as usize - 1] = DataDir::Path(dir);
    }
}

async fn started(differing: &[u64]) -> (Cluster, tempfile::TempDir) {
    let mut cluster = Cluster::new(3, Disk::Sled);
    cluster.options.comparison_interval = Duration::from_millis(200);
    cluster.start_all().await;
    cluster.ready().await;
    let session = cluster.register("a1", 1).await;
    cluster.owns(&session, 10).await;
    let place = tempfile::tempdir().unwrap();
    formed(&mut cluster, place.path(), differing).await;
    (cluster, place)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_ceiling_that_differs_stops_its_member_by_name() {
    let (mut cluster, _place) = started(&[3]).await;
    cluster.start_all().await;
    let member = cluster.take(3);
    tokio::time::timeout(TIMEOUT, member.tasks.token().cancelled_owned()).await.expect("it stops by itself");
    assert_eq!(member.tasks.failed(), Some("store raft"));
    drop(member.handle.shutdown().await);
    drop(member.tasks.shutdown(TIMEOUT).await);
    let refused = format!("{:?}", cluster.try_start(3).await.unwrap_err());
    assert!(refused.contains("Outvoted") && refused.contains("stores 1 and 2"), "{refused}");

    for id in [1, 2] {
        let difference = until("the others report it", async || {
            Some(cluster.status(id).await.difference).filter(|found| !found.is_empty())
        })
        .await;
        assert!(difference.ends_with(|last: char| last.is_ascii_hexdigit()), "{difference}");
        assert!(difference.contains("store 3 is"), "{difference}");
    }
    // The majority continues.
    cluster.leader().await;
    cluster.level().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_states_are_compared_and_nothing_is_reported() {
    let (mut cluster, _place) = started(&[]).await;
    cluster.start_all().await;
    let leader = cluster.leader().await;
    let before = cluster.status(leader).await.applied_index;
    cluster.register("a1", 2).await;
    let registered = cluster.status(leader).await.applied_index;
    assert!(registered > before);
    // A mark is an entry of its own, and nothing else is proposed.
    until("a mark", async || (cluster.status(leader).await.applied_index > registered).then_some(())).await;
    cluster.level().await;
    for id in cluster.ids() {
        assert_eq!(cluster.status(id).await.difference, "");
    }
    cluster.stop_all().await;
}
