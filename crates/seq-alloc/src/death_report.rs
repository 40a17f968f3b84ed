//! Report of the death of an AllocSvr process to its set's store, which the parent of the process sends.

use std::time::Duration;

use seq_channel::{Dial, ExpectedServer, Pool};
use seq_core::Incarnation;
use seq_core::set_spec::SetSpec;
use seq_proto::v1::ReportDeathRequest;
use tonic::Code;

use crate::store_link::{StoreError, StoreLink};

/// Timeout of one request to one member of the store. It is short, because a report is late after a fraction of a
/// second, and because a report may be repeated.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(250);

/// Pause between two rounds of requests to all members, for example while the store elects a leader.
const PAUSE: Duration = Duration::from_millis(25);

/// Cause for which the store did not note a death.
#[derive(Debug, thiserror::Error)]
pub enum DeathReportError {
    /// The leader refused the report. A repeat gets the same refusal.
    #[error("the store refused the report with {reason}: {message}")]
    Refused {
        /// The reason, in capitals.
        reason: String,
        /// The text of the refusal.
        message: String,
    },
    /// The store is of an earlier release.
    #[error("the store is of a release that takes no reports of deaths")]
    Unknown,
}

/// Reports that the process with the number `process` of the AllocSvr `name` has ended. Only the parent of the process
/// may call this function, after it has reaped the process. Sends the report until the store has noted it or refused
/// it, so the caller limits the time. Returns the incarnation that died; `None` if the report changed nothing, because
/// it is a repeat, or because the newest incarnation of the node belongs to another process.
///
/// Cancel safe: the store may have noted the report if the future is dropped.
///
/// # Errors
/// [`DeathReportError`].
///
/// # Panics
/// Outside of a tokio runtime, or if the set has no StoreSvr.
pub async fn report_death(
    spec: &SetSpec,
    dial: &Dial,
    name: &str,
    process: u64,
) -> Result<Option<Incarnation>, DeathReportError> {
    let members = spec.stores.iter().map(|store| store.addr.clone()).collect();
    let to_store = dial.expecting(ExpectedServer::store().of_set(&spec.name));
    let link = StoreLink::new(Pool::with_dial(1, to_store), members, ATTEMPT_TIMEOUT);
    let request = ReportDeathRequest { set: spec.name.clone(), node: name.to_owned(), process };
    loop {
        match link.call(request.clone()).await {
            Ok(response) => {
                return Ok((response.incarnation > 0).then_some(Incarnation(response.incarnation)));
            }
            Err(StoreError::NoLeader { code: Code::Unimplemented, .. }) => return Err(DeathReportError::Unknown),
            Err(StoreError::Refused { reason, message, .. } | StoreError::SessionOver { reason, message, .. }) => {
                return Err(DeathReportError::Refused { reason, message });
            }
            Err(error @ (StoreError::NoLeader { .. } | StoreError::TooFast { .. } | StoreError::Behind(_))) => {
                tracing::debug!(%error, "a death is not reported yet");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
