//! Counters of another system are imported from a real redis-server and from files: an import starts completely or not
//! at all, lowers no counter, and ends with the same result if it is killed again and again.
//!
//! `IMPORT_COUNTERS=1000000` sets the number of counters, as `just import` does.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::dev;
use crate::redis::tool;

/// Users of the development cluster.
const UIDS: u64 = 1_000_000;

/// Number of times that an import is killed.
const KILLS: u32 = 10;

pub(crate) struct Redis {
    server: Child,
    host: Ipv4Addr,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) fn start(program: &Path, place: &Place) -> Redis {
        Redis::start_with(program, place, 6379, &[])
    }

    pub(crate) fn start_with(program: &Path, place: &Place, port: u16, args: &[&str]) -> Redis {
        let host = place.host;
        let mut command = Command::new(program);
        let dir = place.path(&format!("redis-{port}"));
        fs::create_dir_all(&dir).unwrap();
        command.arg("--dir").arg(dir);
        command.args(["--bind", &host.to_string(), "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
        command.args(args);
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Redis { server, host, port };
        eventually("redis-server listens", || TcpStream::connect((host, port)).ok());
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}:{}", self.host, self.port)
    }

    /// Sends a command; returns the first line of its reply.
    pub(crate) fn command(&self, command: &str) -> String {
        let mut stream = TcpStream::connect((self.host, self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a command; returns its whole reply.
    pub(crate) fn lines(&self, command: &str) -> String {
        let mut stream = TcpStream::connect((self.host, self.port)).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.trim_end().trim_end_matches("+OK").trim_end().to_owned()
    }

    /// Sets a key of any bytes to a value; returns the first line of the reply.
    pub(crate) fn set_bytes(&self, key: &[u8], value: &str) -> String {
        let mut stream = TcpStream::connect((self.host, self.port)).unwrap();
        let start = format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len());
        let end = format!("\r\n${}\r\n{value}\r\n", value.len());
        stream.write_all(&[start.as_bytes(), key, end.as_bytes()].concat()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sets keys to values.
    pub(crate) fn set<'a>(&self, values: impl IntoIterator<Item = (&'a str, u64)>) {
        self.send(values.into_iter().map(|(key, value)| format!("SET {key} {value}")));
    }

    /// Sends commands whose reply is +OK.
    pub(crate) fn send(&self, commands: impl IntoIterator<Item = String>) {
        let mut stream = TcpStream::connect((self.host, self.port)).unwrap();
        let (mut text, mut replies) = (String::new(), 0);
        for command in commands {
            text.push_str(&command);
            text.push_str("\r\n");
            replies += "+OK\r\n".len();
        }
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let reading = std::thread::spawn(move || reader.read_exact(&mut vec![0; replies]));
        stream.write_all(text.as_bytes()).unwrap();
        reading.join().unwrap().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Runs a command; returns its exit code and all its output.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = seqsvr(args);
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Returns the seqs of all users.
pub(crate) fn export(addr: &str) -> BTreeMap<u64, u64> {
    let output = seqsvr(&["export", "--uids", "0..1_000_000", "--addr", addr]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.strip_prefix("uid,value\n").unwrap().lines();
    let pair = |line: &str| line.split_once(',').map(|(uid, value)| (uid.parse().unwrap(), value.parse().unwrap()));
    lines.map(|line| pair(line).unwrap()).collect()
}

#[test]
fn counters_of_a_redis_server_are_imported_through_kills() {
    let Some(program) = tool("redis-server") else { return };
    let count: u64 = std::env::var("IMPORT_COUNTERS").map_or(3_000, |count| count.parse().unwrap());
    let place = Place::new();
    let redis = Redis::start(&program, &place);
    let mut random = fastrand::Rng::with_seed(7);
    // The values are spread over all users; one user in a hundred is far above the others.
    let values: BTreeMap<u64, u64> = (0..count.min(UIDS))
        .map(|index| {
            (index * (UIDS / count.min(UIDS)), random.u64(1..=if index % 100 == 0 { 1 << 29 } else { 100_000 }))
        })
        .collect();
    let keys: Vec<(String, u64)> = values.iter().map(|(uid, value)| (format!("seq:{uid}"), *value)).collect();
    redis.set(keys.iter().map(|(key, value)| (&**key, *value)));
    redis.set([("other:1", 5)]);
    let (_server, addr) = dev::start(&place);
    let (url, progress) = (redis.url(), place.path("progress.json").display().to_string());
    let import = ["import", "--from", &url, "--addr", &addr];

    let plan = seqsvr_json(&[&import[..], &["--dry-run"]].concat());
    assert_eq!(
        (plan["users"].as_u64(), plan["raised"].as_u64()),
        (Some(values.len() as u64), Some(values.len() as u64))
    );
    assert_eq!(export(&addr), BTreeMap::new(), "a dry run changes nothing");

    let resumable = [&import[..], &["--yes", "--progress", &progress]].concat();
    // At this rate, the import would end after the last kill.
    let rate = (count / 10).to_string();
    let mut kills = 0;
    while kills < KILLS {
        let mut running = place.server("import", &[&resumable[..], &["--rate", &rate]].concat());
        let time = Duration::from_millis(random.u64(100..900));
        let since = Instant::now();
        eventually("the time is over", || (since.elapsed() >= time).then_some(()));
        // The import is killed, or interrupted in order.
        if random.bool() {
            running.kill();
        } else {
            running.interrupt();
            let code = running.wait_exit();
            assert!(matches!(code, Some(130 | 0)), "{code:?}: {}", running.log());
        }
        kills += 1;
    }
    let since = Instant::now();
    let report = seqsvr_json(&resumable);
    println!("{} users: {report} after {KILLS} kills, {:.1} s", values.len(), since.elapsed().as_secs_f64());
    assert!(report["resumed"].as_u64() > Some(0) && report["refused"] == 0, "{report:#}");
    assert_eq!(export(&addr), values);
    let since = Instant::now();
    let again = seqsvr_json(&[&import[..], &["--yes"]].concat());
    println!("again: {again}, {:.1} s", since.elapsed().as_secs_f64());
    assert_eq!((again["raised"].as_u64(), again["kept"].as_u64()), (Some(0), Some(values.len() as u64)), "{again:#}");

    // Every next number is above the value.
    let uids: Vec<String> = values.keys().step_by((count as usize / 500).max(1)).map(u64::to_string).collect();
    let next = [&["next", "--addr", &addr], &*uids.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    for (uid, item) in uids.iter().zip(seqsvr_json(&next)["items"].as_array().unwrap()) {
        assert_eq!(item["value"], Value::from((values[&uid.parse().unwrap()] + 1).to_string()), "{item}");
    }

    // All users of a changed source are checked again, and no counter is lowered.
    redis.set([("seq:0", 1)]);
    let (code, done) = run(&resumable);
    assert!(code == Some(0) && done.contains("every user is checked again") && done.contains(" 0 raised"), "{done}");
    redis.set([("seq:x", 1)]);
    let (code, refused) = run(&[&import[..], &["--yes"]].concat());
    assert!(code == Some(2) && refused.contains("seq:x: uid \"x\" is not a number"), "{refused}");
    let (code, refused) = run(&["import", "--from", "redis://me:secret@127.0.0.1:1", "--addr", &addr, "--yes"]);
    assert!(code == Some(4) && refused.contains("redis://127.0.0.1:1") && !refused.contains("secret"), "{refused}");
}

#[test]
fn a_file_is_imported_as_a_whole_or_not_at_all() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let path = place.path("counters.csv").display().to_string();
    let import = |text: &str, args: &[&str]| {
        fs::write(&path, text).unwrap();
        run(&[&["import", "--from", &path, "--addr", &addr], args].concat())
    };
    assert_eq!(run(&["next", "5", "-n", "1000", "--addr", &addr]).0, Some(0));
    let before = export(&addr);
    for (text, flaw) in [
        ("uid,value\n1,10\n2,-3\n", "counters.csv:3: value -3 is negative"),
        ("uid,value\n1,10\n1,11\n", "counters.csv:3: uid 1 is also in"),
        ("uid,value\n1,10\n7,4611686018427387905\n", "counters.csv:3: value 4611686018427387905 is above"),
        ("uid,value\n1,10\n2,ten\n", "counters.csv:3: value \"ten\" is not a number"),
        ("uid,value\n1,10\n5000000,7\n", "uid 5000000 is outside"),
        ("user,seq\n1,10\n", "counters.csv:1:"),
        ("uid,value\n", "no record is left to import"),
    ] {
        let (code, refused) = import(text, &["--yes"]);
        assert!(code == Some(2) && refused.contains(flaw), "{text}: {refused}");
        assert_eq!(export(&addr), before, "{refused}");
    }
    let (code, refused) = import("uid,value\n1,10\n", &[]);
    assert!(code == Some(2) && refused.contains("raise 1 users by 10 numbers"), "{refused}");

    // Uid 5 is above its value and stays; uid 6 is farther away than one call may advance.
    let progress = place.path("progress").display().to_string();
    for raised in [1, 0] {
        let args = ["--yes", "--progress", &progress];
        let (code, partly) = import("uid,value\n1,10\n5,500\n6,4000000000000000000\n7,0\n", &args);
        assert!(code == Some(8) && partly.contains("ADVANCE_TOO_FAR"), "refused again: {partly}");
        let report = format!("4 users: {raised} raised, 2 at their value or above");
        assert!(partly.contains(&report) && partly.contains("1 refused"), "{partly}");
    }
    assert_eq!(export(&addr), BTreeMap::from([(1, 10), (5, 1_000)]));

    // The exported file is imported elsewhere.
    let exported = place.path("exported.jsonl").display().to_string();
    let (code, done) = run(&["export", "--uids", "0..100", "--format", "jsonl", "--out", &exported, "--addr", &addr]);
    assert!(code == Some(0) && done.contains("2 of 100 users have a number"), "{done}");
    assert_eq!(
        fs::read_to_string(&exported).unwrap(),
        "{\"uid\":\"1\",\"value\":\"10\"}\n{\"uid\":\"5\",\"value\":\"1000\"}\n"
    );
    let (code, done) = run(&["import", "--from", &exported, "--addr", &addr, "--yes"]);
    assert!(code == Some(0) && done.starts_with("2 users: 0 raised, 2 at their value or above"), "{done}");
    let (code, refused) = run(&["export", "--uids", "0..2_000_000", "--addr", &addr]);
    assert!(code == Some(2) && refused.contains("outside"), "{refused}");
    assert!(!refused.contains("uid,value") && refused.contains("0..1,000,000"), "before the first line: {refused}");
}
