//! The format of a backup, and refusals before anything is written.

use seq_core::layout::{Lanes, TickClock};
use seq_core::set_spec::{Genesis, SetSpec, StoreSpec};
use seq_core::state::{Command, CreateSeries, Registration, SetDefinition};
use seq_core::{Layout, SectionId};
use seq_proto::v1::{BackupHeader, SectionCeiling};
use seq_raft::StateMachine as _;
use sha2::{Digest, Sha256};

use super::file::SECRET_BYTES;
use super::*;
use crate::replicated_set::SetState;

fn state() -> SetState {
    let SetState(mut state) = SetState::default();
    let set = SetDefinition::first("im-a", seq_core::SetId(7), Layout::new(0..1_000, 100).unwrap());
    drop(state.apply(&Command::DefineSet(set)));
    let registration = Registration {
        name: "a1".into(),
        addr: "127.0.0.1:1".into(),
        peer_addr: "127.0.0.1:2".into(),
        token: 7,
        lease: std::time::Duration::from_millis(100),
        follows: seq_core::Incarnation(0),
        seen: seq_core::Revision(0),
        process: 0,
    };
    drop(state.apply(&Command::Register(registration)));
    SetState(state)
}

/// Returns the state as in a group with this format.
fn of_format(format: u16) -> SetState {
    let SetState(state) = state();
    SetState(seq_core::state::State { rules: seq_core::state::Rules::of_format(format), ..state })
}

fn file() -> Vec<u8> {
    file_in(SetState::FORMAT)
}

/// Returns a backup of a group with this format.
fn file_in(format: u16) -> Vec<u8> {
    let header = BackupHeader {
        cluster: "c".into(),
        set: "im-a".into(),
        uid_end: 1_000,
        section_size: 100,
        state_format: format.into(),
        secret: vec![5; SECRET_BYTES],
        ..BackupHeader::default()
    };
    Backup::encode(header, &state())
}

fn spec() -> SetSpec {
    let store = |id| StoreSpec {
        id,
        name: format!("s{id}"),
        addr: format!("127.0.0.1:{id}"),
        raft: format!("127.0.0.1:2{id}"),
        admin: None,
        http: format!("127.0.0.1:1{id}"),
        listen: Default::default(),
    };
    let stores = (1..=3).map(store).collect();
    SetSpec {
        name: "im-a".into(),
        uids: 0..1_000,
        section_size: 100,
        step: 10,
        genesis: Genesis::Start,
        stores,
        allocs: Vec::new(),
    }
}

/// Replaces the checksum of a file by the right checksum.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let end = file.len() - 32;
    let checksum = Sha256::digest(&file[..end]);
    file[end..].copy_from_slice(&checksum);
    file
}

#[test]
fn a_backup_is_read_as_it_was_written() {
    let backup = Backup::decode(&file()).unwrap();
    assert_eq!(*backup.state(), of_format(SetState::FORMAT));
    assert_eq!((backup.format, &*backup.header.set), (1, "im-a"));
    assert!(!format!("{backup:?}").contains("5, 5"), "the secret is not printed");
}

#[test]
fn a_group_is_restored_in_the_newest_format() {
    let dir = tempfile::tempdir().unwrap();
    for format in SetState::OLDEST_FORMAT..=SetState::FORMAT {
        let backup = Backup::decode(&file_in(format)).unwrap();
        assert_eq!((backup.state(), backup.state_format()), (&of_format(format), format));
        let place = dir.path().join(format.to_string());
        restore(&backup, &RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: place, count: 1 }).unwrap();
    }
    for format in [0, SetState::OLDEST_FORMAT - 1, SetState::FORMAT + 1] {
        let refusal = Backup::decode(&file_in(format)).unwrap_err();
        assert!(matches!(refusal, BackupError::StateFormat { found, .. } if found == u32::from(format)), "{refusal}");
    }
}

#[test]
fn damage_is_distinguished_from_a_newer_format() {
    let whole = file();
    for at in 8..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(matches!(Backup::decode(&damaged), Err(BackupError::Damaged { .. })), "byte {at}");
    }
    for length in 0..whole.len() {
        assert!(Backup::decode(&whole[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(Backup::decode(b"id,value\n1,2\n"), Err(BackupError::NoBackup));
    let mut newer = whole.clone();
    newer[8] = 2;
    assert_eq!(Backup::decode(&sealed(newer)), Err(BackupError::NewerFormat { found: 2, newest: 1 }));
    let mut long = whole;
    long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Backup::decode(&sealed(long)), Err(BackupError::Malformed { .. })));
}

#[test]
fn members_that_are_restored_alike_begin_alike() {
    let dir = tempfile::tempdir().unwrap();
    let backup = Backup::decode(&file()).unwrap();
    let restore = |id: u64, count| {
        let place = dir.path().join(format!("{id}-{count}"));
        restore(&backup, &RestoreConfig { spec: spec(), cluster: "c".into(), id, dir: place, count }).unwrap()
    };
    let first = restore(1, 1);
    assert_eq!((first, first), (restore(2, 1), restore(3, 1)));
    assert_eq!((first.lineage.0 >> 32, first.quarantined), (1, 10));
    assert_eq!(restore(1, 2).lineage.0 >> 32, 2);
    let read = |name: &str| {
        let files = std::fs::read_dir(dir.path().join(name)).unwrap().map(|entry| entry.unwrap().path());
        let snapshot = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("snapshot-");
        std::fs::read(files.into_iter().find(snapshot).unwrap()).unwrap()
    };
    assert_eq!(read("1-1"), read("3-1"));
    assert_ne!(read("1-1"), read("1-2"));
}

#[test]
fn a_backup_of_anything_else_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let backup = Backup::decode(&file()).unwrap();
    let good = RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: dir.path().join("new"), count: 1 };
    type Change = fn(&mut RestoreConfig);
    let changes: [(Change, &str); 7] = [
        (|config| config.cluster = "d".into(), "the backup is of cluster \"c\", and the set file is of \"d\""),
        (
            |config| config.spec.name = "im-b".into(),
            "the backup is of set \"im-a\", and the set file describes \"im-b\"",
        ),
        (
            |config| config.spec.section_size = 50,
            "in sections of 100, and the set file has uids 0..1000 in sections of 50",
        ),
        (|config| config.id = 4, "no store with id 4, only [1, 2, 3]"),
        (
            |config| config.count = 0,
            "the count 0 was used: the backup knows of restores up to 0, so this one counts 1 or more",
        ),
        (
            |config| config.count = u32::MAX,
            "the count 4294967295 is too large: other sets would refuse more than 1073741823",
        ),
        (
            |config| config.count = 1 << 23,
            "under the count 8388608, users of section 9 would go on above 9223372036854775808",
        ),
    ];
    for (change, text) in changes {
        let mut config = good.clone();
        change(&mut config);
        let error = restore(&backup, &config).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.may_have_written() && !config.dir.exists());
    }
    restore(&backup, &good).unwrap();
    let again = restore(&backup, &good).unwrap_err();
    assert!(again.to_string().contains("is not empty") && !again.may_have_written(), "{again}");
}

fn ceilings(of: &[(u32, u64, u64)]) -> Vec<SectionCeiling> {
    of.iter().map(|&(section, epoch, ceiling)| SectionCeiling { section, epoch, ceiling }).collect()
}

#[test]
fn reported_ceilings_raise_those_of_a_copy_and_lower_none() {
    let mut copy = RecoveredCopy::of_backup(&Backup::decode(&file()).unwrap()).unwrap();
    assert_eq!((copy.cluster(), copy.set(), copy.sections()), ("c", "im-a", 10));
    let raised = copy.raise("a1", &ceilings(&[(0, 3, 500), (9, 1, 20), (2, 0, 0)])).unwrap();
    assert_eq!(raised, CeilingsRaised { sections: 2, numbers: 520, elsewhere: 0 });
    let lower = copy.raise("a2", &ceilings(&[(0, 2, 400)])).unwrap();
    assert_eq!(lower, CeilingsRaised::default());
    let again = Backup::decode(&copy.encode(0)).unwrap();
    let of = |section| again.state().0.sections.resident(SectionId(section)).unwrap().max_seq.0;
    assert_eq!([0, 1, 9].map(of), [500, 0, 20]);
    assert!(again.header.origin.starts_with("the backup with SHA-256 "), "{}", again.header.origin);
    assert_ne!(again.header.secret, vec![5; SECRET_BYTES], "a restore from it is another one");
}

#[test]
fn a_report_that_no_owner_can_have_made_is_refused_as_a_whole() {
    let mut copy = RecoveredCopy::of_backup(&Backup::decode(&file()).unwrap()).unwrap();
    let before = copy.state().clone();
    for (report, text) in [
        ((10, 1, 5), "a1 reports section 10, and the set has sections 0 to 9"),
        ((1, 1 << 32, 5), "a1 owns section 1 since a restore that is newer"),
        ((1, 1, (1 << 40) + 1), "a1 reports ceiling 1099511627777 of section 1, of which the copy has 0"),
        ((1, 1, u64::MAX), "a1 reports ceiling"),
    ] {
        let error = copy.raise("a1", &ceilings(&[(0, 1, 5), report])).unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(*copy.state(), before, "{text}");
    }
    let header = BackupHeader {
        state_format: SetState::FORMAT.into(),
        secret: vec![5; SECRET_BYTES],
        ..BackupHeader::default()
    };
    let empty = Backup::decode(&Backup::encode(header, &SetState::default())).unwrap();
    assert!(RecoveredCopy::of_backup(&empty).unwrap_err().to_string().contains("has no set"));
}

#[test]
fn a_plan_of_another_restore_has_another_fingerprint() {
    let backup = Backup::decode(&file()).unwrap();
    let config = RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: "/d/s1".into(), count: 1 };
    let of = |change: fn(&mut RestoreConfig)| {
        let mut config = config.clone();
        change(&mut config);
        RestorePlan::new(&backup, &config).unwrap().fingerprint().0
    };
    let plans: std::collections::BTreeSet<u64> = [
        of(|_| ()),
        of(|config| config.id = 2),
        of(|config| config.count = 2),
        of(|config| config.dir = "/d/s2".into()),
        of(|config| config.spec.stores[2].addr = "127.0.0.1:9".into()),
        of(|config| config.spec.stores.truncate(1)),
    ]
    .into();
    assert_eq!(plans.len(), 6);
    assert_eq!(of(|_| ()), of(|config| config.spec.step = 7), "what a restore does not depend on is not in it");
}

/// C4: a host is restored from another file, and no member takes the two restores for one group.
#[test]
fn a_member_that_begins_otherwise_is_of_another_lineage() {
    let backup = Backup::decode(&file()).unwrap();
    let config = RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: "/d/s1".into(), count: 1 };
    let of = |change: fn(&mut RestoreConfig)| {
        let mut config = config.clone();
        change(&mut config);
        let restored = RestorePlan::new(&backup, &config).unwrap().restored();
        (restored.lineage, restored.content)
    };
    let same = of(|_| ());
    assert_eq!(of(|config| (config.id, config.dir) = (2, "/d/s2".into())), same);
    let others = [
        of(|config| config.spec.stores.truncate(1)),
        of(|config| config.spec.stores[2].raft = "127.0.0.1:9".into()),
        of(|config| config.spec.stores[0].name = "other".into()),
        of(|config| config.count = 2),
    ];
    for (lineage, content) in others {
        assert!(lineage != same.0 && content != same.1, "{lineage}");
    }
}

#[test]
fn a_restore_is_in_the_audit_log_and_raises_by_a_margin_for_each_count() {
    let config = RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: "/d/s1".into(), count: 2 };
    for format in [SetState::OLDEST_FORMAT, SetState::FORMAT] {
        let backup = Backup::decode(&file_in(format)).unwrap();
        let plan = RestorePlan::new(&backup, &config).unwrap();
        assert_eq!((plan.restored().margin, plan.state.0.rules), (2 << 40, seq_core::state::Rules::Eleven));
        let events: Vec<_> = plan.state.0.audit.events().map(|event| format!("{:?}", event.record)).collect();
        assert!(events.len() == 2 && events[0].contains("restore --count 2: the backup with"), "{events:?}");
    }
}

#[test]
fn a_clock_before_the_backup_is_refused_where_ids_have_a_time() {
    const CREATED_MS: u64 = 1_790_000_000_000;
    const SPREAD_MS: u64 = seq_core::limits::MAX_CLOCK_SPREAD_MS;
    let made = |clock: Option<TickClock>| {
        let mut state = state();
        let lanes = Lanes { per_section: 1, count: 1, clock, start: seq_core::Seq(0), margin: 0, keys: None };
        let series = CreateSeries { name: "a".into(), shape: vec![1], lanes, created_ms: CREATED_MS };
        state.0.apply(&Command::CreateSeries(series));
        assert_eq!(state.0.series.len(), 1);
        let header = BackupHeader {
            created_unix_ms: CREATED_MS,
            state_format: SetState::FORMAT.into(),
            secret: vec![5; SECRET_BYTES],
            ..BackupHeader::default()
        };
        Backup::decode(&Backup::encode(header, &state)).unwrap()
    };
    let timed = made(Some(TickClock { epoch_ms: 0, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 }));
    assert!(check_clock(&timed, CREATED_MS - SPREAD_MS).is_ok());
    let refused = check_clock(&timed, CREATED_MS - SPREAD_MS - 1_000).unwrap_err().to_string();
    assert!(refused.contains("61 s before the time of the backup") && refused.contains("set the clock"), "{refused}");
    assert!(check_clock(&made(None), 0).is_ok(), "a counter needs no clock");
}

/// C6: a backup that is made from another backup continues its count.
#[test]
fn a_recovered_backup_keeps_the_count() {
    let copy = RecoveredCopy::of_backup(&Backup::decode(&file()).unwrap()).unwrap();
    assert_eq!(copy.least_count(), 1);
    let recovered = Backup::decode(&copy.encode(4)).unwrap();
    assert_eq!(least_count(&recovered), 4);
    let copy = RecoveredCopy::of_backup(&recovered).unwrap();
    let refused = [3, 4, u32::MAX].map(|count| copy.check_count(count).map_err(|error| error.to_string()));
    assert!(
        matches!(&refused, [Err(used), Ok(()), Err(large)] if used.contains("was used") && large.contains("too large"))
    );
    assert_eq!(least_count(&Backup::decode(&copy.encode(0)).unwrap()), 4, "once more");
    let config = RestoreConfig { spec: spec(), cluster: "c".into(), id: 1, dir: "/d/s1".into(), count: 3 };
    let refused = RestorePlan::new(&recovered, &config).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the count 3 was used: the backup knows of restores up to 3, so this one counts 4 or more"
    );
}

#[test]
fn a_section_that_came_from_a_restored_set_is_reported_too() {
    let mut state = state();
    let (set, lineage) = (seq_core::SetId(8), seq_core::Lineage(1 << 32));
    drop(state.0.apply(&Command::Fence(seq_core::state::Fence { set, lineage })));
    let header = BackupHeader {
        state_format: SetState::FORMAT.into(),
        secret: vec![5; SECRET_BYTES],
        ..BackupHeader::default()
    };
    let mut copy = RecoveredCopy::of_backup(&Backup::decode(&Backup::encode(header, &state)).unwrap()).unwrap();
    let raised = copy.raise("a1", &ceilings(&[(1, 1 << 32, 5)])).unwrap();
    assert_eq!(raised.sections, 1);
    assert!(copy.raise("a1", &ceilings(&[(1, 2 << 32, 6)])).is_err(), "no set is known to count two");
}
