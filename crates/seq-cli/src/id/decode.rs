//! The command `id decode`, which shows the parts of ids.

use std::io::{BufRead, stdin};

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, note};
use seq_command::utc;
use seq_ids::{Id, PRESETS, Parts, Preset, Shape};
use serde::Serialize;

use super::foreign::{self, Foreign};
use crate::shape_args::{NamedShape, ShapeOrSeriesArgs};

/// Start of the year 2006, in milliseconds since 1970. No system that made ids of these shapes is older.
const FIRST_MS: u64 = 1_136_073_600_000;
const DAY_MS: u64 = 86_400_000;
/// Largest number up to which a floating-point number of 64 bits represents every whole number exactly.
const EXACT_IN_DOUBLE: u64 = (1 << 53) - 1;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr id decode 1541815603606036480 --shape snowflake\n  \
                        seqsvr id decode 1541815603606036480 --series tweets    (by the shape of a series of the cluster)\n  \
                        seqsvr id decode 1541815603606036480    (by each shape that gives a time from 2006 to now)\n  \
                        seqsvr id decode 5e576ba988846945965b4a41    (an ObjectId; UUIDs likewise)\n  \
                        cut -d, -f1 orders.csv | seqsvr id decode --shape instagram -\n\n\
                        Only --series needs a cluster. If a double may have rounded a value, as JavaScript does, a note states it.\n\n\
                        Exit codes: 0 decoded, 1 the shape has no such id, or no shape gives it a time, 2 the text is not an id, \
                        and with --series those of `seqsvr id next`.")]
pub struct DecodeArgs {
    /// The ids in decimal, or ObjectIds and UUIDs in their usual form. `-` reads them from stdin, one per line.
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
    ids: Vec<String>,
    #[command(flatten)]
    shape: ShapeOrSeriesArgs,
}

/// An id, with all its possible readings.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Decoded {
    id: String,
    readings: Vec<Reading>,
    /// Remarks, for example that the value may be rounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One possible reading of an id, with the parts that the id has according to one shape.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Reading {
    /// Name of the shape, or with `--series`, name of the series.
    shape: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<u32>,
    /// Fields of which the lane consists, or the fields of an ObjectId or a UUID.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    fields: serde_json::Map<String, serde_json::Value>,
    /// The sequence number within the unit of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// The value of a counter, in decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

pub(super) fn run(args: &DecodeArgs, output: &Output) -> anyhow::Result<Exit> {
    let shape = args.shape.find()?;
    let mut decoded = Vec::new();
    for given in &args.ids {
        if given == "-" {
            for (line, text) in stdin().lock().lines().enumerate() {
                let text = text?;
                if text.trim().is_empty() {
                    continue;
                }
                decoded.push(decode(text.trim(), shape.as_ref(), &format!("line {} of stdin: ", line + 1))?);
            }
        } else {
            decoded.push(decode(given, shape.as_ref(), "")?);
        }
    }
    if output.is_json() {
        output.json_items(&decoded)?;
    } else {
        print(&decoded, shape.is_some(), output)?;
    }
    Ok(Exit::Ok)
}

/// Decodes the id `text` by the given shape. If no shape is given, decodes it by every shape that gives it a plausible
/// time. The text of an error begins with `place`.
fn decode(text: &str, shape: Option<&NamedShape>, place: &str) -> Result<Decoded, Failure> {
    if let Some(foreign) = foreign::parse(text) {
        return Ok(Decoded { id: text.to_owned(), readings: vec![Reading::of_foreign(foreign)], notes: Vec::new() });
    }
    let id: Id = text
        .parse()
        .map_err(|error: seq_ids::NotAnId| Failure::new(Exit::Usage, format!("{place}{error}")).reason("NOT_AN_ID"))?;
    let readings: Vec<Reading> = match shape {
        Some(NamedShape { name, preset, .. }) => Reading::of(name, preset, id).into_iter().collect(),
        None => plausible(id, utc::now_ms()),
    };
    if readings.is_empty() {
        let message = match shape {
            Some(NamedShape { title, .. }) => format!("{place}{title} has no id {id}"),
            None => format!("{place}no shape gives id {id} a time from 2006 to now"),
        };
        let hint = match shape {
            Some(NamedShape { name, is_series: true, .. }) => format!("`seqsvr series show {name}` shows its ids"),
            _ => "`seqsvr id shapes` lists the shapes".to_owned(),
        };
        return Err(Failure::new(Exit::Failed, message).hint(hint));
    }
    Ok(Decoded { id: id.to_string(), readings, notes: rounded(id).into_iter().collect() })
}

/// Returns the readings of an id by all shapes that give it a time from 2006 to now. A shape is excluded if the time is
/// within a day after the shape's epoch, because every small number has such a time.
fn plausible(id: Id, now_ms: u64) -> Vec<Reading> {
    let is_plausible = |preset: &&Preset| {
        let Shape::Timed(shape) = preset.shape else { return false };
        let timed = preset.shape.parts(id).and_then(|parts| parts.timed);
        let first_ms = FIRST_MS.max(shape.epoch_ms + DAY_MS);
        timed.is_some_and(|(unix_ms, _)| (first_ms..=now_ms).contains(&unix_ms))
    };
    PRESETS.iter().filter(is_plausible).filter_map(|preset| Reading::of(preset.name, preset, id)).collect()
}

/// Returns a remark if a conversion to a floating-point number of 64 bits may have rounded the id. This is possible if
/// the id has exactly the value of such a number, or if its digits are the shortest decimal text of one.
fn rounded(id: Id) -> Option<String> {
    let double = id.get() as f64;
    if id.get() <= EXACT_IN_DOUBLE {
        return None;
    }
    let how = if double as u64 == id.get() {
        format!("it is a multiple of {}", 1_u64 << (id.get().ilog2() - 52))
    } else if double.to_string() == id.to_string() {
        "its text is that of a double".to_owned()
    } else {
        return None;
    };
    Some(format!("a double may have rounded this id ({how}): pass ids above 2^53 as text, in JavaScript and in JSON"))
}

impl Reading {
    /// Decodes `id` by the shape of `preset`, and returns a reading with the name `name`. Returns `None` if the shape
    /// has no such id.
    fn of(name: &str, preset: &Preset, id: Id) -> Option<Reading> {
        let Parts { lane, value, timed } = preset.shape.parts(id)?;
        let fields = preset.fields_of(lane).map(|(name, number)| (name.to_owned(), number.into()));
        Some(match timed {
            Some((unix_ms, seq)) => Reading {
                shape: name.to_owned(),
                time: Some(utc::text_with_ms(unix_ms)),
                lane: Some(lane),
                fields: fields.collect(),
                seq: Some(seq),
                value: None,
            },
            None => Reading { value: Some(value.to_string()), ..Reading::without_parts(name) },
        })
    }

    fn of_foreign(foreign: Foreign) -> Reading {
        let Foreign { shape, time, fields } = foreign;
        let fields = fields.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        Reading { time, fields, ..Reading::without_parts(shape) }
    }

    fn without_parts(shape: &str) -> Reading {
        Reading {
            shape: shape.to_owned(),
            time: None,
            lane: None,
            fields: serde_json::Map::new(),
            seq: None,
            value: None,
        }
    }

    /// Returns a text such as `2022-06-28T16:07:40.105Z  lane 378 (datacenter 11, worker 26)  seq 0`.
    fn text(&self) -> String {
        let is_alone = self.lane.is_some() && self.fields.len() == 1;
        let fields = self.fields.iter().map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None if is_alone => name.clone(),
            None => format!("{name} {value}"),
        });
        let fields = fields.collect::<Vec<_>>().join(", ");
        let lane = self.lane.map(|lane| match fields.is_empty() {
            true => format!("lane {lane}"),
            false => format!("lane {lane} ({fields})"),
        });
        let no_time = || if self.value.is_none() { Some("no time".to_owned()) } else { None };
        let parts = [
            self.time.clone().or_else(no_time),
            self.value.as_ref().map(|value| format!("number {value} of the counter")),
            lane.or(Some(fields).filter(|fields| !fields.is_empty() && self.lane.is_none())),
            self.seq.map(|seq| format!("seq {seq}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}

/// Prints a line for each reading of each id. If there is only one id and `has_shape` is true, the line has neither the
/// id nor the name of the shape, because the user gave both.
fn print(decoded: &[Decoded], has_shape: bool, output: &Output) -> std::io::Result<()> {
    match decoded {
        [Decoded { readings, .. }] if has_shape && readings.len() == 1 => output.line(readings[0].text())?,
        _ => {
            let mut table = Table::new(&["id", "shape", "parts"]);
            for Decoded { id, readings, .. } in decoded {
                readings.iter().for_each(|one| table.row([id.clone(), one.shape.clone(), one.text()]));
            }
            output.table(&table)?;
        }
    }
    for Decoded { id, notes, .. } in decoded {
        notes.iter().for_each(|remark| note(format_args!("note: {id}: {remark}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26.
    const NOW_MS: u64 = 1_795_651_200_000;

    fn shapes_of(id: u64) -> Vec<String> {
        plausible(Id::new(id).unwrap(), NOW_MS).into_iter().map(|reading| reading.shape).collect()
    }

    #[test]
    fn shapes_that_give_no_plausible_time_are_left_out() {
        assert_eq!(shapes_of(1_541_815_603_606_036_480), ["snowflake", "leaf", "instagram"]);
        // By the shape js53, this id has the time 2026-11-25T23:00:00Z. It may also be a number of a counter.
        assert_eq!(shapes_of(28_422_000 << 22 | 1), ["js53"]);
        assert_eq!(shapes_of(12), [""; 0]);
    }

    #[test]
    fn numbers_that_a_double_may_have_rounded_are_noted() {
        let note = |id: u64| rounded(Id::new(id).unwrap());
        for exact in [1, EXACT_IN_DOUBLE, 1_541_815_603_606_036_481, 1_541_815_603_606_036_497] {
            assert_eq!(note(exact), None, "{exact}");
        }
        assert!(note(1_541_815_603_606_036_480).unwrap().contains("a multiple of 256"));
        // JSON.stringify of JavaScript.
        assert!(note(1_541_815_603_606_036_500).unwrap().contains("its text is that of a double"));
    }
}
