//! The banner of a development cluster, which is printed as text or as one JSON object.

use std::env;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seq_api::ids::IdSeries;
use seq_command::environment;
use seq_command::output::{Table, digits, grouped};
use seq_command::target::DEFAULT_ADDR;
use seq_command::version::{VERSION, revision};
use seq_core::set_spec::{AllocSpec, SetSpec, StoreSpec};
use seq_kit::listen::Sockets;
use serde::Serialize;

use crate::dev::Data;

/// The addresses and parameters of a development cluster. The JSON form is printed only once, when the cluster is
/// ready.
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
    /// The sets other than the first set. They begin without sections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_sets: Vec<FurtherSet>,
    /// Names of the series that are not retired; empty until the cluster is ready.
    series: Vec<String>,
    /// The first series for which the server chooses the lane. The name of such a series alone is enough to get an id.
    #[serde(skip)]
    series_to_try: Option<String>,
    /// URL of the port for metrics and probes.
    http: String,
    /// URL of the web console.
    console: String,
    /// Prefix of the uid in a Redis key.
    redis_prefix: String,
    data: String,
    data_kept: bool,
}

/// A set in addition to the first set. It has the same uids.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct FurtherSet {
    set: String,
    stores: Vec<Node>,
    allocs: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Node {
    name: String,
    /// URL of the gRPC port. It is the port for callers of an AllocSvr, or the port for peers of a store.
    grpc: String,
    /// URL of the admin port; only a store has this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<String>,
    /// Address of the Redis port.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<String>,
    /// Address of the port for clients of Redis Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis_cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<bool>,
}

/// Returns the number of sections of a validated set.
pub(super) fn sections(spec: &SetSpec) -> u32 {
    spec.validate().expect("the set was validated when it was read").sections()
}

impl Node {
    fn store(store: &StoreSpec) -> Node {
        let (name, grpc) = (store.name.clone(), format!("http://{}", store.addr));
        let admin = store.admin.as_ref().map(|addr| format!("http://{addr}"));
        Node { name, grpc, admin, redis: None, redis_cluster: None, id: Some(store.id), leader: Some(false) }
    }

    fn alloc(alloc: &AllocSpec) -> Node {
        let (name, grpc) = (alloc.name.clone(), format!("http://{}", alloc.addr));
        let (redis, redis_cluster) = (alloc.redis.clone(), alloc.redis_cluster.clone());
        Node { name, grpc, admin: None, redis, redis_cluster, id: None, leader: None }
    }
}

impl Banner {
    /// Returns the banner of a cluster with the given sets. When a cluster is new, its first set has all sections.
    pub(super) fn new(
        specs: &[&SetSpec],
        redis_prefix: &str,
        (http, console): (&Sockets, String),
        data: &Data,
    ) -> anyhow::Result<Banner> {
        let nodes = |spec: &SetSpec| -> (Vec<Node>, Vec<Node>) {
            (spec.stores.iter().map(Node::store).collect(), spec.allocs.iter().map(Node::alloc).collect())
        };
        let (spec, further) = specs.split_first().expect("there is a set");
        let (stores, allocs) = nodes(spec);
        let further = further.iter().map(|spec| {
            let (stores, allocs) = nodes(spec);
            FurtherSet { set: spec.name.clone(), stores, allocs }
        });
        Ok(Banner {
            version: VERSION,
            revision: revision(),
            pid: std::process::id(),
            ready: false,
            seconds: 0.0,
            set: spec.name.clone(),
            uid_start: spec.uids.start,
            uid_end: spec.uids.end,
            section_size: spec.section_size,
            sections: sections(spec),
            step: spec.step,
            stores,
            allocs,
            further_sets: further.collect(),
            series: Vec::new(),
            series_to_try: None,
            http: format!("http://{}", http.local_addr()?),
            console,
            redis_prefix: redis_prefix.to_owned(),
            data: data.path().display().to_string(),
            data_kept: matches!(data, Data::Kept(_)),
        })
    }

    /// Marks the cluster as ready, and adds its series.
    pub(super) fn ready(&mut self, after: Duration, leader: Option<u64>, series: &[Arc<IdSeries>]) {
        self.ready = true;
        let serve = || series.iter().filter(|series| !series.retired);
        self.series = serve().map(|series| series.name.clone()).collect();
        self.series_to_try = serve().find(|series| !series.named_lanes).map(|series| series.name.clone());
        self.seconds = (after.as_secs_f64() * 1_000.0).round() / 1_000.0;
        for store in &mut self.stores {
            store.leader = Some(store.id == leader);
        }
        for store in self.further_sets.iter_mut().flat_map(|set| &mut set.stores) {
            store.leader = None;
        }
    }

    /// Returns the first line of the banner, which is printed before any step of the start that can fail.
    pub(super) fn title(&self) -> String {
        let kept = if self.data_kept { "kept" } else { "removed on exit; --data DIR keeps it" };
        format!(
            "seqsvr {} ({})  development cluster in one process, data in {} ({kept})",
            self.version, self.revision, self.data
        )
    }

    /// Returns the text that is printed once the cluster is ready.
    pub(super) fn render(&self) -> String {
        self.render_for(&program())
    }

    /// Returns the first uid of the middle section.
    fn middle(&self) -> u64 {
        self.uid_start + u64::from(self.sections / 2) * u64::from(self.section_size)
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
        for further in &self.further_sets {
            let nodes = [names(&further.stores), names(&further.allocs)];
            table.row(
                [further.set.clone(), String::new()].into_iter().chain(nodes).chain(["0".to_owned(), String::new()]),
            );
        }
        let (grpc, prefix) = (&self.allocs[0].grpc, &self.redis_prefix);
        let addr = if grpc == DEFAULT_ADDR { String::new() } else { format!(" --addr {grpc}") };
        let mut text: String = table.render().lines().map(|line| format!("  {line}\n")).collect();
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes every write");
        if !self.series.is_empty() {
            line(format_args!("  series {}", self.series.join(", ")));
        }
        let redis = self.allocs[0].redis.as_deref();
        let redis_port = redis.map(|addr| format!("   Redis {addr}")).unwrap_or_default();
        line(format_args!("  gRPC {}{redis_port}   metrics {}/metrics", grpc.trim_start_matches("http://"), self.http));
        line(format_args!("  console {}", self.console));
        line(format_args!("ready in {:.1} s. Try, in another terminal:", self.seconds));
        line(format_args!("  {program} next 42{addr}"));
        if let Some(series) = &self.series_to_try {
            line(format_args!("  {program} id next {series}{addr}"));
        }
        line(format_args!("  {program} status{addr}"));
        if let Some((host, port)) = redis.and_then(|addr| addr.rsplit_once(':')) {
            let host = if host == "127.0.0.1" { String::new() } else { format!(" -h {host}") };
            line(format_args!("  redis-cli{host} -p {port} INCR {prefix}42"));
        }
        line(format_args!("  curl -s {}/metrics | grep ceiling_raises", self.http));
        if let Some(further) = self.further_sets.first() {
            let (set, into, middle) = (&self.set, &further.set, self.middle());
            line(format_args!("  {program} set list{addr}"));
            line(format_args!("  {program} set split {set} --at {middle} --into {into} --wait{addr}"));
            line(format_args!("  {program} migration list{addr}"));
        }
        text
    }
}

/// Returns the command with which a user starts this program from the current directory. It is the program's name if
/// the program is on the PATH, and its path otherwise.
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

/// Returns a path in the form in which it has to be typed in a shell. A path that is only a name gets `./` in front,
/// because a shell searches a name only on the PATH.
fn as_typed(path: &Path) -> String {
    let is_bare = path.components().count() == 1 && path.is_relative();
    if is_bare { format!("./{}", path.display()) } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use seq_command::set_file;
    use seq_core::layout::{Lanes, SectionRun};
    use seq_core::{SectionId, Seq};

    /// Returns a retired series and the series of a new cluster.
    fn series() -> Vec<Arc<IdSeries>> {
        let of = |(name, shape, named_lanes, retired): (&str, &str, bool, bool)| IdSeries {
            name: name.to_owned(),
            shape: seq_ids::preset(shape).unwrap().shape,
            named_lanes,
            ahead_ms: 0,
            lanes: Lanes { count: 1, per_section: 1, start: Seq(0), margin: 0, clock: None, keys: None },
            sections: SectionRun { first: SectionId(10), sections: 1 },
            created_ms: 0,
            retired,
        };
        let series = [
            ("photos", "counter", false, true),
            ("media", "instagram", true, false),
            ("tweets", "snowflake", false, false),
        ];
        series.map(|series| Arc::new(of(series))).into()
    }

    #[test]
    fn a_program_in_this_directory_is_named_as_a_shell_runs_it() {
        let names = ["seqsvr", "target/release/seqsvr", "/usr/bin/seqsvr"].map(|path| as_typed(Path::new(path)));
        assert_eq!(names, ["./seqsvr", "target/release/seqsvr", "/usr/bin/seqsvr"]);
    }

    #[test]
    fn a_ready_cluster_prints_commands_to_try() {
        let set = set_file::parse("dev.toml".as_ref(), set_file::DEV).unwrap();
        let http = Sockets::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let mut banner =
            Banner::new(&[&set.spec], "seq:", (&http, "http://127.0.0.1:7150/".to_owned()), &Data::Kept("data".into()))
                .unwrap();
        banner.ready(Duration::from_millis(812), Some(2), &series());
        banner.http = "http://127.0.0.1:7180".to_owned();
        let revision = banner.revision;
        expect![[r#"
            seqsvr 0.1.0 (3f1c2aa)  development cluster in one process, data in data (kept)
              set  uids          stores     allocs  sections  step
              dev  0..1,000,000  s1 s2* s3  a1 a2   10        10,000
              series media, tweets
              gRPC 127.0.0.1:7100   Redis 127.0.0.1:7179   metrics http://127.0.0.1:7180/metrics
              console http://127.0.0.1:7150/
            ready in 0.8 s. Try, in another terminal:
              seqsvr next 42
              seqsvr id next tweets
              seqsvr status
              redis-cli -p 7179 INCR seq:42
              curl -s http://127.0.0.1:7180/metrics | grep ceiling_raises
        "#]]
        .assert_eq(&format!("{}\n{}", banner.title().replace(revision, "3f1c2aa"), banner.render_for("seqsvr")));
        banner.allocs[0].grpc = "http://127.0.0.1:40001".to_owned();
        assert!(banner.render_for("seqsvr").contains("\n  seqsvr next 42 --addr http://127.0.0.1:40001\n"));
    }

    #[test]
    fn a_cluster_of_two_sets_prints_how_to_split() {
        let parse = |text| set_file::parse("dev.toml".as_ref(), text).unwrap().spec;
        let (first, second) = (parse(set_file::DEV), parse(set_file::DEV_B));
        let http = Sockets::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let mut banner = Banner::new(
            &[&first, &second],
            "seq:",
            (&http, "http://127.0.0.1:7150/".to_owned()),
            &Data::Kept("data".into()),
        )
        .unwrap();
        banner.ready(Duration::from_millis(812), Some(2), &series());
        banner.http = "http://127.0.0.1:7180".to_owned();
        expect![[r#"
              set    uids          stores     allocs  sections  step
              dev    0..1,000,000  s1 s2* s3  a1 a2   10        10,000
              dev-b                s4 s5 s6   a3 a4   0
              series media, tweets
              gRPC 127.0.0.1:7100   Redis 127.0.0.1:7179   metrics http://127.0.0.1:7180/metrics
              console http://127.0.0.1:7150/
            ready in 0.8 s. Try, in another terminal:
              seqsvr next 42
              seqsvr id next tweets
              seqsvr status
              redis-cli -p 7179 INCR seq:42
              curl -s http://127.0.0.1:7180/metrics | grep ceiling_raises
              seqsvr set list
              seqsvr set split dev --at 500000 --into dev-b --wait
              seqsvr migration list
        "#]]
        .assert_eq(&banner.render_for("seqsvr"));
    }
}
