//! The text files of the repository.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Names of directories that are skipped, because they contain outputs of builds, downloads or generated code.
const SKIPPED: &[&str] =
    &[".git", "target", "artifacts", "corpus", "coverage", "generated", "node_modules", "__pycache__"];

/// A text file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path from the root, with `/` between the parts.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl Source {
    /// Returns whether the file's name ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Returns whether the path of the file is the path of test or benchmark code, which is not a part of the program.
    pub(crate) fn is_test(&self) -> bool {
        let dirs = ["tests/", "benches/"];
        let in_dir = dirs.iter().any(|dir| self.path.starts_with(dir) || self.path.contains(&format!("/{dir}")));
        in_dir || self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }

    /// Returns the lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Reads every text file below `root`; returns the files in the order of their paths. Skips files that are not UTF-8,
/// because they are not text.
pub(crate) fn read_all(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    walk(root, root, &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn walk(root: &Path, dir: &Path, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                walk(root, &path, sources)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            if let Ok(text) = String::from_utf8(bytes) {
                let relative = path.strip_prefix(root).expect("the walk stays below the root");
                sources.push(Source { path: relative.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
impl Source {
    /// Makes a file for a test.
    pub(crate) fn planted(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }
}
