//! Finds circles of modules inside a crate. A circle is a group of modules of one folder in which each module uses
//! every other module of the group, directly or through further modules of the folder.
//!
//! A module with a folder (`x.rs` with `x/`) counts as a single module, which belongs to the folder that contains
//! `x.rs`. Uses between a module and its own submodules do not count, because a module re-exports the items of its
//! submodules, and submodules use the types of the module above them. The check searches the text of the files for
//! paths, so it does not find a use through a re-export at the root of the crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::Finding;
use crate::source::Source;

/// Allowed number of circles in the crates that had circles when this check was added. An entry must be lowered when a
/// circle is removed, and must never be raised.
const RATCHET: &[(&str, usize)] = &[("seq-core", 1), ("seq-sim", 2), ("seq-store", 1)];

/// The path of a module below its crate's root, such as `["state", "moves"]`.
type Module = Vec<String>;

/// Uses between modules of the same folder. The outer key is the module that uses, the inner key is the module that it
/// uses, and the values are the single uses in the form `a::x -> b`.
type Uses = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for (name, files) in crates(sources) {
        let found = of_crate(&files);
        let allowed = RATCHET.iter().find(|(listed, _)| *listed == name).map_or(0, |(_, count)| *count);
        if found.len() != allowed {
            for circle in &found {
                let message = format!(
                    "modules use each other in a circle: {}. Move a shared item into a module below both; the uses are {}",
                    circle.modules.join(" <-> "),
                    circle.uses.join(", ")
                );
                findings.push(Finding::new(&format!("crates/{name}/src"), 0, message));
            }
        }
        if found.len() < allowed {
            let message = format!("{name} has {} circles: lower its entry in RATCHET from {allowed}", found.len());
            findings.push(Finding::new("crates/xtask/src/layers/circles.rs", 0, message));
        }
    }
}

/// Returns the text of each module that is not a test, by crate.
fn crates(sources: &[Source]) -> BTreeMap<&str, BTreeMap<Module, &str>> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is("rs") && !source.is_test()) {
        let Some((name, file)) = source.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
            continue;
        };
        let mut module: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("lib" | "main" | "mod")) {
            module.pop();
        }
        crates.entry(name).or_default().insert(module, &source.text);
    }
    crates
}

/// Modules of one folder, each of which uses all others, directly or through further modules.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Circle {
    modules: Vec<String>,
    /// The uses that make the circle, such as `a::x -> b`.
    uses: Vec<String>,
}

/// Returns the circles of a crate.
fn of_crate(files: &BTreeMap<Module, &str>) -> Vec<Circle> {
    let mut uses = Uses::new();
    for (module, text) in files {
        for used in used_modules(module, text, files) {
            let shared = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if shared < module.len() && shared < used.len() {
                let (from, to) = (module[..=shared].to_vec(), used[..=shared].to_vec());
                let places = uses.entry(from).or_default().entry(to).or_default();
                places.insert(format!("{} -> {}", module.join("::"), used.join("::")));
            }
        }
    }
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|from| (from, reached(from, &uses))).collect();
    let mut circles = BTreeSet::new();
    for (from, reached) in &reachable {
        if reached.contains(from) {
            let back = |to: &&&Module| reachable.get(**to).is_some_and(|reached| reached.contains(from));
            let circle: BTreeSet<&Module> = reached.iter().filter(back).copied().collect();
            let inside = circle.iter().flat_map(|from| &uses[*from]).filter(|(to, _)| circle.contains(to));
            circles.insert(Circle {
                modules: circle.iter().map(|module| module.join("::")).collect(),
                uses: inside.flat_map(|(_, places)| places.clone()).collect(),
            });
        }
    }
    circles.into_iter().collect()
}

/// Returns the modules that `from` uses, directly or through other modules.
fn reached<'a>(from: &Module, uses: &'a Uses) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = uses.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(uses.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// Returns the modules that the file of `module` names in paths that begin with `crate::` or `super::`. `text` is the
/// text of the file.
fn used_modules(module: &Module, text: &str, files: &BTreeMap<Module, &str>) -> BTreeSet<Module> {
    let code: String = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut used = BTreeSet::new();
    for keyword in ["crate::", "super::"] {
        for (at, _) in code.match_indices(keyword) {
            let whole_word = !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_:$".contains(letter));
            if whole_word {
                paths(&code[at..], &mut Vec::new(), &mut |path| used.extend(resolve(module, path, files)));
            }
        }
    }
    used
}

/// Parses the use tree at the start of `text`, such as `a::{b, c::d}`, and calls `found` with each path in the tree,
/// after `prefix`. Returns the text after the tree.
fn paths<'a>(text: &'a str, prefix: &mut Vec<&'a str>, found: &mut dyn FnMut(&[&str])) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = paths(rest, prefix, found).trim_start();
            rest = match rest.strip_prefix(',') {
                Some(rest) if !rest.trim_start().starts_with('}') => rest,
                _ => return rest.trim_start_matches(',').trim_start().strip_prefix('}').unwrap_or(rest),
            };
        }
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    prefix.push(name);
    match rest.strip_prefix("::") {
        Some(below) if below.starts_with(|letter: char| letter.is_alphabetic() || "_{".contains(letter)) => {
            rest = paths(below, prefix, found);
        }
        _ => found(prefix),
    }
    prefix.pop();
    rest.find([',', '}', ';']).map_or("", |at| if rest[..at].trim().starts_with("as ") { &rest[at..] } else { rest })
}

/// Returns the deepest module that `path`, a path in the file of `module`, names.
fn resolve(module: &Module, path: &[&str], files: &BTreeMap<Module, &str>) -> Option<Module> {
    let mut found: Module = if path[0] == "crate" { Vec::new() } else { module.clone() };
    for name in path {
        match *name {
            "crate" => {}
            "super" => drop(found.pop()?),
            name => {
                let below: Module = found.iter().cloned().chain([name.to_owned()]).collect();
                if !files.contains_key(&below) {
                    break;
                }
                found = below;
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::planted(&format!("crates/x/src/{path}"), text)).collect();
        of_crate(&crates(&sources)["x"]).into_iter().map(|circle| circle.modules.join(" ")).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        assert_eq!(circles(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn b() { crate::a::new() }")]), ["a b"]);
        assert_eq!(
            circles(&[("a.rs", "use super::b::B;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::{a::A, b};")]),
            ["a b c"]
        );
        assert_eq!(circles(&[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "")]), [""; 0]);
    }

    #[test]
    fn a_folder_is_one_module_of_its_parent() {
        let files = [("a.rs", ""), ("a/x.rs", "use crate::b::B;"), ("b.rs", ""), ("b/y.rs", "use crate::a::x::X;")];
        assert_eq!(circles(&files), ["a b"]);
        let files =
            [("a.rs", "pub use x::X;"), ("a/x.rs", "use super::A; use super::y::Y;"), ("a/y.rs", "use super::x::X;")];
        assert_eq!(circles(&files), ["a::x a::y"]);
    }

    #[test]
    fn tests_comments_and_parents_are_no_circle() {
        let files =
            [("a.rs", "use crate::b::B;"), ("b.rs", "// crate::a\n#[cfg(test)]\nmod tests { use crate::a::A; }")];
        assert_eq!(circles(&files), [""; 0]);
        assert_eq!(circles(&[("a.rs", "use crate::a::x::X;"), ("a/x.rs", "use crate::a::A;")]), [""; 0]);
    }

    #[test]
    fn more_circles_than_allowed_are_named() {
        let sources = [
            Source::planted("crates/x/src/a.rs", "use crate::{\n    b::{self, B},\n};"),
            Source::planted("crates/x/src/b.rs", "use crate::a as other;"),
        ];
        let mut findings = Vec::new();
        check(&sources, &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("a <-> b"), "{findings:?}");
    }
}
