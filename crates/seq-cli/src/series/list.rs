//! The command `series list`, which lists the series of the cluster.

use std::time::Duration;

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, grouped};
use seq_command::target::Target;
use seq_command::time_limit::time;

use super::view::SeriesView;
use crate::id_client::IdClient;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr series list\n  seqsvr series list -o json | jq -r '.items[].name'\n\n\
                        Exit codes: 0 listed, 1 refused, 2 a wrong file or address, 3 refused for now, 4 no node \
                        responded, 7 the deadline passed.")]
pub struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

pub(super) async fn run(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let series = IdClient::new(&args.target, args.timeout)?.list().await?;
    let views: Vec<SeriesView> = series.iter().map(SeriesView::new).collect();
    if output.is_json() {
        output.json_items(&views)?;
    } else if views.is_empty() {
        output.line("no series; `seqsvr series create` makes one")?;
    } else {
        output.table(&table(&views, output.is_wide()))?;
    }
    Ok(Exit::Ok)
}

fn table(views: &[SeriesView], is_wide: bool) -> Table {
    let heading = ["series", "ids", "lanes", "lane by", "last", "state", "created", "sections"];
    let shown = if is_wide { heading.len() } else { heading.len() - 1 };
    let mut table = Table::new(&heading[..shown]).right(&[2]);
    for view in views {
        let sections = format!("{}..{}", view.first_section, view.first_section.saturating_add(view.sections));
        let cells = [
            view.name.clone(),
            view.ids(),
            grouped(view.lanes.into()),
            view.lane_by().to_owned(),
            view.last(),
            view.state.name().to_owned(),
            view.created.clone(),
            sections,
        ];
        table.row(cells.into_iter().take(shown));
    }
    table
}
