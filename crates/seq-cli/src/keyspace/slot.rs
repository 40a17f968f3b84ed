//! The command `keyspace slot`, which shows the bucket of a key, with its set and owner.

use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::Uid;
use seq_core::keyspace::Bucket;
use seq_proto::v1::Routes;
use serde::Serialize;

use super::view;
use crate::id_client::IdClient;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr keyspace slot conv:42\n  seqsvr keyspace slot '{conv:42}:seen' --keyspace main -o json\n  \
                        seqsvr keyspace slot 1234567890123456789 --keyspace users    (of a keyspace of uids)\n\n\
                        Of a key with a part in braces, the first such part decides the bucket.\n\n\
                        Exit codes: 0 shown, 1 there is no such keyspace (UNKNOWN_KEYSPACE), 2 a wrong file or address, or \
                        several keyspaces, 3 refused for now, 4 no node responded, 7 the deadline passed."
)]
pub struct SlotArgs {
    /// The key, or the uid in a keyspace of uids.
    #[arg(value_name = "KEY")]
    key: String,
    /// The keyspace [default: the only one]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

/// Returns the bucket of a uid.
///
/// # Errors
/// A usage error if the text is no uid, or if the set files declare the uid, so that it is in a section of uids.
fn of_uid(text: &str, routes: &Routes) -> Result<Bucket, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let uid: u64 =
        text.parse().map_err(|_| usage(format!("the keys of the keyspace are uids, and {text:?} is none")))?;
    let (start, end) = (routes.uid_start, routes.uid_end);
    if (start..end).contains(&uid) {
        let failure = usage(format!("the set files declare uid {uid} ({start}..{end}), so it is in no bucket"));
        return Err(failure.hint("`seqsvr section show --uid UID` shows its section"));
    }
    Ok(Bucket::of_uid(Uid(uid)))
}

/// The bucket of a key.
#[derive(Serialize)]
struct Slot<'a> {
    key: &'a str,
    keyspace: String,
    bucket: u16,
    section: u32,
    /// Name of the set. It is absent if a proxy responded, because its routes contain no buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
    /// Name of the owner. It is absent if the bucket has no owner, or is in another set than the AllocSvr that
    /// responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

pub(super) async fn run(args: &SlotArgs, output: &Output) -> anyhow::Result<Exit> {
    let routes = IdClient::new(&args.target, args.timeout)?.routes().await?;
    let keyspace = view::find(&routes, args.keyspace.as_deref())?;
    let bucket = if keyspace.uids { of_uid(&args.key, &routes)? } else { Bucket::of(args.key.as_bytes()) }.index();
    let runs = view::runs(&keyspace, &routes);
    let has = |run: &view::BucketRun| (run.first_bucket..run.first_bucket + run.buckets).contains(&bucket.into());
    let run = runs.into_iter().find(has);
    let (set, owner) = run.map(|run| (run.set, run.owner)).unzip();
    let slot = Slot {
        key: &args.key,
        bucket,
        section: keyspace.first_section + u32::from(bucket),
        keyspace: keyspace.name,
        set,
        owner: owner.flatten(),
    };
    if output.is_json() {
        output.json(&slot)?;
        return Ok(Exit::Ok);
    }
    let Slot { key, keyspace, section, set, owner, .. } = &slot;
    output.line(format_args!("key {key} of keyspace {keyspace}: bucket {bucket}, section {section}"))?;
    if let Some(set) = set {
        match owner {
            Some(owner) => output.line(format_args!("owner {owner}, set {set}"))?,
            None => output.line(format_args!("set {set}"))?,
        }
    }
    Ok(Exit::Ok)
}
