//! The command `id encode`: makes the first id of a given time.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, digits};
use seq_command::utc;
use seq_ids::{Preset, Shape};

use super::shape_args::ShapeArgs;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr id encode --shape snowflake --time 2022-06-28T16:07:40.105Z --lane 378\n  \
                        seqsvr id encode --shape snowflake --time 2026-01-01    (ids of 2026 are not below it)\n  \
                        seqsvr id encode --bits 41/10/12 --epoch 2026-01-01 --time 2026-11-26 --lane 5\n\n\
                        The command needs no cluster and allocates nothing, so the id may exist already.\n\n\
                        Exit codes: 0 done, 2 the shape has no such time, lane or sequence number."
)]
pub struct EncodeArgs {
    #[command(flatten)]
    shape: ShapeArgs,
    /// The time, as 2022-06-28T16:07:40.105Z or 2026-01-01, in UTC.
    #[arg(long, value_name = "TIME", value_parser = utc::parse_ms)]
    time: u64,
    /// The lane, such as a worker or a shard.
    #[arg(long, value_name = "N", default_value_t = 0)]
    lane: u32,
    /// The sequence number in the unit of time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seq: u64,
}

pub(super) fn run(args: &EncodeArgs, output: &Output) -> anyhow::Result<Exit> {
    #[derive(serde::Serialize)]
    struct IdView {
        #[serde(serialize_with = "digits")]
        id: u64,
    }
    let EncodeArgs { time, lane, seq, .. } = *args;
    let Some(Preset { name, shape, .. }) = args.shape.find()? else {
        return Err(usage("no shape is given").hint("pass --shape NAME, or --bits and --epoch").into());
    };
    let Shape::Timed(timed) = shape else {
        return Err(usage(format!("ids of the shape {name} have no time")).into());
    };
    let Some(tick) = timed.tick(time) else {
        let [epoch, last] = [timed.epoch_ms, timed.end_ms().unwrap_or(u64::MAX)].map(utc::text_with_ms);
        return Err(usage(format!("{} is outside the times of the shape", utc::text_with_ms(time)))
            .hint(format!("its times are {epoch} to {last}"))
            .into());
    };
    for (what, given, most) in
        [("lane", u64::from(lane), u64::from(shape.lanes()) - 1), ("sequence number", seq, (1 << timed.seq_bits) - 1)]
    {
        if given > most {
            return Err(usage(format!("the {what} {given} is not 0 to {most}")).into());
        }
    }
    // Time 0, lane 0 and number 0 would be id 0, but no counter allocates the value 0.
    let id = shape.id(lane, tick + seq).map_err(|_| usage("the first id of a lane is of sequence number 1"))?;
    if output.is_json() {
        output.json(&IdView { id: id.get() })?
    } else {
        output.line(id)?
    }
    Ok(Exit::Ok)
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, message)
}
