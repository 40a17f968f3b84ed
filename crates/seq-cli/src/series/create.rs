//! The command `series create`, which creates a series.

use std::time::Duration;

use clap::{ArgGroup, Args};
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_command::time_limit;
use seq_core::plan::Fingerprint;
use seq_ids::{CounterShape, Id, Preset, Shape};
use seq_proto::series::{MAX_AHEAD_MS, SeriesShape};
use seq_proto::v1::CreateSeriesRequest;
use serde::Serialize;

use super::view::SeriesView;
use crate::cluster_client::Cluster;
use crate::settle::{self, Wanted};
use crate::shape_args::ShapeArgs;

/// Values that `--lead` accepts. The lead is the time by which the ceilings of a timed series are ahead of the clock.
const LEADS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("ids").required(true).args(["shape", "bits", "counter"]),
          after_help = "Examples:\n  seqsvr series create tweets --shape snowflake\n  \
                        seqsvr series create media --shape instagram    (callers name the shard with each request)\n  \
                        seqsvr series create events --bits 41/10/12 --epoch 2026-01-01 --spread --dry-run\n  \
                        seqsvr series create orders --counter --start 1000001 --yes -o json    (in scripts)\n  \
                        seqsvr series create photos --counter --increment 2 --offset 1 --max-id 2147483647\n\n\
                        A name is used once: a series is neither renamed nor removed, and its shape and lanes never change. \
                        The same command again changes nothing.\n\n\
                        Exit codes: 0 the series exists, 1 refused (SERIES_EXISTS, OLD_FORMAT, SET_OUTDATED), 2 a wrong \
                        name, shape, file or address, or no terminal to confirm on, 3 the store has no set or no majority, 4 \
                        no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not done within \
                        --timeout.")]
pub struct CreateArgs {
    /// Name of the series: 1 to 63 characters of a-z, 0-9, _, . and -.
    #[arg(value_name = "SERIES")]
    name: String,
    #[command(flatten)]
    shape: ShapeArgs,
    /// With --bits: callers name the lane, such as a shard, with each request; by default the server chooses it.
    #[arg(long, conflicts_with_all = ["shape", "counter"])]
    named_lanes: bool,
    /// With --bits: a new unit of time continues the sequence numbers of the unit before; by default it begins at 0, so
    /// that at low rates most ids are even.
    #[arg(long, conflicts_with_all = ["shape", "counter"])]
    spread: bool,
    #[command(flatten)]
    counter: CounterArgs,
    /// Number of sections for the lanes [default: 16, or one for each lane if there are fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    sections: Option<u32>,
    /// Time by which the ceilings of a timed series are ahead of the clock: ids continue for half of it to all of it
    /// without a store [default: 60s, with named lanes 2s]
    #[arg(long, value_name = "TIME", conflicts_with = "counter", value_parser = lead)]
    lead: Option<u32>,
    /// Time by which an id may be ahead of the clock in a burst, or after the clock went back; 0 is Twitter's rule
    /// [default: 1s]
    #[arg(long, value_name = "TIME", conflicts_with = "counter", value_parser = ahead)]
    ahead: Option<u32>,
    /// Accepts a shape whose ids end within ten years.
    #[arg(long)]
    allow_short: bool,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// A counter on the command line.
#[derive(Clone, Copy, Debug, Args)]
struct CounterArgs {
    /// Ids are the numbers of a counter.
    #[arg(long, conflicts_with_all = ["epoch", "unit"])]
    counter: bool,
    /// The first id. If --offset is given and the counter has no id with this value, the counter begins with its next
    /// larger id [default: the offset]
    #[arg(long, value_name = "ID", conflicts_with_all = ["shape", "bits"], value_parser = id)]
    start: Option<u64>,
    /// Distance of neighbouring ids, 1 to 2^32.
    #[arg(long, value_name = "N", conflicts_with_all = ["shape", "bits"], default_value_t = 1)]
    increment: u64,
    /// The smallest id of the counter, 1 to the increment [default: that of --start, or 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["shape", "bits"])]
    offset: Option<u64>,
    /// The largest id [default: 2^63-1]
    #[arg(long, value_name = "ID", conflicts_with_all = ["shape", "bits"], value_parser = id)]
    max_id: Option<u64>,
}

fn id(text: &str) -> Result<u64, String> {
    text.parse::<Id>().map(Id::get).map_err(|error| error.to_string())
}

fn lead(text: &str) -> Result<u32, String> {
    let lead = time_limit::time(text)?;
    if LEADS.contains(&lead) { whole_ms(lead) } else { Err("it must be from 1s to 600s".to_owned()) }
}

fn ahead(text: &str) -> Result<u32, String> {
    let most = Duration::from_millis(MAX_AHEAD_MS.into());
    let ahead = time_limit::time_or_none(text)?;
    if ahead <= most { whole_ms(ahead) } else { Err(format!("it must be from 0 to {most:?}")) }
}

fn whole_ms(time: Duration) -> Result<u32, String> {
    let ms = u32::try_from(time.as_millis()).ok().filter(|ms| Duration::from_millis((*ms).into()) == time);
    ms.ok_or_else(|| "it must be whole milliseconds".to_owned())
}

/// The outcome of the command.
#[derive(Serialize)]
struct Outcome<'a> {
    /// Name of the set that creates series.
    set: &'a str,
    series: &'a SeriesView,
    dry_run: bool,
    /// Addresses of the AllocSvrs that have not adopted the change yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pending: &'a [String],
    /// Whether the series was created by this command.
    changed: bool,
    /// Fingerprint of the plan of this change. It is absent if the series existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn run(args: &CreateArgs, output: &Output) -> anyhow::Result<Exit> {
    let shape = args.shape()?;
    let request = args.request(&shape);
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let dry_run = async |store: &mut StoreClient| store.create_series(&request, Mode::Show).await;
    let (mut set, foreseen) = cluster.into_series_writer(dry_run).await?;
    let view = SeriesView::stated(foreseen.series.as_ref())?;
    let existed = foreseen.existed;
    let (own, plan) = (set.info().name.clone(), Fingerprint(foreseen.fingerprint));
    let (name, dry_run) = (args.name.as_str(), args.confirm.plan.dry_run);
    let outcome = |view, changed, pending| Outcome {
        set: &own,
        series: view,
        dry_run,
        changed,
        pending,
        plan: plan::digits(plan).filter(|_| !existed),
    };
    if !output.is_json() {
        view.lines().into_iter().try_for_each(|line| output.line(line))?;
        if existed {
            output.line(format_args!("nothing to do: series {name} was created {}", view.created))?;
        } else {
            output.line(format_args!("set {own} would create it; its name, shape and lanes are permanent"))?;
            plan::print(plan, output)?;
        }
    }
    if !existed {
        args.confirm.plan.check(plan)?;
    }
    if existed || dry_run {
        if output.is_json() {
            output.json(&outcome(&view, false, &[]))?;
        }
        return Ok(Exit::Ok);
    }
    if !args.confirm.confirmed(&format!("create series {name} permanently"))? {
        return Ok(Exit::Declined);
    }
    set.store.restart_time();
    let made = set.store.create_series(&request, Mode::Make(plan)).await?;
    let pending = settle::until_known(&set.sets, Wanted::Series(name, false), output).await;
    if output.is_json() {
        output.json(&outcome(&SeriesView::stated(made.series.as_ref())?, made.created, &pending))?;
    } else {
        settle::note_pending(&pending);
        output.line(format_args!("series {name} is created"))?;
    }
    Ok(Exit::Ok)
}

impl CreateArgs {
    /// Returns the shape of the series that the arguments describe.
    ///
    /// # Errors
    /// The arguments do not describe a valid shape.
    fn shape(&self) -> Result<SeriesShape, Failure> {
        let Some(found) = self.shape.find()? else { return self.counter.shape() };
        let Preset { mut shape, mut named_lanes, ahead_ms, .. } = found;
        if self.shape.is_custom() {
            named_lanes = self.named_lanes;
            if let Shape::Timed(timed) = &mut shape {
                timed.spread = self.spread;
            }
        }
        if matches!(shape, Shape::Counter(_)) && (self.lead.is_some() || self.ahead.is_some()) {
            return Err(Failure::new(
                Exit::Usage,
                "--lead and --ahead are for ids with a time, and a counter has none",
            ));
        }
        Ok(SeriesShape { shape, named_lanes, ahead_ms: self.ahead.unwrap_or(ahead_ms) })
    }

    fn request(&self, shape: &SeriesShape) -> CreateSeriesRequest {
        CreateSeriesRequest {
            name: self.name.clone(),
            shape: Some(shape.into()),
            sections: self.sections.unwrap_or(0),
            start: self.counter.start.unwrap_or(0),
            lead_ms: self.lead.unwrap_or(0),
            allow_short: self.allow_short,
            dry_run: false,
            plan: 0,
        }
    }
}

impl CounterArgs {
    /// Returns the shape of the counter that the arguments describe. If there is no `--offset`, it computes the offset
    /// from `--start`, so that the first id is the value of `--start`.
    fn shape(&self) -> Result<SeriesShape, Failure> {
        let CounterArgs { start, increment, offset, max_id, .. } = *self;
        let residue = || {
            start
                .zip(Some(increment).filter(|increment| *increment > 0))
                .map(|(start, increment)| (start - 1) % increment + 1)
        };
        let offset = offset.or_else(residue).unwrap_or(1);
        let counter = CounterShape { offset, increment, max_id: max_id.unwrap_or(Id::MAX) };
        let shape = Shape::Counter(counter).checked().map_err(|error| {
            Failure::new(Exit::Usage, error.to_string()).hint("change --increment, --offset or --max-id")
        })?;
        Ok(SeriesShape { shape, named_lanes: false, ahead_ms: 0 })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn parse(line: &str) -> Result<CreateArgs, String> {
        let words = ["create", "x"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    fn shape(line: &str) -> Result<SeriesShape, String> {
        parse(line)?.shape().map_err(|failure| failure.to_string())
    }

    fn timed(line: &str) -> (String, bool, bool, u32) {
        let SeriesShape { shape, named_lanes, ahead_ms } = shape(line).unwrap();
        let Shape::Timed(timed) = shape else { panic!("{line}: no time") };
        let bits = format!("{}/{}/{} of {} ms", timed.time_bits, timed.lane_bits, timed.seq_bits, timed.unit_ms);
        (bits, timed.spread, named_lanes, ahead_ms)
    }

    #[test]
    fn presets_have_their_own_lanes_and_other_shapes_those_of_the_flags() {
        let of = |bits: &str, spread, named, ahead_ms| (bits.to_owned(), spread, named, ahead_ms);
        assert_eq!(timed("--shape snowflake"), of("41/10/12 of 1 ms", true, false, 1_000));
        assert_eq!(timed("--shape instagram --ahead 0"), of("40/13/10 of 1 ms", true, true, 0));
        assert_eq!(timed("--shape js53 --ahead 250ms"), of("31/6/16 of 1000 ms", true, false, 250));
        let custom = "--bits 41/10/12 --epoch 2026-01-01";
        assert_eq!(timed(custom), of("41/10/12 of 1 ms", false, false, 1_000));
        for (unit, ms) in [("ms", 1), ("s", 1_000), ("10ms", 10), ("1s", 1_000)] {
            let bits = format!("41/10/12 of {ms} ms");
            let line = format!("{custom} --unit {unit} --spread --named-lanes");
            let short = line.replace("41", "35");
            assert_eq!(timed(&short), of(&bits.replace("41", "35"), true, true, 1_000));
        }
    }

    #[test]
    fn a_counter_begins_with_its_start() {
        let counter = |line: &str| match shape(line).unwrap().shape {
            Shape::Counter(CounterShape { offset, increment, max_id }) => (offset, increment, max_id),
            Shape::Timed(_) => panic!("{line}: a time"),
        };
        assert_eq!(counter("--counter"), (1, 1, Id::MAX));
        assert_eq!(counter("--shape counter"), (1, 1, Id::MAX));
        assert_eq!(counter("--counter --start 100 --increment 10"), (10, 10, Id::MAX));
        assert_eq!(counter("--counter --start 101 --increment 10"), (1, 10, Id::MAX));
        let photos = "--counter --start 72157623227190425 --increment 2 --offset 1 --max-id 2147483647";
        assert_eq!(counter(photos), (1, 2, 2_147_483_647));
        assert_eq!(parse(photos).unwrap().request(&shape(photos).unwrap()).start, 72_157_623_227_190_425);
        for (line, error) in [
            ("--counter --increment 2 --offset 3", "the offset 3 is not 1 to the increment 2"),
            ("--counter --increment 0 --start 5", "the increment 0 is not 1 to 4294967296"),
            (
                "--counter --offset 2 --increment 2 --max-id 1",
                "the largest id 1 is below the first id, or above 9223372036854775807",
            ),
            ("--shape counter --lead 5s", "--lead and --ahead are for ids with a time, and a counter has none"),
        ] {
            assert_eq!(shape(line).unwrap_err(), error, "{line}");
        }
    }

    #[test]
    fn arguments_out_of_range_are_refused_with_the_range() {
        for (line, error) in [
            ("--counter --start 1e18", "\"1e18\" is no id"),
            ("--counter --start 0", "\"0\" is no id"),
            ("--counter --ahead 1s", "cannot be used with"),
            ("--counter --shape leaf", "cannot be used with"),
            ("--shape leaf --start 5", "cannot be used with"),
            ("--shape leaf --spread", "cannot be used with"),
            ("--shape leaf --lead 500ms", "it must be from 1s to 600s"),
            ("--shape leaf --lead 601s", "it must be from 1s to 600s"),
            ("--shape leaf --lead 1.0005s", "it must be whole milliseconds"),
            ("--shape leaf --ahead 10.001s", "it must be from 0 to 10s"),
            ("--shape leaf --sections 0", "0 is not in 1..=1048576"),
            ("--sections 1", "required arguments were not provided"),
        ] {
            let found = parse(line).unwrap_err();
            let found = found.replace("\n  ", " ");
            assert!(found.contains(error), "{line}: {found}");
        }
    }
}
