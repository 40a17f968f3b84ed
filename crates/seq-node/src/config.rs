//! The commands `config check`, `config show`, `config diff` and `config sample`. They show settings as the rows of a
//! table, which has the same rows for a server that would be started here as for a running node.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, ProblemView};
use seq_command::output::{Output, Table};
use seq_command::set_file::{self, Problem, SetFile};
use seq_command::target::{host_port, node_url};
use seq_command::{client_runtime, security};
use seq_proto::v1::Setting;
use serde::Serialize;

use seq_observe::settings::typed;

use crate::settings::{self, Settings, SettingsArgs, table};

mod diff;

use diff::DiffArgs;

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Checks set files and server settings: file:line, key and reason of every problem; exit 2 if there is one.
    #[command(
        after_help = "Examples:\n  seqsvr config check sets/dev.toml\n  seqsvr config check sets/ --config seqsvr.toml\n\n\
                      Exit codes: 0 no problem, 2 problems, one on each line."
    )]
    Check(CheckArgs),
    /// Prints the settings that a server would have if it were started here, or the settings of a running node.
    #[command(after_help = "Examples:\n  SEQSVR_LOG_FILTER=debug seqsvr config show --origin\n  \
                      seqsvr config show --addr http://127.0.0.1:7301 --origin\n  \
                      seqsvr config show --config seqsvr.toml -o json | jq '.items[] | {key, value}'\n\n\
                      A running node withholds secrets and the paths of private keys, and shows `(set)` instead.\n\n\
                      Exit codes: 0 shown, 1 the node refuses, 2 the settings or the address are wrong, 3 the node is \
                      starting, 4 it does not respond.")]
    Show(ShowArgs),
    /// Compares the settings of running nodes of a kind, and names the nodes that differ.
    Diff(DiffArgs),
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
    /// Address of a running node, as http://host:port; its settings are shown.
    #[arg(long, value_name = "URL", value_parser = node_url, conflicts_with_all = ["log_filter", "log_format"])]
    addr: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Timeout of a request to a running node. A node usually responds within a small part of this time.
const TIMEOUT: Duration = Duration::from_secs(2);

pub fn run(command: ConfigCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check(args) => check(&args, output),
        ConfigCommand::Show(args) => show(&args, output),
        ConfigCommand::Diff(args) => client_runtime()?.block_on(diff::run(&args, output)),
        ConfigCommand::Sample => {
            output.text(&settings::sample())?;
            Ok(Exit::Ok)
        }
    }
}

#[derive(Serialize)]
struct Checked {
    sets: Vec<String>,
    /// Ports whose listen address differs from the address to which other nodes connect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listen: Vec<ListenView>,
    problems: Vec<ProblemView>,
    /// Environment variables that have the prefix but match no key.
    warnings: Vec<String>,
}

/// A port whose listen address differs from the address to which other nodes connect.
#[derive(Serialize)]
struct ListenView {
    set: String,
    node: String,
    /// Key of the port's address: `addr`, `raft`, `admin`, `peer`, `http`, `redis` or
    /// `redis_cluster`.
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
    /// The default, in the type of the key; `null` if there is none.
    default: Option<toml::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

fn show(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let rows = match &args.addr {
        Some(addr) => client_runtime()?.block_on(running(addr))?,
        None => {
            let loaded = args.settings.load(&Settings::default(), Ok).map_err(|failure| failure.ending(Exit::Usage))?;
            table::rows(&loaded.keys)
        }
    };
    if output.is_json() {
        let items = rows.into_iter().map(|row| Item {
            value: typed(&row.value),
            default: (!row.default.is_empty()).then(|| typed(&row.default)),
            key: row.key,
            origin: args.origin.then_some(row.origin),
        });
        output.json_items(&items.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let columns = [Some("key"), Some("value"), output.is_wide().then_some("default"), args.origin.then_some("from")];
    let mut table = Table::new(&columns.into_iter().flatten().collect::<Vec<_>>());
    for Setting { key, value, default, origin } in rows {
        let default = output.is_wide().then_some(default);
        table.row([key, value].into_iter().chain(default).chain(args.origin.then_some(origin)));
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}

/// Requests the settings of a running node.
async fn running(addr: &str) -> anyhow::Result<Vec<Setting>> {
    security::use_tls(addr.starts_with("https://"))?;
    Ok(seq_observe::settings::config_of(&security::pool(), host_port(addr), TIMEOUT).await?.settings)
}
