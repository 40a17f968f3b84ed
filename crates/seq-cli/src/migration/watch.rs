//! Watches a migration until all its sections have arrived in the target set or have returned.
//!
//! A migration is part of the state of the store, so it continues after the command has ended. If the store has no
//! leader for a while, the watch continues and prints its next line later.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::signals::Interrupts;
use seq_command::store_client::StoreClient;
use seq_observe::migration::{MigrationView, Phase, details, done, line, speed};
use seq_proto::v1::MigrationStatus;

/// Interval between requests while a progress bar is drawn.
const BAR_INTERVAL: Duration = Duration::from_millis(250);

/// Interval between requests for the status, and so between lines of output, if no progress bar is drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Options of a watch.
pub(crate) struct WatchOptions {
    /// Time after which the watch ends; `None` means never.
    pub(crate) timeout: Option<Duration>,
    /// Flags by which another command finds the same cluster.
    pub(crate) flags: String,
}

/// Watches the migration `id` until all its sections have arrived or returned, and returns its last status. Draws a
/// progress bar if the output is a terminal, and otherwise prints the status every second.
pub(crate) async fn watch(
    store: &mut StoreClient,
    id: u64,
    options: &WatchOptions,
    output: &Output,
) -> anyhow::Result<MigrationStatus> {
    let draws = std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && !output.is_json();
    let mut display = Display { output, bar: None };
    let mut interrupts = Interrupts::new()?;
    let mut ticks = tokio::time::interval(if draws { BAR_INTERVAL } else { LINE_INTERVAL });
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let since = Instant::now();
    let mut last: Option<MigrationStatus> = None;
    loop {
        store.restart_time();
        let requested = async {
            ticks.tick().await;
            store.migration(id).await
        };
        let requested = tokio::select! {
            requested = requested => requested,
            _ = interrupts.next() => {
                display.clear();
                return Err(detached(id, last.as_ref(), options).into());
            }
        };
        match requested {
            Ok(migration) => {
                display.show(&migration, draws)?;
                if !Phase::of(&migration).moves() {
                    display.clear();
                    return Ok(migration);
                }
                last = Some(migration);
            }
            Err(error) if is_transient(&error) => display.retry(&error),
            Err(error) => {
                display.clear();
                return Err(error);
            }
        }
        if let Some(timeout) = options.timeout.filter(|timeout| since.elapsed() >= *timeout) {
            display.clear();
            return Err(timed_out(id, timeout, last.as_ref(), options).into());
        }
    }
}

/// Returns whether a repeated request may succeed after this error, because the store has no leader at the moment or no
/// member of the store responds.
fn is_transient(error: &anyhow::Error) -> bool {
    let exit = error.downcast_ref::<Failure>().map(Failure::exit);
    matches!(exit, Some(Exit::Unhealthy | Exit::CannotConnect | Exit::Deadline))
}

/// Returns the command that watches a migration.
pub(crate) fn command(id: u64, flags: &str) -> String {
    format!("seqsvr migration watch {id}{flags}")
}

fn detached(id: u64, last: Option<&MigrationStatus>, options: &WatchOptions) -> Failure {
    let message = format!("detached: migration {id} continues at the store{}", progress(last));
    Failure::new(Exit::Interrupted, message).hint(format!("`{}` watches it again", command(id, &options.flags)))
}

fn timed_out(id: u64, timeout: Duration, last: Option<&MigrationStatus>, options: &WatchOptions) -> Failure {
    let message = format!("migration {id} is still in progress after {timeout:?}{}", progress(last));
    let hint = format!("the migration continues at the store: `{}` watches it again", command(id, &options.flags));
    Failure::new(Exit::Deadline, message).hint(hint)
}

fn progress(last: Option<&MigrationStatus>) -> String {
    last.map_or_else(String::new, |migration| format!("; {}", line(migration)))
}

/// Display of a watched migration, as a progress bar, as lines of text or as JSON.
struct Display<'a> {
    output: &'a Output,
    bar: Option<ProgressBar>,
}

impl Display<'_> {
    fn show(&mut self, migration: &MigrationStatus, draws: bool) -> std::io::Result<()> {
        if self.output.is_json() {
            return self.output.json(&MigrationView::new(migration));
        }
        if !draws {
            return self.output.line(line(migration));
        }
        // The first line has the progress bar and short figures. The second line has a text, which is cut at the width
        // of the terminal.
        let bar = self.bar.get_or_insert_with(|| {
            self.output.progress_bar(migration.sections.into(), "{human_pos}/{human_len}  {prefix}\n{wide_msg}")
        });
        // The position is set last, because the bar is also drawn, with its old position, when the other parts are set.
        bar.set_message(format!("(Ctrl-C detaches){}", details(migration)));
        let phase = Phase::of(migration);
        bar.set_prefix(match phase {
            Phase::Open => speed(migration),
            phase => format!("{}  {}", phase.name(), speed(migration)),
        });
        bar.set_position(done(migration).into());
        bar.tick();
        Ok(())
    }

    /// Shows that the store does not respond at the moment.
    fn retry(&self, error: &anyhow::Error) {
        let text = format!("no response, trying again: {error:#}");
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.tick();
            }
            None => note(text),
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
