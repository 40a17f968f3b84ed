//! The command `man`, which prints the manual page of one command or writes the pages of all commands.
//!
//! The pages are generated from the definition of the command line, so they agree with `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap_mangen::Man;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr man | man -l -\n  seqsvr man store replace | man -l -\n  \
                        seqsvr man --dir /usr/local/share/man/man1\n\n\
                        Exit codes: 0 printed or written, 1 a file cannot be written, 2 there is no such command.")]
pub(crate) struct ManArgs {
    /// The command, as in `seqsvr man store replace`; by default, the page of the program.
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Writes the pages of all commands into this directory, as seqsvr.1, seqsvr-next.1 and so on; creates the
    /// directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    /// Returns whether the command prints a page to its output instead of writing files.
    pub(crate) fn prints_page(&self) -> bool {
        self.dir.is_none()
    }
}

#[derive(Serialize)]
struct Written {
    dir: String,
    pages: Vec<String>,
}

pub(crate) fn run(args: &ManArgs, program: clap::Command, output: &Output) -> anyhow::Result<Exit> {
    let program = named(program);
    let Some(dir) = &args.dir else {
        let page = page(find(program, &args.command)?)?;
        output.text(&page)?;
        return Ok(Exit::Ok);
    };
    let pages = write_all(program, dir)?;
    if output.is_json() {
        output.json(&Written { dir: dir.display().to_string(), pages })?;
    } else {
        output.line(format_args!("{} pages in {}", pages.len(), dir.display()))?;
    }
    Ok(Exit::Ok)
}

/// Prepares the definition of the program for its pages, so that each command has the name of its page. Omits the
/// command `help`, because it only prints the help of other commands.
fn named(program: clap::Command) -> clap::Command {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    program
}

fn find(program: clap::Command, words: &[String]) -> Result<clap::Command, Failure> {
    let mut command = program;
    for word in words {
        let Some(inner) = command.find_subcommand(word) else {
            let commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            let message = format!("{name} has no command {word:?}");
            let failure = Failure::new(Exit::Usage, message);
            return Err(if commands.is_empty() {
                failure
            } else {
                failure.hint(format!("its commands are {}", commands.join(", ")))
            });
        };
        command = inner.clone();
    }
    Ok(command)
}

/// Writes the page of each command to a file in `dir`. Returns the names of the files in alphabetical order.
fn write_all(program: clap::Command, dir: &Path) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut names = Vec::new();
    let mut left = vec![program];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().cloned());
        let name = format!("{}.1", command.get_display_name().unwrap_or(command.get_name()));
        let path = dir.join(&name);
        fs::write(&path, page(command)?).with_context(|| format!("cannot write {}", path.display()))?;
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// Returns the manual page of a command in the format roff. The text after the command's help, e.g. its examples and
/// exit codes, becomes sections of the page.
fn page(command: clap::Command) -> anyhow::Result<String> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    let man = Man::new(command).manual("seqsvr").source(format!("seqsvr {}", seq_command::version::VERSION));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut page = String::from_utf8(page)?;
    page.push_str(&sections(&after));
    Ok(page)
}

/// Converts the text after a command's help to sections of a manual page. Each paragraph becomes one section.
fn sections(after: &str) -> String {
    let mut sections = String::new();
    for paragraph in after.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        if first.starts_with("Example") {
            // `.nf` turns the filling of lines off, so that each example keeps its own line.
            sections.push_str(&format!(".SH EXAMPLES\n.nf\n{}.fi\n", escaped(rest)));
        } else if let Some(codes) = paragraph.strip_prefix("Exit code") {
            let codes = codes.trim_start_matches('s').trim_start_matches([':', ' ']);
            sections.push_str(&format!(".SH \"EXIT STATUS\"\n{}", escaped(codes)));
        } else {
            sections.push_str(&format!(".SH NOTES\n{}", escaped(paragraph)));
        }
    }
    sections
}

/// Escapes a text so that roff prints all of it, instead of reading a part as a command or an escape sequence.
fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let text = line.replace('\\', "\\e").replace('-', "\\-");
        if text.starts_with(['.', '\'']) { format!("\\&{text}\n") } else { format!("{text}\n") }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn program() -> clap::Command {
        named(crate::cli::Cli::command())
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let names = write_all(program(), dir.path()).unwrap();
        for name in ["seqsvr.1", "seqsvr-next.1", "seqsvr-store.1", "seqsvr-store-replace.1", "seqsvr-man.1"] {
            assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("-help")), "{names:?}");
        for name in &names {
            let page = fs::read_to_string(dir.path().join(name)).unwrap();
            assert!(page.contains(".TH ") && page.contains(".SH NAME"), "{name}: {page}");
        }
    }

    #[test]
    fn a_page_has_the_examples_line_for_line() {
        let words = ["store".to_owned(), "members".to_owned()];
        let page = page(find(program(), &words).unwrap()).unwrap();
        let examples = ".SH EXAMPLES\n.nf\n  seqsvr store members \\-\\-set sets/three\\-node.toml\n  seqsvr store members \
                        \\-\\-addr http://127.0.0.1:7301 \\-o json\n.fi\n";
        assert!(page.contains(examples) && page.contains(".SH \"EXIT STATUS\""), "{page}");
        assert!(page.contains("SEQSVR_ADDR"), "{page}");
    }

    #[test]
    fn roff_finds_no_command_in_a_text() {
        assert_eq!(escaped(".so /etc/passwd\na\\b -x\n'ft"), "\\&.so /etc/passwd\na\\eb \\-x\n\\&'ft\n");
    }

    #[test]
    fn an_unknown_command_is_named() {
        let error = find(program(), &["store".to_owned(), "ad".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "seqsvr store has no command \"ad\"");
    }
}
