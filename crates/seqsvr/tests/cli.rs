//! What the command line says and how it ends, where no server is needed.
#![expect(clippy::too_many_lines, reason = "what a command prints stands in the test as it is")]

use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

/// Runs the binary in a directory, and answers its exit code and everything it printed.
fn run(dir: &Path, args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("COLUMNS", "120")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!("{}{}exit {}\n", text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

fn check(args: &[&str], expect: Expect) {
    expect.assert_eq(&run(Path::new("."), args, &[]));
}

/// The shipped sets, under a name that does not depend on where the test runs.
fn sets() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sets");
    std::os::unix::fs::symlink(sets, dir.path().join("sets")).unwrap();
    dir
}

#[test]
fn the_help_is_a_page() {
    check(
        &["-h"],
        expect![[r#"
            Per-user sequence numbers that only grow

            Usage: seqsvr [OPTIONS] <COMMAND>

            Commands:
              dev          Starts a development cluster in one process: three stores and two allocators
              store        Runs one store of a set, a member of the Raft group that keeps the ceilings; changes the members
              alloc        Runs one allocator of a set: it gives the numbers out
              next         Takes the next number of a user
              current      Reads the last number of users; moves nothing
              status       Shows sets, stores and allocators: who leads, who serves, what was given out
              node         Lists a set's allocators; drains one, and lets it serve again
              services     Lists the gRPC services of a node
              replay       Feeds a recorded message trace through the service and checks every answer
              bench        Measures throughput and latency, and watches the order of every number
              check        Checks whether a running cluster carries a load
              sim          Runs the rules of the service in simulated worlds: every fault, many thousand times faster than real time
              config       Checks, shows or prints configuration
              completions  Prints a completion script for a shell
              version      Prints the version and source revision
              help         Print this message or the help of the given subcommand(s)

            Options:
              -o, --output <OUTPUT>  How to print: aligned columns, one JSON object, or columns with more of them [env:
                                     SEQSVR_OUTPUT=] [default: plain] [possible values: plain, json, wide]
              -h, --help             Print help (see more with '--help')
              -V, --version          Print version

            Examples:
              seqsvr dev             a whole cluster in one process
              seqsvr next 42         the next number of user 42
              seqsvr status          who serves what

            Exit codes: 0 ok, 1 failed, 2 usage or bad config, 3 unhealthy, 4 cannot connect, 6 declined, 7 deadline, 64 a server's
            bad config, 65 a removed store.
            exit 0
        "#]],
    );
    check(
        &["next", "-h"],
        expect![[r#"
        Takes the next number of a user

        Usage: seqsvr next [OPTIONS] <UID>

        Arguments:
          <UID>  The user

        Options:
          -n, --count <N>         How many numbers to take, 1 to 1,000,000; more than one print as first..=last [default: 1]
              --addr <URL>        Address of a node, as http://host:port; repeat it for more nodes to start from [env:
                                  SEQSVR_ADDR=] [default: http://127.0.0.1:7100]
              --deadline-ms <MS>  Deadline of connecting and of the call, in milliseconds [default: 5000]
          -o, --output <OUTPUT>   How to print: aligned columns, one JSON object, or columns with more of them [env:
                                  SEQSVR_OUTPUT=] [default: plain] [possible values: plain, json, wide]
          -h, --help              Print help (see more with '--help')

        Examples:
          seqsvr next 42
          seqsvr next 42 -n 100
          seqsvr next 42 -o json
        exit 0
    "#]],
    );
    check(
        &["store", "-h"],
        expect![[r#"
        Runs one store of a set, a member of the Raft group that keeps the ceilings; changes the members

        Usage: seqsvr store [OPTIONS] --set <FILE> --id <N> --data <DIR>
               seqsvr store <COMMAND>

        Commands:
          members  Lists the members as their leader sees them
          add      Makes stores members: each gets the log first, then a vote
          remove   Takes members out for good
          replace  Puts a new member in the place of one, in one change
          lead     Hands leadership over to a member
          help     Print this message or the help of the given subcommand(s)

        Options:
              --set <FILE>           The set file
              --id <N>               Which of the set's stores this process is
              --data <DIR>           Directory of this member's data; it belongs to this id for good
              --join                 Waits until `store add` or `store replace` makes it a member; never forms a store of its
                                     own
              --form                 Forms a new store out of an empty directory, where the set has no other store that
                                     knows better
              --config <FILE>        Settings file; `seqsvr config sample` prints one [env: SEQSVR_CONFIG=]
              --log-filter <FILTER>  What to log, as in "info,seq_store=debug" [key: log.filter]
              --log-format <FORMAT>  How log lines look on stderr: plain or json [key: log.format]
          -o, --output <OUTPUT>      How to print: aligned columns, one JSON object, or columns with more of them [env:
                                     SEQSVR_OUTPUT=] [default: plain] [possible values: plain, json, wide]
          -h, --help                 Print help (see more with '--help')

        Examples:
          seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1
          seqsvr store members --set sets/three-node.toml
          seqsvr store replace 3 4 --set sets/three-node.toml

        A member that was removed ends with exit code 65 and must not be started again.
        exit 0
    "#]],
    );
}

#[test]
fn every_command_has_an_example() {
    for command in ["dev", "store", "alloc", "next", "current", "status", "services", "replay", "bench", "completions"]
    {
        let help = run(Path::new("."), &[command, "--help"], &[]);
        assert!(help.contains(&format!("  seqsvr {command}")), "no example in the help of {command}:\n{help}");
    }
    for command in ["members", "add", "remove", "replace", "lead"] {
        let help = run(Path::new("."), &["store", command, "--help"], &[]);
        assert!(help.contains(&format!("  seqsvr store {command}")), "no example in the help of {command}:\n{help}");
    }
}

#[test]
fn wrong_usage_is_exit_2() {
    check(
        &["next"],
        expect![[r#"
        error: the following required arguments were not provided:
          <UID>

        Usage: seqsvr next <UID>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["next", "many"],
        expect![[r#"
        error: invalid value 'many' for '<UID>': invalid digit found in string

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["nxt"],
        expect![[r#"
        error: unrecognized subcommand 'nxt'

          tip: a similar subcommand exists: 'next'

        Usage: seqsvr [OPTIONS] <COMMAND>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["next", "1", "--addr", "https://x:1"],
        expect![[r#"
        error: "https://x:1" is not the URL of a node: TLS is not supported
        exit 2
    "#]],
    );
}

#[test]
fn changes_of_members_are_checked_before_anybody_is_asked() {
    let dir = sets();
    let check = |args: &[&str], expect: Expect| expect.assert_eq(&run(dir.path(), args, &[]));
    check(
        &["store", "add", "9", "--set", "sets/three-node.toml"],
        expect![[r#"
        error: sets/three-node.toml: set im-a has no store with id 9
        hint: name the new member in the set file first
        exit 2
    "#]],
    );
    check(
        &["store", "replace", "3", "--set", "sets/three-node.toml"],
        expect![[r#"
        error: the following required arguments were not provided:
          <NEW>

        Usage: seqsvr store replace --set <FILE> <OLD> <NEW>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["store", "--id", "1", "members"],
        expect![[r#"
        error: the subcommand 'members' cannot be used with '--id <N>'

        Usage: seqsvr store [OPTIONS] --set <FILE> --id <N> --data <DIR>
               seqsvr store <COMMAND>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["store", "members", "--set", "none.toml"],
        expect![[r#"
        error: none.toml: cannot be read: No such file or directory (os error 2)
        exit 2
    "#]],
    );
    // No TCP port is likely to listen where the system just gave a UDP one.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    let said = run(dir.path(), &["store", "members", "--addr", &addr], &[]).replace(&addr, "ADDR");
    expect![[r#"
        error: no member of the store answered as its leader; ADDR said last: tcp connect error
        hint: `seqsvr status` shows who answers; --set FILE or --addr URL says where to ask
        exit 4
    "#]]
    .assert_eq(&said);
}

#[test]
fn a_server_with_a_wrong_configuration_is_exit_64() {
    let dir = sets();
    let check = |args: &[&str], environment: &[(&str, &str)], expect: Expect| {
        expect.assert_eq(&run(dir.path(), args, environment));
    };
    let set = ["--set", "sets/three-node.toml"];
    check(
        &["alloc", set[0], set[1], "--name", "a9"],
        &[],
        expect![[r#"
        error: sets/three-node.toml: set im-a has no allocator "a9"
        hint: it has a1, a2
        exit 64
    "#]],
    );
    check(
        &["store", set[0], set[1], "--id", "9", "--data", "data"],
        &[],
        expect![[r#"
        error: sets/three-node.toml: set im-a has no store with id 9
        hint: it has 1, 2, 3
        exit 64
    "#]],
    );
    check(
        &["store", "--set", "none.toml", "--id", "1", "--data", "data"],
        &[],
        expect![[r#"
        error: none.toml: cannot be read: No such file or directory (os error 2)
        exit 64
    "#]],
    );
    std::fs::write(dir.path().join("seqsvr.toml"), "[store]\nheartbeat_ms = 1_000\n[lgo]\nfilter = \"info\"\n")
        .unwrap();
    let alloc = ["alloc", set[0], set[1], "--name", "a1"];
    check(
        &[&alloc[..], &["--config", "seqsvr.toml"]].concat(),
        &[],
        expect![[r#"
        error: seqsvr.toml:4: lgo.filter: unknown key; the nearest is log.filter
        exit 64
    "#]],
    );
    std::fs::write(dir.path().join("seqsvr.toml"), "[store]\nheartbeat_ms = 1_000\n").unwrap();
    check(
        &[&alloc[..], &["--config", "seqsvr.toml"]].concat(),
        &[],
        expect![[r#"
        error: store: heartbeat * 3 <= election_min does not hold: two lost heartbeats must not cost an election
        exit 64
    "#]],
    );
    check(
        &[&alloc[..], &["--log-format", "xml"]].concat(),
        &[],
        expect![[r#"
        error: --log-format: log.format: unknown variant: found `xml`, expected ``plain` or `json``
        exit 64
    "#]],
    );
    check(
        &alloc,
        &[("SEQSVR_LOG_FILTR", "debug")],
        expect![[r#"
        error: $SEQSVR_LOG_FILTR: log_filtr: unknown key; the nearest is log.filter
        exit 64
    "#]],
    );
    check(
        &["dev"],
        &[("SEQSVR_ALLOC_CORES", "many")],
        expect![[r#"
        error: $SEQSVR_ALLOC_CORES: alloc.cores: invalid type: found string "many", expected usize
        exit 64
    "#]],
    );
    assert!(!dir.path().join("data").exists(), "nothing was made");
}

#[test]
fn config_check_names_every_problem() {
    let dir = sets();
    let check = |args: &[&str], expect: Expect| expect.assert_eq(&run(dir.path(), args, &[]));
    check(
        &["config", "check", "sets"],
        expect![[r#"
        sets/dev.toml: set dev is good
        sets/three-node.toml: set im-a is good
        exit 0
    "#]],
    );
    let bad = std::fs::read_to_string(dir.path().join("sets/dev.toml")).unwrap();
    let bad = bad.replace("0..1_000_000", "9..1").replace("id = 3", "id = 1").replace(":7101", "");
    std::fs::write(dir.path().join("bad.toml"), bad).unwrap();
    std::fs::write(dir.path().join("unknown.toml"), "nmae = \"x\"\n").unwrap();
    check(
        &["config", "check", "bad.toml", "unknown.toml"],
        expect![[r#"
            bad.toml:5: uids: uid range 9..1 is empty or reversed
            bad.toml:26: store[1].id: "1" is taken by store[0].id
            bad.toml:40: alloc[1].addr: address "127.0.0.1" is not host:port
            unknown.toml:1: unknown field `nmae`, expected one of `name`, `cluster`, `uids`, `section_size`, `step`, `store`, `alloc`
            exit 2
        "#]],
    );
    check(
        &["config", "check", "bad.toml", "-o", "json"],
        expect![[r#"
            {"sets":[],"problems":["bad.toml:5: uids: uid range 9..1 is empty or reversed","bad.toml:26: store[1].id: \"1\" is taken by store[0].id","bad.toml:40: alloc[1].addr: address \"127.0.0.1\" is not host:port"]}
            exit 2
        "#]],
    );
}

#[test]
fn config_show_says_where_a_key_was_set() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("seqsvr.toml"), "[log]\nfilter = \"warn\"\nformat = \"json\"\n").unwrap();
    let environment = [("SEQSVR_CONFIG", "seqsvr.toml"), ("SEQSVR_LOG_FORMAT", "plain")];
    let text = run(dir.path(), &["config", "show", "--origin"], &environment);
    let log: Vec<&str> = text.lines().filter(|line| line.starts_with("log.")).collect();
    assert_eq!(
        log,
        [
            "log.filter                   \"warn\"   seqsvr.toml:2",
            "log.format                   \"plain\"  $SEQSVR_LOG_FORMAT"
        ]
    );
    let sample = run(dir.path(), &["config", "sample"], &[]);
    std::fs::write(dir.path().join("sample.toml"), sample.replace("exit 0\n", "")).unwrap();
    let checked = run(dir.path(), &["config", "check", "--config", "sample.toml"], &[]);
    assert_eq!(checked, "exit 0\n", "the sample is good");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
        .args(["config", "sample"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
