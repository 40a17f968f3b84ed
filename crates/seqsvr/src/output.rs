//! What commands print: results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people: aligned columns, one value a line.
    #[default]
    Plain,
    /// For programs: one JSON object; 64-bit numbers are JSON numbers.
    Json,
    /// As plain, with the columns that rarely matter.
    Wide,
}

/// Where and how results go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        Output { format }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// Whether a progress bar may be drawn, which goes to stderr.
    pub(crate) fn draws_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Prints one line of a result.
    ///
    /// # Errors
    /// When stdout cannot be written, as when the reader of a pipe is gone.
    pub(crate) fn line(&self, line: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{line}")
    }

    /// Prints one JSON object on a line of its own, and flushes it: a program may be waiting for it.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, value)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }
}
