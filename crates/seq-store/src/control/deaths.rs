//! Reports of the deaths of AllocSvr processes ([`seq_core::state::Died`]).
//!
//! A leader whose process has just started notes no death before it has asked the AllocSvrs which state they have seen
//! (`losses.rs`). If the data directories of the store were replaced by old copies, the incarnation of the dead process
//! may own sections in the old state that other AllocSvrs have got since.

use seq_api::metrics::DEATHS_REPORTED_TOTAL;
use seq_core::Incarnation;
use seq_core::state::{Died, EventKind, Replicated, State};
use seq_proto::reason::Reason;
use seq_proto::v1::ReportDeathRequest;
use tonic::Status;

use super::service::Control;

impl Control {
    /// Starts the count of reported deaths at 0, so that the first death is an increase.
    pub(super) fn start_count(&self) {
        metrics::counter!(DEATHS_REPORTED_TOTAL, &self.labels()).increment(0);
    }

    /// Notes that the process of an AllocSvr has ended. Returns the incarnation that died, or `Incarnation(0)` if
    /// nothing changed. The caller has checked that the sender of the request acts for the node.
    ///
    /// # Errors
    /// `OTHER_SET`, `BAD_TOKEN`, `OLD_FORMAT`, `UNKNOWN_NODE`; `NO_SET` and `QUARANTINED` as for a registration; and
    /// the errors of a proposal.
    pub(super) async fn report_death(&self, request: ReportDeathRequest) -> Result<Incarnation, Status> {
        let ReportDeathRequest { set, node: name, process } = request;
        if set != self.set.name {
            let text = format!("this is the store of set {:?}, not of {set:?}", self.set.name);
            return Err(Reason::OtherSet.status(text));
        }
        if process == 0 {
            return Err(Reason::BadToken.status("process 0: it is the number that the process drew when it started"));
        }
        self.check_defined()?;
        if self.replicated.raft().state().format() < Died::SINCE {
            let since = Died::SINCE;
            let text = format!(
                "the group's format is below {since}, which has no reports of deaths: `seqsvr store upgrade` raises it"
            );
            return Err(Reason::OldFormat.status(text));
        }
        self.wait_asked().await?;
        let find = |state: &State| state.nodes().find(|(_, node)| node.name == name).map(|(id, _)| id);
        let Some(node) = self.replicated.read(find) else {
            return Err(Reason::UnknownNode.status(format!("no AllocSvr named {name:?} has registered")));
        };
        let outcome = self.replicated.propose(Died { node, process }).await?;
        let Some(incarnation) = outcome.map_err(|refusal| self.refused(refusal))? else {
            return Ok(Incarnation(0));
        };
        metrics::counter!(DEATHS_REPORTED_TOTAL, &self.labels()).increment(1);
        let event = EventKind::Died.name();
        tracing::warn!(event, node = name, incarnation = incarnation.0, "the parent of an allocator reports its death");
        Ok(incarnation)
    }
}
