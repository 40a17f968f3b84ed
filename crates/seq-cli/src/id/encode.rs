//! The command `id encode`, which makes the first id that a shape has at a given time.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, digits};
use seq_command::utc;
use seq_ids::Shape;

use crate::shape_args::{NamedShape, ShapeOrSeriesArgs};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr id encode --shape snowflake --time 2022-06-28T16:07:40.105Z --lane 378\n  \
                        seqsvr id encode --shape snowflake --time 2026-01-01    (ids of 2026 are not below it)\n  \
                        seqsvr id encode --bits 41/10/12 --epoch 2026-01-01 --time 2026-11-26 --lane 5\n  \
                        seqsvr id encode --series tweets --time 2026-11-26\n\n\
                        The command allocates nothing, so the id may exist already. Only --series needs a cluster.\n\n\
                        Exit codes: 0 done, 1 no such series, 2 the shape has no such time, lane or sequence number, and \
                        those of `seqsvr id next`."
)]
pub struct EncodeArgs {
    #[command(flatten)]
    shape: ShapeOrSeriesArgs,
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
    let Some(NamedShape { title, preset, .. }) = args.shape.find()? else {
        let hint = "pass --shape NAME, --bits and --epoch, or --series NAME";
        return Err(usage("no shape is given").hint(hint).into());
    };
    let shape = preset.shape;
    let Shape::Timed(timed) = shape else {
        return Err(usage(format!("ids of {title} have no time")).into());
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
    // This fails only if time and sequence number are both 0, because no counter allocates the value 0. In lane 0, the
    // id would be 0.
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
