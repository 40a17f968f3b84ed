//! The command `store`, which runs one member of a set's store as a separate process.

use std::path::PathBuf;

use clap::Args;
use seq_api::clock::Clock;
use seq_api::metrics::unfinished_dropped;
use seq_auth::Role;
use seq_command::exit::{Exit, Failure};
use seq_command::process;
use seq_command::set_file::SetFile;
use seq_command::version::revision;
use seq_command::{security, set_file, signals};
use seq_core::set_spec::{SetSpec, StoreSpec};
use seq_kit::connection::Listener;
use seq_kit::unfinished::{CALLERS, FEW, Unfinished};
use seq_load::outcome::Chain;
use seq_proto::settings::NodeSettings;
use seq_store::{DataDir, RaftStartError, Sockets, StartError, Store, StoreConfig};

use crate::serve::reload::{LiveSet, Reload};
use crate::serve::{Banner, Process, Stage, bind_one, events};
use crate::settings::{Loaded, Settings, SettingsArgs, of_node, table};

/// Number of threads of the runtime. With two, one thread can respond to heartbeats while the other is blocked by the
/// disk.
const THREADS: usize = 2;

/// Arguments of a member. The required arguments are optional in the type, because a subcommand replaces them.
#[derive(Debug, Args)]
pub struct MemberArgs {
    /// The set file.
    #[arg(long, value_name = "FILE", required = true)]
    set: Option<PathBuf>,
    /// Id of this store in the set file.
    #[arg(long, value_name = "N", required = true)]
    id: Option<u64>,
    /// Directory of this member's data; it belongs permanently to this id.
    #[arg(long, value_name = "DIR", required = true)]
    data: Option<PathBuf>,
    /// Waits until `store add` or `store replace` makes it a member; never forms a new store.
    #[arg(long)]
    join: bool,
    /// Forms a new store from an empty directory, unless another store of the set already has data.
    #[arg(long, conflicts_with = "join")]
    form: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub fn run(args: MemberArgs) -> anyhow::Result<Exit> {
    let (Some(file), Some(id), Some(data)) = (args.set, args.id, args.data) else {
        return Err(Failure::new(Exit::Usage, "name --set, --id and --data".to_owned()).into());
    };
    let load = move || args.settings.load(&Settings::default(), Ok);
    let Loaded { value: settings, keys, .. } = load()?;
    let set = set_file::load_for_server(&file)?;
    let spec = entry(&set, id)?;
    let (at, name) = (spec.listening(), spec.name.clone());
    let (options, running) = (settings.store.clone(), set.spec.clone());
    let credentials = security::of_node(&set, Role::Store, &name)?;
    let reported = NodeSettings::new(table::rows(&keys).into_iter().chain(of_node::of_store(&set, id, &data)));

    let (mut process, recorder) =
        Process::new(settings, &Banner { role: "store", set: &set.spec.name, node: &name, data: Some(&data) })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let exit = runtime.block_on(async {
        let (listener, http) = (bind_one(&at.addr)?, bind_one(&at.http)?);
        let raft = bind_one(&at.raft)?;
        let admin = at.admin.as_deref().map(bind_one).transpose()?;
        let events = process.events();
        let tls = security::certified(credentials.as_ref(), &name, &events);
        let known: Vec<_> = set.spec.ips().collect();
        let unfinished = |most| Unfinished::new(most, known.iter().copied(), unfinished_dropped(&name));
        process.watch_signals()?;
        let hangups = signals::hangups()?;
        let config = StoreConfig {
            cluster: set.cluster(),
            spec: set.spec,
            id,
            data: DataDir::Path(data),
            sockets: Sockets {
                peers: Listener::socket(listener, tls.clone()).of_port(&unfinished(CALLERS)),
                raft: Some(Listener::socket(raft, tls.clone()).of_port(&unfinished(FEW))),
                admin: admin.map(|admin| Listener::socket(admin, tls).of_port(&unfinished(FEW))),
            },
            join: args.join,
            form: args.form,
            options,
            clock: Clock::System,
            revision:revision().to_owned(),
            cpu_us: process::cpu_us,
            settings: reported.clone(),
            events: events.clone(),
        };
        let mut stage = Stage::new("store");
        events::tick(events, stage.tasks());
        let dial = process.secure(credentials.as_ref(), &name);
        let handle = Store::start_with(config, dial, stage.tasks().clone())
            .await
            .map_err(|error| start_failure(&name, &error))?;
        let (checks, removal) = (handle.readiness(), handle.removal());
        let declare = handle.declarer();
        let live = LiveSet {
            path: file,
            running,
            // The names and weights of the allocators are applied while the store runs. The other keys of the
            // allocators do not concern a store.
            fixed: Box::new(|set| SetSpec { step: 1, allocs: Vec::new(), ..set.clone() }),
            apply: Box::new(move |set| declare(&set.allocs)),
        };
        process.reload_at(hangups, Reload { running: keys, load: Box::new(load), set: Some(live), reported });
        stage.store(handle);
        process.push(stage);
        tracing::info!(name, peers = at.addr, raft = at.raft, admin = at.admin, http = %http.local_addr()?, "listening");
        process.open(http, credentials.as_ref(), recorder, checks)?;
        process.ending().await;
        let exit = process.shutdown().await;
        anyhow::Ok(if removal() && exit == Exit::Ok { Exit::Removed } else { exit })
    })?;
    runtime.shutdown_timeout(process.shutdown_timeout());
    process.join();
    Ok(exit)
}

/// Returns the entry of the store with this id in a set file.
fn entry(set: &SetFile, id: u64) -> Result<&StoreSpec, Failure> {
    set.spec.stores.iter().find(|store| store.id == id).ok_or_else(|| {
        let known: Vec<String> = set.spec.stores.iter().map(|store| store.id.to_string()).collect();
        let message = format!("{}: set {} has no store with id {}", set.path.display(), set.spec.name, id);
        Failure::new(Exit::Config, message).hint(format!("it has {}", known.join(", ")))
    })
}

/// Converts an error of starting a member to a failure with an exit code. Errors that a restart cannot remove have
/// separate exit codes.
pub(crate) fn start_failure(name: &str, error: &StartError) -> Failure {
    let exit = match error {
        StartError::Raft(RaftStartError::Removed { .. }) => Exit::Removed,
        StartError::Listen(_) | StartError::Raft(RaftStartError::Raft { .. }) => Exit::Failed,
        // The supervisor restarts the member until there is space on the disk.
        StartError::Raft(RaftStartError::Storage(error)) if error.may_pass() => Exit::Failed,
        _ => Exit::Config,
    };
    Failure::new(exit, format!("store {name} cannot start: {}", Chain(error)))
}
