//! Checks the dependencies between crates. Compares the dependencies from `cargo metadata` with a table of the allowed
//! dependencies.
//!
//! The check fails if a dependency is missing from the table, so a change that adds a dependency must add it here,
//! where a reviewer sees it. The check also fails if an entry of the table is not used, so the table stays accurate. A
//! fenced library is a library that only some crates may use. The module `public` checks that no public signature has a
//! type of a fenced library. The module `circles` checks that modules of a crate do not use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::report::{self, Finding};
use crate::source;

mod circles;
mod public;

/// The crates that a crate of the workspace may use.
#[derive(Clone)]
struct Layer {
    name: &'static str,
    /// Crates of the workspace in its dependencies.
    uses: &'static [&'static str],
    /// Further crates of the workspace in its dev-dependencies.
    tests_use: &'static [&'static str],
}

/// The crates of the workspace. A crate may only use crates above its own row, except in its tests. The crate of a
/// server never depends on the crate of another server, because servers communicate only through the messages in
/// `proto/`.
const LAYERS: &[Layer] = &[
    Layer { name: "seq-core", uses: &[], tests_use: &[] },
    Layer { name: "seq-ids", uses: &[], tests_use: &[] },
    Layer { name: "seq-order", uses: &[], tests_use: &[] },
    Layer { name: "seq-sim", uses: &["seq-core", "seq-ids", "seq-order"], tests_use: &[] },
    Layer { name: "seq-auth", uses: &[], tests_use: &[] },
    Layer { name: "seq-proto", uses: &["seq-auth", "seq-core", "seq-ids"], tests_use: &[] },
    Layer { name: "seq-kit", uses: &["seq-auth"], tests_use: &[] },
    Layer { name: "seq-api", uses: &["seq-core", "seq-ids", "seq-kit"], tests_use: &[] },
    Layer { name: "seq-testkit", uses: &["seq-kit", "seq-order", "seq-proto"], tests_use: &[] },
    Layer { name: "seq-tenant", uses: &["seq-api", "seq-auth", "seq-core", "seq-kit", "seq-proto"], tests_use: &[] },
    Layer { name: "seq-channel", uses: &["seq-auth", "seq-core", "seq-proto"], tests_use: &[] },
    Layer {
        name: "seq-client",
        uses: &["seq-auth", "seq-channel", "seq-core", "seq-ids", "seq-proto"],
        tests_use: &[],
    },
    Layer {
        name: "seq-load",
        uses: &["seq-channel", "seq-client", "seq-core", "seq-order", "seq-proto"],
        tests_use: &[],
    },
    Layer { name: "seq-raft", uses: &["seq-api", "seq-core", "seq-kit", "seq-proto"], tests_use: &["seq-auth"] },
    Layer {
        name: "seq-store",
        uses: &["seq-api", "seq-auth", "seq-core", "seq-ids", "seq-kit", "seq-proto", "seq-raft"],
        tests_use: &["seq-testkit"],
    },
    Layer {
        name: "seq-alloc",
        uses: &["seq-api", "seq-channel", "seq-core", "seq-ids", "seq-kit", "seq-proto"],
        tests_use: &["seq-auth", "seq-gateway", "seq-testkit"],
    },
    Layer {
        name: "seq-gateway",
        uses: &["seq-api", "seq-auth", "seq-core", "seq-ids", "seq-kit", "seq-proto", "seq-tenant"],
        tests_use: &[],
    },
    Layer {
        name: "seq-command",
        uses: &["seq-api", "seq-auth", "seq-channel", "seq-client", "seq-core", "seq-kit", "seq-load", "seq-proto"],
        tests_use: &[],
    },
    Layer {
        name: "seq-observe",
        uses: &["seq-channel", "seq-command", "seq-core", "seq-load", "seq-proto"],
        tests_use: &[],
    },
    Layer {
        name: "seq-console",
        uses: &["seq-channel", "seq-command", "seq-core", "seq-observe", "seq-proto"],
        tests_use: &[],
    },
    Layer {
        name: "seq-node",
        uses: &[
            "seq-alloc",
            "seq-api",
            "seq-auth",
            "seq-channel",
            "seq-client",
            "seq-command",
            "seq-console",
            "seq-core",
            "seq-gateway",
            "seq-ids",
            "seq-kit",
            "seq-load",
            "seq-observe",
            "seq-proto",
            "seq-store",
            "seq-tenant",
        ],
        tests_use: &[],
    },
    Layer {
        name: "seq-cli",
        uses: &[
            "seq-auth",
            "seq-channel",
            "seq-client",
            "seq-command",
            "seq-console",
            "seq-core",
            "seq-ids",
            "seq-kit",
            "seq-load",
            "seq-observe",
            "seq-order",
            "seq-proto",
            "seq-sim",
        ],
        tests_use: &[],
    },
    Layer {
        name: "seqsvr",
        uses: &["seq-cli", "seq-command", "seq-kit", "seq-node"],
        tests_use: &[
            "seq-alloc",
            "seq-auth",
            "seq-channel",
            "seq-client",
            "seq-core",
            "seq-load",
            "seq-order",
            "seq-proto",
            "seq-raft",
            "seq-store",
            "seq-testkit",
        ],
    },
    Layer { name: "seq-compare", uses: &["seq-auth", "seq-core", "seq-kit", "seq-proto"], tests_use: &[] },
    Layer {
        name: "seq-growth",
        uses: &["seq-alloc", "seq-api", "seq-core", "seq-gateway", "seq-kit", "seq-proto", "seq-store"],
        tests_use: &[],
    },
    Layer { name: "seq-fuzz", uses: &["seq-core", "seq-gateway", "seq-proto", "seq-store"], tests_use: &[] },
    Layer { name: "seq-model", uses: &[], tests_use: &[] },
    Layer { name: "xtask", uses: &[], tests_use: &[] },
];

/// Fenced libraries, each with the only crates that may use it. The fence limits a change of the library's interface,
/// or a work-around for a bug of the library, to these crates.
const FENCED: &[(&str, &[&str])] = &[
    ("anyhow", &["seq-cli", "seq-command", "seq-compare", "seq-node", "seqsvr", "xtask"]),
    ("clap", &["seq-cli", "seq-command", "seq-compare", "seq-growth", "seq-node", "seqsvr", "xtask"]),
    ("consistent_hash", &["seq-core"]),
    ("openraft", &["seq-raft"]),
    ("opentelemetry-proto", &["seq-kit", "seq-testkit"]),
    // seq-raft uses rkyv to encode the records of the Raft log, and seq-store to encode commands and states. seq-store
    // derives these encodings in its private module `encoding`.
    ("rkyv", &["seq-raft", "seq-store"]),
    ("sled", &["seq-raft"]),
    ("tonic-prost", &["seq-compare", "seq-proto"]),
];

/// Compares the dependencies of the workspace with the tables, and checks public signatures and circles of modules.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let mut findings = Vec::new();
    check(LAYERS, &edges(&metadata), &mut findings);
    check_fences(FENCED, &edges(&metadata), &mut findings);
    check_order(LAYERS, &fs::read_to_string(root.join("ARCHITECTURE.md"))?, &mut findings);
    let sources = source::read_all(root)?;
    public::check(&sources, &mut findings);
    circles::check(&sources, &mut findings);
    report::conclude("layers", findings)
}

/// Dependencies of a crate, for its build and for tests only.
#[derive(Debug, Default)]
struct Edges {
    built: BTreeSet<String>,
    tests: BTreeSet<String>,
}

fn edges(metadata: &Metadata) -> BTreeMap<String, Edges> {
    let mut all = BTreeMap::new();
    for package in metadata.workspace_packages() {
        let edges: &mut Edges = all.entry(package.name.to_string()).or_default();
        for dependency in &package.dependencies {
            let kind = if dependency.kind == DependencyKind::Development { &mut edges.tests } else { &mut edges.built };
            kind.insert(dependency.name.clone());
        }
    }
    all
}

fn check(layers: &[Layer], crates: &BTreeMap<String, Edges>, findings: &mut Vec<Finding>) {
    let mut find = |message: String| findings.push(Finding::new("crates/xtask/src/layers.rs", 0, message));
    for (name, edges) in crates {
        let Some(layer) = layers.iter().find(|layer| layer.name == name) else {
            find(format!("{name} has no layer: add it to LAYERS and to the code map of ARCHITECTURE.md"));
            continue;
        };
        let own = |all: &BTreeSet<String>| -> BTreeSet<String> {
            all.iter().filter(|used| crates.contains_key(*used)).cloned().collect()
        };
        for used in own(&edges.built).iter().filter(|used| !layer.uses.contains(&used.as_str())) {
            find(format!(
                "{name} -> {used} is a new edge: remove it from the crate's Cargo.toml, or add \"{used}\" to the `uses` of \
                 {name} in LAYERS and explain it in the commit"
            ));
        }
        for used in own(&edges.tests) {
            if !layer.uses.contains(&used.as_str()) && !layer.tests_use.contains(&used.as_str()) {
                find(format!(
                    "{name} -> {used} is a new edge of tests: remove it, or add it to the `tests_use` of {name}"
                ));
            }
        }
        for used in layer.uses.iter().filter(|used| !edges.built.contains(**used)) {
            find(format!("{name} -> {used} is allowed but does not exist: remove it from LAYERS"));
        }
        for used in layer.tests_use.iter().filter(|used| !edges.tests.contains(**used)) {
            find(format!("{name} -> {used} is allowed to tests but does not exist: remove it from LAYERS"));
        }
    }
    for layer in layers.iter().filter(|layer| !crates.contains_key(layer.name)) {
        find(format!("{} does not exist: remove it from LAYERS", layer.name));
    }
}

/// Checks that each crate uses only crates above it in the table `layers`, and that the code map, a list of crates in
/// ARCHITECTURE.md, has the crates in the order of the table.
fn check_order(layers: &[Layer], code_map: &str, findings: &mut Vec<Finding>) {
    for (position, layer) in layers.iter().enumerate() {
        for used in layer.uses.iter().filter(|used| !layers[..position].iter().any(|above| above.name == **used)) {
            let message = format!("{} uses {used}, which is not above it in LAYERS: move it up", layer.name);
            findings.push(Finding::new("crates/xtask/src/layers.rs", 0, message));
        }
    }
    let mapped: Vec<&str> =
        code_map.lines().filter_map(|line| line.strip_prefix("### `crates/")?.split('`').next()).collect();
    let listed: Vec<&str> = layers.iter().map(|layer| layer.name).filter(|name| mapped.contains(name)).collect();
    if let Some((found, expected)) = mapped.iter().zip(&listed).find(|(found, expected)| found != expected) {
        let message = format!("the code map has {found} where LAYERS has {expected}: use one order");
        findings.push(Finding::new("ARCHITECTURE.md", 0, message));
    }
}

fn check_fences(fences: &[(&str, &[&str])], crates: &BTreeMap<String, Edges>, findings: &mut Vec<Finding>) {
    let mut find = |message: String| findings.push(Finding::new("crates/xtask/src/layers.rs", 0, message));
    for (library, allowed) in fences {
        for (name, edges) in crates {
            let uses = edges.built.contains(*library) || edges.tests.contains(*library);
            if uses && !allowed.contains(&name.as_str()) {
                find(format!("{name} uses {library}, which stays behind {}", allowed.join(", ")));
            }
        }
        for name in
            allowed.iter().filter(|name| !crates.get(**name).is_some_and(|edges| edges.built.contains(*library)))
        {
            find(format!("{name} does not use {library} any more: remove it from FENCED"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Layer] =
        &[Layer { name: "low", uses: &[], tests_use: &[] }, Layer { name: "high", uses: &["low"], tests_use: &[] }];

    /// Makes a workspace of crates, each with its dependencies for the build and for tests.
    fn workspace(crates: &[(&str, &[&str], &[&str])]) -> BTreeMap<String, Edges> {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let edges = |(name, built, tests): &(&str, &[&str], &[&str])| {
            (name.to_string(), Edges { built: set(built), tests: set(tests) })
        };
        crates.iter().map(edges).collect()
    }

    fn messages(crates: &[(&str, &[&str], &[&str])]) -> Vec<String> {
        let mut findings = Vec::new();
        check(TABLE, &workspace(crates), &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_table_itself_passes() {
        assert_eq!(messages(&[("low", &["tokio"], &[]), ("high", &["low"], &["low"])]), Vec::<String>::new());
    }

    #[test]
    fn a_new_edge_is_found_and_the_message_says_what_to_do() {
        let found = messages(&[("low", &["high"], &[]), ("high", &["low"], &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("low -> high is a new edge: remove it from the crate's Cargo.toml"), "{found:?}");
        let found = messages(&[("low", &[], &["high"]), ("high", &["low"], &[])]);
        assert!(found[0].starts_with("low -> high is a new edge of tests"), "{found:?}");
    }

    #[test]
    fn a_stale_entry_is_found() {
        let found = messages(&[("low", &[], &[]), ("high", &[], &[])]);
        assert_eq!(found, ["high -> low is allowed but does not exist: remove it from LAYERS"]);
        assert_eq!(messages(&[("low", &[], &[])]), ["high does not exist: remove it from LAYERS"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let found = messages(&[("low", &[], &[]), ("high", &["low"], &[]), ("new", &[], &[])]);
        assert!(found[0].starts_with("new has no layer"), "{found:?}");
    }

    #[test]
    fn an_order_that_is_not_from_the_bottom_up_is_found() {
        let messages = |layers: &[Layer], code_map: &str| -> Vec<String> {
            let mut findings = Vec::new();
            check_order(layers, code_map, &mut findings);
            findings.into_iter().map(|finding| finding.message).collect()
        };
        let code_map = "### `crates/low`\n\n### `crates/high`\n\n### `crates/xtask`, `tests/`\n";
        assert_eq!(messages(TABLE, code_map), Vec::<String>::new());
        let reversed = [TABLE[1].clone(), TABLE[0].clone()];
        let found = messages(&reversed, "");
        assert_eq!(found, ["high uses low, which is not above it in LAYERS: move it up"]);
        let found = messages(TABLE, "### `crates/high`\n### `crates/low`\n");
        assert_eq!(found, ["the code map has high where LAYERS has low: use one order"]);
    }

    #[test]
    fn a_fenced_library_outside_of_its_fence_is_found() {
        let crates = workspace(&[("low", &["sled"], &[]), ("high", &[], &["sled"])]);
        let mut findings = Vec::new();
        check_fences(&[("sled", &["low"]), ("rkyv", &["low"])], &crates, &mut findings);
        let found: Vec<_> = findings.into_iter().map(|finding| finding.message).collect();
        assert_eq!(
            found,
            ["high uses sled, which stays behind low", "low does not use rkyv any more: remove it from FENCED"]
        );
    }
}
