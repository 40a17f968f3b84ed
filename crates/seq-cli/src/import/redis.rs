//! Reads the records of an import from Redis. The name of a key is a prefix followed by a uid, and its value is the
//! number of the user; or the whole key is a key of a keyspace, and its value is the number of the key. The keys are
//! read from one master, or from all masters of a Redis Cluster.
//!
//! A scan counts as complete only if no server has restarted or become a replica during the scan, and no slot of the
//! Redis Cluster has another master after it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, InfoDict, IntoConnectionInfo,
    RedisError, TlsCertificates, Value, cmd, pipe,
};
use seq_command::exit::{Exit, Failure};
use seq_command::output::grouped;

use super::contents::{Contents, Facts, Kind};
use super::keys;
use super::records::{Draft, MAX_RECORDS};

mod layout;

use layout::{Layout, Server};

/// Number of keys that one SCAN command examines and that are then read together. It is small enough not to delay other
/// clients of the Redis server.
const KEYS_AT_ONCE: usize = 1_000;

/// Arguments for TLS with rediss://, which are the authorities to trust and the certificate to present.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct TlsArgs {
    /// The authorities to trust for rediss://, as PEM; without the flag, the authorities of this machine.
    #[arg(long, value_name = "FILE")]
    from_ca: Option<PathBuf>,
    /// The certificate to present to a server of rediss:// that requires a certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "from_key")]
    from_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "from_cert")]
    from_key: Option<PathBuf>,
}

/// A Redis server or Redis Cluster at a URL, and the prefix of the keys to read from it.
#[derive(Debug)]
pub(super) struct RedisSource {
    /// The URL without user and password.
    shown: String,
    info: ConnectionInfo,
    tls: Option<TlsCertificates>,
    prefix: String,
    /// Whether the records are about whole keys, and not about uids behind the prefix.
    has_whole_keys: bool,
    timeout: Duration,
}

/// A connection to a server whose keys are read.
struct Link {
    addr: String,
    connection: MultiplexedConnection,
}

/// A scan of the keys of all servers.
struct Scan<'a> {
    draft: Draft,
    prefix: &'a str,
    /// Number of keys with the prefix that SCAN has returned.
    place: u64,
    /// Number of the keys in `place` that no longer existed when their values were read.
    gone: u64,
}

/// Returns the prefix in a pattern that consists of a prefix and `*`.
///
/// # Errors
/// The pattern does not have this form.
pub(super) fn prefix(pattern: &str) -> Result<String, String> {
    let prefix = pattern.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?', '[', ']', '\\']));
    prefix.map(str::to_owned).ok_or_else(|| "it must be a prefix and `*`, as seq:*".to_owned())
}

/// Returns the name of a source for messages, from which the user and the password in its URL are removed.
pub(super) fn shown(source: &str) -> String {
    let hidden = source.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)));
    hidden.map_or_else(|| source.to_owned(), |(scheme, host)| format!("{scheme}://{host}"))
}

impl RedisSource {
    /// Creates the source for a URL. Does not connect to the server yet.
    ///
    /// # Errors
    /// The URL is invalid, certificates are given for a URL without TLS, or a file with a certificate or key cannot be
    /// read.
    pub(super) fn new(
        url: &str,
        has_tls: bool,
        prefix: &str,
        has_whole_keys: bool,
        tls: &TlsArgs,
        timeout: Duration,
    ) -> Result<RedisSource, Failure> {
        let shown = shown(url);
        let info = url.into_connection_info().map_err(|error| usage(&shown, &error))?;
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|error| Failure::new(Exit::Usage, format!("{}: cannot be read: {error}", path.display())))
        };
        let TlsArgs { from_ca, from_cert, from_key } = tls;
        let root_cert = from_ca.as_deref().map(read).transpose()?;
        let client_tls = match (from_cert, from_key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
            _ => None,
        };
        if !has_tls && (root_cert.is_some() || client_tls.is_some()) {
            let what = format!("{shown}: certificates are given, but redis:// has no TLS");
            return Err(Failure::new(Exit::Usage, what).hint("write rediss://"));
        }
        let tls = has_tls.then_some(TlsCertificates { client_tls, root_cert });
        Ok(RedisSource { shown, info, tls, prefix: prefix.to_owned(), has_whole_keys, timeout })
    }

    /// Returns the name of the source in progress files. A repeated import recognises its source by this name.
    pub(super) fn identity(&self) -> String {
        format!("{} {}*", self.shown, self.prefix)
    }

    /// Reads all counters whose keys begin with the prefix. If a counter changes during the scan, its record has either
    /// the old or the new value.
    ///
    /// # Errors
    /// A server does not respond, refuses a command or changes its role during the scan, or keys of a Redis Cluster may
    /// be missing. Or no key begins with the prefix. Or, if `draft` does not skip invalid records, a key contains no
    /// uid or its value is not a number.
    pub(super) async fn read(&self, mut draft: Draft, bar: &ProgressBar) -> Result<Contents, Failure> {
        if self.has_whole_keys {
            draft.expect_keys();
        }
        let mut first = self.connect(self.info.addr().clone()).await?;
        let server = first.server().await?;
        let mut scan = Scan { draft, prefix: &self.prefix, place: 0, gone: 0 };
        let (kind, servers, keys) = if server.is_cluster {
            let (servers, keys) = self.read_cluster(first, &mut scan, bar).await?;
            (Kind::RedisCluster, servers, keys)
        } else {
            if let Some(master) = &server.master {
                let what = format!("{} is a replica of {master}, and may lack keys of its master", first.addr);
                let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
                return Err(Failure::new(Exit::Usage, what).hint(format!("--from {scheme}://{master}")));
            }
            scan.keys_of(&mut first, bar).await?;
            if first.server().await? != server {
                return Err(changed(&first.addr, "it restarted, or became a replica"));
            }
            (Kind::Redis, vec![first.addr.clone()], first.count().await?)
        };
        let Scan { mut draft, place, gone, .. } = scan;
        if place == gone {
            let what = if gone > 0 {
                format!("{}: all {} keys that match {:?} were gone", self.shown, grouped(gone), self.pattern())
            } else {
                format!("{}: no key matches {:?}", self.shown, self.pattern())
            };
            let hint = format!(
                "the database has {} keys: check --match 'PREFIX*', and the database /N behind the port",
                grouped(keys)
            );
            return Err(Failure::new(Exit::Usage, what).hint(hint));
        }
        // Duplicates are removed, because SCAN may return a key more than once.
        draft.keep_last();
        let records = draft.finish(|place| format!("key {place}"))?;
        let skipped = records.skipped();
        let found = records.list().len() as u64 + skipped + gone;
        Ok(Contents { records, facts: Facts { kind, servers, found, gone, skipped } })
    }

    fn pattern(&self) -> String {
        format!("{}*", self.prefix)
    }

    /// Reads all keys with the prefix from the masters of a Redis Cluster. Returns the addresses of the masters, and
    /// the number of all keys in their databases.
    async fn read_cluster(
        &self,
        mut first: Link,
        scan: &mut Scan<'_>,
        bar: &ProgressBar,
    ) -> Result<(Vec<String>, u64), Failure> {
        let layout = self.layout(&mut first).await?;
        let mut masters = Vec::new();
        for master in &layout.masters {
            let addr = match self.info.addr() {
                ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                    host: master.host.clone(),
                    port: master.port,
                    insecure: *insecure,
                    tls_params: tls_params.clone(),
                },
                _ => ConnectionAddr::Tcp(master.host.clone(), master.port),
            };
            masters.push(self.connect(addr).await?);
        }
        let mut servers = Vec::new();
        for link in &mut masters {
            servers.push(self.is_whole(link, &layout).await?);
        }
        for link in &mut masters {
            scan.keys_of(link, bar).await?;
        }
        let mut keys = 0;
        for (link, server) in masters.iter_mut().zip(&servers) {
            if self.is_whole(link, &layout).await? != *server {
                return Err(changed(&link.addr, "it restarted"));
            }
            keys += link.count().await?;
        }
        Ok((masters.into_iter().map(|link| link.addr).collect(), keys))
    }

    /// Checks that a server is a master, and that it reports the layout `layout` of its Redis Cluster.
    async fn is_whole(&self, link: &mut Link, layout: &Layout) -> Result<Server, Failure> {
        let server = link.server().await?;
        if server.master.is_some() {
            return Err(changed(&link.addr, "it became a replica"));
        }
        if !self.layout(link).await?.is_same(layout) {
            return Err(changed(&link.addr, "it states other masters for the slots"));
        }
        Ok(server)
    }

    async fn layout(&self, link: &mut Link) -> Result<Layout, Failure> {
        let nodes: String = link.query(cmd("CLUSTER").arg("NODES")).await?;
        let asked = link.addr.rsplit_once(':').map_or("", |(host, _)| host);
        layout::layout(&nodes, asked, self.tls.is_some())
            .map_err(|flaw| Failure::new(Exit::Unhealthy, format!("{}: {flaw}", link.addr)).hint("nothing was changed"))
    }

    async fn connect(&self, addr: ConnectionAddr) -> Result<Link, Failure> {
        let shown = addr.to_string();
        let info = self.info.clone().set_addr(addr);
        let client = match &self.tls {
            Some(tls) => Client::build_with_tls(info, tls.clone()),
            None => Client::open(info),
        };
        let client = client.map_err(|error| usage(&shown, &error))?;
        let (connecting, responding) = (Some(self.timeout), Some(self.timeout));
        let config = AsyncConnectionConfig::new().set_connection_timeout(connecting).set_response_timeout(responding);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let connection = connection.map_err(|error| failed(&format!("{scheme}://{shown}"), &error))?;
        Ok(Link { addr: shown, connection })
    }
}

impl Link {
    async fn query<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, Failure> {
        command.query_async(&mut self.connection).await.map_err(|error| failed(&self.addr, &error))
    }

    async fn server(&mut self) -> Result<Server, Failure> {
        let info: InfoDict = self.query(&cmd("INFO")).await?;
        layout::server(&info).map_err(|flaw| Failure::new(Exit::Usage, format!("{}: {flaw}", self.addr)))
    }

    /// Requests the number of all keys in the server's database, including keys without the prefix.
    async fn count(&mut self) -> Result<u64, Failure> {
        self.query(&cmd("DBSIZE")).await
    }
}

impl Scan<'_> {
    /// Reads all counters of one server.
    async fn keys_of(&mut self, link: &mut Link, bar: &ProgressBar) -> Result<(), Failure> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{}*", self.prefix)).arg("COUNT").arg(KEYS_AT_ONCE);
            let (next, keys): (String, Vec<Vec<u8>>) = link.query(&scan).await?;
            for keys in keys.chunks(KEYS_AT_ONCE) {
                // A separate GET is sent for each key. MGET would return the same for a missing key and for a key that
                // is no string, and would require all keys to be in one slot of a Redis Cluster.
                let mut reads = pipe();
                keys.iter().for_each(|key| {
                    reads.cmd("GET").arg(key);
                });
                let values: Vec<Result<Value, RedisError>> = reads
                    .ignore_errors()
                    .query_async(&mut link.connection)
                    .await
                    .map_err(|error| failed(&link.addr, &error))?;
                for (key, value) in keys.iter().zip(values) {
                    self.add(key, value).map_err(|error| failed(&link.addr, &error))?;
                }
            }
            bar.set_position(self.place);
            if self.draft.is_full() {
                let what = format!("{}: an import has {MAX_RECORDS} records at most", link.addr);
                return Err(Failure::new(Exit::Usage, what));
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Adds the record of the key `key`, or its flaw. `value` is the server's response to GET.
    ///
    /// # Errors
    /// The server could not read the key.
    fn add(&mut self, key: &[u8], value: Result<Value, RedisError>) -> Result<(), RedisError> {
        self.place += 1;
        let is_whole = self.draft.is_of_keys();
        let text = String::from_utf8_lossy(key);
        let uid = text.strip_prefix(self.prefix).unwrap_or_default();
        let at = if is_whole { Cow::Owned(keys::shown(key)) } else { Cow::Borrowed(&*text) };
        match value {
            // The key expired or was deleted after SCAN returned it.
            Ok(Value::Nil) => self.gone += 1,
            Ok(Value::BulkString(value)) if is_whole => {
                self.draft.add_key(self.place, at, key, &String::from_utf8_lossy(&value));
            }
            // Leading zeros are refused, because "07" and "7" would be different keys of the same uid.
            Ok(_) if !is_whole && uid.len() > 1 && uid.starts_with('0') => {
                self.draft.refuse(at, "the uid has a leading zero");
            }
            Ok(Value::BulkString(value)) => self.draft.add(self.place, at, uid, &String::from_utf8_lossy(&value)),
            Ok(other) => self.draft.refuse(at, format_args!("{other:?} is not a counter")),
            Err(error) if error.code() == Some("WRONGTYPE") => self.draft.refuse(at, "it is not a string"),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn usage(what: &str, error: &RedisError) -> Failure {
    Failure::new(Exit::Usage, format!("{what}: {error}"))
}

/// Returns the failure of the import if a server does not respond or refuses a command.
fn failed(what: &str, error: &RedisError) -> Failure {
    let failure = Failure::new(Exit::CannotConnect, format!("{what}: {error}"));
    match error.code() {
        _ if error.is_cluster_error() => failure.hint("the cluster changes: repeat the command"),
        Some("NOPERM") => {
            failure.hint("the user needs INFO, SCAN, GET, DBSIZE and, of a cluster, CLUSTER NODES, and the keys")
        }
        _ => failure,
    }
}

fn changed(addr: &str, how: &str) -> Failure {
    Failure::new(Exit::Unhealthy, format!("{addr}: {how} while it was read, so keys may be missing"))
        .hint("nothing was changed; repeat the command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_prefix() {
        assert_eq!(prefix("seq:*"), Ok("seq:".to_owned()));
        assert_eq!(prefix("*"), Ok(String::new()));
        for wrong in ["seq:", "s*q:*", "seq:[0-9]*", "seq:?*"] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_message_has_a_password() {
        let sources = ["redis://me:p@ss@h:1/2", "rediss://:x@h:1", "redis://h:1", "counters@home.csv"].map(shown);
        assert_eq!(sources, ["redis://h:1/2", "rediss://h:1", "redis://h:1", "counters@home.csv"]);
        let none = TlsArgs::default();
        let source =
            RedisSource::new("redis://me:pass@h:1/2", false, "seq:", false, &none, Duration::from_secs(1)).unwrap();
        assert_eq!(source.identity(), "redis://h:1/2 seq:*");
    }

    #[test]
    fn keys_that_are_no_counters_are_named_and_those_that_are_gone_are_counted() {
        let text = |text: &str| Ok(Value::BulkString(text.as_bytes().to_vec()));
        let mut scan = Scan { draft: Draft::default(), prefix: "seq:", place: 10, gone: 0 };
        let wrong = redis::make_extension_error("WRONGTYPE".to_owned(), None);
        let values = [text("5"), text("1"), text("1"), text("-1"), Ok(Value::Nil), Err(wrong)];
        for (key, value) in ["seq:1", "seq:x", "seq:07", "seq:8", "seq:9", "seq:list"].into_iter().zip(values) {
            scan.add(key.as_bytes(), value).unwrap();
        }
        assert_eq!((scan.place, scan.gone), (16, 1));
        assert_eq!(
            scan.draft.finish(|place| format!("key {place}")).unwrap_err().to_string(),
            "seq:x: uid \"x\" is not a number\nseq:07: the uid has a leading zero\nseq:8: value -1 is negative\n\
             seq:list: it is not a string"
        );
        let mut scan = Scan { draft: Draft::default(), prefix: "seq:", place: 0, gone: 0 };
        let moved = redis::make_extension_error("ASK".to_owned(), None);
        assert!(scan.add(b"seq:1", Err(moved)).is_err(), "the key is on another server");
    }

    #[test]
    fn whole_keys_are_any_bytes() {
        let text = |text: &str| Ok(Value::BulkString(text.as_bytes().to_vec()));
        let mut draft = Draft::default();
        draft.expect_keys();
        let mut scan = Scan { draft, prefix: "", place: 0, gone: 0 };
        let wrong = redis::make_extension_error("WRONGTYPE".to_owned(), None);
        let keys: [&[u8]; 6] = [b"07", b"a\n\xff", b"a b", b"gone", b"list", &[b'x'; 513]];
        for (key, value) in
            keys.into_iter().zip([text("5"), text("1.5"), text(" 1"), Ok(Value::Nil), Err(wrong), text("1")])
        {
            scan.add(key, value).unwrap();
        }
        assert_eq!((scan.place, scan.gone), (6, 1));
        let refused = scan.draft.finish(|place| format!("key {place}")).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!(
                "b\"a\\n\\xff\": value \"1.5\" is not a number\n\"a b\": value \" 1\" is not a number\n\"list\": it is not a string\n\
                 \"{}\"...: the key has 513 bytes: a key has 1 to 512",
                "x".repeat(64)
            )
        );
    }
}
