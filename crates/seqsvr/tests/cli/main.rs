//! Output and exit codes of commands that need no server.
#![expect(clippy::too_many_lines, reason = "the expected output is part of the test")]

mod configuration;
mod fake;
mod ids;
mod series;

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
              dev          Starts a development cluster in one process, with three stores and two allocators
              fake         Starts a cluster in memory for tests of programs, with faults on request
              store        Runs a store of a set, a member of the Raft group that keeps the ceilings; lists and changes the members
              alloc        Runs an allocator of a set, which allocates the numbers; reports the death of one
              proxy        Runs a proxy, which has the endpoints of an allocator for all sets of a cluster, but no sections
              next         Allocates the next number, or several numbers, for users
              current      Reads the last number of users; changes nothing
              advance      Raises a user to a number, for imports; never lowers a user
              import       Raises users to the numbers of another system, from a file or a Redis server; never lowers a user
              export       Writes the last numbers of a range of users, in the format that `import` reads
              health       Reports whether nodes serve, for scripts and probes
              status       Shows sets, stores and allocators: leaders, owners, numbers allocated
              top          Shows nodes, sections, migrations and events live in the terminal
              console      Serves pages about the cluster to a browser on this machine
              diagnose     Packs the state of sets, their nodes and this host into an archive, without secrets
              doctor       Checks this machine for a set: addresses, ports, disks, certificates, time, versions
              node         Lists a set's allocators; drains an allocator, and lets it serve again
              host         Prepares all nodes of a machine for its maintenance, in all sets
              cert         Makes, shows, renews and revokes the certificates of a cluster
              tenant       Makes tokens for tenants, and checks tenants files
              backup       Makes, shows, checks and lists backups of sets
              restore      Forms a store's data directory from a backup, before the store starts
              audit        Lists the operations of administrators, and checks files of the audit log
              events       Lists and watches the events of sets: takeovers, handovers, drains, migrations
              unsafe       Runs operations that can lose data: the recovery of a set that lost its majority
              set          Defines, lists and closes the sets of a cluster; splits and merges them
              migration    Watches, paces and ends migrations of sections between sets
              section      Lists and moves sections, with their sets and owners
              series       Creates, lists, shows and retires series, from whose numbers ids are made
              keyspace     Creates, lists and shows keyspaces, the counters of keys that are any bytes; finds the owner of a key
              services     Lists the gRPC services of a node
              replay       Replays a recorded message trace through the service and checks every response
              bench        Measures throughput and latency, and checks the order of every number
              check        Checks whether a running cluster sustains a load
              sim          Runs the protocol with faults in a deterministic simulator, many thousand times faster than real time
              config       Checks, shows or prints configuration
              id           Requests ids of a series; shows the parts of ids of Snowflake, Leaf, Instagram and others
              explain      Explains the reason of a refusal
              man          Prints a manual page, or writes all manual pages
              completions  Prints a completion script for a shell
              version      Prints the version and source revision
              help         Print this message or the help of the given subcommand(s)

            Options:
              -h, --help     Print help (see more with '--help')
              -V, --version  Print version

            Options of every command:
              -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                     strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr dev             a whole cluster in one process
              seqsvr next 42         the next number of user 42
              seqsvr status          the nodes of each set, and the sections that they serve

            Exit codes: 0 ok, 1 failed, 2 usage or bad config, 3 unhealthy, 4 cannot connect, 5 stale plan, 6 declined, 7 deadline,
            8 partly done, 64 a server's bad config, 65 a removed store, 66 an evicted allocator, 130 interrupted.
            exit 0
        "#]],
    );
    check(
        &["next", "-h"],
        expect![[r#"
            Allocates the next number, or several numbers, for users

            Usage: seqsvr next [OPTIONS] [UID]...

            Arguments:
              [UID]...  The users. A user that is named twice gets two numbers

            Options:
                  --key <KEY>        A key of a keyspace, instead of users; may be given several times
                  --keyspace <NAME>  The keyspace of the keys [default: the only one]
              -n, --count <N>        Count of numbers for each user or key; of several numbers, the first and the last are printed
                                     [default: 1]
                  --set <FILE>       The set file, from whose allocators the command starts [env: SEQSVR_SET=]
                  --addr <URL>       Address of a node, as http://host:port, or https:// for TLS; repeat the flag for more nodes to
                                     start from [default: http://127.0.0.1:7100] [env: SEQSVR_ADDR=]
                  --timeout <TIME>   Time limit of connecting and of the call [default: 5s]
              -h, --help             Print help (see more with '--help')

            Options of every command:
              -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                     strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr next 42
              seqsvr next 42 -n 100      first and last of 100 numbers
              seqsvr next 42 43 44       one number each, behind its user
              seqsvr next 42 -o json | jq -r '.items[].value'
              seqsvr next --key conv:42 --keyspace main
              seqsvr next 1234567890123456789    after `seqsvr keyspace create users --uids`

            Exit codes: 0 allocated, 1 refused, 2 a user outside the sets, 3 refused for now, 4 no node responded, 7 the deadline
            passed, 8 some users were refused, but not all. An error states whether numbers may have been consumed: they are a gap,
            never a duplicate.
            exit 0
        "#]],
    );
    check(
        &["store", "-h"],
        expect![[r#"
            Runs a store of a set, a member of the Raft group that keeps the ceilings; lists and changes the members

            Usage: seqsvr store [OPTIONS] --set <FILE> --id <N> --data <DIR>
                   seqsvr store <COMMAND>

            Commands:
              members  Lists the members as their leader sees them
              add      Makes stores members; each gets the log first, then a vote
              remove   Removes members permanently
              replace  Replaces a member by a new member, in one change
              lead     Transfers the leadership to a member
              terms    Shows the set's lease terms, or changes them
              upgrade  Raises the format of the log and the state, after all members run a new release
              help     Print this message or the help of the given subcommand(s)

            Options:
                  --set <FILE>           The set file
                  --id <N>               Id of this store in the set file
                  --data <DIR>           Directory of this member's data; it belongs permanently to this id
                  --join                 Waits until `store add` or `store replace` makes it a member; never forms a new store
                  --form                 Forms a new store from an empty directory, unless another store of the set already has data
                  --config <FILE>        Settings file; `seqsvr config sample` prints one [env: SEQSVR_CONFIG=]
                  --log-filter <FILTER>  Log filter, as in "info,seq_store=debug" [key: log.filter]
                  --log-format <FORMAT>  Format of log lines on stderr: plain or json [key: log.format]
              -h, --help                 Print help (see more with '--help')

            Options of every command:
              -o, --output <FORMAT>  Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as
                                     strings; or wide, with more columns [env: SEQSVR_OUTPUT=] [default: plain]

            Examples:
              seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1
              seqsvr store members --set sets/three-node.toml
              seqsvr store replace 3 4 --set sets/three-node.toml

            Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file, settings or data, 65 the member was
            removed and must not be started again, 130 a second signal.
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
          retry     after 20 ms: another node may own the section soon; a caller's own backoff doubles from here
          outcome   the request changed nothing
        exit 0
    "#]],
    );
    check(
        &["explain", "UNSERVD"],
        expect![[r#"
            error: UNSERVD is not a reason; the nearest is UNSERVED
            hint: `seqsvr explain` lists all reasons
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
            error: invalid value 'many' for '[UID]...': it must be a whole number

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "-1"],
        expect![[r#"
            error: invalid value '-1' for '[UID]...': it must not be negative

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["current", "1", "99999999999999999999999"],
        expect![[r#"
            error: invalid value '99999999999999999999999' for '[UID]...': it is too large

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
    assert!(words.contains("and end open connections of the holder within 2 s."), "{help}");
}

#[test]
fn an_address_to_listen_on_has_a_host_and_a_port() {
    for (args, words) in [
        (["--grpc", "23200"], "'23200' for '--grpc <ADDR>': the address must have the form host:port"),
        (
            ["--redis", ":23279"],
            "':23279' for '--redis <ADDR>': the host is missing: 127.0.0.1:23279 is reachable from",
        ),
        (["--http", "127.0.0.1:http"], "the address must have the form host:port"),
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

            Usage: seqsvr next [OPTIONS] [UID]...

            For more information, try '--help'.
            exit 2
        "#]],
    );
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
