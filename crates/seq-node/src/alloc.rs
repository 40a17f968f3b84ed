//! The command `alloc`, which runs one AllocSvr of a set as a separate process, or reports the death of such a process.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use futures::future::join_all;
use seq_alloc::{AllocConfig, Allocator};
use seq_api::clock::Clock;
use seq_auth::Role;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::set_file::SetFile;
use seq_command::{port_kind, security, set_file, signals};
use seq_core::Step;
use seq_core::set_spec::{AllocSpec, SetSpec};
use seq_proto::settings::NodeSettings;

use crate::serve::alloc_node;
use crate::serve::alloc_node::Ports;
use crate::serve::reload::{LiveSet, Reload};
use crate::serve::{Banner, Process, Stage, bind_one};
use crate::settings::{Loaded, Settings, SettingsArgs, of_node, table};

mod died;
mod guard;
mod process_number;

/// Arguments of the command. The required arguments are optional in the type, because a subcommand replaces them.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  seqsvr alloc --set sets/three-node.toml --name a1\n  \
                        seqsvr alloc died --set sets/three-node.toml --name a1\n\n\
                        Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file or settings, 66 \
                        another process has the same name, 130 a second signal."
)]
pub struct AllocArgs {
    #[command(subcommand)]
    command: Option<AllocCommand>,
    /// The set file.
    #[arg(long, value_name = "FILE", required = true)]
    set: Option<PathBuf>,
    /// Name of this allocator in the set file.
    #[arg(long, value_name = "NAME", required = true)]
    name: Option<String>,
    /// Replaces a live process with the same name at another address; that process exits.
    #[arg(long)]
    replace: bool,
    /// Serving threads; 0: one for each core [key: alloc.cores]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Runs the allocator as a child process and reports its death to the store, for containers.
    #[arg(long)]
    guard: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Subcommand)]
enum AllocCommand {
    /// Reports that the process of an allocator has ended, so that its sections get other owners at once.
    Died(died::DiedArgs),
}

impl AllocArgs {
    /// Returns whether the command runs an AllocSvr, instead of reporting the death of one.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.command.is_none()
    }
}

pub fn run(args: &AllocArgs, output: &Output) -> anyhow::Result<Exit> {
    if let Some(AllocCommand::Died(args)) = &args.command {
        return died::run(args, output);
    }
    let (Some(file), Some(name)) = (&args.set, &args.name) else {
        return Err(Failure::new(Exit::Usage, "name --set and --name".to_owned()).into());
    };
    if args.guard {
        return guard::run(file, name);
    }
    serve(args, file, name)
}

fn serve(args: &AllocArgs, file: &Path, name: &str) -> anyhow::Result<Exit> {
    let (settings_args, cores) = (args.settings.clone(), args.cores);
    let load = move || settings_args.load(&Settings::default(), |layers| layers.flag("--cores", "alloc.cores", cores));
    let Loaded { value: settings, keys, .. } = load()?;
    let set = set_file::load_for_server(file)?;
    let Some(spec) = set.spec.allocs.iter().find(|alloc| alloc.name == name) else {
        let known: Vec<&str> = set.spec.allocs.iter().map(|alloc| alloc.name.as_str()).collect();
        let message = format!("{}: set {} has no allocator {name:?}", file.display(), set.spec.name);
        return Err(Failure::new(Exit::Config, message).hint(format!("it has {}", known.join(", "))).into());
    };
    let (spec, cluster) = (spec.clone(), set.cluster());
    alloc_node::check_redis_cluster(&spec, &settings)?;
    let credentials = security::of_node(&set, Role::Alloc, name)?;
    settings.check_secure(credentials.is_some())?;
    if credentials.is_none() {
        seq_command::client_runtime()?.block_on(refuse_tls(&set))?;
    }
    let reported = NodeSettings::new(table::rows(&keys).into_iter().chain(of_node::of_alloc(&set, name)));
    let (set_name, running) = (set.spec.name.clone(), set.spec.clone());
    let (mut process, recorder) =
        Process::new(settings.clone(), &Banner { role: "alloc", set: &set_name, node: name, data: None })?;
    let config = AllocConfig {
        name: name.to_owned(),
        advertise: spec.addr.clone(),
        advertise_to_peers: Some(spec.peer.clone()),
        replace: args.replace,
        process: process_number::of_this_process()?,
        options: settings.alloc,
        spec: set.spec,
        clock: Clock::System,
        events: process.events(),
    };
    let threads = settings.serving_threads();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        let (at, http) = (spec.listening(), bind_one(&spec.listening().http)?);
        let ports = Ports::of_alloc(&spec, credentials.as_ref(), threads, &settings)?;
        let dial = process.secure(credentials.as_ref(), name);
        let (events, tenants) = (process.events(), process.tenants(name)?);
        let ports = ports.secured(credentials.as_ref(), (name, &events), tenants);
        process.watch_signals()?;
        let hangups = signals::hangups()?;
        let (mut background, mut endpoints) = (Stage::new("allocator"), Stage::new("endpoints"));
        let mut checks = process.checks();
        let stages = (&mut background, &mut endpoints);
        let view = (checks.clone(), reported.clone());
        let allocator = alloc_node::start((config, &cluster), (ports, dial), view, stages, process.shutdown_timeout())?;
        allocator.add_checks(&mut checks);
        let set = live_set((file, name), running, allocator.clone());
        process.reload_at(hangups, Reload { running: keys, load: Box::new(load), set: Some(set), reported });
        process.push(background);
        process.push(endpoints);
        tracing::info!(name, grpc = at.addr, peers = at.peer, redis = at.redis, redis_cluster = at.redis_cluster, http = %http.local_addr()?, threads, "listening");
        process.open(http, credentials.as_ref(), recorder, checks)?;
        process.ending().await;
        process.serve_on().await;
        anyhow::Ok(process.shutdown().await)
    })?;
    process.join();
    Ok(exit)
}

/// Fails if this process has no TLS but a store of the set has TLS, because every registration would then fail with an
/// error of the transport. Does not wait for stores that do not respond.
async fn refuse_tls(set: &SetFile) -> Result<(), Failure> {
    let asked = set
        .spec
        .stores
        .iter()
        .map(|store| async move { (port_kind::speaks_tls(&store.addr).await == Some(true)).then_some(store) });
    let Some(store) = join_all(asked).await.into_iter().flatten().next() else { return Ok(()) };
    let file = set.path.display();
    let message = format!("{file} has plaintext = true, and store {} at {} has TLS", store.name, store.addr);
    Err(Failure::new(Exit::Config, message).hint("use the set file of the stores: all nodes of a set are alike"))
}

/// Returns the object with which a running allocator reloads its set file. A changed step is applied without a restart.
/// The entries of other allocators are ignored.
fn live_set((file, name): (&Path, &str), running: SetSpec, allocator: Allocator) -> LiveSet {
    let name = name.to_owned();
    LiveSet {
        path: file.to_owned(),
        running,
        fixed: Box::new(move |set| {
            let own = set.allocs.iter().filter(|alloc| alloc.name == name);
            let allocs = own.map(|own| AllocSpec { weight: 1, ..own.clone() }).collect();
            SetSpec { step: 1, allocs, ..set.clone() }
        }),
        apply: Box::new(move |set| allocator.set_step(Step(set.step))),
    }
}
