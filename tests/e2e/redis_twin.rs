//! A real redis-server and seqsvr side by side: the same commands get the same replies if both support the command.
//! Commands that only seqsvr refuses are listed in a separate table, so each refusal is a decision.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seq_testkit::eventually;

use crate::cluster::Place;
use crate::redis::{self, tool};

/// Timeout of a reply on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Command sequences with byte-identical replies. A key is `K` or `L`; each sequence has its own keys and connections.
const SAME: &[&[&str]] = &[
    &["GET K", "INCR K", "GET K", "INCR K", "EXISTS K", "EXISTS K L K", "MGET K L K", "TYPE K", "TYPE L"],
    &["SET K 20", "INCR K", "GET K", "SET L 0", "INCRBY L 3"],
    &["SETNX K 100", "SETNX K 200", "INCR K", "SET K 200 NX", "GET K", "SET L 7 NX", "INCR L", "SETNX K"],
    &["SETNX K 0", "INCR K", "INCRBY K 5", "SETNX K 0", "GET K"],
    &["MSET K 10 L 20", "MGET K L", "INCR L", "MSET K", "MSET K 11 L", "GET K"],
    &["SET K 500000000", "INCR K", "INCRBY K 1000000", "GET K"],
    &["INCRBY K 5", "INCRBY K 1", "INCRBY K 999999", "TTL K", "PTTL K", "TTL L"],
    &[
        "INCRBY K 007",
        "INCRBY K +7",
        "INCRBY K 1.5",
        "INCRBY K 1e3",
        "INCRBY K abc",
        "INCRBY K -0",
        "INCRBY K -007",
        "GET K",
    ],
    &["INCRBY K 99999999999999999999", "INCRBY K -99999999999999999999", "INCRBY K 9223372036854775808", "EXISTS K"],
    &[
        "INCR",
        "INCR K L",
        "INCRBY K",
        "INCRBY K 1 2",
        "GET",
        "MGET",
        "EXISTS",
        "SET K",
        "DECR",
        "LPUSH K",
        "TYPE",
        "ECHO",
    ],
    &["incr K", "InCrBy K 2", "get K"],
    &["PING", "PING hello", "PING a b", "ECHO hello", "SELECT 0"],
    &["ECHO \"a b\"", "ECHO 'a b'", "INCR \"K\"", "INCR 'K'", "ECHO \"\"", "GET K"],
    &["MULTI", "INCR K", "INCR K", "EXEC", "GET K"],
    &["MULTI", "INCRBY K 10", "INCR L", "PING", "GET K", "EXEC", "MGET K L"],
    &["MULTI", "EXEC", "MULTI", "DISCARD", "EXEC", "DISCARD"],
    &["MULTI", "INCR K", "DISCARD", "GET K", "INCR K"],
    &["MULTI", "INCR K", "NONSENSE_", "INCR K", "EXEC", "GET K"],
    &["MULTI", "INCR K", "INCR", "EXEC", "GET K"],
    &["MULTI", "MULTI", "INCR K", "EXEC"],
    &["MULTI", "INCR K", "INCRBY K abc", "INCR K", "EXEC"],
    &["MULTI", "INCR K", "RESET", "GET K", "EXEC"],
    &["UNWATCH", "ROLE", "RESET", "CLUSTER INFO", "CLUSTER SLOTS"],
    &[
        "HELLO x",
        "HELLO 4",
        "AUTH default any",
        "AUTH any",
        "CLIENT SETNAME \"a b\"",
        "CLIENT SETNAME me",
        "CLIENT GETNAME",
    ],
    &["HELLO 3 AUTH default any SETNAME \"a b\"", "CLIENT GETNAME"],
    &["QUIT"],
    &["ECHO \"a", "PING"],
    &["ECHO \"a\"b", "PING"],
];

/// Commands that Redis supports and seqsvr refuses, with a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("INCRBY K 0", "1..=1000000"),
    ("INCRBY K 1000001", "count 1000001 is not in 1..=1000000"),
    ("INCRBY K 17179869184", "count 17179869184 is not in 1..=1000000"),
    ("INCRBY K -5", "never go back"),
    ("DECR K", "never go back"),
    ("DECRBY K 2", "never go back"),
    ("SET K 1", "past that number"),
    ("SET K 4611686018427387904", "starts all of them at the ceiling"),
    ("SET K 9000 XX", "no option but NX"),
    ("SET K 9000 NX EX 5", "no option but NX"),
    ("MSET L 9 K 1", "past that number"),
    ("SET K abc", "not an integer"),
    ("DEL K", "never go back"),
    ("EXPIRE K 10", "never go back"),
    ("GETSET K 1", "never go back"),
    ("FLUSHALL", "never go back"),
    ("LPUSH L x", "a sequence"),
    ("INCR foo", "no sequence"),
    ("WATCH K", "EXEC is a batch"),
    ("SELECT 1", "there is one"),
    ("LASTSAVE", "unknown command"),
    ("LATENCY LATEST", "unknown command"),
    ("LOLWUT", "unknown command"),
];

/// Commands that neither server supports, which must return the same kind of error.
const UNKNOWN: &[&str] = &["HELP", "NONSENSE", "HGETS K", "XYZ", "LPUSHXX K", "ZZTOP"];

/// A redis-server without persistence, on a socket in the test's directory.
struct Redis(Child);

impl Redis {
    fn start(program: &Path, socket: &Path) -> Redis {
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(socket);
        let server = Redis(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        eventually("redis-server listens", || UnixStream::connect(socket).ok());
        server
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection; commands are lines.
struct Talk<S: Read>(BufReader<S>);

impl<S: Read + Write> Talk<S> {
    /// Returns the bytes of the reply to a command, or the bytes received so far if the server closes the connection.
    fn ask(&mut self, command: &str) -> String {
        // The read detects a connection closed by the server.
        let _ = self.0.get_mut().write_all(format!("{command}\r\n").as_bytes());
        let mut reply = String::new();
        self.read(&mut reply);
        reply
    }

    fn read(&mut self, reply: &mut String) {
        let start = reply.len();
        if !self.0.read_line(reply).is_ok_and(|bytes| bytes > 0) {
            reply.push_str("closed");
            return;
        }
        let (kind, rest) = reply[start..].trim_end().split_at(1);
        let count: i64 = rest.parse().unwrap_or(-1);
        match kind {
            "$" if count >= 0 => {
                let mut bulk = vec![0; usize::try_from(count).unwrap() + 2];
                self.0.read_exact(&mut bulk).unwrap();
                reply.push_str(&String::from_utf8(bulk).unwrap());
            }
            "*" => (0..count).for_each(|_| self.read(reply)),
            "%" => (0..2 * count).for_each(|_| self.read(reply)),
            _ => {}
        }
    }
}

/// Returns the command with the keys of the given sequence.
fn with_keys(command: &str, number: usize) -> String {
    let key = |word: &str, first: usize| format!("seq:{}", number * 2 + first + usize::from(word == "L"));
    let words = command.split(' ').map(|word| match word.trim_matches(['"', '\'']) {
        name @ ("K" | "L") => word.replace(name, &key(name, 0)),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn redis_and_seqsvr_give_the_same_replies() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let socket = place.path("redis.sock");
    let _redis = Redis::start(&program, &socket);
    let (_server, nodes) = redis::start(&place);
    let addr = format!("{}:{}", nodes[1].host, nodes[1].port);
    let theirs = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Talk(BufReader::new(stream))
    };
    let ours = || {
        let stream = TcpStream::connect(&addr).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Talk(BufReader::new(stream))
    };
    let mut differences = String::new();
    for (number, conversation) in SAME.iter().enumerate() {
        let (mut theirs, mut ours) = (theirs(), ours());
        for command in *conversation {
            let command = with_keys(command, number);
            let (right, got) = (theirs.ask(&command), ours.ask(&command));
            // Replies to unknown commands list the known commands, so only the kind of error is compared.
            let unknown = "-ERR unknown command";
            if right != got && !(right.starts_with(unknown) && got.starts_with(unknown)) {
                differences += &format!("{conversation:?} at {command}:\n  redis  {right:?}\n  seqsvr {got:?}\n");
            }
        }
    }
    let (mut theirs, mut ours) = (theirs(), ours());
    let number = SAME.len();
    for talk in ["SET K 5000", "INCR K"] {
        let command = with_keys(talk, number);
        assert_eq!(theirs.ask(&command), ours.ask(&command), "{command}");
    }
    for (command, why) in REFUSED {
        let command = with_keys(command, number);
        let got = ours.ask(&command);
        if !got.starts_with('-') || !got.contains(why) {
            differences += &format!("{command}: {got:?} is no refusal with {why:?}\n");
        }
    }
    assert_eq!(ours.ask(&with_keys("GET K", number)), "$4\r\n5001\r\n", "refused commands changed nothing");
    for command in UNKNOWN {
        let command = with_keys(command, number);
        for reply in [theirs.ask(&command), ours.ask(&command)] {
            if !reply.starts_with("-ERR unknown command") {
                differences += &format!("{command}: {reply:?}\n");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
