"""Concurrent calls share the messages of a stream: against a real cluster, and against a double that is in trouble."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count

import grpc
import pytest

from seqsvr import (
    AsyncClient,
    Client,
    ClientClosed,
    DeadlineExceeded,
    Refused,
    _attempts,
)
from seqsvr._queue import CallQueue
from seqsvr.testing import FakeCluster, Refusal
from tests.conftest import Cluster, forwarded
from tests.servers import until

UIDS = count(250_000)
"""Uids that no other test uses."""


def queues(client: Client | AsyncClient) -> list[CallQueue]:
    return [batcher._queue for batcher in client._batchers.values()]


def messages(client: Client | AsyncClient) -> int:
    """Number of messages that a client has sent in streams."""
    return sum(queue._tag for queue in queues(client))


def test_threads_share_messages_and_each_gets_its_own_numbers(cluster: Cluster) -> None:
    before = forwarded(cluster)
    uids = [next(UIDS) for _ in range(4)]
    barrier = threading.Barrier(64)

    def take(number: int) -> list[int]:
        barrier.wait(60)
        return [client.next(uids[number % 4]).value for _ in range(25)]

    with Client(*cluster.allocs) as client:
        with ThreadPoolExecutor(64) as pool:
            taken = list(pool.map(take, range(64)))
        assert messages(client) <= 64 * 25 / 2, "calls share messages"
    for values in taken:
        assert values == sorted(values)
    for number in range(4):
        assert sorted(chain.from_iterable(taken[number::4])) == list(range(1, 401))
    assert forwarded(cluster) == before


async def test_tasks_share_messages(cluster: Cluster) -> None:
    uid = next(UIDS)
    async with AsyncClient(*cluster.allocs) as client:
        await client.connect()
        taken = await asyncio.gather(*[client.next_n(uid, 2) for _ in range(2_000)])
        assert sorted(number for each in taken for number in each.numbers) == list(range(1, 4_001))
        assert messages(client) <= 2_000 / 8, "calls share messages"
        assert {each.lost for each in taken} == {0}
    async with AsyncClient(*cluster.allocs, coalesce=False) as client:
        assert (await client.next(uid)).value == 4_001
        assert messages(client) == 0


def test_no_call_waits_for_another_ones_section(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    with Client(one.addrs, deadline=60) as client:
        client.connect()
        # The node would have to wait: the call is sent again alone, which is no retry.
        one.refuse("WOULD_WAIT")
        before = client._shared.routes.sets[one.id].budget._saved
        taken = client.next(1)
        assert (taken.value, taken.lost, len(one.seen)) == (1, 0, 2)
        assert client._shared.routes.sets[one.id].budget._saved >= before


def test_a_section_that_moves_is_followed(seqsvr_fake: FakeCluster) -> None:
    with FakeCluster("ab") as world, Client(world.sets[0].addrs) as client:
        a, b = world.sets
        assert client.next(1).value == 1
        world.move(0, b, a, b)
        # The refusal has the route, so the owner is asked next, and in a stream after that.
        assert (client.next(1).value, a.forwarded) == (2, 0)
        assert client.next(1).value == 3
        assert len(client._batchers) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_without_a_response_ends_at_its_deadline(seqsvr_fake: FakeCluster, is_async: bool) -> None:
    (one,) = seqsvr_fake.sets

    async def once() -> None:
        async with AsyncClient(one.addrs) as client:
            await client.connect()
            one.hold()
            with pytest.raises(DeadlineExceeded) as late:
                await client.next(1, deadline=0.05)
            assert late.value.may_have_applied
            one.release()
            assert (await client.next(1, deadline=60)).lost == 0

    if is_async:
        asyncio.run(once())
        return
    with Client(one.addrs) as client:
        client.connect()
        one.hold()
        with pytest.raises(DeadlineExceeded) as late:
            client.next(1, deadline=0.05)
        assert late.value.may_have_applied
        one.release()
        assert client.next(1, deadline=60).lost == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_an_attempt_ends_early_while_another_node_can_serve(
    seqsvr_fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(_attempts, "MIN_ATTEMPT", 0.05)
    monkeypatch.setattr(_attempts, "ATTEMPTS_IN_DEADLINE", 1_200)
    (one,) = seqsvr_fake.sets

    async def once(coalesce: bool) -> int:
        async with AsyncClient(one.addrs, deadline=60, coalesce=coalesce) as client:
            return (await client.next(1)).lost

    owner = one.addrs[1]
    one.hold(owner)
    for coalesce in (True, False):
        if is_async:
            assert asyncio.run(once(coalesce)) == 1
            continue
        with Client(one.addrs, deadline=60, coalesce=coalesce) as client:
            # The owner does not respond; the other node serves, and the owner is left alone for a second.
            assert client.next(1).lost == 1
            assert owner in client._shared.suspects
    one.release()


def test_a_broken_stream_ends_its_calls_and_the_next_ones_are_sent_elsewhere(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    with Client(one.addrs, deadline=60) as client, ThreadPoolExecutor(32) as pool:
        assert client.next(1).value == 1
        owner = one.addrs[1]
        one.hold(owner)
        calls = [pool.submit(client.next, 1) for _ in range(32)]
        until("calls wait for the node", lambda: one.held > 0 and len(queues(client)) == 1 and not queues(client)[0].is_idle)
        one.stop_node(owner)
        taken = [call.result() for call in calls]
    values = sorted(each.value for each in taken)
    assert values == sorted(set(values))
    # Calls of a message that was sent may have taken numbers, and no others.
    assert {each.lost for each in taken} <= {0, 1}
    assert any(each.lost for each in taken)


@pytest.mark.parametrize("is_async", [False, True])
def test_refusals_in_a_stream_are_those_of_the_call(seqsvr_fake: FakeCluster, is_async: bool) -> None:
    (one,) = seqsvr_fake.sets
    one.refuse("UNSERVED")
    one.script.append(Refusal("EXHAUSTED", grpc.StatusCode.RESOURCE_EXHAUSTED, 0))

    async def once() -> None:
        async with AsyncClient(one.addrs, deadline=60) as client:
            await client.next(1)

    def call() -> None:
        with Client(one.addrs, deadline=60) as client:
            client.next(1)

    with pytest.raises(Refused) as refused:
        asyncio.run(once()) if is_async else call()
    error = refused.value
    assert (error.reason, error.code, error.attempts) == ("EXHAUSTED", "RESOURCE_EXHAUSTED", 2)
    assert (error.retryable, error.may_have_applied) == (False, False)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_node_without_streams_gets_each_call_alone(seqsvr_fake: FakeCluster, is_async: bool) -> None:
    (one,) = seqsvr_fake.sets
    one.has_streams = False

    async def once() -> int:
        async with AsyncClient(one.addrs) as client:
            return [(await client.next(1)).lost for _ in range(3)][-1]

    if is_async:
        assert asyncio.run(once()) == 0
    else:
        with Client(one.addrs) as client:
            assert [client.next(1).lost for _ in range(3)] == [0, 0, 0]
    assert seqsvr_fake.numbers[1] == 3


def test_close_ends_calls_in_streams_and_their_threads(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    client = Client(one.addrs, deadline=60)
    client.next(1)
    one.hold()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(client.next, 1) for _ in range(8)]
        until("calls wait for the node", lambda: one.held > 0)
        client.close()
        for call in calls:
            with pytest.raises(ClientClosed):
                call.result(timeout=60)
    one.release()
    until("the threads have ended", lambda: not [each for each in threading.enumerate() if each.name == "seqsvr-stream"])


async def test_close_ends_calls_of_asyncio_in_streams(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    client = AsyncClient(one.addrs, deadline=60)
    await client.next(1)
    one.hold()
    calls = [asyncio.create_task(client.next(1)) for _ in range(8)]
    while not one.held:
        await asyncio.sleep(0.001)
    before = asyncio.all_tasks()
    await client.close()
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, ClientClosed)
    one.release()
    assert len(asyncio.all_tasks()) < len(before), "the tasks of the stream have ended"


async def test_a_cancelled_call_is_not_sent_and_leaves_the_others(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    async with AsyncClient(one.addrs, deadline=60) as client:
        await client.connect()
        calls = [asyncio.create_task(client.next(1)) for _ in range(10)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False] * 5
        assert seqsvr_fake.numbers[1] == 5, "cancelled before they were sent"


def test_an_unused_client_is_collected_with_its_threads(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    client = Client(one.addrs)
    client.next(1)
    assert [each for each in threading.enumerate() if each.name == "seqsvr-stream"]
    del client
    until("the threads have ended", lambda: not [each for each in threading.enumerate() if each.name == "seqsvr-stream"])
