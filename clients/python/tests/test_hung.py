"""A node that hangs: SIGSTOP of an owner while calls go on. Its sections get another owner after 2.5 s without a renewal."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seqsvr import Allocation, AsyncClient, AttemptEvent, Client, Observer, SeqError
from tests.servers import TIMEOUT, Processes, until

UIDS = list(range(50, 1_000, 100))
"""One uid of each section."""

CALLS = 20
"""Calls of each client, one after the other, from the moment in which the owner hangs."""

Taken = list[tuple[float, Allocation]]
"""The seconds and the result of each call."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path, allocs=2) as processes:
        until("both allocators own sections", lambda: len(set(owners(processes).values())) == 2)
        yield processes


class Attempts(Observer):
    """Keeps the attempts."""

    def __init__(self) -> None:
        """Starts empty."""
        self.events: list[AttemptEvent] = []

    def attempt_ended(self, call: object, event: AttemptEvent) -> None:
        self.events.append(event)


def owners(nodes: Processes) -> dict[int, str]:
    """The address of the owner of each uid; empty while the cluster starts."""
    try:
        with Client(nodes.allocs, deadline=1) as client:
            if any(isinstance(result, SeqError) for result in client.next_many(UIDS)):
                return {}
            (known,) = client._shared.routes.sets.values()
            return {uid: known.nodes[known.space[uid].owner] for uid in UIDS}
    except SeqError:
        return {}


def test_a_node_that_hangs_fails_no_call(nodes: Processes) -> None:
    by_uid = owners(nodes)
    hung = by_uid[UIDS[0]]
    (uid, batch, *_) = [uid for uid, addr in by_uid.items() if addr == hung]
    ready, is_hung = threading.Barrier(7), threading.Event()

    def wait() -> None:
        ready.wait(TIMEOUT)
        assert is_hung.wait(TIMEOUT)

    def threads(coalesce: bool) -> Taken:
        with Client(nodes.allocs, coalesce=coalesce) as client:
            client.next(uid)
            wait()
            return [timed(lambda: client.next(uid)) for _ in range(CALLS)]

    def threads_that_wait() -> Taken:
        with Client(nodes.allocs, coalesce=False, deadline=600, observer=attempts) as client:
            client.next(uid)
            wait()
            return [timed(lambda: client.next(uid)) for _ in range(CALLS)]

    def threads_batches() -> Taken:
        def items(client: Client) -> Allocation:
            results = client.next_many([batch, *UIDS])
            errors = [result for result in results if isinstance(result, SeqError)]
            assert not errors, errors
            assert isinstance(results[0], Allocation)
            return results[0]

        with Client(nodes.allocs) as client:
            items(client)
            wait()
            return [timed(lambda: items(client)) for _ in range(CALLS)]

    async def tasks(coalesce: bool) -> Taken:
        async with AsyncClient(nodes.allocs, coalesce=coalesce) as client:
            await client.next(uid)
            await asyncio.to_thread(wait)
            taken = []
            for _ in range(CALLS):
                started = time.monotonic()
                allocation = await client.next(uid)
                taken.append((time.monotonic() - started, allocation))
            return taken

    attempts = Attempts()
    with ThreadPoolExecutor(6) as pool:
        running = {
            "threads with a stream": pool.submit(threads, True),
            "threads without one": pool.submit(threads, False),
            "threads with a long deadline": pool.submit(threads_that_wait),
            "threads with batches": pool.submit(threads_batches),
            "asyncio with a stream": pool.submit(lambda: asyncio.run(tasks(True))),
            "asyncio without one": pool.submit(lambda: asyncio.run(tasks(False))),
        }
        ready.wait(TIMEOUT)
        with nodes.hung(hung):
            is_hung.set()
            # A call that took the default deadline of 5 s would have failed.
            taken = {name: future.result() for name, future in running.items()}
    # A ping has found the node: by itself the attempt would have ended after 200 s, and grpcio's own ping after 60 s.
    _, first, *_ = attempts.events
    assert (first.reason, first.addr) == ("UNREACHABLE", hung)
    assert first.seconds < 30
    for name, calls in taken.items():
        values = [allocation.value for _, allocation in calls]
        assert values == sorted(set(values)), name
        print(f"{name}: the longest call took {max(seconds for seconds, _ in calls):.2f} s")
        # The node may have taken a number for the attempt that it did not respond to.
        assert calls[0][1].lost >= 1, name
    together = [allocation.value for name in taken if "batches" not in name for _, allocation in taken[name]]
    assert len(set(together)) == len(together)


def timed(call: Callable[[], Allocation]) -> tuple[float, Allocation]:
    started = time.monotonic()
    allocation = call()
    return time.monotonic() - started, allocation
