"""The client for asyncio, against a real cluster."""

from __future__ import annotations

import asyncio
from itertools import chain, count

import pytest

from seqsvr import (
    Allocation,
    AsyncClient,
    ClientClosed,
    ConnectError,
    CountOutOfRange,
    Current,
    DeadlineExceeded,
    OtherEventLoop,
    UidOutside,
)
from tests.conftest import Cluster, forwarded

UIDS = count(50_000)
"""Uids that no other test uses."""


async def test_concurrent_calls_are_unique_and_in_order(cluster: Cluster) -> None:
    before = forwarded(cluster)
    uids = [next(UIDS), next(UIDS) + cluster.section_size]
    async with AsyncClient(cluster.allocs[0]) as client:

        async def take(uid: int) -> list[int]:
            return [(await client.next(uid)).value for _ in range(20)]

        taken = await asyncio.gather(*[take(uid) for uid in uids for _ in range(16)])
        for values in taken:
            assert values == sorted(values), "later requests get greater numbers"
        for index in range(2):
            together = sorted(chain.from_iterable(taken[index * 16 : index * 16 + 16]))
            assert together == list(range(1, 321))
            assert (await client.current(uids[index])).value == 320
    assert forwarded(cluster) == before


async def test_batches_and_reads(cluster: Cluster) -> None:
    a, b = next(UIDS), next(UIDS) + cluster.section_size
    async with AsyncClient(*cluster.allocs) as client:
        await client.connect()
        results = await client.next_many([a, b, cluster.uid_end, a], [1, 2, 1, 3])
        values = [result.value for result in results if isinstance(result, Allocation)]
        assert values == [1, 2, 4]
        assert isinstance(results[2], UidOutside)
        reads = await client.current_many([a, b])
        assert [read.value for read in reads if isinstance(read, Current)] == [4, 2]
        assert (await client.next_n(a, 10)).first == 5
        assert await client.advance(a, 100) >= 1
        assert (await client.next(a)).value == 101


async def test_errors_are_those_of_the_other_client(cluster: Cluster) -> None:
    uid = next(UIDS)
    async with AsyncClient(cluster.allocs[0]) as client:
        with pytest.raises(CountOutOfRange):
            await client.next_n(uid, 0)
        with pytest.raises(UidOutside):
            await client.next(cluster.uid_end)
        with pytest.raises(DeadlineExceeded):
            await client.next(uid, deadline=0)
        # A cancelled call leaves the client usable.
        task = asyncio.create_task(client.next(uid))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.next(uid)).value >= 1


async def test_a_closed_client_stays_closed(cluster: Cluster) -> None:
    uid = next(UIDS)
    async with AsyncClient(cluster.allocs) as client:
        assert (await client.next(uid)).value == 1
    for call in (client.next(uid), client.current_many([uid]), client.connect()):
        with pytest.raises(ClientClosed) as closed:
            await call
        assert isinstance(closed.value, ValueError)
    await client.close()
    assert not client._channels, "no connection was opened again"


def test_another_event_loop_is_refused_by_name(cluster: Cluster) -> None:
    uid = next(UIDS)
    client = AsyncClient(cluster.allocs[0])

    async def take() -> int:
        return (await client.next(uid)).value

    assert asyncio.run(take()) == 1
    for call in (take, client.close, client.connect):
        with pytest.raises(OtherEventLoop, match="another event loop") as wrong:
            asyncio.run(call())
        assert isinstance(wrong.value, RuntimeError)


async def test_a_port_of_another_service_is_recognised(cluster: Cluster) -> None:
    async with AsyncClient(cluster.stores[0], deadline=2) as client:
        with pytest.raises(ConnectError, match=r"is a store.*name an AllocSvr"):
            await client.next(1)
