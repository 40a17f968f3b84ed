//! The command `store terms`, which shows or changes the lease terms of a set.
//!
//! The terms are part of the replicated state, so that all members of the store use the same lease wait even if their
//! settings differ. Promise 2 in docs/safety.md depends on this.

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, grouped};
use seq_command::plan::{self, Mode, PlanArgs};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_core::plan::Fingerprint;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr store terms --set sets/three-node.toml\n  \
                  seqsvr store terms --lease-wait-ms 4000 --dry-run --set sets/three-node.toml\n  \
                  seqsvr store terms --lease-wait-ms 4000 --set sets/three-node.toml\n\n\
                  After a change, set store.lease_wait_ms of every member to the same value, because a member that starts with another value exits.\n\n\
                  Exit codes: 0 shown or changed, 1 refused, 2 a wrong file or address, 3 the store has no majority, 4 no \
                  node responded, 5 the plan is stale and nothing was changed, 7 not done within --timeout.")]
pub struct TermsArgs {
    /// Time for which an allocator may be silent before its sections are taken over; without the flag, nothing is
    /// changed.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    lease_wait_ms: Option<u64>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The terms in force after the command.
#[derive(Serialize)]
struct InForce {
    set: String,
    lease_wait_ms: u64,
    changed: bool,
    dry_run: bool,
    /// Fingerprint of the plan of this change. It is absent if there was nothing to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn run(args: &TermsArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let set = client.list().await?.set;
    let before = client.terms().await?.lease_wait_ms;
    let wanted = args.lease_wait_ms.filter(|wanted| *wanted != before);
    let (lease_wait_ms, changed, plan) = match wanted {
        None => (before, false, Fingerprint::NONE),
        Some(wanted) => {
            let plan = match client.can_show(args.plan).await? {
                true => Fingerprint(client.set_terms(wanted, Mode::Show).await?.fingerprint),
                false => Fingerprint::NONE,
            };
            args.plan.check(plan)?;
            if args.plan.dry_run {
                (before, false, plan)
            } else {
                let made = client.set_terms(wanted, Mode::Make(plan)).await?;
                (made.lease_wait_ms, made.changed, plan)
            }
        }
    };
    if output.is_json() {
        let (dry_run, plan) = (args.plan.dry_run, plan::digits(plan));
        output.json(&InForce { set, lease_wait_ms, changed, dry_run, plan })?;
    } else if let Some(wanted) = wanted.filter(|_| args.plan.dry_run) {
        let (wanted, before) = (grouped(wanted), grouped(before));
        output.line(format_args!("lease_wait of set {set} would be {wanted} ms in place of {before} ms"))?;
        plan::print(plan, output)?;
    } else {
        let verb = if changed { "is now" } else { "is" };
        output.line(format_args!("lease_wait of set {set} {verb} {} ms", grouped(lease_wait_ms)))?;
    }
    Ok(Exit::Ok)
}
