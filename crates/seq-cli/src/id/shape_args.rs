//! The shape of ids on the command line: a name, or the bits of its fields.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::{time_limit, utc};
use seq_ids::{PRESETS, Preset, Shape, TimedShape, preset};

#[derive(Clone, Debug, Args)]
pub(super) struct ShapeArgs {
    /// The shape's name; `seqsvr id shapes` lists them.
    #[arg(long, value_name = "NAME", value_parser = named, conflicts_with = "bits")]
    shape: Option<&'static Preset>,
    /// A shape without a name: bits of time, lane and sequence number, from the highest to the lowest.
    #[arg(long, value_name = "TIME/LANE/SEQ", value_parser = bits, requires = "epoch")]
    bits: Option<[u8; 3]>,
    /// Time 0 of the shape of --bits, as 2026-01-01 or 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = utc::parse_ms, requires = "bits")]
    epoch: Option<u64>,
    /// Unit of time of the shape of --bits, as 1ms, 10ms or 1s.
    #[arg(long, value_name = "TIME", value_parser = unit_ms, default_value = "1ms")]
    unit: u32,
}

impl ShapeArgs {
    /// Returns the shape; `None` if no shape was given.
    ///
    /// # Errors
    /// The bits do not form a usable shape.
    pub(super) fn find(&self) -> Result<Option<Preset>, Failure> {
        let (Some([time_bits, lane_bits, seq_bits]), Some(epoch_ms)) = (self.bits, self.epoch) else {
            return Ok(self.shape.copied());
        };
        let timed = TimedShape { epoch_ms, unit_ms: self.unit, time_bits, lane_bits, seq_bits, spread: true };
        let shape = Shape::Timed(timed).checked();
        let shape =
            shape.map_err(|error| Failure::new(Exit::Usage, error.to_string()).hint("change --bits or --unit"))?;
        Ok(Some(Preset { name: "custom", about: "", shape, lane_fields: &[] }))
    }
}

fn named(name: &str) -> Result<&'static Preset, String> {
    let names = || PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    preset(name).ok_or_else(|| format!("the shapes are {}; --bits describes another shape", names()))
}

fn bits(text: &str) -> Result<[u8; 3], String> {
    let fields: Option<Vec<u8>> = text.split('/').map(|field| field.parse().ok()).collect();
    let three = fields.and_then(|fields| fields.try_into().ok());
    three.ok_or_else(|| "it must be three numbers of bits, as 41/10/12".to_owned())
}

fn unit_ms(text: &str) -> Result<u32, String> {
    let unit = time_limit::time(text)?;
    let whole = u32::try_from(unit.as_millis()).ok().filter(|ms| u128::from(*ms) * 1_000_000 == unit.as_nanos());
    whole.filter(|ms| (1..=TimedShape::MAX_UNIT_MS).contains(ms)).ok_or_else(|| "it must be 1ms to a day".to_owned())
}
