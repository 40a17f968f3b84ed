//! Members of two releases in one group: the former reads formats to [`OLDEST`], the later to [`NEXT`].

use futures::FutureExt;
use futures::future::BoxFuture;
use seq_core::plan::Fingerprint;
use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{MembershipStatus, ProbeRequest};

use super::*;

const NEXT: u16 = OLDEST + 1;

type Later = Journal<NEXT>;

/// A member with a task group of its own, so that it can be stopped alone.
struct Member<M: StateMachine> {
    node: RunningNode<M>,
    tasks: TaskGroup,
}

impl<M: StateMachine> Member<M> {
    async fn stop(self) {
        self.node.shutdown(&self.tasks, || {}).await.unwrap();
        self.tasks.shutdown(TIMEOUT).await.unwrap();
    }
}

/// Disks and ports of three members, which outlive the members.
struct Places {
    ports: Vec<TcpListener>,
    peers: Vec<Peer>,
    disks: Vec<DataDir>,
}

impl Places {
    fn new() -> Places {
        let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
        let peer = |(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port), raft_addr: addr(port) };
        let peers = (1..).zip(&ports).map(peer).collect();
        Places { ports, peers, disks: (0..3).map(|_| DataDir::Memory(MemoryDisk::new())).collect() }
    }

    async fn start<const NEWEST: u16>(&self, id: u64) -> Member<Journal<NEWEST>> {
        let (tasks, place) = (TaskGroup::new(), id as usize - 1);
        let port = self.ports[place].try_clone().unwrap();
        let node = start(id, port, self.peers.clone(), self.disks[place].clone(), &tasks).await;
        Member { node, tasks }
    }

    /// Returns the error of a member that does not start.
    async fn refused<const NEWEST: u16>(&self, id: u64) -> String {
        let disk = self.disks[id as usize - 1].clone();
        let node = prepare::<NEWEST>(id, self.peers.clone(), disk, &TaskGroup::new());
        let error = node.load::<StartError>(unobserved(), |_| Ok(())).await.err().expect("it is refused");
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

/// A member of any release that accepts proposals.
trait Appends: Sync {
    /// Returns whether the command was applied.
    fn append<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, bool>;
}

impl<const NEWEST: u16> Appends for Member<Journal<NEWEST>> {
    fn append<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, bool> {
        async { self.node.handle().propose(command).await.is_ok() }.boxed()
    }
}

/// Proposes a word at the current leader.
async fn append(members: [&dyn Appends; 3], word: &str) {
    let command = Command::Append(word.into());
    let proposed = async {
        loop {
            for member in members {
                if member.append(&command).await {
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, proposed).await.expect("there is a leader in time");
}

/// Waits until a member has applied these words; returns the group's format at that point.
async fn has_words<const NEWEST: u16>(member: &Member<Journal<NEWEST>>, expected: &[&str]) -> u16 {
    let words: Vec<Vec<u8>> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
    let state = |member: &RaftHandle<Journal<NEWEST>>| member.state().read(|journal| journal.words.clone());
    until(member.node.handle(), |member| (state(member) == words).then_some(member.state().format())).await
}

/// Transfers leadership away from a member, if it leads.
async fn lead_without<M: StateMachine>(member: &Member<M>) {
    if member.node.handle().is_leader() {
        member.node.handle().transfer_leadership().await.unwrap();
    }
}

/// Waits until either member leads.
async fn leading(members: [&Member<Later>; 2]) -> &RaftHandle<Later> {
    let leads = |member: &RaftHandle<Later>| member.quorum() == QuorumStatus::Leads;
    let [one, other] = members.map(|member| member.node.handle());
    let found = async {
        let (mut of_one, mut of_other) = (one.changes(), other.changes());
        loop {
            if let Some(leader) = [one, other].into_iter().find(|member| leads(member)) {
                return leader;
            }
            tokio::select! {
                changed = of_one.changed() => changed.unwrap(),
                changed = of_other.changed() => changed.unwrap(),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, found).await.expect("one leads in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_format_is_raised_once_all_members_read_the_next_one_and_never_goes_back() {
    let places = Places::new();
    let (s1, s2, s3) = tokio::join!(places.start::<NEXT>(1), places.start::<NEXT>(2), places.start::<OLDEST>(3));
    append([&s1, &s2, &s3], "one").await;
    for format in [has_words(&s1, &["one"]).await, has_words(&s2, &["one"]).await, has_words(&s3, &["one"]).await] {
        assert_eq!(format, OLDEST, "what the former release reads is written");
    }
    lead_without(&s3).await;
    let refusal = leading([&s1, &s2]).await.raise_format().await.unwrap_err().to_string();
    assert_eq!(refusal, "store 3 runs a release that reads formats up to 3, and 4 is to be written: upgrade it first");
    // A member that is down may return with either release. Its last response may still arrive after its stop.
    s3.stop().await;
    let silent = async {
        loop {
            let refusal = leading([&s1, &s2]).await.raise_format().await.unwrap_err().to_string();
            if refusal.starts_with("store 3 does not respond") {
                return;
            }
            assert!(refusal.starts_with("store 3 runs a release"), "{refusal}");
        }
    };
    tokio::time::timeout(TIMEOUT, silent).await.expect("the stopped member is named in time");

    let s3 = places.start::<NEXT>(3).await;
    append([&s1, &s2, &s3], "two").await;
    lead_without(&s3).await;
    let leader = leading([&s1, &s2]).await;
    let (foreseen, plan) = leader.changes.raise_format((true, Fingerprint::NONE)).await.unwrap();
    assert_eq!(foreseen, crate::FormatRaise { from: OLDEST, to: NEXT });
    let stale = leader.changes.raise_format((false, Fingerprint(!plan.0))).await.unwrap_err().to_string();
    assert!(stale.ends_with(&format!("is {plan} now")), "{stale}");
    assert_eq!(leader.state().format(), OLDEST, "a dry run raises nothing, and a stale plan neither");
    let (raised, made) = leader.changes.raise_format((false, plan)).await.unwrap();
    assert_eq!((raised, made), (foreseen, plan));
    assert_eq!(leader.raise_format().await, Ok(crate::FormatRaise { from: NEXT, to: NEXT }), "there is nothing to do");
    append([&s1, &s2, &s3], "three").await;
    for member in [&s1, &s2, &s3] {
        assert_eq!(has_words(member, &["one", "two", "three"]).await, NEXT);
    }

    // The former release finds the raise in its log, and the others refuse a member without that entry.
    s3.stop().await;
    let refusal = places.refused::<OLDEST>(3).await;
    assert!(refusal.contains("has format version 4, newer than 3, the newest this program reads"), "{refusal}");
    let s3 = places.start::<NEXT>(3).await;
    assert_eq!(has_words(&s3, &["one", "two", "three"]).await, NEXT);
    tokio::join!(s1.stop(), s2.stop(), s3.stop());
}

/// A command is written, the format is raised, and the command is appended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_a_raise_overtakes_is_void_and_written_anew() {
    let places = Places::new();
    let (s1, s2, s3) = tokio::join!(places.start::<NEXT>(1), places.start::<NEXT>(2), places.start::<NEXT>(3));
    append([&s1, &s2, &s3], "one").await;
    has_words(&s1, &["one"]).await;
    lead_without(&s3).await;
    let leader = leading([&s1, &s2]).await;
    let command = Command::Append(b"two".to_vec());
    let written = || encoding::write_command::<Later>(leader.state().format(), &command);
    let overtaken = written().unwrap();
    leader.raise_format().await.unwrap();
    assert!(leader.proposer.propose(overtaken.clone()).await.unwrap().is_overtaken());
    // The first attempt proposes the command encoded before the raise.
    let first = std::sync::Mutex::new(Some(overtaken));
    let output = leader.proposer.propose_anew(|| first.lock().unwrap().take().map_or_else(written, Ok)).await;
    assert_eq!(output.unwrap().downcast::<usize>(), 2);
    for member in [&s1, &s2, &s3] {
        assert_eq!(has_words(member, &["one", "two"]).await, NEXT, "it is applied once, by all members alike");
    }
    tokio::join!(s1.stop(), s2.stop(), s3.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_does_not_read_the_format_of_its_group_is_refused_by_the_others() {
    let places = Places::new();
    let (s1, s2, s3) = tokio::join!(places.start::<NEXT>(1), places.start::<NEXT>(2), places.start::<NEXT>(3));
    append([&s1, &s2, &s3], "one").await;
    has_words(&s1, &["one"]).await;
    let list = s1.node.handle().raft.server_metrics().borrow_watched().membership_config.clone();
    let directory = list.membership().get_node(&3).unwrap().fingerprint;
    let probe = async |newest_format: u32| {
        let fingerprint = directory.bytes().to_vec();
        let probe = ProbeRequest {
            cluster_id: "test".into(),
            from: 3,
            to: 1,
            fingerprint,
            newest_format,
            ..ProbeRequest::default()
        };
        let mut store = RaftServiceClient::connect(format!("http://{}", places.peers[0].addr)).await.unwrap();
        let response = store.probe(probe).await.map_err(|status| seq_proto::status::reason(&status).unwrap())?;
        Ok::<_, String>(response.into_inner().status())
    };
    for newest in [0, OLDEST, NEXT] {
        assert_eq!(probe(newest.into()).await, Ok(MembershipStatus::Member), "{newest}");
    }
    lead_without(&s3).await;
    leading([&s1, &s2]).await.raise_format().await.unwrap();
    append([&s1, &s2, &s3], "two").await;
    has_words(&s1, &["one", "two"]).await;
    for newest in [0, OLDEST] {
        assert_eq!(probe(newest.into()).await, Err("OUTDATED_MEMBER".to_owned()), "{newest}");
    }
    assert_eq!(probe(NEXT.into()).await, Ok(MembershipStatus::Member));
    tokio::join!(s1.stop(), s2.stop(), s3.stop());
}
