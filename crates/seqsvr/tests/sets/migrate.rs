//! `set split`, `set merge`, `set migrate` and `set close`.

use expect_test::{Expect, expect};
use seq_proto::v1::MigrationPhase;

use crate::fake::{Cluster, migration};

fn check(cluster: &Cluster, args: &[&str], expect: Expect) {
    expect.assert_eq(&cluster.run(args));
}

fn changes(cluster: &Cluster) -> Vec<String> {
    std::mem::take(&mut cluster.a.lock().changes)
}

const SPLIT: [&str; 7] = ["set", "split", "im-a", "--at", "6_000_000", "--into", "im-b"];

#[test]
fn a_split_is_planned_confirmed_and_started() {
    let cluster = Cluster::start();
    cluster.a.lock().warnings = vec!["set im-b has one allocator: it has no other to take over".to_owned()];
    let split = |more: &[&'static str]| [&SPLIT[..], more].concat();
    check(
        &cluster,
        &split(&["--dry-run"]),
        expect![[r#"
            set   sections  after  restores
            im-a       100     60         0
            im-b         0     40         0
            sections     60..100  (uids 6,000,000..10,000,000)
            in all       40 sections, 4,000,000 uids
            no owner     1 section: without exact values, at the ceiling
            target       allocators that can own sections: 2
            time         about 1 s at 200 sections/s, pauses of a section up to 100 ms
            log entries  up to 82 in set im-a
            warning      set im-b has one allocator: it has no other to take over
            warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
            plan         dd65463a6e4644d6
            exit 0
        "#]],
    );
    check(
        &cluster,
        &split(&["--dry-run", "--rate", "20/s", "--max-pause-ms", "50", "-o", "json"]),
        expect![[r#"
            {"operation":"split","dry_run":true,"id":"12345","fingerprint":"dd65463a6e4644d6","from":{"name":"im-a","id":"97000291","restores":0,"sections":100,"sections_after":60},"to":{"name":"im-b","id":"98000294","restores":0,"sections":0,"sections_after":40},"runs":[{"first_section":60,"sections":40,"uid_start":"6000000","uid_end":"10000000"}],"sections":40,"uids":"4000000","lanes":"0","unowned":1,"target_allocs":2,"target_allocs_leased":0,"writes":82,"seconds":2,"rate":20,"max_pause_ms":50,"warnings":["set im-b has one allocator: it has no other to take over","0 of the 2 allocators of set \"im-b\" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds"],"problems":[]}
            exit 0
        "#]],
    );
    check(
        &cluster,
        &SPLIT,
        expect![[r#"
            set   sections  after  restores
            im-a       100     60         0
            im-b         0     40         0
            sections     60..100  (uids 6,000,000..10,000,000)
            in all       40 sections, 4,000,000 uids
            no owner     1 section: without exact values, at the ceiling
            target       allocators that can own sections: 2
            time         about 1 s at 200 sections/s, pauses of a section up to 100 ms
            log entries  up to 82 in set im-a
            warning      set im-b has one allocator: it has no other to take over
            warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
            plan         dd65463a6e4644d6
            error: this would migrate 40 sections from set im-a to set im-b, and there is no terminal to confirm it on
            hint: pass --yes
            exit 2
        "#]],
    );
    assert_eq!(changes(&cluster), [""; 0], "a dry run and a missing confirmation change nothing");
    check(
        &cluster,
        &split(&["--yes", "--rate", "20"]),
        expect![[r#"
            set   sections  after  restores
            im-a       100     60         0
            im-b         0     40         0
            sections     60..100  (uids 6,000,000..10,000,000)
            in all       40 sections, 4,000,000 uids
            no owner     1 section: without exact values, at the ceiling
            target       allocators that can own sections: 2
            time         about 2 s at 20 sections/s, pauses of a section up to 100 ms
            log entries  up to 82 in set im-a
            warning      set im-b has one allocator: it has no other to take over
            warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
            plan         dd65463a6e4644d6
            migration 12345 has started: 40 sections from set im-a to set im-b
              watch it: seqsvr migration watch 12345 --addr http://A2
            exit 0
        "#]],
    );
    assert_eq!(changes(&cluster), ["start 12345 at 20/s"]);
}

#[test]
fn a_series_migrates_by_its_name() {
    let cluster = Cluster::start();
    let migrate = |more: &[&'static str]| [&["set", "migrate", "im-a", "--into", "im-b", "--dry-run"], more].concat();
    check(
        &cluster,
        &migrate(&["--series", "tweets"]),
        expect![[r#"
        set   sections  after  restores
        im-a       100     84         0
        im-b         0     16         0
        sections     100..116  (lanes of series)
        in all       16 sections, 0 uids, 1,024 lanes of series
        no owner     1 section: without exact values, at the ceiling
        target       allocators that can own sections: 2
        time         about 0 s at 200 sections/s, pauses of a section up to 100 ms
        log entries  up to 2 in set im-a
        warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
        plan         64efe152e78fd2c4
        exit 0
    "#]],
    );
    check(
        &cluster,
        &migrate(&["--sections", "98..102"]),
        expect![[r#"
        set   sections  after  restores
        im-a       100     96         0
        im-b         0      4         0
        sections     98..102  (uids 9,800,000..10,000,000, and 2 sections of series)
        in all       4 sections, 400,000 uids
        no owner     1 section: without exact values, at the ceiling
        target       allocators that can own sections: 2
        time         about 1 s at 200 sections/s, pauses of a section up to 100 ms
        log entries  up to 10 in set im-a
        warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
        plan         3e5091b927f7e3c4
        exit 0
    "#]],
    );
    check(
        &cluster,
        &migrate(&["--sections", "110..117"]),
        expect![[r#"
        error: sections 110..117 are outside 0..116
        exit 2
    "#]],
    );
    check(
        &cluster,
        &migrate(&["--series", "tweets", "--all"]),
        expect![[r#"
        error: the argument '--series <NAME>' cannot be used with '--all'

        Usage: seqsvr set migrate --into <SET> --dry-run --addr <URL> <--all|--uids <A..B>|--sections <A..B>|--series <NAME>> <SET>

        For more information, try '--help'.
        exit 2
    "#]],
    );
    assert_eq!(changes(&cluster), [""; 0]);
}

#[test]
fn a_plan_by_its_fingerprint_is_compared() {
    let cluster = Cluster::start();
    let planned = cluster.run(&[&SPLIT[..], &["--dry-run", "-o", "json"]].concat());
    let plan = planned.split("\"fingerprint\":\"").nth(1).unwrap().split('"').next().unwrap();
    let other = cluster.run(&["set", "migrate", "im-a", "--all", "--into", "im-b", "--plan", plan]);
    assert!(other.contains("is stale") && other.ends_with("exit 5\n"), "{other}");
    let json = cluster.run(&["set", "migrate", "im-a", "--all", "--into", "im-b", "--plan", plan, "-o", "json"]);
    assert!(json.starts_with(r#"{"error":{"reason":"STALE_PLAN","message":"the plan "#), "{json}");
    assert_eq!(changes(&cluster), [""; 0]);
    // The store compares the plan, too: the state has changed between the plan and its start.
    cluster.a.lock().turns_stale = true;
    let raced = cluster.run(&[&SPLIT[..], &["--plan", plan, "-o", "json"]].concat());
    expect![[r#"
        {"error":{"reason":"STALE_PLAN","message":"section 61 is part of migration 7 by now (STALE_PLAN)","hint":"the change was not made: run the command again for a new plan","exit":5}}
        error: section 61 is part of migration 7 by now (STALE_PLAN)
        hint: the change was not made: run the command again for a new plan
        exit 5
    "#]].assert_eq(&raced);
    assert_eq!(changes(&cluster), [""; 0]);
    cluster.a.lock().turns_stale = false;
    let started = cluster.run(&[&SPLIT[..], &["--plan", plan]].concat());
    assert!(started.ends_with("exit 0\n"), "{started}");
    assert_eq!(changes(&cluster), ["start 12345 at 0/s"]);
}

#[test]
fn a_plan_with_problems_is_refused() {
    let cluster = Cluster::start();
    cluster.a.lock().problems = vec!["set im-b has no allocator that can own sections (NO_CANDIDATE)".to_owned()];
    for more in [&["--dry-run"][..], &["--yes"]] {
        let refused = cluster.run(&[&SPLIT[..], more].concat());
        assert!(refused.contains("\nproblem      set im-b has no allocator"), "{refused}");
        let words =
            "error: this migration is not possible: set im-b has no allocator that can own sections (NO_CANDIDATE)";
        assert!(refused.ends_with(&format!("{words}\nexit 1\n")), "{refused}");
        let json = cluster.run(&[&SPLIT[..], more, &["-o", "json"]].concat());
        assert!(json.contains(r#""problems":["set im-b has no"#) && json.ends_with("exit 1\n"), "{json}");
    }
    assert_eq!(changes(&cluster), [""; 0]);
}

#[test]
fn what_cannot_be_is_named_and_nothing_is_changed() {
    let cluster = Cluster::start();
    let set = |args: &[&str]| cluster.run(&[&["set"], args, &["--yes"]].concat());
    let refused = |args: &[&str], words: &str, code: i32| {
        let output = set(args);
        assert!(output.contains(words) && output.ends_with(&format!("exit {code}\n")), "{args:?}: {output}");
    };
    let split = ["split", "im-a", "--into", "im-b"];
    refused(&[&split[..], &["--at", "6_000_001"]].concat(), "uid 6000001 is inside section 60", 2);
    refused(&[&split[..], &["--at", "10_000_000"]].concat(), "uid 10000000 is outside of the uids 0..10000000", 2);
    refused(&[&split[..], &["--uids", "9_000_000..11_000_000"]].concat(), "uid 11000000 is outside", 2);
    refused(&[&split[..], &["--sections", "7..3"]].concat(), "it is reversed", 2);
    refused(
        &[&split[..], &["--sections", "3..7", "--uids", "0..400_000"]].concat(),
        "sections 3..4 are named twice",
        2,
    );
    refused(&[&split[..], &["--sections", "99..117"]].concat(), "sections 99..117 are outside 0..116", 2);
    refused(&split, "required arguments", 2);
    refused(&["split", "im-c", "--into", "im-b", "--at", "0"], "no set \"im-c\" is known to set im-a (UNKNOWN_SET)", 1);
    refused(&["split", "im-a", "--into", "im-c", "--at", "0"], "no set \"im-c\" is known to set im-a (UNKNOWN_SET)", 1);
    refused(&["migrate", "im-a", "--into", "im-b", "--all", "--uids", "0..100000"], "cannot be used with", 2);
    refused(&["migrate", "im-a", "--into", "im-b", "--all", "--rate", "0"], "sections per second, 1 or more", 2);
    refused(&["close", "im-a"], "set im-a has 100 sections (SET_NOT_EMPTY)", 1);
    assert_eq!(changes(&cluster), [""; 0]);
}

#[test]
fn the_store_of_the_set_that_the_sections_leave_is_found() {
    let cluster = Cluster::start();
    // The command connects to a member of im-a, but im-b has the sections.
    {
        let mut b = cluster.b.lock();
        b.sections.fill(0);
        b.sets[0].sections = 100;
    }
    let started = cluster.run(&["set", "migrate", "im-b", "--sections", "1..3", "--into", "im-a", "--yes"]);
    assert!(started.contains("migration 12345 has started: 2 sections from set im-b to set im-a"), "{started}");
    assert_eq!(cluster.b.lock().changes, ["start 12345 at 0/s"]);
    assert_eq!(changes(&cluster), [""; 0]);
}

#[test]
fn a_merge_migrates_all_completes_and_closes() {
    let cluster = Cluster::start();
    let merge = ["set", "merge", "im-a", "--into", "im-b"];
    check(
        &cluster,
        &[&merge[..], &["--dry-run"]].concat(),
        expect![[r#"
            set   sections  after  restores
            im-a       100      0         0
            im-b         0    100         0
            sections     0..100  (uids 0..10,000,000)
            in all       100 sections, 10,000,000 uids
            no owner     1 section: without exact values, at the ceiling
            target       allocators that can own sections: 2
            time         about 1 s at 200 sections/s, pauses of a section up to 100 ms
            log entries  up to 202 in set im-a
            then         completes the migration and closes set im-a, both permanently
            warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
            plan         990a142869733be4
            exit 0
        "#]],
    );
    {
        let mut a = cluster.a.lock();
        a.steps = [(40, 30), (100, 100)]
            .map(|(departed, arrived)| {
                let phase = if arrived == 100 { MigrationPhase::Arrived } else { MigrationPhase::Open };
                let mut step = migration(phase, departed, arrived);
                step.sections = 100;
                Some(step)
            })
            .into();
        a.waiting_for = vec!["im-b".to_owned()];
    }
    check(
        &cluster,
        &[&merge[..], &["--yes"]].concat(),
        expect![[r#"
            set   sections  after  restores
            im-a       100      0         0
            im-b         0    100         0
            sections     0..100  (uids 0..10,000,000)
            in all       100 sections, 10,000,000 uids
            no owner     1 section: without exact values, at the ceiling
            target       allocators that can own sections: 2
            time         about 1 s at 200 sections/s, pauses of a section up to 100 ms
            log entries  up to 202 in set im-a
            then         completes the migration and closes set im-a, both permanently
            warning      0 of the 2 allocators of set "im-b" that can own sections respond here with a lease: sections for the others wait, or are not served; start them, or plan again in a few seconds
            plan         990a142869733be4
            migration 12345 has started: 100 sections from set im-a to set im-b
            30/100 open  10.0/s  ETA 7 s  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
            100/100 arrived  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
            migration 12345 is completed: 100 sections stay in set im-b permanently
            set im-a is closed: its processes can be stopped
            exit 0
        "#]],
    );
    assert_eq!(changes(&cluster), ["start 12345 at 0/s", "complete 12345", "close im-a", "close im-a"]);
}

#[test]
fn the_set_that_creates_series_is_not_merged() {
    let cluster = Cluster::start();
    for more in [&["--dry-run"][..], &["--yes"], &["--yes", "--plan", "9f3c0a77d1e25b48"]] {
        check(
            &cluster,
            &[&["set", "merge", "im-b", "--into", "im-a"], more].concat(),
            expect![[r#"
                error: set im-b creates the series of the cluster, so it cannot be closed (LAYOUT_WRITER)
                hint: `seqsvr set layout-writer im-a --addr http://A2` hands that to set im-a first
                exit 1
            "#]],
        );
    }
    assert_eq!(cluster.b.lock().changes, [""; 0]);
    let kept = cluster.run(&["set", "merge", "im-b", "--into", "im-a", "--keep-open", "--dry-run"]);
    assert!(!kept.contains("LAYOUT_WRITER"), "{kept}");
}

#[test]
fn an_interrupted_merge_continues() {
    let cluster = Cluster::start();
    let merge = ["set", "merge", "im-a", "--into", "im-b", "--yes"];
    let mut arrived = migration(MigrationPhase::Arrived, 100, 100);
    arrived.sections = 100;
    {
        let mut a = cluster.a.lock();
        a.sets[0].sections = 0;
        a.migrations = vec![arrived.clone()];
    }
    let continued = cluster.run(&merge);
    assert!(continued.starts_with("migration 12345 has already begun: 100/100 arrived"), "{continued}");
    assert_eq!(changes(&cluster), ["complete 12345", "close im-a"]);
    // The migration is completed, but the set is not closed.
    cluster.a.lock().migrations[0].phase = MigrationPhase::Completed.into();
    assert_eq!(cluster.run(&merge), "set im-a is closed: its processes can be stopped\nexit 0\n");
    assert_eq!(changes(&cluster), ["close im-a"]);
}

#[test]
fn an_empty_set_is_closed() {
    let cluster = Cluster::start();
    let close = ["set", "close", "im-b"];
    check(
        &cluster,
        &close,
        expect![[r#"
            this would close set im-b permanently
            plan: 0c105e5e70000001
            error: this would close set im-b permanently, and there is no terminal to confirm it on
            hint: pass --yes
            exit 2
        "#]],
    );
    check(
        &cluster,
        &[&close[..], &["--dry-run"]].concat(),
        expect![[r#"
            this would close set im-b permanently
            plan: 0c105e5e70000001
            exit 0
        "#]],
    );
    assert_eq!(cluster.b.lock().changes, [""; 0]);
    check(
        &cluster,
        &[&close[..], &["--yes", "-o", "json"]].concat(),
        expect![[r#"
            {"set":"im-b","state":"closed","plan":"0c105e5e70000001"}
            exit 0
        "#]],
    );
    assert_eq!(cluster.b.lock().changes, ["close im-b"]);
    check(
        &cluster,
        &close,
        expect![[r#"
        set im-b is closed: its processes can be stopped
        exit 0
    "#]],
    );
}

#[test]
fn a_set_is_forgotten_by_the_plan_that_was_shown() {
    let cluster = Cluster::start();
    let forget = |more: &[&'static str]| [&["set", "forget", "im-b", "--in", "im-a"], more].concat();
    check(
        &cluster,
        &forget(&["--dry-run"]),
        expect![[r#"
        this would make set im-a forget set im-b with id 98000294
        plan: 0c105e5e70000001
        exit 0
    "#]],
    );
    check(
        &cluster,
        &forget(&["-o", "json", "--yes"]),
        expect![[r#"
        {"set":"im-a","forgotten":"im-b","id":"98000294","plan":"0c105e5e70000001"}
        exit 0
    "#]],
    );
    assert_eq!(cluster.a.lock().changes.len(), 1);
    check(
        &cluster,
        &forget(&["--yes"]),
        expect![[r#"
        error: no set "im-b" is known to set im-a (UNKNOWN_SET)
        hint: it knows im-a
        exit 1
    "#]],
    );
    check(
        &cluster,
        &["set", "forget", "im-a", "--in", "im-a"],
        expect![[r#"
            error: set im-a cannot forget itself (OWN_SET)
            exit 1
        "#]],
    );
}

#[test]
fn a_set_is_closed_only_by_the_plan_that_was_shown() {
    let cluster = Cluster::start();
    let close = |more: &[&'static str]| [&["set", "close", "im-b"], more].concat();
    check(
        &cluster,
        &close(&["--dry-run"]),
        expect![[r#"
            this would close set im-b permanently
            plan: 0c105e5e70000001
            exit 0
        "#]],
    );
    check(
        &cluster,
        &close(&["--dry-run", "-o", "json"]),
        expect![[r#"
            {"dry_run":true,"would":"close set im-b permanently","plan":"0c105e5e70000001"}
            exit 0
        "#]],
    );
    // The plan of another command, and no plan.
    check(
        &cluster,
        &close(&["--plan", "990a142869733be4"]),
        expect![[r#"
            this would close set im-b permanently
            plan: 0c105e5e70000001
            error: the plan 990a142869733be4 is stale, or of another change: the plan of this change is 0c105e5e70000001 now (STALE_PLAN)
            hint: nothing was changed: --dry-run shows the present plan
            exit 5
        "#]],
    );
    check(
        &cluster,
        &close(&["--plan", "990a"]),
        expect![[r#"
        error: invalid value '990a' for '--plan <FINGERPRINT>': it is not 16 hexadecimal digits, as --dry-run prints them

        For more information, try '--help'.
        exit 2
    "#]],
    );
    cluster.b.lock().turns_stale = true;
    check(
        &cluster,
        &close(&["--yes"]),
        expect![[r#"
            this would close set im-b permanently
            plan: 0c105e5e70000001
            error: a section has arrived since (STALE_PLAN)
            hint: the change was not made: run the command again for a new plan
            exit 5
        "#]],
    );
    assert_eq!(cluster.b.lock().changes, [""; 0]);
    cluster.b.lock().turns_stale = false;
    check(
        &cluster,
        &close(&["--plan", "0c105e5e70000001", "-o", "json"]),
        expect![[r#"
        {"set":"im-b","state":"closed","plan":"0c105e5e70000001"}
        exit 0
    "#]],
    );
    assert_eq!(cluster.b.lock().changes, ["close im-b"]);
}

#[test]
fn a_store_of_an_older_release_is_sent_no_dry_run_that_it_would_carry_out() {
    let cluster = Cluster::start();
    cluster.b.lock().is_older = true;
    let close = |more: &[&'static str]| [&["set", "close", "im-b"], more].concat();
    let refused = cluster.run(&close(&["--plan", "0c105e5e70000001"]));
    assert!(refused.contains("runs a release that compares no plans") && refused.ends_with("exit 1\n"), "{refused}");
    check(
        &cluster,
        &close(&["--dry-run"]),
        expect![[r#"
        error: the leader of the store runs a release that compares no plans
        hint: nothing was changed: upgrade the stores, or repeat the command without --dry-run and --plan
        exit 1
    "#]],
    );
    assert_eq!(cluster.b.lock().changes, [""; 0]);
    check(
        &cluster,
        &close(&["--yes"]),
        expect![[r#"
            this would close set im-b permanently
            set im-b is closed: its processes can be stopped
            exit 0
        "#]],
    );
    assert_eq!(cluster.b.lock().changes, ["close im-b"]);
}
