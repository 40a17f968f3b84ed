//! The content of a set file, which defines the uids of a set and the nodes that serve them.
//!
//! A [`SetSpec`] is unchecked until [`SetSpec::validate`] has accepted it. [`check_sets`] checks that the sets of one
//! cluster fit together. Both functions return all problems at once, so that an operator need not correct a set file
//! one error at a time. Each problem names the key in the file that the operator has to edit. Reading the file is left
//! to the caller.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use crate::layout::{Layout, LayoutError};
use crate::limits;

mod check;

pub use check::{check_sets, is_dialled_addr, is_dns_label};

/// One set, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// Name of the set, a DNS label.
    pub name: String,
    /// The range of uids that the cluster serves, end exclusive. All sets of a cluster have the same range.
    pub uids: Range<u64>,
    /// Number of neighbouring uids that share a ceiling, `1 ..= limits::MAX_SECTION_SIZE`.
    pub section_size: u32,
    /// Amount by which a raise moves a ceiling, `1 ..= limits::MAX_STEP`.
    pub step: u64,
    /// The members of the set's store, in order of id; their number is one of [`limits::STORE_COUNTS`].
    pub stores: Vec<StoreSpec>,
    /// The set's AllocSvrs, in order of name, `1 ..= limits::MAX_NODES` of them.
    pub allocs: Vec<AllocSpec>,
    /// The way in which the set comes into being.
    pub genesis: Genesis,
}

/// The way in which a set comes into being. This setting has no effect once the set's store holds the definition of the
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Genesis {
    /// The store's first leader defines the set, with all sections of its uids. This is meant for a cluster of one set.
    #[default]
    Start,
    /// `seqsvr set init` defines the set, with all sections of its uids. This is meant for the first set of a cluster.
    Init,
    /// `seqsvr set create` defines the set without sections. Sections come later, by migration from the other sets of
    /// the cluster, which have the same uids and section size.
    Create,
}

impl Genesis {
    /// Every kind.
    pub const ALL: [Genesis; 3] = [Genesis::Start, Genesis::Init, Genesis::Create];

    /// Returns the name of the kind in set files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Genesis::Start => "start",
            Genesis::Init => "init",
            Genesis::Create => "create",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Genesis> {
        Genesis::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A member of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Raft id, 1 or above. A new disk gets a new id.
    pub id: u64,
    /// Name, a DNS label; no other node of the set has it.
    pub name: String,
    /// Address of the port for peers, "host:port". AllocSvrs, the other members of this store, and stores of other sets
    /// dial it.
    pub addr: String,
    /// Address of the port for Raft, "host:port". The other members of this store dial it.
    pub raft: String,
    /// Address of the port for operators, "host:port"; `None` if the member has no such port, so that operators use
    /// another member of the store.
    pub admin: Option<String>,
    /// Address of the port for metrics and probes, "host:port".
    pub http: String,
    /// Addresses at which the node listens instead of the addresses above.
    pub listen: StoreListen,
}

/// Addresses at which a member listens, where they differ from the addresses that other processes dial. They differ,
/// for example, behind network address translation, in a container with published ports, or with elastic IP addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreListen {
    /// Instead of [`StoreSpec::addr`].
    pub addr: Option<String>,
    /// Instead of [`StoreSpec::raft`].
    pub raft: Option<String>,
    /// Instead of [`StoreSpec::admin`].
    pub admin: Option<String>,
    /// Instead of [`StoreSpec::http`].
    pub http: Option<String>,
}

/// An AllocSvr of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocSpec {
    /// Name, a DNS label; no other node of the set has it.
    pub name: String,
    /// Address of the port for callers, "host:port". Clients, and AllocSvrs that forward requests, dial it.
    pub addr: String,
    /// Address of the port for peers, "host:port". Other AllocSvrs dial it.
    pub peer: String,
    /// Address of the port for metrics and probes, "host:port".
    pub http: String,
    /// Address of the port for clients of Redis, "host:port"; `None` if the node has no such port.
    pub redis: Option<String>,
    /// Address of the port for clients of Redis Cluster, "host:port"; `None` if the node has no such port. The clients
    /// dial it, because the ports of all nodes name it.
    pub redis_cluster: Option<String>,
    /// Weight of the node, `1 ..= limits::MAX_WEIGHT`. The node's share of the sections is proportional to the weight.
    pub weight: u32,
    /// Addresses at which the node listens instead of the addresses above.
    pub listen: AllocListen,
}

/// Addresses at which an AllocSvr listens, where they differ from the addresses that other processes dial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocListen {
    /// Instead of [`AllocSpec::addr`].
    pub addr: Option<String>,
    /// Instead of [`AllocSpec::peer`].
    pub peer: Option<String>,
    /// Instead of [`AllocSpec::http`].
    pub http: Option<String>,
    /// Instead of [`AllocSpec::redis`].
    pub redis: Option<String>,
    /// Instead of [`AllocSpec::redis_cluster`].
    pub redis_cluster: Option<String>,
}

/// A port of a node, as its spec has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSpec<'a> {
    /// Key of the port's address in the set file: `addr`, `raft`, `admin`, `peer`, `http`, `redis` or
    /// `redis_cluster`.
    pub key: &'static str,
    /// The address that other processes dial; `None` if the node has no such port.
    pub addr: Option<&'a str>,
    /// Address at which the node listens, if it differs from `addr`.
    pub listen: Option<&'a str>,
}

impl<'a> PortSpec<'a> {
    /// Returns the address at which the node listens; `None` without the port.
    #[must_use]
    pub fn listens(&self) -> Option<&'a str> {
        self.addr.map(|addr| self.listen.unwrap_or(addr))
    }
}

impl StoreSpec {
    /// Returns the ports of the member.
    #[must_use]
    pub fn ports(&self) -> [PortSpec<'_>; 4] {
        let StoreSpec { addr, raft, admin, http, listen, .. } = self;
        [
            PortSpec { key: "addr", addr: Some(addr), listen: listen.addr.as_deref() },
            PortSpec { key: "admin", addr: admin.as_deref(), listen: listen.admin.as_deref() },
            PortSpec { key: "http", addr: Some(http), listen: listen.http.as_deref() },
            PortSpec { key: "raft", addr: Some(raft), listen: listen.raft.as_deref() },
        ]
    }

    /// Returns this member with each address replaced by the address at which the member listens.
    #[must_use]
    pub fn listening(&self) -> StoreSpec {
        let StoreSpec { addr, raft, admin, http, listen, .. } = self.clone();
        let StoreListen { addr: at, raft: raft_at, admin: admin_at, http: http_at } = listen;
        let admin = admin.map(|admin| admin_at.unwrap_or(admin));
        let (addr, raft, http) = (at.unwrap_or(addr), raft_at.unwrap_or(raft), http_at.unwrap_or(http));
        StoreSpec { id: self.id, name: self.name.clone(), addr, raft, admin, http, listen: StoreListen::default() }
    }
}

impl AllocSpec {
    /// Returns the ports of the node.
    #[must_use]
    pub fn ports(&self) -> [PortSpec<'_>; 5] {
        let AllocSpec { addr, peer, http, redis, redis_cluster, listen, .. } = self;
        [
            PortSpec { key: "addr", addr: Some(addr), listen: listen.addr.as_deref() },
            PortSpec { key: "peer", addr: Some(peer), listen: listen.peer.as_deref() },
            PortSpec { key: "http", addr: Some(http), listen: listen.http.as_deref() },
            PortSpec { key: "redis", addr: redis.as_deref(), listen: listen.redis.as_deref() },
            PortSpec { key: "redis_cluster", addr: redis_cluster.as_deref(), listen: listen.redis_cluster.as_deref() },
        ]
    }

    /// Returns this AllocSvr with each address replaced by the address at which it listens.
    #[must_use]
    pub fn listening(&self) -> AllocSpec {
        let AllocSpec { name, addr, peer, http, redis, redis_cluster, weight, listen } = self.clone();
        let AllocListen { addr: at, peer: peer_at, http: http_at, redis: redis_at, redis_cluster: cluster_at } = listen;
        let redis = redis.map(|redis| redis_at.unwrap_or(redis));
        let redis_cluster = redis_cluster.map(|cluster| cluster_at.unwrap_or(cluster));
        let (addr, peer, http) = (at.unwrap_or(addr), peer_at.unwrap_or(peer), http_at.unwrap_or(http));
        AllocSpec { name, addr, peer, http, redis, redis_cluster, weight, listen: AllocListen::default() }
    }
}

impl SetSpec {
    /// Returns the IP address in the `addr` of each node of the set. Leaves out nodes whose `addr` has a host name.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let addrs = self.stores.iter().map(|store| &store.addr).chain(self.allocs.iter().map(|alloc| &alloc.addr));
        addrs.filter_map(|addr| addr.parse::<SocketAddr>().ok()).map(|addr| addr.ip())
    }

    /// Checks every value of the spec and the relations between the values. Returns the layout of the cluster's uids.
    ///
    /// # Errors
    /// All problems.
    pub fn validate(&self) -> Result<Layout, Vec<SpecError>> {
        check::one(self)
    }
}

/// A value in a set file that is not allowed, either by itself or together with another value of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct SpecError {
    /// The key in the file, for example `section_size` or `alloc[1].addr`; the entries of a list count from 0.
    pub key: String,
    /// Problem with its value.
    pub problem: SpecProblem,
}

/// A problem with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    /// The uids cannot be laid out.
    #[error(transparent)]
    Layout(LayoutError),
    /// The step is 0, or too large.
    #[error("step {step} is not from 1 to {}", limits::MAX_STEP)]
    Step {
        /// The step.
        step: u64,
    },
    /// The name is not a DNS label.
    #[error(
        "name {name:?} is not a DNS label: 1 to {} of a-z, 0-9 and '-', with no '-' at either end",
        limits::MAX_NAME_BYTES
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The Raft id is 0.
    #[error("id 0 means no member; ids start at 1")]
    ZeroId,
    /// The value must be unique, and another key has it.
    #[error("{value:?} is taken by {by}")]
    Taken {
        /// The value.
        value: String,
        /// The key that has it.
        by: String,
    },
    /// The address cannot be dialled.
    #[error("address {addr:?} {problem}")]
    Addr {
        /// The address.
        addr: String,
        /// Problem with the address.
        problem: AddrProblem,
    },
    /// The file has a listen address for a port that the node does not have.
    #[error(
        "the node has no such port: state its key {port} too, with the address that others dial, or remove this one"
    )]
    NoPort {
        /// The key of the port's address.
        port: &'static str,
    },
    /// The weight is 0, or too large.
    #[error("weight {weight} is not from 1 to {}; weights are relative to each other", limits::MAX_WEIGHT)]
    Weight {
        /// The weight.
        weight: u32,
    },
    /// The store has too few, too many, or an even number of members.
    #[error(
        "a store has 1, 3 or 5 members, not {count}: an even number survives no more failures than one less, and every \
         member past five slows each write"
    )]
    StoreCount {
        /// The number of members.
        count: usize,
    },
    /// The set has no AllocSvr, or more AllocSvrs than its store ever lets register.
    #[error("a set has 1 to {} AllocSvrs, not {count}", limits::MAX_NODES)]
    AllocCount {
        /// The number of AllocSvrs.
        count: usize,
    },
    /// The set's range of uids or its section size differs from that of another set in its cluster.
    #[error(
        "uids {}..{} in sections of {section_size} are not {}..{} in sections of {others_size} as in set {other}: all sets \
         of a cluster have the same",
        uids.start, uids.end, others.start, others.end
    )]
    OtherLayout {
        /// The set's uids.
        uids: Range<u64>,
        /// The set's section size.
        section_size: u32,
        /// Name of the other set.
        other: String,
        /// The other set's uids.
        others: Range<u64>,
        /// The other set's section size.
        others_size: u32,
    },
    /// Two sets of a cluster would each begin with all sections of the cluster.
    #[error(
        "set {other} begins with all sections of the cluster; any other set has genesis = \"create\" and gets them by \
         migration"
    )]
    SecondFirst {
        /// Name of the other set.
        other: String,
    },
}

/// A problem with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddrProblem {
    /// The address is longer than a DNS name and a port.
    #[error("is longer than {} bytes", limits::MAX_ADDR_BYTES)]
    TooLong,
    /// The address has no colon between a host and a port.
    #[error("is not host:port")]
    NoPort,
    /// The port is not a number from 1 to 65,535. Port 0 cannot be dialled.
    #[error("has no port from 1 to 65535")]
    Port,
    /// The host is neither a name nor an IP address.
    #[error("has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets")]
    Host,
    /// The address stands for all addresses of a machine, as `0.0.0.0` does. A node can listen at it, but other nodes
    /// cannot dial it.
    #[error("cannot be dialled: give the address under which others reach the node")]
    Unspecified,
}

#[cfg(test)]
mod tests;
