//! The list of commands: one row for each command, with its output, the rule that applies it, and the first format that
//! has it.
//!
//! [`Command`] and [`Answer`] are closed enums, so that a log can hold any command. A proposer knows the type of the
//! command that it proposes, and gets the output of that type ([`Replicated`]). `docs/how-to-add.md` has the steps for
//! another row.

use alloc::vec::Vec;

use super::audit::{BeginOperation, EndOperation};
use super::balancing::{MoveSections, PauseBalancing};
use super::command::{
    ClaimStoreId, CommandRefusal, Drain, RaiseCeilings, Reassign, Registration, Renew, SetTerms, Transfer, Transferred,
};
use super::events::Note;
use super::layout_writer::{LayoutWriter, SetLayoutWriter};
use super::loss::ReportLoss;
use super::series::{AdoptSeries, CreateSeries, NoteClock, NoteReadsLanes, RetireSeries};
use super::set_command::{
    Arrival, Arrive, Arrived, BeginLineage, Close, Complete, Depart, DepartSilent, EndQuarantine, Fence, Forget,
    Inherit, LearnDirectory, Rollback, SetPace, StartMigration, StartReturn,
};
use super::{Closing, FenceResponse, SetDefinition, State};
use crate::id::{Epoch, Incarnation, MigrationId, NodeId, Seq};
use crate::layout::SectionRun;

mod fields;
#[macro_use]
mod table;

pub use fields::Fields;

commands! {
    State: Command => Answer, Replicated;

    /// Defines the set. The first definition counts, with its id; a definition with another name or layout is refused.
    5 define_set: DefineSet(SetDefinition) => SetDefined(Result<(), CommandRefusal>);

    /// Sets the bounds of leases, for all members of the store alike.
    5 set_terms: SetTerms(SetTerms) => TermsSet(Result<(), CommandRefusal>);

    /// Starts a new incarnation of an AllocSvr.
    5 register: Register(Registration) => Registered(Result<(NodeId, Incarnation), CommandRefusal>);

    /// Renews an incarnation of an AllocSvr.
    5 renew: Renew(Renew) => Renewed(Result<(), CommandRefusal>);

    /// Raises ceilings. Counts for liveness like a renewal.
    5 raise: Raise(RaiseCeilings) =>
        /// In order, each section's committed ceiling, or `None` where the node does not own the section under that
        /// epoch, requests more than [`Seq::MAX`], or lists the section again.
        Raised(Result<Vec<Option<Seq>>, CommandRefusal>);

    /// Changes owners whose liveness counter has not changed since the proposer read it.
    5 reassign: Reassign(Vec<Reassign>) =>
        /// In order, the new epoch of each section, or `None` where its record is no longer as the proposer read it.
        Reassigned(Vec<Option<Epoch>>);

    /// Transfers a section from its owner, which sends the request, to another node: the commit of a handover.
    5 transfer: Transfer(Transfer) =>
        /// The ownership that began; a repeated command has the result of the first.
        Transferred(Result<Transferred, CommandRefusal>);

    /// Sets whether an AllocSvr may own sections.
    5 drain: Drain(Drain) => Drained(Result<NodeId, CommandRefusal>);

    /// Moves sections to an AllocSvr, or has them balanced again.
    10 move_sections: MoveSections(MoveSections) => SectionsMoved(Result<(), CommandRefusal>);

    /// Begins or ends a pause of balancing.
    10 pause_balancing: PauseBalancing(PauseBalancing) => BalancingPaused(Result<(), CommandRefusal>);

    /// Claims a Raft id for a member of the store, permanently: a disk that comes back under another member's id would
    /// vote with a log that is not its own.
    5 claim_store_id: ClaimStoreId(ClaimStoreId) =>
        /// Whether the id was free.
        StoreIdClaimed(bool);

    /// Begins a migration.
    5 start_migration: StartMigration(StartMigration) => MigrationStarted(Result<MigrationId, CommandRefusal>);

    /// Changes the pace of a migration.
    5 set_pace: Pace(SetPace) => PaceSet(Result<(), CommandRefusal>);

    /// Sends a section to another set, as its owner requests.
    5 depart: Depart(Depart) =>
        /// The ownership that begins in the other set; a repeated command has the result of the first.
        Departed(Result<Transferred, CommandRefusal>);

    /// Sends sections without a living owner to another set.
    5 depart_silent: DepartSilent(Vec<DepartSilent>) =>
        /// In order, the epoch that begins in the other set, or `None` where the section may not depart, or its record
        /// is no longer as the proposer read it.
        DepartedSilently(Vec<Option<Epoch>>);

    /// Takes sections that departed from another set.
    5 arrive: Arrive(Arrive) =>
        /// In order, the outcome for each section.
        Arrived(Result<Vec<Arrival>, CommandRefusal>);

    /// Notes which sections the log of another set has.
    5 arrived: Arrived(Arrived) =>
        /// Number of arrivals that were not noted before.
        ArrivalsNoted(u32);

    /// Ends a migration whose sections are to return.
    5 roll_back: Rollback(Rollback) => RolledBack(Result<(), CommandRefusal>);

    /// Ends a migration whose sections all arrived.
    5 complete: Complete(Complete) => Completed(Result<(), CommandRefusal>);

    /// Begins the return of sections that came by a migration.
    5 start_return: StartReturn(StartReturn) =>
        /// The id of the return, which may be that of an earlier request.
        ReturnStarted(Result<MigrationId, CommandRefusal>);

    /// Fences the older lineages of another set: nothing of them is accepted any more.
    5 fence: Fence(Fence) => Fenced(Result<(), CommandRefusal>);

    /// Keeps the facts that other sets stated, and their claims of sections.
    5 learn: LearnDirectory(LearnDirectory) =>
        /// Whether anything was new.
        DirectoryLearned(Result<bool, CommandRefusal>);

    /// Keeps a page of another set's response to the fence of this restored set. Pages are applied in order.
    5 learn_records: LearnRecords(FenceResponse) =>
        /// Whether the page was the awaited page.
        RecordsLearned(Result<bool, CommandRefusal>);

    /// Begins a newer lineage of a set in quarantine.
    5 begin_lineage: BeginLineage(BeginLineage) => LineageBegun(Result<(), CommandRefusal>);

    /// Ends the quarantine of a restored set.
    5 end_quarantine: EndQuarantine(EndQuarantine) => QuarantineEnded(Result<(), CommandRefusal>);

    /// Keeps a page of the records of a set that closes. Pages are applied in order.
    8 inherit: Inherit(Inherit) =>
        /// Whether the page was the awaited page.
        Inherited(Result<bool, CommandRefusal>);

    /// Removes another set from the sets that this log knows.
    8 forget: Forget(Forget) =>
        /// Whether the set was known.
        Forgotten(Result<bool, CommandRefusal>);

    /// Keeps the evidence that committed entries are gone.
    8 report_loss: ReportLoss(ReportLoss) =>
        /// Whether it is the first report of a loss.
        LossReported(Result<bool, CommandRefusal>);

    /// Closes this set permanently.
    5 close: Close(Close) => Closed(Result<Closing, CommandRefusal>);

    /// Creates a series.
    11 create_series: CreateSeries(CreateSeries) as 1 { name, shape, lanes, created_ms } =>
        /// The sections of its lanes.
        SeriesCreated(Result<SectionRun, CommandRefusal>);

    /// Retires a series permanently.
    11 retire_series: RetireSeries(RetireSeries) as 2 { name } =>
        /// Whether it was in use.
        SeriesRetired(Result<bool, CommandRefusal>);

    /// Adopts the series that another set states, and the set that creates series.
    11 adopt_series: AdoptSeries(AdoptSeries) as 3 { from, lineage, series, writer } =>
        /// Whether anything was new.
        SeriesAdopted(Result<bool, CommandRefusal>);

    /// Hands the creation of series to another set.
    11 set_layout_writer: SetLayoutWriter(SetLayoutWriter) as 6 { term, to } =>
        /// The next writer.
        LayoutWriterSet(Result<LayoutWriter, CommandRefusal>);

    /// Notes that an incarnation of an AllocSvr can own sections of series.
    11 note_reads_lanes: NoteReadsLanes(NoteReadsLanes) as 4 { node, incarnation } =>
        /// Whether that was not known.
        ReadsLanesNoted(Result<bool, CommandRefusal>);

    /// Notes the time of a restore.
    11 note_clock: NoteClock(NoteClock) as 5 { unix_ms } => ClockNoted(Result<(), CommandRefusal>);

    /// Notes the time, and facts that only a leader of the store knows.
    11 note: Note(Note) as 7 { unix_ms, about } => Noted(());

    /// Records that an operation of an administrator begins.
    7 begin_operation: BeginOperation(BeginOperation) =>
        /// The number of the operation.
        OperationBegun(Result<u64, CommandRefusal>);

    /// Records how an operation of an administrator ended.
    7 end_operation: EndOperation(EndOperation) => OperationEnded(Result<(), CommandRefusal>);
}

impl State {
    /// Applies one committed command. Deterministic: equal states and commands have equal results.
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
