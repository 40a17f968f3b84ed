//! The command `audit`. It lists the operations of administrators, and checks files of the audit log.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, report_error};
use seq_command::output::{Output, Table, digits, note};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_command::target::load_set;
use seq_command::{client_runtime, utc};
use seq_proto::v1::{AuditEvent, audit_event};
use seq_store::audit::{self, Verified};
use serde::Serialize;

/// The commands for the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Lists the operations of administrators that the store still keeps, the newest last.
    List(ListArgs),
    /// Checks every byte of files of the audit log, offline.
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr audit list --set three-node.toml\n  \
                        seqsvr audit list --set three-node.toml --limit 20 -o json\n\n\
                        The store keeps the newest 1,000 events, two for each operation. Each member keeps older events in audit.jsonl in \
                        its data directory. A result is `done`, the reason of a refusal, or `unknown` if the member that carried out the \
                        operation has not recorded its end.\n\n\
                        Exit codes: 0 listed, 2 a wrong file or address, 3 the store has no majority, 4 no node responded, 7 not done \
                        within --timeout.")]
pub struct ListArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Only the newest N operations.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr audit verify /var/lib/seqsvr/store-1/audit*.jsonl\n  \
                        seqsvr audit verify s1/audit.jsonl s2/audit.jsonl    (also compares them where they overlap)\n  \
                        seqsvr audit verify copy.jsonl --set three-node.toml    (also compares its end with the store)\n\n\
                        Name the files in the order of their events. If the oldest files were removed, pass --partial to begin with the \
                        oldest file that is left. Events that are missing at the end, or a chain that was rewritten as a whole, show only in a \
                        comparison with another copy or with the store.\n\n\
                        Exit codes: 0 all files are intact, 2 a file cannot be read, was changed or cut, or differs; with --set also 3 the \
                        store has no majority, 4 no node responded.")]
pub struct VerifyArgs {
    /// The files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The set file; its store is compared with the end of the last file.
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    /// Accepts that the oldest files were removed: a file may begin after the first event even if no file before it
    /// ends there.
    #[arg(long)]
    partial: bool,
}

/// An operation of the audit log, as `audit list` prints it.
#[derive(Serialize)]
struct OperationView {
    #[serde(serialize_with = "digits")]
    number: u64,
    /// Time of the operation's begin; `null` if it is unknown.
    time: Option<String>,
    principal: String,
    node: String,
    operation: String,
    plan: Option<String>,
    /// `done`, `refused` or `unknown`.
    result: &'static str,
    refusal: Option<String>,
    ended: Option<String>,
    hash: String,
}

/// The result of the check of one file.
#[derive(Serialize)]
struct FileView {
    file: String,
    /// Indexes of the first and the last event; `null` if the file is damaged.
    first: Option<u64>,
    last: Option<u64>,
    damage: Option<String>,
}

pub fn run(command: &AuditCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        AuditCommand::List(args) => client_runtime()?.block_on(list(args, output)),
        AuditCommand::Verify(args) => verify(args, output),
    }
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let (events, recorded) = args.target.client(args.timeout.duration())?.events().await?;
    let mut operations = operations(&events);
    if let Some(limit) = args.limit {
        operations.drain(..operations.len().saturating_sub(limit as usize));
    }
    if output.is_json() {
        output.json_items(&operations)?;
        return Ok(Exit::Ok);
    }
    if !recorded {
        note("operations are not recorded in this format of the store: `seqsvr store upgrade` raises it");
    }
    let mut table = Table::new(&["number", "time", "principal", "operation", "plan", "result"]).right(&[0]);
    for one in operations {
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let result = one.refusal.unwrap_or_else(|| one.result.to_owned());
        table.row([one.number.to_string(), text(one.time), one.principal, one.operation, text(one.plan), result]);
    }
    Ok(output.table(&table)?).map(|()| Exit::Ok)
}

/// Returns the operations in a list of events, each with its begin and its end. Leaves out an end if its begin is no
/// longer kept by the store.
fn operations(events: &[AuditEvent]) -> Vec<OperationView> {
    let mut operations: Vec<OperationView> = Vec::new();
    for event in events {
        match &event.record {
            Some(audit_event::Record::Begun(begun)) => operations.push(OperationView {
                number: event.index,
                time: utc::text_if_known(begun.at_unix_ms),
                principal: begun.principal.clone(),
                node: begun.node.clone(),
                operation: begun.operation.clone(),
                plan: (begun.plan > 0).then(|| format!("{:016x}", begun.plan)),
                result: "unknown",
                refusal: None,
                ended: None,
                hash: event.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            }),
            Some(audit_event::Record::Ended(ended)) => {
                let Some(one) = operations.iter_mut().rev().find(|one| one.number == ended.operation) else { continue };
                one.result = if ended.refusal.is_some() { "refused" } else { "done" };
                (one.refusal, one.ended) = (ended.refusal.clone(), utc::text_if_known(ended.at_unix_ms));
            }
            None => {}
        }
    }
    operations
}

fn verify(args: &VerifyArgs, output: &Output) -> anyhow::Result<Exit> {
    let store = match &args.set {
        Some(set) => {
            let set = load_set(set)?;
            let events = async { StoreClient::of_file(&set, TimeoutArgs::DEFAULT).events().await };
            Some(client_runtime()?.block_on(events)?.0)
        }
        None => None,
    };
    let mut intact: Vec<(&Path, Verified)> = Vec::new();
    let mut views = Vec::new();
    for (file, left) in args.files.iter().zip((0..args.files.len()).rev()) {
        let checked = check(file, &intact, args.partial, store.as_deref().filter(|_| left == 0));
        let (first, last) = match &checked {
            Ok(verified) => (verified.events.first(), verified.events.last()),
            Err(_) => (None, None),
        };
        views.push(FileView {
            file: file.display().to_string(),
            first: first.map(|event| event.index),
            last: last.map(|event| event.index),
            damage: checked.as_ref().err().cloned(),
        });
        intact.extend(checked.ok().map(|verified| (file.as_path(), verified)));
    }
    if output.is_json() {
        output.json_items(&views)?;
    } else {
        for FileView { file, first, last, damage } in &views {
            match (damage, first, last) {
                (None, Some(first), Some(last)) => {
                    output.line(format_args!("{file}: intact, events {first} to {last}"))?;
                }
                (damage, ..) => report_error(&format_args!("{file}: {}", damage.as_deref().unwrap_or("no event"))),
            }
        }
    }
    Ok(if views.iter().all(|view| view.damage.is_none()) { Exit::Ok } else { Exit::Usage })
}

/// Checks the content of a file of the audit log, that it continues the other files, and that it agrees with the events
/// of the store.
fn check(
    file: &Path,
    others: &[(&Path, Verified)],
    partial: bool,
    store: Option<&[AuditEvent]>,
) -> Result<Verified, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let verified = audit::verify(&bytes).map_err(|damage| damage.to_string())?;
    let first = verified.events.first().map_or(0, |event| event.index);
    let before = others.iter().flat_map(|(_, other)| &other.events).find(|event| event.index + 1 == first);
    match before {
        Some(event) if event.hash != verified.base => {
            return Err(format!("event {first} does not follow event {} of another file", event.index));
        }
        None if first > 1 && !partial => {
            return Err(format!("it begins with event {first}, and no file before it has event {}", first - 1));
        }
        _ => {}
    }
    for (path, other) in others {
        let same = |index| other.events.iter().find(|event| event.index == index);
        let differs =
            |event: &&seq_core::state::AuditEvent| same(event.index).is_some_and(|one| one.hash != event.hash);
        if let Some(event) = verified.events.iter().find(differs) {
            return Err(format!("event {} differs from the same event in {}", event.index, path.display()));
        }
    }
    let (Some(store), Some(last)) = (store, verified.events.last()) else { return Ok(verified) };
    if let Some(event) = store.iter().find(|event| event.index == last.index)
        && event.hash != last.hash.0
    {
        return Err(format!("event {} differs from the same event in the store", last.index));
    }
    match store.last() {
        Some(newest) if newest.index > last.index => {
            Err(format!("it ends with event {}, and the store has {}", last.index, newest.index))
        }
        Some(newest) if newest.index == last.index => Ok(verified),
        _ => Err(format!("it has event {}, and the store has fewer", last.index)),
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::{BegunOperation, EndedOperation};

    use super::*;

    fn event(index: u64, record: audit_event::Record) -> AuditEvent {
        AuditEvent { index, record: Some(record), hash: vec![7; 32] }
    }

    fn begun(operation: &str) -> audit_event::Record {
        audit_event::Record::Begun(BegunOperation { operation: operation.into(), plan: 5, ..BegunOperation::default() })
    }

    fn ended(operation: u64, refusal: Option<&str>) -> audit_event::Record {
        let refusal = refusal.map(Into::into);
        audit_event::Record::Ended(EndedOperation { at_unix_ms: 1_000, operation, refusal })
    }

    #[test]
    fn begins_and_ends_are_paired() {
        let events = [
            event(8, ended(3, None)),
            event(9, begun("node drain a1")),
            event(10, begun("node drain a2")),
            event(11, ended(10, Some("LAST_NODE: a2"))),
            event(12, begun("set close im-b")),
            event(13, ended(9, None)),
        ];
        let shown: Vec<_> = operations(&events).into_iter().map(|one| (one.number, one.result, one.refusal)).collect();
        assert_eq!(shown, [(9, "done", None), (10, "refused", Some("LAST_NODE: a2".into())), (12, "unknown", None)]);
    }
}
