//! Levels as a browser draws them: rows of neighbouring sections, columns of time.

use std::ops::Range;

use seq_core::activity::Level;

use super::record::{Record, Span};

/// The value of a row that has several sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Rate of the busiest section.
    Hottest,
    /// Sum of the rates.
    Total,
}

/// The part and the form of the levels that a browser wants.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Sections, of which each is in a row.
    pub(super) sections: Range<u32>,
    /// Number of rows, at most the number of sections.
    pub(super) rows: u32,
    /// Whether only the last column is wanted.
    pub(super) is_now: bool,
    /// Value of a row.
    pub(super) value: Value,
    /// Whether the records of several nodes are copies of one record, as of the members of a store. Otherwise the rates
    /// of two nodes in a column add up.
    pub(super) are_copies: bool,
}

/// Levels by time and section.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// Begin of the first column, in milliseconds since 1970.
    pub(super) since_ms: u64,
    /// Levels, column by column.
    ///
    /// **Invariant:** `rows * columns` long.
    pub(super) levels: Vec<u8>,
}

impl Matrix {
    /// Returns the levels of sections in the last columns of the span, or only in the last column.
    ///
    /// An hour of 42,950 sections in 120 columns takes 40 ms with the hottest sections and 95 ms with totals, for 1,000
    /// allocators as for 30 stores, and the last column alone takes 0.5 ms (optimised build, one of two shared cores).
    /// So it is for a thread that may block.
    pub(super) fn new<'a>(records: impl Iterator<Item = &'a Record>, span: Span, cut: &Cut) -> Matrix {
        let Cut { sections, rows, is_now, value, are_copies } = cut;
        let rows = *rows;
        let records: Vec<&Record> = records.collect();
        // Nodes end a column at slightly different times. The newest column counts once all current nodes have it.
        let lasts = || records.iter().filter_map(|record| record.columns.last_key_value()).map(|(period, _)| *period);
        let newest = lasts().max();
        let last = lasts().filter(|last| newest.is_some_and(|newest| last + 1 >= newest)).min();
        let columns = if *is_now { 1 } else { span.columns() };
        let Some(last) = last.filter(|_| rows > 0) else {
            return Matrix::default();
        };
        let first = (last + 1).saturating_sub(columns);
        let mut levels = Vec::with_capacity(rows as usize * columns as usize);
        let mut of_sections = vec![Level::NO_RECORD; sections.len()];
        for period in first..=last {
            of_sections.fill(Level::NO_RECORD);
            for column in records.iter().filter_map(|record| record.columns.get(&period)) {
                for (section, level) in column.cells() {
                    if sections.contains(section) {
                        let known = &mut of_sections[(section - sections.start) as usize];
                        *known = if *are_copies {
                            known.max(Level(*level))
                        } else {
                            sum([*known, Level(*level)].into_iter())
                        };
                    }
                }
            }
            levels.extend((0..rows).map(|row| {
                let place = |row: u32| (u64::from(row) * sections.len() as u64 / u64::from(rows)) as usize;
                let of_row = of_sections[place(row)..place(row + 1)].iter().copied();
                match value {
                    Value::Hottest => of_row.fold(Level::NO_RECORD, Level::max).0,
                    Value::Total => sum(of_row).0,
                }
            }));
        }
        Matrix { rows, columns: columns as u32, since_ms: first * u64::from(span.column_ms()), levels }
    }
}

/// Returns the level of the sum of rates; no record if all have none.
fn sum(levels: impl Iterator<Item = Level>) -> Level {
    let mut known = levels.filter(|level| *level != Level::NO_RECORD).peekable();
    let Some(first) = known.next() else { return Level::NO_RECORD };
    if known.peek().is_none() {
        return first;
    }
    let rate: u64 = known.filter_map(Level::a_minute).fold(first.a_minute().unwrap_or(0), u64::saturating_add);
    Level::of(rate, 60_000)
}

#[cfg(test)]
mod tests {
    use super::super::record::Column;
    use super::*;

    fn record(columns: &[(u64, &[(u32, u8)])]) -> Record {
        let column = |(period, levels): &(u64, &[(u32, u8)])| {
            let (sections, levels): (Vec<u32>, Vec<u8>) = levels.iter().copied().unzip();
            (*period, Column { parts: vec![(sections.into(), levels)] })
        };
        Record { columns: columns.iter().map(column).collect() }
    }

    fn cut(sections: Range<u32>, rows: u32) -> Cut {
        Cut { sections, rows, is_now: false, value: Value::Hottest, are_copies: false }
    }

    fn last_column(records: &[Record], sections: Range<u32>, rows: u32, value: Value) -> Vec<u8> {
        let cut = Cut { is_now: true, value, ..cut(sections, rows) };
        Matrix::new(records.iter(), Span::Minutes, &cut).levels
    }

    #[test]
    fn a_row_has_the_hottest_section_or_the_total() {
        let one = record(&[(100, &[(0, 3), (1, 5), (2, 0), (3, 9)])]);
        assert_eq!(last_column(std::slice::from_ref(&one), 0..4, 4, Value::Hottest), [3, 5, 0, 9]);
        assert_eq!(last_column(std::slice::from_ref(&one), 0..4, 2, Value::Hottest), [5, 9]);
        // 2 and 4 a minute are 6, whose level is 6: 5.7 a minute.
        assert_eq!(last_column(&[one], 0..4, 2, Value::Total), [6, 9]);
    }

    #[test]
    fn sections_without_a_record_differ_from_sections_at_rest() {
        let one = record(&[(100, &[(0, 0), (1, 255)])]);
        assert_eq!(last_column(&[one], 0..3, 3, Value::Total), [0, 255, 255]);
    }

    #[test]
    fn the_rates_of_two_owners_add_up_within_a_column() {
        let records = [record(&[(100, &[(0, 5)])]), record(&[(100, &[(0, 5)])])];
        assert_eq!(last_column(&records, 0..1, 1, Value::Hottest), [7], "4 and 4 a minute");
        let copies = Cut { is_now: true, are_copies: true, ..cut(0..1, 1) };
        let matrix = Matrix::new(records.iter(), Span::Minutes, &copies);
        assert_eq!(matrix.levels, [5], "two members have the same writes");
    }

    #[test]
    fn columns_end_with_the_newest_that_all_current_nodes_have() {
        let records =
            [record(&[(90, &[(0, 1)])]), record(&[(99, &[(0, 3)])]), record(&[(99, &[(1, 2)]), (100, &[(1, 2)])])];
        let matrix = Matrix::new(records.iter(), Span::Minutes, &cut(0..2, 2));
        assert_eq!((matrix.columns, matrix.since_ms, matrix.levels.len()), (60, 40 * 5_000, 120));
        assert_eq!(matrix.levels[118..], [3, 2], "the node whose columns ended long ago is not awaited");
        let none = Matrix::new([].into_iter(), Span::Minutes, &cut(0..2, 2));
        assert_eq!((none.rows, none.columns), (0, 0));
    }
}
