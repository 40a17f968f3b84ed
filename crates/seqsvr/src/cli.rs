//! The command line, and the environment variables that set its arguments.
//!
//! An empty variable counts as unset. If the value of a variable is invalid, the error names the variable. The error
//! for an invalid number states the range of the argument, instead of the text of the standard library's parser.

use std::env;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use seq_cli::bench::BenchArgs;
use seq_cli::cert::CertCommand;
use seq_cli::check::CheckCommand;
use seq_cli::console::ConsoleArgs;
use seq_cli::diagnose::DiagnoseArgs;
use seq_cli::doctor::DoctorArgs;
use seq_cli::events::EventsCommand;
use seq_cli::explain::ExplainArgs;
use seq_cli::export::ExportArgs;
use seq_cli::health::HealthArgs;
use seq_cli::host::HostCommand;
use seq_cli::id::IdCommand;
use seq_cli::import::ImportArgs;
use seq_cli::keyspace::KeyspaceCommand;
use seq_cli::migration::MigrationCommand;
use seq_cli::next_command::{AdvanceArgs, CurrentArgs, NextArgs};
use seq_cli::node::NodeCommand;
use seq_cli::replay::ReplayArgs;
use seq_cli::section::SectionCommand;
use seq_cli::series::SeriesCommand;
use seq_cli::services::ServicesArgs;
use seq_cli::set::SetCommand;
use seq_cli::sim::SimCommand;
use seq_cli::status::StatusArgs;
use seq_cli::top::TopArgs;
use seq_command::environment;
use seq_command::exit::{self, Exit, Failure};
use seq_command::output::{Format, Output, grouped};
use seq_command::security::{self, CertificateArgs};
use seq_node::alloc::AllocArgs;
use seq_node::audit::AuditCommand;
use seq_node::backup::BackupCommand;
use seq_node::config::ConfigCommand;
use seq_node::dev::DevArgs;
use seq_node::fake::FakeArgs;
use seq_node::proxy::ProxyArgs;
use seq_node::restore::RestoreArgs;
use seq_node::tenant::TenantCommand;
use seq_node::unsafe_command::UnsafeCommand;

use crate::man::ManArgs;
use crate::store::StoreArgs;

/// Text after the help of the program, with examples and the exit codes.
pub(crate) const EXIT_CODES: &str = "Examples:\n  seqsvr dev             a whole cluster in one process\n  seqsvr next 42         the next number of user 42\n  \
     seqsvr status          the nodes of each set, and the sections that they serve\n\n\
     Exit codes: 0 ok, 1 failed, 2 usage or bad config, 3 unhealthy, 4 cannot connect, 5 stale plan, 6 declined, \
     7 deadline, 8 partly done, 64 a server's bad config, 65 a removed store, 66 an evicted allocator, 130 interrupted.";

/// Per-user sequence numbers that only grow.
#[derive(Debug, Parser)]
#[command(name = "seqsvr", version, max_term_width = 120, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Format of the output: plain, in aligned columns; json, one object with 64-bit numbers as strings; or wide, with
    /// more columns.
    #[arg(short, long, global = true, display_order = 900, help_heading = security::OF_EVERY_COMMAND, value_enum,
          hide_possible_values = true, value_name = "FORMAT", default_value_t = Format::Plain, env = "SEQSVR_OUTPUT")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) certificate: CertificateArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a development cluster in one process, with three stores and two allocators.
    Dev(DevArgs),
    /// Starts a cluster in memory for tests of programs, with faults on request.
    Fake(FakeArgs),
    /// Runs a store of a set, a member of the Raft group that keeps the ceilings; lists and changes the members.
    Store(StoreArgs),
    /// Runs an allocator of a set, which allocates the numbers; reports the death of one.
    Alloc(AllocArgs),
    /// Runs a proxy, which has the endpoints of an allocator for all sets of a cluster, but no sections.
    Proxy(ProxyArgs),
    /// Allocates the next number, or several numbers, for users.
    Next(NextArgs),
    /// Reads the last number of users; changes nothing.
    Current(CurrentArgs),
    /// Raises a user to a number, for imports; never lowers a user.
    Advance(AdvanceArgs),
    /// Raises users to the numbers of another system, from a file or a Redis server; never lowers a user.
    Import(ImportArgs),
    /// Writes the last numbers of a range of users, in the format that `import` reads.
    Export(ExportArgs),
    /// Reports whether nodes serve, for scripts and probes.
    Health(HealthArgs),
    /// Shows sets, stores and allocators: leaders, owners, numbers allocated.
    Status(StatusArgs),
    /// Shows nodes, sections, migrations and events live in the terminal.
    Top(TopArgs),
    /// Serves pages about the cluster to a browser on this machine.
    Console(ConsoleArgs),
    /// Packs the state of sets, their nodes and this host into an archive, without secrets.
    Diagnose(DiagnoseArgs),
    /// Checks this machine for a set: addresses, ports, disks, certificates, time, versions.
    Doctor(DoctorArgs),
    /// Lists a set's allocators; drains an allocator, and lets it serve again.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Prepares all nodes of a machine for its maintenance, in all sets.
    #[command(subcommand)]
    Host(HostCommand),
    /// Makes, shows, renews and revokes the certificates of a cluster.
    #[command(subcommand)]
    Cert(CertCommand),
    /// Makes tokens for tenants, and checks tenants files.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Makes, shows, checks and lists backups of sets.
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Forms a store's data directory from a backup, before the store starts.
    Restore(RestoreArgs),
    /// Lists the operations of administrators, and checks files of the audit log.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Lists and watches the events of sets: takeovers, handovers, drains, migrations.
    #[command(subcommand)]
    Events(EventsCommand),
    /// Runs operations that can lose data: the recovery of a set that lost its majority.
    #[command(subcommand)]
    Unsafe(UnsafeCommand),
    /// Defines, lists and closes the sets of a cluster; splits and merges them.
    #[command(subcommand)]
    Set(SetCommand),
    /// Watches, paces and ends migrations of sections between sets.
    #[command(subcommand)]
    Migration(MigrationCommand),
    /// Lists and moves sections, with their sets and owners.
    #[command(subcommand)]
    Section(SectionCommand),
    /// Creates, lists, shows and retires series, from whose numbers ids are made.
    #[command(subcommand)]
    Series(SeriesCommand),
    /// Creates, lists and shows keyspaces, the counters of keys that are any bytes; finds the owner of a key.
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Lists the gRPC services of a node.
    Services(ServicesArgs),
    /// Replays a recorded message trace through the service and checks every response.
    Replay(ReplayArgs),
    /// Measures throughput and latency, and checks the order of every number.
    Bench(BenchArgs),
    /// Checks whether a running cluster sustains a load.
    #[command(subcommand)]
    Check(CheckCommand),
    /// Runs the protocol with faults in a deterministic simulator, many thousand times faster than real time.
    #[command(subcommand)]
    Sim(SimCommand),
    /// Checks, shows or prints configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Requests ids of a series; shows the parts of ids of Snowflake, Leaf, Instagram and others.
    #[command(subcommand)]
    Id(IdCommand),
    /// Explains the reason of a refusal.
    Explain(ExplainArgs),
    /// Prints a manual page, or writes all manual pages.
    Man(ManArgs),
    /// Prints a completion script for a shell.
    #[command(after_help = "Example:\n  seqsvr completions bash > /etc/bash_completion.d/seqsvr")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the version and source revision.
    #[command(after_help = "Example:\n  seqsvr version -o json")]
    Version,
}

/// Choice of the environment variables that are read for arguments missing on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    /// All variables that the arguments name.
    Read,
    /// All variables except the given variable. The given variable is excluded because an argument on the command line
    /// overrides the argument that it sets.
    Without(&'static str),
    /// No variables, so that the defaults apply.
    Ignored,
}

impl Cli {
    /// Parses the command line and the environment variables. If there is an error, or if help or the version is
    /// requested, it prints the text and exits the process.
    pub(crate) fn read() -> Cli {
        let words: Vec<OsString> = with_units(env::args_os()).collect();
        parse(&words).unwrap_or_else(|error| {
            // If the command line cannot be parsed, the format of the output is unknown, so it is searched for among
            // the words.
            let is_json = words.windows(2).any(|pair| pair == ["-o", "json"] || pair == ["--output", "json"])
                || words.iter().any(|word| word == "--output=json" || word == "-ojson");
            if error.use_stderr() && is_json {
                let text = error.render().to_string();
                let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                exit::print_json(&Failure::new(Exit::Usage, message).into(), &Output::new(Format::Json));
            }
            error.exit()
        })
    }
}

/// Replaces flags of earlier versions that had a unit in their names. For example, it replaces `--deadline-ms 500` with
/// `--timeout 500ms`.
fn with_units(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_value = false;
    words.flat_map(move |word| {
        if std::mem::take(&mut is_value) {
            let mut value = word;
            value.push("ms");
            return vec![value];
        }
        let text = word.to_str().unwrap_or_default();
        let (flag, value) = text.split_once('=').map_or((text, None), |(flag, value)| (flag, Some(value)));
        if !["--deadline-ms", "--timeout-ms"].contains(&flag) {
            return vec![word];
        }
        is_value = value.is_none();
        let unit = value.map(|value| format!("{value}ms").into());
        [OsString::from("--timeout")].into_iter().chain(unit).collect()
    })
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let error = match attempt(words, Environment::Read) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    if !error.use_stderr() {
        return Err(error);
    }
    let error = match attempt(words, Environment::Ignored) {
        // The same kind of error occurs without the environment. `bare` is returned because its usage does not list
        // arguments that variables set as required.
        Err(bare) if bare.kind() == error.kind() => bare,
        // The environment caused the error.
        _ => name_variable(error),
    };
    Err(plain_number_error(near_suggestions(error)))
}

fn attempt(words: &[OsString], environment: Environment) -> Result<Cli, clap::Error> {
    let mut command = prepare(Cli::command(), environment);
    let mut matches = command.try_get_matches_from_mut(words)?;
    if let Some(variable) = replaced_variable(&matches).filter(|_| environment == Environment::Read) {
        return attempt(words, Environment::Without(variable));
    }
    let has_format = matches.value_source("output") == Some(ValueSource::CommandLine);
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    match cli.command.without_format().filter(|_| has_format && cli.output != Format::Plain) {
        Some(prints) => {
            let message = format!("--output has no effect here: the command prints {prints}\n");
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, message).with_cmd(&command))
        }
        None => Ok(cli),
    }
}

impl Command {
    /// Returns a description of the output of a command that ignores `--output`, or `None` for a command with several
    /// formats.
    fn without_format(&self) -> Option<&'static str> {
        match self {
            Command::Alloc(args) if args.is_server() => Some("nothing but its log"),
            Command::Proxy(_) => Some("nothing but its log"),
            Command::Store(args) if args.is_server() => Some("nothing but its log"),
            Command::Backup(command) if command.prints_backup() => Some("the backup"),
            Command::Export(args) if args.prints_numbers() => Some("the numbers; --format is their format"),
            Command::Completions { .. } => Some("a script"),
            Command::Config(ConfigCommand::Sample) => Some("a settings file"),
            Command::Man(args) if args.prints_page() => Some("a manual page"),
            _ => None,
        }
    }
}

/// Changes the definition of a command in two ways. All arguments with values accept negative numbers, so that the
/// parser of each argument rejects them with its own error. Empty environment variables, and the variables that
/// `environment` excludes, set no arguments.
fn prepare(command: clap::Command, environment: Environment) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().is_some_and(environment::is_empty);
    command
        .mut_args(|arg| {
            let reads = match environment {
                Environment::Read => !is_empty(&arg),
                Environment::Without(variable) => !is_empty(&arg) && arg.get_env().is_none_or(|name| name != variable),
                Environment::Ignored => false,
            };
            let arg = if reads { arg } else { arg.env(Resettable::Reset) };
            if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(|command| prepare(command, environment))
}

/// Returns the environment variable to ignore because a flag names another cluster. It is `SEQSVR_ADDR` if the command
/// line has `--set` or `--sets`, and `SEQSVR_SET` if the command line has an address. A command uses only one cluster,
/// and flags override variables.
fn replaced_variable(matches: &clap::ArgMatches) -> Option<&'static str> {
    let mut leaf = matches;
    while let Some((_, next)) = leaf.subcommand() {
        leaf = next;
    }
    let source = |name: &str| leaf.ids().any(|id| id == name).then(|| leaf.value_source(name)).flatten();
    let (set, sets, addrs) = (source("set"), source("sets"), source("addrs"));
    let is_flag = |source| source == Some(ValueSource::CommandLine);
    match addrs {
        Some(ValueSource::EnvVariable) if is_flag(set) || is_flag(sets) => Some("SEQSVR_ADDR"),
        Some(ValueSource::CommandLine) if set == Some(ValueSource::EnvVariable) => Some("SEQSVR_SET"),
        _ => None,
    }
}

/// Removes from an error the suggestions that are not similar to the wrong word of the command line.
fn near_suggestions(mut error: clap::Error) -> clap::Error {
    let kinds = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    for (wrong, suggested) in kinds {
        let Some(ContextValue::String(wrong)) = error.get(wrong).cloned() else { continue };
        let is_near = |text: &String| strsim::damerau_levenshtein(&wrong, text) <= wrong.len().div_ceil(3);
        let near = match error.remove(suggested) {
            Some(ContextValue::String(text)) => is_near(&text).then_some(ContextValue::String(text)),
            Some(ContextValue::Strings(mut texts)) => {
                texts.retain(is_near);
                (!texts.is_empty()).then_some(ContextValue::Strings(texts))
            }
            other => other,
        };
        if let Some(near) = near {
            error.insert(suggested, near);
        }
    }
    // The list is removed if it is empty, because clap prints an empty list of tips as an empty line.
    if matches!(error.get(ContextKind::Suggested), Some(ContextValue::StyledStrs(tips)) if tips.is_empty()) {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Replaces the name of the invalid argument in an error with the name of the environment variable that sets it.
fn name_variable(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = argument.split(' ').next().unwrap_or_default();
    if let Some(variable) = variable_of(&Cli::command(), flag) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(format!("${variable}")));
    }
    error
}

/// Returns the environment variable that sets `flag`. It is taken from the first command that has the flag, because a
/// flag has the same variable in all commands.
fn variable_of(command: &clap::Command, flag: &str) -> Option<String> {
    let mut own = command.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| flag == format!("--{long}")));
    let own = own.find_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
    own.or_else(|| command.get_subcommands().find_map(|command| variable_of(command, flag)))
}

/// Rewords the parser's text for a number outside its range, e.g. `7 is not in 1..=5`. Returns `None` for any other
/// text.
fn range_in_words(text: &str) -> Option<String> {
    let (_, range) = text.split_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let number = |text: &str| text.trim_start_matches('=').parse::<u64>().ok();
    // The upper limit is omitted if it is only the largest value of the integer type.
    Some(match (number(least)?, number(most).filter(|most| *most < i64::MAX.unsigned_abs())) {
        (least, Some(most)) => format!("it must be from {} to {}", grouped(least), grouped(most)),
        (least, None) => format!("it must be {} or more", grouped(least)),
    })
}

/// Rewords an error about an argument that must be a whole number, if its value is malformed, too large, negative or
/// out of range.
fn plain_number_error(error: clap::Error) -> clap::Error {
    let source = std::error::Error::source(&error);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(source), Some(argument), Some(value)) =
        (source, text(ContextKind::InvalidArg), text(ContextKind::InvalidValue))
    else {
        return error;
    };
    let why = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        None => match range_in_words(&source.to_string()) {
            Some(why) => why,
            None => return error,
        },
        Some(IntErrorKind::PosOverflow) => "it is too large".to_owned(),
        Some(IntErrorKind::NegOverflow) => "it must not be negative".to_owned(),
        _ if value.strip_prefix('-').is_some_and(|rest| rest.parse::<u128>().is_ok()) => {
            "it must not be negative".to_owned()
        }
        _ => "it must be a whole number".to_owned(),
    };
    let message = format!("invalid value '{value}' for '{argument}': {why}\n\nFor more information, try '--help'.\n");
    clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(&Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_documented() {
        let pages = [
            include_str!("../../../docs/operations/callers.md"),
            include_str!("../../../docs/operations/changes.md"),
            include_str!("../../../docs/operations/nodes.md"),
            include_str!("../../../docs/operations/watching.md"),
        ];
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let has = |page: &&str| page.contains(&format!("`seqsvr {name}"));
            assert!(pages.iter().any(has), "{name} is not in docs/operations");
        }
    }

    #[test]
    fn every_command_has_an_example_and_its_exit_codes() {
        fn check(command: &clap::Command) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_bin_name().unwrap_or_default();
            let has_own =
                command.get_subcommands().next().is_none() || command.is_args_conflicts_with_subcommands_set();
            assert!(!has_own || after.contains(name), "no example in the help of {name}: {after}");
            let always_done = ["seqsvr completions", "seqsvr version"].contains(&name);
            assert!(
                !has_own || always_done || after.contains("Exit code"),
                "no exit codes in the help of {name}: {after}"
            );
            command.get_subcommands().for_each(check);
        }
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        check(&command);
    }

    #[test]
    fn a_range_is_in_words() {
        let words = |text| range_in_words(text).unwrap();
        assert_eq!(words("70000 is not in 1..=65535"), "it must be from 1 to 65,535");
        assert_eq!(words("0 is not in 1..=18446744073709551615"), "it must be 1 or more");
        assert_eq!(range_in_words("something else"), None);
    }

    #[test]
    fn the_command_line_is_sound() {
        prepare(Cli::command(), Environment::Read).debug_assert();
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        let help = EXIT_CODES.replace('\n', " ");
        for exit in Exit::ALL {
            let code = (exit as u8).to_string();
            assert!(help.split([' ', ',']).any(|word| word == code), "{exit:?}, {code}, is not in the help");
        }
    }
}
