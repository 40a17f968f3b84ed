//! The sections with the most section writes, whose ceilings rose most between two listings.

use std::collections::HashMap;
use std::time::Duration;

use seq_command::output::{Output, Table, digits, grouped};
use seq_command::selection::contents_text;
use seq_proto::v1::SectionInfo;
use serde::Serialize;

use super::SectionView;

/// A section whose ceiling rose.
#[derive(Serialize)]
pub(super) struct Risen {
    #[serde(flatten)]
    section: SectionView,
    /// Amount by which the ceiling rose while it was observed.
    #[serde(serialize_with = "digits")]
    raised: u64,
    raised_per_second: f64,
}

/// Returns the `count` sections whose ceilings rose most, in descending order, without sections at rest. `after` was
/// listed `elapsed` later than `before`.
pub(super) fn top(before: &[SectionInfo], after: Vec<SectionInfo>, count: usize, elapsed: Duration) -> Vec<Risen> {
    let first_section = |record: &SectionInfo| record.range.unwrap_or_default().first_section;
    let ceilings: HashMap<u32, u64> = before.iter().map(|record| (first_section(record), record.ceiling)).collect();
    let risen = |record: SectionInfo| {
        // A section that arrived between the listings brought its ceiling along, so it has no rise.
        let raised = record.ceiling.saturating_sub(*ceilings.get(&first_section(&record))?);
        let raised_per_second = (raised as f64 / elapsed.as_secs_f64()).round();
        (raised > 0).then(|| Risen { section: SectionView::new(&record), raised, raised_per_second })
    };
    let mut all: Vec<Risen> = after.into_iter().filter_map(risen).collect();
    all.sort_by_key(|risen| (std::cmp::Reverse(risen.raised), risen.section.first_section));
    all.truncate(count);
    all
}

pub(super) fn print(risen: &[Risen], output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.json_items(risen)?;
    } else if risen.is_empty() {
        output.line("no ceiling rose")?;
    } else {
        let mut table = Table::new(&["section", "uids", "owner", "ceiling", "raised", "raised/s"]).right(&[3, 4, 5]);
        for Risen { section, raised, raised_per_second } in risen {
            table.row([
                grouped(section.first_section.into()),
                contents_text(&(section.uid_start..section.uid_end)),
                if section.owner.is_empty() { "-".to_owned() } else { section.owner.clone() },
                grouped(section.ceiling),
                grouped(*raised),
                grouped(*raised_per_second as u64),
            ]);
        }
        output.table(&table)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::SectionRange;

    use super::*;

    fn record(section: u32, ceiling: u64) -> SectionInfo {
        let range = Some(SectionRange { first_section: section, sections: 1 });
        SectionInfo { range, ceiling, ..SectionInfo::default() }
    }

    #[test]
    fn the_sections_that_rose_most_come_first() {
        let before = [record(0, 10_000), record(1, 20_000), record(2, 5_000), record(4, 7)];
        // Section 2 is at rest, 3 arrived, and 4 is with another set, which has its own ceiling.
        let after = vec![record(0, 30_000), record(1, 90_000), record(2, 5_000), record(3, 900_000), record(4, 0)];
        let found = |count| -> Vec<(u32, u64, f64)> {
            let top = top(&before, after.clone(), count, Duration::from_secs(10));
            top.iter().map(|risen| (risen.section.first_section, risen.raised, risen.raised_per_second)).collect()
        };
        assert_eq!(found(5), [(1, 70_000, 7_000.0), (0, 20_000, 2_000.0)]);
        assert_eq!(found(1), [(1, 70_000, 7_000.0)]);
    }
}
