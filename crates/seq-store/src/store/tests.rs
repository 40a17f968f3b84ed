//! What needs a look inside of members: a change of voters that lost its leader half way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use openraft::raft::Precondition;
use seq_core::set_spec::{AllocSpec, SetSpec, StoreSpec};

use super::*;
use crate::storage::MemoryDisk;
use crate::types::{Membership, Payload};

/// How long anything may take on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three members on loopback.
async fn three(tasks: &TaskGroup) -> Vec<StoreHandle> {
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addrs = ports.iter().map(|port| port.local_addr().unwrap().to_string());
    let store = |(id, addr): (u64, String)| StoreSpec { id, name: format!("s{id}"), http: addr.clone(), addr };
    let spec = SetSpec {
        name: "im-a".into(),
        uids: 0..1_000,
        section_size: 100,
        step: 1_000,
        stores: (1..).zip(addrs).map(store).collect(),
        allocs: vec![AllocSpec { name: "a1".into(), addr: "h:1".into(), http: "h:2".into(), redis: None, weight: 1 }],
    };
    let start = |(id, port): (u64, TcpListener)| {
        let config = StoreConfig {
            spec: spec.clone(),
            cluster: spec.name.clone(),
            id,
            data: DataDir::Memory(MemoryDisk::new()),
            join: false,
            form: false,
            listener: port.into(),
            options: StoreOptions::DEFAULTS,
            clock: seq_api::clock::Clock::System,
            revision: "test".into(),
            cpu_us: || 0,
        };
        Store::start(config, tasks.clone())
    };
    let started = futures::future::join_all((1..).zip(ports).map(start)).await;
    let members: Vec<StoreHandle> = started.into_iter().map(Result::unwrap).collect();
    let ready = futures::future::join_all(members.iter().map(StoreHandle::ready));
    tokio::time::timeout(PATIENCE, ready).await.expect("the store gets ready");
    members
}

/// Waits until a member's newest list of members is committed and as wanted.
async fn voters(member: &StoreHandle, wanted: &[BTreeSet<u64>]) {
    let mut metrics = member.raft.server_metrics();
    let changed = async {
        loop {
            let metrics_now = metrics.borrow_watched().clone();
            let list = &metrics_now.membership_config;
            let committed = list == &metrics_now.committed_membership_config;
            if committed && list.membership().get_joint_config() == wanted {
                return;
            }
            metrics.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, changed).await.unwrap_or_else(|_| panic!("the voters are {wanted:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_voters_that_lost_its_leader_is_ended_by_the_next_one() {
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = members.iter().find(|member| member.is_leader()).expect("one leads");
    let list = leader.raft.server_metrics().borrow_watched().membership_config.clone();
    let nodes: BTreeMap<_, _> = list.membership().nodes().map(|(id, member)| (*id, member.clone())).collect();
    let (old, new) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([leader.raft.metrics().borrow_watched().id]));
    // The first entry of a change, and nobody who waits to make the second.
    let joint = Membership::new(vec![old, new.clone()], nodes).unwrap();
    let conditions = [Precondition::LastMembershipLogId { last_membership_log_id: *list.log_id() }];
    leader.raft.append_membership(joint, Payload::Blank, conditions).await.unwrap();
    voters(leader, &[new]).await;
    let ends = futures::future::join_all(members.into_iter().map(StoreHandle::shutdown)).await;
    ends.into_iter().for_each(|end| end.unwrap());
    tasks.shutdown(PATIENCE).await.unwrap();
}
