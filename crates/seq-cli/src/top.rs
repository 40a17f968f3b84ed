//! The command `top`, which shows the nodes, sections, migrations and events of a cluster live in a terminal.
//!
//! [`observing`] makes one observation of the cluster after another, a thread reads the keys that the user presses, and
//! a loop draws the page. [`page::page`] computes the rows of the page from the last observation, the state of the
//! screen and the size of the terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::style::{Color, Modifier, Style};
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::signals::Interrupts;
use seq_command::store_client::SetAddress;
use seq_command::time_limit::time;
use seq_command::{environment, security};
use seq_observe::{Observation, Observer};
use tokio::sync::{mpsc, watch};

use crate::section::activity::TopArg;
use keys::Action;
use observing::SECTIONS;
use page::page;
use row::{Look, Row, Seen};
use screen::Screen;

mod columns;
mod keys;
mod observing;
mod page;
mod row;
mod screen;
mod tables;

/// Pause between the two observations that `--once` makes. Rates are computed from the difference between the two.
const ONCE_PAUSE: Duration = Duration::from_secs(1);

/// Interval at which the page is drawn even if there is no new observation, because the page shows the age of the last
/// observation.
const REDRAW: Duration = Duration::from_secs(1);

/// Maximum number of keys that wait to be handled. A user presses fewer keys while one request is in flight.
const KEYS: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr top\n  seqsvr top --set three-node.toml\n  \
                        seqsvr top --once -o json | jq '.attention[].sentence'\n\n\
                        Keys: 1 nodes, 2 sections, 3 migrations, 4 events; arrows select, Enter shows a section at its owner, s changes the order, \
                        / filters by words, space pauses, ? lists the keys, q ends. Lines that are wider than the terminal are cut.\n\n\
                        With --addr, or without both, the view has all sets of the cluster; with --set the set of the file.\n\n\
                        Exit codes: 0 ended by q or shown with --once, 1 the output is no terminal, 2 a wrong file or address, \
                        4 no node responded at the start, 130 interrupted.")]
pub struct TopArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Time between two observations.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    interval: Duration,
    /// Timeout of each node.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    timeout: Duration,
    /// Order of the sections.
    #[arg(long, value_enum, value_name = "BY", default_value_t = TopArg::Numbers)]
    sort: TopArg,
    /// Shows the page once, after two observations a second apart, and ends.
    #[arg(long)]
    once: bool,
}

pub async fn run(args: TopArgs, output: &Output) -> anyhow::Result<Exit> {
    let seeds = args.target.nodes()?;
    let all_sets = !args.target.is_set_file();
    let mut observer = Observer::new(security::pool(), seeds, all_sets, args.timeout);
    let screen = Screen::new(args.sort.into());
    if args.once {
        return once(&mut observer, &screen, output).await;
    }
    if !std::io::stdout().is_terminal() || output.is_json() {
        let hint = "`seqsvr top --once` prints the page, and with -o json the observation";
        return Err(Failure::new(Exit::Failed, "the output is no terminal").hint(hint).into());
    }
    // The first observation is made before the page is drawn, so that a wrong address causes an error instead of an
    // empty page.
    let first = observer.observe(screen.by, SECTIONS).await?;
    let mut terminal = ratatui::try_init()?;
    let ended = live(&mut terminal, observer, screen, first, args.interval).await;
    ratatui::try_restore()?;
    ended
}

async fn once(observer: &mut Observer, screen: &Screen, output: &Output) -> anyhow::Result<Exit> {
    observer.observe(screen.by, SECTIONS).await?;
    tokio::time::sleep(ONCE_PAUSE).await;
    let observation = observer.observe(screen.by, SECTIONS).await?;
    if output.is_json() {
        output.json(&*observation)?;
        return Ok(Exit::Ok);
    }
    /// Width of a page that is not drawn on a terminal.
    const WIDTH: usize = 160;
    let seen = Seen { observation, age: Duration::ZERO, error: None, described: None };
    for tab in screen::Tab::ALL {
        let screen = Screen { tab, ..screen.clone() };
        for row in page(&seen, &screen, WIDTH, usize::MAX) {
            output.line(row.text.trim_end())?;
        }
        output.line("")?;
    }
    Ok(Exit::Ok)
}

/// Makes observations of a cluster and draws them, until the user ends the command.
async fn live(
    terminal: &mut DefaultTerminal,
    observer: Observer,
    mut screen: Screen,
    first: Arc<Observation>,
    interval: Duration,
) -> anyhow::Result<Exit> {
    let mut interrupts = Interrupts::new()?;
    let mut keys = events();
    let (wanted, wanting) = watch::channel(screen.wanted());
    let (send, mut observed) = mpsc::channel(1);
    let observing = observing::observe(observer, wanting, interval, send);
    tokio::pin!(observing);
    let mut redraw = tokio::time::interval(REDRAW);
    redraw.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut at = Instant::now();
    let mut seen = Seen { observation: first, age: Duration::ZERO, error: None, described: None };
    let plain = environment::refuses_color();
    loop {
        seen.age = at.elapsed();
        terminal.draw(|frame| {
            let area = frame.area();
            let rows = page(&seen, &screen, area.width.into(), area.height.into());
            for (row, y) in rows.iter().zip(area.y..area.bottom()) {
                frame.buffer_mut().set_stringn(area.x, y, &row.text, area.width.into(), style(row, plain));
            }
        })?;
        tokio::select! {
            // This future ends only after its receivers were dropped.
            () = &mut observing => {}
            Some(observed) = observed.recv() => match observed {
                Ok((observation, described)) => {
                    at = Instant::now();
                    seen = Seen { observation, age: Duration::ZERO, error: None, described };
                }
                Err(error) => seen.error = Some(error),
            },
            key = keys.recv() => match key {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if screen.press(key, &seen) == Action::End {
                        return Ok(Exit::Ok);
                    }
                    wanted.send_if_modified(|wanted| std::mem::replace(wanted, screen.wanted()) != screen.wanted());
                }
                // For example, the size of the terminal has changed, so the page is drawn again.
                Some(_) => {}
                None => return Ok(Exit::Ok),
            },
            _ = redraw.tick() => {}
            _ = interrupts.next() => return Ok(Exit::Interrupted),
        }
    }
}

/// Starts a thread that reads keys and other events from the terminal, and returns their receiver. The thread ends with
/// the process.
fn events() -> mpsc::Receiver<Event> {
    let (send, keys) = mpsc::channel(KEYS);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if send.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

/// Returns the style of a row. If `plain` is true, colours are turned off, and only the marks in the texts of the rows
/// distinguish faults from other rows.
fn style(row: &Row, plain: bool) -> Style {
    let style = Style::new();
    match row.look {
        _ if plain => style,
        Look::Plain => style,
        Look::Heading => style.add_modifier(Modifier::BOLD),
        Look::Fault => style.fg(Color::Red).add_modifier(Modifier::BOLD),
        Look::Attention => style.fg(Color::Yellow),
        Look::Selected => style.add_modifier(Modifier::REVERSED),
        Look::Old => style.add_modifier(Modifier::DIM),
    }
}
