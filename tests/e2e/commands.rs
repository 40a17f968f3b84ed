//! The client commands against a real cluster: plain and JSON output, and exit codes.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::{Place, digits, seqsvr, seqsvr_json, trace};
use crate::dev;

/// A process of a test; killed on drop.
struct Running(Child);

impl Running {
    /// Starts the program with its output piped.
    fn start(args: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Returns whether the process handles a signal by now.
    fn handles(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map_or("0", str::trim);
        (u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1)) & 1 == 1
    }

    fn code(&mut self) -> Option<i32> {
        eventually("the process ends", || self.0.try_wait().unwrap()).code()
    }

    /// Returns the JSON on stdout, after the process has ended.
    fn json(&mut self) -> Value {
        serde_json::from_reader(self.0.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the exit code, stdout and stderr.
fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns the last seq of a uid, or its bound.
fn last(addr: &str, uid: &str) -> u64 {
    digits(&seqsvr_json(&["current", uid, "--addr", addr])["items"][0]["value"])
}

#[test]
fn json_has_one_shape_and_every_digit() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let json_of = |args: &[&str]| {
        let mut value = seqsvr_json(&[args, &["--addr", &addr]].concat());
        // The epoch depends on how the cluster started.
        for item in value["items"].as_array_mut().unwrap() {
            let epoch = item.as_object_mut().unwrap().remove("epoch").unwrap();
            assert!(epoch.as_str().unwrap().parse::<u64>().unwrap() >= 1, "{epoch}");
        }
        value
    };
    let taken = json_of(&["next", "42"]);
    assert_eq!(taken, json!({"items": [{"uid": "42", "first": "1", "value": "1", "prev": "0", "count": 1}]}));
    let more = json_of(&["next", "42", "-n", "10"]);
    assert_eq!(more, json!({"items": [{"uid": "42", "first": "2", "value": "11", "prev": "1", "count": 10}]}));
    let one = json_of(&["current", "42"]);
    assert_eq!(one, json!({"items": [{"uid": "42", "value": "11", "exactness": "exact"}]}));
    let two = json_of(&["current", "42", "43"]);
    assert_eq!(two["items"][0], one["items"][0]);
    assert_eq!(two["items"][1], json!({"uid": "43", "value": "0", "exactness": "exact"}));
}

#[test]
fn a_refused_item_is_an_item_and_the_exit_code_is_partial() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let run = |args: &[&str]| ended(&seqsvr(&[args, &["--addr", &addr]].concat()));
    let (code, stdout, stderr) = run(&["current", "42", "5000000", "43", "-o", "json"]);
    assert_eq!(code, Some(8), "{stdout}{stderr}");
    let items: Value = serde_json::from_str(&stdout).unwrap();
    let uids: Vec<&str> = items["items"].as_array().unwrap().iter().map(|item| item["uid"].as_str().unwrap()).collect();
    assert_eq!(uids, ["42", "5000000", "43"]);
    assert_eq!(
        items["items"][1]["error"],
        json!({
            "reason": "UID_OUTSIDE",
            "message": "uid 5000000 is outside every known set",
            "retryable": false,
            "may_have_applied": false,
        })
    );
    assert!(items["items"][0].get("error").is_none() && items["items"][2]["value"] == "0", "{items:#}");
    assert!(stderr.contains("5000000") && stderr.contains("0..1000000"), "{stderr}");
    // If all items are refused, the exit code is that of their reason.
    let (code, stdout, _) = run(&["next", "5000000", "-o", "json"]);
    let items: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &items["items"][0]["error"]["reason"]), (Some(2), &json!("UID_OUTSIDE")));
    let (code, stdout, stderr) = run(&["current", "5000000", "5000001"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("5000000") && stderr.contains("5000001"), "{stderr}");
}

#[test]
fn a_read_prints_no_empty_line() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let read = |uids: &[&str]| ended(&seqsvr(&[&["current"], uids, &["--addr", &addr]].concat())).1;
    assert_eq!(read(&["42"]), "0  exact\n");
    assert_eq!(read(&["42", "7"]), "42  0  exact\n7   0  exact\n");
}

#[test]
fn a_uid_outside_is_refused_with_the_known_uids() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let (code, _, stderr) = ended(&seqsvr(&["next", "1000000", "--addr", &addr]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("uid 1000000") && stderr.contains("0..1000000"), "{stderr}");
}

#[test]
fn a_wrong_port_is_named_by_every_command() {
    let place = Place::new();
    let mut server = place.server("dev", &["dev", "--ports", "random", "-o", "json"]);
    let ready = server.ready();
    let port = |value: &Value| value.as_str().unwrap().to_owned();
    let (grpc, redis) = (port(&ready["allocs"][0]["grpc"]), port(&ready["allocs"][0]["redis"]));
    let (store, http) = (port(&ready["stores"][0]["grpc"]), port(&ready["http"]));
    let other = port(&ready["allocs"][1]["grpc"]);
    let refused = |args: &[&str], words: &str| {
        let (code, stdout, stderr) = ended(&seqsvr(args));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert!(!stderr.contains("is the cluster running") && !stderr.contains("h2"), "{args:?}: {stderr}");
    };
    let (metrics, of_redis) = ("is a port for metrics and probes", "is a port for clients of Redis");
    let commands: [&[&str]; 7] = [
        &["next", "42"],
        &["current", "42", "43"],
        &["status"],
        &["health"],
        &["services"],
        &["node", "list"],
        &["store", "members"],
    ];
    for command in commands {
        refused(&[command, &["--addr", &http]].concat(), metrics);
        refused(&[command, &["--addr", &redis]].concat(), of_redis);
    }
    let of_store = |words: &str| format!("is store s1 of set dev\nhint: {words}");
    refused(&["next", "42", "--addr", &store], &of_store("name an AllocSvr of the set with --addr: "));
    assert!(ended(&seqsvr(&["next", "42", "--addr", &store])).2.contains(&other));
    for endpoint in ["sdk", "grpc", "many", "stream", "json"] {
        refused(&["bench", "--endpoint", endpoint, "--addr", &store], "is store s1 of set dev");
        refused(&["bench", "--endpoint", endpoint, "--addr", &redis], of_redis);
    }
    let resp = |redis: &str, words| refused(&["bench", "--endpoint", "resp", "--addr", &grpc, "--redis", redis], words);
    resp(http.trim_start_matches("http://"), metrics);
    resp(grpc.trim_start_matches("http://"), "is the gRPC port of an AllocSvr");
    resp(&http, "the address must have the form host:port");
}

#[test]
fn a_deadline_that_passes_is_exit_7() {
    // The system accepts the connection, but no process responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    for command in [&["next", "42"][..], &["current", "42"]] {
        let (code, _, stderr) = ended(&seqsvr(&[command, &["--addr", &addr, "--deadline-ms", "300"]].concat()));
        assert_eq!(code, Some(7), "{stderr}");
        assert!(stderr.contains("within the deadline of 300ms") && stderr.contains(&addr), "{stderr}");
        assert!(!stderr.contains("is the cluster running"), "{stderr}");
    }
}

#[test]
fn an_interrupted_measurement_is_marked() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let bench = ["bench", "--duration-s", "600", "--warmup-s", "0", "--uids", "1", "--first-uid", "7"];
    let floors = place.path("floors.csv");
    let trace = trace();
    // The replay is so slow that the second message is not due during the test.
    let replay = ["replay", &trace, "--speed", "0.0001", "--floors", floors.to_str().unwrap()];
    // The uid of the replay is the sender of the first message of the trace.
    let text = std::fs::read_to_string(&trace).unwrap();
    let sender = text.lines().nth(1).unwrap().rsplit(',').next().unwrap();
    for (command, uid) in [(&bench[..], "7"), (&replay, sender)] {
        for json in [true, false] {
            let format: &[&str] = if json { &["-o", "json"] } else { &[] };
            let before = last(&addr, uid);
            let mut running = Running::start(&[command, &["--addr", &addr], format].concat());
            eventually("the load has begun", || (last(&addr, uid) > before).then_some(()));
            running.signal(Signal::INT);
            assert_eq!(running.code(), Some(130), "{command:?}");
            if json {
                let report = running.json();
                assert_eq!(report["interrupted"], true, "{report:#}");
            } else {
                let text = std::io::read_to_string(running.0.stdout.take().unwrap()).unwrap();
                assert!(text.contains("(interrupted)"), "{text}");
            }
        }
    }
    let whole = seqsvr_json(&["bench", "--addr", &addr, "--calls", "10", "--warmup-s", "0"]);
    assert_eq!(whole["interrupted"], false);
}

#[test]
fn a_second_signal_ends_a_measurement_at_once() {
    // The listener accepts connections and never responds, so the calls in flight last until their deadline.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let mut bench = Running::start(&["bench", "--endpoint", "grpc", "--addr", &addr, "--deadline-ms", "600000"]);
    eventually("the bench handles SIGTERM", || bench.handles(Signal::TERM).then_some(()));
    bench.signal(Signal::TERM);
    let code = eventually("a second signal ends it", || {
        bench.signal(Signal::INT);
        bench.0.try_wait().unwrap()
    });
    assert_eq!(code.code(), Some(130));
}

#[test]
fn a_load_with_failed_calls_fails_unless_they_are_expected() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    // Half of the uids are in no set.
    let run = ["bench", "--addr", &addr, "--first-uid", "999900", "--uids", "200", "--calls", "200", "--warmup-s", "0"];
    let (code, stdout, stderr) = ended(&seqsvr(&run));
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    let failed = stdout.lines().find(|line| line.starts_with("failed ")).unwrap();
    assert!(failed.ends_with("FAIL") && stdout.contains("UID_OUTSIDE"), "{stdout}");
    let (code, stdout, _) = ended(&seqsvr(&[&run[..], &["--expect", "failed<=200"]].concat()));
    assert_eq!(code, Some(0), "{stdout}");
}

#[test]
fn a_closed_stdout_and_stderr_do_not_stop_a_cluster() {
    for closes_stderr in [false, true] {
        let place = Place::new();
        let grpc = format!("{}:7100", place.host);
        let http = format!("{}:7180", place.host);
        let args = ["dev", "--ports", "random", "--grpc", &grpc, "--http", &http, "--log-filter", "info"];
        let mut dev = Running::start(&args);
        // The pipe is closed before the banner is printed, as by `head -1`.
        drop(dev.0.stdout.take());
        if closes_stderr {
            drop(dev.0.stderr.take());
        }
        let addr = format!("http://{grpc}");
        eventually("a number is allocated", || {
            assert!(dev.0.try_wait().unwrap().is_none(), "the cluster has ended");
            seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(())
        });
        dev.signal(Signal::TERM);
        assert_eq!(dev.code(), Some(0));
        if let Some(stderr) = dev.0.stderr.take() {
            let log = std::io::read_to_string(stderr).unwrap();
            assert!(log.contains("cannot print to stdout"), "{log}");
        }
    }
}

#[test]
fn signals_in_quick_succession_count_as_one() {
    let place = Place::new();
    let (mut server, _addr) = dev::start(&place);
    for signal in [Signal::TERM, Signal::INT] {
        kill_process(server.pid(), signal).unwrap();
    }
    assert_eq!(server.wait_exit(), Some(0), "{}", server.log());
    assert!(!server.log().contains("exiting at once"), "{}", server.log());
}

#[test]
fn service_variables_and_unknown_ones_do_not_stop_a_server() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.args(["dev", "--ports", "random", "-o", "json"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(std::fs::File::create(place.path("log")).unwrap());
    for (name, value) in [
        ("SEQSVR_PORT", "tcp://10.0.0.1:7100"),
        ("SEQSVR_PORT_7100_TCP", "tcp://10.0.0.1:7100"),
        ("SEQSVR_PORT_7100_TCP_ADDR", "10.0.0.1"),
        ("SEQSVR_SERVICE_HOST", "10.0.0.1"),
        ("SEQSVR_SERVICE_PORT_GRPC", "7100"),
        ("SEQSVR_ALLOC_SERVICE_PORT", "7100"),
        ("SEQSVR_LOG_FILTR", "debug"),
    ] {
        command.env(name, value);
    }
    let mut dev = Running(command.spawn().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(dev.0.stdout.as_mut().unwrap()), &mut line).unwrap();
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    assert!(line.contains("\"ready\":true"), "{line}{log}");
    let warning = "warning: $SEQSVR_LOG_FILTR: log_filtr: unknown key; the nearest is log.filter; it is ignored";
    assert_eq!(log.lines().filter(|line| line.contains("SEQSVR_")).collect::<Vec<_>>(), [warning]);
    dev.signal(Signal::TERM);
    assert_eq!(dev.code(), Some(0));
}
