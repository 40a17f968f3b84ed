//! The command `status`, which shows the state of each set. It requests the status of the seed nodes, which the user
//! named, and of the nodes that their responses list.
//!
//! If the user gives addresses, the command also queries the other sets of the cluster, whose addresses AllocSvrs and
//! proxies report. If the user gives a set file, the command shows only the set of this file.
//!
//! A section counts as served while its owner has an unexpired lease. A node that does not respond is shown. It does
//! not count as missing if its store does not list it any more.

use std::time::{Duration, Instant};

use clap::Args;
use seq_command::exit::{Exit, report_error};
use seq_command::output::Output;
use seq_command::security;
use seq_command::store_client::SetAddress;
use seq_command::time_limit::time;
use seq_observe::Cluster;
use seq_observe::verdict::State;

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

pub async fn run(args: StatusArgs, output: &Output) -> anyhow::Result<Exit> {
    let seeds = args.target.nodes()?;
    let pool = security::pool();
    let all_sets = !args.target.is_set_file();
    let timeout = args.timeout;
    let Some(seconds) = args.watch else {
        let cluster = Cluster::sample(&pool, &seeds, all_sets, timeout).await?;
        print(&cluster, output)?;
        return Ok(args.fail_on.exit(cluster.worst()));
    };
    let mut ticks = tokio::time::interval(Duration::from_secs(seconds));
    let mut before: Option<(Instant, Cluster)> = None;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        match Cluster::sample(&pool, &seeds, all_sets, timeout).await {
            Ok(mut cluster) => {
                if let Some((at, before)) = &before {
                    cluster.add_rates(before, now - *at);
                }
                output.clear_screen()?;
                print(&cluster, output)?;
                before = Some((now, cluster));
            }
            // Only a usage error, such as a wrong port, ends the watch. After other errors, the cluster may respond
            // again later.
            Err(failure) if failure.exit() == Exit::Usage => return Err(failure.into()),
            Err(failure) => report_error(&failure),
        }
    }
}

fn print(cluster: &Cluster, output: &Output) -> std::io::Result<()> {
    if output.is_json() { output.json(cluster) } else { output.text(&cluster.render(output.is_wide())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_worse_states_fail_with_fail_on() {
        let of = |state| [FailOn::Degraded, FailOn::Unserved, FailOn::NoQuorum].map(|fail_on| fail_on.exit(state));
        let (bad, fine) = (Exit::Unhealthy, Exit::Ok);
        assert_eq!(of(State::Cloned), [bad, bad, bad]);
        assert_eq!(of(State::NoQuorum), [bad, bad, bad]);
        assert_eq!(of(State::Election), [bad, bad, fine]);
        assert_eq!(of(State::Undefined), [bad, bad, fine]);
        assert_eq!(of(State::Unserved), [bad, bad, fine]);
        assert_eq!(of(State::Degraded), [bad, fine, fine]);
        assert_eq!([of(State::Ok), of(State::Closed)], [[fine; 3]; 2]);
    }
}
