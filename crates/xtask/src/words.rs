//! Prints a report on words. The report has the rates of a few words per thousand lines of comments and documents, the
//! rates of stiff sentences in each crate, and the places of words that the glossary does not allow. The report
//! compares nothing with limits; the module `tidy` compares the rates of sentences with limits.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::sentences::{self, PATTERNS};
use crate::source::{self, Source};
use crate::tidy;

/// Page with the table of words that are not used.
const GLOSSARY: &str = "docs/glossary.md";

/// Heading of that table.
const HEADING: &str = "## Words that are not used";

/// Groups of words whose rates are printed. The first three groups are words for people, and the last group is words of
/// the field.
const RATES: [(&str, &[&str]); 4] = [
    ("somebody, nobody", &["somebody", "nobody", "everybody", "anybody"]),
    ("who(ever)", &["who", "whom", "whoever"]),
    ("tell, say, hear", &["tell", "tells", "told", "say", "says", "said", "hear", "hears", "heard"]),
    (
        "request, response, reply",
        &["request", "requests", "response", "responses", "reply", "replies", "requested", "replied"],
    ),
];

/// Arguments of `words`.
#[derive(Args)]
pub(crate) struct WordsArgs {
    /// Only files whose path begins with PATH.
    #[arg(value_name = "PATH", default_value = "")]
    under: String,
    /// Print every place, not only the files with the most places.
    #[arg(long)]
    places: bool,
}

/// A line of prose.
struct Prose<'a> {
    path: &'a str,
    line: usize,
    text: &'a str,
}

/// Prints the report.
pub(crate) fn run(root: &Path, args: &WordsArgs) -> anyhow::Result<()> {
    let sources = source::read_all(root)?;
    let glossary = sources.iter().find(|source| source.path == GLOSSARY).context("docs/glossary.md is missing")?;
    let replaced = replaced(&glossary.text);
    anyhow::ensure!(!replaced.is_empty(), "{GLOSSARY} has no table under {HEADING:?}");
    let lines: Vec<Prose<'_>> = sources
        .iter()
        .filter(|source| source.path != GLOSSARY && source.path.starts_with(&args.under))
        .flat_map(prose)
        .collect();
    println!("{} lines of comments and documents; for each thousand of them:", lines.len());
    for (name, words) in RATES {
        let found: usize = words.iter().map(|word| lines.iter().filter(|line| has(line.text, word)).count()).sum();
        println!("  {:>6.1}  {name}", found as f64 * 1_000.0 / lines.len().max(1) as f64);
    }
    let of_args = || sources.iter().filter(|source| source.path.starts_with(&args.under));
    print_sentences(of_args(), args.places);
    println!("\nwords that the glossary does not use:");
    for word in replaced {
        let places: Vec<&Prose<'_>> = lines.iter().filter(|line| has(line.text, &word)).collect();
        if !places.is_empty() {
            println!("  {:>5}  {word}: {}", places.len(), summary(&places));
            for place in places.iter().filter(|_| args.places) {
                println!("           {}:{}: {}", place.path, place.line, place.text.trim());
            }
        }
    }
    Ok(())
}

/// Prints the rates of stiff sentences in each crate, and the limits of the rates. If `places` is set, also prints each
/// line with a match.
fn print_sentences<'a>(sources: impl Iterator<Item = &'a Source> + Clone, places: bool) {
    println!("\nsentences without a noun, for each thousand lines of comments, with the limits:");
    println!("  {:<33}{}", "", PATTERNS.map(|pattern| format!("  {pattern:<24}")).concat());
    for (name, counts) in sentences::of_crates(sources.clone()) {
        let rates = counts.rates().into_iter().zip(tidy::SENTENCE_LIMITS);
        let rates: String = rates.map(|(rate, limit)| format!("  {:<24}", format!("{rate:.1} of {limit}"))).collect();
        println!("  {name:<20} {:>6} lines{}", counts.lines, rates.trim_end());
    }
    for place in sources.filter(|_| places).flat_map(sentences::places) {
        let found = PATTERNS.iter().zip(place.found).filter(|(_, found)| *found > 0).map(|(name, _)| *name);
        println!("  {}:{}: {}: {}", place.path, place.line, found.collect::<Vec<_>>().join("; "), place.text.trim());
    }
}

/// Returns the words in the first column of the glossary's table.
fn replaced(glossary: &str) -> Vec<String> {
    let table = glossary.lines().skip_while(|line| *line != HEADING).filter(|line| line.starts_with("| `"));
    table
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// Returns the comments of a source file, or all lines of a document.
fn prose(source: &Source) -> Vec<Prose<'_>> {
    let document = source.is("md");
    let comment: &[&str] = match () {
        () if source.is("rs") || source.is("proto") => &["//"],
        () if source.is("toml") || source.is("py") || source.is("sh") => &["#"],
        () => &[],
    };
    source
        .lines()
        .filter_map(|(line, text)| {
            let start = if document { Some(0) } else { comment.iter().find_map(|mark| text.find(mark)) };
            start.map(|start| Prose { path: &source.path, line, text: &text[start..] })
        })
        .filter(|line| !line.text.trim().is_empty())
        .collect()
}

/// Returns whether the text has the whole word, in any case.
fn has(text: &str, word: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let part = |found: char| found.is_ascii_alphanumeric() || found == '_';
    text.match_indices(word)
        .any(|(at, found)| !text[..at].ends_with(part) && !text[at + found.len()..].starts_with(part))
}

/// Returns the files with the most places.
fn summary(places: &[&Prose<'_>]) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        *files.entry(place.path).or_default() += 1;
    }
    let mut files: Vec<(&str, usize)> = files.into_iter().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most: Vec<String> = files.iter().take(3).map(|(path, count)| format!("{path} ({count})")).collect();
    most.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_found_in_comments_alone() {
        let source =
            Source::planted("a.rs", "let who = 1; // Who asks\n/// whole\nfn nobody() {}\n//! `hears`, heard.\n");
        let lines = prose(&source);
        let found = |word| lines.iter().filter(|line| has(line.text, word)).map(|line| line.line).collect::<Vec<_>>();
        assert_eq!(
            [found("who"), found("nobody"), found("hears"), found("heard")],
            [vec![1], vec![], vec![4], vec![4]]
        );
    }

    #[test]
    fn the_words_are_those_of_the_first_column() {
        let page = "| `no` | x |\n## Words that are not used\n\n| instead of | use |\n|---|---|\n| `life`, `in line` | `run` |\n";
        assert_eq!(replaced(page), ["life", "in line"]);
    }
}
