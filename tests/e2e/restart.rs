//! Orderly stops of a whole set with real processes: every user continues with the next seq.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Place, Server};

/// Users with seqs: 5,000 in each of 20 sections.
const USERS: u64 = 100_000;

/// Distance between the uids of two users.
const STRIDE: u64 = 20;

/// Timeout of a reply on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Set {
    place: Place,
    stores: Vec<Server>,
    allocs: Vec<Server>,
}

impl Set {
    /// Starts three stores and two allocators, at first or after a stop.
    fn start(place: Place) -> Set {
        let set = place.set_file("three-node.toml").display().to_string();
        let store = |id: u64| {
            let (name, id) = (format!("s{id}"), id.to_string());
            let data = place.path(&name).display().to_string();
            place.server(&name, &["store", "--set", &set, "--id", &id, "--data", &data])
        };
        let stores = (1..=3).map(store).collect();
        let alloc = |name| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
        let allocs = ["a1", "a2"].map(alloc).into();
        Set { place, stores, allocs }
    }

    /// Stops both allocators at the same time, and then the stores. Returns the time that the allocators took.
    fn stop(mut self) -> (Place, Duration) {
        let began = Instant::now();
        self.allocs.iter().for_each(Server::interrupt);
        for alloc in &mut self.allocs {
            assert_eq!(alloc.wait_exit(), Some(0), "{}", alloc.log());
        }
        let took = began.elapsed();
        for store in &mut self.stores {
            assert_eq!(store.terminate(), Some(0), "{}", store.log());
        }
        (self.place, took)
    }

    /// Returns the replies to one command for each of the users, in order, from the Redis port of a1.
    fn of_users(&self, command: &str, uids: impl Iterator<Item = u64>) -> Vec<String> {
        let stream = eventually("a1 listens", || TcpStream::connect((self.place.host, 7479)).ok());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let commands: String = uids.map(|uid| format!("{command} seq:{uid}\r\n")).collect();
        let count = commands.lines().count();
        thread::scope(|scope| {
            scope.spawn(move || writer.write_all(commands.as_bytes()).unwrap());
            BufReader::new(&stream).lines().take(count).map(Result::unwrap).collect()
        })
    }

    /// Allocates the next seq of every user.
    fn next_of_all(&self) -> Vec<String> {
        // Every section has an owner that a1 knows before the pipeline is sent.
        eventually("every section is served", || {
            let replies = self.of_users("EXISTS", (0..20).map(|section| section * 100_000));
            replies.iter().all(|reply| reply.starts_with(':')).then_some(())
        });
        self.of_users("INCR", (0..USERS).map(|user| user * STRIDE))
    }
}

/// Asserts that every user has been allocated this seq.
fn assert_all(replies: &[String], number: u64) {
    let expected = format!(":{number}");
    let other = (0..).zip(replies).find(|(_, reply)| **reply != expected);
    assert!(other.is_none(), "{expected}: user {other:?} of {}", replies.len());
    assert_eq!(replies.len() as u64, USERS);
}

/// Returns the lines of an allocator's log about sections that changed their owner.
fn changes(alloc: &Server) -> impl Iterator<Item = String> {
    let log = alloc.log();
    log.lines()
        .filter(|line| line.contains("sections changed owner"))
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn orderly_stops_of_a_whole_set_skip_no_number() {
    let mut set = Set::start(Place::new());
    assert_all(&set.next_of_all(), 1);
    for number in 2..=4 {
        let (place, took) = set.stop();
        println!("{USERS} users: both allocators stopped in {took:?}");
        set = Set::start(place);
        assert_all(&set.next_of_all(), number);
        let untouched = set.of_users("EXISTS", (0..20).map(|section| section * 100_000 + 7));
        assert!(untouched.iter().all(|reply| reply == ":0"), "{untouched:?}");
    }
    // The owner is killed during its release: users of unreleased sections skip seqs, but no seq is allocated twice.
    let owns = |alloc: &Server| changes(alloc).last().is_some_and(|line| line.contains(" left=0 "));
    let owner = set.allocs.iter().position(owns).expect("one allocator has the sections");
    let other = 1 - owner;
    set.allocs.iter().for_each(Server::interrupt);
    let before = changes(&set.allocs[owner]).count();
    eventually("the release has begun", || (changes(&set.allocs[owner]).count() > before).then_some(()));
    set.allocs[owner].kill();
    assert_eq!(set.allocs[other].wait_exit(), Some(0), "{}", set.allocs[other].log());
    for store in &mut set.stores {
        assert_eq!(store.terminate(), Some(0), "{}", store.log());
    }
    let set = Set::start(set.place);
    let numbers: Vec<u64> =
        set.next_of_all().iter().map(|reply| reply.strip_prefix(':').unwrap().parse().unwrap()).collect();
    let exact = numbers.iter().filter(|number| **number == 5).count();
    println!("{exact} of {USERS} users went on exactly after a kill in the middle of the release");
    assert!(numbers.iter().all(|number| *number >= 5), "a number came twice");
    set.stop();
}
