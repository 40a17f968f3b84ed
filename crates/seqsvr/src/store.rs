//! The command `store`: one member of a set's store, as a process of its own.

use std::path::PathBuf;

use clap::Args;
use seq_store::storage::DataDir;
use seq_store::{StartError, Store, StoreConfig};

use crate::exit::{Exit, Failure};
use crate::serve::{Process, Stage, bind_one};
use crate::set_file;
use crate::settings::{Settings, SettingsArgs};
use crate::target::Chain;
use crate::version::REVISION;

/// Threads of the runtime: one can wait for the disk of others while the other answers heartbeats.
const THREADS: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1")]
pub(crate) struct StoreArgs {
    /// The set file.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Which of the set's stores this process is.
    #[arg(long, value_name = "N")]
    id: u64,
    /// Directory of this member's data; it belongs to this id for good.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(crate) fn run(args: StoreArgs) -> anyhow::Result<Exit> {
    let settings = args.settings.load(&Settings::default(), Ok)?.value;
    let set = set_file::load_for_server(&args.set)?;
    let Some(spec) = set.spec.stores.iter().find(|store| store.id == args.id) else {
        let known: Vec<String> = set.spec.stores.iter().map(|store| store.id.to_string()).collect();
        let message = format!("{}: set {} has no store with id {}", args.set.display(), set.spec.name, args.id);
        return Err(Failure::new(Exit::Config, message).hint(format!("it has {}", known.join(", "))).into());
    };
    let (name, addr, http) = (spec.name.clone(), spec.addr.clone(), spec.http.clone());
    let tuning = settings.store_tuning();

    let (mut process, recorder) = Process::new(settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let exit = runtime.block_on(async {
        let (listener, http) = (bind_one(&addr)?, bind_one(&http)?);
        process.watch_signals()?;
        let config = StoreConfig {
            cluster: set.cluster(),
            spec: set.spec,
            id: args.id,
            data: DataDir::Path(args.data),
            listener: listener.into(),
            tuning,
            revision: REVISION.to_owned(),
        };
        let mut stage = Stage::new("store");
        let handle = Store::start(config, stage.tasks().clone()).await.map_err(|error| start_failure(&name, &error))?;
        let checks = handle.readiness();
        stage.store(handle);
        process.push(stage);
        tracing::info!(name, grpc = addr, http = %http.local_addr()?, "serving");
        process.open(http, recorder, checks)?;
        process.ending().await;
        anyhow::Ok(process.shutdown().await)
    })?;
    runtime.shutdown_timeout(process.patience());
    process.join();
    Ok(exit)
}

/// What cannot be cured by starting again ends with the code that says so.
pub(crate) fn start_failure(name: &str, error: &StartError) -> Failure {
    let exit = match error {
        StartError::Listen(_) | StartError::Raft { .. } => Exit::Failed,
        _ => Exit::Config,
    };
    Failure::new(exit, format!("store {name} cannot start: {}", Chain(error)))
}
