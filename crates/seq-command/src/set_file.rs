//! Set files, which are written in TOML. The module converts the text of a set file to a [`SetSpec`], or to problems.
//! Each problem has a file, a line, a key and a reason.
//!
//! All problems of all files are reported together. This module opens no sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use seq_auth::file::{MAX_BYTES, read_text};
use seq_core::set_spec::{AllocSpec, PortSpec, SetSpec, SpecProblem, StoreSpec, check_sets};
use seq_kit::config::Origin;
use seq_kit::config::fields::Flaw;
use seq_load::outcome::without_os_error;

use crate::exit::{Exit, Failure, ProblemView};

mod index;
mod read;

use index::Index;
use read::Content;

/// The set that `seqsvr dev` starts.
pub const DEV: &str = include_str!("../../../sets/dev.toml");

/// The second set of `seqsvr dev --sets 2`.
pub const DEV_B: &str = include_str!("../../../sets/dev-b.toml");

/// Number of levels of subdirectories that are read below a given directory. It suffices for one directory for each
/// cluster, with one directory for each set in it. Without the limit, a link to a parent directory would cause an
/// endless descent.
const MAX_DEPTH: usize = 3;

/// A parsed set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    /// Path of the file, as it was given.
    pub path: PathBuf,
    /// The set, its layout and its nodes.
    pub spec: SetSpec,
    /// Value of the key `cluster`, or the name of the set if the file has no such key. Sets with the same value form
    /// one cluster, and [`check_sets`] compares them.
    cluster: String,
    /// Whether the ports of the set's nodes use TLS. They do unless the file contains `plaintext = true`.
    secure: bool,
    index: Index,
}

/// A problem in a set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    path: PathBuf,
    line: Option<usize>,
    /// Key of the value with the problem, such as `step` or `alloc[1].addr`. The index in the key is the position of
    /// the list entry in the file. It is `None` for a problem of the whole file.
    key: Option<String>,
    what: String,
}

impl Problem {
    /// Returns the problem of a file that cannot be read.
    pub fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
        at_file(path, format!("cannot be read: {}", without_os_error(&error.to_string())))
    }

    /// Converts a flaw in the text of a file to a problem of the file at `path`.
    pub fn in_file(path: &Path, flaw: Flaw) -> Problem {
        Problem { path: path.to_owned(), line: Some(flaw.line), key: flaw.key, what: flaw.what }
    }

    /// Returns the file, line, key and reason of the problem, for output as JSON.
    pub fn view(&self) -> ProblemView {
        ProblemView {
            file: Some(self.path.display().to_string()),
            line: self.line,
            key: self.key.clone(),
            what: self.what.clone(),
            text: self.to_string(),
        }
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
pub fn load(path: &Path) -> Result<SetFile, Vec<Problem>> {
    let text = read_text(path, MAX_BYTES).map_err(|error| vec![Problem::unreadable(path, &error)])?;
    parse(path, &text)
}

/// Reads and checks a set file for a command, and returns all problems as one error. Unlike
/// [`load_set`](crate::target::load_set), the function does not determine whether the command's connections use TLS.
pub fn read(path: &Path) -> anyhow::Result<SetFile> {
    Ok(load(path).map_err(|problems| failure(Exit::Usage, &problems))?)
}

/// Reads and checks a set file for a server, as [`load`] does, but returns all problems as one error. By the exit code
/// of this error, a supervisor can see that it must not restart the server.
pub fn load_for_server(path: &Path) -> Result<SetFile, Failure> {
    load(path).map_err(|problems| failure(Exit::Config, &problems))
}

/// Joins problems into one error with the exit code `exit`.
pub fn failure(exit: Exit, problems: &[Problem]) -> Failure {
    Failure::new(exit, lines(problems)).problems(problems.iter().map(Problem::view).collect())
}

/// Joins problems to the text of one error, in which each problem is on its own line.
pub fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n       ")
}

/// Reads set files, and all set files in directories. Checks that the sets of each cluster are compatible with each
/// other. Returns the sets whose files have no problems of their own, and all problems.
pub fn load_all(paths: &[PathBuf]) -> (Vec<SetFile>, Vec<Problem>) {
    let mut sets = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match files_of(path, MAX_DEPTH) {
            Ok(files) if files.is_empty() => problems.push(at_file(path, "the directory has no .toml file".to_owned())),
            Ok(files) => {
                for file in files {
                    match load(&file) {
                        Ok(set) => sets.push(set),
                        Err(more) => problems.extend(more),
                    }
                }
            }
            Err(error) => problems.push(Problem::unreadable(path, &error)),
        }
    }
    problems.extend(check_clusters(&sets));
    (sets, problems)
}

/// Checks that the sets of each cluster are compatible with each other, and returns the conflicts as problems.
fn check_clusters(sets: &[SetFile]) -> Vec<Problem> {
    let mut clusters: BTreeMap<&str, Vec<&SetFile>> = BTreeMap::new();
    for set in sets {
        clusters.entry(&set.cluster).or_default().push(set);
    }
    let mut problems = Vec::new();
    for sets in clusters.into_values() {
        problems.extend(sets.iter().filter(|set| set.secure != sets[0].secure).map(|set| {
            let other = &sets[0].spec.name;
            let reason = format!(
                "plaintext: set {other} of the cluster has the other value, but the nodes of a cluster dial each other"
            );
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

/// Returns the set files at `path`. If `path` is a file, returns only `path`. If it is a directory, returns the .toml
/// files in it, followed by the files in its subdirectories, both in the order of their names.
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
    /// Returns the name of the set's cluster. A node of the set refuses data of any other cluster, and peers that
    /// belong to another cluster.
    pub fn cluster(&self) -> String {
        self.cluster.clone()
    }

    /// Returns whether the ports of the set's nodes have TLS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns the file and the line that determine the value of a key of the set's spec, such as `step` or
    /// `alloc[1].addr`. Returns [`Origin::Default`] if the file does not contain the key.
    pub fn origin(&self, key: &str) -> Origin {
        let line = self.index.own_line(key);
        line.map_or(Origin::Default, |line| Origin::File { path: self.path.clone(), line })
    }

    /// Returns the ports of all nodes of the set, each with the name of its node.
    pub fn ports(&self) -> impl Iterator<Item = (&str, PortSpec<'_>)> {
        let stores = self.spec.stores.iter().flat_map(|store| store.ports().map(|port| (&*store.name, port)));
        stores.chain(self.spec.allocs.iter().flat_map(|alloc| alloc.ports().map(|port| (&*alloc.name, port))))
    }
}

/// Parses and checks the text of a set file. `path` is the path of the file and appears only in messages.
pub fn parse(path: &Path, text: &str) -> Result<SetFile, Vec<Problem>> {
    let content = read::content(text);
    let mut index = Index::new(content.reader.lines().clone(), content.followed.clone());
    let mut stores: Vec<_> = content.spec.stores.iter().cloned().enumerate().collect();
    stores.sort_by_key(|(_, store)| store.id);
    index.reorder("store", stores.iter().map(|(index, _)| *index));
    let mut allocs: Vec<_> = content.spec.allocs.iter().cloned().enumerate().collect();
    allocs.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    index.reorder("alloc", allocs.iter().map(|(index, _)| *index));
    let spec = SetSpec {
        stores: stores.into_iter().map(|(_, store)| store).collect(),
        allocs: allocs.into_iter().map(|(_, alloc)| alloc).collect(),
        ..content.spec.clone()
    };

    let mut problems = spec_problems(path, &spec, &index, &content);
    problems.extend(plaintext_problem(path, &spec, &index, &content));
    problems.extend(content.reader.into_flaws().into_iter().map(|flaw| Problem::in_file(path, flaw)));
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.line);
        return Err(problems);
    }
    let cluster = content.cluster.unwrap_or_else(|| spec.name.clone());
    Ok(SetFile { path: path.to_owned(), cluster, spec, secure: !content.plaintext, index })
}

/// Checks the values of a set file. Values that could not be read, and values that are therefore missing elsewhere,
/// cause no problem here, because each cause is to be reported only once.
fn spec_problems(path: &Path, spec: &SetSpec, index: &Index, content: &Content) -> Vec<Problem> {
    let reader = &content.reader;
    let has_value = |key: &str| !reader.has_failed(&index.in_file(key));
    let mut errors = spec.validate().err().unwrap_or_default();
    errors.retain_mut(|error| match &mut error.problem {
        SpecProblem::StoreCount { count } => {
            *count = content.counts.stores;
            has_value(&error.key) && !reader.is_broken()
        }
        SpecProblem::AllocCount { count } => {
            *count = content.counts.allocs;
            has_value(&error.key) && !reader.is_broken()
        }
        SpecProblem::Taken { by, .. } => has_value(by) && has_value(&error.key),
        _ => has_value(&error.key),
    });
    errors.iter().map(|error| index.problem(path, spec, error, &[])).collect()
}

/// Checks the keys `plaintext` and `plaintext_on_network`.
fn plaintext_problem(path: &Path, spec: &SetSpec, index: &Index, content: &Content) -> Option<Problem> {
    let problem = |key: &str, reason: String| {
        let (path, line) = (path.to_owned(), index.line(key));
        Problem { path, line, key: Some(key.to_owned()), what: format!("{key}: {reason}") }
    };
    if !content.plaintext {
        let reason = "the key has no effect without plaintext = true".to_owned();
        let is_alone = content.plaintext_on_network && !content.reader.has_failed("plaintext");
        return is_alone.then(|| problem("plaintext_on_network", reason));
    }
    let ports = spec.stores.iter().flat_map(StoreSpec::ports).chain(spec.allocs.iter().flat_map(AllocSpec::ports));
    let addrs = ports.flat_map(|port| port.addr.into_iter().chain(port.listen));
    let may_be_reached = content.plaintext_on_network || content.reader.has_failed("plaintext_on_network");
    // An address that could not be read is empty here. It is skipped, because its own flaw is reported.
    let mut known = addrs.filter(|addr| !addr.is_empty());
    let reachable = known.find(|addr| !is_loopback(addr)).filter(|_| !may_be_reached)?;
    let reason = format!(
        "other machines can read and change the traffic of {reachable}: remove the key, or add \
         plaintext_on_network = true"
    );
    Some(problem("plaintext", reason))
}

/// Returns whether an address, given as `host:port`, can be reached only from this machine.
pub fn is_loopback(addr: &str) -> bool {
    let host = host(addr);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the host of an address of the form `host:port`. An IPv6 address is returned without its brackets.
pub fn host(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn at_file(path: &Path, what: String) -> Problem {
    Problem { path: path.to_owned(), line: None, key: None, what }
}

#[cfg(test)]
mod tests;
