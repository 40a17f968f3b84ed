//! How fast the log takes entries: so many gathered under one sync, on sled in a directory and in memory; and what becomes of
//! sled's file while old entries are purged.
//!
//! `cargo run --release -p seq-store --example append [DIR]`; without a directory a temporary one is used. Compare engines
//! on the same machine only, and on the file system that will be used: a temporary directory may be in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use seq_core::state::{Command, Raise};
use seq_core::{Epoch, Incarnation, NodeId, SectionId, Seq};
use seq_store::storage::{DataDir, LogStore, MemoryDisk, prepare};
use seq_store::types::{EncodedCommand, Entry, LeaderId, LogId, Payload, TypeConfig};

/// How long each case runs.
const CASE: Duration = Duration::from_secs(3);
/// How many entries the purging case keeps, and purges at a time.
const KEEP: u64 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args().nth(1).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    println!(
        "{:<8} {:>7} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "where", "raises", "in flight", "entries/s", "p50 us", "p99 us", "file MiB"
    );
    for (name, raises) in [("sled", 1), ("sled", 64), ("purging", 64), ("memory", 1)] {
        for in_flight in [1, 16, 256] {
            let place = dir.join(format!("{name}-{raises}-{in_flight}"));
            let data = if name == "memory" { DataDir::Memory(MemoryDisk::new()) } else { DataDir::Path(place.clone()) };
            case(name, &data, raises, in_flight).await?;
            let file = std::fs::metadata(place.join("log/db")).map_or(0, |file| file.len());
            println!(" {:>9.1}", file as f64 / 1024.0 / 1024.0);
        }
    }
    Ok(())
}

/// Appends rounds of `in_flight` entries, each with its own answer, and waits for all of a round.
async fn case(name: &str, data: &DataDir, raises: usize, in_flight: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut purged = 0;
    let mut log = prepare(data, "bench", 1)?.open()?.log;
    let mut index = log.get_log_state().await?.last_log_id.map_or(0, |id| id.index + 1);
    let (first, start) = (index, Instant::now());
    let mut rounds = Vec::new();
    while start.elapsed() < CASE {
        let round = Instant::now();
        let mut answers = Vec::new();
        for _ in 0..in_flight {
            answers.push(append(&mut log, index, raises).await?);
            index += 1;
        }
        for answer in answers {
            answer.await??;
        }
        rounds.push(round.elapsed());
        if name == "purging" && index > purged + 2 * KEEP {
            purged = index - KEEP;
            log.purge(LogId::new(LeaderId { term: 1, node_id: 1 }, purged)).await?;
        }
    }
    let rate = (index - first) as f64 / start.elapsed().as_secs_f64();
    rounds.sort();
    let at = |share: usize| rounds[(rounds.len() - 1) * share / 100].as_micros();
    print!("{name:<8} {raises:>7} {in_flight:>9} {rate:>12.0} {:>9} {:>9}", at(50), at(99));
    Ok(())
}

async fn append(
    log: &mut LogStore,
    index: u64,
    raises: usize,
) -> Result<openraft::type_config::alias::OneshotReceiverOf<TypeConfig, std::io::Result<()>>, Box<dyn std::error::Error>>
{
    let raise = Raise { section: SectionId(0), epoch: Epoch(1), to: Seq(index + 1) };
    let command = Command::Raise { node: NodeId(1), incarnation: Incarnation(1), raises: vec![raise; raises] };
    let payload = Payload::Normal(EncodedCommand::encode(&command)?);
    let entry = Entry { log_id: LogId::new(LeaderId { term: 1, node_id: 1 }, index), payload };
    let (done, answer) = TypeConfig::oneshot();
    log.append([entry], IOFlushed::signal(done)).await?;
    Ok(answer)
}
