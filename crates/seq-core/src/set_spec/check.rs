//! Checks set specs. A check that finds a problem adds it to a list, and the remaining checks are still made.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{AddrProblem, Genesis, PortSpec, SetSpec, SpecError, SpecProblem};
use crate::layout::{Layout, LayoutError};
use crate::limits;

/// Longest DNS name, in bytes (RFC 1035, section 2.3.4).
const MAX_DNS_NAME_BYTES: usize = 253;

pub(super) fn one(spec: &SetSpec) -> Result<Layout, Vec<SpecError>> {
    let mut findings = Findings::default();
    findings.name("name".into(), &spec.name);
    let layout = findings.layout(spec);
    if !(1..=limits::MAX_STEP).contains(&spec.step) {
        findings.add("step".into(), SpecProblem::Step { step: spec.step });
    }
    findings.stores(spec);
    findings.allocs(spec);
    findings.unique_addrs(spec);
    match layout {
        Some(layout) if findings.0.is_empty() => Ok(layout),
        _ => Err(findings.0),
    }
}

/// Checks that the sets of one cluster fit together. All sets must have the uids and the section size of the first set
/// in `sets`. At most one set may begin with all sections; all other sets must have [`Genesis::Create`]. No two sets
/// may have the same name, or an address in common. Nodes of different sets may have the same name, because a node's
/// name is unique only within its set. [`SetSpec::validate`] checks a single set.
///
/// # Errors
/// All problems, each with the index in `sets` of the set that has the problem. If two sets conflict, the set with the
/// higher index has the problem.
pub fn check_sets(sets: &[SetSpec]) -> Result<(), Vec<(usize, SpecError)>> {
    let mut errors = Vec::new();
    let mut names = Unique::default();
    let mut addrs = Unique::default();
    for (index, set) in sets.iter().enumerate() {
        let mut findings = Findings::default();
        if let Some(problem) = names.insert(set.name.clone(), &set.name, "another set".into()) {
            findings.add("name".into(), problem);
        }
        if let Some(problem) = layout_problem(set, &sets[0]) {
            findings.add("uids".into(), problem);
        }
        let first = sets[..index].iter().find(|other| other.genesis != Genesis::Create);
        if let Some(first) = first.filter(|_| set.genesis != Genesis::Create) {
            findings.add("genesis".into(), SpecProblem::SecondFirst { other: first.name.clone() });
        }
        // `validate` compares addresses within a set, so a set's addresses are added after all of them are looked up.
        let own = addrs_of(set);
        for (key, addr) in &own {
            if let Some(problem) = addrs.taken(&normal(addr), addr) {
                findings.add(key.clone(), problem);
            }
        }
        for (key, addr) in &own {
            addrs.insert(normal(addr), addr, format!("{key} of set {}", set.name));
        }
        errors.extend(findings.0.into_iter().map(|error| (index, error)));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn layout_problem(set: &SetSpec, one: &SetSpec) -> Option<SpecProblem> {
    let (uids, other, others) = (set.uids.clone(), one.name.clone(), one.uids.clone());
    let (section_size, others_size) = (set.section_size, one.section_size);
    let differs = (&uids, section_size) != (&others, others_size);
    differs.then_some(SpecProblem::OtherLayout { uids, section_size, other, others, others_size })
}

/// The problems found, in order.
#[derive(Default)]
struct Findings(Vec<SpecError>);

impl Findings {
    fn add(&mut self, key: String, problem: SpecProblem) {
        self.0.push(SpecError { key, problem });
    }

    fn layout(&mut self, spec: &SetSpec) -> Option<Layout> {
        let (error, both) = match Layout::new(spec.uids.clone(), spec.section_size) {
            Ok(layout) => return Some(layout),
            // The range is checked first; the size may be wrong as well.
            Err(error @ LayoutError::EmptyRange { .. }) => (error, Layout::new(0..1, spec.section_size).err()),
            Err(error) => (error, None),
        };
        for error in [Some(error), both].into_iter().flatten() {
            let key = match error {
                LayoutError::EmptyRange { .. } => "uids",
                LayoutError::SectionSize { .. } | LayoutError::TooManySections { .. } => "section_size",
            };
            self.add(key.into(), SpecProblem::Layout(error));
        }
        None
    }

    fn stores(&mut self, spec: &SetSpec) {
        if !limits::STORE_COUNTS.contains(&spec.stores.len()) {
            self.add("store".into(), SpecProblem::StoreCount { count: spec.stores.len() });
        }
        let mut ids = Unique::default();
        let mut names = Unique::default();
        for (index, store) in spec.stores.iter().enumerate() {
            let key = |field: &str| format!("store[{index}].{field}");
            if store.id == 0 {
                self.add(key("id"), SpecProblem::ZeroId);
            } else if let Some(problem) = ids.insert(store.id.to_string(), &store.id.to_string(), key("id")) {
                self.add(key("id"), problem);
            }
            self.unique_name(&mut names, key("name"), &store.name);
            self.addr(key("addr"), &store.addr, Use::Dialled);
            self.addr(key("raft"), &store.raft, Use::Dialled);
            if let Some(admin) = &store.admin {
                self.addr(key("admin"), admin, Use::Dialled);
            }
            self.addr(key("http"), &store.http, Use::Listened);
            self.listen(&format!("store[{index}]"), &store.ports());
        }
    }

    fn allocs(&mut self, spec: &SetSpec) {
        if !(1..=limits::MAX_NODES).contains(&spec.allocs.len()) {
            self.add("alloc".into(), SpecProblem::AllocCount { count: spec.allocs.len() });
        }
        let mut names = Unique::default();
        for (index, store) in spec.stores.iter().enumerate() {
            names.insert(store.name.clone(), &store.name, format!("store[{index}].name"));
        }
        for (index, alloc) in spec.allocs.iter().enumerate() {
            let key = |field: &str| format!("alloc[{index}].{field}");
            self.unique_name(&mut names, key("name"), &alloc.name);
            self.addr(key("addr"), &alloc.addr, Use::Dialled);
            self.addr(key("peer"), &alloc.peer, Use::Dialled);
            self.addr(key("http"), &alloc.http, Use::Listened);
            if let Some(redis) = &alloc.redis {
                self.addr(key("redis"), redis, Use::Listened);
            }
            if let Some(redis_cluster) = &alloc.redis_cluster {
                self.addr(key("redis_cluster"), redis_cluster, Use::Dialled);
            }
            self.listen(&format!("alloc[{index}]"), &alloc.ports());
            if !(1..=limits::MAX_WEIGHT).contains(&alloc.weight) {
                self.add(key("weight"), SpecProblem::Weight { weight: alloc.weight });
            }
        }
    }

    /// Checks the addresses at which a node listens. Two ports of one node must not listen at the same address. Two
    /// nodes may, because they can be on different machines.
    fn listen(&mut self, node: &str, ports: &[PortSpec<'_>]) {
        if ports.iter().all(|port| port.listen.is_none()) {
            return;
        }
        let mut own = Unique::default();
        for port in ports {
            let key = if port.listen.is_some() { "listen." } else { "" };
            let key = format!("{node}.{key}{}", port.key);
            if let Some(addr) = port.listen {
                self.addr(key.clone(), addr, Use::Listened);
            }
            match port.listens() {
                Some(addr) => {
                    if let Some(problem) = own.insert(normal(addr), addr, key.clone()) {
                        self.add(key, problem);
                    }
                }
                None if port.listen.is_some() => self.add(key, SpecProblem::NoPort { port: port.key }),
                None => {}
            }
        }
    }

    fn unique_addrs(&mut self, spec: &SetSpec) {
        let mut addrs = Unique::default();
        for (key, addr) in addrs_of(spec) {
            if let Some(problem) = addrs.insert(normal(addr), addr, key.clone()) {
                self.add(key, problem);
            }
        }
    }

    fn unique_name(&mut self, names: &mut Unique, key: String, name: &str) {
        self.name(key.clone(), name);
        if let Some(problem) = names.insert(name.into(), name, key.clone()) {
            self.add(key, problem);
        }
    }

    fn name(&mut self, key: String, name: &str) {
        if !is_dns_label(name) {
            self.add(key, SpecProblem::Name { name: name.into() });
        }
    }

    fn addr(&mut self, key: String, addr: &str, used: Use) {
        if let Err(problem) = check_addr(addr, used) {
            self.add(key, SpecProblem::Addr { addr: addr.into(), problem });
        }
    }
}

/// Values, each with the key that has it.
#[derive(Default)]
struct Unique(BTreeMap<String, String>);

impl Unique {
    /// Notes that the key `by` has a value. If another key has the same value already, the note of that key stays, and
    /// the conflict is returned as a problem.
    fn insert(&mut self, normal: String, value: &str, by: String) -> Option<SpecProblem> {
        let taken = self.taken(&normal, value);
        self.0.entry(normal).or_insert(by);
        taken
    }

    fn taken(&self, normal: &str, value: &str) -> Option<SpecProblem> {
        self.0.get(normal).map(|by| SpecProblem::Taken { value: value.into(), by: by.clone() })
    }
}

/// Returns the addresses that must be unique within the cluster, each with its key. A member's admin address on
/// loopback is left out if the member's `addr` can be reached from other machines. Members on different machines may
/// have the same address on loopback.
fn addrs_of(spec: &SetSpec) -> Vec<(String, &str)> {
    let is_shared = |addr: &str, port: &PortSpec<'_>| {
        port.key == "admin" && !is_loopback(addr) && port.addr.is_some_and(is_loopback)
    };
    let stores = spec.stores.iter().enumerate().flat_map(|(index, store)| {
        let ports = store.ports().into_iter().filter(move |port| !is_shared(&store.addr, port));
        ports.map(move |port| ("store", index, port))
    });
    let allocs = spec.allocs.iter().enumerate();
    let allocs = allocs.flat_map(|(index, alloc)| alloc.ports().map(|port| ("alloc", index, port)));
    let key = |list, index, port: PortSpec<'_>| format!("{list}[{index}].{}", port.key);
    stores.chain(allocs).filter_map(|(list, index, port)| Some((key(list, index, port), port.addr?))).collect()
}

/// Returns whether only the machine itself reaches an address.
fn is_loopback(addr: &str) -> bool {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Returns a common spelling of an address, for comparisons.
fn normal(addr: &str) -> String {
    addr.parse::<SocketAddr>().map_or_else(|_| addr.to_ascii_lowercase(), |addr| addr.to_string())
}

/// Use of an address: either other nodes dial it, or only its own node listens at it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Dialled,
    Listened,
}

/// Returns whether a text has the form of an address that other nodes can dial.
#[must_use]
pub fn is_dialled_addr(addr: &str) -> bool {
    check_addr(addr, Use::Dialled).is_ok()
}

fn check_addr(addr: &str, used: Use) -> Result<(), AddrProblem> {
    if addr.len() > limits::MAX_ADDR_BYTES {
        return Err(AddrProblem::TooLong);
    }
    let (host, port) = addr.rsplit_once(':').ok_or(AddrProblem::NoPort)?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(AddrProblem::Port);
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip = match bracketed {
        Some(inner) => Some(IpAddr::V6(inner.parse().map_err(|_| AddrProblem::Host)?)),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    match ip {
        Some(ip) if ip.is_unspecified() && used == Use::Dialled => Err(AddrProblem::Unspecified),
        Some(_) => Ok(()),
        None if is_dns_name(host) => Ok(()),
        None => Err(AddrProblem::Host),
    }
}

/// Returns whether a text is a DNS name. A text whose last label is a number is refused, because it would be a mistyped
/// IPv4 address. Labels may contain underscores, as names in Compose and in Windows networks do. DNS does not allow
/// underscores in host names, but resolvers and certificates accept them.
fn is_dns_name(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let numeric = host.rsplit('.').next().is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    let is_label = |label: &str| is_dns_label(&label.replace('_', "x"));
    host.len() <= MAX_DNS_NAME_BYTES && !numeric && host.split('.').all(is_label)
}

/// Returns whether a text can be the name of a set or a node.
#[must_use]
pub fn is_dns_label(label: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=limits::MAX_NAME_BYTES).contains(&label.len())
        && label.bytes().all(inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
