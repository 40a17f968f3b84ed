//! Pages as HTML. Everything that is not of this program is escaped by maud.

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::map_view::MapView;
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

/// The frame of a page.
pub(crate) struct Frame<'a> {
    /// State of the cluster, in the header.
    pub(crate) state: Region,
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
            body data-live=(frame.live) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    strong { "seqsvr" }
                    (region(&frame.state))
                    span.grow {}
                    span #age .muted role="status" aria-live="off" {}
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
        Block::Command { text, command } if is_typeable(command) => html! { p.muted { (text) " " code { (command) } } },
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
        (Kind::Command, _) => html! { code { (text) } },
        (Kind::Strong, _) => html! { b { (text) } },
        (Kind::Text, Some(to)) => html! { a href=(to) { (text) } },
        (Kind::Text, None) => html! { (text) },
    }
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
                    button type="button" data-name=(name) data-value=(value) aria-pressed=(place == 0)
                        aria-keyshortcuts=[(!key.is_empty()).then_some(key)] { (text) }
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
                    aria-label="Activity by uid and time. Arrow keys move, Enter zooms in or opens a section, Escape zooms out."
                    aria-describedby="cell" data-sections=(sections) data-size=(section_size) data-start=(uid_start) {}
                div #cursor aria-hidden="true" {}
            }
            div #axis-y .axis-y aria-hidden="true" {}
            div #axis-x .axis-x aria-hidden="true" {}
        }
        p #cell .cell role="status" { "Point at a cell, or move with the arrow keys." }
    }
}
