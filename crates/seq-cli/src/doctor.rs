//! The command `doctor`, which checks whether the nodes of a set can run on this machine. An operator may run it before
//! the first start of the nodes, and at any later time.
//!
//! **Invariant:** the command changes nothing. It opens the ports of the nodes only to close them again immediately,
//! and writes to no data directory.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use rustix::process::{Resource, getrlimit};
use seq_auth::Role;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, grouped};
use seq_command::set_file::{self, SetFile, host};
use seq_command::time_limit::time;
use seq_command::version::VERSION;
use seq_command::{security, utc};
use seq_core::set_spec::PortSpec;
use seq_proto::v1::StatusRequest;
use seq_proto::v1::status_service_client::StatusServiceClient;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream, lookup_host};

mod verdict;

use verdict::{Finding, Level, certificate, disk, files, verdict};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr doctor --set /etc/seqsvr/set.toml --data /var/lib/seqsvr/store-1\n  \
                        seqsvr doctor --set sets/three-node.toml -o json | jq -r '.items[] | select(.level != \"ok\")'\n\n\
                        The command checks the ports, certificates and data directories of the nodes whose addresses belong to this machine, \
                        and whether all other nodes resolve and can be reached. Nodes may run; their versions are compared. The time is \
                        shown for a comparison by eye; certificates must be valid at that time.\n\n\
                        Exit codes: 0 no problem, 1 a problem, 2 a wrong set file.")]
pub struct DoctorArgs {
    /// The set file.
    #[arg(long, value_name = "FILE", env = "SEQSVR_SET")]
    set: PathBuf,
    /// A data directory of a store on this machine, which need not exist; repeat the flag for more.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    /// Time limit of each address.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
}

const DAY_SECONDS: u64 = 24 * 3600;

/// Kinds of ports by which the command finds out on which machine a node runs. Other nodes connect to these ports, so
/// their addresses are different on every machine. Other kinds, such as admin ports, may have the same loopback address
/// on all machines.
const MAIN: [&str; 2] = ["peers", "callers"];

/// A port of a node in the set file.
struct Port<'a> {
    node: &'a str,
    /// Kind of the port, such as `callers`.
    what: &'static str,
    addr: &'a str,
    /// Address on which the node listens, if it differs from the address to which other nodes connect.
    listen: Option<&'a str>,
}

/// Finding about a port of a node, and whether the address of the port belongs to this machine.
struct Looked {
    finding: Finding,
    is_here: bool,
}

pub async fn run(args: DoctorArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = set_file::read(&args.set)?;
    let now = utc::now();
    let mut findings = vec![Finding::ok("time", "this machine", format!("{} (UTC)", utc::text(now)))];
    findings.push(files(getrlimit(Resource::Nofile).maximum));
    let ports = ports(&set);
    let looked = join_all(ports.iter().map(|port| look(port, args.timeout))).await;
    let is_main = |port: &Port<'_>, node: &str| port.node == node && MAIN.contains(&port.what);
    let is_here = |node: &str| ports.iter().zip(&looked).any(|(port, looked)| is_main(port, node) && looked.is_here);
    let stores = set.spec.stores.iter().map(|store| (Role::Store, &store.name, &store.addr));
    let allocs = set.spec.allocs.iter().map(|alloc| (Role::Alloc, &alloc.name, &alloc.addr));
    let nodes: Vec<(Role, &String, &String)> = stores.chain(allocs).collect();
    if set.is_secure() {
        for (role, node, _) in nodes.iter().filter(|(_, node, _)| is_here(node)) {
            let credentials = security::of_node(&set, *role, node);
            let left =
                credentials.map(|found| found.map(|found| found.certificate().left(now).as_secs() / DAY_SECONDS));
            findings.push(certificate(&format!("{role}/{node}"), left.map_err(|failure| format!("{failure}"))));
        }
    } else {
        findings.push(Finding::ok(
            "certificates",
            "the set",
            "no certificates are needed: the set file has plaintext = true",
        ));
    }
    for dir in &args.data {
        findings.push(data(dir));
    }
    if args.data.is_empty() && set.spec.stores.iter().any(|store| is_here(&store.name)) {
        findings.push(Finding::warning("disk", "stores here", "not checked", "name their directories with --data"));
    }
    findings.extend(versions(&set, &ports, &looked, args.timeout).await);
    findings.extend(looked.into_iter().map(|looked| looked.finding));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    print(&findings, output)
}

fn ports(set: &SetFile) -> Vec<Port<'_>> {
    fn of<'a>(node: &'a str, port: PortSpec<'a>, what: &'static str) -> Option<Port<'a>> {
        Some(Port { node, what, addr: port.addr?, listen: port.listen })
    }
    let store = |key| if key == "addr" { "peers" } else { key };
    let alloc = |key| match key {
        "addr" => "callers",
        "peer" => "peers",
        key => key,
    };
    let stores = set.spec.stores.iter();
    let stores = stores.flat_map(|spec| spec.ports().map(|port| of(&spec.name, port, store(port.key))));
    let allocs = set.spec.allocs.iter();
    let allocs = allocs.flat_map(|spec| spec.ports().map(|port| of(&spec.name, port, alloc(port.key))));
    stores.chain(allocs).flatten().collect()
}

/// Checks the address of a port. It must resolve. If it belongs to this machine, the port must be free, or the finding
/// is a warning. Otherwise the address must be reachable from this machine.
async fn look(port: &Port<'_>, timeout: Duration) -> Looked {
    let of = format!("{} {} {}", port.node, port.what, port.addr);
    let problem =
        |text: String, next: &str| Looked { finding: Finding::problem("address", &of, text, next), is_here: false };
    let resolved = match tokio::time::timeout(timeout, lookup_host(port.addr)).await {
        Ok(Ok(addrs)) => addrs.collect::<Vec<_>>(),
        Ok(Err(error)) => return problem(format!("does not resolve: {error}"), "DNS, or /etc/hosts of every machine"),
        Err(_) => {
            return problem(format!("does not resolve within {timeout:?}"), "DNS, or /etc/hosts of every machine");
        }
    };
    let listen = match port.listen {
        Some(listen) => lookup_host(listen).await.ok().and_then(|mut addrs| addrs.next()),
        None => None,
    };
    // Unspecified and loopback addresses are ignored. They exist on every machine, so they do not show that the node is
    // on this machine.
    let own = match listen.filter(|addr| !addr.ip().is_unspecified() && !addr.ip().is_loopback()) {
        Some(addr) if is_own(addr.ip()).await => Some(addr),
        _ => None,
    };
    let Some(addr) = own.or(resolved.first().copied()) else {
        return problem(format!("{} resolves to no address", host(port.addr)), "DNS, or /etc/hosts of every machine");
    };
    if is_own(addr.ip()).await {
        let finding = match TcpListener::bind(addr).await {
            Ok(_) => Finding::ok("port", &of, "free"),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                let next = "fine if it is the node itself; otherwise `ss -ltnp` names the process";
                Finding::warning("port", &of, "in use", next)
            }
            Err(error) => Finding::problem(
                "port",
                &of,
                format!("cannot be opened: {error}"),
                "another port, or the permission for it",
            ),
        };
        return Looked { finding, is_here: true };
    }
    let finding = match tokio::time::timeout(timeout, TcpStream::connect(addr)).await {
        Ok(Ok(_)) => Finding::ok("address", &of, "responds"),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Finding::ok("address", &of, "its machine responds, and nothing listens yet")
        }
        Ok(Err(error)) => {
            Finding::problem("address", &of, format!("cannot be reached: {error}"), "routes and firewalls")
        }
        Err(_) => {
            let next = "is its machine up, and does a firewall drop packets to the port?";
            Finding::warning("address", &of, format!("no response within {timeout:?}"), next)
        }
    };
    Looked { finding, is_here: false }
}

/// Returns whether an address belongs to this machine, which is the case if a port can be opened on it.
async fn is_own(addr: IpAddr) -> bool {
    TcpListener::bind((addr, 0)).await.is_ok()
}

/// Returns the finding about a data directory. If it does not exist yet, the finding is about the closest directory
/// above it that exists.
fn data(dir: &Path) -> Finding {
    let Some(there) =
        std::path::absolute(dir).unwrap_or_default().ancestors().find(|path| path.exists()).map(Path::to_owned)
    else {
        return Finding::problem("disk", dir.display(), "no directory above it exists", "mkdir");
    };
    let mode = there.metadata().map(|data| data.permissions().mode());
    let space = rustix::fs::statvfs(&there).map(|disk| (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize));
    let is_made = std::path::absolute(dir).is_ok_and(|dir| dir == there);
    let is_full = is_made && std::fs::read_dir(&there).is_ok_and(|mut entries| entries.next().is_some());
    match (mode, space) {
        (Ok(mode), Ok((free, size))) => disk(&dir.display().to_string(), is_full, is_made.then_some(mode), free, size),
        (Err(error), _) => {
            Finding::problem("disk", dir.display(), format!("cannot be read: {error}"), "its owner and mode")
        }
        (_, Err(error)) => {
            Finding::problem("disk", dir.display(), format!("cannot be read: {error}"), "the file system")
        }
    }
}

/// Requests the versions of all nodes that are running, and compares them with the version of this program.
async fn versions(set: &SetFile, ports: &[Port<'_>], looked: &[Looked], timeout: Duration) -> Vec<Finding> {
    let is_up = |port: &Port<'_>, looked: &Looked| {
        MAIN.contains(&port.what) && ["in use", "responds"].contains(&&*looked.finding.text)
    };
    let up: Vec<&Port<'_>> =
        ports.iter().zip(looked).filter(|(port, looked)| is_up(port, looked)).map(|(port, _)| port).collect();
    if up.is_empty() || security::use_tls(set.is_secure()).is_err() {
        return vec![Finding::ok("version", "this binary", VERSION)];
    }
    let pool = security::pool();
    let asked = up.iter().map(|port| async {
        let mut node = StatusServiceClient::new(pool.get(port.addr).ok()?);
        let response = tokio::time::timeout(timeout, node.status(StatusRequest {})).await.ok()?.ok()?.into_inner();
        Some((response.node, response.set, response.version))
    });
    let mut found: Vec<(String, String, String)> = join_all(asked).await.into_iter().flatten().collect();
    found.sort();
    found.dedup();
    let compared = found.into_iter().map(|(node, of, version)| {
        let is_own = of == set.spec.name;
        match (is_own, version == VERSION) {
            (false, _) => Finding::problem(
                "version",
                &node,
                format!("a node of set {of} listens there"),
                "another port for one of them",
            ),
            (true, true) => Finding::ok("version", &node, version),
            (true, false) => Finding::warning(
                "version",
                &node,
                format!("{version}, and this binary is {VERSION}"),
                "neighbouring releases run together; upgrade node by node",
            ),
        }
    });
    let compared: Vec<Finding> = compared.collect();
    if compared.is_empty() { vec![Finding::ok("version", "this binary", VERSION)] } else { compared }
}

fn print(findings: &[Finding], output: &Output) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Page<'a> {
        problems: usize,
        warnings: usize,
        items: &'a [Finding],
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if output.is_json() {
        output.json(&Page { problems, warnings, items: findings })?;
    } else {
        let mut table = Table::new(&["result", "check", "of", "found"]);
        for Finding { level, check, of, text, next } in findings {
            let next = next.as_ref().map(|next| format!("; next: {next}")).unwrap_or_default();
            table.row([level.word().to_owned(), (*check).to_owned(), of.clone(), format!("{text}{next}")]);
        }
        output.table(&table)?;
        output.line(verdict(problems, warnings, &grouped(findings.len() as u64)))?;
    }
    Ok(if problems > 0 { Exit::Failed } else { Exit::Ok })
}
