//! The group's format: the leader raises it once every member has reported that it reads the next one.
//!
//! Until then commands and states are written as the former release reads them, so that it can return, member by
//! member.
//!
//! **Invariant:** the format is raised only when each member has reported, after the raise was requested, that it reads
//! it. A member whose release goes back in that moment finds the raise in its log and does not go on, by name; it loses
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_core::plan::Fingerprint as PlanFingerprint;
use tokio::time::Instant;

use super::changes::{ChangeError, MemberChanges};
use crate::encoding;
use crate::transport::formats::ReportedFormats;

/// Pause between two attempts of a leader that raises the format by itself.
const INTERVAL: Duration = Duration::from_secs(1);

/// No dry run, and no plan is required: for what a leader raises by itself.
pub(crate) const REQUIRES_NO_PLAN: (bool, PlanFingerprint) = (false, PlanFingerprint::NONE);

/// The formats that the members read.
#[derive(Clone)]
pub(crate) struct Formats {
    /// The newest one of this program.
    pub(crate) mine: u16,
    /// Those of the other members.
    pub(crate) reported: Arc<ReportedFormats>,
}

/// A raise of the group's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatRaise {
    /// The format before.
    pub from: u16,
    /// The newest one of the leader's program, which is the group's now; the same as `from` when there was nothing to
    /// do.
    pub to: u16,
}

impl MemberChanges {
    /// The group's format.
    pub(crate) fn format(&self) -> u16 {
        self.replica.format()
    }

    /// The newest format of this member's program.
    pub(crate) fn own_format(&self) -> u16 {
        self.formats.mine
    }

    /// The newest format that a member reads, as it has last reported; 0 where that is not known.
    pub(crate) fn newest_format(&self, id: u64) -> u16 {
        if id == *self.raft.node_id() {
            return self.formats.mine;
        }
        self.formats.reported.newest(id).map_or(0, |reported| self.replica.newest_of(reported))
    }

    /// Raises the group's format to the newest one that this leader's program reads; with `dry_run` only checks whether
    /// that can be done. Returns also the plan as it was before.
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
            tracing::info!(from, to, "the format of the store's log and state was raised");
        }
        Ok((FormatRaise { from, to }, plan))
    }
}

/// Raises the format while this member leads, as soon as every member reads the next one. Runs until it is dropped.
pub(crate) async fn raise_when_read(changes: MemberChanges) {
    let mut metrics = changes.raft.server_metrics();
    loop {
        if changes.raft.is_leader() && changes.format() < changes.formats.mine {
            if let Err(error) = changes.raise_format(REQUIRES_NO_PLAN).await {
                tracing::debug!(%error, "the format cannot be raised yet");
            }
            tokio::time::sleep(INTERVAL).await;
        } else if metrics.changed().await.is_err() {
            // The Raft library has stopped, and its task logs why.
            std::future::pending::<()>().await;
        }
    }
}
