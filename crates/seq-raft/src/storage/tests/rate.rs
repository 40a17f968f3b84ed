//! Append rate of the log by the number of entries queued under one sync, on sled in a directory and in memory; and the
//! size of sled's file while old entries are purged.
//!
//! `cargo test --release -p seq-raft --lib storage::tests::rate -- --ignored --nocapture --test-threads 1`, with
//! `TMPDIR` on the file system to measure: the default may be in memory. Compare engines only on the same machine.

use std::time::{Duration, Instant};

use super::*;
use crate::options::RaftOptions;

/// Duration of each case.
const CASE: Duration = Duration::from_secs(3);
/// Number of entries that the purging case keeps, and purges at a time.
const KEEP: u64 = 1_000;

#[tokio::test]
#[ignore = "measures; half a minute"]
async fn append_rate() {
    let dir = tempfile::tempdir().unwrap();
    println!(
        "{:<8} {:>7} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "where", "raises", "in flight", "entries/s", "p50 us", "p99 us", "file MiB"
    );
    for (name, raises) in [("sled", 1), ("sled", 64), ("purging", 64), ("memory", 1)] {
        for in_flight in [1, 16, 256] {
            let place = dir.path().join(format!("{name}-{raises}-{in_flight}"));
            let data = if name == "memory" { DataDir::Memory(MemoryDisk::new()) } else { at(&place) };
            let row = case(name, &data, raises, in_flight).await;
            println!("{row} {:>9.1}", file_mib(&place));
        }
    }
}

/// Appends rounds of `in_flight` entries, each acknowledged separately, and waits for the whole round.
async fn case(name: &str, data: &DataDir, raises: usize, in_flight: u64) -> String {
    let mut purged = 0;
    let mut opened = open(data).unwrap();
    let log = &mut opened.log;
    let mut index = log.get_log_state().await.unwrap().last_log_id.map_or(0, |id| id.index + 1);
    let (first, start) = (index, Instant::now());
    let mut rounds = Vec::new();
    while start.elapsed() < CASE {
        let round = Instant::now();
        let mut acknowledgements = Vec::new();
        for _ in 0..in_flight {
            acknowledgements.push(start_append(log, vec![raise(1, index, raises)]).await);
            index += 1;
        }
        for acknowledged in acknowledgements {
            acknowledged.await.unwrap().unwrap();
        }
        rounds.push(round.elapsed());
        if name == "purging" && index > purged + 2 * KEEP {
            purged = index - KEEP;
            log.purge(log_id(1, purged)).await.unwrap();
        }
    }
    let rate = (index - first) as f64 / start.elapsed().as_secs_f64();
    rounds.sort();
    let at = |share: usize| rounds[(rounds.len() - 1) * share / 100].as_micros();
    let row = format!("{name:<8} {raises:>7} {in_flight:>9} {rate:>12.0} {:>9} {:>9}", at(50), at(99));
    close(opened).await;
    row
}

/// Opens logs of more and more entries that no snapshot covers. A member reads its log at each start.
#[tokio::test]
#[ignore = "measures; a minute"]
async fn load_rate() {
    println!("{:>9} {:>9} {:>9}", "entries", "file MiB", "seconds");
    for entries in [30_000, 100_000, 1_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let data = at(dir.path());
        let mut opened = open(&data).unwrap();
        for first in (0..entries).step_by(1_000) {
            append(&mut opened.log, (first..first + 1_000).map(|index| raise(1, index, 64)).collect()).await;
        }
        close(opened).await;
        let start = Instant::now();
        let mut opened = open(&data).unwrap();
        let took = start.elapsed();
        let last = opened.log.get_log_state().await.unwrap().last_log_id.map(|id| id.index);
        assert_eq!(last, Some(entries - 1));
        println!("{entries:>9} {:>9.1} {:>9.2}", file_mib(dir.path()), took.as_secs_f64());
        close(opened).await;
    }
}

/// Appends as many entries as a month has seconds, purges them as a member does after each snapshot, and prints the
/// size of sled's file meanwhile.
#[tokio::test]
#[ignore = "measures; some minutes"]
async fn growth_over_a_month() {
    const MONTH: u64 = 30 * 24 * 3_600;
    let RaftOptions { snapshot_interval_entries: interval, log_retained_entries: kept, .. } = RaftOptions::DEFAULTS;
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(&at(dir.path())).unwrap();
    println!("{:>9} {:>9} {:>9}", "entries", "day", "file MiB");
    let mut printed = 0;
    for first in (0..MONTH).step_by(100) {
        append(&mut opened.log, (first..first + 100).map(|index| raise(1, index, 64)).collect()).await;
        let end = first + 100;
        if end % interval == 0 {
            opened.log.purge(log_id(1, end - kept)).await.unwrap();
        }
        let day = end * 30 / MONTH;
        if day >= printed + 3 {
            printed = day;
            println!("{end:>9} {day:>9} {:>9.1}", file_mib(dir.path()));
        }
    }
    close(opened).await;
}

fn file_mib(dir: &Path) -> f64 {
    std::fs::metadata(dir.join("log/db")).map_or(0, |file| file.len()) as f64 / 1024.0 / 1024.0
}
