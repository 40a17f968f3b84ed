//! Computes the rates of stiff sentences in each crate. The rate of a pattern is the number of its matches in the
//! comments of a crate, per thousand lines of comments.
//!
//! A match is a sign, but no proof, of a sentence with a pronoun in place of a noun. So a single match is not an error,
//! and only the rates are compared with limits. docs/glossary.md has the rules for sentences, and the module `tidy` has
//! the limits.

use std::collections::BTreeMap;

use crate::source::Source;

/// Names of the patterns, in the order of [`Counts::found`].
pub(crate) const PATTERNS: [&str; 3] = ["what is/are/..", "one/ones, those that", "meanwhile/beside/whatever"];

/// Function that looks for a match of a pattern that begins at the word with index `first`. It returns the number of
/// words of the match, or 0 if there is no match.
type Matcher = fn(words: &Words, first: usize) -> usize;

const MATCHERS: [Matcher; 3] = [what, one, meanwhile];

/// Words that follow "what" if "what" takes the place of a noun.
const AFTER_WHAT: &[&str] = &[
    "is", "are", "was", "were", "it", "the", "a", "an", "this", "that", "they", "those", "has", "have", "had", "come",
    "comes", "came", "each", "another", "other", "its", "no",
];

const AFTER_THOSE: &[&str] = &["that", "which", "of", "in", "with", "who", "whose"];

const BEFORE_ONE: &[&str] = &[
    "the", "another", "other", "each", "every", "that", "this", "a", "an", "any", "no", "newer", "older", "next",
    "last", "first",
];

/// Counts of comment lines, and of the matches of each pattern in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lines of comments with text.
    pub(crate) lines: usize,
    /// Matches of each pattern.
    pub(crate) found: [usize; PATTERNS.len()],
}

impl Counts {
    /// Returns the number of matches of each pattern per thousand lines of comments.
    pub(crate) fn rates(&self) -> [f64; PATTERNS.len()] {
        self.found.map(|found| found as f64 * 1_000.0 / self.lines.max(1) as f64)
    }
}

/// A line of a comment that matches a pattern.
pub(crate) struct Place<'a> {
    pub(crate) path: &'a str,
    pub(crate) line: usize,
    pub(crate) text: &'a str,
    /// Matches of each pattern in the line.
    pub(crate) found: [usize; PATTERNS.len()],
}

/// Counts the matches of the patterns in each crate. A crate is a directory or a file directly in `crates/` or
/// `tests/`.
pub(crate) fn of_crates<'a>(sources: impl IntoIterator<Item = &'a Source>) -> BTreeMap<String, Counts> {
    let mut crates = BTreeMap::<String, Counts>::new();
    for source in sources {
        let Some(name) = crate_of(source) else { continue };
        let counts = crates.entry(name.to_owned()).or_default();
        for (_, text) in comments(source) {
            counts.lines += 1;
            for (sum, found) in counts.found.iter_mut().zip(matches(text)) {
                *sum += found;
            }
        }
    }
    crates
}

/// Returns the lines of comments in `source` that match a pattern. Returns no lines if `source` is not a Rust file of a
/// crate.
pub(crate) fn places(source: &Source) -> impl Iterator<Item = Place<'_>> {
    let of_crate = crate_of(source).into_iter().flat_map(|_| comments(source));
    let place = |(line, text)| Place { path: &source.path, line, text, found: matches(text) };
    of_crate.map(place).filter(|place| place.found != [0; PATTERNS.len()])
}

/// Returns the crate of a Rust file in the form `crates/NAME` or `tests/NAME`.
fn crate_of(source: &Source) -> Option<&str> {
    let (dir, rest) = source.path.split_once('/').filter(|(dir, _)| ["crates", "tests"].contains(dir))?;
    let name = rest.split('/').next()?;
    source.is("rs").then(|| &source.path[..dir.len() + 1 + name.len()])
}

/// Returns the comments of a file that have text, each with its line number. A comment begins at `//` that is the first
/// text of its line or follows a space.
fn comments(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.lines().filter_map(|(number, line)| {
        let start = line.find("//")?;
        let (before, text) = line.split_at(start);
        let is_comment = before.trim().is_empty() || before.ends_with(' ');
        let has_text = !text.trim_matches(['/', '!', ' ']).is_empty();
        (is_comment && has_text).then_some((number, text))
    })
}

/// Counts the matches of each pattern in a line.
fn matches(text: &str) -> [usize; PATTERNS.len()] {
    let words = Words::of(text);
    MATCHERS.map(|matcher| {
        let (mut found, mut at) = (0, 0);
        while at < words.spans.len() {
            let taken = matcher(&words, at);
            found += usize::from(taken > 0);
            at += taken.max(1);
        }
        found
    })
}

fn what(words: &Words, first: usize) -> usize {
    match words.at(first) {
        "what" | "whatever" if AFTER_WHAT.contains(&words.next(first)) => 2,
        "what" if [". ", "; ", ": "].iter().any(|end| words.before(first).ends_with(end)) => 1,
        _ => 0,
    }
}

fn one(words: &Words, first: usize) -> usize {
    match words.at(first) {
        "ones" => 1,
        "those" if AFTER_THOSE.contains(&words.next(first)) => 2,
        word if BEFORE_ONE.contains(&word) && words.next(first) == "one" => 2,
        "one" if ["that", "which", "whose"].contains(&words.next(first)) => 2,
        "one" if words.next(first) == "of" && words.next(first + 1) == "them" => 3,
        _ => 0,
    }
}

fn meanwhile(words: &Words, first: usize) -> usize {
    usize::from(["meanwhile", "beside", "besides", "whatever"].contains(&words.at(first)))
}

/// The words of a line, in lower case.
struct Words {
    text: String,
    /// Start and end of each word.
    spans: Vec<(usize, usize)>,
}

impl Words {
    fn of(text: &str) -> Words {
        let text = text.to_ascii_lowercase();
        let (mut spans, mut start) = (Vec::new(), None);
        for (at, found) in text.char_indices().chain([(text.len(), ' ')]) {
            let is_part = found.is_alphanumeric() || found == '_';
            match start {
                None if is_part => start = Some(at),
                Some(from) if !is_part => {
                    spans.push((from, at));
                    start = None;
                }
                _ => {}
            }
        }
        Words { text, spans }
    }

    /// Returns the word with this index, or nothing after the last word.
    fn at(&self, index: usize) -> &str {
        self.spans.get(index).map_or("", |(start, end)| &self.text[*start..*end])
    }

    /// Returns the word after the word with this index, or an empty text if the two words are not separated by exactly
    /// one space.
    fn next(&self, index: usize) -> &str {
        let gap = self.spans.get(index).zip(self.spans.get(index + 1));
        let is_space = gap.is_some_and(|((_, end), (start, _))| &self.text[*end..*start] == " ");
        if is_space { self.at(index + 1) } else { "" }
    }

    /// Returns the text before a word.
    fn before(&self, index: usize) -> &str {
        self.spans.get(index).map_or("", |(start, _)| &self.text[..*start])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_is_counted_as_whole_words() {
        for (text, expected) in [
            ("// What is sent; what the node owns, whatever it has.", [3, 0, 1]),
            ("// It stands for: what follows. What follows is sent.", [2, 0, 0]),
            ("/// Somewhat is, what-is, what  is, a `what` is.", [0, 0, 0]),
            ("// The ones, those that wait, another one, the one that leads, one of them.", [0, 5, 0]),
            ("// No one-off, those who lead, zone that, someone whose, one  that.", [0, 2, 0]),
            ("// Meanwhile, besides and beside: `whatever`.", [0, 0, 4]),
            ("// Beside_it, besiege.", [0, 0, 0]),
        ] {
            assert_eq!(matches(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_counted_by_crate() {
        let text = "//! What is it.\n//!\n\nlet one = 1; // those that wait\nlet url = \"http://a\"; // what is\n    /// Sent.\n";
        let sources = [
            Source::planted("crates/a/src/lib.rs", text),
            Source::planted("crates/a/tests/b.rs", "// meanwhile\n"),
            Source::planted("tests/readme.rs", "// Sent.\n"),
            Source::planted("crates/a/README.md", "// What is it.\n"),
            Source::planted("benches/c/src/lib.rs", "// What is it.\n"),
        ];
        let counts = |lines, found| Counts { lines, found };
        let expected = [("crates/a", counts(4, [1, 1, 1])), ("tests/readme.rs", counts(1, [0, 0, 0]))];
        assert!(of_crates(&sources).into_iter().eq(expected.map(|(name, counts)| (name.to_owned(), counts))));
        let places: Vec<usize> = places(&sources[0]).map(|place| place.line).collect();
        assert_eq!(places, [1, 4]);
        assert_eq!(counts(4, [1, 2, 0]).rates(), [250.0, 500.0, 0.0]);
    }
}
