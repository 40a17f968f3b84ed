//! Converts ranges of uids or section indexes from a command line to runs of sections. A run is a range of neighbouring
//! sections.
//!
//! **Invariant:** the runs contain exactly the uids and sections that the user named. A range of uids must begin and
//! end at the bounds of sections. Otherwise it is refused, with an error that names the nearest bounds.

use std::fmt::Display;
use std::ops::Range;

use clap::Args;
use seq_proto::v1::{SectionInfo, SectionRange, SectionState, SetInfo};

use crate::exit::{Exit, Failure};
use crate::output::grouped;

/// Ranges of uids or of sections.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Uids, as in 3_000_000..4_000_000, the end exclusive; they begin and end with a section. Repeat the flag for more
    /// ranges.
    #[arg(long, value_name = "A..B", value_parser = range, value_delimiter = ',')]
    pub uids: Vec<Range<u64>>,
    /// Sections by index, as in 30..40, the end exclusive. Repeat the flag for more ranges.
    #[arg(long, value_name = "A..B", value_parser = range, value_delimiter = ',')]
    pub sections: Vec<Range<u64>>,
}

/// Parses a range such as "0..1_000_000", whose end is exclusive.
pub fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "it must be a range such as 0..1_000_000".to_owned();
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let range = uid(start).map_err(|_| wrong())?..uid(end).map_err(|_| wrong())?;
    if range.start >= range.end {
        return Err(if range.start == range.end { "it is empty" } else { "it is reversed" }.to_owned());
    }
    Ok(range)
}

/// Parses a uid such as "1_000_000".
pub fn uid(text: &str) -> Result<u64, String> {
    text.trim().replace('_', "").parse().map_err(|_| "it must be a whole number".to_owned())
}

/// The sections of a set's layout.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    start: u64,
    end: u64,
    size: u64,
    /// Number of sections that contain lanes of series. Their indexes are above the indexes of all sections with uids.
    with_lanes: u64,
}

impl Sections {
    /// Returns the sections of a set's layout, as the set's store reports them in `set`.
    pub fn of(set: &SetInfo) -> anyhow::Result<Sections> {
        let SetInfo { uid_start: start, uid_end: end, section_size, lane_sections, .. } = *set;
        let size = u64::from(section_size);
        let is_layout = start < end && size > 0 && u32::try_from((end - start).div_ceil(size)).is_ok();
        let with_lanes = u64::from(lane_sections);
        is_layout.then_some(Sections { start, end, size, with_lanes }).ok_or_else(|| {
            Failure::new(Exit::Failed, format!("set {} has uids {start}..{end} in sections of {size}", set.name)).into()
        })
    }

    /// Returns the number of sections of uids.
    pub fn count(&self) -> u64 {
        (self.end - self.start).div_ceil(self.size)
    }

    /// Returns the section of a uid.
    pub fn of_uid(&self, uid: u64) -> anyhow::Result<u32> {
        if !(self.start..self.end).contains(&uid) {
            let message = format!("uid {uid} is outside of the uids {}..{}", self.start, self.end);
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Ok(index((uid - self.start) / self.size))
    }

    /// Returns the number of all sections.
    pub fn all(&self) -> u64 {
        self.count() + self.with_lanes
    }

    /// Returns the uids in a run of sections. The range is empty if the sections contain lanes of series instead.
    pub fn uids(&self, run: &SectionRange) -> Range<u64> {
        let at = |section: u64| (self.start + section * self.size).min(self.end);
        let first = u64::from(run.first_section);
        at(first)..at(first + u64::from(run.sections))
    }

    /// Returns how many of the sections in a run contain lanes of series.
    pub fn with_lanes(&self, run: &SectionRange) -> u32 {
        let end = u64::from(run.first_section) + u64::from(run.sections);
        index(end.saturating_sub(self.count())).min(run.sections)
    }

    /// Returns the index of the section whose first uid is `uid`. If `uid` is the end of the set's uids, returns the
    /// index after the last section with uids.
    fn boundary(&self, uid: u64) -> anyhow::Result<u64> {
        if !(self.start..=self.end).contains(&uid) {
            let message = format!("uid {uid} is outside of the uids {}..{}", self.start, self.end);
            return Err(Failure::new(Exit::Usage, message).into());
        }
        if uid == self.end {
            return Ok(self.count());
        }
        let section = (uid - self.start) / self.size;
        let below = self.start + section * self.size;
        if below == uid {
            return Ok(section);
        }
        let above = (below + self.size).min(self.end);
        let message =
            format!("uid {uid} is inside section {section}, {below}..{above}, but a section is never divided");
        Err(Failure::new(Exit::Usage, message).hint(format!("the nearest uids are {below} and {above}")).into())
    }

    /// Returns the runs of a selection, in order.
    pub fn runs(&self, selection: &Selection) -> anyhow::Result<Vec<SectionRange>> {
        let mut ranges = Vec::new();
        for uids in &selection.uids {
            ranges.push(self.boundary(uids.start)?..self.boundary(uids.end)?);
        }
        for sections in &selection.sections {
            if sections.end > self.all() {
                let message = format!("sections {}..{} are outside 0..{}", sections.start, sections.end, self.all());
                return Err(Failure::new(Exit::Usage, message).into());
            }
            ranges.push(sections.clone());
        }
        ranges.sort_by_key(|range| range.start);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match runs.last_mut() {
                Some(last) if last.end > range.start => {
                    let both = range.start..range.end.min(last.end);
                    let message = format!("sections {}..{} are named twice", both.start, both.end);
                    return Err(Failure::new(Exit::Usage, message).into());
                }
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            }
        }
        Ok(runs.into_iter().map(|run| run_of(&run)).collect())
    }

    /// Returns the longest run of sections that begins with the section whose first uid is `uid`, and in which all
    /// sections are resident in `set` according to `records`.
    pub fn run_from(&self, uid: u64, set: &str, records: &[SectionInfo]) -> anyhow::Result<Vec<SectionRange>> {
        self.of_uid(uid)?;
        let first = self.boundary(uid)?;
        let mut end = first;
        for record in records {
            let Some(range) = record.range.filter(|_| record.state() == SectionState::Resident) else { continue };
            let start = u64::from(range.first_section);
            if start <= end && end < start + u64::from(range.sections) {
                end = start + u64::from(range.sections);
            }
        }
        if end == first {
            let message = format!("section {first} with uid {uid} is not in set {set}");
            return Err(Failure::new(Exit::Usage, message)
                .hint("`seqsvr section list --summarize` shows where the sections are")
                .into());
        }
        Ok(vec![run_of(&(first..end))])
    }
}

fn index(section: u64) -> u32 {
    u32::try_from(section).expect("a layout has as many sections as an index can count")
}

fn run_of(range: &Range<u64>) -> SectionRange {
    SectionRange { first_section: index(range.start), sections: index(range.end - range.start) }
}

/// Returns a range with thousands separators, as in 3,000,000..4,000,000.
pub fn range_text(range: &Range<u64>) -> impl Display + use<> {
    format!("{}..{}", grouped(range.start), grouped(range.end))
}

/// Returns a text with the contents of a run of sections whose uids are `uids`. It is a range such as
/// 3,000,000..4,000,000, or `lanes of series` if `uids` is empty.
pub fn contents_text(uids: &Range<u64>) -> String {
    if uids.is_empty() { "lanes of series".to_owned() } else { range_text(uids).to_string() }
}

/// Returns a text with a number of sections, such as `1 section` or `1,000 sections`.
pub fn sections_text(count: u32) -> String {
    format!("{} section{}", grouped(count.into()), if count == 1 { "" } else { "s" })
}

/// Returns the indexes of a run as a range such as 30..40.
pub fn run_text(run: &SectionRange) -> String {
    let first = u64::from(run.first_section);
    range_text(&(first..first + u64::from(run.sections))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Sections {
        Sections { start: 100, end: 1_050, size: 100, with_lanes: 6 }
    }

    fn runs(uids: &[&str], sections: &[&str]) -> Result<Vec<String>, String> {
        let read = |texts: &[&str]| texts.iter().map(|text| range(text)).collect::<Result<Vec<_>, _>>();
        let selection = Selection { uids: read(uids)?, sections: read(sections)? };
        let runs = self::sections().runs(&selection).map_err(|error| error.to_string())?;
        Ok(runs.iter().map(run_text).collect())
    }

    #[test]
    fn uids_and_sections_are_runs_in_order() {
        assert_eq!(
            runs(&["200..400", "1000..1050"], &["5..6", "3..4"]),
            Ok(vec!["1..4".into(), "5..6".into(), "9..10".into()])
        );
        assert_eq!(sections().uids(&SectionRange { first_section: 8, sections: 2 }), 900..1_050);
        assert_eq!((sections().count(), sections().of_uid(1_049).unwrap()), (10, 9));
        let across = SectionRange { first_section: 8, sections: 4 };
        assert_eq!((sections().uids(&across), sections().with_lanes(&across)), (900..1_050, 2));
        let of_lanes = SectionRange { first_section: 12, sections: 3 };
        assert_eq!((sections().uids(&of_lanes).is_empty(), sections().with_lanes(&of_lanes)), (true, 3));
    }

    #[test]
    fn ranges_that_cannot_be_are_named() {
        let refused = |uids: &[&str], sections: &[&str]| runs(uids, sections).unwrap_err();
        assert_eq!(refused(&["400..200"], &[]), "it is reversed");
        assert_eq!(refused(&["4..4"], &[]), "it is empty");
        assert_eq!(refused(&["4-5"], &[]), "it must be a range such as 0..1_000_000");
        assert_eq!(
            refused(&["200..450"], &[]),
            "uid 450 is inside section 3, 400..500, but a section is never divided"
        );
        assert_eq!(refused(&["0..200"], &[]), "uid 0 is outside of the uids 100..1050");
        assert_eq!(refused(&[], &["15..17"]), "sections 15..17 are outside 0..16");
        assert_eq!(refused(&["200..500"], &["3..7"]), "sections 3..4 are named twice");
    }

    #[test]
    fn a_split_reaches_to_the_end_of_the_resident_run() {
        let record = |first_section, sections, state: SectionState| SectionInfo {
            range: Some(SectionRange { first_section, sections }),
            state: state.into(),
            ..SectionInfo::default()
        };
        let records = [
            record(0, 3, SectionState::Resident),
            record(3, 1, SectionState::Arrived),
            record(4, 2, SectionState::Resident),
            record(6, 3, SectionState::Resident),
        ];
        let run = |uid| {
            let runs = sections().run_from(uid, "im-a", &records).map_err(|error| error.to_string())?;
            Ok::<_, String>(runs.iter().map(run_text).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(run(200), Ok("1..3".to_owned()));
        assert_eq!(run(500), Ok("4..9".to_owned()), "neighbouring runs are one");
        assert_eq!(run(400), Err("section 3 with uid 400 is not in set im-a".to_owned()));
        assert_eq!(run(1_000), Err("section 9 with uid 1000 is not in set im-a".to_owned()));
        assert_eq!(run(1_050), Err("uid 1050 is outside of the uids 100..1050".to_owned()));
    }
}
