//! The command `dev`. It runs a whole cluster in one process, from the set file that is embedded in the program.
//!
//! The command prints that the cluster is ready once every section is served, so that requests after this time succeed.
//! A new cluster gets a few series.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use seq_alloc::{AllocConfig, Allocator};
use seq_api::clock::Clock;
use seq_api::node_events::NodeEvents;
use seq_api::service::SequenceService;
use seq_channel::Dial;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::process;
use seq_command::set_file::{self, SetFile};
use seq_command::store_client::StoreClient;
use seq_command::version::revision;
use seq_core::set_spec::SetSpec;
use seq_kit::http::Checks;
use seq_kit::listen;
use seq_proto::settings::NodeSettings;
use seq_store::{DataDir, Store, StoreConfig};

use crate::member::start_failure;
use crate::serve::{Process, Stage, alloc_node, bind_one, events};
use crate::settings::{Loaded, Settings, SettingsArgs, table};

mod banner;
mod console;
mod load;
mod series;

use banner::Banner;
pub(crate) use series::SERIES;

/// Number of threads of the runtime in which the stores and the port for metrics and probes run.
const STORE_THREADS: usize = 2;

/// Interval at which the readiness is checked. It is short, because a cluster is ready about a second after its start.
const READY_POLL: Duration = Duration::from_millis(5);

/// Interval of the notices about failed checks while the cluster is not ready.
const WAIT_NOTICE: Duration = Duration::from_secs(10);

/// Timeout of requests to the store of a set that has just started. It allows for the time that the store's election
/// takes.
const STORE_TIMEOUT: Duration = Duration::from_secs(20);

/// Default log filter of a development cluster. It suppresses the log of the Raft library, which would report each
/// member of a store as lost to the others whenever all members stop together. The store itself logs the relevant
/// events.
const DEV_LOG_FILTER: &str = "warn,openraft=off";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr dev\n  seqsvr dev --data ./data\n  seqsvr dev --ports random -o json\n  \
                        seqsvr dev --sets 2\n  seqsvr dev --load 5k --chaos\n\n\
                        Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 wrong settings or data, 130 a \
                        second signal.")]
pub struct DevArgs {
    /// Directory of the data; without it, a temporary directory that is removed on exit.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of the first allocator's gRPC port.
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    grpc: Option<String>,
    /// Address of the first allocator's Redis port.
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    redis: Option<String>,
    /// Address of the port for metrics and probes.
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    http: Option<String>,
    /// Address of the port of the web console.
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    console: Option<String>,
    /// Ports of the cluster: the ports of its set file, or free ports that the system chooses.
    #[arg(long, value_enum, default_value_t = Ports::Fixed)]
    ports: Ports,
    /// Number of sets; 2 adds a set without sections, into which the first set can be split. The addresses above belong
    /// to the first set.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    sets: u8,
    /// Allocates so many numbers a second for users of the first set, as 5000 or 5k, so that the console has something
    /// to show.
    #[arg(long, value_name = "RATE", value_parser = load::rate)]
    load: Option<u32>,
    /// Drains allocators of the first set in turn and transfers the leadership of its store, every 20 seconds.
    #[arg(long)]
    chaos: bool,
    /// Serving threads of each allocator; 0: one for each core [key: alloc.cores, here 1]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Validates a listen address. If its port is 0, the system chooses the port.
pub(crate) fn listen_addr(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some(("", port)) if port.parse::<u16>().is_ok() => Err(format!(
            "the host is missing: 127.0.0.1:{port} is reachable from this machine only, 0.0.0.0:{port} from all machines"
        )),
        Some((_, port)) if port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("the address must have the form host:port".to_owned()),
    }
}

/// The choice of the ports of a development cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ports {
    Fixed,
    Random,
}

/// Name of a file in the data directory. It exists until all series of a new cluster have been created.
const WITHOUT_SERIES: &str = "without-series";

/// The data directory of a development cluster.
enum Data {
    /// A temporary directory, which is removed when this value is dropped.
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

pub fn run(args: &DevArgs, output: &Output) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let mut defaults = Settings::default();
    defaults.log.filter = DEV_LOG_FILTER.to_owned();
    defaults.threads.cores = 1;
    let loaded = args.settings.load(&defaults, |layers| layers.flag("--cores", "alloc.cores", args.cores))?;
    let Loaded { value: settings, keys, .. } = loaded;
    // All nodes run with the settings of the process.
    let reported = NodeSettings::new(table::rows(&keys));
    let files = [("sets/dev.toml", set_file::DEV), ("sets/dev-b.toml", set_file::DEV_B)];
    let sets = files.iter().take(usize::from(args.sets)).map(|(path, text)| set_file::parse(path.as_ref(), text));
    let sets = sets.collect::<Result<Vec<_>, _>>().map_err(|problems| set_file::failure(Exit::Config, &problems))?;
    if let Some(dir) = args.data.as_ref().filter(|dir| dir.exists() && !dir.is_dir()) {
        return Err(Failure::new(Exit::Usage, format!("--data {}: it is not a directory", dir.display())).into());
    }
    let data = match &args.data {
        Some(dir) => Data::Kept(dir.clone()),
        None => Data::Temporary(tempfile::Builder::new().prefix("seqsvr-dev-").tempdir()?),
    };

    let data_dir = match &data {
        Data::Kept(dir) => dir.as_path(),
        Data::Temporary(dir) => dir.path(),
    };
    let is = crate::serve::Banner { role: "dev", set: &sets[0].spec.name, node: "all", data: Some(data_dir) };
    let (mut process, recorder) = Process::new(settings.clone(), &is)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(STORE_THREADS).enable_all().build()?;
    let exit = runtime.block_on(async {
        process.watch_terminal()?;
        let sockets = Sockets::open(sets, args, &settings)?;
        let specs: Vec<&SetSpec> = sockets.sets.iter().map(|set| &set.spec).collect();
        // The console serves pages before the cluster is ready, and until the process ends.
        let pages = Stage::new("console");
        let listener = console::bind(args.console.as_deref(), args.ports == Ports::Random)?;
        let console = console::start(listener, &specs, pages.tasks())?;
        let mut banner = Banner::new(&specs, &settings.redis.prefix, (&sockets.http, console), &data)?;
        if !output.is_json() {
            warn_on_print_error(output.line(banner.title()));
        }
        let first = sockets.sets[0].spec.clone();
        let started_up = tokio::select! {
            started_up = start(sockets, &data, (&settings, &reported)) => started_up?,
            () = process.stop_requested() => return Ok(Exit::Ok),
        };
        let StartedUp { stages, checks, http, allocator } = started_up;
        stages.into_iter().chain([pages]).for_each(|stage| process.push(stage));
        process.open(http, None, recorder, checks.clone())?;
        tokio::select! {
            () = process.ending() => {}
            () = ready(&checks) => {
                banner.ready(started.elapsed(), process.leader(), &allocator.all_series());
                warn_on_print_error(if output.is_json() { output.json(&banner) } else { output.text(&banner.render()) });
                tokio::select! {
                    () = process.ending() => {}
                    () = make_alive(args, first) => {}
                }
            }
        }
        anyhow::Ok(process.shutdown().await)
    })?;
    runtime.shutdown_timeout(process.shutdown_timeout());
    process.join();
    if let Data::Temporary(dir) = data {
        dir.close().context("cannot remove the temporary data")?;
    }
    Ok(exit)
}

/// Runs the load and the operations that the arguments request. Never completes.
async fn make_alive(args: &DevArgs, spec: SetSpec) {
    let load = async {
        let Some(rate) = args.load else { return };
        if let Err(error) = load::run(spec.clone(), rate).await {
            note(format_args!("--load: {error:#}"));
        }
    };
    let operations = async {
        if args.chaos {
            load::operate(spec.clone()).await;
        }
    };
    futures::future::join(load, operations).await;
    std::future::pending().await
}

/// Logs an error of printing as a warning only, because such an error is normal: `seqsvr dev | head -1` closes stdout
/// after one line.
fn warn_on_print_error(printed: std::io::Result<()>) {
    if let Err(error) = printed {
        tracing::warn!(%error, "cannot print to stdout; the cluster runs on");
    }
}

/// All sockets of the cluster. They are bound before any node starts.
struct Sockets {
    sets: Vec<SetSockets>,
    http: listen::Sockets,
}

/// The sockets of one set, and the set's definition with the bound addresses.
struct SetSockets {
    spec: SetSpec,
    cluster: String,
    /// The sockets of each store, in the order of the set file.
    stores: Vec<StoreSockets>,
    allocs: Vec<alloc_node::Ports>,
}

/// The sockets of three ports of a store, in this order: the port for peers, the port for Raft, and the admin port.
type StoreSockets = (listen::Sockets, listen::Sockets, Option<listen::Sockets>);

impl Sockets {
    fn open(mut files: Vec<SetFile>, args: &DevArgs, settings: &Settings) -> anyhow::Result<Sockets> {
        let anywhere = || "127.0.0.1:0".to_owned();
        let is_random = args.ports == Ports::Random;
        let first = &mut files[0].spec.allocs[0];
        if is_random {
            first.http = anywhere();
        }
        first.http = args.http.clone().unwrap_or_else(|| first.http.clone());
        let http = bind_one(&first.http)?;
        first.http = http.local_addr()?.to_string();
        if is_random {
            for spec in files.iter_mut().map(|file| &mut file.spec) {
                for store in &mut spec.stores {
                    store.addr = anywhere();
                    store.raft = anywhere();
                    store.admin = Some(anywhere());
                }
                for alloc in &mut spec.allocs {
                    alloc.addr = anywhere();
                    alloc.peer = anywhere();
                    alloc.redis = alloc.redis.take().map(|_| anywhere());
                    alloc.redis_cluster = alloc.redis_cluster.take().map(|_| anywhere());
                }
            }
        }
        if settings.redis.keyspace.is_empty() {
            // Without a keyspace, the port would have no keys.
            files.iter_mut().flat_map(|file| &mut file.spec.allocs).for_each(|alloc| alloc.redis_cluster = None);
        }
        let first = &mut files[0].spec.allocs[0];
        first.addr = args.grpc.clone().unwrap_or_else(|| first.addr.clone());
        first.redis = args.redis.clone().or_else(|| first.redis.clone());
        let sets = files.into_iter().map(|file| SetSockets::open(file, settings)).collect::<anyhow::Result<_>>()?;
        Ok(Sockets { sets, http })
    }
}

impl SetSockets {
    fn open(file: SetFile, settings: &Settings) -> anyhow::Result<SetSockets> {
        let (cluster, mut spec) = (file.cluster(), file.spec);
        let mut stores = Vec::new();
        for store in &mut spec.stores {
            let listener = bind_one(&store.addr)?;
            store.addr = listener.local_addr()?.to_string();
            let raft = bind_one(&store.raft)?;
            store.raft = raft.local_addr()?.to_string();
            let admin = store.admin.as_deref().map(bind_one).transpose()?;
            store.admin = admin.as_ref().map(listen::Sockets::local_addr).transpose()?.map(|addr| addr.to_string());
            stores.push((listener, raft, admin));
        }
        let mut allocs = Vec::new();
        for alloc in &mut spec.allocs {
            let ports = alloc_node::Ports::of_alloc(alloc, None, settings.serving_threads(), settings)?;
            alloc.addr = ports.grpc[0].local_addr()?.to_string();
            alloc.peer = ports.peer_addr()?.expect("an AllocSvr has the port");
            alloc.redis = ports.redis_addr()?;
            alloc.redis_cluster = ports.redis_cluster_addr()?;
            allocs.push(ports);
        }
        Ok(SetSockets { spec, cluster, stores, allocs })
    }
}

/// A cluster whose nodes have started. They may not be ready yet.
struct StartedUp {
    /// The stages of the process, in the order in which they were started.
    stages: Vec<Stage>,
    /// Readiness of all nodes.
    checks: Checks,
    http: listen::Sockets,
    /// The first allocator of the first set.
    allocator: Allocator,
}

/// Starts every node of the cluster. Starts the allocators only after the stores of all sets are ready, which avoids
/// failed requests.
async fn start(
    sockets: Sockets,
    data: &Data,
    (settings, reported): (&Settings, &NodeSettings),
) -> anyhow::Result<StartedUp> {
    let Sockets { sets, http } = sockets;
    let (mut checks, mut stages) = (Checks::new(), Vec::new());
    // The stores form a new cluster if none of them has data. The file is removed only after the series are created, so
    // it still exists if the process ends before that.
    let without_series = data.path().join(WITHOUT_SERIES);
    if sets[0].spec.stores.iter().all(|store| !data.path().join(&store.name).exists()) {
        std::fs::create_dir_all(data.path())
            .and_then(|()| std::fs::write(&without_series, ""))
            .with_context(|| format!("cannot write {}", without_series.display()))?;
    }
    let (mut specs, mut ports): (Vec<SetSpec>, Vec<Vec<alloc_node::Ports>>) = (Vec::new(), Vec::new());
    let mut clusters = Vec::new();
    for SetSockets { spec, cluster, stores, allocs } in sets {
        stages.push(start_stores((&spec, &cluster), stores, data, (settings, reported), &mut checks).await?);
        // Every set after the first is created in the cluster of the first set, which exists by now.
        if let Some(first) = specs.first() {
            create_set(&spec, first).await?;
        }
        ready(&checks).await;
        if specs.is_empty() && without_series.exists() {
            series::create(&mut store_of(&spec)).await.context("cannot create the series of the cluster")?;
            std::fs::remove_file(&without_series)
                .with_context(|| format!("cannot remove {}", without_series.display()))?;
        }
        specs.push(spec);
        ports.push(allocs);
        clusters.push(cluster);
    }
    let sections = series::sections(&mut store_of(&specs[0])).await?;

    let (mut background, mut endpoints) = (Stage::new("allocators"), Stage::new("endpoints"));
    let mut allocators = Vec::new();
    let sets = specs.iter().zip(&clusters).zip(ports);
    let ports = sets.flat_map(|(set, ports)| set.0.allocs.iter().zip(ports).map(move |both| (set, both)));
    for ((spec, cluster), (alloc, ports)) in ports {
        let config = AllocConfig {
            spec: spec.clone(),
            name: alloc.name.clone(),
            advertise: alloc.addr.clone(),
            advertise_to_peers: Some(alloc.peer.clone()),
            replace: false,
            process: 0,
            options: settings.alloc,
            clock: Clock::System,
            events: NodeEvents::default(),
        };
        let allocator = alloc_node::start(
            (config, cluster),
            (ports, Dial::tcp()),
            (Checks::new(), reported.clone()),
            (&mut background, &mut endpoints),
            settings.shutdown.timeout,
        )
        .with_context(|| format!("allocator {} cannot start", alloc.name))?;
        let mut own = Checks::new();
        allocator.add_checks(&mut own);
        checks.add_all(&alloc.name, own);
        allocators.push(allocator);
    }
    let allocator = allocators[0].clone();
    // Sections are counted over all sets, because a split moves sections between sets.
    checks.add("served", move || {
        let served: u32 = allocators.iter().map(|allocator| allocator.status().sections).sum();
        if served >= sections { Ok(()) } else { Err(format!("{served} of {sections} sections are served")) }
    });
    stages.extend([background, endpoints]);
    Ok(StartedUp { stages, checks, http, allocator })
}

/// Defines the set `spec` in the cluster of the set `first`, unless the set is already defined by data from an earlier
/// start.
async fn create_set(spec: &SetSpec, first: &SetSpec) -> anyhow::Result<()> {
    let addrs = |spec: &SetSpec| spec.stores.iter().map(|store| store.addr.clone()).collect::<Vec<_>>();
    let mut store = store_of(spec);
    if store.sets().await?.is_none() {
        store.create_set(&spec.name, addrs(first)).await?;
    }
    Ok(())
}

/// Returns a client of the store of a set.
fn store_of(spec: &SetSpec) -> StoreClient {
    let admins: Vec<String> = spec.stores.iter().filter_map(|store| store.admin.clone()).collect();
    StoreClient::at("", &admins, STORE_TIMEOUT)
}

/// Starts the stores of a set concurrently, because a store without data connects to the other stores before its start
/// is complete.
async fn start_stores(
    (spec, cluster): (&SetSpec, &str),
    listeners: Vec<StoreSockets>,
    data: &Data,
    (settings, reported): (&Settings, &NodeSettings),
    checks: &mut Checks,
) -> anyhow::Result<Stage> {
    let mut stage = Stage::new("stores");
    let starting = spec.stores.iter().zip(listeners).map(|(store, (listener, raft, admin))| {
        let config = StoreConfig {
            spec: spec.clone(),
            cluster: cluster.to_owned(),
            id: store.id,
            data: DataDir::Path(data.path().join(&store.name)),
            join: false,
            // The data are for development only, so `dev` forms a new store if the directory of the old store no longer
            // exists.
            form: true,
            sockets: seq_store::Sockets {
                peers: listener.into(),
                raft: Some(raft.into()),
                admin: admin.map(Into::into),
            },
            options: settings.store.clone(),
            clock: Clock::System,
            revision: revision().to_owned(),
            cpu_us: process::cpu_us,
            settings: reported.clone(),
            events: NodeEvents::default(),
        };
        let tasks = stage.tasks().clone();
        events::tick(config.events.clone(), &tasks);
        async {
            Store::start_with(config, Dial::tcp(), tasks).await.map_err(|error| start_failure(&store.name, &error))
        }
    });
    let stores = futures::future::try_join_all(starting).await?;
    for (store, handle) in spec.stores.iter().zip(stores) {
        checks.add_all(&store.name, handle.readiness());
        stage.store(handle);
    }
    Ok(stage)
}

/// Waits until every check passes. Until then, prints the failed checks to stderr every [`WAIT_NOTICE`].
async fn ready(checks: &Checks) {
    let mut poll = tokio::time::interval(READY_POLL);
    let mut notice = tokio::time::interval_at(tokio::time::Instant::now() + WAIT_NOTICE, WAIT_NOTICE);
    loop {
        tokio::select! {
            _ = poll.tick() => {
                if checks.ask().is_ok() {
                    return;
                }
            }
            _ = notice.tick() => {
                for (check, reason) in checks.ask().err().into_iter().flatten() {
                    note(format_args!("waiting for {check}: {reason}"));
                }
            }
        }
    }
}

impl Data {
    fn path(&self) -> &std::path::Path {
        match self {
            Data::Temporary(dir) => dir.path(),
            Data::Kept(dir) => dir,
        }
    }
}
