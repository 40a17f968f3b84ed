//! The commands that list and change the members of a set's store.
//!
//! Each command sends a few requests to the leader of the store. The requests are idempotent, so an interrupted command
//! can be repeated to complete the change. The leader decides which changes are allowed. The command sends dry runs of
//! all changes first, so that a refusal comes before any change.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, grouped};
use seq_command::plan::{self, ConfirmedPlanArgs, Mode, PlanArgs};
use seq_command::security;
use seq_command::set_file::{self, SetFile};
use seq_command::store_client::{Addrs, SetAddress, StoreClient, TimeoutArgs};
use seq_command::time_limit::time;
use seq_core::plan::Fingerprint;
use seq_proto::v1::{ChangeVotersRequest, ChangeVotersResponse, ListMembersResponse, MemberState, NewMember};
use serde::Serialize;

use super::wait;

/// Smallest number of voters with which a store still has a majority after the loss of one voter.
const SAFE_VOTERS: usize = 3;

/// A set, given by a set file that contains the addresses of the new members.
#[derive(Debug, Args)]
struct Described {
    /// The set file, which names the new members.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    #[command(flatten)]
    addrs: Addrs,
}

/// Options of a change of voters.
#[derive(Debug, Args)]
struct ChangeOptions {
    /// Allows an even number of voters, which survives no more failures than one voter fewer.
    #[arg(long)]
    allow_even: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr store members --set sets/three-node.toml\n  \
                        seqsvr store members --addr http://127.0.0.1:7301 -o json\n\n\
                        Exit codes: 0 listed, 2 a wrong file or address, 3 the leader has no majority, so nothing can be \
                        committed, 4 no node responded, 7 not done within --timeout.")]
pub struct MembersArgs {
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example, from three members to five:\n  \
                        seqsvr store --set five.toml --id 4 --data /var/lib/seqsvr/s4 --join   (and 5)\n  \
                        seqsvr store add 4 5 --set five.toml --dry-run\n  \
                        seqsvr store add 4 5 --set five.toml\n\n\
                        A member that was added has used its id permanently, even if it never voted.\n\n\
                        Exit codes: 0 the voters are as requested, 1 refused, 2 a wrong file or address, 3 the store has \
                        no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 7 a new member has not caught up within --timeout, 130 \
                        interrupted.")]
pub struct AddArgs {
    /// Ids of the new members, never used before.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u64>,
    #[command(flatten)]
    target: Described,
    #[command(flatten)]
    options: ChangeOptions,
    #[command(flatten)]
    plan: PlanArgs,
    /// Time limit until the new members have caught up with the log.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples, from five members to three:\n  seqsvr store remove 4 5 --set sets/five.toml\n  \
                        seqsvr store remove 4 5 --set sets/five.toml --yes    (in scripts)\n\n\
                        A removed member never comes back, because its id is retired. A change after which a majority of the voters would not respond is always refused.\n\n\
                        Exit codes: 0 the voters are as requested, 1 refused, 2 a wrong file or address, or no terminal to \
                        confirm on, 3 the store has no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not done within \
                        --timeout.")]
pub struct RemoveArgs {
    /// Ids of the members to remove.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u64>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    options: ChangeOptions,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    /// Allows fewer than three voters. With two voters, one failure stops the set; with one voter, a lost disk loses
    /// the set.
    #[arg(long)]
    below_three: bool,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples, after store 3 lost its disk:\n  \
                        seqsvr store --set new.toml --id 4 --data /var/lib/seqsvr/s4 --join\n  \
                        seqsvr store replace 3 4 --set new.toml\n  \
                        seqsvr store replace 3 4 --set new.toml --yes    (in scripts)\n\n\
                        The replaced member never comes back, because its id is retired. \
                        A member that was added has used its id permanently, even if it never voted.\n\n\
                        Exit codes: 0 the voters are as requested, 1 refused, 2 a wrong file or address, or no terminal to confirm on, 3 the store has \
                        no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 the new member has not caught up within --timeout, 130 \
                        interrupted.")]
pub struct ReplaceArgs {
    /// Id of the member to remove.
    #[arg(value_name = "OLD")]
    old: u64,
    /// Id of the new member, never used before.
    #[arg(value_name = "NEW")]
    new: u64,
    #[command(flatten)]
    target: Described,
    #[command(flatten)]
    options: ChangeOptions,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    /// Time limit until the new member has caught up with the log.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr store lead --to 2 --set sets/three-node.toml\n  \
                        seqsvr store lead --to 2 --dry-run --set sets/three-node.toml\n\n\
                        Exit codes: 0 the member leads, 1 refused, 2 a wrong file or address, 3 the store has no majority, \
                        4 no node responded, 5 the plan is stale and nothing was changed, 7 not done within --timeout.")]
pub struct LeadArgs {
    /// Id of the new leader.
    #[arg(long, value_name = "ID")]
    to: u64,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of a change of members or of the leader.
#[derive(Serialize)]
struct Changed {
    set: String,
    /// Whether the command changed the members or the leader.
    changed: bool,
    dry_run: bool,
    voters: Vec<u64>,
    leader: u64,
    /// Fingerprint of the plan of this change. It is absent if there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn members(args: &MembersArgs, output: &Output) -> anyhow::Result<Exit> {
    let list = args.target.client(args.timeout.duration())?.list().await?;
    if output.is_json() {
        output.json(&View::new(&list))?;
    } else {
        output.table(&table(&list, output.is_wide()))?;
        if list.changing {
            output.line("a change of voters is in progress")?;
        }
        if let Some(to) = readable_by_all(&list).filter(|to| *to > list.format) {
            let format = list.format;
            output.line(format_args!(
                "format {format} is written, and all read {to}: `seqsvr store upgrade` raises it"
            ))?;
        }
        if !list.quorum {
            let seconds = list.quorum_lost_ms as f64 / 1_000.0;
            output.line(format_args!("NO QUORUM since {seconds:.1} s: nothing can be committed"))?;
        }
    }
    Ok(if list.quorum { Exit::Ok } else { Exit::Unhealthy })
}

pub(super) async fn add(args: AddArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = set_file::read(&args.target.set)?;
    let new = args.ids.iter().map(|id| described(&set, *id)).collect::<anyhow::Result<Vec<_>>>()?;
    security::use_tls(set.is_secure())?;
    let mut client = StoreClient::new(Some(&set), &args.target.addrs, args.timeout);
    let request = args.options.request(args.ids, Vec::new());
    add_and_remove(&mut client, new, request, (args.plan, None), args.timeout, output).await
}

pub(super) async fn replace(args: ReplaceArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = set_file::read(&args.target.set)?;
    let new = described(&set, args.new)?;
    security::use_tls(set.is_secure())?;
    let mut client = StoreClient::new(Some(&set), &args.target.addrs, args.timeout);
    let list = client.list().await?;
    let votes = |id| list.members.iter().any(|member| member.id == id && member.voter);
    if votes(args.old) && votes(args.new) {
        let message = format!("store {} already votes, together with store {}", args.new, args.old);
        let hint = format!("`seqsvr store remove {}` removes it without a new member", args.old);
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let request = args.options.request(vec![args.new], vec![args.old]);
    let plan = (args.confirm.plan, Some(args.confirm));
    add_and_remove(&mut client, vec![new], request, plan, args.timeout, output).await
}

pub(super) async fn remove(args: RemoveArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let list = client.list().await?;
    let request = args.options.request(Vec::new(), args.ids);
    // The dry run is requested first, so that a refusal by the leader comes before the prompt for confirmation.
    let foreseen = client.change_voters(&request, Mode::Show).await?;
    let before = list.members.iter().filter(|member| member.voter).count();
    check_count(before, foreseen.voters.len(), args.below_three)?;
    let Some(plan) = show(&list, &request, &foreseen, args.confirm.plan, true, output)? else {
        return Ok(Exit::Ok);
    };
    let ids = request.remove.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let what = format!(
        "remove store {ids} from set {} permanently, from {before} voters to {}",
        list.set,
        foreseen.voters.len()
    );
    if !args.confirm.confirmed(&what)? {
        return Ok(Exit::Declined);
    }
    client.restart_time();
    let ChangeVotersResponse { voters, changed, .. } = client.change_voters(&request, Mode::Make(plan)).await?;
    report(&client.list().await?, Outcome { voters, changed, dry_run: false, plan }, output)?;
    Ok(Exit::Ok)
}

pub(super) async fn lead(args: &LeadArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let before = client.list().await?;
    let (to, leads, dry_run) = (args.to, before.leader == args.to, args.plan.dry_run);
    let plan = match !leads && client.can_show(args.plan).await? {
        true => Fingerprint(client.transfer(to, Mode::Show).await?.fingerprint),
        false => Fingerprint::NONE,
    };
    if !leads {
        args.plan.check(plan)?;
    }
    let now = if dry_run { before.leader } else { client.transfer(to, Mode::Make(plan)).await?.leader };
    if output.is_json() {
        let voters = before.members.iter().filter(|member| member.voter).map(|member| member.id).collect();
        let changed = before.leader != now;
        output.json(&Changed { set: before.set, changed, dry_run, voters, leader: now, plan: plan::digits(plan) })?;
    } else if dry_run && !leads {
        let (set, leader) = (&before.set, before.leader);
        output.line(format_args!("store {to} would lead set {set} in place of store {leader}"))?;
        plan::print(plan, output)?;
    } else {
        output.line(format_args!("store {now} leads set {}", before.set))?;
    }
    Ok(Exit::Ok)
}

/// Adds new members to the store, waits until they have caught up with the log, and changes the voters as `request`
/// states. If `asks` is given, prompts the user for confirmation first, because the change removes members.
async fn add_and_remove(
    client: &mut StoreClient,
    new: Vec<NewMember>,
    request: ChangeVotersRequest,
    (args, asks): (PlanArgs, Option<ConfirmedPlanArgs>),
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<Exit> {
    let list = client.list().await?;
    // Both dry runs are requested first, so that a refusal of adding or of removing comes before any member is added.
    let foreseen = client.change_voters(&request, Mode::Show).await?;
    let of_learners = match client.can_show(args).await? {
        true => Fingerprint(client.add_learners(&new, Mode::Show).await?.fingerprint),
        false => Fingerprint::NONE,
    };
    let Some(plan) = show(&list, &request, &foreseen, args, asks.is_some(), output)? else { return Ok(Exit::Ok) };
    if let Some(confirm) = asks {
        let ids = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let (old, new, set) = (ids(&request.remove), ids(&request.add), &list.set);
        if !confirm
            .confirmed(&format!("remove store {old} from set {set} permanently, and put store {new} in its place"))?
        {
            return Ok(Exit::Declined);
        }
        client.restart_time();
    }
    let added = client.add_learners(&new, Mode::Make(of_learners)).await?.added;
    wait::caught_up(client, &request.add, timeout, output).await?;
    let ChangeVotersResponse { voters, changed, .. } = client.change_voters(&request, Mode::Make(plan)).await?;
    let outcome = Outcome { voters, changed: changed || !added.is_empty(), dry_run: false, plan };
    report(&client.list().await?, outcome, output)?;
    Ok(Exit::Ok)
}

/// Shows the plan of a change of voters. Returns the fingerprint of the plan if the command must continue. Returns
/// `None` for a dry run, and if the voters are already as requested. `asks` states whether the command will prompt for
/// confirmation.
fn show(
    list: &ListMembersResponse,
    request: &ChangeVotersRequest,
    foreseen: &ChangeVotersResponse,
    args: PlanArgs,
    asks: bool,
    output: &Output,
) -> anyhow::Result<Option<Fingerprint>> {
    let plan = Fingerprint(foreseen.fingerprint);
    let shown = |plan, dry_run| Outcome { voters: foreseen.voters.clone(), changed: false, dry_run, plan };
    if is_made(list, request) {
        report(list, shown(Fingerprint::NONE, args.dry_run && output.is_json()), output)?;
        return Ok(None);
    }
    if args.dry_run || (asks && !output.is_json()) {
        report(list, shown(plan, true), output)?;
        plan::print(plan, output)?;
    }
    args.check(plan)?;
    Ok(if args.dry_run { None } else { Some(plan) })
}

/// Returns whether the members are already as a change requests.
fn is_made(list: &ListMembersResponse, request: &ChangeVotersRequest) -> bool {
    let member = |id: &u64| list.members.iter().find(|member| member.id == *id);
    let votes = |id: &u64| member(id).is_some_and(|member| member.voter);
    request.add.iter().all(votes) && request.remove.iter().all(|id| member(id).is_none())
}

/// Outcome of a change of voters, or of the dry run of such a change.
struct Outcome {
    voters: Vec<u64>,
    changed: bool,
    dry_run: bool,
    plan: Fingerprint,
}

fn report(list: &ListMembersResponse, outcome: Outcome, output: &Output) -> std::io::Result<()> {
    let Outcome { voters, changed, dry_run, plan } = outcome;
    let (set, leader) = (list.set.clone(), list.leader);
    if output.is_json() {
        return output.json(&Changed { set, changed, dry_run, voters, leader, plan: plan::digits(plan) });
    }
    let names = voters.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    output.line(match (dry_run, changed) {
        (true, _) => format!("the voters of set {set} would be {names}"),
        (false, true) => format!("the voters of set {set} are {names}"),
        (false, false) => format!("nothing to do: the voters of set {set} are {names}"),
    })
}

impl ChangeOptions {
    fn request(&self, add: Vec<u64>, remove: Vec<u64>) -> ChangeVotersRequest {
        ChangeVotersRequest { add, remove, allow_even: self.allow_even, ..ChangeVotersRequest::default() }
    }
}

/// Returns an error if a change reduces the number of voters to less than three. If `below_three` is true, the change
/// is allowed.
fn check_count(before: usize, after: usize, below_three: bool) -> anyhow::Result<()> {
    if below_three || after >= SAFE_VOTERS || after >= before {
        return Ok(());
    }
    let message = format!(
        "{after} of {before} voters would be left: one more failure stops the set or loses its data (BELOW_THREE)"
    );
    let hint = "`seqsvr store replace OLD NEW` replaces a member by a new member; --below-three overrides this check";
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}

/// Returns the new member with the given id, as the set file describes it.
fn described(set: &SetFile, id: u64) -> anyhow::Result<NewMember> {
    let Some(store) = set.spec.stores.iter().find(|store| store.id == id) else {
        let message = format!("{}: set {} has no store with id {id}", set.path.display(), set.spec.name);
        return Err(Failure::new(Exit::Usage, message).hint("name the new member in the set file first").into());
    };
    Ok(NewMember { id, name: store.name.clone(), addr: store.addr.clone(), raft_addr: store.raft.clone() })
}

#[derive(Serialize)]
struct View<'a> {
    set: &'a str,
    leader: u64,
    quorum: bool,
    quorum_lost_ms: u64,
    changing: bool,
    format: u32,
    members: Vec<MemberView<'a>>,
    used_ids: &'a [u64],
}

#[derive(Serialize)]
struct MemberView<'a> {
    id: u64,
    name: &'a str,
    addr: &'a str,
    role: &'static str,
    live: bool,
    lag: u64,
    round_trip_us: u64,
    newest_format: u32,
}

impl<'a> View<'a> {
    fn new(list: &'a ListMembersResponse) -> View<'a> {
        let member = |member: &'a MemberState| {
            let MemberState { id, name, addr, live, lag, round_trip_us, newest_format, .. } = member;
            let (live, lag, round_trip_us, newest_format) = (*live, *lag, *round_trip_us, *newest_format);
            MemberView { id: *id, name, addr, role: role(member, list), live, lag, round_trip_us, newest_format }
        };
        let members = list.members.iter().map(member).collect();
        View {
            set: &list.set,
            leader: list.leader,
            quorum: list.quorum,
            quorum_lost_ms: list.quorum_lost_ms,
            changing: list.changing,
            format: list.format,
            members,
            used_ids: &list.used_ids,
        }
    }
}

/// Returns the newest format that all members of the store can read. It is 0 if a member has not reported its newest
/// format. Returns `None` if the list has no members.
fn readable_by_all(list: &ListMembersResponse) -> Option<u32> {
    list.members.iter().map(|member| member.newest_format).min()
}

fn role(member: &MemberState, list: &ListMembersResponse) -> &'static str {
    match member {
        _ if member.id == list.leader => "leader",
        _ if member.voter => "voter",
        _ => "learner",
    }
}

fn table(list: &ListMembersResponse, wide: bool) -> Table {
    let heading = ["id", "name", "addr", "role", "answers", "lag", "round trip", "reads"];
    let mut table = Table::new(if wide { &heading } else { &heading[..6] }).right(&[5]);
    for member in &list.members {
        let trip = member.round_trip_us as f64 / 1_000.0;
        let cells = [
            member.id.to_string(),
            member.name.clone(),
            member.addr.clone(),
            role(member, list).to_owned(),
            if member.live { "yes" } else { "no" }.to_owned(),
            grouped(member.lag),
        ];
        let trip = if member.round_trip_us == 0 { "-".to_owned() } else { format!("{trip:.1} ms") };
        let reads = if member.newest_format == 0 { "-".to_owned() } else { format!("format {}", member.newest_format) };
        table.row(cells.into_iter().chain(wide.then_some([trip, reads]).into_iter().flatten()));
    }
    table
}
