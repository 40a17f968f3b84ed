//! The command `store terms`: shows the lease terms of a set, or changes them.
//!
//! They are data of the set, because promise 2 rests on them: all members of its store wait for the same time, whatever their
//! settings are.

use clap::Args;
use serde::Serialize;

use crate::exit::Exit;
use crate::leader::{Patience, Somewhere};
use crate::output::{Output, grouped};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr store terms --set sets/three-node.toml\n  \
                  seqsvr store terms --lease-wait-ms 4000 --set sets/three-node.toml\n\n\
                  After a change, set store.lease_wait_ms of every member to the same: one that starts with another value ends.")]
pub(super) struct TermsArgs {
    /// How long an allocator may be silent before its sections are given away; without it nothing is changed.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    lease_wait_ms: Option<u64>,
    #[command(flatten)]
    target: Somewhere,
    #[command(flatten)]
    patience: Patience,
}

/// The terms in force.
#[derive(Serialize)]
struct InForce {
    set: String,
    lease_wait_ms: u64,
    changed: bool,
}

pub(super) async fn run(args: &TermsArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut leader = args.target.leader(args.patience.duration())?;
    let set = leader.list().await?.set;
    let terms = leader.terms(args.lease_wait_ms.unwrap_or(0)).await?;
    if output.is_json() {
        output.json(&InForce { set, lease_wait_ms: terms.lease_wait_ms, changed: terms.changed })?;
    } else {
        let verb = if terms.changed { "is now" } else { "is" };
        output.line(format_args!("lease_wait of set {set} {verb} {} ms", grouped(terms.lease_wait_ms)))?;
    }
    Ok(Exit::Ok)
}
