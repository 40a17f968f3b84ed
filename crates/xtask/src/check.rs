//! The gate, `cargo xtask check`. It runs all checks that must pass before a change is merged, and writes only to
//! `target/`.
//!
//! The steps run one after another, the fast steps first. The first step that fails ends the gate, and the error
//! message has the command that repeats this step alone.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use crate::{alerts, fuzz, layers, tidy, tools, turmoil, wire};

/// Selection of steps.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Run only these steps, in the gate's order.
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
    /// Skip these steps.
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    skip: Vec<String>,
    /// List the steps and exit.
    #[arg(long)]
    list: bool,
}

struct Step {
    name: &'static str,
    what: &'static str,
    run: Run,
}

enum Run {
    /// A function of this program.
    Here(fn(&Path) -> anyhow::Result<()>),
    /// A cargo command, with variables of its environment.
    Cargo { args: &'static str, env: &'static [(&'static str, &'static str)] },
}

/// Flags of rustdoc. The documentation is for contributors, so it includes private items, and links to private items
/// are allowed.
const RUSTDOCFLAGS: &str = "-D warnings -A rustdoc::private-intra-doc-links";

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "format", run: Run::Cargo { args: "fmt --all --check", env: &[] } },
    Step { name: "tidy", what: "text of the repository", run: Run::Here(tidy::run) },
    Step { name: "tools", what: "spelling, TOML, links, unused dependencies, white space", run: Run::Here(tools::run) },
    Step { name: "layers", what: "edges between crates", run: Run::Here(layers::run) },
    Step { name: "wire", what: "protos against the last release, and their code", run: Run::Here(wire::check) },
    Step { name: "alerts", what: "alert rules, with promtool where it is installed", run: Run::Here(alerts::run) },
    Step {
        name: "deny",
        what: "licences, sources and bans of dependencies",
        // The check `advisories` is left out, because it needs a database from the network. deny.toml records the known
        // advisories.
        run: Run::Cargo { args: "deny --locked check bans licenses sources", env: &[] },
    },
    // `clients/package rust` compiles the packages, which takes some minutes.
    Step {
        name: "package",
        what: "packages of the Rust SDK",
        run: Run::Cargo {
            args: "package --locked --allow-dirty --no-verify --quiet --package seq-auth --package seq-channel \
                   --package seq-client --package seq-core --package seq-ids --package seq-proto",
            env: &[],
        },
    },
    Step {
        name: "clippy",
        what: "lints",
        run: Run::Cargo { args: "clippy --locked --workspace --all-targets -- -D warnings", env: &[] },
    },
    Step {
        name: "plain",
        what: "lints of the Rust SDK without TLS",
        run: Run::Cargo { args: "clippy --locked --package seq-client --no-default-features -- -D warnings", env: &[] },
    },
    Step {
        name: "doc",
        what: "documentation builds, its links resolve",
        run: Run::Cargo {
            args: "doc --locked --workspace --no-deps --document-private-items",
            env: &[("RUSTDOCFLAGS", RUSTDOCFLAGS)],
        },
    },
    Step {
        name: "test",
        what: "tests and documentation tests",
        run: Run::Cargo { args: "test --locked --workspace", env: &[] },
    },
    Step {
        name: "loom",
        what: "every interleaving of a few threads over one section",
        run: Run::Cargo { args: "test --locked --package seq-core --test loom", env: &[("RUSTFLAGS", "--cfg loom")] },
    },
    Step {
        name: "turmoil",
        what: "a few seeds of the real services on a simulated network",
        run: Run::Here(turmoil::run),
    },
    Step { name: "fuzz", what: "a few seconds for each fuzz target", run: Run::Here(fuzz::run_briefly) },
    Step {
        name: "release",
        what: "the program as the README starts it",
        run: Run::Cargo { args: "build --locked --release", env: &[] },
    },
];

/// Runs the chosen steps and prints the duration of each.
pub(crate) fn run(root: &Path, args: &CheckArgs) -> anyhow::Result<()> {
    for name in args.only.iter().chain(&args.skip) {
        anyhow::ensure!(STEPS.iter().any(|step| step.name == name), "no step `{name}`: see `cargo xtask check --list`");
    }
    let is_chosen = |step: &&Step| {
        let only = args.only.is_empty() || args.only.iter().any(|name| name == step.name);
        only && !args.skip.iter().any(|name| name == step.name)
    };
    let mut took = Vec::new();
    for step in STEPS.iter().filter(is_chosen) {
        if args.list {
            println!("{:8} {} ({})", step.name, step.what, step.command());
            continue;
        }
        eprintln!("== {}: {} ({})", step.name, step.what, step.command());
        let start = Instant::now();
        let outcome = step.run(root);
        took.push((step.name, start.elapsed()));
        if let Err(error) = outcome {
            summarise(&took);
            return Err(error.context(format!("step `{}` failed; repeat it with: {}", step.name, step.command())));
        }
    }
    summarise(&took);
    Ok(())
}

fn summarise(took: &[(&str, Duration)]) {
    for (name, duration) in took {
        eprintln!("{name:8} {:6.1} s", duration.as_secs_f64());
    }
}

impl Step {
    fn run(&self, root: &Path) -> anyhow::Result<()> {
        match self.run {
            Run::Here(function) => function(root),
            Run::Cargo { args, env } => {
                let mut cargo = crate::cargo(root);
                cargo.args(args.split(' ')).envs(env.iter().copied());
                let status = cargo.status().context("starting cargo")?;
                anyhow::ensure!(status.success(), "{status}");
                Ok(())
            }
        }
    }

    /// Returns the command that repeats the step.
    fn command(&self) -> String {
        match self.run {
            Run::Here(_) => format!("cargo xtask {}", self.name),
            Run::Cargo { args, env } => {
                let env: String = env.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
                format!("{env}cargo {args}")
            }
        }
    }
}
