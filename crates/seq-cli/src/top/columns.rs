//! Columns of the tables on the page. A column is shown only if the terminal is wide enough.

use seq_command::output::printable;

/// A column of rows of type `T`.
pub(super) struct Column<'a, T> {
    pub(super) title: &'a str,
    /// Width in characters. Longer cells are cut.
    pub(super) width: usize,
    /// Minimum width of the terminal, in characters, with which the column is shown.
    pub(super) from: usize,
    pub(super) is_number: bool,
    pub(super) cell: Box<dyn Fn(&T) -> String + 'a>,
}

impl<'a, T> Column<'a, T> {
    /// Returns a column of text.
    pub(super) fn text(title: &'a str, width: usize, from: usize, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
        Column { title, width, from, is_number: false, cell: Box::new(cell) }
    }

    /// Returns a column of numbers, which are aligned to the right.
    pub(super) fn number(title: &'a str, width: usize, from: usize, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
        Column { title, width, from, is_number: true, cell: Box::new(cell) }
    }

    fn padded(&self, text: &str) -> String {
        let width = self.width;
        let text = cut(&printable(text), width);
        if self.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

/// Returns the heading and the lines of a table. They contain the columns that are shown on a terminal of `width`
/// characters.
pub(super) fn table<T>(columns: &[Column<'_, T>], rows: &[T], width: usize) -> (String, Vec<String>) {
    let shown: Vec<&Column<'_, T>> = columns.iter().filter(|column| column.from <= width).collect();
    let line = |cell: &dyn Fn(&Column<'_, T>) -> String| {
        shown.iter().map(|column| column.padded(&cell(column))).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    let heading = line(&|column| column.title.to_owned());
    (heading, rows.iter().map(|row| line(&|column| (column.cell)(row))).collect())
}

/// Cuts a text to `width` characters. If it was longer, its last character is an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(std::iter::once('…').take(width)).collect()
}

/// Returns the last `width` values as a line of block characters. The height of each block is relative to the largest
/// of these values.
pub(super) fn sparkline(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let block = |value: &f64| {
        let step = if most > 0.0 { (value / most * 7.0).round() as usize } else { 0 };
        BLOCKS[step.min(BLOCKS.len() - 1)]
    };
    shown.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_columns_that_fit_and_cuts_long_cells() {
        let name = |row: &(&str, u64)| row.0.to_owned();
        let count = |row: &(&str, u64)| row.1.to_string();
        let columns = [Column::text("name", 6, 0, name), Column::number("count", 6, 20, count)];
        let rows = [("a1", 7), ("allocator", 12)];
        assert_eq!(table(&columns, &rows, 10), ("name".into(), vec!["a1".into(), "alloc…".into()]));
        let (heading, lines) = table(&columns, &rows, 20);
        assert_eq!((heading.as_str(), lines[1].as_str()), ("name    count", "alloc…     12"));
    }

    #[test]
    fn sparklines_have_a_scale() {
        assert_eq!([sparkline(&[0.0, 0.0], 5), sparkline(&[9.0, 1.0, 4.0, 8.0], 3)], ["▁▁", "▂▅█"]);
        assert_eq!([cut("abc", 3), cut("abcd", 3), cut("ab", 0)], ["abc", "ab…", ""]);
    }
}
