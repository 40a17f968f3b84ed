"""Segments: handles that fetch ranges of ids ahead and give out their ids without a request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqsvr import _fork
from seqsvr._errors import ClientClosed, SeqError
from seqsvr._ids import CounterShape, Ids, Shape

if TYPE_CHECKING:
    from seqsvr._series import AsyncSeries, Series

HOLD = 10.0
"""Default time for which a fetched range lasts, in seconds: longer than any change of owner."""

MAX_AGE = 1.0
"""Age above which ids with a time are dropped, in seconds."""

MAX_SIZE = 1_000_000
"""Most ids in a range of a counter."""

MAX_TIMED = 10_000
"""Most ids in a range with times."""

FIRST_PAUSE = 0.1
"""First pause after a failed fetch, in seconds: the attempts of the fetch have waited already."""

MAX_PAUSE = 1.0
"""Longest pause after a failed fetch, in seconds."""


@dataclass(frozen=True)
class Fetch:
    """A request for a range of ids: their number, and the highest id fetched before, which they must be above; 0 for none."""

    size: int
    after: int


class _Range:
    """A range of ids from one fetch."""

    def __init__(self, ids: Ids, at: float) -> None:
        self.ids: Iterator[int] = iter(ids)
        self.left = self.size = len(ids)
        self.at = at


class Buffer:
    """The ids that are fetched and not used: a state machine without I/O and without a clock of its own.

    Ids are unique and increase, because a fetch is for ids above all ids fetched before, and one fetch is in flight at a time.
    Ids that are fetched and not used are at most 2 and twice the used ids; where ids are dropped with age, each fetch adds 1.
    """

    def __init__(self, hold: float, max_age: float | None, max_size: int, after: int = 0) -> None:
        """Starts empty, for ids above `after`. `max_age` is None for ids without a time."""
        self._hold, self._max_age, self._max_size = hold, max_age, max_size
        self._present: _Range | None = None
        self._spare: _Range | None = None
        self._is_fetching = False
        self._given = self._dropped = self._last_size = self._failures = 0
        self._highest = after
        # Time of the last fetch, and the ids given until then.
        self._measured: tuple[float, int] | None = None
        self.retry_at = 0.0

    def take(self, now: float) -> tuple[int | None, Fetch | None]:
        """Takes the next id; None if none is fetched. The caller begins the fetch that is returned, and reports its result."""
        self._drop_old(now)
        if self._present is None or not self._present.left:
            self._present, self._spare = self._spare, None
        taken = None
        if self._present is not None and self._present.left:
            taken = next(self._present.ids)
            self._present.left -= 1
            self._given += 1
        return taken, self._due(now, taken is None)

    def fetched(self, ids: Ids, at: float) -> None:
        """Adds the ids of a fetch, of a response at `at`."""
        self._is_fetching, self._failures, self.retry_at = False, 0, 0.0
        self._last_size, self._highest = len(ids), ids.last
        self._spare = _Range(ids, at)

    def failed(self, now: float) -> None:
        """Ends a fetch without ids; the next fetch begins after a pause."""
        pause = min(FIRST_PAUSE * (1 << min(self._failures, 16)), MAX_PAUSE)
        self._is_fetching, self._failures, self.retry_at = False, self._failures + 1, now + pause

    @property
    def highest(self) -> int:
        """The highest id fetched; ids of later fetches are above it."""
        return self._highest

    @property
    def unused(self) -> int:
        """Number of ids that were fetched and not used, with the dropped ids."""
        return sum(each.left for each in (self._present, self._spare) if each) + self._dropped

    def _drop_old(self, now: float) -> None:
        if self._max_age is None:
            return
        if self._present is not None and now - self._present.at > self._max_age:
            self._dropped += self._present.left
            self._present = None
        if self._spare is not None and now - self._spare.at > self._max_age:
            self._dropped += self._spare.left
            self._spare = None

    def _due(self, now: float, waits: bool) -> Fetch | None:
        """Begins a fetch if no id is left, or if half of the present range is used and no spare is there.

        The first id alone begins none, because a handle may never need a second id.
        """
        if self._is_fetching or self._spare is not None or now < self.retry_at:
            return None
        is_half_used = self._present is None or self._present.left * 2 <= self._present.size
        if not waits and (self._given < 2 or not is_half_used):
            return None
        size = self._size(now)
        self._is_fetching, self._measured = True, (now, self._given)
        return Fetch(size, self._highest)

    def _size(self, now: float) -> int:
        """The ids of `hold` at the present rate, at most twice the last range."""
        used = 0.0
        if self._measured is not None:
            at, given = self._measured
            used = (self._given - given) * self._hold / max(now - at, 1e-9)
        room = self._given * 2 + 2 - self.unused
        return max(int(min(used, self._last_size * 2, room, self._max_size)), 1)


def _buffer(shape: Shape, hold: float, after: int) -> Buffer:
    if isinstance(shape, CounterShape):
        return Buffer(hold, None, MAX_SIZE, after)
    # A range is fetched while half of the range before is left, and is used before it is dropped.
    return Buffer(min(hold, MAX_AGE / 2), MAX_AGE, MAX_TIMED, after)


class Segments(_fork.Forks):
    """Ids that are fetched ahead, in ranges that grow with their use, for any number of threads.

    The ids of one handle are unique and increase. Ids of different handles are unique, and in no order. Fetched ids that are
    not used are a gap: at most 2 and twice the used ids. A range lasts for `hold` at the present rate, and the next range is
    fetched when half of it is used, so a handle in use gives out ids while no node responds. Ids with a time are dropped when
    they were fetched more than a second ago. In a child of the process the handle begins without ids: those that were fetched
    are the parent's.
    """

    def __init__(self, series: Series, hold: float) -> None:
        """Made by `Series.segments`."""
        self._series = series
        self._hold = hold
        self._closed = False
        self._start(series._after)
        _fork.register(self)

    def _start(self, after: int) -> None:
        """Begins without ids, for ids above `after`."""
        self._buffer = _buffer(self._series.shape, self._hold, after)
        self._lock = threading.Lock()
        self._fetcher: ThreadPoolExecutor | None = None
        self._fetch: Future[tuple[Ids, float]] | None = None

    def _after_fork(self) -> None:
        _fork.discard(self)
        self._start(self._buffer.highest)

    def try_next(self) -> int | None:
        """Takes the next id, if one is fetched. Raises ClientClosed after `close`."""
        with self._lock:
            return self._take()

    def next(self) -> int:
        """Takes the next id. Waits only while none is fetched. Raises what `Series.next` raises; a later call fetches again."""
        while True:
            with self._lock:
                taken, fetch, retry_at = self._take(), self._fetch, self._buffer.retry_at
            if taken is not None:
                return taken
            if fetch is None:
                # A fetch has failed a moment ago.
                time.sleep(max(retry_at - time.monotonic(), 0.0))
            elif (error := fetch.exception()) is not None:
                self._collect(fetch)
                raise error

    def close(self) -> int:
        """Closes the handle. Returns the number of its ids that were fetched and not used, which become a gap."""
        with self._lock:
            self._closed = True
            if self._fetcher is not None:
                self._fetcher.shutdown(wait=False, cancel_futures=True)
            return self._buffer.unused

    def _take(self) -> int | None:
        if self._closed:
            raise ClientClosed
        if self._fetch is not None and self._fetch.done():
            self._add(self._fetch)
        taken, fetch = self._buffer.take(time.monotonic())
        if fetch is not None:
            if self._fetcher is None:
                self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="seqsvr-segments")
            self._fetch = self._fetcher.submit(self._request, fetch)
        return taken

    def _request(self, fetch: Fetch) -> tuple[Ids, float]:
        series = self._series.after(fetch.after) if fetch.after else self._series
        return series.take(fetch.size), time.monotonic()

    def _collect(self, fetch: Future[tuple[Ids, float]]) -> None:
        with self._lock:
            if self._fetch is fetch:
                self._add(fetch)

    def _add(self, fetch: Future[tuple[Ids, float]]) -> None:
        """Adds the result of the fetch to the buffer."""
        self._fetch = None
        if fetch.exception() is None:
            self._buffer.fetched(*fetch.result())
        else:
            self._buffer.failed(time.monotonic())


class AsyncSegments(_fork.Forks):
    """Ids that are fetched ahead, for asyncio; see `Segments`."""

    def __init__(self, series: AsyncSeries, hold: float) -> None:
        """Made by `AsyncSeries.segments`."""
        self._series = series
        self._hold = hold
        self._closed = False
        self._start(series._after)
        _fork.register(self)

    def _start(self, after: int) -> None:
        """Begins without ids, for ids above `after`."""
        self._buffer = _buffer(self._series.shape, self._hold, after)
        self._fetch: asyncio.Task[tuple[Ids, float] | SeqError] | None = None

    def _after_fork(self) -> None:
        _fork.discard(self)
        self._start(self._buffer.highest)

    def try_next(self) -> int | None:
        """Takes the next id, if one is fetched; see `Segments.try_next`."""
        if self._closed:
            raise ClientClosed
        if self._fetch is not None and self._fetch.done():
            self._add(self._fetch)
        taken, fetch = self._buffer.take(time.monotonic())
        if fetch is not None:
            self._fetch = asyncio.create_task(self._request(fetch))
        return taken

    async def next(self) -> int:
        """Takes the next id; see `Segments.next`."""
        while True:
            taken = self.try_next()
            if taken is not None:
                return taken
            if self._fetch is None:
                # A fetch has failed a moment ago.
                await asyncio.sleep(max(self._buffer.retry_at - time.monotonic(), 0.0))
                continue
            fetch = self._fetch
            # Another task may wait for the same fetch.
            await asyncio.wait([fetch])
            result = fetch.result()
            if isinstance(result, SeqError):
                if self._fetch is fetch:
                    self._add(fetch)
                raise result

    async def close(self) -> int:
        """Closes the handle; see `Segments.close`."""
        self._closed = True
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.gather(self._fetch, return_exceptions=True)
        return self._buffer.unused

    async def _request(self, fetch: Fetch) -> tuple[Ids, float] | SeqError:
        series = self._series.after(fetch.after) if fetch.after else self._series
        try:
            return await series.take(fetch.size), time.monotonic()
        except SeqError as error:
            return error

    def _add(self, fetch: asyncio.Task[tuple[Ids, float] | SeqError]) -> None:
        """Adds the result of the fetch to the buffer."""
        self._fetch = None
        result = fetch.result()
        if isinstance(result, SeqError):
            self._buffer.failed(time.monotonic())
        else:
            self._buffer.fetched(*result)
