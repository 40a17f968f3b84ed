//! The commands `config check`, `config show` and `config sample`. None opens a socket.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Output, Table};
use crate::set_file;
use crate::settings::{SAMPLE, Settings, SettingsArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Checks set files, and the settings of servers: file:line, key and reason of every problem; exit 2 if there is one.
    #[command(
        after_help = "Examples:\n  seqsvr config check sets/dev.toml\n  seqsvr config check sets/ --config seqsvr.toml"
    )]
    Check(CheckArgs),
    /// Prints the settings that a server would run with here.
    #[command(
        after_help = "Examples:\n  SEQSVR_LOG_FILTER=debug seqsvr config show --origin\n  seqsvr config show --config seqsvr.toml -o json"
    )]
    Show(ShowArgs),
    /// Prints a settings file with every key, its default and its meaning.
    #[command(after_help = "Example:\n  seqsvr config sample > seqsvr.toml")]
    Sample,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Set files, or directories of them; the sets of one call must not share uids, names or addresses.
    #[arg(value_name = "PATH", required_unless_present = "config")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Says which layer set each key.
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Keys whose values are nobody's to read.
const SECRETS: [&str; 1] = ["redis.password"];

pub(crate) fn run(command: ConfigCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check(args) => check(&args, output),
        ConfigCommand::Show(args) => show(&args, output),
        ConfigCommand::Sample => {
            output.text(SAMPLE)?;
            Ok(Exit::Ok)
        }
    }
}

#[derive(Serialize)]
struct Checked {
    sets: Vec<String>,
    problems: Vec<String>,
}

fn check(args: &CheckArgs, output: &Output) -> anyhow::Result<Exit> {
    let (sets, problems) = set_file::load_all(&args.paths);
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if let Err(error) = args.settings.load(&Settings::default(), Ok) {
        problems.push(error.to_string());
    }
    if output.is_json() {
        let sets = sets.into_iter().map(|set| set.spec.name).collect();
        output.json(&Checked { sets, problems: problems.clone() })?;
    } else {
        for problem in &problems {
            output.line(problem)?;
        }
        for set in sets.iter().filter(|_| problems.is_empty()) {
            output.line(format_args!("{}: set {} is good", set.path.display(), set.spec.name))?;
        }
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Usage })
}

#[derive(Serialize)]
struct Key {
    key: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

fn show(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let loaded = args.settings.load(&Settings::default(), Ok).map_err(|failure| failure.ending(Exit::Usage))?;
    let keys = loaded.keys.into_iter().map(|(key, value, origin)| Key {
        value: if SECRETS.contains(&&*key) && loaded.value.has_password() { "(set)".to_owned() } else { value },
        key,
        origin: args.origin.then(|| origin.to_string()),
    });
    if output.is_json() {
        output.json(&keys.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(if args.origin { &["key", "value", "from"][..] } else { &["key", "value"] });
    for Key { key, value, origin } in keys {
        table.row([key, value].into_iter().chain(origin));
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}
