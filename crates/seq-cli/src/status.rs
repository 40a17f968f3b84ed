//! The command `status`: requests the status of the seed nodes and of the nodes that they list, and shows each set.
//!
//! If seeds are addresses, the command also queries the other sets of the cluster, whose addresses AllocSvrs and
//! proxies have. If the seeds are from a set file, only the set of the file is shown.
//!
//! A section is served while its owner has a lease that has not expired. A node that does not respond is shown, but a
//! member that was removed from its store does not count as missing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::Args;
use futures::future::join_all;
use seq_channel::{Pool, has_expired_certificate};
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::Output;
use seq_command::port_kind::{self, Needed};
use seq_command::security;
use seq_command::store_client::{Node, SetAddress};
use seq_command::time_limit::time;
use seq_core::clock_offset::ClockOffset;
use seq_load::outcome::Chain;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetRoutesRequest, Routes, StatusRequest, StatusResponse};

mod certificate;
mod sample;
mod verdict;
mod view;

use sample::Sample;
use verdict::State;
use view::View;

/// Limit on the queried nodes, which bounds the effect of a wrong response.
const MAX_NODES: usize = 4_096;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr status\n  seqsvr status --set sets/three-node.toml --watch\n  \
                        seqsvr status --addr http://127.0.0.1:7301 -o json\n  \
                        seqsvr status --fail-on unserved || page-someone\n\n\
                        Numbers and raises count from the start of each process; `up` is the time since then. A certificate that expires within 14 days is a \
                        warning in the verdict.\n\n\
                        Exit codes: 0 all sections are served and all nodes respond, with leases and valid \
                        certificates, 3 otherwise (see --fail-on), 4 no node \
                        responded.")]
pub struct StatusArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Timeout of each node
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
    /// Repeats until interrupted, every S seconds, with the rates between two samples [default: 2]
    #[arg(long, value_name = "S", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
    /// The mildest state with exit code 3.
    #[arg(long, value_enum, value_name = "STATE", default_value_t = FailOn::Degraded)]
    fail_on: FailOn,
}

/// A state of a set that is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// All sections are served, but a node does not respond, has no lease, or has an expired certificate.
    Degraded,
    /// Some sections are not served.
    Unserved,
    /// The store has no majority.
    NoQuorum,
}

impl FailOn {
    fn exit(self, worst: State) -> Exit {
        let mildest = match self {
            FailOn::Degraded => State::Degraded,
            FailOn::Unserved => State::Unserved,
            FailOn::NoQuorum => State::NoQuorum,
        };
        if worst <= mildest { Exit::Unhealthy } else { Exit::Ok }
    }
}

/// The error of a node whose certificate no client accepts.
const EXPIRED: &str = "its certificate has expired: `seqsvr cert rotate`";

/// The response of one node, or the error.
type StatusResult = Result<StatusResponse, String>;

pub async fn run(args: StatusArgs, output: &Output) -> anyhow::Result<Exit> {
    let seeds = args.target.nodes()?;
    let pool = security::pool();
    let all_sets = !args.target.is_set_file();
    let timeout = args.timeout;
    let Some(seconds) = args.watch else {
        let mut view = sample(&pool, &seeds, all_sets, timeout).await?;
        if view.may_be_of_two_moments() {
            // A section may have moved between two responses.
            view = sample(&pool, &seeds, all_sets, timeout).await?;
        }
        print(&view, output)?;
        return Ok(args.fail_on.exit(view.worst()));
    };
    let mut ticks = tokio::time::interval(Duration::from_secs(seconds));
    let mut before: Option<(Instant, View)> = None;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        match sample(&pool, &seeds, all_sets, timeout).await {
            Ok(mut view) => {
                if let Some((at, before)) = &before {
                    view.add_rates(before, now - *at);
                }
                output.clear_screen()?;
                print(&view, output)?;
                before = Some((now, view));
            }
            // A wrong port stays wrong, but a cluster may come back.
            Err(failure) if failure.exit() == Exit::Usage => return Err(failure.into()),
            Err(failure) => report_error(&failure),
        }
    }
}

fn print(view: &View, output: &Output) -> std::io::Result<()> {
    if output.is_json() { output.json(view) } else { output.text(&view.render(output.is_wide())) }
}

/// Queries all nodes once.
///
/// # Errors
/// No node responds, or an address belongs to no node.
async fn sample(pool: &Pool, seeds: &[Node], all_sets: bool, timeout: Duration) -> Result<View, Failure> {
    let limit = Instant::now() + timeout;
    let addrs: BTreeSet<String> = seeds.iter().map(|seed| seed.addr.clone()).collect();
    let sample = query_all(pool, addrs, all_sets, timeout).await;
    let silent: Vec<&Node> = seeds.iter().filter(|seed| sample.responses[&seed.addr].is_err()).collect();
    let kinds = join_all(silent.iter().map(|seed| port_kind::identify_until(&seed.addr, limit))).await;
    for (seed, kind) in silent.into_iter().zip(kinds) {
        if let Some(failure) = kind.and_then(|kind| kind.failure(&seed.addr, Needed::Node)) {
            return Err(failure);
        }
    }
    if sample.responses.values().all(Result::is_err) {
        let (addr, why) = sample.responses.iter().next().expect("at least one address is given");
        let why = why.as_ref().err().map_or("", String::as_str);
        return Err(Failure::new(Exit::CannotConnect, format!("no node responds; {addr}: {why}")).hint(if all_sets {
            "is the cluster running? `seqsvr dev` starts one; --addr URL names another"
        } else {
            "start the processes of the set file: `seqsvr store` and `seqsvr alloc`"
        }));
    }
    Ok(View::new(&sample, seeds, seq_command::utc::now()))
}

/// Queries the seeds, then every node that a response lists and that was not queried yet; with `all_sets` also the
/// nodes of the other sets.
async fn query_all(pool: &Pool, seeds: BTreeSet<String>, all_sets: bool, timeout: Duration) -> Sample {
    let mut sample = Sample::default();
    let mut next = seeds;
    while !next.is_empty() && sample.responses.len() < MAX_NODES {
        let round = join_all(next.iter().map(|addr| query(pool, addr, timeout))).await;
        for (addr, answer) in next.into_iter().zip(round) {
            if let Some(routes) = &answer.routes {
                sample.learn_routes(routes, all_sets);
            }
            if let Ok(response) = &answer.status {
                sample.learn_status(response, all_sets);
                sample.clocks.extend(answer.clock.map(|clock| (addr.clone(), clock)));
            }
            sample.responses.insert(addr, answer.status);
        }
        next = sample.unasked();
    }
    sample
}

/// The responses of a node to a query.
struct Answer {
    status: StatusResult,
    routes: Option<Routes>,
    clock: Option<ClockOffset>,
}

/// Requests the status of a node, and the routes of an AllocSvr or a proxy, which have addresses of other nodes.
async fn query(pool: &Pool, addr: &str, timeout: Duration) -> Answer {
    let failed = |error: String| Answer { status: Err(error), routes: None, clock: None };
    let channel = match pool.get(addr) {
        Ok(channel) => channel,
        Err(error) => return failed(error.to_string()),
    };
    let mut admin = StatusServiceClient::new(channel.clone());
    let sent = (seq_command::utc::now_ms(), Instant::now());
    let response = match tokio::time::timeout(timeout, admin.status(StatusRequest {})).await {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) if has_expired_certificate(&status) => return failed(EXPIRED.to_owned()),
        Ok(Err(status)) => return failed(Chain(&status).to_string()),
        Err(_) => return failed(format!("no response within {timeout:?}")),
    };
    let clock = ClockOffset::measure(response.clock_ms, sent.0, sent.1.elapsed());
    if matches!(response.role, Some(Role::Store(_))) {
        return Answer { status: Ok(response), routes: None, clock };
    }
    let mut sequence = SequenceServiceClient::new(channel);
    let routes = sequence.get_routes(GetRoutesRequest { known_version: 0 });
    let routes = tokio::time::timeout(timeout, routes).await;
    let routes = routes.ok().and_then(Result::ok).and_then(|response| response.into_inner().routes);
    Answer { status: Ok(response), routes, clock }
}
