//! Requests the status of all nodes of a cluster, beginning with the nodes that the user named.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_channel::{Pool, has_expired_certificate};
use seq_command::exit::{Exit, Failure};
use seq_command::port_kind::{self, Needed};
use seq_command::store_client::Node;
use seq_core::clock_offset::ClockOffset;
use seq_load::outcome::Chain;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetRoutesRequest, Routes, StatusRequest, StatusResponse};
use tonic::Status;

use crate::cluster::Cluster;
use crate::response::{within, within_or};
use crate::sample::{EXPIRED, Sample, StatusResult};

/// Number of queried nodes at which the search for further nodes ends. The number is limited because a wrong response
/// could name any number of nodes.
const MAX_NODES: usize = 4_096;

/// Number of times that route tables are requested before further nodes are queried. If the first requests of a set
/// fail, other AllocSvrs of the set are requested instead. The number is limited because each time may take a whole
/// timeout.
const TABLE_ATTEMPTS: usize = 2;

impl Cluster {
    /// Requests the status of the seed nodes and of all nodes of their sets that responses name. If `all_sets` is true,
    /// also requests the status of the nodes of all other sets. Each request takes at most `timeout`. If a section may
    /// have changed owner between the responses, all requests are repeated once.
    ///
    /// # Errors
    /// No node responds, or a server that is no node of a cluster responds at the address of a seed.
    pub async fn sample(pool: &Pool, seeds: &[Node], all_sets: bool, timeout: Duration) -> Result<Cluster, Failure> {
        let cluster = sample_once(pool, seeds, all_sets, timeout).await?;
        if cluster.may_be_of_two_moments() { sample_once(pool, seeds, all_sets, timeout).await } else { Ok(cluster) }
    }
}

async fn sample_once(pool: &Pool, seeds: &[Node], all_sets: bool, timeout: Duration) -> Result<Cluster, Failure> {
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
    Ok(Cluster::new(&sample, seeds, seq_command::utc::now()))
}

/// Queries the nodes at the addresses `seeds`. Then repeatedly queries all nodes that responses name and that were not
/// queried before. Nodes of other sets are queried only if `all_sets` is true.
async fn query_all(pool: &Pool, seeds: BTreeSet<String>, all_sets: bool, timeout: Duration) -> Sample {
    let mut sample = Sample::default();
    let (mut next, mut requested) = (seeds, BTreeSet::new());
    while !next.is_empty() && sample.responses.len() < MAX_NODES {
        let round = join_all(next.iter().map(|addr| status(pool, addr, timeout))).await;
        for (addr, (status, clock)) in next.into_iter().zip(round) {
            if let Ok(response) = &status {
                sample.learn_status(response, all_sets);
                sample.clocks.extend(clock.map(|clock| (addr.clone(), clock)));
            }
            sample.responses.insert(addr, status);
        }
        for _ in 0..TABLE_ATTEMPTS {
            let tables = sample.unread_tables(&mut requested);
            let round = join_all(tables.iter().map(|addr| routes(pool, addr, timeout))).await;
            for (addr, routes) in tables.into_iter().zip(round) {
                if let Some(routes) = routes {
                    sample.add_table(addr, &routes, all_sets);
                }
            }
        }
        next = sample.unasked();
    }
    sample
}

/// Requests the status of the node at `addr`. Also returns the clock of the node.
async fn status(pool: &Pool, addr: &str, timeout: Duration) -> (StatusResult, Option<ClockOffset>) {
    let channel = match pool.get(addr) {
        Ok(channel) => channel,
        Err(error) => return (Err(error.to_string()), None),
    };
    let mut admin = StatusServiceClient::new(channel);
    let sent = (seq_command::utc::now_ms(), Instant::now());
    let cause =
        |status: &Status| if has_expired_certificate(status) { EXPIRED.to_owned() } else { Chain(status).to_string() };
    let response = within_or(timeout, admin.status(StatusRequest {}), cause).await;
    let round_trip = sent.1.elapsed();
    let measure = |response: &StatusResponse| ClockOffset::measure(response.clock_ms, sent.0, round_trip);
    let clock = response.as_ref().ok().and_then(measure);
    (response, clock)
}

/// Requests the route table of the AllocSvr or proxy at `addr`, because it has the addresses of other nodes. Returns
/// `None` if the node does not respond in time.
async fn routes(pool: &Pool, addr: &str, timeout: Duration) -> Option<Routes> {
    let mut sequence = SequenceServiceClient::new(pool.get(addr).ok()?);
    let routes = within(timeout, sequence.get_routes(GetRoutesRequest { known_version: 0 }));
    routes.await.ok()?.routes
}
