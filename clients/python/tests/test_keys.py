"""Keys of keyspaces, against a real cluster, and the retries of a batch of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import pytest

from seqsvr import (
    Allocation,
    AsyncClient,
    Client,
    ClientClosed,
    CountOutOfRange,
    Current,
    Keyspace,
    Refused,
    SeqError,
)
from seqsvr._attempts import MAX_KEYS_BYTES, KeyCall
from seqsvr._methods import NextKeys
from seqsvr._shared import Shared
from seqsvr.v1 import keys_pb2, route_pb2
from seqsvr.v1 import sequence_pb2 as pb
from tests.conftest import Cluster, seqsvr
from tests.servers import free_ports

PREFIXES = (f"python-{number}:" for number in count())
"""Prefixes of keys that no other test uses."""


@pytest.fixture(scope="module")
def keyspace(cluster: Cluster) -> str:
    """The name of a keyspace of the cluster."""
    seqsvr("keyspace", "create", "python", "--yes", "--addr", cluster.allocs[0])
    return "python"


def reason(call: Callable[[], object]) -> str:
    with pytest.raises(SeqError) as raised:
        call()
    return raised.value.reason


def values(results: list[Allocation | SeqError] | list[Current | SeqError]) -> list[int]:
    return [result.value for result in results if isinstance(result, Allocation | Current)]


def test_sparse_uids_are_served_once_the_cluster_has_a_keyspace_of_them(cluster: Cluster) -> None:
    sparse = [1_234_567_890_123_456_789, 2**64 - 1]
    with Client(cluster.allocs[0]) as client:
        assert [reason(partial(client.next, uid)) for uid in sparse] == ["UID_OUTSIDE"] * 2
    seqsvr("keyspace", "create", "users", "--uids", "--yes", "--addr", cluster.allocs[0])
    # A client that has just fetched routes in vain does not fetch them again at once.
    with Client(cluster.allocs[0]) as client:
        for uid in sparse:
            assert [client.next(uid).value, client.next(uid).value] == [1, 2]
            client.advance(uid, 10)
            assert client.current(uid).value == 10
        assert values(client.next_many([sparse[0], 77, sparse[1]]))[::2] == [11, 11]
        assert reason(lambda: client.keyspace("users").next("42")) == "UNKNOWN_KEYSPACE"


def test_numbers_of_keys_are_taken_read_and_advanced(cluster: Cluster, keyspace: str) -> None:
    prefix = next(PREFIXES)
    with Client(cluster.allocs[0]) as client:
        keys = client.keyspace(keyspace)
        assert keys.name == keyspace
        key = prefix + "conv:42"
        assert keys.current(key) == Current(0, True, keys.current(key).epoch)
        first = keys.next(key)
        assert (first.value, first.prev, first.count, first.lost) == (1, 0, 1, 0)
        assert list(keys.next_n(key.encode(), 3).numbers) == [2, 3, 4], "a text and its UTF-8 are the same key"
        assert keys.advance(key, 1_000) >= 1
        assert keys.advance(key, 1_000) >= 1
        assert (keys.current(key).value, keys.current(key).exact) == (1_000, True)
        assert reason(lambda: keys.advance(key, 7)) == "ALREADY_PAST"
        assert reason(lambda: keys.advance(key, 2**61)) == "ADVANCE_TOO_FAR"
        assert keys.next(key).value == 1_001
    with pytest.raises(ClientClosed):
        keys.next(key)


def test_keys_are_any_bytes(cluster: Cluster, keyspace: str) -> None:
    prefix = next(PREFIXES).encode()
    with Client(*cluster.allocs) as client:
        keys = client.keyspace(keyspace)
        names: list[str | bytes] = [b"", b"\xff\x00", b" ", b"\r\n", "ü".encode(), b"x" * (512 - len(prefix))]
        names = [prefix + name for name in names if isinstance(name, bytes)]
        assert values(keys.next_many(names)) == [1] * 6
        assert values(keys.next_many([*names, names[0]], [5] * 6 + [2])) == [6] * 6 + [8]
        assert values(keys.current_many(names)) == [8, 6, 6, 6, 6, 6]
        assert keys.current(prefix.decode() + "ü").value == 6
        for wrong in ("", b"", "x" * 513, "ü" * 257):
            calls: list[Callable[[], object]] = [
                partial(keys.next, wrong),
                partial(keys.current, wrong),
                partial(keys.advance, wrong, 5),
            ]
            assert [reason(call) for call in calls] == ["KEY_SIZE"] * 3
            good = next(PREFIXES)
            first, refused, second = keys.next_many([good, wrong, good], [2, 3, 1])
            assert values([first, second]) == [2, 3]
            assert isinstance(refused, Refused)
            assert (refused.reason, refused.may_have_applied) == ("KEY_SIZE", False)
            unread, last = keys.current_many([wrong, good])
            assert isinstance(unread, Refused)
            assert (unread.reason, values([last])) == ("KEY_SIZE", [3])
        for other in (42, None, ["a"]):
            with pytest.raises(TypeError, match="a key is a str or bytes"):
                keys.next(other)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not one str"):
            keys.next_many("conv:42")
        for many in (0, 1_000_001):
            with pytest.raises(CountOutOfRange, match=rf"^count {many} is not in"):
                keys.next_n("a", many)
        with pytest.raises(ValueError, match="zip"):
            keys.next_many(["a", "b"], [1])
        assert keys.next_many([]) == []
        with pytest.raises(Refused, match="no keyspace is named 'none'") as unknown:
            client.keyspace("none")
        assert (unknown.value.reason, unknown.value.retryable) == ("UNKNOWN_KEYSPACE", False)
        assert reason(lambda: client.keyspace("tweets")) == "UNKNOWN_KEYSPACE", "a series is none"
        assert reason(lambda: client.series(keyspace)) == "UNKNOWN_SERIES", "a keyspace is no series"


def test_long_batches_go_in_several_requests(cluster: Cluster, keyspace: str) -> None:
    prefix = next(PREFIXES)
    with Client(*cluster.allocs) as client:
        keys = client.keyspace(keyspace)
        long = [f"{prefix}{number}".ljust(512, "x") for number in range(600)]
        assert values(keys.next_many(long)) == [1] * 600
        many = [f"{prefix}{number}" for number in range(10_001)]
        assert values(keys.next_many(many)) == [1] * 10_001
        assert values(keys.current_many(many + long)) == [1] * 10_601


def test_threads_and_tasks_get_different_numbers_past_a_node_that_is_down(cluster: Cluster, keyspace: str) -> None:
    key = next(PREFIXES) + "shared"
    down = f"127.0.0.1:{free_ports(1)[0]}"
    with Client(down, *cluster.allocs) as client, ThreadPoolExecutor(8) as threads:
        keys: Keyspace = client.keyspace(keyspace)
        taken = [result.value for result in threads.map(lambda _: keys.next(key), range(200))]

    async def tasks() -> list[int]:
        async with AsyncClient(down, *cluster.allocs) as client:
            keys = await client.keyspace(keyspace)
            assert keys.name == keyspace
            numbers = await asyncio.gather(*[keys.next(key) for _ in range(200)])
            assert (await keys.current(key)).value == 400
            many = await keys.next_many([key, key.encode()], [1, 2])
            assert values(await keys.current_many([key])) == [403]
            assert await keys.advance(key, 500) >= 1
            assert (await keys.next_n(key, 2)).first == 501
            with pytest.raises(Refused, match="no keyspace"):
                await client.keyspace("none")
            return [each.value for each in numbers] + values(many)

    taken += asyncio.run(tasks())
    assert sorted(taken) == [*range(1, 402), 403]


def test_the_items_of_a_batch_are_retried_with_their_own_keys() -> None:
    shared = Shared()
    routes = route_pb2.Routes(set="a", set_id=1, version=1, uid_start=0, uid_end=10, section_size=10)
    shared.adopt(routes, "127.0.0.1:1")
    raw = [b"a", b"b", b"c"]
    call = KeyCall(shared, 1, raw, [1, 2, 3], 5.0, NextKeys("main", raw))
    (step,) = call.start()
    (attempt,) = call.attempts(step.group)
    assert isinstance(attempt.request, keys_pb2.NextKeysRequest)
    assert (attempt.method, list(attempt.request.raw_keys), list(attempt.request.counts)) == ("NextKeys", raw, [1, 2, 3])
    response = pb.NextManyResponse(values=[7, 0, 0], prevs=[6, 0, 0], epochs=[1, 0, 0])
    for index, reason in ((1, "OWNER_CONNECTION_LOST"), (2, "OTHER_TENANTS_KEY")):
        code = 14 if index == 1 else 7
        response.errors.append(pb.ItemError(index=index, code=code, reason=reason, retry_after_ms=2 - index))
    (step,) = call.on_response(attempt, response)
    (attempt,) = call.attempts(step.group)
    assert isinstance(attempt.request, keys_pb2.NextKeysRequest)
    assert (list(attempt.request.raw_keys), list(attempt.request.counts)) == ([b"b"], [2])
    assert call.on_response(attempt, pb.NextManyResponse(values=[5], prevs=[3], epochs=[1])) == []
    one, two, three = call.many()
    assert (one, two) == (Allocation(7, 6, 1), Allocation(5, 3, 1, count=2, lost=1))
    assert isinstance(three, Refused)
    assert (three.reason, three.uid, three.retryable) == ("OTHER_TENANTS_KEY", None, False)


def test_a_request_has_as_many_keys_as_fit() -> None:
    shared = Shared()
    shared.adopt(route_pb2.Routes(set="a", set_id=1, version=1, uid_end=10, section_size=10), "127.0.0.1:1")
    raw = [b"x" * 512] * 600
    call = KeyCall(shared, 1, raw, [1] * 600, 5.0, NextKeys("main", raw))
    (step,) = call.start()
    sizes = []
    while step.group.items:
        (attempt,) = call.attempts(step.group)
        sizes.append(len(attempt.items))
    assert sizes == [256, 256, 88]
    assert MAX_KEYS_BYTES == 256 * 512
