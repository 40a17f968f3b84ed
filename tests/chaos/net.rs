//! A private network: a namespace for each host, connected by a bridge in another namespace; the callers are in the
//! machine's own namespace, with one interface on the bridge.
//!
//! Invariant: every name contains the process id, and all parts are removed when their [`Net`] is dropped, even after a
//! panic; the next process removes the parts of a killed process. The machine's own firewall is never changed: packets
//! are dropped in the namespace of a host, on input, or on output to the callers.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::machine::{sh, try_run};
use crate::memory_groups;

/// Prefix of every name.
const PREFIX: &str = "sq";

/// Octets of the networks in 198.18.0.0/15, which is reserved for such tests.
const FIRST_OCTETS: [u8; 2] = [198, 18];

/// The callers' host number.
const CALLERS: u8 = 1;

/// A script that forwards the frames of one host, some of them late.
const DELAY: &str = include_str!("delay.py");

/// A bridge with hosts.
pub(crate) struct Net {
    tag: String,
    net: [u8; 3],
    hosts: Vec<Host>,
    /// Processes that delay the packets of hosts.
    delays: Vec<Child>,
}

/// A namespace with one address.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) namespace: String,
    pub(crate) ip: Ipv4Addr,
    port: String,
}

impl Net {
    /// Creates a bridge with only the callers.
    pub(crate) fn new() -> Net {
        static NETS: AtomicU8 = AtomicU8::new(0);
        let number = NETS.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let net = Net {
            tag: format!("{PREFIX}{pid:x}x{number}"),
            net: free_net(pid, number),
            hosts: Vec::new(),
            delays: Vec::new(),
        };
        let (tag, bridge, ip) = (&net.tag, net.bridge(), net.address(CALLERS));
        sh(&format!("ip netns add {bridge}"));
        sh(&format!("ip -n {bridge} link add br0 type bridge"));
        sh(&format!("ip -n {bridge} link set br0 up"));
        sh(&format!("ip link add {tag} type veth peer name callers netns {bridge}"));
        sh(&format!("ip -n {bridge} link set callers master br0 up"));
        sh(&format!("ip addr add {ip}/24 dev {tag}"));
        sh(&format!("ip link set {tag} up"));
        net
    }

    /// Adds a host.
    pub(crate) fn host(&mut self, name: &str) -> Host {
        let number = 10 + u8::try_from(self.hosts.len()).expect("a network has few hosts");
        let (bridge, ip) = (self.bridge(), self.address(number));
        let host = Host { namespace: format!("{}-{name}", self.tag), ip, port: name.to_owned() };
        let namespace = &host.namespace;
        sh(&format!("ip netns add {namespace}"));
        // From here, the namespace is removed together with the other namespaces.
        self.hosts.push(host.clone());
        sh(&format!("ip -n {bridge} link add {name} type veth peer name eth0 netns {namespace}"));
        sh(&format!("ip -n {bridge} link set {name} master br0 up"));
        sh(&format!("ip -n {namespace} addr add {ip}/24 dev eth0"));
        sh(&format!("ip -n {namespace} link set eth0 up"));
        sh(&format!("ip -n {namespace} link set lo up"));
        host
    }

    /// Delays the packets between these hosts to this round trip. Packets of other hosts are not delayed.
    pub(crate) fn delay_packets(&mut self, hosts: &[Host], round_trip: Duration) {
        let bridge = self.bridge();
        let one_way = (round_trip / 2).as_millis().to_string();
        for host in hosts {
            let port = &host.port;
            let others = hosts.iter().filter(|other| other.ip != host.ip).map(|other| other.ip.to_string());
            sh(&format!("ip -n {bridge} link add {port}-in type veth peer name {port}-out"));
            sh(&format!("ip -n {bridge} link set {port}-in up"));
            sh(&format!("ip -n {bridge} link set {port} nomaster"));
            sh(&format!("ip -n {bridge} link set {port}-out master br0 up"));
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &bridge, "python3", "-c", DELAY, port, &format!("{port}-in"), &one_way]);
            let mut child = command.args(others).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
            let mut ready = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
            self.delays.push(child);
            assert_eq!(ready, "ready\n", "packets of {port} are forwarded");
        }
    }

    /// Drops this percentage of the packets between these hosts.
    pub(crate) fn lose_packets(&self, hosts: &[Host], percent: u32) {
        lossy(hosts, percent, "-A");
    }

    /// Undoes one call of [`Net::lose_packets`].
    pub(crate) fn lose_no_packets(&self, hosts: &[Host], percent: u32) {
        lossy(hosts, percent, "-D");
    }

    /// Returns the number of packets that [`Net::lose_packets`] dropped.
    pub(crate) fn lost_packets(&self, hosts: &[Host]) -> u64 {
        let lost = |host: &Host| -> u64 {
            let rules = sh(&format!("ip netns exec {} iptables -w 5 -L INPUT -v -n -x", host.namespace));
            let random = rules.lines().filter(|line| line.contains("statistic mode random"));
            random.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum()
        };
        hosts.iter().map(lost).sum()
    }

    /// Drops all packets from `from` to `to`; packets from `to` still arrive.
    pub(crate) fn drop_packets(&self, from: &Host, to: &Host) {
        iptables(to, &format!("-A INPUT -s {} -j DROP", from.ip));
    }

    /// Undoes one call of [`Net::drop_packets`].
    pub(crate) fn deliver_packets(&self, from: &Host, to: &Host) {
        iptables(to, &format!("-D INPUT -s {} -j DROP", from.ip));
    }

    /// Drops the packets of connections that `from` makes to this port of `to`, even if they exist already; connections
    /// from `to` to `from` are not affected.
    pub(crate) fn refuse_connections(&self, from: &Host, to: &Host, port: u16) {
        iptables(to, &format!("-A INPUT -s {} -p tcp --dport {port} -j DROP", from.ip));
    }

    /// Drops all packets between two hosts, in both directions.
    pub(crate) fn cut(&self, one: &Host, other: &Host) {
        self.drop_packets(one, other);
        self.drop_packets(other, one);
    }

    /// Drops all packets to a host.
    pub(crate) fn cut_in(&self, host: &Host) {
        iptables(host, "-A INPUT ! -i lo -j DROP");
    }

    /// Drops all packets from a host, to other hosts and to the callers.
    pub(crate) fn cut_out(&self, host: &Host) {
        for other in self.hosts.iter().filter(|other| other.ip != host.ip) {
            self.drop_packets(host, other);
        }
        iptables(host, &format!("-A OUTPUT -d {} -j DROP", self.address(CALLERS)));
    }

    /// Undoes every cut.
    pub(crate) fn heal(&self) {
        for host in &self.hosts {
            iptables(host, "-F");
        }
    }

    /// Takes a host's link down: packets in flight are lost, and its connections are not closed.
    pub(crate) fn unplug(&self, host: &Host) {
        sh(&format!("ip -n {} link set {} down", self.bridge(), host.port));
    }

    /// Takes a host's link up again.
    pub(crate) fn plug(&self, host: &Host) {
        sh(&format!("ip -n {} link set {} up", self.bridge(), host.port));
    }

    fn bridge(&self) -> String {
        format!("{}-bridge", self.tag)
    }

    fn address(&self, number: u8) -> Ipv4Addr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, number)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for delay in &mut self.delays {
            let _ = delay.kill();
            let _ = delay.wait();
        }
        let namespaces = self.hosts.iter().map(|host| host.namespace.clone()).chain([self.bridge()]);
        for namespace in namespaces {
            remove_namespace(&namespace);
        }
        // The interface does not exist any more if its other end was removed with the bridge.
        let _ = try_run("ip", &["link", "del", &self.tag]);
    }
}

/// Adds or deletes the rules of a lossy link between hosts.
fn lossy(hosts: &[Host], percent: u32, action: &str) {
    let random = format!("-m statistic --mode random --probability {}", f64::from(percent) / 100.0);
    for to in hosts {
        for from in hosts.iter().filter(|from| from.ip != to.ip) {
            iptables(to, &format!("{action} INPUT -s {} {random} -j DROP", from.ip));
        }
    }
}

fn iptables(host: &Host, rule: &str) {
    sh(&format!("ip netns exec {} iptables -w 5 {rule}", host.namespace));
}

/// Returns a network that no interface of this machine is in.
fn free_net(pid: u32, number: u8) -> [u8; 3] {
    let taken = sh("ip -o -4 addr");
    let start = pid.wrapping_mul(31).wrapping_add(u32::from(number));
    let [a, b] = FIRST_OCTETS;
    (start..start + 512)
        .map(|at| [a, b + (at >> 8 & 1) as u8, at as u8])
        .find(|[a, b, c]| !taken.contains(&format!(" {a}.{b}.{c}.")))
        .expect("one of 512 networks is free")
}

fn remove_namespace(namespace: &str) {
    for pid in try_run("ip", &["netns", "pids", namespace]).unwrap_or_default().split_whitespace() {
        let _ = try_run("kill", &["-9", pid]);
    }
    let _ = try_run("ip", &["netns", "del", namespace]);
}

/// Removes the namespaces, control groups and files of killed processes; each name contains its process id.
pub(crate) fn sweep() {
    let is_dead = |name: &str| {
        let pid = name.strip_prefix(PREFIX)?.split_once('x')?.0;
        let pid = u32::from_str_radix(pid, 16).ok()?;
        Some(!Path::new(&format!("/proc/{pid}")).exists())
    };
    for line in sh("ip netns list").lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if is_dead(name) == Some(true) {
            remove_namespace(name);
        }
    }
    memory_groups::sweep(|name| is_dead(name) == Some(true));
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(is_dead) == Some(true) {
            for disk in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = try_run("umount", &[&disk.path().display().to_string()]);
            }
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns a name by which the next [`sweep`] finds a part of this process.
pub(crate) fn name_of_part(part: &str) -> String {
    format!("{PREFIX}{:x}x-{part}", std::process::id())
}

/// Creates a directory that is removed when it is dropped, or by the next [`sweep`].
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix(&name_of_part("")).tempdir().unwrap()
}
