//! The columns of one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::limits::MAX_SECTIONS;
use seq_proto::v1::ListActivityResponse;

/// Time that the map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Span {
    /// Five minutes in columns of 5 s.
    Minutes,
    /// An hour in columns of 30 s.
    Hour,
    /// A day in columns of 15 min.
    Day,
}

/// Columns that a clock may be ahead or behind; a column beyond it is not of the span.
const CLOCK_COLUMNS: u64 = 4;

impl Span {
    /// Returns the length of a column in milliseconds.
    pub(super) fn column_ms(self) -> u32 {
        match self {
            Span::Minutes => 5_000,
            Span::Hour => 30_000,
            Span::Day => 900_000,
        }
    }

    /// Returns the number of columns.
    pub(super) fn columns(self) -> u64 {
        match self {
            Span::Minutes => 60,
            Span::Hour => 120,
            Span::Day => 96,
        }
    }

    /// Returns the time after which nodes are requested again.
    pub(super) fn refresh(self) -> Duration {
        Duration::from_millis(u64::from(self.column_ms()) / 2).min(Duration::from_secs(30))
    }

    /// Returns how far back columns are requested, in milliseconds, so that a node responds with columns of this
    /// length: it has the shortest that reach back so far. If columns of the node are known, requests only the columns
    /// since the newest of them, whose begin is `known_ms`.
    pub(super) fn back_ms(self, now_ms: u64, known_ms: Option<u64>) -> u64 {
        let column = u64::from(self.column_ms());
        let shortest = match self {
            Span::Minutes => 6 * column,
            Span::Hour => Span::Minutes.whole_ms() + 2 * column,
            Span::Day => Span::Hour.whole_ms() + 2 * column,
        };
        let whole = self.whole_ms() - column / 2;
        known_ms.map_or(whole, |known| now_ms.saturating_sub(known).clamp(shortest, whole))
    }

    fn whole_ms(self) -> u64 {
        u64::from(self.column_ms()) * self.columns()
    }
}

/// Levels of sections in one period.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    /// For each page of a response, its sections, which all columns of the page share, and their levels in the same
    /// order.
    pub(super) parts: Vec<(Arc<[u32]>, Vec<u8>)>,
}

impl Column {
    /// Returns the sections with their levels.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&u32, &u8)> {
        self.parts.iter().flat_map(|(sections, levels)| sections.iter().zip(levels))
    }
}

/// The columns of a node, by the number of the period since 1970.
///
/// **Invariant:** at most the columns of the span, and [`CLOCK_COLUMNS`] at each end until the record is added to
/// another record. A column has at most [`MAX_SECTIONS`] sections.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) columns: BTreeMap<u64, Column>,
}

impl Record {
    /// Adds a page of a response, whose sections must be in ascending order from `first_section` on. Leaves out columns
    /// outside of the span. Returns `false`, and adds nothing, if the page is not of this form.
    #[must_use]
    pub(super) fn read(&mut self, page: ListActivityResponse, span: Span, now_ms: u64, first_section: u32) -> bool {
        let end = if page.next_section > 0 { page.next_section.min(MAX_SECTIONS) } else { MAX_SECTIONS };
        let in_order = page.sections.windows(2).all(|pair| pair[0] < pair[1]);
        let in_range = |section: &u32| (first_section..end).contains(section);
        let has_lengths = page.columns.iter().all(|column| column.levels.len() == page.sections.len());
        if !in_order || !page.sections.iter().all(in_range) || !has_lengths {
            return false;
        }
        let column_ms = u64::from(span.column_ms());
        let now = now_ms / column_ms;
        let expected = now.saturating_sub(span.columns() + CLOCK_COLUMNS)..now + CLOCK_COLUMNS;
        let sections: Arc<[u32]> = page.sections.into();
        for column in page.columns {
            let period = column.since_ms / column_ms;
            if expected.contains(&period) {
                self.columns.entry(period).or_default().parts.push((Arc::clone(&sections), column.levels));
            }
        }
        true
    }

    /// Returns whether the newest column is before the span.
    pub(super) fn is_past(&self, span: Span, now_ms: u64) -> bool {
        self.newest_ms(span).is_none_or(|newest| newest + span.whole_ms() < now_ms)
    }

    /// Returns the begin of the newest column, in milliseconds since 1970.
    pub(super) fn newest_ms(&self, span: Span) -> Option<u64> {
        self.columns.last_key_value().map(|(period, _)| period * u64::from(span.column_ms()))
    }

    /// Adopts newer columns, which replace columns of the same periods, and drops columns before the span.
    pub(super) fn add(&mut self, newer: Record, span: Span) {
        self.columns.extend(newer.columns);
        let Some((last, _)) = self.columns.last_key_value() else { return };
        let first = last.saturating_sub(span.columns() - 1);
        self.columns = self.columns.split_off(&first);
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::ActivityColumn;

    use super::*;

    fn page(sections: &[u32], columns: &[(u64, &[u8])]) -> ListActivityResponse {
        let column =
            |(since_ms, levels): &(u64, &[u8])| ActivityColumn { since_ms: *since_ms, levels: levels.to_vec() };
        ListActivityResponse {
            sections: sections.to_vec(),
            columns: columns.iter().map(column).collect(),
            ..ListActivityResponse::default()
        }
    }

    #[test]
    fn pages_of_a_response_are_joined_and_strange_pages_are_refused() {
        let now = 1_000_000;
        let mut record = Record::default();
        let first =
            ListActivityResponse { next_section: 9, ..page(&[1, 2], &[(990_000, &[5, 6]), (995_000, &[7, 8])]) };
        assert!(record.read(first, Span::Minutes, now, 0));
        assert!(record.read(page(&[9], &[(990_000, &[3]), (995_000, &[4])]), Span::Minutes, now, 9));
        assert!(record.read(page(&[10], &[(5_000, &[3]), (9_990_000, &[3])]), Span::Minutes, now, 10), "other times");
        assert_eq!(record.columns.keys().copied().collect::<Vec<_>>(), [198, 199]);
        let levels: Vec<(u32, u8)> = record.columns[&198]
            .parts
            .iter()
            .flat_map(|(sections, levels)| sections.iter().copied().zip(levels.iter().copied()))
            .collect();
        assert_eq!(levels, [(1, 5), (2, 6), (9, 3)]);
        let strange = [
            page(&[9, 9], &[(990_000, &[3, 3])]),
            page(&[8], &[(990_000, &[3])]),
            page(&[9], &[(990_000, &[3, 3])]),
            page(&[MAX_SECTIONS], &[(990_000, &[3])]),
            ListActivityResponse { next_section: 10, ..page(&[10], &[(990_000, &[3])]) },
        ];
        for page in strange {
            assert!(!record.read(page.clone(), Span::Minutes, now, 9), "{page:?}");
        }
    }

    #[test]
    fn a_record_without_new_columns_ends() {
        let mut record = Record::default();
        assert!(record.is_past(Span::Minutes, 0), "nothing is known");
        assert!(record.read(page(&[1], &[(990_000, &[1])]), Span::Minutes, 1_000_000, 0));
        assert!(!record.is_past(Span::Minutes, 1_200_000) && record.is_past(Span::Minutes, 1_300_000));
    }

    #[test]
    fn newer_columns_replace_older_ones_and_the_span_moves() {
        let mut record = Record::default();
        let column = |level| Column { parts: vec![(Arc::from([1]), vec![level])] };
        record.add(Record { columns: (0..60).map(|period| (period, column(1))).collect() }, Span::Minutes);
        record.add(Record { columns: (58..65).map(|period| (period, column(2))).collect() }, Span::Minutes);
        assert_eq!((record.columns.len(), record.columns.first_key_value().map(|(period, _)| *period)), (60, Some(5)));
        assert_eq!((record.columns[&57].parts[0].1[0], record.columns[&58].parts[0].1[0]), (1, 2));
    }

    #[test]
    fn the_time_of_a_request_selects_the_length_of_the_columns() {
        use seq_core::activity::Resolution;
        let now = 1_000_000_000;
        for span in [Span::Minutes, Span::Hour, Span::Day] {
            for known in [None, Some(now), Some(now - 100_000), Some(now - 600_000), Some(0)] {
                let since = now - span.back_ms(now, known);
                let resolution = Resolution::reaching(now - since);
                assert_eq!(resolution.period_ms(), span.column_ms(), "{span:?} {known:?}");
                let oldest = now - span.whole_ms() + u64::from(span.column_ms()) / 2;
                assert!(since <= known.unwrap_or_default().max(oldest), "no gap: {span:?} {known:?}");
            }
        }
    }
}
