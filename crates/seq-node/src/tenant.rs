//! The command `tenant`, which makes tokens and checks tenants files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use seq_auth::file::read_text;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, grouped, note};
use seq_command::set_file::{Problem, failure};
use seq_tenant::{TenantSpec, file, token};
use serde::Serialize;

/// The commands for tenants.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Makes a token for a tenant, and its hash for the tenants file.
    Token(TokenArgs),
    /// Checks a tenants file, and shows the uids, series, keys and quotas of each tenant.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr tenant token im -o json\n\n\
                        The token is shown only once, because the file has only its hash. Give the token to the tenant, and add the \
                        hash to its `tokens`. To replace a token, add the new hash, change the callers, and remove the old hash.\n\n\
                        Exit codes: 0 made, 1 the system has no random bytes.")]
pub struct TokenArgs {
    /// Name of the tenant in the tenants file.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr tenant check tenants.toml\n\n\
                        Exit codes: 0 no problem, 2 problems, each with its line and key.")]
pub struct CheckArgs {
    /// The tenants file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(command: TenantCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        TenantCommand::Token(args) => make_token(&args, output),
        TenantCommand::Check(args) => check(&args, output),
    }
}

/// Limit on the bytes of a tenants file. A thousand tenants with the largest allowed number of tokens take half of it.
const MAX_BYTES: u64 = 4 << 20;

/// Reads a tenants file.
pub(crate) fn load(path: &Path) -> Result<Vec<TenantSpec>, Vec<Problem>> {
    let text = read_text(path, MAX_BYTES).map_err(|error| vec![Problem::unreadable(path, &error)])?;
    file::parse(&text).map_err(|flaws| flaws.into_iter().map(|flaw| Problem::in_file(path, flaw)).collect())
}

fn make_token(args: &TokenArgs, output: &Output) -> anyhow::Result<Exit> {
    let (token, hash) = token::generate(&args.name)?;
    if output.is_json() {
        output.json(&serde_json::json!({ "tenant": args.name, "token": *token, "hash": hash.to_string() }))?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[]);
    table.row(["token".to_owned(), token.to_string()]);
    table.row(["hash".to_owned(), hash.to_string()]);
    output.table(&table)?;
    note("the token is not shown again");
    Ok(Exit::Ok)
}

/// The uids, series, keys, callers and quotas of a tenant. `null` means that there is no quota.
#[derive(Serialize)]
struct View {
    name: String,
    /// Ranges of uids, each as `FIRST..END`. An empty list means all uids.
    uids: Vec<String>,
    /// Names of series. `null` means all series.
    series: Option<Vec<String>>,
    /// Keys, each as `KEYSPACE/PREFIX*`. `null` means all keys.
    keys: Option<Vec<String>>,
    tokens: usize,
    certificates: Vec<String>,
    calls_per_s: Option<u32>,
    numbers_per_s: Option<u32>,
    connections: Option<u32>,
    max_count: Option<u32>,
    max_advance: u64,
}

impl From<TenantSpec> for View {
    fn from(spec: TenantSpec) -> View {
        View {
            uids: spec.uids.iter().map(|uids| format!("{}..{}", uids.start, uids.end)).collect(),
            series: match spec.series {
                Some(series) => Some(series.into_iter().collect()),
                None if spec.uids.is_empty() => None,
                None => Some(Vec::new()),
            },
            keys: match &spec.keys {
                Some(keys) => Some(keys.iter().map(ToString::to_string).collect()),
                None if spec.uids.is_empty() => None,
                None => Some(Vec::new()),
            },
            name: spec.name,
            tokens: spec.tokens.len(),
            certificates: spec.certificates,
            calls_per_s: spec.calls_per_s.map(Into::into),
            numbers_per_s: spec.numbers_per_s.map(Into::into),
            connections: spec.connections,
            max_count: spec.max_count,
            max_advance: spec.max_advance,
        }
    }
}

fn check(args: &CheckArgs, output: &Output) -> anyhow::Result<Exit> {
    let tenants = load(&args.file).map_err(|problems| failure(Exit::Usage, &problems))?;
    let items: Vec<View> = tenants.into_iter().map(View::from).collect();
    if output.is_json() {
        output.json_items(&items)?;
        return Ok(Exit::Ok);
    }
    let heading =
        ["tenant", "uids", "series", "keys", "callers", "calls/s", "numbers/s", "connections", "count", "advance"];
    let mut table = Table::new(&heading).right(&[5, 6, 7, 8, 9]);
    let names = |names: Option<Vec<String>>| match names {
        None => "all".to_owned(),
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.join(" "),
    };
    for view in items {
        let quota = |most: Option<u64>| most.map_or_else(|| "-".to_owned(), grouped);
        let holder = |name: &String| if name.contains('/') { name.clone() } else { format!("client/{name}") };
        let callers = view.certificates.iter().map(holder);
        let tokens =
            (view.tokens > 0).then(|| format!("{} token{}", view.tokens, if view.tokens == 1 { "" } else { "s" }));
        table.row([
            view.name,
            if view.uids.is_empty() { "all".to_owned() } else { view.uids.join(" ") },
            names(view.series),
            names(view.keys),
            callers.chain(tokens).collect::<Vec<_>>().join(", "),
            quota(view.calls_per_s.map(Into::into)),
            quota(view.numbers_per_s.map(Into::into)),
            quota(view.connections.map(Into::into)),
            quota(view.max_count.map(Into::into)),
            grouped(view.max_advance),
        ]);
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}
