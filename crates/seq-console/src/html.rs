//! Pages as HTML. Everything that is not of this program is escaped by maud.

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::map_view::MapView;
use crate::model::Age;
use crate::view::{Block, Cell, Field, Form, Kind, Page, Region, Row, SPARK, Shape, is_typeable};

/// An entry of the navigation.
pub(crate) struct Entry {
    /// Path of the page.
    pub(crate) path: &'static str,
    /// Name of the page.
    pub(crate) name: &'static str,
}

/// The navigation in order.
pub(crate) const ENTRIES: [Entry; 9] = [
    Entry { path: "/", name: "Overview" },
    Entry { path: "/map", name: "Section map" },
    Entry { path: "/sections", name: "Sections" },
    Entry { path: "/nodes", name: "Nodes" },
    Entry { path: "/sets", name: "Sets and migrations" },
    Entry { path: "/events", name: "Events" },
    Entry { path: "/uid", name: "Uid" },
    Entry { path: "/config", name: "Configuration" },
    Entry { path: "/runbook", name: "Runbook" },
];

/// Seconds up to which values count as new: three intervals of observations. The script has the same bound.
const NEW_SECONDS: u64 = 6;

impl Age {
    fn seconds(&self) -> u64 {
        self.ms.map_or(0, |ms| ms.saturating_add(500) / 1_000)
    }

    fn is_old(&self) -> bool {
        self.seconds() > NEW_SECONDS
    }

    /// Returns the text of the header, as the script writes it.
    fn text(&self) -> String {
        let (as_of, seconds) = (&self.as_of, self.seconds());
        match self.ms {
            None => "no values yet".to_owned(),
            Some(_) if !self.is_old() => format!("as of {as_of} UTC"),
            Some(_) if seconds < 120 => format!("as of {as_of} UTC, {seconds} s ago"),
            Some(_) => format!("as of {as_of} UTC, {} min ago", (seconds + 30) / 60),
        }
    }
}

/// The frame of a page.
pub(crate) struct Frame<'a> {
    /// State of the cluster, in the header.
    pub(crate) state: Region,
    /// Age of the values.
    pub(crate) age: Age,
    /// Random text of the process of the console.
    pub(crate) console: &'a str,
    /// Holder of the certificate with which the console queries nodes.
    pub(crate) identity: &'a str,
    /// Path of the page, which the navigation marks.
    pub(crate) path: &'a str,
    /// Address of the updates of the page.
    pub(crate) live: String,
}

/// Returns a page in its frame.
pub(crate) fn page(page: &Page, frame: &Frame<'_>) -> Markup {
    let current = |entry: &Entry| match entry.path {
        "/" => frame.path == "/",
        "/sections" => frame.path == "/sections" || frame.path.starts_with("/section/"),
        path => frame.path.starts_with(path),
    };
    let is_map = page.blocks.iter().any(|block| matches!(block, Block::Map(..)));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · seqsvr" }
                link rel="icon" href=(assets::ICON.path());
                link rel="stylesheet" href=(assets::STYLE.path());
                script src=(assets::LIVE.path()) defer {}
                @if is_map { script src=(assets::MAP.path()) defer {} }
            }
            body .old[frame.age.is_old()] data-live=(frame.live) data-console=(frame.console) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    strong { "seqsvr" }
                    (region(&frame.state))
                    span.grow {}
                    span #said .muted role="status" {}
                    span #age .muted role="status" aria-live="off" data-ms=[frame.age.ms] data-as-of=(frame.age.as_of) {
                        (frame.age.text())
                    }
                    span.muted { (frame.identity) " · read only" }
                }
                nav aria-label="Pages" {
                    @for entry in &ENTRIES {
                        a href=(entry.path) aria-current=[current(entry).then_some("page")] { (entry.name) }
                    }
                }
                main #main {
                    h1 { (page.title) }
                    @for block in &page.blocks { (self::block(block)) }
                }
            }
        }
    }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Heading(text) => html! { h2 { (text) } },
        Block::Text(text) => html! { p { (text) } },
        Block::Command { text, command } if is_typeable(command) => html! { p.muted { (text) " " (copied(command)) } },
        Block::Command { text, command } => html! { p.muted { (text) " " (command) } },
        Block::Region(of) => region(of),
        Block::Form(of) => form(of),
        Block::Staircase(of) => of.html(),
        Block::Map(of, marks) => map(of, marks),
        Block::Document(of) => html! { article { (of) } },
    }
}

/// Returns the rows of a region, in an element that `live.js` finds by its id.
pub(crate) fn region(of: &Region) -> Markup {
    let Region { id, label, shape, rows, empty } = of;
    match shape {
        Shape::Table(columns) => {
            let classes: String = columns.iter().map(|column| if column.is_number { 'r' } else { 'l' }).collect();
            html! {
                div.scroll role="region" aria-label=(label) tabindex="0" {
                    table {
                        thead { tr { @for column in *columns { th scope="col" .r[column.is_number] { (column.title) } } } }
                        tbody data-region=(id) data-shape="table" data-columns=(classes) data-empty=(empty) {
                            @for one in rows { (row("table", one, &classes)) }
                        }
                    }
                    p.muted.empty data-empty-of=(id) hidden[!rows.is_empty()] { (empty) }
                }
            }
        }
        Shape::List => html! {
            ol.list aria-label=(label) data-region=(id) data-shape="list" {
                @for one in rows { (row("list", one, "")) }
            }
            p.muted.empty data-empty-of=(id) hidden[!rows.is_empty()] { (empty) }
        },
        Shape::Line => html! {
            span.line role="group" aria-label=(label) data-region=(id) data-shape="line" {
                @for one in rows { (row("line", one, "")) }
            }
        },
    }
}

fn row(shape: &str, of: &Row, columns: &str) -> Markup {
    let class = of.tone.class();
    match shape {
        "table" => html! {
            tr data-key=(of.key) class=(class) {
                @for (cell, column) in of.cells.iter().zip(columns.chars()) {
                    td class=(classes(cell, column == 'r')) { (content(cell)) }
                }
            }
        },
        "list" => html! {
            li data-key=(of.key) class=(class) {
                @for cell in &of.cells { span class=(classes(cell, false)) { (content(cell)) } }
            }
        },
        _ => html! {
            span data-key=(of.key) class=(class) {
                @for cell in &of.cells { span class=(classes(cell, false)) { (content(cell)) } }
            }
        },
    }
}

fn classes(cell: &Cell, is_number: bool) -> String {
    let number = if is_number { "r" } else { "" };
    format!("{number} {}", cell.tone.class()).trim().to_owned()
}

fn content(cell: &Cell) -> Markup {
    let text = &cell.text;
    match (cell.kind, &cell.link) {
        (Kind::Spark, _) => html! {
            svg.spark viewBox={ "0 0 " (SPARK.0) " " (SPARK.1) } aria-hidden="true" { path d=(text) {} }
        },
        (_, _) if text.is_empty() => html! {},
        (Kind::Command, _) => copied(text),
        (Kind::Strong, _) => html! { b { (text) } },
        (Kind::Text, Some(to)) => html! { a href=(to) { (text) } },
        (Kind::Text, None) => html! { (text) },
    }
}

/// Returns a command that a click, or Enter, copies.
fn copied(command: &str) -> Markup {
    html! { code role="button" tabindex="0" title="Copy" { (command) } }
}

fn form(of: &Form) -> Markup {
    html! {
        form.bar method="get" aria-label=(of.label) {
            @for Field { label, name, value, choices } in &of.fields {
                label {
                    (label) " "
                    @if choices.is_empty() {
                        input name=(name) value=(value) autocomplete="off" spellcheck="false" size="20";
                    } @else {
                        select name=(name) {
                            @for (choice, label) in choices {
                                option value=(choice) selected[choice == value] { (label) }
                            }
                        }
                    }
                }
            }
            button { "Show" }
        }
    }
}

/// Returns the canvas of the section map with its controls and the marks of events.
fn map(of: &MapView, marks: &Region) -> Markup {
    let MapView { sections, section_size, uid_start, owners } = of;
    let group = |name: &str, label: &str, choices: &[(&str, &str, &str)]| {
        html! {
            div.group role="group" aria-label=(label) {
                @for (place, (value, text, key)) in choices.iter().enumerate() {
                    @let has_key = !key.is_empty();
                    button type="button" data-name=(name) data-value=(value) aria-pressed=(place == 0)
                        data-key=[has_key.then_some(key)]
                        title=[has_key.then(|| format!("Key {key} while the map has the focus"))] { (text) }
                }
            }
        }
    };
    html! {
        div.bar role="toolbar" aria-label="View of the map" {
            (group("span", "Time", &[("minutes", "5 minutes", ""), ("hour", "Hour", "t"), ("day", "Day", ""), ("now", "Now", "n")]))
            (group("layer", "Subject", &[("numbers", "Numbers", ""), ("writes", "Section writes", "")]))
            (group("value", "Value of a row", &[("hottest", "Hottest section", "h"), ("total", "Total", "s")]))
            label {
                "Owner "
                select #owner {
                    option value="" { "all" }
                    @for (set, name) in owners {
                        option value={ (set) "/" (name) } { (set) " " (name) }
                    }
                }
            }
            label { "Uid " input #find inputmode="numeric" autocomplete="off" size="14"; }
            button #out type="button" hidden { "Zoom out" }
            span.grow {}
            span #legend .legend {}
        }
        div #marks-of-map .marks { (region(marks)) }
        div.map {
            div.frame {
                canvas #map width="960" height="512" tabindex="0" role="application" aria-roledescription="heat map"
                    aria-label="Activity by uid and time. Arrow keys move, Enter zooms in or opens a section, Escape zooms out; T, N, H and S change the view."
                    aria-describedby="cell" data-sections=(sections) data-size=(section_size) data-start=(uid_start) {}
                div #cursor aria-hidden="true" {}
            }
            div #axis-y .axis-y aria-hidden="true" {}
            div #axis-x .axis-x aria-hidden="true" {}
        }
        p #cell .cell role="status" { "Point at a cell, or move with the arrow keys." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rendering_has_the_age_of_its_values() {
        let text = |ms| Age { ms, as_of: "03:16:48".to_owned() }.text();
        assert_eq!(text(None), "no values yet");
        assert_eq!(text(Some(6_499)), "as of 03:16:48 UTC");
        assert_eq!(text(Some(6_500)), "as of 03:16:48 UTC, 7 s ago");
        assert_eq!(text(Some(240_000)), "as of 03:16:48 UTC, 4 min ago");
        let frame = Frame {
            state: Region { id: "state", label: "", shape: Shape::Line, rows: Vec::new(), empty: "" },
            age: Age { ms: Some(9_000), as_of: "03:16:48".to_owned() },
            console: "0f",
            identity: "viewer/a",
            path: "/",
            live: "/live".to_owned(),
        };
        let html = page(&Page { title: String::new(), blocks: Vec::new() }, &frame).into_string();
        assert!(html.contains("as of 03:16:48 UTC, 9 s ago</span>"), "{html}");
        assert!(html.contains("<body class=\"old\"") && html.contains("data-console=\"0f\""), "{html}");
    }
}
