//! `migration watch`, `pause`, `resume`, `rollback` and `complete`.

use std::io::{BufRead, BufReader};

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use seq_proto::v1::{MigrationPhase, MigrationStatus, SetState};

use crate::fake::{Cluster, migration};

fn check(cluster: &Cluster, args: &[&str], expect: Expect) {
    expect.assert_eq(&cluster.run(args));
}

fn changes(cluster: &Cluster) -> Vec<String> {
    std::mem::take(&mut cluster.a.lock().changes)
}

/// Starts a cluster with one migration, which is at these steps at the next requests.
fn at(steps: Vec<Option<MigrationStatus>>) -> Cluster {
    let cluster = Cluster::start();
    let mut a = cluster.a.lock();
    a.migrations = vec![migration(MigrationPhase::Open, 0, 0)];
    a.steps = steps.into();
    drop(a);
    cluster
}

#[test]
fn a_migration_is_watched_until_all_sections_have_arrived() {
    let stuck = MigrationStatus {
        stuck: "set im-b has no majority".to_owned(),
        sections_per_second: 0.0,
        ..migration(MigrationPhase::Open, 24, 20)
    };
    let arrived = migration(MigrationPhase::Arrived, 40, 40);
    // The store has no leader for a moment.
    let steps = vec![Some(migration(MigrationPhase::Open, 14, 10)), None, Some(stuck), Some(arrived)];
    check(
        &at(steps.clone()),
        &["migration", "watch"],
        expect![[r#"
            10/40 open  10.0/s  ETA 3 s  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
            20/40 open  0.0/s  ETA -  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms  stuck: set im-b has no majority
            40/40 arrived  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
            migration 12345 has arrived: 40 sections in set im-b; pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
              `seqsvr migration complete 12345 --addr http://A2` keeps them there
              `seqsvr migration rollback 12345 --addr http://A2` returns them
            exit 0
        "#]],
    );
    check(
        &at(steps),
        &["migration", "watch", "123", "-o", "json"],
        expect![[r#"
            {"id":"12345","from":"im-a","to":"im-b","phase":"open","sections":40,"departed":14,"arrived":10,"in_flight":4,"rate":200,"max_pause_ms":100,"paused":false,"sections_per_second":10.0,"eta_seconds":3,"pause_p50_us":4100,"pause_p99_us":24000,"pause_max_us":88300,"started":"2026-01-01T00:00:00Z","is_return":false,"runs":[{"first_section":60,"sections":40}]}
            {"id":"12345","from":"im-a","to":"im-b","phase":"open","sections":40,"departed":24,"arrived":20,"in_flight":4,"rate":200,"max_pause_ms":100,"paused":false,"sections_per_second":0.0,"pause_p50_us":4100,"pause_p99_us":24000,"pause_max_us":88300,"stuck":"set im-b has no majority","started":"2026-01-01T00:00:00Z","is_return":false,"runs":[{"first_section":60,"sections":40}]}
            {"id":"12345","from":"im-a","to":"im-b","phase":"arrived","sections":40,"departed":40,"arrived":40,"in_flight":0,"rate":200,"max_pause_ms":100,"paused":false,"sections_per_second":0.0,"pause_p50_us":4100,"pause_p99_us":24000,"pause_max_us":88300,"started":"2026-01-01T00:00:00Z","is_return":false,"runs":[{"first_section":60,"sections":40}]}
            exit 0
        "#]],
    );
}

#[test]
fn watching_ends_at_its_time_limit_and_at_a_signal() {
    let cluster = at(Vec::new());
    check(
        &cluster,
        &["migration", "watch", "--timeout-s", "1"],
        expect![[r#"
            0/40 open  0.0/s  ETA -
            0/40 open  0.0/s  ETA -
            error: migration 12345 is still in progress after 1s; 0/40 open  0.0/s  ETA -
            hint: the migration continues at the store: `seqsvr migration watch 12345 --addr http://A2` watches it again
            exit 7
        "#]],
    );
    let addr = format!("http://{}", cluster.addrs[0]);
    let mut child = cluster.spawn(&["migration", "watch", "12345", "--addr", &addr]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert_eq!(line, "0/40 open  0.0/s  ETA -");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    expect![[r#"
        error: detached: migration 12345 continues at the store; 0/40 open  0.0/s  ETA -
        hint: `seqsvr migration watch 12345 --addr http://A1` watches it again
        exit 130
    "#]]
    .assert_eq(&cluster.output(child));
}

#[test]
fn a_migration_is_named_by_its_first_digits() {
    let cluster = at(Vec::new());
    check(
        &cluster,
        &["migration", "pause", "99"],
        expect![[r#"
            error: no migration 99 in the sets of this cluster (UNKNOWN_MIGRATION)
            hint: `seqsvr migration list` lists them
            exit 1
        "#]],
    );
    check(
        &cluster,
        &["migration", "pause", "m-12"],
        expect![[r#"
            error: invalid value 'm-12' for '<ID>': the id of a migration has decimal digits

            For more information, try '--help'.
            exit 2
        "#]],
    );
    let other = MigrationStatus { id: 12_399, ..migration(MigrationPhase::Open, 0, 0) };
    cluster.a.lock().migrations.push(other);
    check(
        &cluster,
        &["migration", "pause", "123"],
        expect![[r#"
        error: the ids of 2 migrations begin with 123: 12345, 12399
        exit 2
    "#]],
    );
    check(
        &cluster,
        &["migration", "watch"],
        expect![[r#"
            error: 2 migrations are in progress
            hint: name one of 12345, 12399
            exit 2
        "#]],
    );
    assert_eq!(changes(&cluster), [""; 0]);
    let paused = cluster.run(&["migration", "pause", "1234"]);
    assert!(paused.ends_with("exit 0\n"), "{paused}");
    assert_eq!(changes(&cluster), ["pace of 12345: 0 0 true"]);
}

#[test]
fn a_migration_is_paused_resumed_rolled_back_and_completed() {
    let cluster = at(Vec::new());
    cluster.a.lock().migrations = vec![migration(MigrationPhase::Open, 14, 10)];
    check(
        &cluster,
        &["migration", "pause", "12345"],
        expect![[r#"
        migration 12345: 10/40 paused  10.0/s  ETA 3 s  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["migration", "resume", "12345", "--rate", "20/s"],
        expect![[r#"
        migration 12345: 10/40 open  10.0/s  ETA 3 s  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["migration", "rollback", "12345"],
        expect![[r#"
        error: this would return 14 sections of migration 12345 from set im-b to set im-a, and there is no terminal to confirm it on
        hint: pass --yes
        exit 2
    "#]],
    );
    check(
        &cluster,
        &["migration", "rollback", "12345", "--dry-run", "-o", "json"],
        expect![[r#"
        {"dry_run":true,"would":"return 14 sections of migration 12345 from set im-b to set im-a"}
        exit 0
    "#]],
    );
    assert_eq!(changes(&cluster), ["pace of 12345: 0 0 true", "pace of 12345: 20 0 false"]);
    cluster.a.lock().steps =
        vec![Some(migration(MigrationPhase::RollingBack, 5, 5)), Some(migration(MigrationPhase::RolledBack, 0, 0))]
            .into();
    check(
        &cluster,
        &["migration", "rollback", "12345", "--yes", "--wait"],
        expect![[r#"
        35/40 rolling back  10.0/s  ETA 1 s  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
        40/40 rolled back
        migration 12345 is rolled back: all sections are in set im-a again
        exit 0
    "#]],
    );
    assert_eq!(changes(&cluster), ["roll 12345 back"]);
    cluster.a.lock().migrations = vec![migration(MigrationPhase::Arrived, 40, 40)];
    check(
        &cluster,
        &["migration", "complete", "12345", "--dry-run"],
        expect![[r#"
            this would keep 40 sections of migration 12345 permanently in set im-b
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["migration", "complete", "12345", "--yes"],
        expect![[r#"
        migration 12345: 40/40 completed  pause p50 4.1 ms  p99 24.0 ms  max 88.3 ms
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["migration", "rollback", "12345", "--yes"],
        expect![[r#"
        error: migration 12345 is completed (MIGRATION_OVER)
        exit 1
    "#]],
    );
}

/// No section returns to a closing set, so the migration ends with the departed sections.
#[test]
fn a_migration_of_a_closing_set_is_not_returned() {
    let cluster = at(Vec::new());
    let mut a = cluster.a.lock();
    a.sets[0].state = SetState::Closing.into();
    a.migrations = vec![migration(MigrationPhase::Open, 14, 10)];
    drop(a);
    check(
        &cluster,
        &["migration", "rollback", "12345", "--dry-run"],
        expect![[r#"
            this would end migration 12345 with 14 sections permanently in set im-b, because set im-a is closing and takes none back
            exit 0
        "#]],
    );
}
