//! A cluster of seqsvr under measurement: one store, and allocators with one serving thread each, as separate
//! processes. The allocators are measured, the store runs beside them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::peer::{Peer, free_port};
use crate::tool;

/// Uids of the set.
pub(crate) const UIDS: Range<u64> = 0..1_000_000;

/// Uids of a section.
const SECTION_SIZE: u64 = 100_000;

/// Evaluations of the cluster until it must be ready, and the interval between them: an allocator gets its sections
/// within seconds.
const POLLS: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A running cluster.
pub(crate) struct Cluster {
    seqsvr: PathBuf,
    /// The allocators, with the store beside them.
    pub(crate) peer: Peer,
    /// Ports of the allocators' Redis endpoints.
    pub(crate) redis: Vec<String>,
    /// The set file.
    set: String,
    /// Flags of commands that show a certificate; empty without TLS.
    flags: String,
}

impl Cluster {
    /// Starts a store and so many allocators, and waits until each of these owns its share of the sections. `under` is
    /// a program, with its arguments, that runs the allocators.
    pub(crate) async fn start(seqsvr: &Path, dir: &Path, allocs: usize, under: &[&str]) -> anyhow::Result<Cluster> {
        Cluster::start_with(seqsvr, dir, allocs, under, None).await
    }

    /// Starts a store and one allocator with TLS, and with their certificates in the directory `certs`.
    pub(crate) async fn start_secure(seqsvr: &Path, dir: &Path, certs: &Path) -> anyhow::Result<Cluster> {
        Cluster::start_with(seqsvr, dir, 1, &[], Some(&certs.to_string_lossy())).await
    }

    async fn start_with(
        seqsvr: &Path,
        dir: &Path,
        allocs: usize,
        under: &[&str],
        certs: Option<&str>,
    ) -> anyhow::Result<Cluster> {
        let ports: Vec<u16> = (0..4 + 4 * allocs).map(|_| free_port()).collect::<Result<_, _>>()?;
        let at = |index: usize| format!("127.0.0.1:{}", ports[index]);
        let (start, end) = (UIDS.start, UIDS.end);
        let mut text = format!(
            "name = \"compare\"\n{}uids = \"{start}..{end}\"\nsection_size = {SECTION_SIZE}\nstep = 10_000\n\
             [[store]]\nid = 1\nname = \"s1\"\naddr = \"{}\"\nhttp = \"{}\"\nraft = \"{}\"\nadmin = \"{}\"\n",
            if certs.is_some() { "" } else { "plaintext = true\n" },
            at(0),
            at(1),
            at(2),
            at(3)
        );
        for alloc in 0..allocs {
            let [grpc, http, redis, peer] = [4, 5, 6, 7].map(|port| at(port + 4 * alloc));
            let name = alloc + 1;
            text += &format!(
                "[[alloc]]\nname = \"a{name}\"\naddr = \"{grpc}\"\npeer = \"{peer}\"\nhttp = \"{http}\"\nredis = \"{redis}\"\n"
            );
        }
        let set = dir.join("set.toml");
        std::fs::write(&set, text)?;
        let (set, data) = (set.to_string_lossy().into_owned(), dir.join("s1").to_string_lossy().into_owned());
        let (mut server_flags, mut flags) = (Vec::new(), String::new());
        if let Some(certs) = certs {
            tool::output(seqsvr, &["cert", "issue", "--set", &set, "--certs", certs]).await?;
            server_flags.extend(["--certs", certs]);
            flags = format!(" --certs {certs}");
        }
        let mut store = Peer::new(dir);
        let args = ["store", "--set", &set, "--id", "1", "--data", &data, "--form"];
        store.start(seqsvr, &[&args[..], &server_flags].concat(), &at(0)).await?;
        let nodes = dir.join("nodes");
        std::fs::create_dir(&nodes)?;
        let mut peer = Peer::new(&nodes);
        for alloc in 0..allocs {
            let name = format!("a{}", alloc + 1);
            let program = seqsvr.to_string_lossy();
            let args = [&*program, "alloc", "--set", &set, "--name", &name, "--cores", "1"];
            let command = [under, &args, &server_flags].concat();
            peer.start(Path::new(command[0]), &command[1..], &at(4 + 4 * alloc)).await?;
        }
        peer.beside(store);
        let redis = (0..allocs).map(|alloc| ports[6 + 4 * alloc].to_string()).collect();
        let cluster = Cluster { seqsvr: seqsvr.to_owned(), peer, redis, set, flags };
        cluster.ready().await?;
        Ok(cluster)
    }

    /// Waits until every allocator owns its share and each section has an owner.
    async fn ready(&self) -> anyhow::Result<()> {
        let sections = (UIDS.end - UIDS.start) / SECTION_SIZE;
        for _ in 0..POLLS {
            let owned: Vec<u64> = self.field("sections").await.unwrap_or_default();
            let share = sections / self.peer.addrs.len() as u64;
            if owned.len() == self.peer.addrs.len() && owned.iter().all(|owned| *owned >= share) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!("the cluster does not become ready")
    }

    /// Runs a command for the set.
    pub(crate) async fn command(&self, args: &[&str]) -> anyhow::Result<String> {
        tool::output(&self.seqsvr, &[args, &["--set", &self.set]].concat()).await
    }

    /// Flags of commands for it, behind a space each.
    pub(crate) fn flags(&self) -> &str {
        &self.flags
    }

    /// The URL of an allocator.
    pub(crate) fn url(&self, alloc: usize) -> String {
        let scheme = if self.flags.is_empty() { "http" } else { "https" };
        format!("{scheme}://{}", self.peer.addrs[alloc])
    }

    /// A number of each allocator's status.
    async fn field(&self, name: &str) -> anyhow::Result<Vec<u64>> {
        let mut args = vec!["status".to_owned(), "-o".to_owned(), "json".to_owned()];
        args.extend((0..self.peer.addrs.len()).flat_map(|alloc| ["--addr".to_owned(), self.url(alloc)]));
        args.extend(self.flags.split_whitespace().map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let status: Value = serde_json::from_str(&tool::output(&self.seqsvr, &args).await?)?;
        let allocs = status["allocs"].as_array().context("a status without allocators")?;
        Ok(allocs.iter().filter_map(|alloc| alloc[name].as_u64()).collect())
    }

    /// The uids of a section that the first allocator owns, and those of one that it forwards for.
    pub(crate) async fn owned_and_forwarded(&self) -> anyhow::Result<[Range<u64>; 2]> {
        let mut found = [None, None];
        let url = format!("http://{}", self.peer.addrs[0]);
        for first in UIDS.step_by(SECTION_SIZE as usize) {
            let before: u64 = self.field("forwarded").await?.into_iter().sum();
            // The SDK would ask the owner; this call goes to the node.
            let uid = first.to_string();
            let call = ["bench", "--addr", &url, "--endpoint", "grpc", "--calls", "1", "--warmup-s", "0"];
            let one = ["--concurrency", "1", "--first-uid", &uid, "--uids", "1"];
            tool::output(&self.seqsvr, &[&call[..], &one].concat()).await?;
            let after: u64 = self.field("forwarded").await?.into_iter().sum();
            found[usize::from(after > before)].get_or_insert(first..first + SECTION_SIZE);
        }
        let [owned, forwarded] = found;
        ensure!(owned.is_some() && forwarded.is_some(), "the first allocator owns all sections, or none");
        Ok([owned, forwarded].map(Option::unwrap_or_default))
    }
}
