//! The command `store upgrade`, which raises the format in which a store writes its log and its state.
//!
//! Before this command is run, members of a new release still write the format of the former release. So the members
//! can be upgraded one by one, and can return to the former release. The leader raises the format only if every member
//! has reported that it can read the next format.

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_core::plan::Fingerprint;
use seq_proto::v1::{ListMembersResponse, RaiseFormatResponse};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples, once every store runs the new release:\n  \
                        seqsvr store upgrade --dry-run --set sets/three-node.toml\n  \
                        seqsvr store upgrade --yes --set sets/three-node.toml\n\n\
                        Before the upgrade, each member can go back to the former release. Afterwards, that release refuses to start on the \
                        data. With `store.auto_upgrade = true` the leader upgrades by itself.\n\n\
                        Exit codes: 0 the format is the newest format of the leader's release, 1 refused, 2 a wrong file or address, or no \
                        terminal to confirm on, 3 the store has no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not done within \
                        --timeout.")]
pub struct UpgradeArgs {
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Upgraded {
    set: String,
    from: u32,
    to: u32,
    dry_run: bool,
    changed: bool,
    members: Vec<MemberFormat>,
    /// Fingerprint of the plan of this change. It is absent if there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

#[derive(Serialize)]
struct MemberFormat {
    id: u64,
    name: String,
    newest_format: u32,
}

pub(super) async fn run(args: &UpgradeArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let list = client.list().await?;
    // The dry run is requested first, so that a refusal by the leader comes before the prompt for confirmation.
    let foreseen = client.raise_format(Mode::Show).await?;
    let RaiseFormatResponse { from, to, fingerprint } = foreseen;
    let (plan, dry_run) = (Fingerprint(fingerprint), args.confirm.plan.dry_run);
    if from == to {
        return report(&list, foreseen, dry_run, output);
    }
    if dry_run || !output.is_json() {
        report(&list, foreseen, true, output)?;
        plan::print(plan, output)?;
    }
    args.confirm.plan.check(plan)?;
    if dry_run {
        return Ok(Exit::Ok);
    }
    let what =
        format!("raise the format of set {} from {from} to {to}, so that the former release cannot return", list.set);
    if !args.confirm.confirmed(&what)? {
        return Ok(Exit::Declined);
    }
    client.restart_time();
    let raised = client.raise_format(Mode::Make(plan)).await?;
    report(&list, raised, false, output)
}

fn report(
    list: &ListMembersResponse,
    RaiseFormatResponse { from, to, fingerprint }: RaiseFormatResponse,
    dry_run: bool,
    output: &Output,
) -> anyhow::Result<Exit> {
    let set = list.set.clone();
    if output.is_json() {
        let members = list.members.iter().map(|member| MemberFormat {
            id: member.id,
            name: member.name.clone(),
            newest_format: member.newest_format,
        });
        let changed = from != to && !dry_run;
        let plan = plan::digits(Fingerprint(fingerprint)).filter(|_| from != to);
        output.json(&Upgraded { set, from, to, dry_run, changed, members: members.collect(), plan })?;
        return Ok(Exit::Ok);
    }
    output.line(match (from == to, dry_run) {
        (true, _) => format!("nothing to do: set {set} writes format {to}, the newest format of its leader's release"),
        (false, true) => format!("set {set} would write format {to} in place of {from}; every member reads it"),
        (false, false) => format!("set {set} writes format {to} in place of {from}"),
    })?;
    Ok(Exit::Ok)
}
