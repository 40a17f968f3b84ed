//! The runbook, with which this program was built: it is readable while no network is.

use maud::PreEscaped;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::view::{Block, Page};

/// A document by its name in an address.
struct Document {
    name: &'static str,
    text: &'static str,
}

/// Returns the list of documents from the folder of the runbook and from `docs`.
macro_rules! documents {
    ($($name:literal: $path:literal),* $(,)?) => {
        &[$(Document { name: $name, text: include_str!(concat!("../../../../docs/", $path)) }),*]
    };
}

const DOCUMENTS: &[Document] = documents![
    "README.md": "runbook/README.md",
    "section-writes.md": "runbook/section-writes.md",
    "ownership.md": "runbook/ownership.md",
    "ids.md": "runbook/ids.md",
    "store.md": "runbook/store.md",
    "sets.md": "runbook/sets.md",
    "process.md": "runbook/process.md",
    "procedures/evacuate-a-host.md": "runbook/procedures/evacuate-a-host.md",
    "procedures/full-disk.md": "runbook/procedures/full-disk.md",
    "procedures/grow-a-set.md": "runbook/procedures/grow-a-set.md",
    "procedures/install.md": "runbook/procedures/install.md",
    "procedures/lose-a-majority.md": "runbook/procedures/lose-a-majority.md",
    "procedures/recover-without-a-majority.md": "runbook/procedures/recover-without-a-majority.md",
    "procedures/replace-a-disk.md": "runbook/procedures/replace-a-disk.md",
    "procedures/rotate-certificates.md": "runbook/procedures/rotate-certificates.md",
    "procedures/upgrade.md": "runbook/procedures/upgrade.md",
    "security.md": "security.md",
];

fn document(name: &str) -> Option<&'static Document> {
    let name = if name == "README" { "README.md" } else { name };
    DOCUMENTS.iter().find(|document| document.name == name)
}

/// Returns whether the runbook has a document.
pub(super) fn exists(name: &str) -> bool {
    document(name).is_some()
}

pub(super) fn page(name: &str) -> Page {
    let Some(document) = document(name) else {
        return Page { title: "Runbook".to_owned(), blocks: Vec::new() };
    };
    let (title, html) = render(document);
    Page { title, blocks: vec![Block::Document(PreEscaped(html))] }
}

/// Returns the title of a document and its HTML. Headings have ids as repositories show them, and links lead to other
/// documents of the console.
fn render(document: &Document) -> (String, String) {
    let mut events: Vec<Event<'_>> = Parser::new_ext(document.text, Options::ENABLE_TABLES).collect();
    let mut title = "Runbook".to_owned();
    let mut place = 0;
    while place < events.len() {
        if let Event::Start(Tag::Heading { level, .. }) = events[place] {
            let is_end = |event: &Event<'_>| matches!(event, Event::End(TagEnd::Heading(_)));
            let end = events[place..].iter().position(is_end).map_or(events.len(), |length| place + length);
            let text: String = events[place..end].iter().filter_map(text_of).collect();
            if level == HeadingLevel::H1 {
                // The title of the page is the heading of first order.
                title = text;
                events.drain(place..=end.min(events.len() - 1));
                continue;
            }
            if let Event::Start(Tag::Heading { id, .. }) = &mut events[place] {
                *id = Some(CowStr::from(anchor(&text)));
            }
        }
        place += 1;
    }
    let mut lost = false;
    let events = events.into_iter().filter_map(|event| match event {
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(document.name, &dest_url) {
            Some(url) => Some(Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id })),
            None => {
                lost = true;
                None
            }
        },
        // The text of a link to a file that the console does not have stays.
        Event::End(TagEnd::Link) if lost => {
            lost = false;
            None
        }
        // The documents have no HTML of their own.
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        event => Some(event),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    (title, text)
}

fn text_of<'a>(event: &'a Event<'_>) -> Option<&'a str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text),
        _ => None,
    }
}

/// Returns the id of a heading.
fn anchor(text: &str) -> String {
    let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the address of a link in a document; `None` if the console does not have its target.
fn target(from: &str, link: &str) -> Option<String> {
    if link.starts_with('#') || link.starts_with("https://") {
        return Some(link.to_owned());
    }
    let (path, heading) = link.split_once('#').map_or((link, String::new()), |(path, at)| (path, format!("#{at}")));
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            // The folder of the runbook is in `docs`, and both are one folder here.
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let name = parts.join("/");
    exists(&name).then(|| format!("/runbook/{name}{heading}"))
}

#[cfg(test)]
mod tests {
    use seq_observe::verdict::{CONDITIONS, REMARKS};

    use super::*;

    #[test]
    fn each_rule_has_a_heading_of_the_console() {
        let pages = CONDITIONS.iter().map(|one| one.runbook).chain(REMARKS.iter().map(|one| one.runbook));
        for page in pages {
            let page = page.strip_prefix("../").unwrap_or(page);
            let (name, heading) = page.split_once('#').unwrap_or((page, ""));
            let document = document(name).unwrap_or_else(|| panic!("{page}: the console has no such document"));
            let (title, html) = render(document);
            assert!(
                anchor(&title) == heading || heading.is_empty() || html.contains(&format!("id=\"{heading}\"")),
                "{page}: no such heading"
            );
        }
    }

    #[test]
    fn links_lead_to_documents_of_the_console() {
        assert_eq!(target("README.md", "sets.md#closed").as_deref(), Some("/runbook/sets.md#closed"));
        assert_eq!(target("README.md", "../security.md#alerts").as_deref(), Some("/runbook/security.md#alerts"));
        assert_eq!(
            target("procedures/install.md", "../store.md").as_deref(),
            Some("/runbook/store.md"),
            "one folder up"
        );
        assert_eq!(target("README.md", "../../deploy/prometheus"), None);
        assert_eq!(target("README.md", "../operations/changes.md#members-of-a-store"), None);
        assert_eq!(target("sets.md", "#closed").as_deref(), Some("#closed"));
    }

    #[test]
    fn documents_have_no_markup_of_their_own_and_no_first_heading() {
        let of = |text| render(&Document { name: "x.md", text });
        let (title, html) =
            of("# Title `x`\n\n## Not well\n\n<script>alert(1)</script>\n\n[gone](y.md) [here](#not-well)\n");
        assert_eq!(title, "Title x");
        assert_eq!(
            html,
            "<h2 id=\"not-well\">Not well</h2>\n&lt;script&gt;alert(1)&lt;/script&gt;\n<p>gone <a href=\"#not-well\">here</a></p>\n"
        );
    }
}
