"""Ids of a series: results of calls, validated as they are decoded, and the shapes that make ids of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import chain

from google.protobuf.message import DecodeError

from seqsvr._errors import BadAnswer
from seqsvr.v1 import ids_pb2, series_pb2

MAX_ID = 2**63 - 1
"""The largest id."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of one call, ascending: iterating makes each id as it is needed. No other call gets them.

    runs: the ids as ranges.
    lane: their lane; 0 for a counter.
    epoch: epoch of the ownership that allocated them, 1 or above.
    """

    runs: tuple[range, ...]
    lane: int
    epoch: int

    def __iter__(self) -> Iterator[int]:
        """The ids, in order."""
        return chain.from_iterable(self.runs)

    def __len__(self) -> int:
        """The number of ids."""
        return sum(map(len, self.runs))

    @property
    def first(self) -> int:
        """The first id."""
        return self.runs[0][0]

    @property
    def last(self) -> int:
        """The last id."""
        return self.runs[-1][-1]

    @staticmethod
    def checked(addr: str, response: ids_pb2.NextIdsResponse, count: int, after: int) -> Ids:
        """Validates a response: `count` ids, ascending, all of them above `after`."""
        runs, left, last = [], count, after
        for run in response.runs:
            if not response.step or not run.count or run.first <= last or run.count > left:
                raise BadAnswer(addr, "runs that are no ascending ids")
            ids = range(run.first, run.first + run.count * response.step, response.step)
            runs.append(ids)
            left, last = left - run.count, ids[-1]
        if left or last > MAX_ID:
            raise BadAnswer(addr, "another number of ids than requested")
        return Ids(tuple(runs), response.lane, response.epoch)


@dataclass(frozen=True, slots=True)
class CurrentId:
    """The last id of a counter, or an upper bound of it.

    id: the last id or an upper bound of it; None if the counter never had one.
    exact: whether `id` is exactly the last id; an upper bound is the state after an owner's crash, until the next id.
    epoch: epoch of the ownership that responded, 1 or above.
    """

    id: int | None
    exact: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class DecodedId:
    """The parts of an id.

    lane: the lane; 0 for a counter.
    number: the number of the lane's counter from which the id was made.
    time: the time in the id, in UTC; None for a counter.
    seq: the sequence number in its unit of time; None for a counter.
    """

    lane: int
    number: int
    time: datetime | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class CounterShape:
    """Numbers at a fixed distance: `offset`, `offset + increment`, and so on, up to `max_id`."""

    offset: int
    increment: int
    max_id: int

    def decode(self, id: int) -> DecodedId | None:
        """The parts of an id; None for a number that is no id."""
        above = id - self.offset
        if above < 0 or id > self.max_id or above % self.increment:
            return None
        return DecodedId(0, above // self.increment + 1)

    def at_most(self, id: int) -> int | None:
        """The highest id up to `id`; None if there is none."""
        above = min(id, self.max_id) - self.offset
        return None if above < 0 else self.offset + above // self.increment * self.increment


@dataclass(frozen=True, slots=True)
class TimedShape:
    """Time, lane and sequence number, from the highest bit to the lowest.

    epoch_ms: time 0, in milliseconds since 1970.
    unit_ms: milliseconds of a unit of time.
    """

    epoch_ms: int
    unit_ms: int
    time_bits: int
    lane_bits: int
    seq_bits: int

    def decode(self, id: int) -> DecodedId | None:
        """The parts of an id; None for a number that is no id."""
        units = id >> self.lane_bits + self.seq_bits
        if not 0 < id <= MAX_ID or units >> self.time_bits:
            return None
        lane, seq = id >> self.seq_bits & (1 << self.lane_bits) - 1, id & (1 << self.seq_bits) - 1
        time = EPOCH + timedelta(milliseconds=self.epoch_ms + units * self.unit_ms)
        return DecodedId(lane, units << self.seq_bits | seq, time, seq)


Shape = CounterShape | TimedShape
"""How the number of a lane becomes an id."""


def shape(stored: bytes) -> Shape | None:
    """Decodes the shape of a series; None for a shape that only later releases know."""
    try:
        message = series_pb2.Shape.FromString(stored)
    except DecodeError:
        return None
    if message.HasField("counter") and message.counter.increment:
        return CounterShape(message.counter.offset, message.counter.increment, message.counter.max_id)
    if message.HasField("timed"):
        timed = message.timed
        return TimedShape(timed.epoch_ms, timed.unit_ms, timed.time_bits, timed.lane_bits, timed.seq_bits)
    return None
