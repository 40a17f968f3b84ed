//! Pages as data: blocks of text and live regions. `html` makes the first rendering of it and `live` its updates, so a
//! value has the same text in both.

use seq_command::output::printable;
use seq_observe::advice::Severity;
use serde::Serialize;

/// A page.
pub(crate) struct Page {
    /// Title, and heading of the content.
    pub(crate) title: String,
    /// Content in order.
    pub(crate) blocks: Vec<Block>,
}

/// A part of a page.
pub(crate) enum Block {
    /// Heading of the blocks that follow.
    Heading(&'static str),
    /// Paragraph.
    Text(String),
    /// Paragraph with a command that can be copied.
    Command { text: &'static str, command: String },
    /// Rows that change while the page is open.
    Region(Region),
    /// Fields that lead to the same page with other parameters.
    Form(Form),
    /// Chart of the ceiling of a section over time.
    Staircase(crate::staircase::Staircase),
    /// Canvas of the section map, and the events that are marked on it.
    Map(crate::map_view::MapView, Region),
    /// Page of the runbook, which this program was built with.
    Document(maud::PreEscaped<String>),
}

/// Rows that change while the page is open.
///
/// **Invariant:** the keys of the rows are distinct.
pub(crate) struct Region {
    /// Id of the element, distinct within the page.
    pub(crate) id: &'static str,
    /// Name for a screen reader.
    pub(crate) label: &'static str,
    /// Elements that the rows are made of.
    pub(crate) shape: Shape,
    /// Rows in order.
    pub(crate) rows: Vec<Row>,
    /// Text in place of rows.
    pub(crate) empty: &'static str,
}

/// Elements of a region.
pub(crate) enum Shape {
    /// Table with a column for each cell.
    Table(&'static [Column]),
    /// Numbered list.
    List,
    /// Figures in one line.
    Line,
}

/// A column of a table.
pub(crate) struct Column {
    /// Heading.
    pub(crate) title: &'static str,
    /// Whether its cells are aligned to the right.
    pub(crate) is_number: bool,
}

/// Returns a column of text.
pub(crate) const fn text(title: &'static str) -> Column {
    Column { title, is_number: false }
}

/// Returns a column of numbers.
pub(crate) const fn number(title: &'static str) -> Column {
    Column { title, is_number: true }
}

/// A row of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Identity of the row among the updates of its region.
    #[serde(skip)]
    pub(crate) key: String,
    /// Urgency, which colours the row.
    #[serde(rename = "c", skip_serializing_if = "Tone::is_plain")]
    pub(crate) tone: Tone,
    /// Cells in order.
    #[serde(rename = "v")]
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    /// Returns a row without urgency.
    pub(crate) fn new(key: impl Into<String>, cells: Vec<Cell>) -> Row {
        Row { key: key.into(), tone: Tone::Plain, cells }
    }

    /// Returns the row with a tone.
    pub(crate) fn tone(self, tone: Tone) -> Row {
        Row { tone, ..self }
    }
}

/// A cell of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    /// Text, or the path of a sparkline.
    #[serde(rename = "t")]
    pub(crate) text: String,
    /// Element of the cell.
    #[serde(rename = "k", skip_serializing_if = "Kind::is_text")]
    pub(crate) kind: Kind,
    /// Target of a link.
    #[serde(rename = "h", skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<String>,
    /// Urgency, which colours the cell.
    #[serde(rename = "c", skip_serializing_if = "Tone::is_plain")]
    pub(crate) tone: Tone,
}

/// Element of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Text, or a link.
    #[default]
    Text,
    /// Strong text.
    Strong,
    /// Command that can be copied.
    Command,
    /// Line of values over time.
    Spark,
}

impl Kind {
    fn is_text(&self) -> bool {
        *self == Kind::Text
    }
}

/// Urgency of a row or a cell. Its text has a mark or a word for it as well, because some people do not see colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tone {
    /// None.
    #[default]
    Plain,
    /// All is well.
    Ok,
    /// An operator should look at it.
    Attention,
    /// Something does not work.
    Fault,
    /// Old or missing.
    Muted,
}

impl Tone {
    fn is_plain(&self) -> bool {
        *self == Tone::Plain
    }

    /// Returns the class of elements with the tone.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Ok => "ok",
            Tone::Attention => "attention",
            Tone::Fault => "fault",
            Tone::Muted => "muted",
        }
    }
}

impl From<Option<Severity>> for Tone {
    fn from(severity: Option<Severity>) -> Tone {
        match severity {
            None => Tone::Ok,
            Some(Severity::Fault) => Tone::Fault,
            Some(Severity::Attention) => Tone::Attention,
            Some(Severity::Info) => Tone::Plain,
        }
    }
}

/// Returns a cell of text.
pub(crate) fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

/// Returns a cell with a link to another page.
pub(crate) fn link(text: impl Into<String>, to: impl Into<String>) -> Cell {
    Cell { text: text.into(), link: Some(to.into()), ..Cell::default() }
}

/// Returns whether a text has only characters that have no meaning to a shell. A command may have the name of a node,
/// and a node may state any name. Other texts are shown, and are not offered to be copied.
pub(crate) fn is_typeable(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_alphanumeric() || " ._/:,=-[]".contains(char))
}

/// Returns a cell with a command; empty if there is none.
pub(crate) fn command(text: Option<String>) -> Cell {
    let kind = |text: &str| if is_typeable(text) { Kind::Command } else { Kind::Text };
    text.map(|text| Cell { kind: kind(&text), text: printable(&text).into_owned(), ..Cell::default() })
        .unwrap_or_default()
}

/// Returns a cell with values over time, the newest last.
pub(crate) fn spark(values: impl ExactSizeIterator<Item = f64> + Clone) -> Cell {
    Cell { text: spark_path(values), kind: Kind::Spark, ..Cell::default() }
}

impl Cell {
    /// Returns the cell with a tone.
    pub(crate) fn tone(self, tone: impl Into<Tone>) -> Cell {
        Cell { tone: tone.into(), ..self }
    }

    /// Returns the cell in strong text.
    pub(crate) fn strong(self) -> Cell {
        Cell { kind: Kind::Strong, ..self }
    }
}

/// Width and height of a sparkline in its own units.
pub(crate) const SPARK: (f64, f64) = (120.0, 20.0);

/// Space above the largest value of a sparkline. Without it, a constant rate in the first row of a table would lie on
/// the line below the table's head.
const ABOVE_SPARK: f64 = 4.0;

/// Returns the path of a sparkline, from the left edge to the right edge.
fn spark_path(values: impl ExactSizeIterator<Item = f64> + Clone) -> String {
    let most = values.clone().fold(0.0, f64::max);
    let (width, height) = SPARK;
    let last = values.len().saturating_sub(1).max(1) as f64;
    let point = |(place, value): (usize, f64)| {
        let part = if most > 0.0 { value / most } else { 0.0 };
        let y = ABOVE_SPARK + (height - 1.0 - ABOVE_SPARK) * (1.0 - part);
        format!("{}{:.0} {y:.1}", if place == 0 { "M" } else { "L" }, width * place as f64 / last)
    };
    values.enumerate().map(point).collect()
}

/// Fields that lead to the same page with other parameters.
pub(crate) struct Form {
    /// Name for a screen reader.
    pub(crate) label: &'static str,
    /// Fields in order.
    pub(crate) fields: Vec<Field>,
}

/// A field of a form.
pub(crate) struct Field {
    /// Label.
    pub(crate) label: &'static str,
    /// Name of the parameter.
    pub(crate) name: &'static str,
    /// Present value.
    pub(crate) value: String,
    /// Choices with their labels; empty for a field with free text.
    pub(crate) choices: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_ends_at_the_right_edge_and_has_a_scale() {
        assert_eq!(spark_path([1.0, 4.0, 2.0].into_iter()), "M0 15.2L60 4.0L120 11.5");
        assert_eq!(spark_path([0.0, 0.0].into_iter()), "M0 19.0L120 19.0");
        assert_eq!(spark_path([3.0].into_iter()), "M0 4.0");
        assert_eq!(spark_path([].into_iter()), "");
    }

    #[test]
    fn a_text_with_a_meaning_to_a_shell_is_no_command() {
        assert_eq!(command(Some("seqsvr node drain a1 --set im-a.toml".to_owned())).kind, Kind::Command);
        for name in ["a1;id", "a1\nid", "$(id)", "a1 | sh", "`id`", "\u{202e}a1"] {
            assert_eq!(command(Some(format!("seqsvr node drain {name}"))).kind, Kind::Text, "{name}");
        }
    }

    #[test]
    fn a_cell_is_short_on_the_wire() {
        let row = Row::new("a1", vec![cell("7"), link("a1", "/nodes?node=a1").tone(Tone::Fault), command(None)]);
        let json = serde_json::to_string(&row).expect("plain data");
        assert_eq!(json, r#"{"v":[{"t":"7"},{"t":"a1","h":"/nodes?node=a1","c":"fault"},{"t":""}]}"#);
    }
}
