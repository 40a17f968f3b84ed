//! What a server sends to systemd, received on a socket as systemd opens it.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use crate::cluster::{Place, Server, TIMEOUT, eventually};

/// The notifications of one server.
struct Notifications {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Notifications {
    /// A server under a supervisor with a watchdog.
    fn of(place: &Place, name: &str, args: &[&str]) -> (Notifications, Server) {
        let path = place.path(&format!("{name}.notify"));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let environment = [("NOTIFY_SOCKET", path.display().to_string()), ("WATCHDOG_USEC", "400000".to_owned())];
        (Notifications { socket, received: Vec::new() }, place.server_with_environment(name, args, environment))
    }

    /// Makes room in the socket: a notification that it has none for is lost.
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
    hang_up("[log]\nfilter = 7\n", "settings not reloaded; those in use stay");
    hang_up("[limits]\nmemory_mib = 512\n", "settings changed that a restart applies keys=\"limits.memory_mib\"");
    assert_eq!(alloc.terminate(), Some(0), "{}", alloc.log());
}
