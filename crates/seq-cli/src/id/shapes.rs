//! The command `id shapes`, which lists the named shapes.

use seq_command::exit::Exit;
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::utc;
use seq_ids::{PRESETS, Preset, Shape};
use serde::Serialize;

/// A shape as JSON. Fields that concern time are absent if the shape is a counter.
#[derive(Debug, Serialize)]
struct ShapeView {
    name: &'static str,
    layout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_ms: Option<u32>,
    /// Time that the shape counts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<String>,
    /// The last time of which there are ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    lanes: u32,
    /// Maximum number of ids that a lane has per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    ids_per_second: Option<f64>,
    /// Whether the caller chooses the lane, instead of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    named_lanes: Option<bool>,
    /// Time by which ids may be ahead of the clock, in milliseconds. A series can be created with another time.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead_ms: Option<u32>,
    #[serde(serialize_with = "digits")]
    largest_id: u64,
    about: &'static str,
}

pub(super) fn run(output: &Output) -> anyhow::Result<Exit> {
    let shapes = all();
    if output.is_json() {
        output.json_items(&shapes)?;
        return Ok(Exit::Ok);
    }
    let mut table =
        Table::new(&["name", "layout", "epoch", "last", "lanes", "lane by", "ids/s in a lane", "ids"]).right(&[4, 6]);
    for shape in shapes {
        let lane_by = shape.lane_by();
        let ids_per_second = shape.ids_per_second.map(|ids| grouped(ids as u64));
        table.row([
            shape.name.to_owned(),
            shape.layout,
            shape.epoch.unwrap_or_default(),
            shape.last.unwrap_or_default(),
            grouped(shape.lanes.into()),
            lane_by.to_owned(),
            ids_per_second.unwrap_or_default(),
            shape.about.to_owned(),
        ]);
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}

fn all() -> Vec<ShapeView> {
    PRESETS.iter().map(ShapeView::of).collect()
}

impl ShapeView {
    fn of(preset: &Preset) -> ShapeView {
        let Preset { name, about, shape, named_lanes, ahead_ms, .. } = *preset;
        let lanes = shape.lanes();
        let timed = match shape {
            Shape::Timed(timed) => Some(timed),
            Shape::Counter(_) => None,
        };
        let layout = match timed {
            Some(timed) => format!("{}/{}/{}", timed.time_bits, timed.lane_bits, timed.seq_bits),
            None => shape.to_string(),
        };
        ShapeView {
            name,
            layout,
            unit_ms: timed.map(|timed| timed.unit_ms),
            epoch: timed.map(|timed| utc::text_with_ms(timed.epoch_ms)),
            last: timed.and_then(|timed| timed.end_ms()).map(utc::text_with_ms),
            lanes,
            ids_per_second: timed.map(|timed| timed.ids_per_second()),
            named_lanes: timed.map(|_| named_lanes),
            ahead_ms: timed.map(|_| ahead_ms),
            largest_id: shape.last(lanes - 1),
            about,
        }
    }

    /// Returns which of `caller` and `server` chooses the lane of an id. Returns an empty text for a counter, because
    /// it has only one lane.
    fn lane_by(&self) -> &'static str {
        match self.named_lanes {
            Some(true) => "caller",
            Some(false) => "server",
            None => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// Generates `docs/reference/shapes.md` from the table of shapes that `id shapes` prints.
    #[test]
    fn the_reference_of_shapes_is_current() {
        let mut page = "# Shapes of ids\n\nGenerated from the table that `seqsvr id shapes` prints: `UPDATE_EXPECT=1 cargo test -p seq-cli \
                        shapes`. A shape maps a lane and the value of its counter to an id; `seqsvr id decode` reads ids, `seqsvr id encode` \
                        makes them, and `seqsvr series create` creates a series of them. The server or the caller chooses the lane of an id, and an id \
                        is at most so much ahead of the clock, unless a series has another time.\n\n\
                        | shape | ids | time/lane/number, bits | time 0 | last time | lanes | lane by | ahead | ids a second and lane | largest id |\n\
                        |---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
        for shape in all() {
            let lane_by = shape.lane_by();
            let ahead = shape.ahead_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
            let ShapeView { name, layout, epoch, last, lanes, ids_per_second, largest_id, about, .. } = shape;
            let [epoch, last] = [epoch, last].map(Option::unwrap_or_default);
            let ids_per_second = ids_per_second.map(|ids| grouped(ids as u64)).unwrap_or_default();
            let lanes = grouped(lanes.into());
            page += &format!(
                "| `{name}` | {about} | {layout} | {epoch} | {last} | {lanes} | {lane_by} | {ahead} | {ids_per_second} | {largest_id} |\n"
            );
        }
        expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/shapes.md")].assert_eq(&page);
    }
}
