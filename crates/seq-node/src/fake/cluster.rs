//! A fake cluster: its nodes, and the faults that are injected into them.

use std::sync::Arc;
use std::time::Duration;

use seq_api::ids::IdSeries;
use seq_api::keys::Keyspace;
use seq_client::fake::{FakeCluster, World};
use seq_core::Uid;
use seq_core::keyspace::{Hashing, Seed};
use seq_ids::Preset;
use seq_proto::Reason;
use seq_proto::series::SeriesShape;
use serde::{Deserialize, Deserializer};

use super::faults::reasons;
use super::node::{Node, Sockets};
use super::service::Names;
use crate::dev::SERIES;

/// The keyspace of a cluster.
pub(super) const KEYSPACE: &str = "main";

/// Seed of the keyspace. It need not be secret, because no stranger chooses the keys of a test.
const SEED: [u8; 16] = *b"seqsvr fake seed";

/// Limit on the number of requests that run into one fault.
const MAX_TIMES: u64 = 1_000_000;

/// A fault that a line requests. A node is `a1`, or `fake-2/a1` in another set than the first one. If there is no node,
/// the fault is of all nodes.
#[derive(Debug, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Fault {
    /// The next requests, or the next items of a uid, are refused.
    Refuse { node: Option<String>, uid: Option<UidText>, reason: String, times: Option<u64> },
    /// Each request is delayed; 0 ends it.
    Delay { node: Option<String>, ms: u64 },
    /// Requests get no response until `on` is false.
    Hold { node: Option<String>, on: bool },
    /// All connections are cut. With `times`, the next requests are applied, and then the connections are cut instead
    /// of a response.
    Cut { node: Option<String>, times: Option<u64> },
    /// A node stops in order: other nodes continue its sections exactly.
    Stop { node: String },
    /// A node crashes: other nodes take its sections over, and numbers are skipped.
    Kill { node: String },
    /// A stopped or killed node runs again, at the same addresses and without sections.
    Start { node: String },
    /// The section of a uid moves to a node, without a gap.
    Move { uid: UidText, to: String },
    /// The owner of a uid's section has crashed, and a node takes the section over: numbers are skipped.
    TakeOver { uid: UidText, to: String },
    /// All refusals, delays, holds and lost responses end.
    Clear { node: Option<String> },
}

/// A uid as a string or as a number, because some languages have no exact numbers of 64 bits.
#[derive(Debug)]
pub(super) struct UidText(String);

impl<'de> Deserialize<'de> for UidText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UidText, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        Ok(UidText(match Either::deserialize(deserializer)? {
            Either::Number(uid) => uid.to_string(),
            Either::Text(uid) => uid,
        }))
    }
}

/// The nodes of all sets.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) sets: Vec<String>,
    pub(super) names: Arc<Names>,
    world: Arc<World>,
    uids: u64,
}

impl Cluster {
    /// Starts the nodes of a cluster. `sockets` are the sockets of each set's nodes.
    ///
    /// # Errors
    /// If a socket cannot be registered with the runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the configuration is invalid.
    pub(super) fn start(config: &FakeCluster, sockets: Vec<Vec<Sockets>>) -> anyhow::Result<Cluster> {
        let mut addrs = Vec::new();
        for sockets in &sockets {
            let of_set: std::io::Result<Vec<_>> = sockets.iter().map(|sockets| sockets.grpc.local_addr()).collect();
            addrs.push(of_set?);
        }
        let world = Arc::new(World::new(config, &addrs));
        let names = Arc::new(name(&world)?);
        let sets: Vec<String> = config.sets.iter().map(|(name, _)| name.clone()).collect();
        let mut nodes = Vec::new();
        for ((set, name), sockets) in sets.iter().enumerate().zip(sockets) {
            for (index, sockets) in sockets.into_iter().enumerate() {
                nodes.push(Node::start((set, name), index, (world.clone(), names.clone()), sockets)?);
            }
        }
        Ok(Cluster { nodes, sets, names, world, uids: config.uids.end })
    }

    /// Carries out the request of a line.
    ///
    /// # Errors
    /// A message, if the line is no request, or names something that does not exist.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) async fn inject(&mut self, line: &str) -> Result<(), String> {
        let fault: Fault = serde_json::from_str(line)
            .map_err(|error| format!("{line}: {error}; `seqsvr fake --help` has examples"))?;
        match fault {
            Fault::Refuse { node, uid, reason, times } => {
                let uid = uid.map(|uid| self.uid(&uid)).transpose()?;
                let (reason, times) = (reason_of(&reason)?, self::times(times.unwrap_or(1))?);
                self.some(node.as_deref())?.for_each(|node| node.faults.refuse(uid, reason, times));
            }
            Fault::Delay { node, ms } => {
                self.some(node.as_deref())?.for_each(|node| node.faults.delay(Duration::from_millis(ms)));
            }
            Fault::Hold { node, on } => self.some(node.as_deref())?.for_each(|node| node.faults.hold(on)),
            Fault::Cut { node, times: None } => {
                for node in self.some(node.as_deref())? {
                    node.faults.connections.cut().await;
                }
            }
            Fault::Cut { node, times: Some(times) } => {
                let times = self::times(times)?;
                self.some(node.as_deref())?.for_each(|node| node.faults.lose(times));
            }
            Fault::Clear { node } => self.some(node.as_deref())?.for_each(|node| node.faults.clear()),
            Fault::Stop { node } => self.end(self.running(&node)?, false).await,
            Fault::Kill { node } => self.end(self.running(&node)?, true).await,
            Fault::Start { node } => self.restart(&node)?,
            Fault::Move { uid, to } => self.assign(&uid, &to, false)?,
            Fault::TakeOver { uid, to } => self.assign(&uid, &to, true)?,
        }
        Ok(())
    }

    /// Stops a node. Its sections are distributed over the other running nodes of its set. If there is none, they stay
    /// where they are.
    async fn end(&mut self, at: usize, crashes: bool) {
        self.nodes[at].stop().await;
        let Node { set, index, .. } = self.nodes[at];
        let others = self.nodes.iter().filter(|node| node.set == set && node.is_running());
        let others: Vec<usize> = others.map(|node| node.index).collect();
        let sections = self.world.sections_of(set, index);
        if crashes {
            sections.iter().for_each(|section| self.world.crash_section(*section));
        }
        let owner = |position: usize| match others.len() {
            0 => index,
            nodes => others[position % nodes],
        };
        let assigned: Vec<_> =
            sections.into_iter().enumerate().map(|(position, section)| (section, Some(owner(position)))).collect();
        self.world.assign_sections(set, &assigned);
        self.world.stopped(set);
    }

    fn restart(&mut self, name: &str) -> Result<(), String> {
        let at = self.find(name)?;
        if self.nodes[at].is_running() {
            return Err(format!("node {name:?} runs already"));
        }
        self.nodes[at].restart().map_err(|error| format!("{error:#}"))?;
        self.world.started(self.nodes[at].set);
        Ok(())
    }

    /// Assigns the section of a uid to a node.
    fn assign(&self, uid: &UidText, to: &str, crashes: bool) -> Result<(), String> {
        let Node { set, index, .. } = self.nodes[self.running(to)?];
        let section = self.world.section_of(Uid(self.uid(uid)?)).map_err(|refusal| refusal.to_string())?;
        if crashes {
            self.world.crash_section(section);
        }
        self.world.assign_sections(set, &[(section, Some(index))]);
        Ok(())
    }

    /// Returns the name by which a fault names a node.
    fn label(&self, node: &Node) -> String {
        if node.set == 0 { node.name.clone() } else { format!("{}/{}", self.sets[node.set], node.name) }
    }

    /// Returns the position of a node.
    fn find(&self, name: &str) -> Result<usize, String> {
        let wanted = name.strip_prefix(&format!("{}/", self.sets[0])).unwrap_or(name);
        let names = || self.nodes.iter().map(|node| self.label(node)).collect::<Vec<_>>().join(", ");
        let found = self.nodes.iter().position(|node| self.label(node) == wanted);
        found.ok_or_else(|| format!("there is no node {name:?}; the nodes are {}", names()))
    }

    /// Returns the position of a node that runs.
    fn running(&self, name: &str) -> Result<usize, String> {
        let at = self.find(name)?;
        let hint = || format!("node {name:?} is stopped; {{\"fault\":\"start\",\"node\":{name:?}}} starts it");
        self.nodes[at].is_running().then_some(at).ok_or_else(hint)
    }

    /// Returns the named node, or all nodes.
    fn some(&self, name: Option<&str>) -> Result<impl Iterator<Item = &Node>, String> {
        let at = name.map(|name| self.find(name)).transpose()?;
        let nodes = self.nodes.iter().enumerate();
        Ok(nodes.filter(move |(index, _)| at.is_none_or(|at| at == *index)).map(|(_, node)| node))
    }

    fn uid(&self, UidText(text): &UidText) -> Result<u64, String> {
        let uid = text.parse().ok().filter(|uid| *uid < self.uids);
        uid.ok_or_else(|| format!("uid {text:?} is not a number in 0..{}; --uids makes more", self.uids))
    }
}

/// Parses the reason of refusals.
fn reason_of(text: &str) -> Result<Reason, String> {
    let known = Reason::parse(&text.to_ascii_uppercase());
    known.filter(|known| reasons().any(|reason| reason == *known)).ok_or_else(|| {
        let all: Vec<&str> = reasons().map(Reason::name).collect();
        format!("no call for numbers is refused with the reason {text:?}; the reasons are {}", all.join(", "))
    })
}

fn times(times: u64) -> Result<u64, String> {
    let in_range = (1..=MAX_TIMES).contains(&times);
    in_range.then_some(times).ok_or_else(|| format!("times {times} is not in 1..={MAX_TIMES}"))
}

/// Creates the series and the keyspace of a cluster, and returns them in the form that endpoints use.
fn name(world: &World) -> anyhow::Result<Names> {
    for (name, shape) in SERIES {
        let Preset { shape, named_lanes, ahead_ms, .. } = *seq_ids::preset(shape).expect("the shape is a preset");
        world.create_series(name, shape, named_lanes, ahead_ms);
    }
    let mut names = Names::default();
    for record in &*world.series() {
        let SeriesShape { shape, named_lanes, ahead_ms } = SeriesShape::of(record)?;
        names.series.push(Arc::new(IdSeries::new(record, shape, named_lanes, ahead_ms)));
    }
    let (seed, name) = (Seed::new(SEED), KEYSPACE.to_owned());
    let buckets = world.create_keyspace(KEYSPACE, seed);
    names.keyspaces.push(Arc::new(Keyspace { name, hashing: Hashing::new(seed), buckets }));
    Ok(names)
}
