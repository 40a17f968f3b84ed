//! The commands `next`, `current` and `advance`, each of which sends one call for uids or keys to the cluster and
//! prints the results.

use std::time::Duration;

use clap::Args;
use seq_client::{Allocation, CallError, Client, Current, Keyspace};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::plan::confirmed;
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::{MAX_ADVANCE, MAX_COUNT};
use seq_proto::Reason;
use serde::Serialize;

use crate::item_report::{Subject, items};
use crate::keyspace;

/// The deadline of a call.
#[derive(Clone, Copy, Debug, Args)]
struct Deadline {
    /// Time limit of connecting and of the call.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

impl Deadline {
    async fn connect(self, target: &Target) -> anyhow::Result<Client> {
        target.connect(self.timeout).await
    }
}

/// Keys on the command line, instead of users.
#[derive(Debug, Args)]
struct KeyArgs {
    /// A key of a keyspace, instead of users; may be given several times.
    #[arg(long = "key", id = "keys", value_name = "KEY", conflicts_with = "uids")]
    keys: Vec<String>,
    /// The keyspace of the keys [default: the only one]
    #[arg(long, value_name = "NAME", requires = "keys")]
    keyspace: Option<String>,
}

impl KeyArgs {
    /// Returns the keyspace of the keys.
    async fn open(&self, client: &Client) -> anyhow::Result<Keyspace> {
        keyspace::open(client, self.keyspace.as_deref()).await
    }

    fn subjects(&self) -> Vec<Subject> {
        self.keys.iter().map(|key| Subject::key(key)).collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr next 42\n  seqsvr next 42 -n 100      first and last of 100 numbers\n  \
                        seqsvr next 42 43 44       one number each, behind its user\n  \
                        seqsvr next 42 -o json | jq -r '.items[].value'\n  \
                        seqsvr next --key conv:42 --keyspace main\n  \
                        seqsvr next 1234567890123456789    after `seqsvr keyspace create users --uids`\n\n\
                        Exit codes: 0 allocated, 1 refused, 2 a user outside the sets, 3 refused for now, 4 no node \
                        responded, 7 the deadline passed, 8 some users were refused, but not all. An error states \
                        whether numbers may have been consumed: they are a gap, never a duplicate.")]
pub struct NextArgs {
    /// The users. A user that is named twice gets two numbers.
    #[arg(required_unless_present = "keys", value_name = "UID")]
    uids: Vec<u64>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Count of numbers for each user or key; of several numbers, the first and the last are printed.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = count)]
    count: u32,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    deadline: Deadline,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr current 42\n  seqsvr current 42 43 44 -o json | jq -r '.items[] | .uid, .value'\n  \
                        seqsvr current 1234567890123456789    with a keyspace of uids\n\n\
                        Exit codes: 0 read, 1 refused, 2 a user outside the sets, 3 refused for now, 4 no node \
                        responded, 7 the deadline passed, 8 some users were refused and others not."
)]
pub struct CurrentArgs {
    /// The users.
    #[arg(required_unless_present = "keys", value_name = "UID")]
    uids: Vec<u64>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    deadline: Deadline,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr advance 42 1000 --dry-run\n  seqsvr advance 42 1000\n  \
                        seqsvr advance 42 1000 --yes -o json    (in scripts)\n\n\
                        The ceiling of the section rises with the user, and after a crash of the owner all users of the \
                        section continue at the ceiling.\n\n\
                        Exit codes: 0 the user is at the number or above it, 1 refused (ALREADY_PAST, ADVANCE_TOO_FAR), 2 \
                        a user outside the sets, or no terminal to confirm on, 3 refused for now, 4 no node responded, \
                        6 declined, 7 the deadline passed. Repeating the command is harmless.")]
pub struct AdvanceArgs {
    /// The user.
    #[arg(value_name = "UID")]
    uid: u64,
    /// The number to raise the user to; the next allocated number is above it.
    #[arg(value_name = "NUMBER", value_parser = advance_target)]
    to: u64,
    /// Changes nothing; shows the raise of the user.
    #[arg(long)]
    dry_run: bool,
    /// Skips the confirmation.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    deadline: Deadline,
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
    count.ok_or_else(|| "it must be from 1 to 1,000,000".to_owned())
}

fn advance_target(text: &str) -> Result<u64, String> {
    let to = text.parse().ok().filter(|to| *to <= MAX_ADVANCE);
    to.ok_or_else(|| format!("it must be from 0 to {}", grouped(MAX_ADVANCE)))
}

#[derive(Serialize)]
struct Taken {
    #[serde(serialize_with = "digits")]
    first: u64,
    #[serde(serialize_with = "digits")]
    value: u64,
    #[serde(serialize_with = "digits")]
    prev: u64,
    count: u32,
    #[serde(serialize_with = "digits")]
    epoch: u64,
}

#[derive(Serialize)]
struct Read {
    #[serde(serialize_with = "digits")]
    value: u64,
    exactness: &'static str,
    #[serde(serialize_with = "digits")]
    epoch: u64,
}

/// An advance of a user that the command made, or would make if there were no `--dry-run`.
#[derive(Serialize)]
struct Advanced {
    /// Last number of the user before the advance, or an upper bound of it.
    #[serde(serialize_with = "digits")]
    from: u64,
    exactness: &'static str,
    #[serde(serialize_with = "digits")]
    to: u64,
    dry_run: bool,
}

pub async fn next(args: NextArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.deadline.connect(&args.target).await?;
    let (subjects, results) = match args.uids.as_slice() {
        [] => {
            let (keyspace, keys) = (args.keys.open(&client).await?, &args.keys.keys);
            let results = keyspace.next_many_n(keys, args.count).await;
            (args.keys.subjects(), results.unwrap_or_else(|error| keys.iter().map(|_| Err(error.clone())).collect()))
        }
        uids => (uids.iter().copied().map(Subject::uid).collect(), next_of_uids(&client, uids, args.count).await),
    };
    let (many, results) = (subjects.len() > 1, results.into_iter().map(|result| result.map(Taken::from)).collect());
    let (replies, end) = items(subjects, results, &client, output)?.split();
    if !replies.is_empty() {
        let heading: &[&str] = match (output.is_wide(), args.uids.is_empty()) {
            (false, _) => &[],
            (true, false) => &["uid", "first", "last", "prev", "epoch"],
            (true, true) => &["key", "first", "last", "prev", "epoch"],
        };
        let mut table = Table::new(heading);
        for (subject, Taken { first, value, prev, epoch, .. }) in replies {
            let subject = (many || output.is_wide()).then(|| subject.to_string());
            let first = (args.count > 1 || output.is_wide()).then_some(first);
            let more = output.is_wide().then_some([prev, epoch]).into_iter().flatten();
            let numbers = first.into_iter().chain([value]).chain(more).map(|number| number.to_string());
            table.row(subject.into_iter().chain(numbers));
        }
        output.table(&table)?;
    }
    end
}

async fn next_of_uids(client: &Client, uids: &[u64], count: u32) -> Vec<Result<Allocation, CallError>> {
    match uids {
        [uid] => vec![client.next_n(*uid, count).await],
        uids => {
            let batch: Vec<(u64, u32)> = uids.iter().map(|uid| (*uid, count)).collect();
            client.next_many_n(&batch).await.unwrap_or_else(|error| uids.iter().map(|_| Err(error.clone())).collect())
        }
    }
}

pub async fn current(args: CurrentArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.deadline.connect(&args.target).await?;
    let (subjects, read) = match args.uids.as_slice() {
        [] => (args.keys.subjects(), args.keys.open(&client).await?.current_many(&args.keys.keys).await),
        uids => (uids.iter().copied().map(Subject::uid).collect(), client.current_many(uids).await),
    };
    let (many, failed) = (subjects.len() > 1, subjects.len());
    let results = match read {
        Ok(results) => results.into_iter().map(|result| result.map(Read::from)).collect(),
        Err(error) => (0..failed).map(|_| Err(error.clone())).collect(),
    };
    let (replies, end) = items(subjects, results, &client, output)?.split();
    if !replies.is_empty() {
        let heading: &[&str] = match (output.is_wide(), args.uids.is_empty()) {
            (false, _) => &[],
            (true, false) => &["uid", "value", "exactness", "epoch"],
            (true, true) => &["key", "value", "exactness", "epoch"],
        };
        let mut table = Table::new(heading);
        for (subject, Read { value, exactness, epoch }) in replies {
            let epoch = output.is_wide().then(|| epoch.to_string());
            let subject = (many || output.is_wide()).then(|| subject.to_string());
            table.row(subject.into_iter().chain([value.to_string(), exactness.to_owned()]).chain(epoch));
        }
        output.table(&table)?;
    }
    end
}

pub async fn advance(args: AdvanceArgs, output: &Output) -> anyhow::Result<Exit> {
    let AdvanceArgs { uid, to, dry_run, yes, .. } = args;
    let client = args.deadline.connect(&args.target).await?;
    let result = match client.current(uid).await {
        Ok(current) => {
            let read = Read::from(current);
            let advanced = Advanced { from: read.value, exactness: read.exactness, to, dry_run };
            // If the user is known to be at the number or past it, nothing would be raised, so no confirmation is
            // needed.
            let raises = !current.exact || current.value < to;
            let asks = raises && !dry_run && !yes;
            if asks && !confirmed(&advanced.question(uid))? {
                return Ok(Exit::Declined);
            }
            check_past(uid, current, to)?;
            if dry_run { Ok(advanced) } else { client.advance(uid, to).await.map(|_| advanced) }
        }
        Err(error) => Err::<_, CallError>(error),
    };
    let (replies, end) = items(vec![Subject::uid(uid)], vec![result], &client, output)?.split();
    for (_, advanced) in replies {
        output.line(advanced.text(uid))?;
    }
    end
}

/// Returns the error that an advance to `to` would cause, if `current` shows that the user has a higher number than
/// `to`. The error is certain, because the numbers of a user never fall.
fn check_past(uid: u64, current: Current, to: u64) -> Result<(), Failure> {
    if current.exact && current.value > to {
        let message = format!("uid {uid} is at {}, past {to} ({})", current.value, Reason::AlreadyPast);
        return Err(Failure::new(Exit::Failed, message).reason(Reason::AlreadyPast.name()));
    }
    Ok(())
}

impl Advanced {
    fn is_there(&self) -> bool {
        self.exactness == EXACT && self.from == self.to
    }

    fn question(&self, uid: u64) -> String {
        let bound = if self.exactness == EXACT { "" } else { "at most " };
        format!("raise uid {uid} from {bound}{} to {}, permanently", self.from, self.to)
    }

    fn text(&self, uid: u64) -> String {
        let Advanced { from, to, dry_run, .. } = self;
        match (self.is_there(), dry_run, self.exactness == EXACT) {
            (true, ..) => format!("nothing to do: uid {uid} is at {to}"),
            (false, true, true) => format!("uid {uid} would be raised from {from} to {to}"),
            (false, true, false) => {
                format!("uid {uid} would be raised to {to}, unless it is past that; it is at {from} at most")
            }
            (false, false, _) => format!("uid {uid} is at {to}, or above it because of other calls"),
        }
    }
}

impl From<Allocation> for Taken {
    fn from(taken: Allocation) -> Taken {
        let Allocation { value, prev, epoch, count, .. } = taken;
        Taken { first: taken.first(), value, prev, count, epoch }
    }
}

const EXACT: &str = "exact";

impl From<Current> for Read {
    fn from(Current { value, exact, epoch }: Current) -> Read {
        Read { value, exactness: if exact { EXACT } else { "upper_bound" }, epoch }
    }
}
