//! The output of a run: tables as they are measured, then the goals.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use indicatif::{ProgressBar, ProgressStyle};

use crate::plot::Plot;

/// Collects the goals; writes the plots.
pub(crate) struct Report {
    dir: PathBuf,
    goals: Vec<Goal>,
}

struct Goal {
    what: String,
    measured: f64,
    most: f64,
}

impl Report {
    pub(crate) fn new(dir: PathBuf) -> Report {
        Report { dir, goals: Vec::new() }
    }

    /// Shows a progress bar of `steps` steps.
    pub(crate) fn progress(&self, what: &'static str, steps: usize) -> ProgressBar {
        let bar = ProgressBar::new(steps as u64).with_message(what);
        let style = ProgressStyle::with_template("{msg:12} {wide_bar} {pos}/{len} {elapsed}");
        bar.set_style(style.expect("a good template"));
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    /// Prints a table.
    pub(crate) fn table(&self, title: &str, head: &[&str], rows: &[Vec<String>]) {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN).set_header(head).add_rows(rows);
        println!("\n{title}\n\n{table}");
    }

    /// Writes a plot under this name.
    pub(crate) fn draw(&self, name: &str, plot: &Plot) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        std::fs::write(self.dir.join(name).with_extension("svg"), plot.svg())
    }

    /// Adds a goal: `measured` at most `most`.
    pub(crate) fn goal(&mut self, what: impl Into<String>, measured: f64, most: f64) {
        self.goals.push(Goal { what: what.into(), measured, most });
    }

    /// Prints the goals; returns whether one was missed.
    pub(crate) fn conclude(&self) -> bool {
        println!();
        for Goal { what, measured, most } in &self.goals {
            let verdict = if measured <= most { "PASS" } else { "FAIL" };
            println!(
                "{verdict} {what}: {measured:.4}, at most {most:.4}, ratio {:.2}",
                measured / most.max(f64::MIN_POSITIVE)
            );
        }
        self.goals.iter().any(|goal| goal.measured > goal.most)
    }
}

/// Formats a number with a unit prefix.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2} G", value / 1e9),
        value if value >= 1e6 => format!("{:.1} M", value / 1e6),
        value if value >= 1e4 => format!("{:.0} k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}
