//! Settings of a server process, for example of its log, its timeouts and its intervals. They are read from a file,
//! environment variables and flags.
//!
//! They are separate from the set file, which describes a set and is the same on all its hosts. Settings describe one
//! process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use seq_alloc::AllocOptions;
use seq_command::exit::{Exit, Failure};
use seq_command::{environment, output, set_file};
use seq_gateway::resp::RespConfig;
use seq_kit::config::{self, ConfigError, Key, Layers, Origin, Section, durations};
use seq_kit::proxy_protocol::Networks;
use seq_kit::telemetry::{self, LogFormat, traces};
use seq_kit::{cores, options};
use seq_store::StoreOptions;
use seq_tenant::TenantSpec;
use serde::{Deserialize, Serialize};

use crate::tenant;

pub(crate) mod of_node;
pub(crate) mod table;

/// Prefix of the environment variables that set keys.
const PREFIX: &str = "SEQSVR_";

/// Limit on the number of serving threads. It is many times the number of cores of large machines, and a fraction of
/// the limit on open files.
const MAX_CORES: usize = 1_024;

/// Environment variables that have the prefix but belong to no settings key, because they are for the command line,
/// for the server of a guard, or for the project's tests.
const RESERVED_VARIABLES: [&str; 11] = [
    "SEQSVR_ADDR",
    "SEQSVR_SET",
    "SEQSVR_OUTPUT",
    "SEQSVR_CONFIG",
    "SEQSVR_CERTS",
    "SEQSVR_IDENTITY",
    "SEQSVR_TOKEN",
    "SEQSVR_GUARD",
    "SEQSVR_IMPORT_FROM",
    "SEQSVR_E2E_KILLS",
    "SEQSVR_E2E_TRACE",
];

/// Longest allowed `shutdown.delay_ms`. If a longer time were set by mistake, every supervisor would kill the node
/// during this time.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// The first lines of a sample settings file.
const SAMPLE_HEAD: &str = "\
# Settings of one seqsvr server process: every key with its default.
# A key can also be set by an environment variable (log.filter: SEQSVR_LOG_FILTER) and, where there is one, by a flag.
# Flags override the environment, which overrides the file; `seqsvr config show --origin` shows the source of each key.
";

/// The settings of a server process. Each field has the options of one part of the process and is a section of the
/// settings file. Only the sections `store` and `alloc` consist of two fields each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) log: LogOptions,
    pub(crate) shutdown: ShutdownOptions,
    /// Options of the network, in section `store`.
    pub(crate) network: NetworkOptions,
    pub(crate) store: StoreOptions,
    /// Options of the serving threads, in section `alloc`.
    pub(crate) threads: ThreadOptions,
    pub(crate) alloc: AllocOptions,
    pub(crate) redis: RespConfig,
    pub(crate) http: HttpOptions,
    pub(crate) proxy_protocol: ProxyProtocolOptions,
    pub(crate) tenants: TenantOptions,
    pub(crate) limits: LimitOptions,
    pub(crate) traces: TraceOptions,
}

options! {
    /// Logging.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct LogOptions {
        /// Log filter by level and target. At level info the Raft library logs every step.
        pub(crate) filter: String,
        /// Format of log lines: plain (text) or json (one object a line).
        pub(crate) format: LogFormat,
    }
}

options! {
    /// The orderly shutdown.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct ShutdownOptions {
        /// Timeout of an orderly shutdown; tasks that still run then are logged and abandoned.
        #[serde(rename = "timeout_ms", with = "durations::ms")]
        pub(crate) timeout: Duration,
        /// Time for which an AllocSvr or a proxy serves on after SIGTERM, not ready, before the rest of its shutdown. A
        /// load balancer needs the interval of its checks times the failures that it waits for, and a second to act. A
        /// node waits only if its readiness was probed three times in the last minute; otherwise it leaves at once.
        #[serde(rename = "delay_ms", with = "durations::ms")]
        pub(crate) delay: Duration,
    }
}

/// Kind of the network between the members of a store. It selects the defaults of all timeouts that depend on the
/// network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// Network within one region.
    Lan,
    /// Network with round trips of up to half a second between members.
    Wan,
}

options! {
    /// The network.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct NetworkOptions {
        /// The network between the members: "lan" (one region; round trips of up to 90 ms between members) or "wan" (up
        /// to 540 ms). "wan" changes the defaults of this section's times (heartbeat 600, election 2_000 to 3_000,
        /// commit 15_000, snapshot 180_000, registration_grace 10_000, lease_wait 10_000, rebalance_after 30_000) and
        /// of [alloc] (lease 8_000, margin 200, renew_interval 1_500, min_renew_interval 250, store_timeout 2_500,
        /// retry 100 to 1_000). Use the same preset on all nodes of a set.
        pub(crate) preset: Preset,
    }
}

options! {
    /// The serving threads of an allocator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct ThreadOptions {
        /// Serving threads, each with its own runtime and listener; 0: one for each core.
        pub(crate) cores: usize,
    }
}

options! {
    /// JSON and text over HTTP.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct HttpOptions {
        /// Whether GET /api/seq/next/{uid} allocates numbers as POST does, and /api/id/next/{name} and the paths of
        /// Leaf take ids. Browsers prefetch GETs, crawlers follow them, and proxies repeat them. A GET that a browser
        /// sends for another site is refused in either case.
        pub(crate) allocate_on_get: bool,
    }
}

options! {
    /// The PROXY protocol, version 2.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct ProxyProtocolOptions {
        /// Load balancers whose headers of version 2 are trusted at the ports for callers and for Redis: addresses and
        /// networks, as in "10.0.0.5, 10.1.0.0/16". The client addresses in these headers count for limits and logs.
        /// Headers from other addresses are refused. A connection without a header counts with its own address.
        pub(crate) from: String,
    }
}

impl ProxyProtocolOptions {
    /// Returns the networks of the load balancers.
    pub(crate) fn networks(&self) -> anyhow::Result<Networks> {
        self.from.parse().context("proxy_protocol.from")
    }
}

options! {
    /// The limits of a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct LimitOptions {
        /// Memory that requests and their unread responses may hold, in MiB. A connection may hold a part of the free
        /// memory, up to a 44th of the total. A request that does not fit is refused with OUT_OF_MEMORY.
        pub(crate) memory_mib: u32,
        /// Whether a crash may leave a core dump, and processes of the same user may attach a debugger. Either exposes
        /// the keys of the node and the numbers of its users.
        pub(crate) core_dumps: bool,
    }
}

/// Lowest allowed memory for requests, in MiB. One connection can get a 44th of it, into which the largest batch fits.
pub(crate) const MIN_MEMORY_MIB: u32 = 128;

impl LimitOptions {
    /// Returns the memory for requests in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.memory_mib as usize) << 20
    }
}

options! {
    /// Tenants.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct TenantOptions {
        /// Path of the tenants file, which has the tokens, uids, series and quotas of each tenant (docs/security.md).
        /// The file is read again when it changes. If this setting is empty, there are no tenants, and every holder of
        /// a client's certificate may use every uid, without quotas.
        pub(crate) file: String,
    }
}

impl TenantOptions {
    /// Returns the path of the tenants file, if there are tenants.
    pub(crate) fn path(&self) -> Option<&Path> {
        Some(self.file.as_str()).filter(|file| !file.is_empty()).map(Path::new)
    }

    /// Reads the tenants file, if there are tenants.
    pub(crate) fn load(&self) -> anyhow::Result<Option<Vec<TenantSpec>>> {
        let tenants = self.path().map(tenant::load).transpose();
        tenants.map_err(|problems| anyhow::Error::msg(set_file::lines(&problems)))
    }
}

options! {
    /// Traces.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct TraceOptions {
        /// Collector of traces that takes OTLP over gRPC without TLS, as in "http://127.0.0.1:4317". Spans of raises,
        /// renewals, changes of owner and migrations are exported to it, and of requests whose header traceparent
        /// states that their caller records its trace. They have names of nodes and sets, addresses and sections, and
        /// no uid and no number. Empty: nothing is recorded.
        pub(crate) endpoint: String,
        /// One in `one_in` of the raises, renewals, handovers and steps of migrations is traced; 1: each. Changes of
        /// owner by the store, and work that fails or takes a second, are always traced.
        pub(crate) one_in: u32,
    }
}

/// Settings of a process, with the origin of each key.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) value: Settings,
    /// Every key, in the order of the sample settings file.
    pub(crate) keys: Vec<Key>,
    /// Environment variables that have the prefix but match no key.
    pub(crate) warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            log: LogOptions { filter: "info,openraft=warn".to_owned(), format: LogFormat::Plain },
            shutdown: ShutdownOptions { timeout: Duration::from_secs(10), delay: Duration::from_secs(5) },
            network: NetworkOptions { preset: Preset::Lan },
            store: StoreOptions::DEFAULTS,
            threads: ThreadOptions { cores: 0 },
            alloc: AllocOptions::DEFAULTS,
            redis: RespConfig::defaults(),
            http: HttpOptions { allocate_on_get: false },
            proxy_protocol: ProxyProtocolOptions { from: String::new() },
            tenants: TenantOptions { file: String::new() },
            limits: LimitOptions { memory_mib: 256, core_dumps: false },
            traces: TraceOptions { endpoint: String::new(), one_in: 10 },
        }
    }
}

impl Settings {
    /// Returns these settings with timeouts for members that are far apart, and with leases that last longer than the
    /// elections of such members.
    fn wan(self) -> Settings {
        Settings {
            network: NetworkOptions { preset: Preset::Wan },
            store: StoreOptions::WAN,
            alloc: AllocOptions {
                lease: Duration::from_millis(8_000),
                lease_margin: Duration::from_millis(200),
                renew_interval: Duration::from_millis(1_500),
                min_renew_interval: Duration::from_millis(250),
                store_timeout: Duration::from_millis(2_500),
                retry_min: Duration::from_millis(100),
                retry_max: Duration::from_millis(1_000),
                ..self.alloc
            },
            ..self
        }
    }

    /// Returns the keys of these settings with their values as defaults, in the order of the sample settings file.
    /// [`Settings::read`] is the inverse function.
    pub(crate) fn sections(&self) -> [Section; 12] {
        [
            Section::new("log", &self.log),
            Section::new("shutdown", &self.shutdown),
            Section::new("store", &self.network),
            Section::new("store", &self.store),
            Section::new("alloc", &self.threads),
            Section::new("alloc", &self.alloc),
            Section::new("redis", &self.redis),
            Section::new("http", &self.http),
            Section::new("proxy_protocol", &self.proxy_protocol),
            Section::new("tenants", &self.tenants),
            Section::new("limits", &self.limits),
            Section::new("traces", &self.traces),
        ]
    }

    fn read(layers: &Layers) -> Result<Settings, ConfigError> {
        Ok(Settings {
            log: layers.read("log")?,
            shutdown: layers.read("shutdown")?,
            network: layers.read("store")?,
            store: layers.read("store")?,
            threads: layers.read("alloc")?,
            alloc: layers.read("alloc")?,
            redis: layers.read("redis")?,
            http: layers.read("http")?,
            proxy_protocol: layers.read("proxy_protocol")?,
            tenants: layers.read("tenants")?,
            limits: layers.read("limits")?,
            traces: layers.read("traces")?,
        })
    }

    /// Returns the number of serving threads of one allocator.
    pub(crate) fn serving_threads(&self) -> usize {
        if self.threads.cores == 0 { cores::available() } else { self.threads.cores }
    }

    /// Checks that a node with tenants has TLS, because without TLS neither tokens nor forwarded requests are safe.
    pub(crate) fn check_secure(&self, secure: bool) -> Result<(), Failure> {
        if secure || self.tenants.path().is_none() {
            return Ok(());
        }
        Err(Failure::new(Exit::Config, "tenants.file: tenants need TLS, and this node has none")
            .hint("remove plaintext"))
    }

    /// Checks those constraints on the settings that the types of the keys do not express.
    fn validate(&self) -> anyhow::Result<()> {
        let cores = self.threads.cores;
        anyhow::ensure!(cores <= MAX_CORES, "alloc.cores: {cores} is more than {MAX_CORES}");
        telemetry::check_filter(&self.log.filter).context("log.filter")?;
        self.store.validate().context("store")?;
        self.alloc.validate().context("alloc")?;
        self.redis.validate().context("redis")?;
        self.proxy_protocol.networks()?;
        self.tenants.load().context("tenants.file")?;
        let delay = self.shutdown.delay;
        anyhow::ensure!(
            delay <= MAX_DELAY,
            "shutdown.delay_ms: {} is more than {}",
            delay.as_millis(),
            MAX_DELAY.as_millis()
        );
        let mib = self.limits.memory_mib;
        anyhow::ensure!(mib >= MIN_MEMORY_MIB, "limits.memory_mib: {mib} is less than {MIN_MEMORY_MIB}");
        let TraceOptions { endpoint, one_in } = &self.traces;
        if !endpoint.is_empty() {
            traces::check_endpoint(endpoint).context("traces.endpoint")?;
        }
        anyhow::ensure!(*one_in > 0, "traces.one_in: 0 is less than 1; an empty traces.endpoint turns traces off");
        let both = self.redis.password.is_some() && self.tenants.path().is_some();
        anyhow::ensure!(!both, "redis.password: clients send the token of a tenant where tenants.file is set");
        Ok(())
    }
}

/// Returns the text of a settings file with the default and the help of every key.
pub(crate) fn sample() -> String {
    format!("{SAMPLE_HEAD}{}", config::sample(&Settings::default().sections()))
}

/// The flags shared by all server commands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingsArgs {
    /// Settings file; `seqsvr config sample` prints one.
    #[arg(long, value_name = "FILE", env = "SEQSVR_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Log filter, as in "info,seq_store=debug" [key: log.filter]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_filter: Option<String>,
    /// Format of log lines on stderr: plain or json [key: log.format]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

impl SettingsArgs {
    /// Merges the settings file, the environment and the flags over `defaults`, and validates the result. `more` adds
    /// the flags of the command. If a setting is wrong, the process ends before it opens any socket.
    pub(crate) fn load(
        &self,
        defaults: &Settings,
        more: impl FnOnce(Layers) -> Result<Layers, ConfigError>,
    ) -> Result<Loaded, Failure> {
        let load = || -> anyhow::Result<Loaded> {
            let mut layers = Layers::new(&defaults.sections());
            if let Some(path) = &self.config {
                layers = layers.file(path)?;
            }
            let layers = layers
                .environment(PREFIX, is_foreign, environment::utf8_variables())?
                .flag("--log-filter", "log.filter", self.log_filter.as_ref())?
                .flag("--log-format", "log.format", self.log_format.as_ref())?;
            let mut layers = more(layers)?;
            let NetworkOptions { preset } = layers.read("store")?;
            if preset == Preset::Wan {
                layers = layers.on_defaults(&defaults.clone().wan().sections());
            }
            let value = Settings::read(&layers)?;
            value.validate().map_err(|error| anyhow::anyhow!(with_origins(&format!("{error:#}"), &layers.keys())))?;
            Ok(Loaded { value, keys: layers.keys(), warnings: layers.warnings() })
        };
        let loaded = load().map_err(|error| Failure::new(Exit::Config, format!("{error:#}")))?;
        for warning in &loaded.warnings {
            output::note(format_args!("{} {warning}", output::heading("warning:", output::Color::Yellow)));
        }
        Ok(loaded)
    }
}

/// Returns the text of an error about settings, for example `alloc: lease ...`, with the origin of each key that the
/// text names and that does not have its default.
fn with_origins(error: &str, keys: &[Key]) -> String {
    let words: Vec<&str> = error
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .collect();
    let section = words.first().copied().unwrap_or_default();
    let is_named = |key: &Key| {
        let field = key.name.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
        // The text names the key of a duration without the unit at its end.
        let short = field.map(|field| field.trim_end_matches("_ms"));
        words.iter().any(|word| *word == key.name || Some(*word) == field || Some(*word) == short)
    };
    let set: Vec<String> = keys
        .iter()
        .filter(|key| key.origin != Origin::Default && is_named(key))
        .map(|key| format!("{} is set by {}", key.name, key.origin))
        .collect();
    if set.is_empty() { error.to_owned() } else { format!("{error} ({})", set.join(", ")) }
}

/// Returns whether an environment variable with the prefix is not meant as a settings key. This is so if it belongs to
/// another part of the program, or if Kubernetes sets it in every pod of a namespace that has a Service named `seqsvr`
/// or `seqsvr-...`.
fn is_foreign(variable: &str, value: &str) -> bool {
    RESERVED_VARIABLES.contains(&variable)
        || variable.strip_prefix(PREFIX).is_some_and(|name| is_kubernetes_service(name, value))
}

/// Returns whether `name`, a variable's name without the prefix, is a name that Kubernetes uses for a Service. The
/// variables for a Service `seqsvr` begin with `SERVICE_` or `PORT`. The variables for a Service `seqsvr-alloc` begin
/// with `ALLOC_` and continue in the same way. A name that only ends with `_PORT` is accepted only if its value is a
/// URL, for example `tcp://10.0.0.1:7100`, because otherwise it may be a misspelt key.
fn is_kubernetes_service(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    (0..words.len()).any(|at| match &words[at..] {
        ["SERVICE", ..] | ["PORT", ..] if at == 0 => true,
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        ["PORT"] => value.contains("://"),
        ["PORT", number, "TCP" | "UDP" | "SCTP", ..] => is_number(number),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_sample_sets_every_key_to_its_default() {
        let sample = sample();
        expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.toml")].assert_eq(&sample);
        let layers = Layers::new(&Settings::default().sections()).text(Path::new("sample.toml"), &sample).unwrap();
        for key in layers.keys() {
            assert_ne!(key.origin, Origin::Default, "{} is not in the sample", key.name);
        }
        let settings = Settings::read(&layers).unwrap();
        assert_eq!(settings, Settings::default());
        settings.validate().unwrap();
    }

    #[test]
    fn service_variables_of_kubernetes_are_distinguished_from_misspelt_keys() {
        let tcp = "tcp://10.0.0.1:7100";
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT", "7100"),
            ("SERVICE_PORT_GRPC", "7100"),
            ("PORT", tcp),
            ("PORT_7100_TCP", tcp),
            ("PORT_7100_TCP_PROTO", "tcp"),
            ("PORT_7100_TCP_ADDR", "10.0.0.1"),
            ("ALLOC_SERVICE_HOST", "10.0.0.1"),
            ("ALLOC_SERVICE_PORT_REDIS", "7179"),
            ("ALLOC_A_PORT", tcp),
            ("STORE_HEADLESS_PORT_7300_TCP_PORT", "7300"),
        ] {
            assert!(is_kubernetes_service(name, value), "{name}");
        }
        for (name, value) in [
            ("ALLOC_PORT", "7100"),
            ("LOG_FILTR", "debug"),
            ("ALLOC_CORE", "2"),
            ("STORE_PORT_X_TCP", "1"),
            ("STORE_SERVICE", "x"),
            ("", ""),
        ] {
            assert!(!is_kubernetes_service(name, value), "{name}");
        }
        // None of these variables has the name of a settings key, so no key is ignored by mistake.
        for key in Layers::new(&Settings::default().sections()).keys() {
            let name = key.name.replace('.', "_").to_uppercase();
            assert!(!is_kubernetes_service(&name, "tcp://x"), "{name}");
        }
    }

    #[test]
    fn an_error_of_a_relation_names_the_origin_of_its_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        let failure = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let args = SettingsArgs { config: Some(path.clone()), ..SettingsArgs::default() };
            args.load(&Settings::default(), Ok).unwrap_err().to_string()
        };
        let text = failure("[log]\nformat = \"json\"\n[alloc]\nretry_min_ms = 9000\nrenew_interval_ms = 300\n");
        let origin = format!("(alloc.retry_min_ms is set by {}:4)", path.display());
        assert!(text.starts_with("alloc: retry_min") && text.ends_with(&origin), "{text}");
        let text = failure("[alloc]\ncores = 99999\n");
        assert!(text.ends_with(&format!("(alloc.cores is set by {}:2)", path.display())), "{text}");
    }

    #[test]
    fn the_preset_chooses_the_times_that_are_not_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wan.toml");
        std::fs::write(&path, "[store]\npreset = \"wan\"\nlog_retained_entries = 7\nheartbeat_ms = 650\n").unwrap();
        let args = SettingsArgs { config: Some(path), ..SettingsArgs::default() };
        let settings = args.load(&Settings::default(), Ok).unwrap().value;
        let expected =
            StoreOptions { log_retained_entries: 7, heartbeat: Duration::from_millis(650), ..StoreOptions::WAN };
        assert_eq!(settings.store, expected);
        let alloc = settings.alloc;
        assert_eq!(alloc.validate(), Ok(()));
        // The store refuses a lease that could last longer than the store's wait.
        assert!(settings.store.lease_wait.as_millis() * 89 >= alloc.lease.as_millis() * 111);
        let written = SettingsArgs::default().load(&Settings::default(), Ok).unwrap().value;
        assert_eq!(written.store, StoreOptions::DEFAULTS);
    }
}
