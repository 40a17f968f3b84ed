//! Makes runs of ids from the numbers of a lane.

use seq_api::ids::IdSeries;
use seq_core::{Count, Epoch, Seq};
use seq_ids::{Id, Shape};
use seq_proto::v1;

use super::{IdRefusal, Ids};

/// Returns the ids of the numbers `last - count + 1 ..= last` of a lane, as runs. A run has the ids of one unit of
/// time, which are consecutive because the sequence number is the lowest field of an id.
///
/// # Errors
/// [`IdRefusal::Ended`] if the number `last` has no id. In this case the caller gets none of the ids.
pub(super) fn ids(series: &IdSeries, lane: u32, last: Seq, count: Count, epoch: Epoch) -> Result<Ids, IdRefusal> {
    let ended = |ended: seq_ids::Ended| IdRefusal::Ended { series: series.name.clone(), last: ended.last };
    let id = |number: u64| series.shape.id(lane, number).map(Id::get).map_err(ended);
    id(last.0)?;
    let (step, in_unit) = match series.shape {
        Shape::Counter(counter) => (counter.increment, None),
        Shape::Timed(timed) => (1, Some(1_u64 << timed.seq_bits)),
    };
    let mut number = last.0 - u64::from(count.get()) + 1;
    let mut runs = Vec::new();
    while number <= last.0 {
        // The run ends at the last number of the same unit of time, or at the last number of the request if that is
        // earlier.
        let end = in_unit.map_or(last.0, |in_unit| last.0.min(number | (in_unit - 1)));
        runs.push(v1::IdRun { first: id(number)?, count: (end - number + 1) as u32 });
        number = end + 1;
    }
    Ok(Ids { runs, step, epoch, lane })
}

#[cfg(test)]
mod tests {
    use seq_core::SectionId;
    use seq_core::layout::{Lanes, SectionRun};
    use seq_ids::{CounterShape, preset};

    use super::*;

    fn series(shape: Shape) -> IdSeries {
        IdSeries {
            name: "a".into(),
            shape,
            named_lanes: false,
            ahead_ms: 0,
            lanes: Lanes { count: shape.lanes(), per_section: 64, start: Seq(0), margin: 0, clock: None, keys: None },
            sections: SectionRun { first: SectionId(10), sections: 1 },
            created_ms: 0,
            retired: false,
        }
    }

    fn all(shape: Shape, lane: u32, last: u64, count: u32) -> (Vec<u32>, Vec<u64>) {
        let ids = ids(&series(shape), lane, Seq(last), Count::new(count).unwrap(), Epoch(1)).unwrap();
        (ids.runs.iter().map(|run| run.count).collect(), ids.iter().collect())
    }

    #[test]
    fn runs_end_with_their_unit_of_time() {
        let shape = preset("snowflake").unwrap().shape;
        let last = (5 << 12) + 1;
        let (counts, ids) = all(shape, 3, last, 5_000);
        assert_eq!(counts, [902, 4_096, 2]);
        let expected: Vec<u64> = (last - 4_999..=last).map(|number| shape.id(3, number).unwrap().get()).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn the_ids_of_a_counter_are_one_run() {
        let shape = Shape::Counter(CounterShape { offset: 2, increment: 10, max_id: 52 });
        assert_eq!(all(shape, 0, 5, 3), (vec![3], vec![22, 32, 42]));
        let ended = ids(&series(shape), 0, Seq(7), Count::new(3).unwrap(), Epoch(1));
        assert_eq!(ended, Err(IdRefusal::Ended { series: "a".into(), last: 52 }));
    }
}
