//! Applies the commands that create, retire and adopt series. A series is a name for lanes, which are the counters from
//! which ids are made.
//!
//! A series is created once and stays: it is neither renamed nor removed, and its shape and lanes never change, because
//! a second use of a name could repeat ids. A retired series permanently allocates no more ids.
//!
//! One set of a cluster, the layout writer, creates series (`layout_writer.rs`). The other sets adopt the layout
//! writer's list of series, to which series are only appended.
//!
//! **Invariant:** the list of series, which has the keyspaces too (`keyspaces.rs`), and the layout's list of spaces of
//! lanes have the same length and the same order.
//! The sections of a series' lanes begin in the set that created the series.

use alloc::string::String;
use alloc::vec::Vec;

use super::beginning::Beginning;
use super::events::EventRecord;
use super::layout_writer::{LayoutWriter, changes};
use super::record::{Quarantine, Residence, SectionRecord};
use super::set_command::SetRefusal;
use super::{Closing, CommandRefusal, Fields, NodeRecord, SetDefinition, State};
use crate::id::{Epoch, Incarnation, Lineage, MigrationId, NodeId, Seq, SetId};
use crate::keyspace::Hashing;
use crate::layout::{Lanes, SectionRun, TickClock};
use crate::limits;
use crate::series::Series;

/// Creates a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSeries {
    /// Name of the series, as in [`Series::name`].
    pub name: String,
    /// The shape of its ids, as in [`Series::shape`].
    pub shape: Vec<u8>,
    /// The lanes.
    pub lanes: Lanes,
    /// Time of the command, in milliseconds since 1970 by the clock of the store. If the set was restored and the time
    /// of the restore is not noted, this time takes its place, so that the ticks of this series begin above it.
    pub created_ms: u64,
}

/// Retires a series permanently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetireSeries {
    /// Name of the series.
    pub name: String,
}

/// Command that adopts the series that another set states, and the newest layout writer that the other set knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptSeries {
    /// The set that stated them.
    pub from: SetId,
    /// Lineage of the set when it stated them.
    pub lineage: Lineage,
    /// All series that the other set knows, in order, beginning with the first; at most [`limits::MAX_SPACES`] of them.
    pub series: Vec<StatedSeries>,
    /// The newest writer that the set knows.
    pub writer: Option<LayoutWriter>,
}

/// A series as one set states it to the other sets of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedSeries {
    /// The command that would create it.
    pub create: CreateSeries,
    /// The set that created the series, in which the sections of its lanes began.
    pub home: SetId,
    /// Whether it is retired.
    pub retired: bool,
}

impl From<&Series> for StatedSeries {
    fn from(series: &Series) -> StatedSeries {
        let Series { name, shape, lanes, created_ms, home, retired, sections: _, routed: _ } = series.clone();
        StatedSeries { create: CreateSeries { name, shape, lanes, created_ms }, home, retired }
    }
}

/// Command that notes the time of a restore before the quarantine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteClock {
    /// Milliseconds since 1970, by the clock of the store.
    pub unix_ms: u64,
}

/// Command that notes that an incarnation of an AllocSvr can own sections of series. An AllocSvr of an earlier release
/// cannot own them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteReadsLanes {
    /// The node.
    pub node: NodeId,
    /// The incarnation.
    pub incarnation: Incarnation,
}

impl CreateSeries {
    /// Checks the name of a series.
    ///
    /// # Errors
    /// [`CommandRefusal::BadSeriesName`].
    pub fn check_name(name: &str) -> Result<(), CommandRefusal> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
        let fits = (1..=limits::MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed);
        if fits { Ok(()) } else { Err(CommandRefusal::BadSeriesName { name: name.into() }) }
    }

    /// Returns whether the command would create this series.
    #[must_use]
    pub fn makes(&self, series: &Series) -> bool {
        (&self.name, &self.shape, self.lanes) == (&series.name, &series.shape, series.lanes)
    }

    fn check(&self) -> Result<(), CommandRefusal> {
        CreateSeries::check_name(&self.name)?;
        let bytes = self.shape.len();
        if bytes > limits::MAX_SHAPE_BYTES { Err(CommandRefusal::ShapeTooLong { bytes }) } else { Ok(()) }
    }
}

impl AdoptSeries {
    /// Returns whether the stated list of series is at least as new as the hand-over of the layout to `writer`; true
    /// without a writer. A set adopts a hand-over only together with such a list.
    fn suffices_for(&self, writer: Option<LayoutWriter>) -> bool {
        let stated = changes(self.series.iter().map(|one| one.retired));
        writer.is_none_or(|writer| stated >= writer.changes)
    }
}

impl State {
    /// Returns a series or a keyspace.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns this set's statement to other sets: its list of series, and the newest layout writer that it knows.
    #[must_use]
    pub fn stated_series(&self) -> AdoptSeries {
        AdoptSeries {
            from: self.set.as_ref().map(|set| set.id).unwrap_or_default(),
            lineage: self.lineage,
            series: self.series.iter().map(StatedSeries::from).collect(),
            writer: self.layout_writer(),
        }
    }

    /// Returns the sections that the command `create` would give its series. If an equal series exists already, returns
    /// the sections of that series.
    ///
    /// # Errors
    /// The refusal of the command.
    pub fn foresee_series(&self, create: &CreateSeries) -> Result<SectionRun, CommandRefusal> {
        CreateSeries::check_name(&create.name)?;
        let set = self.set.as_ref().ok_or(CommandRefusal::NoSet)?;
        if let Some(series) = self.series(&create.name) {
            let exists = CommandRefusal::SeriesExists { name: create.name.clone(), retired: series.retired };
            return if create.makes(series) && !series.retired { Ok(series.sections) } else { Err(exists) };
        }
        if !self.writes_series() {
            return Err(self.not_writer());
        }
        if self.is_quarantined() {
            return Err(SetRefusal::InQuarantine { set: set.id }.into());
        }
        // The sections of the lanes would begin in this set, which takes no more sections.
        if self.closing > Closing::Open {
            return Err(SetRefusal::SetClosing { set: set.id }.into());
        }
        self.refuse_after_loss()?;
        create.check()?;
        Ok(set.layout.append(create.lanes)?.1)
    }

    /// Creates a series, and makes the sections of its lanes resident in this set. Returns these sections.
    pub(super) fn create_series(&mut self, create: &CreateSeries) -> Result<SectionRun, CommandRefusal> {
        let foreseen = self.foresee_series(create)?;
        if self.series(&create.name).is_some() {
            return Ok(foreseen);
        }
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        let sections = self.append_series(&StatedSeries { create: create.clone(), home: own, retired: false })?;
        let restores = self.lineage.restores();
        // If no series had a clock, no time was noted in the quarantine. If this series gets the sections of a series
        // that the restore lost, all raises of the lost series were before the present time.
        if restores > 0 && create.lanes.clock.is_some() {
            self.restored_ms.get_or_insert(create.created_ms);
        }
        // A restore of this set, or of a former writer, may have lost a series whose sections had these indexes.
        let by_writers = self.layout_writer().map_or(0, |writer| writer.restores);
        let restored_ms = if by_writers > restores { create.created_ms } else { self.restored_ms.unwrap_or(0) };
        let max_seq = match by_writers.max(restores) {
            0 => create.lanes.start,
            restores => self.raised_by(sections.first, create.lanes.start, (restores, restored_ms)),
        };
        let epoch = Epoch(Lineage::of_restore(by_writers.max(restores), 0).first_number());
        let (routed, began) = (self.route_version, Beginning::FIRST);
        let residence = Residence { since: epoch, epoch, max_seq, routed, began, ..Residence::default() };
        for section in sections.iter() {
            self.advance(section, SectionRecord::Resident(residence));
            self.claim(section, epoch, own);
        }
        let name = create.name.clone();
        self.note_event(match create.lanes.keys {
            Some(_) => EventRecord::KeyspaceCreated { name },
            None => EventRecord::SeriesCreated { name },
        });
        Ok(sections)
    }

    /// Retires a series. Returns whether it was in use.
    pub(super) fn retire_series(&mut self, retire: &RetireSeries) -> Result<bool, CommandRefusal> {
        let RetireSeries { name } = retire;
        if self.series(name).is_none_or(Series::is_keyspace) {
            return Err(CommandRefusal::UnknownSeries { name: name.clone() });
        }
        if !self.writes_series() {
            return Err(self.not_writer());
        }
        let was_in_use = self.set_retired(name);
        if was_in_use {
            self.note_event(EventRecord::SeriesRetired { name: name.clone() });
        }
        Ok(was_in_use)
    }

    /// Adopts the series and the writer that another set states. Returns whether anything was new.
    pub(super) fn adopt_series(&mut self, adopt: &AdoptSeries) -> Result<bool, CommandRefusal> {
        let AdoptSeries { from, lineage, series: stated, writer: _ } = adopt;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        if *from == own {
            return Err(SetRefusal::OwnSet.into());
        }
        self.check_fence(*from, *lineage)?;
        let other = CommandRefusal::OtherSeries { from: *from };
        let mut known = self.series.iter().zip(stated);
        if !self.may_adopt() || !known.all(|(series, one)| one.create.makes(series)) {
            return Err(other);
        }
        let writer = self.newer_writer(adopt.from, adopt.writer);
        if !adopt.suffices_for(writer) {
            return Err(other);
        }
        let mut is_new = writer.is_some();
        for one in stated {
            if self.series(&one.create.name).is_none() {
                let sections = self.append_series(one)?;
                if self.is_quarantined() && one.home == own {
                    self.recall_home(sections, one.create.lanes.start);
                }
                is_new = true;
            } else if one.retired {
                is_new |= self.set_retired(&one.create.name);
            }
        }
        self.writer = writer.or(self.writer);
        Ok(is_new)
    }

    /// Returns whether this set adopts series from other sets. The layout writer does so only in quarantine, because
    /// its restore has lost the series that it created after the backup was made.
    fn may_adopt(&self) -> bool {
        !self.writes_series() || self.is_quarantined()
    }

    /// Returns whether the statement of another set has a series, or the retirement of a series, that this log lacks.
    fn lacks_series(&self, adopt: &AdoptSeries) -> bool {
        let retired =
            |one: &StatedSeries| self.series(&one.create.name).is_some_and(|series| one.retired && !series.retired);
        adopt.series.len() > self.series.len() || adopt.series.iter().any(retired)
    }

    /// Returns whether this set would adopt a series, a retirement or a writer from the statement of another set.
    #[must_use]
    pub fn adopts_series(&self, adopt: &AdoptSeries) -> bool {
        let writer = self.newer_writer(adopt.from, adopt.writer);
        self.may_adopt() && adopt.suffices_for(writer) && (self.lacks_series(adopt) || writer.is_some())
    }

    /// Returns any AllocSvr that owns sections but cannot own sections of series, because its release is too old;
    /// `None` if there is none. While there is such an AllocSvr, no series is created.
    #[must_use]
    pub fn outdated_owner(&self) -> Option<&NodeRecord> {
        let owners = self.sections.residents().filter_map(|(_, residence)| residence.owner);
        owners.filter_map(|owner| self.node(owner)).find(|node| !node.reads_lanes)
    }

    /// Notes that an incarnation can own sections of series. Returns whether this was not known before.
    pub(super) fn note_reads_lanes(&mut self, note: &NoteReadsLanes) -> Result<bool, CommandRefusal> {
        let NoteReadsLanes { node, incarnation } = *note;
        self.living(node, incarnation)?;
        let record = &mut self.nodes[node.0 as usize - 1];
        // The leader's plan of owners depends on `reads_lanes`, and the leader makes a new plan when the version of the
        // route table changes.
        self.route_version.0 += u64::from(!record.reads_lanes);
        Ok(!core::mem::replace(&mut record.reads_lanes, true))
    }

    /// Appends the lanes of a series to the layout, in the next version of the route table.
    fn append_series(&mut self, stated: &StatedSeries) -> Result<SectionRun, CommandRefusal> {
        stated.create.check()?;
        let StatedSeries { create: CreateSeries { name, shape, lanes, created_ms }, home, retired } = stated.clone();
        let set = self.set.as_mut().ok_or(CommandRefusal::NoSet)?;
        let (layout, sections) = set.layout.append(lanes)?;
        set.layout = layout;
        self.sections.grow(set.layout.sections());
        self.route_version = self.route_version.next();
        let routed = self.route_version;
        self.series.push(Series { name, shape, lanes, sections, created_ms, home, retired, routed });
        Ok(sections)
    }

    /// Puts sections of a series into quarantine. They began in this set, but are not in its backup. They become
    /// resident when the quarantine ends, unless another set has them.
    fn recall_home(&mut self, sections: SectionRun, max_seq: Seq) {
        let routed = self.route_version;
        for section in sections.iter() {
            let (since, epoch, came_by) = (Epoch(0), Epoch(0), MigrationId(0));
            self.advance(section, SectionRecord::Resident(Residence { max_seq, routed, ..Residence::default() }));
            let quarantine = Quarantine { since, epoch, max_seq, came_by, routed };
            self.advance(section, SectionRecord::Quarantined(quarantine));
        }
    }

    /// Notes the present time shortly before the quarantine of this restored set ends. No earlier lineage has raised a
    /// ceiling after this time.
    pub(super) fn note_clock(&mut self, note: &NoteClock) -> Result<(), CommandRefusal> {
        if !self.is_quarantined() {
            return Err(SetRefusal::NotQuarantined.into());
        }
        self.restored_ms = Some(self.restored_ms.unwrap_or(0).max(note.unix_ms));
        Ok(())
    }

    /// Returns whether the time of the restore must still be noted before the quarantine can end. It must be noted only
    /// if a series has a clock. When the quarantine ends, this log knows all series whose sections may arrive, because
    /// the responses to the fence contained them.
    #[must_use]
    pub fn awaits_clock(&self) -> bool {
        self.is_quarantined() && self.restored_ms.is_none() && self.follows_clock()
    }

    /// Returns whether this set knows a series with a clock, so that a restore of the set relies on the clock of its
    /// store.
    #[must_use]
    pub fn follows_clock(&self) -> bool {
        let follows_clock = |set: &SetDefinition| set.layout.lanes().any(|(lanes, _)| lanes.clock.is_some());
        self.set.as_ref().is_some_and(follows_clock)
    }

    /// Marks a series as retired. Returns whether it was in use.
    fn set_retired(&mut self, name: &str) -> bool {
        let version = self.route_version.next();
        let Some(series) = self.series.iter_mut().find(|series| series.name == name && !series.retired) else {
            return false;
        };
        (series.retired, series.routed) = (true, version);
        self.route_version = version;
        true
    }
}

/// The order of the fields is the format. After the numbers, there is 0 for lanes without a clock, 1 and the clock, or
/// 2 and the seed of a keyspace.
impl Fields for Lanes {
    fn put(&self, body: &mut Vec<u8>) {
        let Lanes { count, per_section, start, margin, clock, keys } = *self;
        (count, per_section).put(body);
        (start, margin).put(body);
        match keys {
            None => clock.put(body),
            Some(keys) => {
                if keys.has_uids() { KEYS_OF_UIDS } else { KEYS }.put(body);
                keys.seed().expect("a store knows the seeds").put(body);
            }
        }
    }

    fn take(body: &mut &[u8]) -> Option<Lanes> {
        let ((count, per_section), (start, margin)) = (Fields::take(body)?, <(Seq, u64)>::take(body)?);
        let lanes = Lanes { count, per_section, start, margin, clock: None, keys: None };
        let of_uids = match body.first() {
            Some(&KEYS) => false,
            Some(&KEYS_OF_UIDS) => true,
            _ => return Some(Lanes { clock: Fields::take(body)?, ..lanes }),
        };
        let _: u8 = Fields::take(body)?;
        let seed = Fields::take(body)?;
        Some(Lanes { keys: Some(Hashing::new(seed).with_uids(of_uids)), ..lanes })
    }
}

/// Byte in the encoding of buckets in the place of the byte that states whether lanes have a clock.
const KEYS: u8 = 2;

/// The same byte of the buckets of a keyspace whose keys are uids.
const KEYS_OF_UIDS: u8 = 3;

/// The order of the fields is the format.
impl Fields for TickClock {
    fn put(&self, body: &mut Vec<u8>) {
        let TickClock { epoch_ms, unit_ms, seq_bits, lead_ms } = *self;
        (epoch_ms, unit_ms).put(body);
        (seq_bits, lead_ms).put(body);
    }

    fn take(body: &mut &[u8]) -> Option<TickClock> {
        let ((epoch_ms, unit_ms), (seq_bits, lead_ms)) = (Fields::take(body)?, Fields::take(body)?);
        Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms })
    }
}

/// The order of the fields is the format.
impl Fields for CreateSeries {
    fn put(&self, body: &mut Vec<u8>) {
        let CreateSeries { name, shape, lanes, created_ms } = self;
        name.put(body);
        shape.put(body);
        lanes.put(body);
        created_ms.put(body);
    }

    fn take(body: &mut &[u8]) -> Option<CreateSeries> {
        let (name, shape) = (Fields::take(body)?, Fields::take(body)?);
        Some(CreateSeries { name, shape, lanes: Fields::take(body)?, created_ms: Fields::take(body)? })
    }
}

/// The order of the fields is the format.
impl Fields for StatedSeries {
    fn put(&self, body: &mut Vec<u8>) {
        let StatedSeries { create, home, retired } = self;
        create.put(body);
        home.put(body);
        retired.put(body);
    }

    fn take(body: &mut &[u8]) -> Option<StatedSeries> {
        let (create, home) = (Fields::take(body)?, Fields::take(body)?);
        Some(StatedSeries { create, home, retired: Fields::take(body)? })
    }
}

#[cfg(test)]
mod tests;
