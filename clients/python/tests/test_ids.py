"""Ids of series, against a real cluster with the series `tweets`, `media` and `orders`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count

import pytest

from seqsvr import (
    AsyncClient,
    AsyncTickets,
    Client,
    ClientClosed,
    CountOutOfRange,
    Ids,
    Refused,
    SeqError,
    Tickets,
    Unreachable,
)
from tests.conftest import Cluster, seqsvr

NAMES = (f"python-{number}" for number in count())
"""Names that no other test uses."""


def counter(cluster: Cluster, *args: str) -> str:
    """Creates a counter, and returns its name."""
    name = next(NAMES)
    seqsvr("series", "create", name, "--counter", *args, "--yes", "--addr", cluster.allocs[0])
    return name


def reason(call: Callable[[], object]) -> str:
    with pytest.raises(SeqError) as raised:
        call()
    return raised.value.reason


def test_ids_of_a_counter_are_taken_read_and_advanced(cluster: Cluster) -> None:
    name = counter(cluster, "--increment", "2", "--offset", "1")
    with Client(cluster.allocs[0]) as client:
        ids = client.series(name)
        assert ids.current().id is None
        assert ids.next() == 1
        three = ids.take(3)
        assert (list(three), len(three), three.first, three.last, three.lane) == ([3, 5, 7], 3, 3, 7, 0)
        assert ids.after(100).next() == 101
        assert ids.advance(1_001) >= 1
        read = ids.current()
        assert (read.id, read.exact) == (1_001, True)
        assert reason(lambda: ids.advance(7)) == "ALREADY_PAST"
        assert ids.decode(7).number == 4
        for wrong in (0, 8, -1, 2**63):
            assert reason(partial(ids.decode, wrong)) == "NOT_AN_ID"
        for many in (0, 1_000_001):
            with pytest.raises(CountOutOfRange, match=rf"^count {many} is not in"):
                ids.take(many)
        with pytest.raises(TypeError):
            ids.after("7")  # type: ignore[arg-type]
    with pytest.raises(ClientClosed):
        ids.next()


def test_ids_with_a_time(cluster: Cluster) -> None:
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    with Client(*cluster.allocs) as client:
        tweets, media = client.series("tweets"), client.series("media")
        many = list(tweets.take(10_000))
        assert many == sorted(set(many))
        assert tweets.after(many[-1]).next() > many[-1]
        parts = media.decode(media.lane(1_341).next())
        assert parts.lane == 1_341
        assert parts.time is not None
        assert before <= parts.time <= datetime.now(timezone.utc) + timedelta(seconds=2)
        assert reason(media.next) == "LANE_REQUIRED"
        assert reason(media.lane(8_192).next) == "LANE_OUT_OF_RANGE"
        assert reason(tweets.lane(1).next) == "LANE_NOT_ALLOWED"
        assert reason(tweets.current) == "NOT_A_COUNTER"
        assert reason(lambda: tweets.take(10_001)) == "COUNT_OUT_OF_RANGE"
        parts = tweets.decode(1541815603606036480)
        assert (parts.lane, parts.seq, str(parts.time)) == (378, 0, "2022-06-28 16:07:40.105000+00:00")
        with pytest.raises(Refused, match="no series") as unknown:
            client.series("none")
        assert (unknown.value.reason, unknown.value.uid, unknown.value.retryable) == ("UNKNOWN_SERIES", None, False)


def test_threads_get_different_ids(cluster: Cluster) -> None:
    name = counter(cluster)
    with Client(*cluster.allocs) as client, ThreadPoolExecutor(8) as threads:
        ids = client.series(name)
        segments = ids.segments()
        taken = list(threads.map(lambda _: ids.next(), range(200)))
        taken += threads.map(lambda _: segments.next(), range(400))
        assert len(set(taken)) == 600


def test_segments_increase_and_go_on_while_no_node_responds(cluster: Cluster) -> None:
    name = counter(cluster)
    with Client(*cluster.allocs) as client:
        for series in (client.series(name), client.series("tweets")):
            segments = series.segments()
            assert segments.try_next() is None
            taken = [segments.next() for _ in range(1_000)]
            assert taken == sorted(set(taken))
            assert segments.close() <= 2_002
            with pytest.raises(ClientClosed):
                segments.next()
        segments = client.series(name).segments(hold=5)
        for _ in range(500):
            segments.next()
        client.close()
        assert segments.try_next() is not None
    ended = Client(*cluster.allocs).series(counter(cluster, "--max-id", "3")).segments()
    assert [ended.next() for _ in range(3)] == [1, 2, 3]
    for _ in range(2):
        assert reason(ended.next) == "SERIES_ENDED"


def test_tickets_are_taken_in_turn_and_increase(cluster: Cluster) -> None:
    names = [counter(cluster, "--increment", "2", "--offset", offset) for offset in "12"]
    with Client(*cluster.allocs) as client:
        sides = [client.series(name) for name in names]
        # So far behind that the other counter has to be raised.
        sides[0].advance(9_000_001)
        tickets = Tickets.over(sides)
        taken = [tickets.next() for _ in range(20)]
        assert taken == sorted(set(taken))
        assert {id % 2 for id in taken} == {0, 1}
        assert taken[-1] < 9_000_100
        many = list(tickets.take(3))
        assert many == [many[0], many[0] + 2, many[0] + 4]
        assert reason(lambda: Tickets.over([sides[0], sides[0]])) == "LANES_OVERLAP"
        assert reason(lambda: Tickets.over([client.series("tweets")])) == "NOT_A_COUNTER"


def test_an_unavailable_counter_is_left_out(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    name = counter(cluster, "--increment", "2", "--offset", "1")
    with Client(*cluster.allocs) as client, Client(*cluster.allocs) as other:
        gone = other.series(counter(cluster, "--increment", "2", "--offset", "2"))
        tickets = Tickets.over([client.series(name), gone])
        asked = threading.Event()

        def fail(*args: object, **kwargs: object) -> Ids:
            asked.set()
            raise Unreachable("127.0.0.1:1", "no route", may_have_applied=False, attempts=1)

        monkeypatch.setattr(other, "_run_ids", fail)
        taken = [tickets.next() for _ in range(50)]
        assert taken == sorted(set(taken))
        assert {id % 2 for id in taken} == {1}
        assert asked.is_set()
        monkeypatch.setattr(client, "_run_ids", fail)
        with pytest.raises(Unreachable):
            tickets.next(deadline=0.2)


async def test_the_same_calls_for_asyncio(cluster: Cluster) -> None:
    names = [counter(cluster, "--increment", "2", "--offset", offset) for offset in "12"]
    async with AsyncClient(*cluster.allocs) as client:
        sides = [await client.series(name) for name in names]
        assert await sides[0].next() == 1
        assert list(await sides[0].after(10).take(2)) == [11, 13]
        assert await sides[0].advance(101) >= 1
        assert (await sides[0].current()).id == 101
        segments = sides[0].segments()
        assert segments.try_next() is None
        taken = [await segments.next() for _ in range(500)]
        assert taken == sorted(set(taken))
        assert await segments.close() <= 1_002
        with pytest.raises(ClientClosed):
            segments.try_next()
        tickets = AsyncTickets.over(sides)
        taken = [await tickets.next() for _ in range(20)]
        assert taken == sorted(set(taken))
        media = await client.series("media")
        assert media.decode(await media.lane(7).next()).lane == 7
        with pytest.raises(Refused, match="needs a lane"):
            await media.segments().next()
