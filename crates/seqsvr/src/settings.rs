//! Settings of a server process: log, timeouts, intervals. From a file, the environment and flags.
//!
//! A set file describes a cluster and is the same everywhere; settings describe one process.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use seq_alloc::AllocOptions;
use seq_core::AdvanceLimit;
use seq_gateway::resp::RespConfig;
use seq_kit::config::{Layers, Loaded};
use seq_kit::cores;
use seq_kit::telemetry::{self, LogFormat};
use seq_store::StoreOptions;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::output;

/// Prefix of the environment variables that set keys.
const PREFIX: &str = "SEQSVR_";

/// Limit on serving threads: many times the cores of large machines, and a fraction of the open-file limit.
const MAX_CORES: usize = 1_024;

/// Variables with the prefix that are not settings keys: those of the command line and of the project's tests.
const RESERVED_VARIABLES: [&str; 5] =
    ["SEQSVR_ADDR", "SEQSVR_OUTPUT", "SEQSVR_CONFIG", "SEQSVR_E2E_KILLS", "SEQSVR_E2E_TRACE"];

/// A settings file with every key at its default, with comments.
pub(crate) const SAMPLE: &str = include_str!("settings/sample.toml");

/// The settings of a server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) log: LogSettings,
    pub(crate) shutdown: ShutdownSettings,
    pub(crate) store: StoreSettings,
    pub(crate) alloc: AllocSettings,
    pub(crate) redis: RedisSettings,
    pub(crate) http: HttpSettings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HttpSettings {
    /// Whether GET requests may allocate numbers.
    pub(crate) get_takes: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RedisSettings {
    pub(crate) prefix: String,
    /// Empty: none.
    pub(crate) password: String,
    /// 0: never.
    pub(crate) idle_s: u64,
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RedisSettings { prefix, password: _, idle_s } = self;
        f.debug_struct("RedisSettings").field("prefix", prefix).field("idle_s", idle_s).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogSettings {
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShutdownSettings {
    pub(crate) patience_ms: u64,
}

/// The network between the members of a store; selects the defaults of all timeouts that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// One region.
    Lan,
    /// Round trips of up to half a second between members.
    Wan,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreSettings {
    pub(crate) preset: Preset,
    pub(crate) heartbeat_ms: u64,
    pub(crate) election_min_ms: u64,
    pub(crate) election_max_ms: u64,
    pub(crate) commit_timeout_ms: u64,
    pub(crate) snapshot_timeout_ms: u64,
    pub(crate) snapshot_every: u64,
    pub(crate) log_kept: u64,
    pub(crate) registration_grace_ms: u64,
    pub(crate) lease_wait_ms: u64,
    pub(crate) rebalance_after_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllocSettings {
    pub(crate) cores: usize,
    pub(crate) lease_ms: u64,
    pub(crate) lease_margin_ms: u64,
    pub(crate) renew_every_ms: u64,
    pub(crate) claim_every_ms: u64,
    pub(crate) store_timeout_ms: u64,
    pub(crate) retry_min_ms: u64,
    pub(crate) retry_max_ms: u64,
    pub(crate) raise_batch: usize,
    pub(crate) raises_in_flight: usize,
    pub(crate) connections: usize,
    pub(crate) max_advance: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        let (store, alloc, redis) = (StoreOptions::DEFAULTS, AllocOptions::DEFAULTS, RespConfig::defaults());
        Settings {
            log: LogSettings { filter: "info,openraft=warn".to_owned(), format: LogFormat::Plain },
            shutdown: ShutdownSettings { patience_ms: 10_000 },
            store: StoreSettings::of(Preset::Lan, &store),
            alloc: AllocSettings {
                cores: 0,
                lease_ms: to_ms(alloc.lease),
                lease_margin_ms: to_ms(alloc.lease_margin),
                renew_every_ms: to_ms(alloc.renew_every),
                claim_every_ms: to_ms(alloc.claim_every),
                store_timeout_ms: to_ms(alloc.store_timeout),
                retry_min_ms: to_ms(alloc.retry_min),
                retry_max_ms: to_ms(alloc.retry_max),
                raise_batch: alloc.raise_batch,
                raises_in_flight: alloc.raises_in_flight,
                connections: alloc.connections,
                max_advance: alloc.max_advance.0,
            },
            redis: RedisSettings {
                prefix: redis.prefix,
                password: redis.password.unwrap_or_default(),
                idle_s: redis.idle.unwrap_or_default().as_secs(),
            },
            http: HttpSettings { get_takes: false },
        }
    }
}

impl StoreSettings {
    fn of(preset: Preset, store: &StoreOptions) -> StoreSettings {
        StoreSettings {
            preset,
            heartbeat_ms: to_ms(store.heartbeat),
            election_min_ms: to_ms(store.election_min),
            election_max_ms: to_ms(store.election_max),
            commit_timeout_ms: to_ms(store.commit_timeout),
            snapshot_timeout_ms: to_ms(store.snapshot_timeout),
            snapshot_every: store.snapshot_every,
            log_kept: store.log_kept,
            registration_grace_ms: to_ms(store.registration_grace),
            lease_wait_ms: to_ms(store.lease_wait),
            rebalance_after_ms: to_ms(store.rebalance_after),
        }
    }
}

impl Settings {
    /// These settings with timeouts for distant members, and leases that outlast their elections.
    fn wan(self) -> Settings {
        Settings {
            store: StoreSettings::of(Preset::Wan, &StoreOptions::WAN),
            alloc: AllocSettings {
                lease_ms: 8_000,
                lease_margin_ms: 200,
                renew_every_ms: 1_500,
                claim_every_ms: 250,
                store_timeout_ms: 2_500,
                retry_min_ms: 100,
                retry_max_ms: 1_000,
                ..self.alloc
            },
            ..self
        }
    }

    /// Bound on an orderly shutdown; tasks that still run then are logged and abandoned.
    pub(crate) fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.shutdown.patience_ms)
    }

    pub(crate) fn store_options(&self) -> StoreOptions {
        let StoreSettings { snapshot_every, log_kept, .. } = self.store;
        StoreOptions {
            heartbeat: Duration::from_millis(self.store.heartbeat_ms),
            election_min: Duration::from_millis(self.store.election_min_ms),
            election_max: Duration::from_millis(self.store.election_max_ms),
            commit_timeout: Duration::from_millis(self.store.commit_timeout_ms),
            snapshot_timeout: Duration::from_millis(self.store.snapshot_timeout_ms),
            snapshot_every,
            log_kept,
            registration_grace: Duration::from_millis(self.store.registration_grace_ms),
            lease_wait: Duration::from_millis(self.store.lease_wait_ms),
            rebalance_after: Duration::from_millis(self.store.rebalance_after_ms),
        }
    }

    pub(crate) fn alloc_options(&self) -> AllocOptions {
        let AllocSettings { raise_batch, raises_in_flight, connections, .. } = self.alloc;
        AllocOptions {
            lease: Duration::from_millis(self.alloc.lease_ms),
            lease_margin: Duration::from_millis(self.alloc.lease_margin_ms),
            renew_every: Duration::from_millis(self.alloc.renew_every_ms),
            claim_every: Duration::from_millis(self.alloc.claim_every_ms),
            store_timeout: Duration::from_millis(self.alloc.store_timeout_ms),
            retry_min: Duration::from_millis(self.alloc.retry_min_ms),
            retry_max: Duration::from_millis(self.alloc.retry_max_ms),
            raise_batch,
            raises_in_flight,
            connections,
            max_advance: AdvanceLimit(self.alloc.max_advance),
        }
    }

    /// Whether Redis clients must authenticate.
    pub(crate) fn has_password(&self) -> bool {
        !self.redis.password.is_empty()
    }

    /// The configuration of the Redis endpoint.
    pub(crate) fn resp_config(&self) -> RespConfig {
        let RedisSettings { prefix, password, idle_s } = self.redis.clone();
        let idle = (idle_s > 0).then(|| Duration::from_secs(idle_s));
        RespConfig { prefix, password: (!password.is_empty()).then_some(password), idle }
    }

    /// Serving threads of one allocator.
    pub(crate) fn serving_threads(&self) -> usize {
        if self.alloc.cores == 0 { cores::available() } else { self.alloc.cores }
    }

    /// Checks constraints beyond the types of the keys.
    fn validate(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.alloc.cores <= MAX_CORES, "alloc.cores: {} is more than {MAX_CORES}", self.alloc.cores);
        telemetry::check_filter(&self.log.filter).context("log.filter")?;
        self.store_options().validate().context("store")?;
        self.alloc_options().validate().context("alloc")?;
        self.resp_config().validate().context("redis")?;
        Ok(())
    }
}

/// The flags shared by all server commands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingsArgs {
    /// Settings file; `seqsvr config sample` prints one.
    #[arg(long, value_name = "FILE", env = "SEQSVR_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// What to log, as in "info,seq_store=debug" [key: log.filter]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_filter: Option<String>,
    /// How log lines look on stderr: plain or json [key: log.format]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

impl SettingsArgs {
    /// Merges file, environment and flags over `defaults`, with the flags that a command adds, and validates the
    /// result. A wrong setting ends the process before any socket opens.
    pub(crate) fn load(
        &self,
        defaults: &Settings,
        more: impl FnOnce(Layers) -> Result<Layers, seq_kit::config::ConfigError>,
    ) -> Result<Loaded<Settings>, Failure> {
        let layers = || -> anyhow::Result<Loaded<Settings>> {
            let mut layers = Layers::new(defaults);
            if let Some(path) = &self.config {
                layers = layers.file(path)?;
            }
            let layers = layers
                .environment(PREFIX, is_foreign, variables())?
                .flag("--log-filter", "log.filter", self.log_filter.as_ref())?
                .flag("--log-format", "log.format", self.log_format.as_ref())?;
            let mut layers = more(layers)?;
            if layers.peek("store.preset") == Some(Preset::Wan) {
                layers = layers.on_defaults(&defaults.clone().wan());
            }
            let loaded: Loaded<Settings> = layers.load()?;
            loaded.value.validate()?;
            Ok(loaded)
        };
        let loaded = layers().map_err(|error| Failure::new(Exit::Config, format!("{error:#}")))?;
        for warning in &loaded.warnings {
            output::note(format_args!("{} {warning}", output::heading("warning:", output::Color::Yellow)));
        }
        Ok(loaded)
    }
}

/// The environment variables that are UTF-8: no key has another name or takes another value.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Whether a variable with the prefix is no settings key: it belongs to another part of the program, or Kubernetes sets
/// it in every pod of a namespace with a Service named `seqsvr` or `seqsvr-...`.
fn is_foreign(variable: &str, value: &str) -> bool {
    RESERVED_VARIABLES.contains(&variable)
        || variable.strip_prefix(PREFIX).is_some_and(|name| is_kubernetes_service(name, value))
}

/// Whether a name, without the prefix, is a Kubernetes Service variable. Those of a Service `seqsvr` begin with
/// `SERVICE_` or `PORT`; those of `seqsvr-alloc` have `ALLOC_` before that. A name that only ends with `_PORT` matches
/// only with a URL as its value, such as `tcp://10.0.0.1:7100`: anything else may be a misspelt key.
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

fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("defaults are short")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seq_kit::config::Origin;

    use super::*;

    #[test]
    fn the_sample_sets_every_key_to_its_default() {
        let loaded: Loaded<Settings> =
            Layers::new(&Settings::default()).text(Path::new("sample.toml"), SAMPLE).unwrap().load().unwrap();
        assert_eq!(loaded.value, Settings::default());
        for key in &loaded.keys {
            assert_ne!(key.origin, Origin::Default, "{} is not in the sample", key.name);
        }
        loaded.value.validate().unwrap();
        assert_eq!(loaded.value.store_options(), StoreOptions::DEFAULTS);
        assert_eq!(loaded.value.alloc_options(), AllocOptions::DEFAULTS);
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
        // No settings key matches, so none can be ignored by mistake.
        for key in Layers::new(&Settings::default()).load::<Settings>().unwrap().keys {
            let name = key.name.replace('.', "_").to_uppercase();
            assert!(!is_kubernetes_service(&name, "tcp://x"), "{name}");
        }
    }

    #[test]
    fn the_preset_chooses_the_times_that_are_not_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wan.toml");
        std::fs::write(&path, "[store]\npreset = \"wan\"\nlog_kept = 7\nheartbeat_ms = 650\n").unwrap();
        let args = SettingsArgs { config: Some(path), ..SettingsArgs::default() };
        let settings = args.load(&Settings::default(), Ok).unwrap().value;
        let expected = StoreOptions { log_kept: 7, heartbeat: Duration::from_millis(650), ..StoreOptions::WAN };
        assert_eq!(settings.store_options(), expected);
        let alloc = settings.alloc_options();
        assert_eq!(alloc.validate(), Ok(()));
        // The store refuses a lease that could outlast its wait.
        assert!(settings.store_options().lease_wait.as_millis() * 89 >= alloc.lease.as_millis() * 111);
        let written = SettingsArgs::default().load(&Settings::default(), Ok).unwrap().value;
        assert_eq!(written.store_options(), StoreOptions::DEFAULTS);
    }
}
