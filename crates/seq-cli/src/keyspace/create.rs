//! The command `keyspace create`, which creates a keyspace.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_core::plan::Fingerprint;
use seq_proto::v1::CreateKeyspaceResponse;
use serde::Serialize;

use super::view::KeyspaceView;
use crate::cluster_client::Cluster;
use crate::settle::{self, Wanted};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr keyspace create main --dry-run\n  seqsvr keyspace create main\n  \
                        seqsvr keyspace create main --yes -o json    (in scripts)\n  \
                        seqsvr keyspace create users --uids    (uids of 64 bits, for example Snowflakes)\n\n\
                        A name is used once: a keyspace is neither renamed nor removed. The same command again changes \
                        nothing.\n\n\
                        With --uids, every uid that the set files do not declare gets a counter: all calls for uids, \
                        `seqsvr next UID` and keys `seq:UID` of Redis serve it from then on. A cluster has one such keyspace.\n\n\
                        Exit codes: 0 the keyspace exists, 1 refused (SERIES_EXISTS, TOO_MANY_SERIES, OLD_FORMAT, \
                        SET_OUTDATED), 2 a wrong name, file or address, or no terminal to confirm on, 3 the store has no set or \
                        no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not done \
                        within --timeout.")]
pub struct CreateArgs {
    /// Name of the keyspace: 1 to 63 characters of a-z, 0-9, _, . and -.
    #[arg(value_name = "KEYSPACE")]
    name: String,
    /// Makes the uids outside of the range of the set files its keys.
    #[arg(long)]
    uids: bool,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Outcome<'a> {
    /// Name of the set that creates keyspaces.
    set: &'a str,
    keyspace: &'a KeyspaceView,
    dry_run: bool,
    /// Addresses of the AllocSvrs that have not adopted the change yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pending: &'a [String],
    /// Whether the keyspace was created by this command.
    changed: bool,
    /// Fingerprint of the plan of this change. It is absent if the keyspace existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn run(args: &CreateArgs, output: &Output) -> anyhow::Result<Exit> {
    let name = args.name.as_str();
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let dry_run = async |store: &mut StoreClient| store.create_keyspace(name, args.uids, Mode::Show).await;
    let (mut set, foreseen) = cluster.into_series_writer(dry_run).await?;
    let (view, existed) = (stated(&foreseen)?, foreseen.existed);
    let (own, plan) = (set.info().name.clone(), Fingerprint(foreseen.fingerprint));
    let dry_run = args.confirm.plan.dry_run;
    let outcome = |view, changed, pending| Outcome {
        set: &own,
        keyspace: view,
        dry_run,
        changed,
        pending,
        plan: plan::digits(plan).filter(|_| !existed),
    };
    if !output.is_json() {
        if existed {
            output.line(format_args!("nothing to do: keyspace {name} was created {}", view.created))?;
        } else {
            let buckets = grouped(view.buckets.into());
            let kind = if view.uids { " for sparse uids" } else { "" };
            output
                .line(format_args!("set {own} would create it, with {buckets} buckets{kind}; its name is permanent"))?;
            plan::print(plan, output)?;
        }
    }
    if !existed {
        args.confirm.plan.check(plan)?;
    }
    if existed || dry_run {
        if output.is_json() {
            output.json(&outcome(&view, false, &[]))?;
        }
        return Ok(Exit::Ok);
    }
    if !args.confirm.confirmed(&format!("create keyspace {name} permanently"))? {
        return Ok(Exit::Declined);
    }
    set.store.restart_time();
    let made = set.store.create_keyspace(name, args.uids, Mode::Make(plan)).await?;
    let pending = settle::until_known(&set.sets, Wanted::Keyspace(name), output).await;
    if output.is_json() {
        output.json(&outcome(&stated(&made)?, made.created, &pending))?;
    } else {
        settle::note_pending(&pending);
        output.line(format_args!("keyspace {name} is created"))?;
    }
    Ok(Exit::Ok)
}

/// Returns the keyspace in a response of the store.
fn stated(response: &CreateKeyspaceResponse) -> Result<KeyspaceView, Failure> {
    let keyspace = response.keyspace.as_ref();
    let keyspace = keyspace.ok_or_else(|| Failure::new(Exit::Failed, "the response of the store has no keyspace"))?;
    Ok(KeyspaceView::new(&keyspace.name, keyspace.first_section, keyspace.created_ms, keyspace.of_uids))
}
