//! The columns of one node.

use std::collections::BTreeMap;
use std::time::Duration;

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

    /// Returns the time since which columns are requested, so that a node responds with the columns of this length: it
    /// has the shortest that reach back so far. A node is requested for the columns since the newest known one, whose
    /// begin is `known_ms`, because nobody may have looked at the map for a while.
    pub(super) fn since(self, now_ms: u64, known_ms: Option<u64>) -> u64 {
        let column = u64::from(self.column_ms());
        let shortest = match self {
            Span::Minutes => 6 * column,
            Span::Hour => Span::Minutes.whole_ms() + 2 * column,
            Span::Day => Span::Hour.whole_ms() + 2 * column,
        };
        let whole = self.whole_ms() - column / 2;
        let back = known_ms.map_or(whole, |known| now_ms.saturating_sub(known).clamp(shortest, whole));
        now_ms.saturating_sub(back)
    }

    fn whole_ms(self) -> u64 {
        u64::from(self.column_ms()) * self.columns()
    }
}

/// Levels of sections in one period, in parallel.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    pub(super) sections: Vec<u32>,
    pub(super) levels: Vec<u8>,
}

/// The columns of a node, by the number of the period since 1970.
///
/// **Invariant:** at most twice the columns of the span.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) columns: BTreeMap<u64, Column>,
}

impl Record {
    /// Adds a page of a response. Columns outside of the span are left out, as are columns of another length than the
    /// list of sections.
    pub(super) fn read(&mut self, page: ListActivityResponse, span: Span, now_ms: u64) {
        let column_ms = u64::from(span.column_ms());
        let now = now_ms / column_ms;
        let expected = now.saturating_sub(span.columns() + CLOCK_COLUMNS)..now + CLOCK_COLUMNS;
        for column in page.columns {
            let period = column.since_ms / column_ms;
            if expected.contains(&period) && column.levels.len() == page.sections.len() {
                let known = self.columns.entry(period).or_default();
                known.sections.extend(&page.sections);
                known.levels.extend(column.levels);
            }
        }
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
    fn pages_of_a_response_are_joined_and_strange_columns_are_left_out() {
        let now = 1_000_000;
        let mut record = Record::default();
        record.read(page(&[1, 2], &[(990_000, &[5, 6]), (995_000, &[7, 8])]), Span::Minutes, now);
        record.read(page(&[9], &[(990_000, &[3]), (995_000, &[4])]), Span::Minutes, now);
        record.read(page(&[9], &[(5_000, &[3]), (9_990_000, &[3]), (995_000, &[3, 3])]), Span::Minutes, now);
        assert_eq!(record.columns.keys().copied().collect::<Vec<_>>(), [198, 199]);
        assert_eq!((&*record.columns[&198].sections, &*record.columns[&198].levels), (&[1, 2, 9][..], &[5, 6, 3][..]));
    }

    #[test]
    fn newer_columns_replace_older_ones_and_the_span_moves() {
        let mut record = Record::default();
        let column = |level| Column { sections: vec![1], levels: vec![level] };
        record.add(Record { columns: (0..60).map(|period| (period, column(1))).collect() }, Span::Minutes);
        record.add(Record { columns: (58..65).map(|period| (period, column(2))).collect() }, Span::Minutes);
        assert_eq!((record.columns.len(), record.columns.first_key_value().map(|(period, _)| *period)), (60, Some(5)));
        assert_eq!((record.columns[&57].levels[0], record.columns[&58].levels[0]), (1, 2));
    }

    #[test]
    fn the_time_of_a_request_selects_the_length_of_the_columns() {
        use seq_core::activity::Resolution;
        let now = 1_000_000_000;
        for span in [Span::Minutes, Span::Hour, Span::Day] {
            for known in [None, Some(now), Some(now - 100_000), Some(now - 600_000), Some(0)] {
                let since = span.since(now, known);
                let resolution = Resolution::reaching(now - since);
                assert_eq!(resolution.period_ms(), span.column_ms(), "{span:?} {known:?}");
                let oldest = now - span.whole_ms() + u64::from(span.column_ms()) / 2;
                assert!(since <= known.unwrap_or_default().max(oldest), "no gap: {span:?} {known:?}");
            }
        }
    }
}
