//! Reports to the store that the store lost committed entries, after this process has halted because of the loss.
//! Without the report, the store would register a process that starts later. Such a process could not detect the loss,
//! because it has no earlier response of the store to compare with.

use std::sync::Arc;
use std::time::Duration;

use seq_proto::Reason;
use seq_proto::v1::ReportLossRequest;
use tonic::Code;

use crate::halt::Halt;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Pause between two attempts to report. In the meantime an operator may stop and start members of the store.
const RETRY: Duration = Duration::from_secs(1);

/// Waits until this process halts. If the cause is that the store lost entries, sends the report repeatedly until the
/// store has accepted it or takes no such reports, or until shutdown.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let stopping = shared.halt.shutdown().clone();
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = report(shared, link) => {}
    }
}

async fn report(shared: Arc<Shared>, link: Arc<StoreLink>) {
    shared.halt.wait().await;
    let Some(Halt::StoreBehind { incarnation, .. }) = shared.halt.get() else { return };
    let request = ReportLossRequest {
        set: shared.config.set.clone(),
        node: shared.config.name.clone(),
        incarnation: incarnation.0,
        seen_revision: link.seen().revision.0,
    };
    loop {
        match link.call(request.clone()).await {
            Ok(_) => {
                tracing::warn!(
                    set = shared.config.set,
                    "the store has the report that it lost entries: it registers no node"
                );
                return;
            }
            Err(StoreError::NoLeader { code: Code::Unimplemented, .. }) => {
                tracing::warn!(set = shared.config.set, "the store is of a release that takes no report of a loss");
                return;
            }
            Err(StoreError::Refused { reason, message, .. }) if Reason::parse(&reason) == Some(Reason::OtherFormat) => {
                tracing::warn!(set = shared.config.set, message, "the store takes no report of a loss");
                return;
            }
            Err(error) => tracing::debug!(set = shared.config.set, %error, "a loss is not reported yet"),
        }
        tokio::time::sleep(RETRY).await;
    }
}
