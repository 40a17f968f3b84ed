"""The buffer of segments against a twin: a queue of all fetched ids."""

from __future__ import annotations

import random
from collections import deque

import pytest

from seqsvr._ids import Ids
from seqsvr._segments import FIRST_PAUSE, Buffer, Fetch


def ids(first: int, size: int) -> Ids:
    return Ids((range(first, first + size),), 0, 1)


@pytest.mark.parametrize("seed", range(300))
def test_a_buffer_gives_out_the_ids_of_its_twin(seed: int) -> None:
    draw = random.Random(seed)
    max_age, max_size = draw.choice([None, 1.0]), draw.randint(1, 10_000)
    buffer = Buffer(10.0 if max_age is None else 0.5, max_age, max_size)
    queue: deque[tuple[int, float]] = deque()
    now, server, given, last, last_size, fetches, dropped = 1_000.0, 0, 0, 0, 0, 0, 0
    in_flight: Fetch | None = None
    for _ in range(3_000):
        step = draw.random()
        if step < 0.02:
            now += draw.random() * 5
        elif in_flight is not None and step < 0.1:
            # Others take ids as well.
            first = server + 1 + server % 3
            server = first + in_flight.size - 1
            buffer.fetched(ids(first, in_flight.size), now)
            queue.extend((id, now) for id in range(first, server + 1))
            last_size, in_flight = in_flight.size, None
        elif in_flight is not None and step < 0.12:
            server += in_flight.size
            buffer.failed(now)
            in_flight = None
        else:
            now += draw.random() * 0.002
            while queue and max_age is not None and now - queue[0][1] > max_age:
                queue.popleft()
                dropped += 1
            taken, fetch = buffer.take(now)
            assert taken == (queue.popleft()[0] if queue else None)
            if taken is not None:
                assert taken > last
                given, last = given + 1, taken
            if fetch is not None:
                assert in_flight is None, "one fetch in flight"
                assert taken is None or given >= 2, "no fetch ahead for one id"
                assert 1 <= fetch.size <= min(max_size, max(2 * last_size, 1))
                in_flight, fetches = fetch, fetches + 1
                assert buffer.unused == len(queue) + dropped
                slack = 0 if max_age is None else fetches
                assert len(queue) + dropped + fetch.size <= 2 + 2 * given + slack


def test_a_range_lasts_for_the_hold_at_the_present_rate() -> None:
    buffer, now, first, size = Buffer(10.0, None, 1_000_000), 0.0, 1, 0
    for _ in range(12_000):
        now += 0.005
        _, fetch = buffer.take(now)
        if fetch is not None:
            buffer.fetched(ids(first, fetch.size), now)
            first, size = first + fetch.size, fetch.size
    assert 1_900 <= size <= 2_000


def test_a_failed_fetch_is_repeated_after_a_pause() -> None:
    buffer, fetch = Buffer(10.0, None, 1_000_000), Fetch(1, 0)
    assert buffer.take(1.0) == (None, fetch)
    assert buffer.take(1.0) == (None, None)
    buffer.failed(1.0)
    assert buffer.take(1.0 + FIRST_PAUSE / 2) == (None, None)
    assert buffer.take(1.0 + FIRST_PAUSE) == (None, fetch)
