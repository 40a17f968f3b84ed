//! The activity of sections, which their owners measure. It is printed as a list of the busiest sections, or in detail
//! for one section.

use std::collections::HashMap;
use std::time::Duration;

use clap::ValueEnum;
use futures::future::join_all;
use seq_channel::Pool;
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::{Output, Table, digits, grouped, is_zero, note};
use seq_command::selection::contents_text;
use seq_command::store_client::StoreClient;
use seq_command::{security, utc};
use seq_observe::Cluster;
use seq_observe::activity::{self, By, FiguresView, rate_text};
use seq_proto::v1::{CeilingRaise, DescribeSectionResponse, NodeState, SectionFigures, SectionInfo};
use serde::Serialize;

use super::SectionView;

/// Timeout of a request to an AllocSvr. An AllocSvr usually needs only a fraction of this time to respond.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of the busiest sections that are requested from each AllocSvr, if the list excludes some sections of the set.
const MAX_TOP: u32 = 10_000;

/// Maximum number of raises in plain output. JSON has all raises that the owner reports.
const PRINTED_RAISES: usize = 10;

/// Order of the busiest sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopArg {
    /// Numbers allocated in a second.
    Numbers,
    /// Raises of the ceiling in a second, each of which is a write of the section at the store.
    Writes,
}

impl From<TopArg> for By {
    fn from(arg: TopArg) -> By {
        match arg {
            TopArg::Numbers => By::Numbers,
            TopArg::Writes => By::Writes,
        }
    }
}

/// A section with its activity of the last seconds, as JSON.
#[derive(Serialize)]
pub(super) struct Busy {
    #[serde(flatten)]
    section: SectionView,
    #[serde(flatten)]
    figures: FiguresView,
}

/// Requests the busiest sections from all AllocSvrs of a set. Returns the `count` busiest of the sections in `records`,
/// the busiest first. Prints an error on stderr for each AllocSvr that does not respond.
///
/// # Errors
/// None of the set's AllocSvrs responds.
pub(super) async fn top(
    store: &mut StoreClient,
    records: &[SectionInfo],
    by: TopArg,
    (count, is_filtered): (u32, bool),
) -> anyhow::Result<Vec<Busy>> {
    let top = if is_filtered { MAX_TOP } else { count };
    let (pool, by) = (security::pool(), By::from(by));
    let nodes = store.nodes().await?.nodes;
    let owners: Vec<&NodeState> = nodes.iter().filter(|node| node.sections > 0).collect();
    let responses = join_all(owners.iter().map(|node| activity::request(&pool, &node.addr, by, top, TIMEOUT))).await;
    let mut found = Vec::new();
    let mut failed = Vec::new();
    for (node, response) in owners.iter().zip(responses) {
        match response {
            Ok(figures) => found.extend(figures),
            Err(error) => failed.push(format!("{}: {error}", node.name)),
        }
    }
    if !failed.is_empty() && failed.len() == owners.len() {
        return Err(Failure::new(Exit::CannotConnect, failed.join("; ")).into());
    }
    for error in failed {
        report_error(&format_args!("{error}; its sections are left out"));
    }
    Ok(busiest(records, found, by, count as usize))
}

/// Joins figures with the records of their sections.
fn busiest(records: &[SectionInfo], found: Vec<SectionFigures>, by: By, count: usize) -> Vec<Busy> {
    let first_section = |record: &SectionInfo| record.range.unwrap_or_default().first_section;
    let records: HashMap<u32, &SectionInfo> = records.iter().map(|record| (first_section(record), record)).collect();
    let merged = activity::merge(found.into_iter().map(|figures| (figures, ())), by);
    let listed = merged.iter().filter_map(|(figures, ())| Some((figures, *records.get(&figures.section)?)));
    let busy = |(figures, record)| Busy { section: SectionView::new(record), figures: FiguresView::new(figures) };
    listed.take(count).map(busy).collect()
}

pub(super) fn print(busy: &[Busy], output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        output.json_items(busy)?;
    } else if busy.is_empty() {
        output.line("all sections are at rest")?;
    } else {
        let heading = ["section", "uids", "owner", "numbers/s", "writes/s", "raised", "measured", "ceiling"];
        let mut table = Table::new(&heading).right(&[3, 4, 5, 6, 7]);
        for Busy { section, figures } in busy {
            table.row([
                grouped(section.first_section.into()),
                contents_text(&(section.uid_start..section.uid_end)),
                if section.owner.is_empty() { "-".to_owned() } else { section.owner.clone() },
                rate_text(figures.numbers_per_second),
                rate_text(figures.writes_per_second),
                grouped(figures.raised),
                format!("{:.1} s", f64::from(figures.measured_ms) / 1_000.0),
                grouped(section.ceiling),
            ]);
        }
        output.table(&table)?;
    }
    Ok(())
}

/// State of a section at its owner, as JSON.
#[derive(Serialize)]
pub(crate) struct Described {
    owned_since_ms: u64,
    #[serde(serialize_with = "digits")]
    base: u64,
    #[serde(serialize_with = "digits")]
    owner_ceiling: u64,
    #[serde(serialize_with = "digits")]
    highest: u64,
    #[serde(serialize_with = "digits")]
    remaining: u64,
    #[serde(serialize_with = "digits")]
    raise_due_at: u64,
    uids: u32,
    touched: u32,
    #[serde(serialize_with = "digits", rename = "numbers_since")]
    numbers: u64,
    is_counted: bool,
    #[serde(rename = "last")]
    figures: FiguresView,
    #[serde(serialize_with = "digits")]
    skipped_by_advances: u64,
    /// Maximum count of numbers that any uid of the section skipped when its owner took it over.
    #[serde(serialize_with = "digits")]
    skipped_at_begin: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    skip_cause: &'static str,
    period_ms: u32,
    raises: Vec<RaiseView>,
}

/// A raise of a ceiling, as JSON.
#[derive(Serialize)]
struct RaiseView {
    requested_ms: u64,
    took_us: u32,
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    from: u64,
    #[serde(serialize_with = "digits")]
    to: u64,
}

impl Described {
    /// Converts the state of a section at its owner. `record` is the record of the section in the store, if it is
    /// known. Only the record states why numbers were skipped.
    fn new(record: Option<&SectionInfo>, response: DescribeSectionResponse) -> Described {
        let skip_cause = seq_observe::section::skip_word(record, &response);
        let raise = |raise: CeilingRaise| {
            let CeilingRaise { requested_ms, took_us, from, to } = raise;
            RaiseView { requested_ms, took_us, from, to }
        };
        Described {
            owned_since_ms: response.owned_since_ms,
            base: response.base,
            owner_ceiling: response.ceiling,
            highest: response.highest,
            remaining: response.remaining,
            raise_due_at: response.raise_due_at,
            uids: response.uids,
            touched: response.touched,
            numbers: response.numbers,
            is_counted: !response.in_ticks,
            figures: FiguresView::new(&response.figures.unwrap_or_default()),
            skipped_by_advances: response.skipped_by_advances,
            skipped_at_begin: response.skipped_at_begin,
            skip_cause,
            period_ms: response.period_ms,
            raises: response.raises.into_iter().map(raise).collect(),
        }
    }

    /// Requests the state of a section from the AllocSvr at `addr`. If numbers were skipped, also requests the record
    /// of the section from the stores of the cluster.
    ///
    /// # Errors
    /// The AllocSvr does not respond, or does not own the section. The text describes the cause.
    pub(crate) async fn request(pool: &Pool, cluster: &Cluster, addr: &str, section: u32) -> Result<Described, String> {
        let response = seq_observe::section::describe(pool, addr, section, TIMEOUT).await?;
        let record = match response.skipped_at_begin {
            0 => None,
            _ => seq_observe::section::record(pool, cluster, section, TIMEOUT).await.ok(),
        };
        Ok(Described::new(record.as_ref().map(|record| &record.info), response))
    }

    /// Returns the lines about the activity, which plain output prints after the record of the section.
    pub(crate) fn lines(&self) -> Vec<String> {
        let figures = &self.figures;
        let numbers = if self.is_counted {
            let (rate, since) = (rate_text(figures.numbers_per_second), utc::text_of_ms(self.owned_since_ms));
            format!("numbers: {rate} a second; {} since {since}, when this ownership began", grouped(self.numbers))
        } else {
            "numbers: not counted, because they follow a clock".to_owned()
        };
        let mut lines = vec![
            numbers,
            format!(
                "writes: {} a second; the ceiling moved {} in {:.1} s",
                rate_text(figures.writes_per_second),
                grouped(figures.raised),
                f64::from(figures.measured_ms) / 1_000.0
            ),
            format!(
                "remaining: {} between the highest number {} and the ceiling {}; a raise is due at {}",
                grouped(self.remaining),
                grouped(self.highest),
                grouped(self.owner_ceiling),
                grouped(self.raise_due_at)
            ),
            format!("uids: {} of {} took a number", grouped(self.touched.into()), grouped(self.uids.into())),
        ];
        if self.skipped_at_begin > 0 {
            let most = grouped(self.skipped_at_begin);
            lines.push(format!("skipped at the begin ({}): at most {most} by the highest uid", self.skip_cause));
        }
        if self.skipped_by_advances > 0 {
            lines.push(format!("skipped by advances: {}", grouped(self.skipped_by_advances)));
        }
        lines
    }

    fn raises(&self) -> Table {
        let mut table = Table::new(&["raise requested", "took", "from", "to"]).right(&[1, 2, 3]);
        for raise in self.raises.iter().rev().take(PRINTED_RAISES) {
            table.row([
                utc::text_with_ms(raise.requested_ms),
                format!("{:.1} ms", f64::from(raise.took_us) / 1_000.0),
                grouped(raise.from),
                grouped(raise.to),
            ]);
        }
        table
    }

    pub(super) fn print(&self, output: &Output) -> anyhow::Result<()> {
        for line in self.lines() {
            output.line(line)?;
        }
        if !self.raises.is_empty() {
            output.table(&self.raises())?;
        }
        Ok(())
    }
}

/// Requests the state of a section from its owner. If the owner does not respond, prints a note on stderr and returns
/// `None`. Also returns `None` if the section has no owner.
pub(super) async fn describe(store: &mut StoreClient, record: &SectionInfo) -> Option<Described> {
    if record.owner.is_empty() {
        return None;
    }
    let owner = &record.owner;
    let described = async {
        let nodes = store.nodes().await.map_err(|error| format!("{error:#}"))?.nodes;
        let node = nodes.into_iter().find(|node| node.name == *owner).ok_or("the store does not list it")?;
        let section = record.range.unwrap_or_default().first_section;
        let response = seq_observe::section::describe(&security::pool(), &node.addr, section, TIMEOUT).await?;
        Ok::<_, String>(Described::new(Some(record), response))
    };
    match described.await {
        Ok(described) => Some(described),
        Err(error) => {
            note(format_args!("{owner}: {error}; the section is shown without its activity"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use seq_proto::v1::{SectionRange, SkipCause};

    use super::*;

    fn record(section: u32) -> SectionInfo {
        let range = Some(SectionRange { first_section: section, sections: 1 });
        SectionInfo { range, ..SectionInfo::default() }
    }

    #[test]
    fn the_busiest_of_the_selected_sections_come_first() {
        let figures = |section, numbers, writes, ms| SectionFigures { section, numbers, writes, raised: 0, ms };
        // Section 2 is not selected, and 3 has just changed its owner.
        let found = vec![
            figures(0, 5_000, 9, 5_000),
            figures(1, 5_000, 1, 1_000),
            figures(2, 90_000, 0, 1_000),
            figures(3, 10, 0, 5_000),
            figures(3, 20_000, 2, 5_000),
            figures(4, 3, 0, 0),
        ];
        let records = [0, 1, 3, 4].map(record);
        let order = |by, count| -> Vec<(u32, f64, f64)> {
            let busy = busiest(&records, found.clone(), by, count);
            let of = |busy: &Busy| {
                let FiguresView { numbers_per_second, writes_per_second, .. } = busy.figures;
                (busy.section.first_section, numbers_per_second, writes_per_second)
            };
            busy.iter().map(of).collect()
        };
        assert_eq!(order(By::Numbers, 3), [(1, 5_000.0, 1.0), (3, 4_000.0, 0.4), (0, 1_000.0, 1.8)]);
        assert_eq!(order(By::Writes, 1), [(0, 1_000.0, 1.8)]);
    }

    #[test]
    fn a_section_is_described_in_lines() {
        let record = SectionInfo { epoch: 7, began_by: "restored_owners".to_owned(), ..SectionInfo::default() };
        let response = DescribeSectionResponse {
            epoch: 7,
            owned_since_ms: 1_795_804_800_000,
            base: 9_020_000,
            ceiling: 9_410_000,
            highest: 9_403_880,
            remaining: 6_120,
            raise_due_at: 5_000,
            uids: 100_000,
            touched: 61_204,
            numbers: 5_112_003,
            figures: Some(SectionFigures { section: 7, numbers: 7_100, writes: 1, raised: 10_000, ms: 5_000 }),
            skipped_by_advances: 40,
            skipped_at_begin: 15_000,
            skip_cause: SkipCause::Takeover.into(),
            raises: vec![CeilingRaise {
                requested_ms: 1_795_804_801_234,
                took_us: 1_900,
                from: 9_400_000,
                to: 9_410_000,
            }],
            ..DescribeSectionResponse::default()
        };
        let described = Described::new(Some(&record), response);
        let text = [described.lines().join("\n"), described.raises().render()].join("\n");
        expect![[r#"
            numbers: 1,420 a second; 5,112,003 since 2026-11-27T18:40:00Z, when this ownership began
            writes: 0.2 a second; the ceiling moved 10,000 in 5.0 s
            remaining: 6,120 between the highest number 9,403,880 and the ceiling 9,410,000; a raise is due at 5,000
            uids: 61,204 of 100,000 took a number
            skipped at the begin (restore): at most 15,000 by the highest uid
            skipped by advances: 40
            raise requested             took       from         to
            2026-11-27T18:40:01.234Z  1.9 ms  9,400,000  9,410,000
        "#]]
        .assert_eq(&text);
        let ticks = DescribeSectionResponse { in_ticks: true, ..DescribeSectionResponse::default() };
        let ticks = Described::new(None, ticks);
        assert_eq!(ticks.lines()[0], "numbers: not counted, because they follow a clock");
    }
}
