//! The layout writer is the only set that appends to the layout of the cluster. It creates and retires the series of
//! the cluster. If two sets created series, two series could get the same sections, and so the same ids.
//!
//! A cluster begins with its first set as the writer, in term 0. An entry in the log of the writer hands the layout to
//! another set, and begins the next term. From that entry on, the former writer appends nothing, unless the layout is
//! handed back to it in a later term. Another set adopts the hand-over together with the layout as of the hand-over, in
//! one command ([`AdoptSeries`](super::AdoptSeries)). So a set that knows of a term has the whole layout of the earlier
//! terms.
//!
//! A set learns of a new term only from the set that it knows as the writer, because each set makes statements about
//! itself only. As an exception, a set in quarantine learns of a new term from any set, because its backup may lack the
//! terms of writers that are closed by now. A restore of the writer can lose a hand-over only if no other set has
//! learned of the hand-over. Any set that has learned of it states the newest term that it knows in its response to the
//! writer's fence, and accepts no message of the writer's older lineages afterwards.
//!
//! **Invariant:** at most one set appends to the layout at any time. The term that a set knows never falls, and only
//! the writer of a term begins the next term.

use alloc::vec::Vec;

use super::set_command::SetRefusal;
use super::{Closing, CommandRefusal, Fields, Rules, State};
use crate::id::SetId;
use crate::limits;

/// The set that appends to the layout, with the hand-over that gave it the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutWriter {
    /// Number of hand-overs in the cluster, including the hand-over to this writer; 0 if the cluster began with this
    /// writer.
    pub term: u64,
    /// The set that handed the layout to this writer. In term 0, it is the writer itself.
    pub from: SetId,
    /// The writer.
    pub set: SetId,
    /// Number of creations and retirements of series before the hand-over to this writer.
    pub changes: u32,
    /// The highest count of restores among the lineages of former writers. A restore of a former writer may have lost a
    /// series, whose sections a new series can get. So a new series begins above all numbers and epochs that such a
    /// lost series can have had.
    pub restores: u32,
    /// Whether the writer's own log has the hand-over, so that the writer has taken the layout over.
    pub taken: bool,
}

/// Command that hands the layout to another set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLayoutWriter {
    /// The term that ends. A command that names a term which has already ended is a repeat or late, and changes
    /// nothing.
    pub term: u64,
    /// The next writer.
    pub to: SetId,
}

impl State {
    /// Returns the newest layout writer that this log knows; `None` if this log does not know any writer yet.
    #[must_use]
    pub fn layout_writer(&self) -> Option<LayoutWriter> {
        let first = || {
            let set = self.set.as_ref()?.first_writer()?;
            Some(LayoutWriter { term: 0, from: set, set, changes: 0, restores: 0, taken: true })
        };
        self.writer.or_else(first)
    }

    /// Returns whether this set creates the series of its cluster.
    #[must_use]
    pub fn writes_series(&self) -> bool {
        let own = self.set.as_ref().map(|set| set.id);
        self.layout_writer().is_some_and(|writer| Some(writer.set) == own && self.layout_changes() >= writer.changes)
    }

    /// Returns whether this set must state the layout to other sets, because it is the newest known writer, or handed
    /// the layout to the newest known writer.
    #[must_use]
    pub fn states_layout(&self) -> bool {
        let own = self.set.as_ref().map(|set| set.id);
        self.layout_writer().is_some_and(|writer| own == Some(writer.set) || own == Some(writer.from))
    }

    /// Returns the refusal with which a set that is not the layout writer responds to a change of the layout.
    #[must_use]
    pub fn not_writer(&self) -> CommandRefusal {
        CommandRefusal::NotSeriesWriter { writer: self.layout_writer().map(|writer| writer.set) }
    }

    /// Returns the writer that the command `hand_over` would set now. If an equal command was applied before, returns
    /// the writer that it set.
    ///
    /// # Errors
    /// The refusal that the command would get, for example because this set is not the writer of the term that ends, or
    /// because the other set cannot become the writer.
    pub fn foresee_writer(&self, hand_over: &SetLayoutWriter) -> Result<LayoutWriter, CommandRefusal> {
        let SetLayoutWriter { term, to } = *hand_over;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        if to == own {
            return Err(SetRefusal::OwnSet.into());
        }
        let next = term.checked_add(1).ok_or_else(|| self.not_writer())?;
        let known = self.layout_writer().ok_or_else(|| self.not_writer())?;
        if (known.term, known.from, known.set) == (next, own, to) {
            return Ok(known);
        }
        if known.term != term || !self.writes_series() {
            return Err(self.not_writer());
        }
        if self.is_quarantined() {
            return Err(SetRefusal::InQuarantine { set: own }.into());
        }
        self.refuse_after_loss()?;
        let peer = self.sets.get(&to).ok_or(SetRefusal::UnknownSet { set: to })?;
        let facts = peer.facts.as_ref().ok_or(SetRefusal::UnknownSet { set: to })?;
        if peer.closing || facts.closing > Closing::Open {
            return Err(SetRefusal::SetClosing { set: to }.into());
        }
        if facts.quarantined {
            return Err(SetRefusal::InQuarantine { set: to }.into());
        }
        let restores = known.restores.max(self.lineage.restores());
        Ok(LayoutWriter { term: next, from: own, set: to, changes: self.layout_changes(), restores, taken: false })
    }

    /// Hands the layout to another set. From this entry on, this set appends nothing to the layout.
    pub(super) fn set_layout_writer(&mut self, hand_over: &SetLayoutWriter) -> Result<LayoutWriter, CommandRefusal> {
        let writer = self.foresee_writer(hand_over)?;
        self.writer = Some(writer);
        Ok(writer)
    }

    /// Checks that another set is the layout writer, so that this set may close. If this set handed the layout over
    /// itself, the other set must have stated that it has taken the layout over.
    pub(super) fn check_layout_writer(&self) -> Result<(), CommandRefusal> {
        let Some(own) = self.set.as_ref().map(|set| set.id).filter(|_| self.rules >= Rules::Eleven) else {
            return Ok(());
        };
        match self.layout_writer() {
            Some(writer) if writer.set == own => Err(SetRefusal::WritesLayout { set: own }.into()),
            Some(LayoutWriter { from, set, taken: false, .. }) if from == own => {
                Err(SetRefusal::LayoutNotTaken { set }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a set is the layout writer, as far as this log knows.
    pub(super) fn is_writer(&self, set: SetId) -> bool {
        self.rules >= Rules::Eleven && self.layout_writer().is_some_and(|writer| writer.set == set)
    }

    /// Returns the writer to adopt from the statement `stated` of the set `from`; `None` if the statement is to be
    /// ignored. A statement is adopted if it has a newer term than this log knows, or if it shows that the known writer
    /// has taken the layout over.
    pub(super) fn newer_writer(&self, from: SetId, stated: Option<LayoutWriter>) -> Option<LayoutWriter> {
        let far = self.most_restores().saturating_add(limits::MAX_RESTORE_STEP);
        // If a count that is falsely high were adopted, the start of each new series would be raised by a margin for
        // each restore in the count.
        let stated = stated.filter(|writer| writer.restores <= far)?;
        let own = self.set.as_ref().map(|set| set.id);
        let is_taken = stated.taken || Some(stated.set) == own || stated.set == from;
        let newer = LayoutWriter { taken: is_taken, ..stated };
        let Some(known) = self.layout_writer() else { return Some(newer) };
        let speaks = from == known.set;
        if stated.term > known.term {
            return (speaks || self.is_quarantined()).then_some(newer);
        }
        let takes = (stated.term, stated.set) == (known.term, known.set) && speaks && !known.taken;
        takes.then_some(LayoutWriter { taken: true, ..known })
    }

    /// Returns the number of creations and retirements of series in this log.
    fn layout_changes(&self) -> u32 {
        changes(self.series.iter().map(|series| series.retired))
    }
}

/// Returns the number of creations and retirements in a list of series. Each item states whether the series is retired.
pub(super) fn changes(series: impl Iterator<Item = bool>) -> u32 {
    series.map(|retired| 1 + u32::from(retired)).sum()
}

/// The order of the fields is the format.
impl Fields for LayoutWriter {
    fn put(&self, body: &mut Vec<u8>) {
        let LayoutWriter { term, from, set, changes, restores, taken } = *self;
        (term, from).put(body);
        (set, changes).put(body);
        (restores, taken).put(body);
    }

    fn take(body: &mut &[u8]) -> Option<LayoutWriter> {
        let ((term, from), (set, changes)) = (<(u64, SetId)>::take(body)?, <(SetId, u32)>::take(body)?);
        let (restores, taken) = Fields::take(body)?;
        Some(LayoutWriter { term, from, set, changes, restores, taken })
    }
}

#[cfg(test)]
mod tests;
