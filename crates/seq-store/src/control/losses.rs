//! Check for a loss of committed entries. After a member has started, and before the first AllocSvr registers with it,
//! it asks the AllocSvrs in its log whether they have seen a newer state of the store.
//!
//! If the data directories of all members of a store are replaced by old copies, all members have just started, and no
//! log entry shows the loss. A running AllocSvr detects the loss when it receives its next response from the store, and
//! reports it ([`seq_core::state::ReportLoss`]). But another AllocSvr that starts at the same moment could register
//! before this report. So a leader whose process has just started asks all AllocSvrs first. It does so only once and
//! waits for at most a second.
//!
//! The revision that a node has seen is compared with the state when the report is applied. So a member that has not
//! applied all its entries yet does not report a loss by mistake.

use std::time::Duration;

use futures::future::join_all;
use seq_auth::ExpectedServer;
use seq_core::state::{EventKind, ReportLoss, Rules, State};
use seq_core::{Incarnation, Revision};
use seq_proto::v1::StatusRequest;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use tokio::sync::watch;

use crate::replicated_set::ReplicatedSet;

/// Timeout of the request to one AllocSvr. It is short, because AllocSvrs that no longer run must not delay the start
/// of a store.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for which a registration waits for [`ask`]. It includes the time for the responses of the AllocSvrs and
/// for the commits of the reports.
pub(super) const REGISTRATION_WAITS: Duration = Duration::from_secs(3);

/// Interval at which the task checks whether this member leads with a majority.
const POLL: Duration = Duration::from_millis(20);

/// Waits until this member leads for the first time, and then asks the AllocSvrs. Proposes a report for each AllocSvr
/// that responds. Finally sets `asked`.
pub(crate) async fn ask(replicated: ReplicatedSet, asked: watch::Sender<bool>) {
    let raft = replicated.raft();
    while !raft.is_leader() || raft.check_quorum().is_err() {
        tokio::time::sleep(POLL).await;
    }
    let nodes = |state: &State| {
        let set = state.set.as_ref()?.name.clone();
        let nodes = state.nodes.iter().map(|node| (node.name.clone(), node.addr.clone())).collect::<Vec<_>>();
        (state.rules >= Rules::Eight).then_some((set, nodes))
    };
    if let Some((set, nodes)) = replicated.read(nodes) {
        let reports = nodes.into_iter().map(|(name, addr)| seen(&replicated, &set, name, addr));
        for report in join_all(reports).await.into_iter().flatten() {
            match replicated.propose(report.clone()).await {
                Ok(Ok(true)) => {
                    let event = EventKind::EntriesLost.name();
                    tracing::error!(
                        event,
                        node = report.node,
                        seen = report.seen.0,
                        "the store lost committed entries"
                    );
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, node = report.node, "a node's newest response is not compared"),
            }
        }
    }
    asked.send_replace(true);
}

/// Returns a report with the newest revision that the AllocSvr `name` has seen. Returns `None` if the AllocSvr does not
/// respond, or has not seen any state.
async fn seen(replicated: &ReplicatedSet, set: &str, name: String, addr: String) -> Option<ReportLoss> {
    let channel = replicated.raft().connect_expecting(&addr, ExpectedServer::alloc().of_set(set)).ok()?;
    let mut node = StatusServiceClient::new(channel);
    let response = tokio::time::timeout(TIMEOUT, node.status(StatusRequest {})).await.ok()?.ok()?.into_inner();
    let Some(Role::Alloc(status)) = response.role.filter(|_| response.set == set && response.node == name) else {
        return None;
    };
    let (incarnation, seen) = (Incarnation(status.last_incarnation), Revision(status.seen_revision));
    (seen > Revision(0)).then_some(ReportLoss { node: name, incarnation, seen, certain: false })
}
