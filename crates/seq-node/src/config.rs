//! The commands `config check`, `config show` and `config sample`, which open no socket.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use seq_command::exit::Exit;
use seq_command::exit::ProblemView;
use seq_command::output::{Output, Table};
use seq_command::set_file::{self, Problem, SetFile};
use seq_kit::config::Key;
use serde::Serialize;

use crate::settings::{self, Settings, SettingsArgs};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Checks set files and server settings: file:line, key and reason of every problem; exit 2 if there is one.
    #[command(
        after_help = "Examples:\n  seqsvr config check sets/dev.toml\n  seqsvr config check sets/ --config seqsvr.toml\n\n\
                      Exit codes: 0 no problem, 2 problems, one on each line."
    )]
    Check(CheckArgs),
    /// Prints the settings that a server would have if it were started here.
    #[command(after_help = "Examples:\n  SEQSVR_LOG_FILTER=debug seqsvr config show --origin\n  \
                      seqsvr config show --config seqsvr.toml -o json | jq '.items[] | {key, value}'\n\n\
                      Exit codes: 0 shown, 2 the settings are wrong.")]
    Show(ShowArgs),
    /// Prints a settings file with every key, its default and its meaning.
    #[command(after_help = "Example:\n  seqsvr config sample > seqsvr.toml\n\nExit code 0.")]
    Sample,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Set files, or directories of them; the sets of one check must not share uids, names or addresses.
    #[arg(value_name = "PATH", required_unless_present = "config")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Shows which layer set each key.
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Keys whose values are not printed.
const SECRETS: [&str; 1] = ["redis.password"];

/// Text that is printed instead of a secret.
const HIDDEN: &str = "(set)";

pub fn run(command: ConfigCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check(args) => check(&args, output),
        ConfigCommand::Show(args) => show(&args, output),
        ConfigCommand::Sample => {
            output.text(&settings::sample())?;
            Ok(Exit::Ok)
        }
    }
}

#[derive(Serialize)]
struct Checked {
    sets: Vec<String>,
    /// Ports whose listen address differs from the address that other nodes dial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listen: Vec<ListenView>,
    problems: Vec<ProblemView>,
    /// Environment variables with the prefix that match no key.
    warnings: Vec<String>,
}

/// A port whose listen address differs from the address that other nodes dial.
#[derive(Serialize)]
struct ListenView {
    set: String,
    node: String,
    /// Key of the port's address: `addr`, `raft`, `admin`, `peer`, `http` or `redis`.
    port: &'static str,
    addr: String,
    listen: String,
}

impl ListenView {
    fn of(set: &SetFile) -> impl Iterator<Item = ListenView> {
        set.ports().filter_map(|(node, port)| {
            let (addr, listen) = (port.addr?.to_owned(), port.listen?.to_owned());
            Some(ListenView { set: set.spec.name.clone(), node: node.to_owned(), port: port.key, addr, listen })
        })
    }
}

fn check(args: &CheckArgs, output: &Output) -> anyhow::Result<Exit> {
    let (sets, problems) = set_file::load_all(&args.paths);
    let mut problems: Vec<ProblemView> = problems.iter().map(Problem::view).collect();
    let warnings = match args.settings.load(&Settings::default(), Ok) {
        Ok(loaded) => loaded.warnings,
        Err(error) => {
            let text = error.to_string();
            problems.push(ProblemView { file: None, line: None, key: None, what: text.clone(), text });
            Vec::new()
        }
    };
    let exit = if problems.is_empty() { Exit::Ok } else { Exit::Usage };
    if output.is_json() {
        let listen = sets.iter().flat_map(ListenView::of).collect();
        let sets = sets.into_iter().map(|set| set.spec.name).collect();
        output.json(&Checked { sets, listen, problems, warnings })?;
        return Ok(exit);
    }
    for problem in &problems {
        output.line(&problem.text)?;
    }
    for set in sets.iter().filter(|_| problems.is_empty()) {
        output.line(format_args!("{}: set {} is good", set.path.display(), set.spec.name))?;
        for ListenView { node, port, addr, listen, .. } in ListenView::of(set) {
            output.line(format_args!("  {node} {port}: other nodes dial {addr}, the node listens at {listen}"))?;
        }
    }
    Ok(exit)
}

#[derive(Serialize)]
struct Item {
    key: String,
    /// The value, in the type of the key.
    value: toml::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

fn show(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let loaded = args.settings.load(&Settings::default(), Ok).map_err(|failure| failure.ending(Exit::Usage))?;
    let hides = |key: &Key| SECRETS.contains(&&*key.name) && loaded.value.redis.password.is_some();
    let origin = |key: &Key| args.origin.then(|| key.origin.to_string());
    if output.is_json() {
        let items = loaded.keys.iter().map(|key| Item {
            key: key.name.clone(),
            value: if hides(key) { HIDDEN.into() } else { key.value.clone() },
            origin: origin(key),
        });
        output.json_items(&items.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(if args.origin { &["key", "value", "from"][..] } else { &["key", "value"] });
    for key in &loaded.keys {
        let value = if hides(key) { HIDDEN.to_owned() } else { key.value.to_string() };
        table.row([key.name.clone(), value].into_iter().chain(origin(key)));
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}
