//! Members whose states differ: a majority of equal states outvotes the others, and without a majority all members
//! report the difference.

use super::*;
use crate::storage::LoadError;

/// A member of a restored group whose directory begins with given words, with its own tasks.
struct Restored {
    place: std::path::PathBuf,
    tasks: TaskGroup,
    member: RunningNode<Journal>,
}

/// Starts a group whose members begin with different words, as if their directories had been formed from several files
/// without the check of their identities.
async fn restored(dir: &std::path::Path, words: &[&[u8]]) -> (Vec<Restored>, Vec<Peer>) {
    let ports: Vec<TcpListener> = words.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peer = |(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port), raft_addr: addr(port) };
    let peers: Vec<Peer> = (1..).zip(&ports).map(peer).collect();
    let ids: Vec<u64> = peers.iter().map(|peer| peer.id).collect();
    let start = async |(id, (port, word)): (u64, (TcpListener, &&[u8]))| {
        let (place, tasks) = (dir.join(id.to_string()), TaskGroup::new());
        let state: Journal = Journal { words: vec![word.to_vec()], ids: ids.clone() };
        form_restored(&place, id, &group(&peers), state).unwrap();
        let member = super::start(id, port, peers.clone(), DataDir::Path(place.clone()), &tasks).await;
        Restored { place, tasks, member }
    };
    (futures::future::join_all((1..).zip(ports.into_iter().zip(words)).map(start)).await, peers)
}

async fn stop_each(members: Vec<Restored>) {
    for Restored { tasks, member, .. } in members {
        member.shutdown(&tasks, || {}).await.unwrap();
        tasks.shutdown(TIMEOUT).await.unwrap();
    }
}

/// Waits until a member has found a difference.
async fn difference(member: &RunningNode<Journal>) -> String {
    until(member.handle(), |member| Some(member.status().difference).filter(|found| !found.is_empty())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_equal_states_agree() {
    let dir = tempfile::tempdir().unwrap();
    let (members, _) = restored(dir.path(), &[b"same", b"same", b"same"]).await;
    let handles: Vec<&RaftHandle<Journal>> = members.iter().map(|member| member.member.handle()).collect();
    let kept = |member: &RaftHandle<Journal>| member.state.replica().digests().kept();
    // No further entry is marked until another command is applied.
    let first = until(handles[0], |member| kept(member).first().copied()).await;
    let id = until(handles[0], RaftHandle::leader).await;
    let leader = *handles.iter().find(|member| member.id() == id).unwrap();
    until(leader, |member| (member.quorum() == QuorumStatus::Leads).then_some(())).await;
    assert_eq!(leader.propose(&Command::Append(b"after".to_vec())).await, Ok(2));
    let mut second = Vec::new();
    for member in handles {
        second.push(until(member, |member| kept(member).last().copied().filter(|last| last.index > first.index)).await);
        assert_eq!(member.status().difference, "");
    }
    second.dedup();
    assert!(matches!(second[..], [digest] if digest.sha256 != first.sha256), "{first:?} {second:?}");
    stop_each(members).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_the_majority_contradicts_stops_and_does_not_start_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut members, peers) = restored(dir.path(), &[b"same", b"same", b"other"]).await;
    let Restored { place, tasks, member } = members.pop().unwrap();
    tokio::time::timeout(TIMEOUT, tasks.token().cancelled_owned()).await.expect("it stops by itself");
    assert!(matches!(&*member.evicted.borrow(), Some(Eviction::Outvoted(_))));
    drop(member.shutdown(&tasks, || {}).await);
    drop(tasks.shutdown(TIMEOUT).await);
    let refused = storage::prepare(&DataDir::Path(place), "test", 3).err().unwrap();
    let OpenError::Load(error @ LoadError::Outvoted { .. }) = refused else { panic!("{refused}") };
    assert!(error.to_string().contains("stores 1 and 2"), "{error}");
    // The others continue, and report the difference.
    for member in &members {
        assert!(difference(&member.member).await.contains("store 3"));
    }
    let handles: Vec<&RaftHandle<Journal>> = members.iter().map(|member| member.member.handle()).collect();
    let leads = |member: &RaftHandle<Journal>| member.leader().filter(|leader| *leader != peers[2].id);
    let id = until(handles[0], leads).await;
    let leader = handles.into_iter().find(|member| member.id() == id).unwrap();
    until(leader, |member| (member.quorum() == QuorumStatus::Leads).then_some(())).await;
    assert_eq!(leader.propose(&Command::Append(b"after".to_vec())).await, Ok(2));
    stop_each(members).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_of_equal_states_all_go_on_and_report_it() {
    let dir = tempfile::tempdir().unwrap();
    let (members, _) = restored(dir.path(), &[b"one", b"two"]).await;
    for member in &members {
        assert!(difference(&member.member).await.contains("store"));
        assert_eq!(*member.member.evicted.borrow(), None);
    }
    stop_each(members).await;
}
