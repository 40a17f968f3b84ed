//! Compares seqsvr with its alternatives: real servers from the system's packages and the bare wire, in turn, in one
//! run, with the same tools and flags. The results are the ratios, and the server's CPU time for each number.
//!
//! ```text
//! cargo run --profile dist -p seq-compare       everything, three runs each
//! cargo run --profile dist -p seq-compare -- run --only wire,redis --seconds 5
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, ValueEnum};

mod cluster;
mod echo;
mod etcd;
mod ids;
mod mariadb;
mod peer;
mod suite;
mod table;
mod tls;
mod tool;

use suite::{Bench, Suite};

/// The allocator of the server: an echo with a slower one would favour the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "seq-compare", about, version)]
enum Cli {
    /// Runs the comparison and prints its tables.
    Run(RunArgs),
    /// Serves the bare wire.
    Echo {
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:0")]
        addr: SocketAddr,
        /// Serving threads.
        #[arg(long, default_value_t = 1)]
        cores: usize,
    },
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Suites to measure; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Suite>,
    /// Runs of each suite, in turn; the tables show the medians.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Approximate duration of each measurement, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5)]
    seconds: u32,
    /// The server binary; by default `seqsvr` in the directory of this program.
    #[arg(long, value_name = "FILE")]
    seqsvr: Option<PathBuf>,
    /// Another build of the server to measure in turn with it; its `propose` is in `examples` beside it. With an even
    /// number of --runs both builds are as often the first one, which is some percent slower.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::Echo { addr, cores } => echo::serve(addr, cores),
        Cli::Run(args) => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(args)),
    }
}

async fn run(args: RunArgs) -> anyhow::Result<()> {
    let me = std::env::current_exe()?;
    let seqsvr = args.seqsvr.unwrap_or_else(|| me.with_file_name("seqsvr"));
    anyhow::ensure!(seqsvr.is_file(), "{} is not there: cargo build --profile dist", seqsvr.display());
    if let Some(baseline) = &args.baseline {
        anyhow::ensure!(baseline.is_file(), "--baseline: {} is not there", baseline.display());
    }
    let baseline = args.baseline;
    let mut bench = Bench { seqsvr, baseline, me, seconds: args.seconds, run: 0, rows: Vec::new() };
    let suites = if args.only.is_empty() { Suite::value_variants().to_vec() } else { args.only };
    let measured = measure(&mut bench, &suites, args.runs).await;
    let (goals, met) = table::goals(&bench.rows, &suite::goals());
    println!("{}\n\n{goals}", table::rows(&bench.rows));
    if bench.baseline.is_some() {
        println!("\n{}", table::ratios(&bench.rows, suite::OURS, suite::BASELINE));
    }
    measured?;
    anyhow::ensure!(met, "goals were missed");
    Ok(())
}

/// Measures the suites in turn; after an error, the rows so far remain.
async fn measure(bench: &mut Bench, suites: &[Suite], runs: u32) -> anyhow::Result<()> {
    for run in 1..=runs {
        bench.run = run;
        for suite in suites {
            eprintln!("run {run} of {runs}: {suite:?}");
            bench.run(*suite).await.with_context(|| format!("{suite:?}"))?;
        }
    }
    Ok(())
}
