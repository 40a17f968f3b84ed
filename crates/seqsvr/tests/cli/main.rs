//! Output and exit codes of commands that need no server.
#![expect(clippy::too_many_lines, reason = "the expected output is part of the test")]

mod ids;

use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

/// Runs the binary in a directory; returns its output and exit code.
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

/// Links the shipped sets under a name that does not depend on the working directory of the test.
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
              alloc        Runs one allocator of a set: it allocates the numbers
              proxy        Runs a proxy: the endpoints of an allocator without sections, for all sets of a cluster
              next         Allocates the next number of users, or several
              current      Reads the last number of users; changes nothing
              advance      Raises a user to a number, for imports; never lowers one
              import       Raises users to the numbers of another system, from a file or a Redis server; never lowers one
              export       Writes the last numbers of a range of users, as `import` reads them
              health       Reports whether nodes serve, for scripts and probes
              status       Shows sets, stores and allocators: leaders, owners, numbers allocated
              diagnose     Packs what is known of sets, their nodes and this host into an archive, without secrets
              doctor       Checks this machine for a set, before its first start: addresses, ports, disks, certificates, time,
                           versions
              node         Lists a set's allocators; drains one, and lets it serve again
              host         Prepares all nodes of a machine for its maintenance, in all sets
              cert         Makes certificates of a cluster, shows, renews and revokes them
              tenant       Makes tokens of tenants, and checks tenants files
              backup       Makes a backup of a set, or shows one
              restore      Forms a store's data directory from a backup, before the store starts
              audit        Lists what administrators requested, and checks files of the audit log
              unsafe       What can lose data: forced recovery, and restores with a margin of your own
              set          Defines, lists and closes the sets of a cluster; splits and merges them
              migration    Watches, paces and ends migrations of sections between sets
              section      Shows where sections are, and their owners
              services     Lists the gRPC services of a node
              replay       Replays a recorded message trace through the service and checks every response
              bench        Measures throughput and latency, and checks the order of every number
              check        Checks whether a running cluster sustains a load
              sim          Runs the protocol in a deterministic simulator, with faults, many thousand times faster than real time
              config       Checks, shows or prints configuration
              id           Shows what is in ids of Snowflake, Leaf, Instagram and others; makes ids of a time
              explain      Explains the reason of a refusal
              man          Prints a manual page, or writes all of them
              completions  Prints a completion script for a shell
              version      Prints the version and source revision
              help         Print this message or the help of the given subcommand(s)

            Options:
              -h, --help     Print help (see more with '--help')
              -V, --version  Print version

            Options of every command:
              -o, --output <FORMAT>  How to print: plain, in aligned columns; json, one object with 64-bit numbers as strings; or
                                     wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr dev             a whole cluster in one process
              seqsvr next 42         the next number of user 42
              seqsvr status          which node serves what

            Exit codes: 0 ok, 1 failed, 2 usage or bad config, 3 unhealthy, 4 cannot connect, 5 stale plan, 6 declined, 7 deadline,
            8 partly done, 64 a server's bad config, 65 a removed store, 66 an evicted allocator, 130 interrupted.
            exit 0
        "#]],
    );
    check(
        &["next", "-h"],
        expect![[r#"
            Allocates the next number of users, or several

            Usage: seqsvr next [OPTIONS] <UID>...

            Arguments:
              <UID>...  The users. One that is named twice gets two numbers

            Options:
              -n, --count <N>       How many numbers for each user; of several the first and the last are printed [default: 1]
                  --set <FILE>      The set file: the command starts from its allocators [env: SEQSVR_SET=]
                  --addr <URL>      Address of a node, as http://host:port, or https:// for TLS; repeat it for more nodes to start
                                    from [default: http://127.0.0.1:7100] [env: SEQSVR_ADDR=]
                  --timeout <TIME>  Time limit of connecting and of the call [default: 5s]
              -h, --help            Print help (see more with '--help')

            Options of every command:
              -o, --output <FORMAT>  How to print: plain, in aligned columns; json, one object with 64-bit numbers as strings; or
                                     wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr next 42
              seqsvr next 42 -n 100      first and last of 100 numbers
              seqsvr next 42 43 44       one number each, behind its user
              seqsvr next 42 -o json | jq -r '.items[].value'

            Exit codes: 0 allocated, 1 refused, 2 a user outside of the sets, 3 refused for now, 4 no node responded, 7 the deadline
            passed, 8 some users were refused and others not. An error states whether numbers may have been consumed: they are a
            gap, never a duplicate.
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
              lead     Transfers the leadership to a member
              terms    Shows the set's lease terms, or changes them
              upgrade  Raises the format of the log and the state, after all members run a new release
              help     Print this message or the help of the given subcommand(s)

            Options:
                  --set <FILE>           The set file
                  --id <N>               Which of the set's stores this process is
                  --data <DIR>           Directory of this member's data; it belongs to this id for good
                  --join                 Waits until `store add` or `store replace` makes it a member; never forms a new store
                  --form                 Forms a new store from an empty directory, unless another store of the set already has data
                  --config <FILE>        Settings file; `seqsvr config sample` prints one [env: SEQSVR_CONFIG=]
                  --log-filter <FILTER>  What to log, as in "info,seq_store=debug" [key: log.filter]
                  --log-format <FORMAT>  How log lines look on stderr: plain or json [key: log.format]
              -h, --help                 Print help (see more with '--help')

            Options of every command:
              -o, --output <FORMAT>  How to print: plain, in aligned columns; json, one object with 64-bit numbers as strings; or
                                     wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1
              seqsvr store members --set sets/three-node.toml
              seqsvr store replace 3 4 --set sets/three-node.toml

            Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file, settings or data, 65 it was removed and
            must not be started again, 130 a second signal.
            exit 0
        "#]],
    );
}

#[test]
fn a_reason_is_explained_and_an_unknown_one_suggests_the_nearest() {
    check(
        &["explain", "unserved"],
        expect![[r#"
        UNSERVED
          The section has no owner now.

          subject   Allocation
          code      UNAVAILABLE
          retry     after 100 ms: the section gets an owner within about a renewal
          outcome   the request changed nothing
        exit 0
    "#]],
    );
    check(
        &["explain", "UNSERVD"],
        expect![[r#"
        error: UNSERVD is no reason; the nearest is UNSERVED
        hint: `seqsvr explain` lists all
        exit 2
    "#]],
    );
    check(
        &["explain", "NO_MAJORITY", "UNREACHABLE", "-o", "json"],
        expect![[r#"
        {"items":[{"reason":"NO_MAJORITY","subject":"Membership","codes":["FAILED_PRECONDITION"],"retryable":false,"outcome":"unchanged","metadata":[],"meaning":"Too few voters respond, now or after the change, for anything to be committed."},{"reason":"UNREACHABLE","subject":"Clients","codes":[],"retryable":true,"outcome":"unknown","metadata":[],"meaning":"Every connection failed before a response arrived."}]}
        exit 0
    "#]],
    );
    let all = run(Path::new("."), &["explain"], &[]);
    assert!(all.starts_with("reason ") && all.contains("\nUNSERVED ") && all.contains("\nUID_OUTSIDE "), "{all}");
}

#[test]
fn pages_of_the_manual_are_printed_or_written() {
    let page = run(Path::new("."), &["man", "next"], &[("SEQSVR_ADDR", "http://secret:1")]);
    for part in [".TH seqsvr-next 1", "SEQSVR_ADDR", ".SH EXAMPLES\n.nf\n  seqsvr next 42\n", ".SH \"EXIT STATUS\""] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("secret"), "{page}");
    check(
        &["man", "store", "ad"],
        expect![[r#"
            error: seqsvr store has no command "ad"
            hint: its commands are members, add, remove, replace, lead, terms, upgrade
            exit 2
        "#]],
    );
    let dir = tempfile::tempdir().unwrap();
    let written = run(dir.path(), &["man", "--dir", "."], &[]);
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(written, format!("{} pages in .\nexit 0\n", files.len()));
    assert!(files.contains(&"seqsvr.1".into()) && files.contains(&"seqsvr-store-add.1".into()), "{files:?}");
    check(
        &["man", "--dir", "/dev/null/none"],
        expect![[r#"
            error: cannot create /dev/null/none: Not a directory
            exit 1
        "#]],
    );
}

#[test]
fn a_format_without_effect_is_a_mistake() {
    for args in [
        &["completions", "bash"][..],
        &["config", "sample"],
        &["man", "next"],
        &["alloc", "--set", "f", "--name", "a"],
        &["proxy", "--seeds", "a:1", "--listen", "a:2", "--http", "a:3"],
    ] {
        let output = run(Path::new("."), &[args, &["-o", "json"]].concat(), &[]);
        assert!(output.contains("--output has no effect here") && output.ends_with("exit 2\n"), "{args:?}: {output}");
    }
    // The variable applies to all commands.
    let script = run(Path::new("."), &["completions", "bash"], &[("SEQSVR_OUTPUT", "json")]);
    assert!(script.ends_with("exit 0\n"), "{script}");
}

#[test]
fn wrong_usage_is_exit_2() {
    check(
        &["next"],
        expect![[r#"
            error: the following required arguments were not provided:
              <UID>...

            Usage: seqsvr next <UID>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "many"],
        expect![[r#"
            error: invalid value 'many' for '<UID>...': it is not a whole number

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "-1"],
        expect![[r#"
            error: invalid value '-1' for '<UID>...': it must not be negative

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["current", "1", "99999999999999999999999"],
        expect![[r#"
            error: invalid value '99999999999999999999999' for '<UID>...': it is too large

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "1", "-n", "-5"],
        expect![[r#"
            error: invalid value '-5' for '--count <N>': it must be from 1 to 1,000,000

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["current", "1", "--deadline-ms", "0"],
        expect![[r#"
            error: invalid value '0ms' for '--timeout <TIME>': it must be above 0

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["bench", "--concurrency", "70000"],
        expect![[r#"
        error: invalid value '70000' for '--concurrency <N>': it must be from 1 to 16,384

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["status", "--timeout", "-1"],
        expect![[r#"
            error: invalid value '-1' for '--timeout <TIME>': it must be a time such as 500ms, 2s, 5m or 1h

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["advance", "1", "9223372036854775807"],
        expect![[r#"
        error: invalid value '9223372036854775807' for '<NUMBER>': it must be from 0 to 4,611,686,018,427,387,903

        For more information, try '--help'.
        exit 2
    "#]],
    );
    check(
        &["bench", "--rate", "-5"],
        expect![[r#"
            error: invalid value '-5' for '--rate <N>': not a number of calls a second from 0.01 to 100,000,000

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
            error: certs/ca.crt: cannot be read: No such file or directory
            hint: `seqsvr cert issue` makes them; --certs and --identity name others
            exit 2
        "#]],
    );
}

#[test]
fn a_revocation_states_when_connections_end() {
    let help = run(Path::new("."), &["cert", "revoke", "--help"], &[]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("They end connections of the holder that are open within 2 s."), "{help}");
}

#[test]
fn a_variable_with_a_wrong_value_is_named_and_an_empty_one_is_unset() {
    let check = |args: &[&str], environment: &[(&str, &str)], expect: Expect| {
        expect.assert_eq(&run(Path::new("."), args, environment));
    };
    check(
        &["next", "42"],
        &[("SEQSVR_OUTPUT", "xml")],
        expect![[r#"
            error: invalid value 'xml' for '$SEQSVR_OUTPUT'
              [possible values: plain, json, wide]

            For more information, try '--help'.
            exit 2
        "#]],
    );
    let output = run(Path::new("."), &["next"], &[("SEQSVR_OUTPUT", "xml")]);
    assert!(output.contains("for '$SEQSVR_OUTPUT'"), "also together with another error: {output}");
    check(
        &["next", "42"],
        &[("SEQSVR_ADDR", "redis://x:1")],
        expect![[r#"
            error: invalid value 'redis://x:1' for '$SEQSVR_ADDR': only http:// and https:// are understood

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "42"],
        &[("SEQSVR_TOKEN", "a b")],
        expect![[r#"
        error: $SEQSVR_TOKEN: a token is of visible ASCII characters: TENANT.SECRET
        exit 2
    "#]],
    );
    check(
        &["next", "42", "--token", "a b"],
        &[("SEQSVR_TOKEN", "acme.x")],
        expect![[r#"
        error: --token: a token is of visible ASCII characters: TENANT.SECRET
        exit 2
    "#]],
    );
    // The error names the flag as the source of the wrong value.
    check(
        &["next", "42", "--addr", "h"],
        &[("SEQSVR_ADDR", "http://x:1")],
        expect![[r#"
            error: invalid value 'h' for '--addr <URL>': it is not of the form http://host:port

            For more information, try '--help'.
            exit 2
        "#]],
    );
    // A variable does not make an optional flag look required.
    check(
        &["next"],
        &[("SEQSVR_ADDR", "http://x:1"), ("SEQSVR_OUTPUT", "json")],
        expect![[r#"
            error: the following required arguments were not provided:
              <UID>...

            Usage: seqsvr next <UID>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let unset = [("SEQSVR_ADDR", ""), ("SEQSVR_OUTPUT", ""), ("SEQSVR_CONFIG", "")];
    let output = run(Path::new("."), &["next", "42", "--addr", &addr], &unset).replace(&addr, "ADDR");
    expect![[r#"
        error: no seed answered; ADDR failed last: tcp connect error: Connection refused
        hint: is the cluster running? `seqsvr dev` starts one; --addr URL names another
        exit 4
    "#]]
    .assert_eq(&output);
    check(
        &["config", "check"],
        &unset,
        expect![[r#"
            error: the following required arguments were not provided:
              <PATH>...

            Usage: seqsvr config check <PATH>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
}

#[test]
fn an_address_to_listen_on_has_a_host_and_a_port() {
    for (args, words) in [
        (["--grpc", "23200"], "'23200' for '--grpc <ADDR>': it is not of the form host:port"),
        (["--redis", ":23279"], "':23279' for '--redis <ADDR>': it has no host: 127.0.0.1:23279 is for this machine"),
        (["--http", "127.0.0.1:http"], "it is not of the form host:port"),
    ] {
        let output = run(Path::new("."), &[&["dev"], &args[..]].concat(), &[]);
        assert!(output.contains(words) && output.ends_with("exit 2\n"), "{args:?}: {output}");
    }
}

#[test]
fn flags_that_would_do_nothing_are_mistakes() {
    for (args, words) in [
        (&["--no-coalescing", "--endpoint", "grpc"][..], "--no-coalescing is for --endpoint sdk"),
        (&["--redis", "127.0.0.1:1"], "--redis and --key-prefix are for --endpoint resp"),
        (&["--endpoint", "json", "--key-prefix", "x:"], "--redis and --key-prefix are for --endpoint resp"),
        (&["--endpoint", "json", "--connections", "2"], "--connections is for the gRPC endpoints"),
        (&["--endpoint", "resp", "--batch", "2"], "--batch needs an endpoint with calls for many uids"),
        (&["--duration-s", "0"], "above 0"),
    ] {
        let output = run(Path::new("."), &[&["bench"], args].concat(), &[]);
        assert!(output.contains(words) && output.ends_with("exit 2\n"), "{args:?}: {output}");
    }
}

#[test]
fn files_for_results_are_opened_before_anything_is_sent() {
    // No process listens at the address, so a command that reached its request would exit with 4.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("trace.csv"), "second,group,sender\n0,1,2\n").unwrap();
    for args in [&["bench", "--csv", "none/run.csv"][..], &["replay", "trace.csv", "--floors", "none/floors.csv"]] {
        let output = run(dir.path(), &[args, &["--addr", &addr]].concat(), &[]);
        assert!(output.contains("cannot write none/") && output.ends_with("exit 2\n"), "{args:?}: {output}");
    }
}

#[test]
fn a_trace_may_come_from_standard_input() {
    for (input, words) in [("second,group\n", "standard input:1: the header must be"), ("", "standard input:1:")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
            .args(["replay", "-"])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(words) && output.status.code() == Some(2), "{stderr}");
    }
}

#[test]
fn changes_of_members_are_checked_before_any_request() {
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
            error: none.toml: cannot be read: No such file or directory
            exit 2
        "#]],
    );
    // The system has just assigned this UDP port, so a TCP port of the same number is probably closed.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    let output = run(dir.path(), &["store", "members", "--addr", &addr], &[]).replace(&addr, "ADDR");
    expect![[r#"
        error: no leader of the store responded; last error of ADDR: tcp connect error: Connection refused
        hint: `seqsvr status` shows which nodes respond; an admin port on loopback is reached on its machine only; --set FILE or --addr URL names the store
        exit 4
    "#]]
    .assert_eq(&output);
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
            error: none.toml: cannot be read: No such file or directory
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
            error: store: heartbeat * 3 <= election_min does not hold: two lost heartbeats must not cost an election (store.heartbeat_ms is set by seqsvr.toml:2)
            exit 64
        "#]],
    );
    check(
        &[&alloc[..], &["--log-format", "xml"]].concat(),
        &[],
        expect![[r#"
            error: --log-format: log.format: "xml" is none of plain, json
            exit 64
        "#]],
    );
    check(
        &["dev"],
        &[("SEQSVR_ALLOC_CORES", "many")],
        expect![[r#"
            error: $SEQSVR_ALLOC_CORES: alloc.cores: "many" is not a whole number from 0
            exit 64
        "#]],
    );
    check(
        &["dev", "--cores", "99999"],
        &[],
        expect![[r#"
            error: alloc.cores: 99999 is more than 1024 (alloc.cores is set by --cores)
            exit 64
        "#]],
    );
    assert!(!dir.path().join("data").exists(), "no directory was created");
}

#[test]
fn config_check_names_every_problem() {
    let dir = sets();
    let check = |args: &[&str], expect: Expect| expect.assert_eq(&run(dir.path(), args, &[]));
    check(
        &["config", "check", "sets"],
        expect![[r#"
            sets/dev-b.toml: set dev-b is good
            sets/dev.toml: set dev is good
            sets/three-node.toml: set im-a is good
            sets/four/a.toml: set im-a is good
            sets/four/b.toml: set im-b is good
            sets/four/c.toml: set im-c is good
            sets/four/d.toml: set im-d is good
            sets/two/a.toml: set im-a is good
            sets/two/b.toml: set im-b is good
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
            bad.toml:35: store "s3": id: "1" is taken by id of store "s1" (line 17)
            bad.toml:53: alloc "a2": addr: address "127.0.0.1" is not host:port
            unknown.toml: store: a store has 1, 3 or 5 members, not 0: an even number survives no more failures than one less, and every member past five slows each write
            unknown.toml: alloc: a set has 1 to 1024 AllocSvrs, not 0
            unknown.toml:1: the key name is missing
            unknown.toml:1: the key uids is missing
            unknown.toml:1: the key section_size is missing
            unknown.toml:1: the key step is missing
            unknown.toml:1: nmae: unknown key; the nearest is name
            exit 2
        "#]],
    );
    check(
        &["config", "check", "bad.toml", "-o", "json"],
        expect![[r#"
            {"sets":[],"problems":[{"file":"bad.toml","line":5,"key":"uids","what":"uids: uid range 9..1 is empty or reversed","text":"bad.toml:5: uids: uid range 9..1 is empty or reversed"},{"file":"bad.toml","line":35,"key":"store[2].id","what":"store \"s3\": id: \"1\" is taken by id of store \"s1\" (line 17)","text":"bad.toml:35: store \"s3\": id: \"1\" is taken by id of store \"s1\" (line 17)"},{"file":"bad.toml","line":53,"key":"alloc[1].addr","what":"alloc \"a2\": addr: address \"127.0.0.1\" is not host:port","text":"bad.toml:53: alloc \"a2\": addr: address \"127.0.0.1\" is not host:port"}],"warnings":[]}
            exit 2
        "#]],
    );
}

#[test]
fn config_check_tells_where_nodes_listen() {
    let dir = sets();
    let check = |listen: &str, args: &[&str], expect: Expect| {
        let set = std::fs::read_to_string(dir.path().join("sets/dev.toml")).unwrap();
        let set = set.replacen("name = \"a2\"", &format!("name = \"a2\"\n{listen}"), 1);
        std::fs::write(dir.path().join("nat.toml"), set).unwrap();
        expect.assert_eq(&run(dir.path(), &[&["config", "check", "nat.toml"], args].concat(), &[]));
    };
    let here = "listen = { addr = \"127.0.0.1:8101\", http = \"127.0.0.2:7181\" }";
    check(
        here,
        &[],
        expect![[r#"
        nat.toml: set dev is good
          a2 addr: others dial 127.0.0.1:7101, it listens at 127.0.0.1:8101
          a2 http: others dial 127.0.0.1:7181, it listens at 127.0.0.2:7181
        exit 0
    "#]],
    );
    check(
        here,
        &["-o", "json"],
        expect![[r#"
        {"sets":["dev"],"listen":[{"set":"dev","node":"a2","port":"addr","addr":"127.0.0.1:7101","listen":"127.0.0.1:8101"},{"set":"dev","node":"a2","port":"http","addr":"127.0.0.1:7181","listen":"127.0.0.2:7181"}],"problems":[],"warnings":[]}
        exit 0
    "#]],
    );
    // Any host could reach the address without TLS.
    check(
        "listen = { addr = \"0.0.0.0:7101\" }",
        &[],
        expect![[r#"
        nat.toml:14: plaintext: others can reach 0.0.0.0:7101, and read and change what is sent: remove the key, or add plaintext_on_network = true
        exit 2
    "#]],
    );
    check(
        "listen = { redis = \"127.0.0.1\", raft = \"127.0.0.1:1\" }",
        &[],
        expect![[r#"
            nat.toml:53: alloc "a2": listen.redis: address "127.0.0.1" is not host:port
            nat.toml:53: raft: unknown key; the nearest is redis
            exit 2
        "#]],
    );
    check(
        "listen = { redis = \"127.0.0.1\" }",
        &[],
        expect![[r#"
        nat.toml:53: alloc "a2": listen.redis: address "127.0.0.1" is not host:port
        exit 2
    "#]],
    );
}

#[test]
fn config_show_prints_the_origin_of_a_key() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("seqsvr.toml"), "[log]\nfilter = \"warn\"\nformat = \"json\"\n").unwrap();
    let environment = [("SEQSVR_CONFIG", "seqsvr.toml"), ("SEQSVR_LOG_FORMAT", "plain")];
    let text = run(dir.path(), &["config", "show", "--origin"], &environment);
    let log: Vec<&str> = text.lines().filter(|line| line.starts_with("log.")).collect();
    assert_eq!(
        log,
        [
            "log.filter                       \"warn\"      seqsvr.toml:2",
            "log.format                       \"plain\"     $SEQSVR_LOG_FORMAT"
        ]
    );
    let sample = run(dir.path(), &["config", "sample"], &[]);
    std::fs::write(dir.path().join("sample.toml"), sample.replace("exit 0\n", "")).unwrap();
    let checked = run(dir.path(), &["config", "check", "--config", "sample.toml"], &[]);
    assert_eq!(checked, "exit 0\n", "the sample is good");
}

#[test]
fn an_unknown_variable_is_a_warning_and_those_of_kubernetes_are_none() {
    let (dir, service) = (tempfile::tempdir().unwrap(), "tcp://10.0.0.1:7100");
    let environment = [
        ("SEQSVR_PORT", service),
        ("SEQSVR_PORT_7100_TCP", service),
        ("SEQSVR_PORT_7100_TCP_PROTO", "tcp"),
        ("SEQSVR_SERVICE_HOST", "10.0.0.1"),
        ("SEQSVR_SERVICE_PORT_GRPC", "7100"),
        ("SEQSVR_ALLOC_PORT", service),
        ("SEQSVR_ALLOC_SERVICE_HOST", "10.0.0.1"),
        ("SEQSVR_ADDR", "http://127.0.0.1:7100"),
    ];
    let shown = run(dir.path(), &["config", "show"], &environment);
    assert_eq!(shown, run(dir.path(), &["config", "show"], &[]), "they have no effect and no warning");
    let misspelt = [("SEQSVR_LOG_FILTR", "debug"), ("SEQSVR_LOG_FORMAT", "json")];
    let shown = run(dir.path(), &["config", "show", "-o", "json"], &misspelt);
    let warning = "warning: $SEQSVR_LOG_FILTR: log_filtr: unknown key; the nearest is log.filter; it is ignored";
    assert_eq!(shown.lines().filter(|line| line.contains("FILTR")).collect::<Vec<_>>(), [warning]);
    assert!(shown.contains(r#"{"key":"log.format","value":"json"}"#) && shown.ends_with("exit 0\n"), "{shown}");
    let checked = run(dir.path(), &["config", "check", "--config", "/dev/null", "-o", "json"], &misspelt);
    assert!(checked.contains(r#""problems":[],"warnings":["$SEQSVR_LOG_FILTR: log_filtr: unknown key"#), "{checked}");
    // An unknown key in a file is an error.
    std::fs::write(dir.path().join("seqsvr.toml"), "[log]\nfiltr = \"info\"\n").unwrap();
    let output = run(dir.path(), &["config", "show", "--config", "seqsvr.toml"], &[]);
    assert_eq!(output, "error: seqsvr.toml:2: log.filtr: unknown key; the nearest is log.filter\nexit 2\n");
}

/// Every command names its cluster by the same flags, and a flag replaces the variables, because they may belong to
/// another cluster.
#[test]
fn a_flag_beats_the_environment() {
    let sets = sets();
    let of_other = [("SEQSVR_ADDR", "https://192.0.2.1:7100"), ("SEQSVR_OUTPUT", "json")];
    for command in [
        &["next", "42"][..],
        &["current", "42"],
        &["advance", "42", "7", "--dry-run"],
        &["export", "--uids", "0..1"],
        &["bench", "--calls", "1"],
        &["replay", "no/such.csv"],
        &["services"],
        &["health"],
        &["store", "members"],
        &["node", "list"],
        &["set", "list"],
    ] {
        let set = [command, &["--set", "sets/no-such.toml", "-o", "plain"]].concat();
        let named = run(sets.path(), &set, &of_other);
        assert!(
            !named.contains("192.0.2.1") && !named.contains("TLS") && named.ends_with("exit 2\n"),
            "{set:?}: {named}"
        );
    }
    let environment = [("SEQSVR_SET", "sets/three-node.toml"), ("SEQSVR_ADDR", "https://192.0.2.1:7100")];
    let shown = run(sets.path(), &["health", "--addr", "http://127.0.0.1:9", "--timeout", "500ms"], &environment);
    assert!(shown.contains("127.0.0.1:9") && shown.lines().count() == 3, "one node: {shown}");
    let shown = run(sets.path(), &["health", "--timeout", "500ms"], &environment[..1]);
    assert!(shown.contains("certs/ca.crt: cannot be read"), "the nodes of the file, which have TLS: {shown}");
}

#[test]
fn a_command_that_prints_json_has_its_error_as_one_object() {
    let free = "http://127.0.0.1:9";
    for command in [
        &["next", "42"][..],
        &["current", "42"],
        &["import", "--from", "no-such.csv"],
        &["export", "--uids", "0..1", "--out", "x.csv"],
        &["node", "drain", "a1", "--yes"],
        &["store", "members"],
        &["backup", "list", "no/such"],
        &["cert", "show", "no/such"],
        &["tenant", "check", "no/such"],
        &["set", "list"],
        &["section", "list"],
        &["audit", "list"],
        &["config", "show", "--config", "no/such"],
    ] {
        let takes_addr = !["backup", "cert", "tenant", "config"].contains(&command[0]);
        let addr: &[&str] = if takes_addr { &["--addr", free, "--timeout", "300ms"] } else { &[] };
        let output = run(Path::new("."), &[command, addr, &["-o", "json"]].concat(), &[]);
        let line = output.lines().next().unwrap_or_default();
        let exit = output.lines().last().unwrap_or_default().trim_start_matches("exit ");
        let begins = line.starts_with(r#"{"error":{"#) || line.starts_with(r#"{"items":[{"uid":"#);
        assert!(
            begins && (line.contains(&format!(r#""exit":{exit}}}"#)) || line.contains("items")),
            "{command:?}: {output}"
        );
    }
    check(
        &["next", "--nosuch", "-o", "json"],
        expect![[r#"
            {"error":{"message":"unexpected argument '--nosuch' found","exit":2}}
            error: unexpected argument '--nosuch' found

              tip: to pass '--nosuch' as a value, use '-- --nosuch'

            Usage: seqsvr next [OPTIONS] <UID>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
}

#[test]
fn seeds_of_a_proxy_state_whether_they_have_tls() {
    let proxy = |seeds: &str, more: &[&str]| {
        let args = ["proxy", "--seeds", seeds, "--listen", "127.0.0.1:9", "--http", "127.0.0.1:9"];
        run(Path::new("."), &[&args, more].concat(), &[])
    };
    let hinted = proxy("127.0.0.1:9", &[]);
    assert!(hinted.contains("http:// or --plaintext") && hinted.ends_with("exit 64\n"), "{hinted}");
    let mixed = proxy("http://127.0.0.1:9,https://127.0.0.1:9", &[]);
    assert!(mixed.contains("the nodes of one cluster are alike") && mixed.ends_with("exit 2\n"), "{mixed}");
    let network = proxy("http://192.0.2.1:9", &[]);
    assert!(network.contains("--plaintext-on-network") && network.ends_with("exit 2\n"), "{network}");
}

#[test]
fn only_a_near_command_is_suggested() {
    let suggestion = |word| run(Path::new("."), &[word], &[]).contains("similar subcommand");
    assert_eq!(["nosuch", "xyz", "statu", "curent", "bennch"].map(suggestion), [false, false, true, true, true]);
}

#[test]
fn times_have_units_and_former_flags_are_understood() {
    let wrong = run(Path::new("."), &["next", "42", "--timeout", "2x"], &[]);
    assert!(wrong.contains("it must be a time such as 500ms, 2s, 5m or 1h"), "{wrong}");
    let before = ["--deadline-ms", "--deadline-ms=", "--timeout", "--timeout-ms"];
    for (flag, value) in before.into_iter().zip(["200", "200", "200ms", "200"]) {
        let flags =
            if flag.ends_with('=') { vec![format!("{flag}{value}")] } else { vec![flag.to_owned(), value.to_owned()] };
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let refused = run(Path::new("."), &[&["next", "42", "--addr", "http://127.0.0.1:9"], &*flags].concat(), &[]);
        assert!(refused.ends_with("exit 4\n"), "{flag}: {refused}");
    }
    let refused = run(Path::new("."), &["set", "list", "--addr", "http://127.0.0.1:9", "--timeout-s", "0.3"], &[]);
    assert!(refused.contains("not done within 300ms"), "{refused}");
    for command in [["services", "--timeout", "2x"], ["diagnose", "--timeout", "2x"]] {
        let wrong = run(Path::new("."), &command, &[]);
        assert!(wrong.contains("it must be a time such as 500ms, 2s, 5m or 1h"), "{wrong}");
    }
}

#[test]
fn settings_as_json_have_their_own_types() {
    let environment = [("SEQSVR_REDIS_PASSWORD", "secret"), ("SEQSVR_ALLOC_LEASE_MS", "1900")];
    let shown = run(Path::new("."), &["config", "show", "-o", "json", "--origin"], &environment);
    let json = shown.strip_suffix("exit 0\n").unwrap();
    assert!(json.starts_with(r#"{"items":[{"key":"alloc.certificate_margin_ms","value":300000"#), "{json}");
    for part in [
        r#"{"key":"alloc.lease_ms","value":1900,"origin":"$SEQSVR_ALLOC_LEASE_MS"}"#,
        r#"{"key":"log.format","value":"plain","origin":"default"}"#,
        r#"{"key":"redis.password","value":"(set)","origin":"$SEQSVR_REDIS_PASSWORD"}"#,
    ] {
        assert!(json.contains(part), "{part} is missing in {json}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
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
