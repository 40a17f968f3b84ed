//! The notifications of a server to systemd, received on a socket like systemd's.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use seq_testkit::{TIMEOUT, eventually};

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};

/// The notifications of one server.
struct Notifications {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Notifications {
    /// Starts a server under a supervisor with a watchdog.
    fn of(place: &Place, name: &str, args: &[&str]) -> (Notifications, Server) {
        let path = place.path(&format!("{name}.notify"));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let environment = [("NOTIFY_SOCKET", path.display().to_string()), ("WATCHDOG_USEC", "400000".to_owned())];
        (Notifications { socket, received: Vec::new() }, place.server_with_environment(name, args, environment))
    }

    /// Makes room in the socket, because a notification is lost if the socket is full.
    fn drain(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut [0; 4096]).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }

    /// Receives until a line of a notification begins with `start`, and returns that line.
    fn wait(&mut self, start: &str) -> String {
        let (mut buffer, since) = ([0; 4096], Instant::now());
        while since.elapsed() < TIMEOUT {
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            let lines: Vec<String> = String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned).collect();
            let found = lines.iter().find(|line| line.starts_with(start)).cloned();
            self.received.extend(lines);
            if let Some(line) = found {
                return line;
            }
        }
        panic!("no {start:?} within {TIMEOUT:?}; received {:?}", self.received)
    }
}

#[test]
fn a_server_notifies_its_supervisor_of_its_state() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let (mut of_alloc, mut alloc) = Notifications::of(&place, "a1", &["alloc", "--set", &set, "--name", "a1"]);
    let status = of_alloc.wait("STATUS=");
    assert!(status.starts_with("STATUS=not ready: registered: "), "{status}");
    of_alloc.wait("WATCHDOG=1");
    assert!(!of_alloc.received.iter().any(|line| line == "READY=1"), "{:?}", of_alloc.received);

    let mut stores: Vec<(Notifications, Server)> = (1..=3_u64)
        .map(|id| {
            let (name, data) = (format!("s{id}"), place.path(&format!("s{id}")).display().to_string());
            Notifications::of(&place, &name, &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
        })
        .collect();
    for (of_store, _) in &mut stores {
        of_store.wait("READY=1");
    }
    of_alloc.wait("READY=1");

    assert_eq!(alloc.terminate(), Some(0), "{}", alloc.log());
    of_alloc.wait("STOPPING=1");
    assert_eq!(of_alloc.received.iter().filter(|line| *line == "READY=1").count(), 1, "{:?}", of_alloc.received);
    for (of_store, store) in &mut stores {
        of_store.drain();
        assert_eq!(store.terminate(), Some(0), "{}", store.log());
        of_store.wait("STOPPING=1");
    }
}

#[test]
fn settings_are_reloaded_at_a_hangup() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let config = place.path("seqsvr.toml");
    let write = |text: &str| std::fs::write(&config, text).unwrap();
    write("[log]\nfilter = \"warn\"\n");
    let args = ["alloc", "--set", &set, "--name", "a1", "--config", &config.display().to_string()];
    let (mut notifications, mut alloc) = Notifications::of(&place, "a1", &args);
    notifications.wait("STATUS=");
    assert!(!alloc.log().contains("seqsvr starts"), "{}", alloc.log());
    let hang_up = |text: &str, expected: &str| {
        write(text);
        alloc.hang_up();
        eventually(expected, || alloc.log().contains(expected).then_some(()));
    };
    hang_up("[log]\nfilter = \"info\"\n", "settings reloaded log.filter=\"info\"");
    hang_up("[log]\nfilter = 7\n", "settings not reloaded; the settings in use stay");
    hang_up("[limits]\nmemory_mib = 512\n", "some changed settings need a restart keys=\"limits.memory_mib\"");
    assert_eq!(alloc.terminate(), Some(0), "{}", alloc.log());
}

/// Reloads the step, the weights, and an additional allocator, without a restart of any node.
#[test]
fn a_set_file_is_reloaded_at_a_hangup() {
    let place = Place::new();
    let set = place.set_file("three-node.toml");
    let config = place.path("seqsvr.toml");
    std::fs::write(&config, "[store]\nrebalance_after_ms = 300\nregistration_grace_ms = 500\n").unwrap();
    let (path, config) = (set.display().to_string(), config.display().to_string());
    let both = std::fs::read_to_string(&set).unwrap();
    let write = |text: &str| std::fs::write(&set, text).unwrap();
    let (first, _) = both.split_once("# A weight of 2").unwrap();
    write(first);
    let stores: Vec<Server> = (1..=3_u64)
        .map(|id| {
            let (name, id) = (format!("s{id}"), id.to_string());
            let data = place.path(&name).display().to_string();
            place.server(&name, &["store", "--set", &path, "--id", &id, "--data", &data, "--config", &config])
        })
        .collect();
    let a1 = place.server("a1", &["alloc", "--set", &path, "--name", "a1"]);
    let addr = format!("http://{}:7400", place.host);
    let next = || seqsvr(&["next", "42", "--addr", &addr]).status.success().then_some(());
    eventually("a number is allocated", next);
    let ceiling = || digits(&seqsvr_json(&["section", "show", "0", "--set", &path])["ceiling"]);
    assert_eq!(ceiling(), 10_000);

    // A thousand seqs take one raise of the old step, or ten raises of the new step.
    write(&first.replace("step = 10_000", "step = 100_000"));
    a1.hang_up();
    eventually("the set file is reloaded", || a1.log().contains("set file reloaded").then_some(()));
    assert!(seqsvr(&["next", "42", "-n", "10000", "--addr", &addr]).status.success());
    eventually("the ceiling is raised by the new step", || (ceiling() >= 100_000).then_some(()));

    // The second allocator has three quarters of the weight.
    write(&both.replace("weight = 1", "weight = 3"));
    stores.iter().for_each(Server::hang_up);
    for store in &stores {
        eventually("the set file is reloaded", || store.log().contains("set file reloaded").then_some(()));
    }
    let _a2 = place.server("a2", &["alloc", "--set", &path, "--name", "a2"]);
    let owned = || -> Vec<u64> {
        let list = seqsvr_json(&["node", "list", "--set", &path]);
        list["nodes"].as_array().unwrap().iter().map(|node| node["sections"].as_u64().unwrap()).collect()
    };
    // No node has more than a tenth above its share, which is 75 of 100 for a2.
    eventually("a2 has its share", || matches!(owned()[..], [few, 67..=83] if few <= 33).then_some(()));

    // A change that needs a restart is named, and a wrong file changes nothing.
    write(&both.replace(":7301", ":7391"));
    a1.hang_up();
    eventually("the change is named", || {
        a1.log().contains("the set file has changes that need a restart").then_some(())
    });
    write("name = 7\n");
    eventually("the set file is refused", || {
        a1.hang_up();
        a1.log().contains("set file not reloaded; the set file in use stays").then_some(())
    });
    eventually("a number is allocated", next);
}
