//! The command `cert issue`.

use std::path::PathBuf;

use clap::Args;
use seq_auth::authority::Request;
use seq_auth::{Identity, Role};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::{security, set_file};
use seq_core::set_spec::SetSpec;

use super::{CertDir, days, print};

/// Name of an operator. When the command issues certificates to the nodes of set files, it also issues a certificate to
/// this operator.
const OPERATOR: &str = "admin";

/// Validity, in days, of an authority that the command creates because there is none yet.
const AUTHORITY_DAYS: u32 = 3_650;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr cert issue --set sets/three-node.toml      an authority, all nodes, an operator\n  \
                        seqsvr cert issue client/backend viewer/console   of the directory's cluster\n  \
                        seqsvr cert issue proxy/p1 --host p1.example.org\n\n\
                        Existing certificates stay unchanged; `seqsvr cert rotate` renews them.\n\n\
                        Exit codes: 0 made, 1 a file cannot be written, 2 a wrong holder, host or set file, or no authority."
)]
pub struct IssueArgs {
    /// Holders: client/NAME, operator/NAME, viewer/NAME, metrics/NAME, proxy/NAME, store/SET/NODE,
    /// alloc/SET/NODE.
    #[arg(value_name = "HOLDER", required_unless_present = "sets")]
    holders: Vec<String>,
    /// Set files, or directories of them. Each node gets a certificate, and so does operator/admin.
    #[arg(long = "set", value_name = "FILE|DIR")]
    sets: Vec<PathBuf>,
    /// DNS names and IP addresses at which clients dial the named holders. Nodes of set files get the hosts of their
    /// addresses.
    #[arg(long = "host", value_name = "HOST", requires = "holders")]
    hosts: Vec<String>,
    /// Validity of the certificates.
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=18_250))]
    days: u32,
}

pub(super) fn run(args: &IssueArgs, output: &Output) -> anyhow::Result<Exit> {
    let sets = sets(&args.sets)?;
    let dir = security::dir();
    let directory = match sets.first() {
        Some((cluster, _)) if !CertDir::is_one(dir) => {
            note(format_args!("made a certificate authority for cluster {cluster} in {}", dir.display()));
            CertDir::create(dir, cluster, days(AUTHORITY_DAYS))?
        }
        _ => CertDir::open(dir)?,
    };
    let authority = directory.authority()?;
    let mut requests = Vec::new();
    for (cluster, set) in &sets {
        requests.extend(nodes(cluster, set)?);
    }
    if let Some((cluster, _)) = sets.first() {
        requests.push((Identity::of_cluster(cluster, Role::Operator, OPERATOR)?, Vec::new()));
    }
    for holder in &args.holders {
        let identity = Identity::in_cluster(authority.cluster(), holder);
        let identity = identity.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        requests.push((identity, args.hosts.clone()));
    }
    let mut written = Vec::new();
    for (identity, hosts) in requests {
        let path = directory.path_of(&identity);
        if path.exists() {
            note(format_args!("{} exists and is kept", path.display()));
            continue;
        }
        let request = Request { identity, hosts, validity: days(args.days) };
        let not_after = directory.issue(&authority, &request, &path)?;
        written.push((path, not_after));
    }
    print(output, &written)
}

/// Reads set files. Returns each set with the name of its cluster, which must be the same for all of them.
fn sets(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, SetSpec)>> {
    let (files, problems) = set_file::load_all(paths);
    if !problems.is_empty() {
        return Err(set_file::failure(Exit::Usage, &problems).into());
    }
    let sets: Vec<(String, SetSpec)> = files.into_iter().map(|file| (file.cluster(), file.spec)).collect();
    if let [(one, first), ..] = &*sets
        && let Some((other, set)) = sets.iter().find(|(cluster, _)| cluster != one)
    {
        let what = format!(
            "{} is of cluster {one} and {} of {other}, but an authority belongs to one cluster",
            first.name, set.name
        );
        return Err(Failure::new(Exit::Usage, what)
            .hint("name the files of one cluster, and pass another --certs for another cluster")
            .into());
    }
    Ok(sets)
}

/// Returns the identity of each node of a set, with the hosts in all addresses of the node.
fn nodes(cluster: &str, set: &SetSpec) -> anyhow::Result<Vec<(Identity, Vec<String>)>> {
    let stores = set.stores.iter().map(|store| {
        let addrs = [&store.addr, &store.raft, &store.http].into_iter().chain(&store.admin);
        (Role::Store, &store.name, addrs.collect::<Vec<_>>())
    });
    let allocs = set.allocs.iter().map(|alloc| {
        let addrs = [&alloc.addr, &alloc.peer, &alloc.http].into_iter().chain(&alloc.redis).chain(&alloc.redis_cluster);
        (Role::Alloc, &alloc.name, addrs.collect::<Vec<_>>())
    });
    stores
        .chain(allocs)
        .map(|(role, name, addrs)| {
            let identity = Identity::of_node(cluster, role, &set.name, name);
            let identity = identity.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            let mut hosts: Vec<String> = addrs.into_iter().map(|addr| set_file::host(addr).to_owned()).collect();
            hosts.sort();
            hosts.dedup();
            Ok((identity, hosts))
        })
        .collect()
}
