//! Several sets: how each comes into being, and what operators request of them.

use seq_core::set_spec::Genesis;
use seq_proto::v1::{RegisterRequest, RenewRequest};

use crate::cluster::{Cluster, Disk, LEASE_MS, reason, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_waits_for_its_command_is_not_ready_and_refuses_allocators() {
    for (genesis, command) in [(Genesis::Init, "init"), (Genesis::Create, "create")] {
        let mut cluster = Cluster::new(1, Disk::Memory);
        cluster.spec.genesis = genesis;
        cluster.start_all().await;
        let expected = format!("the set is not created yet: run `seqsvr set {command} --set FILE`");
        until("the set is all that is missing", async || {
            let failing = cluster.member(1).handle.readiness().ask().unwrap_err();
            let texts: Vec<String> = failing.into_iter().map(|failure| format!("{failure:?}")).collect();
            (texts.len() == 1 && texts[0].contains(&expected)).then_some(())
        })
        .await;
        let before = cluster.level().await;
        let (set, node, addr) = ("im-a".into(), "a1".into(), "127.0.0.1:9".into());
        let register = RegisterRequest { set, node, addr, token: 1, lease_ms: LEASE_MS, ..RegisterRequest::default() };
        assert_eq!(reason(cluster.control(1).register(register).await), "NO_SET");
        let renew = RenewRequest { node_id: 1, incarnation: 1, renew_seq: 1, ..RenewRequest::default() };
        assert_eq!(reason(cluster.control(1).renew(renew).await), "NO_SET");
        assert_eq!(cluster.level().await, before, "refused before anything is proposed");
        cluster.stop_all().await;
    }
}
