//! The banner of a development cluster that is ready: as text, and as one JSON object.

use std::env;
use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use seq_core::set_spec::SetSpec;
use serde::Serialize;

use crate::dev::Data;
use crate::environment;
use crate::output::{Table, digits, grouped};
use crate::target::DEFAULT_ADDR;
use crate::version::{REVISION, VERSION};

/// The addresses and parameters of the cluster. As JSON it is printed once, when the cluster is ready.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Banner {
    version: &'static str,
    revision: &'static str,
    pid: u32,
    ready: bool,
    seconds: f64,
    set: String,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    sections: u32,
    step: u64,
    stores: Vec<Node>,
    allocs: Vec<Node>,
    /// Address for metrics and probes.
    http: String,
    /// Prefix of the uid in a Redis key.
    redis_prefix: String,
    data: String,
    data_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Node {
    name: String,
    /// URL of the gRPC port.
    grpc: String,
    /// Address of the Redis port.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<bool>,
}

/// Number of sections of a validated set.
pub(super) fn sections(spec: &SetSpec) -> u32 {
    spec.validate().expect("the set was validated when it was read").sections()
}

impl Banner {
    pub(super) fn new(spec: &SetSpec, redis_prefix: &str, http: &TcpListener, data: &Data) -> anyhow::Result<Banner> {
        let url = |addr: &str| format!("http://{addr}");
        let store = |store: &seq_core::set_spec::StoreSpec| Node {
            name: store.name.clone(),
            grpc: url(&store.addr),
            redis: None,
            id: Some(store.id),
            leader: Some(false),
        };
        let alloc = |alloc: &seq_core::set_spec::AllocSpec| Node {
            name: alloc.name.clone(),
            grpc: url(&alloc.addr),
            redis: alloc.redis.clone(),
            id: None,
            leader: None,
        };
        Ok(Banner {
            version: VERSION,
            revision: REVISION,
            pid: std::process::id(),
            ready: false,
            seconds: 0.0,
            set: spec.name.clone(),
            uid_start: spec.uids.start,
            uid_end: spec.uids.end,
            section_size: spec.section_size,
            sections: sections(spec),
            step: spec.step,
            stores: spec.stores.iter().map(store).collect(),
            allocs: spec.allocs.iter().map(alloc).collect(),
            http: url(&http.local_addr()?.to_string()),
            redis_prefix: redis_prefix.to_owned(),
            data: data.path().display().to_string(),
            data_kept: matches!(data, Data::Kept(_)),
        })
    }

    /// Marks the cluster as ready.
    pub(super) fn ready(&mut self, after: Duration, leader: Option<u64>) {
        self.ready = true;
        self.seconds = (after.as_secs_f64() * 1_000.0).round() / 1_000.0;
        for store in &mut self.stores {
            store.leader = Some(store.id == leader);
        }
    }

    /// The first line, printed before anything can fail.
    pub(super) fn title(&self) -> String {
        let kept = if self.data_kept { "kept" } else { "removed on exit; --data DIR keeps it" };
        format!(
            "seqsvr {} ({})  development cluster in one process, data in {} ({kept})",
            self.version, self.revision, self.data
        )
    }

    /// The text printed once the cluster is ready.
    pub(super) fn render(&self) -> String {
        self.render_for(&program())
    }

    fn render_for(&self, program: &str) -> String {
        let names = |nodes: &[Node]| {
            let name = |node: &Node| format!("{}{}", node.name, if node.leader == Some(true) { "*" } else { "" });
            nodes.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        let mut table = Table::new(&["set", "uids", "stores", "allocs", "sections", "step"]);
        table.row([
            self.set.clone(),
            format!("{}..{}", grouped(self.uid_start), grouped(self.uid_end)),
            names(&self.stores),
            names(&self.allocs),
            grouped(u64::from(self.sections)),
            grouped(self.step),
        ]);
        let (grpc, prefix) = (&self.allocs[0].grpc, &self.redis_prefix);
        let addr = if grpc == DEFAULT_ADDR { String::new() } else { format!(" --addr {grpc}") };
        let mut text: String = table.render().lines().map(|line| format!("  {line}\n")).collect();
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes every write");
        let redis = self.allocs[0].redis.as_deref();
        let redis_port = redis.map(|addr| format!("   Redis {addr}")).unwrap_or_default();
        line(format_args!("  gRPC {}{redis_port}   metrics {}/metrics", grpc.trim_start_matches("http://"), self.http));
        line(format_args!("ready in {:.1} s. Try, in another terminal:", self.seconds));
        line(format_args!("  {program} next 42{addr}"));
        line(format_args!("  {program} status{addr}"));
        if let Some((host, port)) = redis.and_then(|addr| addr.rsplit_once(':')) {
            let host = if host == "127.0.0.1" { String::new() } else { format!(" -h {host}") };
            line(format_args!("  redis-cli{host} -p {port} INCR {prefix}42"));
        }
        line(format_args!("  curl -s {}/metrics | grep ceiling_raises", self.http));
        text
    }
}

/// The command that starts this program from here: its name if it is on the PATH, else its path.
fn program() -> String {
    let name = "seqsvr";
    let Ok(path) = env::current_exe() else { return name.to_owned() };
    let on_path =
        path.file_name().is_some_and(|file| file == name) && path.parent().is_some_and(environment::is_on_path);
    if on_path {
        return name.to_owned();
    }
    let here = env::current_dir().ok();
    let relative = here.as_deref().and_then(|here: &Path| path.strip_prefix(here).ok());
    as_typed(relative.unwrap_or(&path))
}

/// A path as typed in a shell, which searches a bare name only on the PATH.
fn as_typed(path: &Path) -> String {
    let is_bare = path.components().count() == 1 && path.is_relative();
    if is_bare { format!("./{}", path.display()) } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::set_file;

    #[test]
    fn a_program_in_this_directory_is_named_as_a_shell_runs_it() {
        let names = ["seqsvr", "target/release/seqsvr", "/usr/bin/seqsvr"].map(|path| as_typed(Path::new(path)));
        assert_eq!(names, ["./seqsvr", "target/release/seqsvr", "/usr/bin/seqsvr"]);
    }

    #[test]
    fn a_ready_cluster_prints_commands_to_try() {
        let set = set_file::parse("dev.toml".as_ref(), set_file::DEV).unwrap();
        let http = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut banner = Banner::new(&set.spec, "seq:", &http, &Data::Kept("data".into())).unwrap();
        banner.ready(Duration::from_millis(812), Some(2));
        banner.http = "http://127.0.0.1:7180".to_owned();
        let revision = banner.revision;
        expect![[r#"
            seqsvr 0.1.0 (3f1c2aa)  development cluster in one process, data in data (kept)
              set  uids          stores     allocs  sections  step
              dev  0..1,000,000  s1 s2* s3  a1 a2   10        10,000
              gRPC 127.0.0.1:7100   Redis 127.0.0.1:7179   metrics http://127.0.0.1:7180/metrics
            ready in 0.8 s. Try, in another terminal:
              seqsvr next 42
              seqsvr status
              redis-cli -p 7179 INCR seq:42
              curl -s http://127.0.0.1:7180/metrics | grep ceiling_raises
        "#]]
        .assert_eq(&format!("{}\n{}", banner.title().replace(revision, "3f1c2aa"), banner.render_for("seqsvr")));
        banner.allocs[0].grpc = "http://127.0.0.1:40001".to_owned();
        assert!(banner.render_for("seqsvr").contains("\n  seqsvr next 42 --addr http://127.0.0.1:40001\n"));
    }
}
