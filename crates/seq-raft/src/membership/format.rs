//! Raise of the group's format, in which commands and states are encoded. The leader raises the format once every
//! member has reported that it can read the new format.
//!
//! Until the raise, commands and states are written in a format that the previous release can read, so that each member
//! can return to that release.
//!
//! **Invariant:** the leader raises the format only after each member has reported that it can read the new format, and
//! only reports that arrived after the raise was requested count. A member that returns to an older release after its
//! report refuses the raise in its log, and stops with an error that names the format. It loses no data.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_core::plan::Fingerprint as PlanFingerprint;
use seq_core::state::EventKind;
use tokio::time::Instant;

use super::changes::{ChangeError, MemberChanges};
use crate::encoding;

/// Pause between two attempts of a leader to raise the format by itself, without an operator's request.
const INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of a raise that no operator requested: no dry run, and no required plan.
pub(crate) const REQUIRES_NO_PLAN: (bool, PlanFingerprint) = (false, PlanFingerprint::NONE);

/// Result of a raise of the group's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatRaise {
    /// Format of the group before the raise.
    pub from: u16,
    /// Format of the group after the raise, which is the newest format of the leader's program. It equals `from` if the
    /// group already had this format.
    pub to: u16,
}

impl MemberChanges {
    /// Returns the group's format.
    pub(crate) fn format(&self) -> u16 {
        self.replica.format()
    }

    /// Returns the newest format of this member's program.
    pub(crate) fn own_format(&self) -> u16 {
        self.formats.mine
    }

    /// Returns the newest format that the member `id` can read, according to its last report; 0 if it has sent no
    /// report.
    pub(crate) fn newest_format(&self, id: u64) -> u16 {
        if id == *self.raft.node_id() {
            return self.formats.mine;
        }
        self.formats.reported.newest(id).map_or(0, |reported| self.replica.newest_of(reported))
    }

    /// Raises the group's format to the newest format that this leader's program can read. With `dry_run`, only checks
    /// whether the raise is possible. Also returns the fingerprint of the preconditions of the request's plan, computed
    /// before the raise.
    pub(crate) async fn raise_format(
        &self,
        (dry_run, required): (bool, PlanFingerprint),
    ) -> Result<(FormatRaise, PlanFingerprint), ChangeError> {
        let observed = self.observe()?;
        let (from, to) = (self.format(), self.formats.mine);
        if from == to {
            return Ok((FormatRaise { from, to }, self.plan_of_format(&observed.group, (from, to))));
        }
        let _one = self.begin()?;
        if !dry_run {
            self.settled().await?;
        }
        let began = Instant::now();
        let newest = |id| Some(self.replica.newest_of(self.formats.reported.newest_since(id, began)?));
        let (observed, ()) = self.checked(|group| group.check_format(to, newest)).await?;
        let plan = self.plan_of_format(&observed.group, (from, to));
        if !dry_run {
            required.check(plan)?;
            self.proposer.propose(encoding::write_raise(to)).await?;
            tracing::info!(
                event = EventKind::Format.name(),
                from,
                to,
                "the format of the store's log and state was raised"
            );
        }
        Ok((FormatRaise { from, to }, plan))
    }
}

/// Raises, while this member leads, the group's format as soon as every member can read the newest format of this
/// member's program. Runs until the future is dropped.
pub(crate) async fn raise_when_read(changes: MemberChanges) {
    let mut metrics = changes.raft.server_metrics();
    loop {
        if changes.raft.is_leader() && changes.format() < changes.formats.mine {
            if let Err(error) = changes.raise_format(REQUIRES_NO_PLAN).await {
                tracing::debug!(%error, "the format cannot be raised yet");
            }
            tokio::time::sleep(INTERVAL).await;
        } else if metrics.changed().await.is_err() {
            // The Raft library has stopped, and its task logs the reason.
            std::future::pending::<()>().await;
        }
    }
}
