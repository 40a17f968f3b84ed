//! The command `id next`, which requests ids of a series.

use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits};
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::MAX_COUNT;
use seq_ids::{Id, NotAnId};
use seq_proto::v1::{IdRun, NextIdsRequest, NextIdsResponse};
use serde::{Serialize, Serializer};

use crate::id_client::IdClient;

/// Number of ids that are written to stdout at once.
const IDS_PER_WRITE: usize = 4_096;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr id next tweets\n  seqsvr id next tweets -n 3      (an id a line)\n  \
                        seqsvr id next media --lane 1341    (the lane, such as a shard, where callers name it)\n  \
                        seqsvr id next tweets --after 1541815603606036480    (all ids are above it)\n  \
                        seqsvr id next tweets -n 3 -o json | jq -r '.ids[]'\n\n\
                        Exit codes: 0 done, 1 refused (UNKNOWN_SERIES, SERIES_RETIRED, SERIES_ENDED, AFTER_TOO_FAR), 2 a wrong \
                        count, lane, file or address, 3 refused for now, 4 no node responded, 7 the deadline passed. An \
                        error states whether ids may have been consumed: they are a gap, never a duplicate.")]
pub struct NextArgs {
    /// Name of the series.
    #[arg(value_name = "SERIES")]
    series: String,
    /// Count of ids, of a timed series up to 10,000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    count: u32,
    /// The lane, where callers name it.
    #[arg(long, value_name = "N")]
    lane: Option<u32>,
    /// An id that all ids are above, for example the last id that the caller has seen.
    #[arg(long, value_name = "ID", value_parser = after)]
    after: Option<u64>,
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

/// Parses an id or 0. All ids are above 0.
fn after(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { text.parse::<Id>().map(Id::get).map_err(|error: NotAnId| error.to_string()) }
}

/// The ids of a response.
#[derive(Serialize)]
struct Taken<'a> {
    series: &'a str,
    lane: u32,
    #[serde(serialize_with = "digits")]
    epoch: u64,
    #[serde(serialize_with = "as_texts")]
    ids: Vec<u64>,
}

/// Serialises ids as strings of their digits.
fn as_texts<S: Serializer>(ids: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(ToString::to_string))
}

pub(super) async fn run(args: &NextArgs, output: &Output) -> anyhow::Result<Exit> {
    let NextArgs { series, count, lane, after, .. } = args;
    let request = NextIdsRequest { series: series.clone(), count: *count, lane: *lane, after: *after };
    let response = IdClient::new(&args.target, args.timeout)?.next(&request).await?;
    let ids = expand(&response, *count).ok_or_else(|| {
        let message =
            format!("the response has not {count} ids of series {series}, which are ascending and below 2^63");
        Failure::new(Exit::Failed, message).hint("the node runs another release, or has a fault: its log is of use")
    })?;
    let taken = Taken { series, lane: response.lane, epoch: response.epoch, ids };
    if output.is_json() {
        output.json(&taken)?;
    } else if output.is_wide() {
        let mut table = Table::new(&["id", "lane", "epoch"]);
        taken
            .ids
            .iter()
            .for_each(|id| table.row([*id, taken.lane.into(), taken.epoch].map(|number| number.to_string())));
        output.table(&table)?;
    } else {
        for ids in taken.ids.chunks(IDS_PER_WRITE) {
            output.text(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())?;
        }
    }
    Ok(Exit::Ok)
}

/// Returns the ids that are in the runs of a response. Returns `None` if they are not ascending, not valid, or not as
/// many as `count`.
fn expand(response: &NextIdsResponse, count: u32) -> Option<Vec<u64>> {
    let is_step = response.step > 0;
    let total: u64 = response.runs.iter().map(|run| u64::from(run.count)).sum();
    if !is_step || total != u64::from(count) {
        return None;
    }
    let mut ids = Vec::with_capacity(count as usize);
    for IdRun { first, count } in &response.runs {
        let last = u64::from(count.checked_sub(1)?).checked_mul(response.step)?.checked_add(*first)?;
        let is_above = ids.last().is_none_or(|before| before < first);
        if !is_above || *first == 0 || last > Id::MAX {
            return None;
        }
        ids.extend((0..u64::from(*count)).map(|place| first + place * response.step));
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(step: u64, runs: &[(u64, u32)], count: u32) -> Option<Vec<u64>> {
        let runs = runs.iter().map(|(first, count)| IdRun { first: *first, count: *count }).collect();
        expand(&NextIdsResponse { runs, step, epoch: 1, lane: 0 }, count)
    }

    #[test]
    fn runs_are_expanded_by_their_step() {
        assert_eq!(ids(1, &[(5, 1)], 1), Some(vec![5]));
        assert_eq!(ids(2, &[(5, 3), (100, 2)], 5), Some(vec![5, 7, 9, 100, 102]));
        assert_eq!(ids(1, &[(Id::MAX - 1, 2)], 2), Some(vec![Id::MAX - 1, Id::MAX]));
    }

    #[test]
    fn a_response_that_is_not_the_requested_ids_is_refused() {
        assert_eq!(ids(1, &[(5, 2)], 3), None, "too few");
        assert_eq!(ids(1, &[(5, 4)], 3), None, "too many");
        assert_eq!(ids(0, &[(5, 2)], 2), None, "no step");
        assert_eq!(ids(1, &[(0, 1)], 1), None, "no id");
        assert_eq!(ids(1, &[(5, 0), (6, 1)], 1), None, "an empty run");
        assert_eq!(ids(1, &[(5, 2), (6, 1)], 3), None, "a repeated id");
        assert_eq!(ids(1, &[(Id::MAX, 2)], 2), None, "past the last id");
        assert_eq!(ids(u64::MAX, &[(5, 3)], 3), None, "an overflow");
    }

    #[test]
    fn an_id_to_be_above_is_an_id_or_0() {
        assert_eq!([after("0"), after("9223372036854775807")], [Ok(0), Ok(Id::MAX)]);
        for text in ["-1", "+5", "1.5", "1e18", "9223372036854775808", ""] {
            let refusal = format!("{text:?} is no id: ids have digits alone, and are 1 to 9223372036854775807");
            assert_eq!(after(text), Err(refusal));
        }
    }
}
