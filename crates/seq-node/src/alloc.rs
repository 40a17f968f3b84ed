//! The command `alloc`, which runs one AllocSvr of a set as a separate process.

use std::path::PathBuf;

use clap::Args;
use futures::future::join_all;
use seq_alloc::{AllocConfig, Allocator};
use seq_api::clock::Clock;
use seq_auth::Role;
use seq_command::exit::{Exit, Failure};
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

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr alloc --set sets/three-node.toml --name a1\n\n\
                        Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file or settings, 66 \
                        another process has the same name, 130 a second signal.")]
pub struct AllocArgs {
    /// The set file.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Name of this allocator in the set file.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Replaces a live process with the same name at another address; that process exits.
    #[arg(long)]
    replace: bool,
    /// Serving threads; 0: one for each core [key: alloc.cores]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub fn run(args: &AllocArgs) -> anyhow::Result<Exit> {
    let (settings_args, cores) = (args.settings.clone(), args.cores);
    let load = move || settings_args.load(&Settings::default(), |layers| layers.flag("--cores", "alloc.cores", cores));
    let Loaded { value: settings, keys, .. } = load()?;
    let set = set_file::load_for_server(&args.set)?;
    let Some(spec) = set.spec.allocs.iter().find(|alloc| alloc.name == args.name) else {
        let known: Vec<&str> = set.spec.allocs.iter().map(|alloc| alloc.name.as_str()).collect();
        let message = format!("{}: set {} has no allocator {:?}", args.set.display(), set.spec.name, args.name);
        return Err(Failure::new(Exit::Config, message).hint(format!("it has {}", known.join(", "))).into());
    };
    let spec = spec.clone();
    let credentials = security::of_node(&set, Role::Alloc, &args.name)?;
    settings.check_secure(credentials.is_some())?;
    if credentials.is_none() {
        seq_command::client_runtime()?.block_on(refuse_tls(&set))?;
    }
    let reported = NodeSettings::new(table::rows(&keys).into_iter().chain(of_node::of_alloc(&set, &args.name)));
    let (set_name, running) = (set.spec.name.clone(), set.spec.clone());
    let (mut process, recorder) =
        Process::new(settings.clone(), &Banner { role: "alloc", set: &set_name, node: &args.name, data: None })?;
    let config = AllocConfig {
        name: args.name.clone(),
        advertise: spec.addr.clone(),
        advertise_to_peers: Some(spec.peer.clone()),
        replace: args.replace,
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
        let dial = process.secure(credentials.as_ref(), &args.name);
        let (events, tenants) = (process.events(), process.tenants(&args.name)?);
        let ports = ports.secured(credentials.as_ref(), (&args.name, &events), tenants);
        process.watch_signals()?;
        let hangups = signals::hangups()?;
        let (mut background, mut endpoints) = (Stage::new("allocator"), Stage::new("endpoints"));
        let mut checks = process.checks();
        let stages = (&mut background, &mut endpoints);
        let view = (checks.clone(), reported.clone());
        let allocator = alloc_node::start(config, (ports, dial), view, stages, process.shutdown_timeout())?;
        allocator.add_checks(&mut checks);
        let set = live_set(args, running, allocator.clone());
        process.reload_at(hangups, Reload { running: keys, load: Box::new(load), set: Some(set), reported });
        process.push(background);
        process.push(endpoints);
        tracing::info!(name = args.name, grpc = at.addr, peers = at.peer, redis = at.redis, http = %http.local_addr()?, threads, "listening");
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
fn live_set(args: &AllocArgs, running: SetSpec, allocator: Allocator) -> LiveSet {
    let name = args.name.clone();
    LiveSet {
        path: args.set.clone(),
        running,
        fixed: Box::new(move |set| {
            let own = set.allocs.iter().filter(|alloc| alloc.name == name);
            let allocs = own.map(|own| AllocSpec { weight: 1, ..own.clone() }).collect();
            SetSpec { step: 1, allocs, ..set.clone() }
        }),
        apply: Box::new(move |set| allocator.set_step(Step(set.step))),
    }
}
