//! Reads the text of a set file, and returns a spec and all flaws of the text. If a value has a flaw, the spec has the
//! default of the value's type instead, e.g. 0 or an empty text.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use seq_core::limits;
use seq_core::set_spec::{AllocListen, AllocSpec, Genesis, SetSpec, StoreListen, StoreSpec};
use seq_kit::config::fields::{Fields, Reader};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Offsets that are added to the port of `addr` for ports that the file does not state. `FOR_NODES` is for the Raft
/// port or the port for peers, `HTTP` for the port for metrics and probes, `OPTIONAL` for the admin port or the Redis
/// port, and `CLUSTER` for the port for clients of Redis Cluster.
const FOR_NODES: u16 = 1;
const HTTP: u16 = 2;
const OPTIONAL: u16 = 3;
const CLUSTER: u16 = 4;

/// Maximum number of stores whose definitions are read from a file. A valid set has fewer. If a file contains more
/// stores than this, they are only counted.
const MAX_STORES: usize = 16;

/// The content of a file.
pub(super) struct Content {
    /// The set, with its nodes in the order of the file.
    pub(super) spec: SetSpec,
    pub(super) cluster: Option<String>,
    pub(super) plaintext: bool,
    pub(super) plaintext_on_network: bool,
    /// Numbers of the store and alloc entries in the file. If there are far too many entries of one kind, the spec
    /// contains none of them.
    pub(super) counts: Counts,
    /// Keys of addresses that were computed from `addr`.
    pub(super) followed: BTreeSet<String>,
    pub(super) reader: Reader,
}

/// Numbers of the nodes of a file.
pub(super) struct Counts {
    pub(super) stores: usize,
    pub(super) allocs: usize,
}

/// Reads the text of a set file.
pub(super) fn content(text: &str) -> Content {
    let (mut reader, mut fields) = Reader::parse(text);
    let reader = &mut reader;
    let mut followed = BTreeSet::new();
    let name = fields.required("name", reader).unwrap_or_default();
    let cluster: Option<String> = fields.optional("cluster", reader);
    let genesis = genesis(&mut fields, cluster.is_some(), reader);
    let uids = uids(&mut fields, reader);
    let section_size = fields.required("section_size", reader).unwrap_or_default();
    let step = fields.required("step", reader).unwrap_or_default();
    let plaintext = fields.optional("plaintext", reader).unwrap_or_default();
    let plaintext_on_network = fields.optional("plaintext_on_network", reader).unwrap_or_default();
    let (stores, allocs) = (fields.tables("store", reader), fields.tables("alloc", reader));
    fields.end(reader);
    let counts = Counts { stores: stores.len(), allocs: allocs.len() };
    // If there are too many nodes, only their number is reported, and not further problems of each node.
    let some = |count: usize, most: usize| if count > most { 0 } else { count };
    let stores = stores.into_iter().take(some(counts.stores, MAX_STORES));
    let stores = stores.map(|node| store(node, &mut followed, reader)).collect();
    let allocs = allocs.into_iter().take(some(counts.allocs, limits::MAX_NODES));
    let allocs = allocs.map(|node| alloc(node, &mut followed, reader)).collect();
    let spec = SetSpec { name, uids, section_size, step, stores, allocs, genesis };
    Content { spec, cluster, plaintext, plaintext_on_network, counts, followed, reader: std::mem::take(reader) }
}

fn store(mut fields: Fields<'_>, followed: &mut BTreeSet<String>, reader: &mut Reader) -> StoreSpec {
    let id = fields.required("id", reader).unwrap_or_default();
    let name = fields.required("name", reader).unwrap_or_default();
    let addr: String = fields.required("addr", reader).unwrap_or_default();
    let mut ports = Ports { addr: &addr, fields: &mut fields, followed, reader };
    let raft = ports.required("raft", FOR_NODES);
    let http = ports.required("http", HTTP);
    let admin = ports.optional("admin", OPTIONAL);
    let listen = fields.table("listen", reader).map(|mut fields| {
        let mut addr = |key| fields.optional(key, reader);
        let listen = StoreListen { addr: addr("addr"), raft: addr("raft"), admin: addr("admin"), http: addr("http") };
        fields.end(reader);
        listen
    });
    fields.end(reader);
    StoreSpec { id, name, raft, admin, http, addr, listen: listen.unwrap_or_default() }
}

fn alloc(mut fields: Fields<'_>, followed: &mut BTreeSet<String>, reader: &mut Reader) -> AllocSpec {
    let name = fields.required("name", reader).unwrap_or_default();
    let addr: String = fields.required("addr", reader).unwrap_or_default();
    let mut ports = Ports { addr: &addr, fields: &mut fields, followed, reader };
    let peer = ports.required("peer", FOR_NODES);
    let http = ports.required("http", HTTP);
    let redis = ports.optional("redis", OPTIONAL);
    let redis_cluster = ports.optional("redis_cluster", CLUSTER);
    let weight = fields.optional("weight", reader).unwrap_or(1);
    let listen = fields.table("listen", reader).map(|mut fields| {
        let mut addr = |key| fields.optional(key, reader);
        let (at, peer, http) = (addr("addr"), addr("peer"), addr("http"));
        let (redis, redis_cluster) = (addr("redis"), addr("redis_cluster"));
        let listen = AllocListen { addr: at, peer, http, redis, redis_cluster };
        fields.end(reader);
        listen
    });
    fields.end(reader);
    AllocSpec { name, peer, http, redis, redis_cluster, weight, addr, listen: listen.unwrap_or_default() }
}

/// Reader of a node's addresses other than `addr`.
struct Ports<'a, 't> {
    addr: &'a str,
    fields: &'a mut Fields<'t>,
    followed: &'a mut BTreeSet<String>,
    reader: &'a mut Reader,
}

impl Ports<'_, '_> {
    /// Reads the address of a port that every node has. If the file does not contain the key `name`, computes the
    /// address from `addr` and the offset `above`.
    fn required(&mut self, name: &'static str, above: u16) -> String {
        let written: Option<String> = self.fields.optional(name, self.reader);
        if written.is_none() && !self.reader.has_failed(&self.fields.key(name)) {
            return self.following(name, above);
        }
        written.unwrap_or_default()
    }

    /// Reads the address of a port that a node may have. If the value of the key `name` is `true`, computes the address
    /// from `addr` and the offset `above`. If the file does not contain the key, the node has no such port.
    fn optional(&mut self, name: &'static str, above: u16) -> Option<String> {
        match self.fields.optional(name, self.reader)? {
            OptionalPort::None => None,
            OptionalPort::Following => Some(self.following(name, above)),
            OptionalPort::At(addr) => Some(addr),
        }
    }

    fn following(&mut self, name: &str, above: u16) -> String {
        let key = self.fields.key(name);
        // If `addr` is wrong, only `addr` is reported, and not also the address that would be computed from it.
        let port = self.addr.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let Some((host, port)) = port else {
            self.reader.fail(key);
            return String::new();
        };
        let Some(port) = port.checked_add(above) else {
            let reason = format!(
                "the port would be {above} above {:?}, and there is no such port: give it an address",
                self.addr
            );
            self.reader.add(&key, &reason);
            return String::new();
        };
        self.followed.insert(key);
        format!("{host}:{port}")
    }
}

/// Value of a key that states a port which a node need not have.
enum OptionalPort {
    None,
    Following,
    At(String),
}

impl<'de> Deserialize<'de> for OptionalPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionalPort, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = OptionalPort;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address in quotes, true or false")
            }

            fn visit_bool<E: Error>(self, has: bool) -> Result<OptionalPort, E> {
                Ok(if has { OptionalPort::Following } else { OptionalPort::None })
            }

            fn visit_str<E: Error>(self, addr: &str) -> Result<OptionalPort, E> {
                Ok(OptionalPort::At(addr.to_owned()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

fn uids(fields: &mut Fields<'_>, reader: &mut Reader) -> Range<u64> {
    let text: Option<String> = fields.required("uids", reader);
    let range = text.map(|text| parse_uids(&text)).transpose().map_err(|reason| reader.add("uids", &reason));
    range.ok().flatten().unwrap_or_default()
}

/// Parses a range such as "0..1_000_000", whose end is exclusive.
fn parse_uids(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not a range such as \"0..1_000_000\"");
    let number = |part: &str| part.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    Ok(number(start)?..number(end)?)
}

/// Reads the genesis of the set.
fn genesis(fields: &mut Fields<'_>, has_cluster: bool, reader: &mut Reader) -> Genesis {
    let text: Option<String> = fields.optional("genesis", reader);
    let Some(text) = text else { return Genesis::default() };
    let Some(genesis) = Genesis::parse(&text) else {
        let names = Genesis::ALL.map(Genesis::name).join(", ");
        reader.add("genesis", &format!("{text:?} is none of {names}"));
        return Genesis::default();
    };
    if genesis == Genesis::Create && !has_cluster && !reader.has_failed("cluster") && !reader.is_broken() {
        let reason = "a set that is created in a cluster needs the key cluster, with the value of the other sets";
        reader.add("genesis", reason);
    }
    genesis
}
