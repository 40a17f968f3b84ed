//! Output of commands. A command writes its result to stdout, and all other lines to stderr.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Serialize, Serializer};

use crate::environment;

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: aligned columns, or one value per line.
    #[default]
    Plain,
    /// For programs: one JSON object. Uids, sequence numbers and epochs are strings, because many JSON parsers round
    /// numbers above 2^53; counts and measurements are numbers.
    Json,
    /// Like plain, with less common columns.
    Wide,
}

/// Writes results to stdout in one format.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    format: Format,
}

impl Output {
    /// Returns an output of a format.
    pub fn new(format: Format) -> Output {
        Output { format }
    }

    /// Returns whether a command prints one JSON object.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns whether tables have their less common columns.
    pub fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// Returns a progress bar on stderr, as wide as the terminal, followed by `figures`. It is hidden if stderr is not
    /// a terminal.
    pub fn progress_bar(&self, length: u64, figures: &str) -> ProgressBar {
        progress(Some(length), &format!("[{{wide_bar}}] {figures}"))
    }

    /// Returns a progress line on stderr, whose message is cut at the width of the terminal. It is hidden if stderr is
    /// not a terminal.
    pub fn progress_line(&self) -> ProgressBar {
        progress(None, "{spinner} {elapsed:>4}  {wide_msg}")
    }

    /// Prints one line of a result.
    ///
    /// # Errors
    /// Stdout cannot be written, for example because the reader has closed the pipe.
    pub fn line(&self, line: impl Display) -> io::Result<()> {
        self.text(&format!("{line}\n"))
    }

    /// Prints a text to stdout without adding a line end. Escapes the control characters in the text, as [`printable`]
    /// does.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn text(&self, text: &str) -> io::Result<()> {
        io::stdout().lock().write_all(printable(text).as_bytes())
    }

    /// Begins a new page of a display that is printed repeatedly. If stdout is a terminal, the function clears the
    /// screen, otherwise it prints an empty line. For JSON it does nothing, because each object is on a line of its
    /// own.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn clear_screen(&self) -> io::Result<()> {
        match (self.is_json(), io::stdout().is_terminal()) {
            (true, _) => Ok(()),
            (false, true) => io::stdout().lock().write_all(b"\x1b[H\x1b[2J"),
            (false, false) => self.text("\n"),
        }
    }

    /// Prints a table.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn table(&self, table: &Table) -> io::Result<()> {
        self.text(&table.render())
    }

    /// Prints a list as a JSON object with the key `items`. It prints an object instead of an array so that later
    /// releases can add keys.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn json_items(&self, items: &[impl Serialize]) -> io::Result<()> {
        #[derive(Serialize)]
        struct List<'a, T> {
            items: &'a [T],
        }
        self.json(&List { items })
    }

    /// Prints a value as one JSON object on a line of its own. Flushes stdout, because a program may be waiting for the
    /// object.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, value)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }
}

fn progress(length: Option<u64>, template: &str) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("the template is well-formed").progress_chars("##-");
    ProgressBar::with_draw_target(length, target).with_style(style)
}

/// Prints a line to stderr, so that it is separate from the result on stdout. Ignores an error if stderr is closed.
pub fn note(line: impl Display) {
    let _ = io::stderr().lock().write_all(printable(&format!("{line}\n")).as_bytes());
}

/// Returns the text with its control characters escaped. The text may come from another node or from a file, and a
/// terminal would obey the control sequences in it. Line ends, tabs and the colours of [`heading`] are not escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |char: char| {
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || char.is_control() && !matches!(char, '\n' | '\t')
    };
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let (before, from) = rest.split_at(at);
        safe.push_str(before);
        if let Some(color) = COLORS.into_iter().find(|color| from.starts_with(color)) {
            safe.push_str(color);
            rest = &from[color.len()..];
        } else {
            let char = from.chars().next().expect("found here");
            safe.extend(char.escape_unicode());
            rest = &from[char.len_utf8()..];
        }
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// The control sequences that [`colored`] writes around a word.
const COLORS: [&str; 5] = ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];

/// The colour of a label on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// For an error.
    Red = 31,
    /// For a hint or a success.
    Green = 32,
    /// For a warning.
    Yellow = 33,
}

/// Returns a label such as `error:` for the start of a line on stderr. The label has a colour if stderr is a terminal
/// with colours.
pub fn heading(word: &str, color: Color) -> String {
    if takes_color() { colored(word, color) } else { word.to_owned() }
}

fn colored(word: &str, color: Color) -> String {
    format!("\x1b[1m\x1b[{}m{word}\x1b[0m", color as u8)
}

/// Returns whether stderr is a terminal and neither the variable `NO_COLOR` nor `TERM=dumb` is set.
fn takes_color() -> bool {
    io::stderr().is_terminal() && !environment::refuses_color()
}

/// Serialises a 64-bit number as a string of its decimal digits, as JSON of proto3 does.
pub fn digits<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Serialises a 64-bit number like [`digits`], or nothing.
pub fn optional_digits<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => digits(number, serializer),
        None => serializer.serialize_none(),
    }
}

/// Returns whether a number is 0. Fields of JSON use this function as their condition for being left out.
pub fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// A table whose columns are aligned with spaces and have no borders, so that `awk` and `cut` can process it.
#[derive(Debug)]
pub struct Table {
    table: comfy_table::Table,
}

impl Table {
    /// Creates a table with a header row, or without a header row if `heading` is empty.
    pub fn new(heading: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        // An empty header row would print an empty line.
        if !heading.is_empty() {
            table.set_header(heading.iter().copied());
        }
        Table { table }
    }

    /// Right-aligns columns of numbers, by index.
    pub fn right(mut self, columns: &[usize]) -> Table {
        for column in columns {
            let column = self.table.column_mut(*column).expect("the heading has the column");
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Line ends are escaped, because a line end in a cell would look like the start of another row.
        self.table.add_row(cells.into_iter().map(|cell| cell.replace('\n', "\\n")));
    }

    /// Returns the table as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for line in self.table.lines() {
            // The preset pads each cell with a space on both sides. The spaces at the start and at the end of the line
            // are removed.
            text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns a bar of `width` characters that shows `part` of `whole`.
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    let full = (part.min(whole) * width as u64).checked_div(whole).unwrap_or(0) as usize;
    "▓".repeat(full) + &"░".repeat(width - full)
}

/// Formats a number with thousands separators, as in 1,000,000.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_its_width() {
        assert_eq!([bar(0, 0, 4), bar(1, 2, 4), bar(9, 2, 4)], ["░░░░", "▓▓░░", "▓▓▓▓"]);
    }

    #[test]
    fn columns_are_aligned_by_spaces() {
        let mut table = Table::new(&["name", "sections"]).right(&[1]);
        table.row(["a1".to_owned(), "5".to_owned()]);
        table.row(["a-long-name".to_owned(), "1,000".to_owned()]);
        expect![[r#"
            name         sections
            a1                  5
            a-long-name     1,000
        "#]]
        .assert_eq(&table.render());
    }

    #[test]
    fn a_table_without_a_heading_has_no_line_for_it() {
        let mut table = Table::new(&[]);
        table.row(["24".to_owned(), "exact".to_owned()]);
        assert_eq!(table.render(), "24  exact\n");
    }

    #[test]
    fn headings_are_coloured_by_what_every_terminal_reads() {
        assert_eq!(colored("error:", Color::Red), "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let sent = "x \u{1b}[2J \u{1b}]0;title\u{7} \u{9b}31m \u{202e}\r\ta\n";
        let expected = "x \\u{1b}[2J \\u{1b}]0;title\\u{7} \\u{9b}31m \\u{202e}\\u{d}\ta\n";
        assert_eq!(printable(sent), expected);
        let label = format!("{} 1 \u{e9}\n", colored("error:", Color::Red));
        assert_eq!(printable(&label), label);
        let mut table = Table::new(&[]);
        table.row(["forged\nrow".to_owned()]);
        assert_eq!(table.render(), "forged\\nrow\n");
    }

    #[test]
    fn no_digit_of_a_large_number_is_lost() {
        #[derive(Serialize)]
        struct Row {
            #[serde(serialize_with = "digits")]
            value: u64,
        }
        assert_eq!(serde_json::to_string(&Row { value: u64::MAX }).unwrap(), r#"{"value":"18446744073709551615"}"#);
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
