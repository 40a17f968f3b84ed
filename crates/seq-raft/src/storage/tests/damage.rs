//! Damage: every flipped or missing byte is refused with its place, or is irrelevant. Opening never returns less than
//! was acknowledged.

use std::fs;

use super::*;
use crate::encoding::envelope::{self, Kind};

/// Acknowledged contents of the directory that gets damaged.
#[derive(Debug, PartialEq)]
struct Contents {
    entries: Vec<Entry>,
    vote: Option<Vote>,
    purged: Option<LogId>,
    state: Journal,
    applied: Option<u64>,
}

async fn contents(opened: &mut Opened<Journal>) -> Contents {
    Contents {
        entries: entries(&mut opened.log).await,
        vote: read_vote(&mut opened.log).await,
        purged: opened.log.get_log_state().await.unwrap().last_purged_log_id,
        state: opened.state.read(Clone::clone),
        applied: opened.state.last_applied(),
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    contents: Contents,
}

impl Fixture {
    async fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut opened = open(&at(dir.path())).unwrap();
        opened.log.save_vote(&vote(1)).await.unwrap();
        let all: Vec<Entry> = std::iter::once(command_entry(1, 0, &first_command()))
            .chain((1..300).map(|index| raise(1, index, if index % 50 == 0 { 2_000 } else { 3 })))
            .collect();
        for batch in all.chunks(10) {
            append(&mut opened.log, batch.to_vec()).await;
        }
        apply(&mut opened.machine, all[..200].to_vec()).await;
        opened.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
        opened.log.purge(log_id(1, 150)).await.unwrap();
        opened.log.save_vote(&vote(2)).await.unwrap();
        append(&mut opened.log, vec![raise(2, 300, 3)]).await;
        let contents = contents(&mut opened).await;
        close(opened).await;
        Fixture { dir, contents }
    }

    /// Opens a damaged copy; returns its error, or checks that its contents are complete.
    async fn open_damaged(&self, damage: impl FnOnce(&Path)) -> Result<(), String> {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(self.dir.path(), copy.path());
        damage(copy.path());
        match open(&at(copy.path())) {
            Err(error) => {
                let error = text(&error);
                let named = error.contains(copy.path().to_str().unwrap()) || error.contains("acknowledged is lost");
                assert!(named, "the error names no place: {error}");
                Err(error.replace(copy.path().to_str().unwrap(), "DIR"))
            }
            Ok(mut opened) => {
                assert_eq!(contents(&mut opened).await, self.contents, "lost silently");
                close(opened).await;
                Ok(())
            }
        }
    }

    fn len(&self, name: &str) -> usize {
        fs::metadata(self.dir.path().join(name)).unwrap().len() as usize
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    fs::write(path, bytes).unwrap();
}

fn truncate(path: &Path, len: usize) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..len]).unwrap();
}

const SNAPSHOT: &str = "snapshot-199-1-1";

#[tokio::test]
async fn a_damaged_snapshot_is_refused() {
    let fixture = Fixture::new().await;
    fixture.open_damaged(|_| {}).await.unwrap();
    let len = fixture.len(SNAPSHOT);
    for at in (0..len).step_by(len / 40) {
        let error = fixture.open_damaged(|dir| flip(&dir.join(SNAPSHOT), at)).await.unwrap_err();
        assert!(error.contains("cannot read DIR/snapshot-199-1-1: snapshot record of"), "{error}");
    }
    for cut in [0, 10, len / 2, len - 1] {
        let error = fixture.open_damaged(|dir| truncate(&dir.join(SNAPSHOT), cut)).await.unwrap_err();
        assert!(error.contains(&format!("it has {cut} bytes instead of {len}")), "{error}");
    }
    let error = fixture.open_damaged(|dir| fs::remove_file(dir.join(SNAPSHOT)).unwrap()).await.unwrap_err();
    assert!(error.contains("it is missing"), "{error}");
}

#[tokio::test]
async fn a_damaged_log_is_refused_or_whole() {
    let fixture = Fixture::new().await;
    let len = fixture.len("log/db");
    let mut refused = 0;
    for _ in 0..120 {
        let at = fastrand::usize(..len);
        refused += usize::from(fixture.open_damaged(|dir| flip(&dir.join("log/db"), at)).await.is_err());
    }
    assert!(refused > 10, "of 120 flips {refused} were noticed");
    for cut in [0, 1, len / 4, len / 2, len - len / 4] {
        let verdict = fixture.open_damaged(|dir| truncate(&dir.join("log/db"), cut)).await;
        assert!(verdict.is_err() || cut > len / 4, "cut to {cut} of {len} bytes");
    }
    let error = fixture.open_damaged(|dir| fs::remove_dir_all(dir.join("log")).unwrap()).await.unwrap_err();
    assert!(error.contains("data that was acknowledged is lost"), "{error}");
}

/// sled writes its index when it opens; a power cut or a full disk can interrupt the write anywhere.
#[tokio::test]
async fn an_index_that_was_not_written_to_its_end_is_no_damage() {
    let fixture = Fixture::new().await;
    // The first opening of a new database writes no index.
    close(open(&at(fixture.dir.path())).unwrap()).await;
    let is_index = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("snap.");
    let log = fixture.dir.path().join(identity::LOG_DIR);
    let index = fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path()).find(|path| is_index(path)).unwrap();
    let whole = fs::read(&index).unwrap();
    for length in [0, 1, 12, 13, whole.len() / 2, whole.len() - 1, whole.len()] {
        for name in ["snap.0000000000000000.generating", "snap.FFFFFFFFFFFFFFFF.generating"] {
            let unfinished = |dir: &Path| {
                let log = dir.join(identity::LOG_DIR);
                fs::write(log.join(name), &whole[..length]).unwrap();
            };
            assert_eq!(fixture.open_damaged(unfinished).await, Ok(()), "{length} bytes of {name}");
            // The same, with the very first index.
            let first = |dir: &Path| {
                unfinished(dir);
                fs::remove_file(dir.join(identity::LOG_DIR).join(index.file_name().unwrap())).unwrap();
            };
            assert_eq!(fixture.open_damaged(first).await, Ok(()), "{length} bytes of {name}, the first one");
        }
    }
}

#[tokio::test]
async fn a_damaged_identity_or_watermark_is_refused_or_whole() {
    let fixture = Fixture::new().await;
    for at in 0..fixture.len("identity") {
        let error = fixture.open_damaged(|dir| flip(&dir.join("identity"), at)).await.unwrap_err();
        assert!(error.contains("cannot read DIR/identity: identity record of"), "{error}");
    }
    let error = fixture.open_damaged(|dir| fs::remove_file(dir.join("identity")).unwrap()).await.unwrap_err();
    assert!(error.contains("no identity file"), "{error}");

    // Damages one of two slots: the other slot still has the bounds.
    for at in (0..fixture.len("acknowledged")).step_by(61) {
        fixture.open_damaged(|dir| flip(&dir.join("acknowledged"), at)).await.unwrap();
    }
    let both = |dir: &Path| {
        flip(&dir.join("acknowledged"), 20);
        flip(&dir.join("acknowledged"), 4_096 + 20);
    };
    let error = fixture.open_damaged(both).await.unwrap_err();
    assert!(error.contains("DIR/acknowledged: acknowledged watermark record of"), "{error}");
    for cut in [0, 10, 4_000] {
        let error = fixture.open_damaged(|dir| truncate(&dir.join("acknowledged"), cut)).await.unwrap_err();
        assert_eq!(error, format!("stored data cannot be loaded: DIR/acknowledged holds {cut} bytes instead of 8192"));
    }
    let error = fixture.open_damaged(|dir| fs::remove_file(dir.join("acknowledged")).unwrap()).await.unwrap_err();
    assert!(error.contains("data that was acknowledged is lost: the record of"), "{error}");
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let fixture = Fixture::new().await;
    let newer = |kind| envelope::seal_body(kind, encoding::newest::VERSION + 1, &[0; 32]);
    let write = |name: &'static str, kind| {
        let record = newer(kind);
        move |dir: &Path| fs::write(dir.join(name), record).unwrap()
    };
    let error = fixture.open_damaged(write("identity", Kind::Identity)).await.unwrap_err();
    assert!(error.contains("DIR/identity: identity record of 48 bytes: has format version 5, newer than 4"), "{error}");
    let record = newer(Kind::Watermark);
    let slots = |dir: &Path| {
        let mut bytes = record.clone();
        bytes.resize(4_096, 0);
        fs::write(dir.join("acknowledged"), bytes.repeat(2)).unwrap();
    };
    let error = fixture.open_damaged(slots).await.unwrap_err();
    assert!(error.contains("has format version 5, newer than 4"), "{error}");
    let in_log = |key: &'static [u8], kind| {
        let record = newer(kind);
        move |dir: &Path| {
            let db = sled::open(dir.join("log")).unwrap();
            db.insert(key, record).unwrap();
            db.flush().unwrap();
        }
    };
    let error = fixture.open_damaged(in_log(b"mvote", Kind::Vote)).await.unwrap_err();
    assert!(error.contains(r#"cannot read key "vote" of DIR/log: vote record"#), "{error}");
    assert!(error.contains("has format version 5, newer than 4"), "{error}");
    let entry = b"e\0\0\0\0\0\0\x01\0\0\0";
    let error = fixture.open_damaged(in_log(entry, Kind::Entry)).await.unwrap_err();
    assert!(error.contains("cannot read log entry 256 of DIR/log: log entry record"), "{error}");
}
