//! The command `store terms`: shows the lease terms of a set, or changes them.
//!
//! They are replicated, because promise 2 depends on them: all members of the store use the same lease wait, whatever
//! their settings are.

use clap::Args;
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Output, grouped};
use crate::store_client::{SetAddress, TimeoutArgs};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr store terms --set sets/three-node.toml\n  \
                  seqsvr store terms --lease-wait-ms 4000 --set sets/three-node.toml\n\n\
                  After a change, set store.lease_wait_ms of every member to the same value: a member that starts with another value exits.\n\n\
                  Exit codes: 0 shown or changed, 1 refused, 2 a wrong file or address, 3 the store has no majority, 4 no \
                  node responded, 7 not done within --timeout-s.")]
pub(super) struct TermsArgs {
    /// How long an allocator may be silent before its sections are taken over; without it nothing is changed.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    lease_wait_ms: Option<u64>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The terms in force.
#[derive(Serialize)]
struct InForce {
    set: String,
    lease_wait_ms: u64,
    changed: bool,
}

pub(super) async fn run(args: &TermsArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let set = client.list().await?.set;
    let terms = client.terms(args.lease_wait_ms.unwrap_or(0)).await?;
    if output.is_json() {
        output.json(&InForce { set, lease_wait_ms: terms.lease_wait_ms, changed: terms.changed })?;
    } else {
        let verb = if terms.changed { "is now" } else { "is" };
        output.line(format_args!("lease_wait of set {set} {verb} {} ms", grouped(terms.lease_wait_ms)))?;
    }
    Ok(Exit::Ok)
}
