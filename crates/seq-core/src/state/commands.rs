//! The list of commands. Each row has a command, its output, the rule that applies it, and the first format of the log
//! that has the command.
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
        /// The committed ceiling of each section, in order of the request. `None` if the node does not own the section
        /// under the requested epoch, requests more than [`Seq::MAX`], or has listed the section before.
        Raised(Result<Vec<Option<Seq>>, CommandRefusal>);

    /// Gives sections new owners. A change is made only if the liveness counter of the owner before has not changed
    /// since the proposer read it.
    5 reassign: Reassign(Vec<Reassign>) =>
        /// The new epoch of each section, in order of the request. `None` if the section's record has changed since the
        /// proposer read it.
        Reassigned(Vec<Option<Epoch>>);

    /// Commits a handover: transfers a section from its owner, which sends the request, to another node.
    5 transfer: Transfer(Transfer) =>
        /// The ownership that began. A repeat of the command has the same result.
        Transferred(Result<Transferred, CommandRefusal>);

    /// Sets whether an AllocSvr may own sections.
    5 drain: Drain(Drain) => Drained(Result<NodeId, CommandRefusal>);

    /// Moves sections to an AllocSvr, or has them balanced again.
    10 move_sections: MoveSections(MoveSections) => SectionsMoved(Result<(), CommandRefusal>);

    /// Begins or ends a pause of balancing.
    10 pause_balancing: PauseBalancing(PauseBalancing) => BalancingPaused(Result<(), CommandRefusal>);

    /// Claims a Raft id permanently for a member of the store. Otherwise a disk could come back under an id that
    /// another member has by then, and would vote as that member with a different log.
    5 claim_store_id: ClaimStoreId(ClaimStoreId) =>
        /// Whether the id was free.
        StoreIdClaimed(bool);

    /// Begins a migration.
    5 start_migration: StartMigration(StartMigration) => MigrationStarted(Result<MigrationId, CommandRefusal>);

    /// Changes the pace of a migration.
    5 set_pace: Pace(SetPace) => PaceSet(Result<(), CommandRefusal>);

    /// Sends a section to another set, as its owner requests.
    5 depart: Depart(Depart) =>
        /// The ownership that begins in the other set. A repeat of the command has the same result.
        Departed(Result<Transferred, CommandRefusal>);

    /// Sends sections without a living owner to another set.
    5 depart_silent: DepartSilent(Vec<DepartSilent>) =>
        /// The epoch that begins in the other set for each section, in order of the request. `None` if the section may
        /// not depart, or its record has changed since the proposer read it.
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

    /// Ends a migration after all its sections arrived.
    5 complete: Complete(Complete) => Completed(Result<(), CommandRefusal>);

    /// Begins the return of sections that came by a migration.
    5 start_return: StartReturn(StartReturn) =>
        /// The id of the return, which may be the id in an earlier request.
        ReturnStarted(Result<MigrationId, CommandRefusal>);

    /// Fences the older lineages of another set: from then on, messages of these lineages are refused.
    5 fence: Fence(Fence) => Fenced(Result<(), CommandRefusal>);

    /// Keeps facts that another set stated about itself, and its claims of sections.
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

    /// Adopts the list of series that another set states, and the set that it states as the creator of series.
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

    /// Notes the time of a restore, above which ticks of series begin.
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
    /// Applies one committed command. The result is deterministic: it depends on the state and the command only.
    ///
    /// # Panics
    /// When a committed value, such as a ceiling, would fall. The process must stop then, because its state is broken.
    pub fn apply(&mut self, command: &Command) -> Answer {
        self.revision = self.revision.next();
        self.apply_by_rule(command)
    }
}

#[cfg(test)]
mod tests;
