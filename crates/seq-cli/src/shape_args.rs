//! Arguments that describe a shape of ids. They give the name of the shape, the numbers of bits of its fields, or the
//! name of a series with this shape.

use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::target::Target;
use seq_command::{time_limit, utc};
use seq_ids::{AHEAD_MS, PRESETS, Preset, Shape, TimedShape, preset};
use seq_proto::series::SeriesShape;

use crate::id_client::{IdClient, shape_of};

#[derive(Clone, Debug, Args)]
pub(crate) struct ShapeArgs {
    /// The shape's name; `seqsvr id shapes` lists them.
    #[arg(long, value_name = "NAME", value_parser = named, conflicts_with = "bits")]
    shape: Option<&'static Preset>,
    /// A shape without a name: bits of time, lane and sequence number, from the highest to the lowest.
    #[arg(long, value_name = "TIME/LANE/SEQ", value_parser = bits, requires = "epoch")]
    bits: Option<[u8; 3]>,
    /// Time 0 of the shape of --bits, as 2026-01-01 or 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = utc::parse_ms, requires = "bits", conflicts_with = "shape")]
    epoch: Option<u64>,
    /// Unit of time of the shape of --bits, as ms, 10ms or s.
    #[arg(long, value_name = "TIME", value_parser = unit_ms, default_value = "1ms", requires = "bits",
          conflicts_with = "shape")]
    unit: u32,
}

/// The shape by which a command decodes or encodes ids. It is the shape of a series, or a shape that the command line
/// describes.
#[derive(Debug, Args)]
pub(crate) struct ShapeOrSeriesArgs {
    #[command(flatten)]
    shape: ShapeArgs,
    /// The series that the ids are of. A node of the cluster is asked for its shape.
    #[arg(long, value_name = "SERIES", conflicts_with_all = ["shape", "bits", "epoch", "unit"])]
    series: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Time limit of the request for the series.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time_limit::time)]
    timeout: Duration,
}

/// A shape, with its name in the output of commands.
#[derive(Clone, Debug)]
pub(crate) struct NamedShape {
    /// The name of the shape, or of the series.
    pub(crate) name: String,
    /// Description of the shape in errors, such as `the shape snowflake` or `series tweets`.
    pub(crate) title: String,
    /// Whether it is the shape of a series.
    pub(crate) is_series: bool,
    pub(crate) preset: Preset,
}

impl ShapeArgs {
    /// Returns the shape that the arguments describe, or `None` if they describe none.
    ///
    /// # Errors
    /// The numbers of bits do not form a valid shape.
    pub(crate) fn find(&self) -> Result<Option<Preset>, Failure> {
        let (Some([time_bits, lane_bits, seq_bits]), Some(epoch_ms)) = (self.bits, self.epoch) else {
            return Ok(self.shape.copied());
        };
        let timed = TimedShape { epoch_ms, unit_ms: self.unit, time_bits, lane_bits, seq_bits, spread: true };
        let shape = Shape::Timed(timed).checked();
        let shape =
            shape.map_err(|error| Failure::new(Exit::Usage, error.to_string()).hint("change --bits or --unit"))?;
        Ok(Some(Preset { name: "custom", shape, ahead_ms: AHEAD_MS, ..WITHOUT_NAME }))
    }

    /// Returns whether the arguments describe the shape by numbers of bits instead of a name.
    pub(crate) fn is_custom(&self) -> bool {
        self.bits.is_some()
    }
}

impl ShapeOrSeriesArgs {
    /// Returns the shape that the arguments describe, or `None` if they name neither a shape nor a series. If they name
    /// a series, requests it from the cluster.
    ///
    /// # Errors
    /// The numbers of bits do not form a valid shape, or no node of the cluster returned the series.
    pub(crate) fn find(&self) -> anyhow::Result<Option<NamedShape>> {
        let Some(name) = &self.series else {
            let named = |preset: Preset| NamedShape {
                name: preset.name.to_owned(),
                title: format!("the shape {}", preset.name),
                is_series: false,
                preset,
            };
            return Ok(self.shape.find()?.map(named));
        };
        let series = seq_command::client_runtime()?
            .block_on(async { IdClient::new(&self.target, self.timeout)?.series(name).await })?;
        let SeriesShape { shape, .. } = shape_of(&series)?;
        // `lane_fields` is left empty, because the fields that a lane consists of are a convention of another system,
        // which need not apply to this series.
        let preset = Preset { name: "series", shape, ..WITHOUT_NAME };
        Ok(Some(NamedShape { name: name.clone(), title: format!("series {name}"), is_series: true, preset }))
    }
}

/// Values of the other fields for a shape without a name.
const WITHOUT_NAME: Preset =
    Preset { name: "", about: "", shape: PRESETS[0].shape, lane_fields: &[], named_lanes: false, ahead_ms: 0 };

fn named(name: &str) -> Result<&'static Preset, String> {
    let names = || PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    preset(name).ok_or_else(|| format!("the shapes are {}; --bits describes another shape", names()))
}

fn bits(text: &str) -> Result<[u8; 3], String> {
    let fields: Option<Vec<u8>> = text.split('/').map(|field| field.parse().ok()).collect();
    let three = fields.and_then(|fields| fields.try_into().ok());
    three.ok_or_else(|| "it must be three numbers of bits, as 41/10/12".to_owned())
}

/// Parses a unit of time of the shape, in milliseconds. A unit without a number, such as `ms`, means `1ms`.
fn unit_ms(text: &str) -> Result<u32, String> {
    let has_number = text.starts_with(|letter: char| letter.is_ascii_digit());
    let unit = if has_number { time_limit::time(text)? } else { time_limit::time(&format!("1{text}"))? };
    let whole = u32::try_from(unit.as_millis()).ok().filter(|ms| u128::from(*ms) * 1_000_000 == unit.as_nanos());
    whole
        .filter(|ms| (1..=TimedShape::MAX_UNIT_MS).contains(ms))
        .ok_or_else(|| "it must be whole milliseconds, from 1ms to a day".to_owned())
}
