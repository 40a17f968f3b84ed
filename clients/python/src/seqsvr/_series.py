"""Series: ids through any node of the cluster, with the attempts of every other call."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from seqsvr import _ids, _methods
from seqsvr._errors import Refused
from seqsvr._ids import MAX_ID, CurrentId, DecodedId, Ids, Shape
from seqsvr._segments import HOLD, AsyncSegments, Segments
from seqsvr.v1.series_pb2 import StoredSeries

if TYPE_CHECKING:
    from seqsvr._aio import AsyncClient
    from seqsvr._client import Client

Self = TypeVar("Self", bound="AnySeries")


class AnySeries:
    """What the series of both clients have in common."""

    def __init__(self, home: int, name: str, shape: Shape) -> None:
        """Made by `Client.series`."""
        self._home = home
        self._name = name
        self._shape = shape
        self._lane: int | None = None
        self._after = 0

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def shape(self) -> Shape:
        """The shape of the ids."""
        return self._shape

    def lane(self: Self, lane: int) -> Self:
        """The same series for the ids of one lane. Required where the caller names lanes, refused elsewhere."""
        if not isinstance(lane, int) or isinstance(lane, bool):
            raise TypeError(f"a lane is an int, not {type(lane).__name__}")
        if not 0 <= lane < 2**32:
            raise refusal("LANE_OUT_OF_RANGE", "OUT_OF_RANGE", f"series {self._name!r} has no lane {lane}")
        changed = copy.copy(self)
        changed._lane = lane
        return changed

    def after(self: Self, id: int) -> Self:
        """The same series for ids above `id`."""
        changed = copy.copy(self)
        changed._after = self._id(id)
        return changed

    def decode(self, id: int) -> DecodedId:
        """The parts of an id. Sends nothing. Raises Refused with NOT_AN_ID for a number that is no id of the series."""
        parts = self._shape.decode(self._id(id))
        if parts is None:
            raise self._no_id(id)
        return parts

    def _id(self, id: int) -> int:
        if not isinstance(id, int) or isinstance(id, bool):
            raise TypeError(f"an id is an int, not {type(id).__name__}")
        if not 0 < id <= MAX_ID:
            raise self._no_id(id)
        return id

    def _no_id(self, id: int) -> Refused:
        return refusal("NOT_AN_ID", "INVALID_ARGUMENT", f"{id} is no id of series {self._name!r}")

    def _next(self, count: int) -> _methods.NextIds:
        return _methods.NextIds(self._name, count, self._lane, self._after)

    def _read(self) -> _methods.ReadId:
        return _methods.ReadId(self._name)

    def _raise(self, to: int) -> _methods.AdvanceId:
        return _methods.AdvanceId(self._name, self._id(to))


class Series(AnySeries):
    """A series of ids. `lane` and `after` return the same series with other settings.

    Any node serves a call. Failed attempts are repeated as those of `Client`; ids of a lost response are a gap, never a
    duplicate. An id is an int up to 2**63 - 1: send it to JavaScript as a str, which has no exact numbers above 2**53 - 1.
    """

    def __init__(self, client: Client, home: int, name: str, shape: Shape) -> None:
        """Made by `Client.series`."""
        super().__init__(home, name, shape)
        self._client = client

    def next(self, *, deadline: float | None = None) -> int:
        """Takes the next id.

        Raises Refused, SetUnavailable, Unreachable, DeadlineExceeded, BadAnswer, ClientClosed; with `may_have_applied` an id
        may be lost to a gap.
        """
        return self.take(1, deadline=deadline).last

    def take(self, count: int, *, deadline: float | None = None) -> Ids:
        """Takes the next `count` ids, 1 to 1,000,000, of a series with a time up to 10,000; they are of one lane, ascending.

        Raises CountOutOfRange before anything is sent, and what `next` raises.
        """
        return self._client._run_ids(self._home, count, deadline, self._next(count))

    def current(self, *, deadline: float | None = None) -> CurrentId:
        """Reads the last id of a counter. Moves nothing. Raises what `next` raises."""
        return self._client._run_ids(self._home, 1, deadline, self._read())

    def advance(self, id: int, *, deadline: float | None = None) -> int:
        """Raises a counter to one of its ids, so that the next id is above it; idempotent. Returns the epoch of the ownership.

        Raises Refused with ALREADY_PAST if the counter is above the id, and what `next` raises.
        """
        return self._client._run_ids(self._home, 1, deadline, self._raise(id))

    def segments(self, *, hold: float = HOLD) -> Segments:
        """A handle that fetches ids ahead, for `hold` seconds at the present rate. Sends nothing before its first call."""
        return Segments(self, hold)


class AsyncSeries(AnySeries):
    """A series of ids, for asyncio; see `Series`."""

    def __init__(self, client: AsyncClient, home: int, name: str, shape: Shape) -> None:
        """Made by `AsyncClient.series`."""
        super().__init__(home, name, shape)
        self._client = client

    async def next(self, *, deadline: float | None = None) -> int:
        """Takes the next id; see `Series.next`."""
        return (await self.take(1, deadline=deadline)).last

    async def take(self, count: int, *, deadline: float | None = None) -> Ids:
        """Takes the next `count` ids; see `Series.take`."""
        return await self._client._run_ids(self._home, count, deadline, self._next(count))

    async def current(self, *, deadline: float | None = None) -> CurrentId:
        """Reads the last id of a counter; see `Series.current`."""
        return await self._client._run_ids(self._home, 1, deadline, self._read())

    async def advance(self, id: int, *, deadline: float | None = None) -> int:
        """Raises a counter to one of its ids; see `Series.advance`."""
        return await self._client._run_ids(self._home, 1, deadline, self._raise(id))

    def segments(self, *, hold: float = HOLD) -> AsyncSegments:
        """A handle that fetches ids ahead; see `Series.segments`."""
        return AsyncSegments(self, hold)


def known(name: str, found: tuple[int, StoredSeries] | None) -> tuple[int, str, Shape]:
    """The arguments of a series in the routes. Raises Refused for an unknown series."""
    shape = _ids.shape(found[1].shape) if found else None
    if found is None or shape is None:
        text = f"no series that this client can use is named {name!r}: `seqsvr series list` lists them"
        raise refusal("UNKNOWN_SERIES", "NOT_FOUND", text)
    return found[0], name, shape


def refusal(reason: str, code: str, message: str) -> Refused:
    """The refusal of a request that was not sent."""
    return Refused(None, message, code=code, reason=reason, retry_after=None, may_have_applied=False, attempts=0)
