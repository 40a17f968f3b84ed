//! The list of commands: one row for each, with its output, the rule that applies it, and the first format that has it.
//!
//! [`Command`] and [`Answer`] are closed enums, so that a log can hold any command; a proposer knows which one it
//! proposes, and gets the output of that one ([`Replicated`]). `docs/how-to-add.md` has the steps for another row.

use alloc::vec::Vec;

use super::audit::{BeginOperation, EndOperation};
use super::balancing::{MoveSections, PauseBalancing};
use super::command::{
    ClaimStoreId, CommandRefusal, Drain, RaiseCeilings, Reassign, Registration, Renew, SetTerms, Transfer, Transferred,
};
use super::loss::ReportLoss;
use super::set_command::{
    Arrival, Arrive, Arrived, BeginLineage, Close, Complete, Depart, DepartSilent, EndQuarantine, Fence, Forget,
    Inherit, LearnDirectory, Rollback, SetPace, StartMigration, StartReturn,
};
use super::{Closing, FenceResponse, SetDefinition, State};
use crate::id::{Epoch, Incarnation, MigrationId, NodeId, Seq};

mod fields;
#[macro_use]
mod table;

pub use fields::Fields;

commands! {
    State: Command => Answer, Replicated;

    /// Defines the set. The first one counts, with its id; another name or layout is refused.
    5 define_set: DefineSet(SetDefinition) => SetDefined(Result<(), CommandRefusal>);

    /// Sets the bounds of leases, for all members of the store alike.
    5 set_terms: SetTerms(SetTerms) => TermsSet(Result<(), CommandRefusal>);

    /// Starts a new incarnation of an AllocSvr.
    5 register: Register(Registration) => Registered(Result<(NodeId, Incarnation), CommandRefusal>);

    /// Renews an incarnation of an AllocSvr.
    5 renew: Renew(Renew) => Renewed(Result<(), CommandRefusal>);

    /// Raises ceilings. Counts for liveness like a renewal.
    5 raise: Raise(RaiseCeilings) =>
        /// In order, the section's committed ceiling, or `None` where the node does not own the section under that
        /// epoch, requests more than [`Seq::MAX`], or lists the section again.
        Raised(Result<Vec<Option<Seq>>, CommandRefusal>);

    /// Changes owners whose liveness counter stood still.
    5 reassign: Reassign(Vec<Reassign>) =>
        /// In order, the new epoch, or `None` where the record is not the one that the proposer read.
        Reassigned(Vec<Option<Epoch>>);

    /// Transfers a section from its owner, which requests it, to another node: the commit of a handover.
    5 transfer: Transfer(Transfer) =>
        /// A repeat has the result of the first one.
        Transferred(Result<Transferred, CommandRefusal>);

    /// Sets whether an AllocSvr may own sections.
    5 drain: Drain(Drain) => Drained(Result<NodeId, CommandRefusal>);

    /// Moves sections to an AllocSvr, or has them balanced again.
    10 move_sections: MoveSections(MoveSections) => SectionsMoved(Result<(), CommandRefusal>);

    /// Begins or ends a pause of balancing.
    10 pause_balancing: PauseBalancing(PauseBalancing) => BalancingPaused(Result<(), CommandRefusal>);

    /// Claims a Raft id for a member of the store, for good: a disk that comes back under another member's id would
    /// vote with a log that is not its own.
    5 claim_store_id: ClaimStoreId(ClaimStoreId) =>
        /// Whether the id was free.
        StoreIdClaimed(bool);

    /// Begins a migration.
    5 start_migration: StartMigration(StartMigration) => MigrationStarted(Result<MigrationId, CommandRefusal>);

    /// Changes how fast a migration goes.
    5 set_pace: Pace(SetPace) => PaceSet(Result<(), CommandRefusal>);

    /// Sends a section to another set, as its owner requests.
    5 depart: Depart(Depart) =>
        /// The ownership that begins in the other set; a repeat has the result of the first one.
        Departed(Result<Transferred, CommandRefusal>);

    /// Sends sections without a living owner to another set.
    5 depart_silent: DepartSilent(Vec<DepartSilent>) =>
        /// In order, the epoch that begins in the other set, or `None` where the section may not depart, or its record
        /// is not the one that the proposer read.
        DepartedSilently(Vec<Option<Epoch>>);

    /// Takes sections that departed from another set.
    5 arrive: Arrive(Arrive) =>
        /// In order.
        Arrived(Result<Vec<Arrival>, CommandRefusal>);

    /// Notes what another set's log has.
    5 arrived: Arrived(Arrived) =>
        /// How many of them are new.
        ArrivalsNoted(u32);

    /// Ends a migration whose sections are to return.
    5 roll_back: Rollback(Rollback) => RolledBack(Result<(), CommandRefusal>);

    /// Ends a migration whose sections all arrived.
    5 complete: Complete(Complete) => Completed(Result<(), CommandRefusal>);

    /// Begins the return of sections that came by a migration.
    5 start_return: StartReturn(StartReturn) =>
        /// The id of the return, which may be that of an earlier request.
        ReturnStarted(Result<MigrationId, CommandRefusal>);

    /// Accepts nothing of another set's older lineages any more.
    5 fence: Fence(Fence) => Fenced(Result<(), CommandRefusal>);

    /// Keeps what other sets sent of themselves and of sections.
    5 learn: LearnDirectory(LearnDirectory) =>
        /// Whether anything was new.
        DirectoryLearned(Result<bool, CommandRefusal>);

    /// Keeps a page of another set's response to the fence of this restored set. Applied in order of page.
    5 learn_records: LearnRecords(FenceResponse) =>
        /// Whether it is the page that was awaited.
        RecordsLearned(Result<bool, CommandRefusal>);

    /// Begins a newer lineage of a set in quarantine.
    5 begin_lineage: BeginLineage(BeginLineage) => LineageBegun(Result<(), CommandRefusal>);

    /// Ends the quarantine of a restored set.
    5 end_quarantine: EndQuarantine(EndQuarantine) => QuarantineEnded(Result<(), CommandRefusal>);

    /// Keeps a page of the records of a set that closes. Applied in order of page.
    8 inherit: Inherit(Inherit) =>
        /// Whether it is the page that was awaited.
        Inherited(Result<bool, CommandRefusal>);

    /// Removes another set from those that this log knows.
    8 forget: Forget(Forget) =>
        /// Whether the set was known.
        Forgotten(Result<bool, CommandRefusal>);

    /// Keeps the evidence that committed entries are gone.
    8 report_loss: ReportLoss(ReportLoss) =>
        /// Whether it is the first report.
        LossReported(Result<bool, CommandRefusal>);

    /// Closes this set for good.
    5 close: Close(Close) => Closed(Result<Closing, CommandRefusal>);

    /// Records that an operation of an administrator begins. Its number is the result.
    7 begin_operation: BeginOperation(BeginOperation) =>
        /// Its number.
        OperationBegun(Result<u64, CommandRefusal>);

    /// Records how an operation of an administrator ended.
    7 end_operation: EndOperation(EndOperation) => OperationEnded(Result<(), CommandRefusal>);
}

impl State {
    /// Applies one committed command. Deterministic.
    ///
    /// # Panics
    /// When a committed value would fall; the process must stop rather than serve from a broken state.
    pub fn apply(&mut self, command: &Command) -> Answer {
        self.revision = self.revision.next();
        self.apply_by_rule(command)
    }
}

#[cfg(test)]
mod tests;
