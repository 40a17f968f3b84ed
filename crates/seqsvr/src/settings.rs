//! What a server process is told besides its set: log, patience, paces. From a file, the environment and flags.
//!
//! Set files say what a cluster is and are the same everywhere; settings say how one process runs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use seq_alloc::AllocTuning;
use seq_core::AdvanceLimit;
use seq_gateway::resp::RespConfig;
use seq_kit::config::{Layers, Loaded};
use seq_kit::cores;
use seq_kit::telemetry::{self, LogFormat};
use seq_store::StoreTuning;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};

/// Prefix of the environment variables that set keys.
const PREFIX: &str = "SEQSVR_";

/// Variables with the prefix that are no keys: the command line's, and those of the project's tests.
const OTHERS: [&str; 5] = ["SEQSVR_ADDR", "SEQSVR_OUTPUT", "SEQSVR_CONFIG", "SEQSVR_E2E_KILLS", "SEQSVR_E2E_TRACE"];

/// A settings file with every key at its default, and what it means.
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
    /// Whether a GET takes numbers, too.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreSettings {
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
        let (store, alloc, redis) = (StoreTuning::DEFAULTS, AllocTuning::DEFAULTS, RespConfig::defaults());
        Settings {
            log: LogSettings { filter: "info,openraft=warn".to_owned(), format: LogFormat::Plain },
            shutdown: ShutdownSettings { patience_ms: 10_000 },
            store: StoreSettings {
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
            },
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

impl Settings {
    /// How long a shutdown may take before what hangs is named and left.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.shutdown.patience_ms)
    }

    pub(crate) fn store_tuning(&self) -> StoreTuning {
        let StoreSettings { snapshot_every, log_kept, .. } = self.store;
        StoreTuning {
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

    pub(crate) fn alloc_tuning(&self) -> AllocTuning {
        let AllocSettings { raise_batch, raises_in_flight, connections, .. } = self.alloc;
        AllocTuning {
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

    /// Whether clients of Redis must say a password.
    pub(crate) fn has_password(&self) -> bool {
        !self.redis.password.is_empty()
    }

    /// What a port for clients of Redis is told.
    pub(crate) fn resp_config(&self) -> RespConfig {
        let RedisSettings { prefix, password, idle_s } = self.redis.clone();
        let idle = (idle_s > 0).then(|| Duration::from_secs(idle_s));
        RespConfig { prefix, password: (!password.is_empty()).then_some(password), idle }
    }

    /// Threads that serve, of one allocator.
    pub(crate) fn serving_threads(&self) -> usize {
        if self.alloc.cores == 0 { cores::available() } else { self.alloc.cores }
    }

    /// Checks what the keys' types cannot say.
    fn validate(&self) -> anyhow::Result<()> {
        telemetry::check_filter(&self.log.filter).context("log.filter")?;
        self.store_tuning().validate().context("store")?;
        self.alloc_tuning().validate().context("alloc")?;
        self.resp_config().validate().context("redis")?;
        Ok(())
    }
}

/// The flags that every server command shares.
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
    /// Lays file, environment and flags over `defaults`, with the flags a command adds, and checks the outcome. A wrong
    /// setting ends the process before any socket opens.
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
                .environment(PREFIX, &OTHERS, std::env::vars())?
                .flag("--log-filter", "log.filter", self.log_filter.as_ref())?
                .flag("--log-format", "log.format", self.log_format.as_ref())?;
            let loaded: Loaded<Settings> = more(layers)?.load()?;
            loaded.value.validate()?;
            Ok(loaded)
        };
        layers().map_err(|error| Failure::new(Exit::Config, format!("{error:#}")))
    }
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
        for (key, _, origin) in &loaded.keys {
            assert_ne!(*origin, Origin::Default, "{key} is not in the sample");
        }
        loaded.value.validate().unwrap();
        assert_eq!(loaded.value.store_tuning(), StoreTuning::DEFAULTS);
        assert_eq!(loaded.value.alloc_tuning(), AllocTuning::DEFAULTS);
    }
}
