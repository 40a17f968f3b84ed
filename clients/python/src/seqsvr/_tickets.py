"""Tickets: ids of several counters in turn, as of ticket servers."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from seqsvr import _fork
from seqsvr._budget import backoff
from seqsvr._errors import Refused, SeqError
from seqsvr._ids import CounterShape, Ids
from seqsvr._series import AnySeries, AsyncSeries, Series, refusal

LEFT_OUT = 1.0
"""Time for which a counter that failed is left out while another one responds, in seconds."""

AnyOf = TypeVar("AnyOf", Series, AsyncSeries)


@dataclass
class _Counter(Generic[AnyOf]):
    """A counter, and the time until which it is left out."""

    series: AnyOf
    shape: CounterShape
    left_out_until: float = 0.0


@dataclass
class _Attempt(Generic[AnyOf]):
    """An attempt of a call. `timeout` is in seconds: a counter that hangs leaves time for the others."""

    counter: _Counter[AnyOf]
    series: AnyOf
    timeout: float
    last: int


class _Call(Generic[AnyOf]):
    """The attempts of one call, without any I/O."""

    def __init__(self, tickets: _Tickets[AnyOf], deadline: float | None) -> None:
        self._tickets: _Tickets[AnyOf] = tickets
        self._order: list[_Counter[AnyOf]] = tickets._order()
        timeout = self._order[0].series._client._deadline if deadline is None else deadline
        self._deadline_at = time.monotonic() + timeout
        self._made = 0
        self._may_have_applied = False

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return max(self._deadline_at - time.monotonic(), 0.001)

    def attempts(self) -> Iterator[_Attempt[AnyOf]]:
        """The counters in turn; the caller ends the iteration."""
        while True:
            place = self._made % len(self._order)
            counter, last = self._order[place], self._tickets._last
            series = counter.series.after(last) if last else counter.series
            yield _Attempt(counter, series, self.remaining / (len(self._order) - place), last)
            self._made += 1

    def taken(self, counter: _Counter[AnyOf], ids: Ids) -> Ids:
        """Records the ids of a call."""
        counter.left_out_until = 0.0
        with self._tickets._lock:
            self._tickets._last = max(self._tickets._last, ids.last)
        return ids

    def failed(self, counter: _Counter[AnyOf], error: SeqError) -> float:
        """Leaves the counter out; returns the wait before the next attempt. Raises the error if there is none."""
        self._may_have_applied = error.may_have_applied = self._may_have_applied or error.may_have_applied
        if not error.retryable:
            raise error
        counter.left_out_until = time.monotonic() + LEFT_OUT
        rounds, place = divmod(self._made, len(self._order))
        hint = error.retry_after if isinstance(error, Refused) else None
        # The next counter is tried at once.
        wait = backoff(rounds + 1, hint) if place + 1 == len(self._order) else 0.0
        known = counter.series._client._shared.routes.sets.get(counter.series._home)
        if wait >= self.remaining or known is None or not known.budget.spend():
            raise error
        return wait


class _Tickets(_fork.Forks, Generic[AnyOf]):
    def __init__(self, series: Iterable[AnyOf]) -> None:
        counters: list[_Counter[AnyOf]] = []
        for each in series:
            shape = _checked(each, [counter.series for counter in counters])
            counters.append(_Counter(each, shape))
        if not counters:
            raise ValueError("tickets need a series")
        self._counters: list[_Counter[AnyOf]] = counters
        self._lock = threading.Lock()
        self._turn = 0
        # The highest id of a response.
        self._last = 0
        _fork.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def _order(self) -> list[_Counter[AnyOf]]:
        """The counters in the order of a call's attempts: in turn, with the counters that are left out at the end."""
        with self._lock:
            turn = self._turn
            self._turn = (turn + 1) % len(self._counters)
        now = time.monotonic()
        return sorted(self._counters[turn:] + self._counters[:turn], key=lambda counter: counter.left_out_until > now)


class Tickets(_Tickets[Series]):
    """Ids of several counters in turn: of two sets or clusters, so that ids go on while one of them is down.

    Ids are unique, because no two counters have an id in common, and the ids of calls that follow each other increase. A call
    whose counter is unavailable continues with the next counter, within the retry budget of its set; the unavailable counter is
    left out for a second.
    """

    def __init__(self, series: Iterable[Series]) -> None:
        """Raises Refused: NOT_A_COUNTER for a series with a time, LANES_OVERLAP if two counters could give out one id."""
        super().__init__(series)

    @classmethod
    def over(cls, series: Iterable[Series]) -> Tickets:
        """The tickets of some counters; see `Tickets`."""
        return cls(series)

    def next(self, *, deadline: float | None = None) -> int:
        """Takes the next id, above the ids of all calls that have ended. Raises what `Series.next` raises."""
        return self.take(1, deadline=deadline).last

    def take(self, count: int, *, deadline: float | None = None) -> Ids:
        """Takes the next `count` ids of one counter, 1 to 1,000,000. Raises what `Series.take` raises."""
        call = _Call(self, deadline)
        for attempt in call.attempts():
            try:
                return call.taken(attempt.counter, _take(attempt, count))
            except SeqError as error:
                time.sleep(call.failed(attempt.counter, error))
        raise AssertionError("the deadline ends the call")


class AsyncTickets(_Tickets[AsyncSeries]):
    """Ids of several counters in turn, for asyncio; see `Tickets`."""

    def __init__(self, series: Iterable[AsyncSeries]) -> None:
        """See `Tickets`."""
        super().__init__(series)

    @classmethod
    def over(cls, series: Iterable[AsyncSeries]) -> AsyncTickets:
        """The tickets of some counters; see `Tickets`."""
        return cls(series)

    async def next(self, *, deadline: float | None = None) -> int:
        """Takes the next id; see `Tickets.next`."""
        return (await self.take(1, deadline=deadline)).last

    async def take(self, count: int, *, deadline: float | None = None) -> Ids:
        """Takes the next `count` ids of one counter; see `Tickets.take`."""
        call = _Call(self, deadline)
        for attempt in call.attempts():
            try:
                return call.taken(attempt.counter, await _take_async(attempt, count))
            except SeqError as error:
                await asyncio.sleep(call.failed(attempt.counter, error))
        raise AssertionError("the deadline ends the call")


def _take(attempt: _Attempt[Series], count: int) -> Ids:
    """Takes ids of one counter. A counter that is too far behind the others is raised first."""
    series, client, timeout = attempt.series, attempt.series._client, attempt.timeout
    try:
        return client._run_ids(series._home, count, timeout, series._next(count), once=True)
    except Refused as error:
        to = attempt.counter.shape.at_most(attempt.last) if error.reason == "AFTER_TOO_FAR" else None
        if to is None:
            raise
    try:
        client._run_ids(series._home, 1, timeout, series._raise(to), once=True)
    except Refused as error:
        if error.reason != "ALREADY_PAST":
            raise
    return client._run_ids(series._home, count, timeout, series._next(count), once=True)


async def _take_async(attempt: _Attempt[AsyncSeries], count: int) -> Ids:
    """As `_take`."""
    series, client, timeout = attempt.series, attempt.series._client, attempt.timeout
    try:
        return await client._run_ids(series._home, count, timeout, series._next(count), once=True)
    except Refused as error:
        to = attempt.counter.shape.at_most(attempt.last) if error.reason == "AFTER_TOO_FAR" else None
        if to is None:
            raise
    try:
        await client._run_ids(series._home, 1, timeout, series._raise(to), once=True)
    except Refused as error:
        if error.reason != "ALREADY_PAST":
            raise
    return await client._run_ids(series._home, count, timeout, series._next(count), once=True)


def _checked(series: AnySeries, others: Sequence[AnySeries]) -> CounterShape:
    """The shape of a counter that has no id in common with others, apart from their ends. Raises Refused."""
    shape = series.shape
    if not isinstance(shape, CounterShape):
        text = f"the ids of series {series.name!r} follow the clock: tickets are ids of counters"
        raise refusal("NOT_A_COUNTER", "INVALID_ARGUMENT", text)
    for other in others:
        assert isinstance(other.shape, CounterShape)
        if (shape.offset - other.shape.offset) % math.gcd(shape.increment, other.shape.increment) == 0:
            text = (
                f"series {series.name!r} and {other.name!r} have ids in common: give them one increment and different offsets"
            )
            raise refusal("LANES_OVERLAP", "INVALID_ARGUMENT", text)
    return shape
