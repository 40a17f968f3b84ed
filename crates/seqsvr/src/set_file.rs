//! Set files: TOML that becomes a [`SetSpec`], or errors with file, line, key and reason.
//!
//! Every problem of every file is reported at once. Nothing here opens a socket.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use seq_core::set_spec::{
    AllocListen, AllocSpec, Genesis, PortSpec, SetSpec, SpecError, SpecProblem, StoreListen, StoreSpec, check_sets,
};
use seq_kit::config::{line_of, readable_reason};
use seq_load::outcome::without_os_error;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::{Exit, Failure};

/// The set that `seqsvr dev` starts.
pub(crate) const DEV: &str = include_str!("../../../sets/dev.toml");

/// The second set of `seqsvr dev --sets 2`.
pub(crate) const DEV_B: &str = include_str!("../../../sets/dev-b.toml");

/// Directories below a directory whose files are read: as deep as a tree of clusters is kept, and a link to a directory
/// above ends.
const MAX_DEPTH: usize = 3;

/// A parsed set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetFile {
    pub(crate) path: PathBuf,
    pub(crate) spec: SetSpec,
    /// The key `cluster`, or else the name: sets with the same value form one cluster, see [`check_sets`].
    cluster: String,
    /// Whether the ports of its nodes have TLS: they do unless the key `plaintext` says otherwise.
    secure: bool,
    index: Index,
}

/// Where the keys of a spec are in its file. The spec sorts its lists, so the indexes differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Index {
    /// Line of each key, such as `uids` or `alloc[1].addr`, with the indexes of the spec.
    lines: BTreeMap<String, usize>,
    /// For each list entry of the spec, such as `alloc[1]`, the one of the file.
    in_file: BTreeMap<String, String>,
}

/// A problem in a set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    path: PathBuf,
    line: Option<usize>,
    /// The key, such as `step` or `alloc[1].addr`, with the indexes of the file; `None` for a problem of the file.
    key: Option<String>,
    what: String,
}

impl Problem {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its line, from 1, where the problem has one.
    pub(crate) fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key, where the problem has one.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The key and the reason.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Reads and checks one set file.
pub(crate) fn load(path: &Path) -> Result<SetFile, Vec<Problem>> {
    let text = std::fs::read_to_string(path).map_err(|error| vec![at_file(path, cannot_be_read(&error))])?;
    parse(path, &text)
}

/// As [`load`], for a server: one error for all problems, with the exit code that stops a supervisor from restarting
/// it.
pub(crate) fn load_for_server(path: &Path) -> Result<SetFile, Failure> {
    load(path).map_err(|problems| failure(Exit::Config, &problems))
}

/// Joins problems into one error.
pub(crate) fn failure(exit: Exit, problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Failure::new(exit, lines.join("\n       "))
}

/// Reads set files, and those in directories, and checks the sets against each other. Returns the valid sets and every
/// problem.
pub(crate) fn load_all(paths: &[PathBuf]) -> (Vec<SetFile>, Vec<Problem>) {
    let mut sets = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match files_of(path, MAX_DEPTH) {
            Ok(files) if files.is_empty() => problems.push(at_file(path, "holds no .toml file".to_owned())),
            Ok(files) => {
                for file in files {
                    match load(&file) {
                        Ok(set) => sets.push(set),
                        Err(more) => problems.extend(more),
                    }
                }
            }
            Err(error) => problems.push(at_file(path, cannot_be_read(&error))),
        }
    }
    problems.extend(check_clusters(&sets));
    (sets, problems)
}

/// Checks the sets of each cluster against each other.
fn check_clusters(sets: &[SetFile]) -> Vec<Problem> {
    let mut clusters: BTreeMap<&str, Vec<&SetFile>> = BTreeMap::new();
    for set in sets {
        clusters.entry(&set.cluster).or_default().push(set);
    }
    let mut problems = Vec::new();
    for sets in clusters.into_values() {
        problems.extend(sets.iter().filter(|set| set.secure != sets[0].secure).map(|set| {
            let other = &sets[0].spec.name;
            let reason =
                format!("plaintext: set {other} of the cluster has the other value: its nodes dial each other");
            at_file(&set.path, reason)
        }));
        let specs: Vec<SetSpec> = sets.iter().map(|set| set.spec.clone()).collect();
        for (index, error) in check_sets(&specs).err().unwrap_or_default() {
            let set = sets[index];
            problems.push(set.index.problem(&set.path, &set.spec, &error, &sets));
        }
    }
    problems
}

/// The file itself, or the .toml files of a directory and then those of its directories, in order of name.
fn files_of(path: &Path, depth: usize) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() && depth > 0 {
            dirs.push(path);
        } else if !path.is_dir() && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    dirs.sort();
    for dir in dirs {
        files.extend(files_of(&dir, depth - 1)?);
    }
    Ok(files)
}

impl SetFile {
    /// Name of the set's cluster: members of the store refuse peers and data of any other.
    pub(crate) fn cluster(&self) -> String {
        self.cluster.clone()
    }

    /// Whether the ports of its nodes have TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// The ports of all nodes, with the names of their nodes.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (&str, PortSpec<'_>)> {
        let stores = self.spec.stores.iter().flat_map(|store| store.ports().map(|port| (&*store.name, port)));
        stores.chain(self.spec.allocs.iter().flat_map(|alloc| alloc.ports().map(|port| (&*alloc.name, port))))
    }

    /// What is wrong with the keys `plaintext` and `plaintext_on_network`.
    fn plaintext_problem(&self, on_network: bool) -> Option<Problem> {
        let problem = |key: &str, reason: String| Problem {
            path: self.path.clone(),
            line: self.index.lines.get(key).copied(),
            key: Some(key.to_owned()),
            what: format!("{key}: {reason}"),
        };
        if self.secure {
            let reason = "it has no effect without plaintext = true".to_owned();
            return on_network.then(|| problem("plaintext_on_network", reason));
        }
        let addrs = self.ports().flat_map(|(_, port)| port.addr.into_iter().chain(port.listen));
        let reachable = addrs.into_iter().find(|addr| !is_loopback(addr)).filter(|_| !on_network)?;
        let reason = format!(
            "others can reach {reachable}, and read and change what is sent: remove the key, or add \
             plaintext_on_network = true"
        );
        Some(problem("plaintext", reason))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    name: String,
    cluster: Option<String>,
    uids: Spanned<String>,
    section_size: u32,
    step: u64,
    genesis: Option<Spanned<String>>,
    #[serde(default)]
    plaintext: bool,
    #[serde(default)]
    plaintext_on_network: bool,
    #[serde(default)]
    store: Vec<RawStore>,
    #[serde(default)]
    alloc: Vec<RawAlloc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStore {
    id: u64,
    name: String,
    addr: String,
    raft: String,
    admin: Option<String>,
    http: String,
    #[serde(default)]
    listen: RawStoreListen,
}

/// Where a store listens, where others dial other addresses.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStoreListen {
    addr: Option<String>,
    raft: Option<String>,
    admin: Option<String>,
    http: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAlloc {
    name: String,
    addr: String,
    peer: String,
    http: String,
    redis: Option<String>,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    listen: RawAllocListen,
}

/// Where an allocator listens, where others dial other addresses.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAllocListen {
    addr: Option<String>,
    peer: Option<String>,
    http: Option<String>,
    redis: Option<String>,
}

impl From<RawStore> for StoreSpec {
    fn from(RawStore { id, name, addr, raft, admin, http, listen }: RawStore) -> StoreSpec {
        let RawStoreListen { addr: at, raft: raft_at, admin: admin_at, http: http_at } = listen;
        let listen = StoreListen { addr: at, raft: raft_at, admin: admin_at, http: http_at };
        StoreSpec { id, name, addr, raft, admin, http, listen }
    }
}

impl From<RawAlloc> for AllocSpec {
    fn from(RawAlloc { name, addr, peer, http, redis, weight, listen }: RawAlloc) -> AllocSpec {
        let RawAllocListen { addr: at, peer: peer_at, http: http_at, redis: redis_at } = listen;
        let listen = AllocListen { addr: at, peer: peer_at, http: http_at, redis: redis_at };
        AllocSpec { name, addr, peer, http, redis, weight, listen }
    }
}

fn one() -> u32 {
    1
}

/// Reads the text of a set file and checks it; `path` is for messages.
pub(crate) fn parse(path: &Path, text: &str) -> Result<SetFile, Vec<Problem>> {
    let at = |offset: usize, key: Option<String>, reason: String| {
        let what = key.as_ref().map_or_else(|| reason.clone(), |key| format!("{key}: {reason}"));
        vec![Problem { path: path.to_owned(), line: Some(line_of(text, offset)), key, what }]
    };
    let syntax = |error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        at(offset, key_at(text, offset), readable_reason(&error.message().trim().replace('\n', ", ")))
    };
    let raw: RawSet = toml::from_str(text).map_err(syntax)?;
    let range = parse_uids(raw.uids.get_ref());
    let uids = range.map_err(|reason| at(raw.uids.span().start, Some("uids".to_owned()), reason))?;
    let genesis = parse_genesis(&raw).map_err(|(offset, reason)| at(offset, Some("genesis".to_owned()), reason))?;

    let mut index = Index::default();
    let table = DeTable::parse(text).map_err(syntax)?;
    collect_lines(text, "", table.get_ref(), &mut index.lines);
    let mut stores: Vec<_> = raw.store.into_iter().enumerate().collect();
    stores.sort_by_key(|(_, store)| store.id);
    index.reorder("store", stores.iter().map(|(index, _)| *index));
    let mut allocs: Vec<_> = raw.alloc.into_iter().enumerate().collect();
    allocs.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    index.reorder("alloc", allocs.iter().map(|(index, _)| *index));

    let spec = SetSpec {
        name: raw.name,
        uids,
        section_size: raw.section_size,
        step: raw.step,
        stores: stores.into_iter().map(|(_, store)| store.into()).collect(),
        allocs: allocs.into_iter().map(|(_, alloc)| alloc.into()).collect(),
        genesis,
    };
    spec.validate()
        .map_err(|errors| errors.iter().map(|error| index.problem(path, &spec, error, &[])).collect::<Vec<_>>())?;
    let file = SetFile {
        path: path.to_owned(),
        cluster: raw.cluster.unwrap_or_else(|| spec.name.clone()),
        spec,
        secure: !raw.plaintext,
        index,
    };
    match file.plaintext_problem(raw.plaintext_on_network) {
        Some(problem) => Err(vec![problem]),
        None => Ok(file),
    }
}

/// Whether only this machine reaches an address.
pub(crate) fn is_loopback(addr: &str) -> bool {
    let host = host(addr);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The host of "host:port", without the brackets of an IPv6 address.
pub(crate) fn host(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Reads "0..1_000_000", the end exclusive.
fn parse_uids(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not a range as in \"0..1_000_000\"");
    let number = |part: &str| part.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    Ok(number(start)?..number(end)?)
}

/// Reads how the set comes into being; a problem has its offset in the text.
fn parse_genesis(raw: &RawSet) -> Result<Genesis, (usize, String)> {
    let Some(text) = &raw.genesis else { return Ok(Genesis::default()) };
    let at = text.span().start;
    let names = Genesis::ALL.map(Genesis::name).join(", ");
    let genesis = Genesis::parse(text.get_ref());
    let genesis = genesis.ok_or_else(|| (at, format!("{:?} is none of {names}", text.get_ref())))?;
    if genesis == Genesis::Create && raw.cluster.is_none() {
        let reason = "a set that is created in a cluster needs the key cluster, with the value of the other sets";
        return Err((at, reason.to_owned()));
    }
    Ok(genesis)
}

fn collect_lines(text: &str, prefix: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
        lines.insert(key.clone(), line_of(text, name.span().start));
        if let DeValue::Table(inner) = value.get_ref() {
            collect_lines(text, &key, inner, lines);
        }
        if let DeValue::Array(entries) = value.get_ref() {
            for (index, entry) in entries.iter().enumerate() {
                let key = format!("{key}[{index}]");
                lines.insert(key.clone(), line_of(text, entry.span().start));
                if let DeValue::Table(inner) = entry.get_ref() {
                    collect_lines(text, &key, inner, lines);
                }
            }
        }
    }
}

/// The key whose value is at an offset; `None` where the text is not TOML or there is no value.
fn key_at(text: &str, offset: usize) -> Option<String> {
    fn within(value: &Spanned<DeValue<'_>>, offset: usize) -> Option<String> {
        match value.get_ref() {
            // The span of a table covers only its header.
            DeValue::Table(table) => in_table(table, offset),
            DeValue::Array(entries) => entries.iter().enumerate().find_map(|(index, entry)| {
                within(entry, offset).map(|key| format!("[{index}]{}{key}", if key.is_empty() { "" } else { "." }))
            }),
            _ => value.span().contains(&offset).then(String::new),
        }
    }
    fn in_table(table: &DeTable<'_>, offset: usize) -> Option<String> {
        table.iter().find_map(|(name, value)| {
            within(value, offset).map(|key| {
                let dot = if key.is_empty() || key.starts_with('[') { "" } else { "." };
                format!("{}{dot}{key}", name.get_ref())
            })
        })
    }
    in_table(DeTable::parse(text).ok()?.get_ref(), offset)
}

impl Index {
    /// Renumbers a list's entries: the one at `old[i]` in the file has index `i` in the spec.
    fn reorder(&mut self, list: &str, old: impl Iterator<Item = usize>) {
        let mut moved = BTreeMap::new();
        for (new, old) in old.enumerate() {
            let (new, old) = (format!("{list}[{new}]"), format!("{list}[{old}]"));
            for (key, line) in &self.lines {
                if let Some(rest) = key.strip_prefix(&old) {
                    moved.insert(format!("{new}{rest}"), *line);
                }
            }
            self.in_file.insert(new, old);
        }
        self.lines.extend(moved);
    }

    /// The line of a key, or of the nearest list or table around it that the file has.
    fn line(&self, key: &str) -> Option<usize> {
        let parents = std::iter::successors(Some(key), |key| key.rfind(['.', '[']).map(|end| &key[..end]));
        parents.into_iter().find_map(|key| self.lines.get(key).copied())
    }

    /// A problem of the spec as one of its file. `others` are the sets that it may collide with.
    fn problem(&self, path: &Path, spec: &SetSpec, error: &SpecError, others: &[&SetFile]) -> Problem {
        let place = match entry_of(spec, &error.key) {
            Some((entry, field)) => format!("{entry}: {field}"),
            None => error.key.clone(),
        };
        let reason = match &error.problem {
            SpecProblem::Taken { value, by } => format!("{value:?} is taken by {}", self.holder(spec, by, others)),
            problem => problem.to_string(),
        };
        let (path, line) = (path.to_owned(), self.line(&error.key));
        Problem { path, line, key: Some(self.in_file(&error.key)), what: format!("{place}: {reason}") }
    }

    /// A key of the spec with the index of the file.
    fn in_file(&self, key: &str) -> String {
        let entry = key.split_inclusive(']').next().unwrap_or(key);
        self.in_file.get(entry).map_or_else(|| key.to_owned(), |old| format!("{old}{}", &key[entry.len()..]))
    }

    /// The key that has a value first, in words: of this file, or `... of set NAME` of another one.
    fn holder(&self, spec: &SetSpec, by: &str, others: &[&SetFile]) -> String {
        let (key, other) = match by.split_once(" of set ") {
            Some((key, name)) => (key, others.iter().find(|set| set.spec.name == name)),
            None => (by, None),
        };
        let (index, spec) = other.map_or((self, spec), |set| (&set.index, &set.spec));
        let Some((entry, field)) = entry_of(spec, key) else { return by.to_owned() };
        let line = index.line(key).map_or_else(String::new, |line| line.to_string());
        match other {
            Some(set) => format!("{field} of {entry} of set {} ({}:{line})", spec.name, set.path.display()),
            None => format!("{field} of {entry} (line {line})"),
        }
    }
}

/// The list entry of a key by name, as `alloc "a1"`, and its field.
fn entry_of<'a>(spec: &SetSpec, key: &'a str) -> Option<(String, &'a str)> {
    let (entry, field) = key.split_once("].")?;
    let (list, index) = entry.split_once('[')?;
    let index: usize = index.parse().ok()?;
    let name = match list {
        "store" => &spec.stores.get(index)?.name,
        _ => &spec.allocs.get(index)?.name,
    };
    Some((format!("{list} {name:?}"), field))
}

fn cannot_be_read(error: &std::io::Error) -> String {
    format!("cannot be read: {}", without_os_error(&error.to_string()))
}

fn at_file(path: &Path, what: String) -> Problem {
    Problem { path: path.to_owned(), line: None, key: None, what }
}

#[cfg(test)]
mod tests;
