"""The client for threads, against a real cluster."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import grpc
import pytest

from seqsvr import (
    Allocation,
    Client,
    ClientClosed,
    ConnectError,
    CountOutOfRange,
    Current,
    DeadlineExceeded,
    Refused,
    SeqError,
    UidOutside,
    Unreachable,
)
from seqsvr._failure import OUTCOME_UNKNOWN
from seqsvr._routes import KnownSet
from tests.conftest import Cluster, forwarded, seqsvr

UIDS = count(1_000)
"""Uids that no other test uses."""


def allocated(result: Allocation | SeqError) -> Allocation:
    assert isinstance(result, Allocation), result
    return result


def test_numbers_are_consecutive_and_results_hold_their_range(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        assert client.current(uid) == Current(0, True, client.current(uid).epoch)
        first = client.next(uid)
        assert (first.value, first.prev, first.count, first.lost) == (1, 0, 1, 0)
        assert first.epoch >= 1
        five = client.next_n(uid, 5)
        assert (five.prev, list(five.numbers)) == (1, [2, 3, 4, 5, 6])
        read = client.current(uid)
        assert (read.value, read.exact) == (6, True)


def test_calls_go_to_the_owner(cluster: Cluster) -> None:
    before = forwarded(cluster)
    uids = [section * cluster.section_size + 98_765 for section in range(cluster.uid_end // cluster.section_size)]
    with Client(cluster.allocs[1]) as client:
        for uid in uids:
            client.next(uid)
            client.current(uid)
        values = [allocated(result).value for result in client.next_many(uids)]
        reads = client.current_many(uids)
    assert [read.value for read in reads if isinstance(read, Current)] == values
    assert forwarded(cluster) == before


def test_each_item_of_a_batch_has_its_own_result_in_order(cluster: Cluster) -> None:
    a, b = next(UIDS), next(UIDS) + cluster.section_size
    with Client(*cluster.allocs) as client:
        results = client.next_many([a, b, a, cluster.uid_end, a], [1, 2, 3, 4, 5])
        assert [allocated(results[index]).value for index in (0, 1, 2, 4)] == [1, 2, 4, 9]
        assert isinstance(results[3], UidOutside)
        assert not results[3].retryable
        assert not results[3].may_have_applied
        assert client.next_many([]) == []


def test_user_0_is_a_user(cluster: Cluster) -> None:
    with Client(cluster.allocs[0]) as client:
        first = client.next(0)
        assert client.next(0).prev == first.value
        assert client.current(0).value == first.value + 1


def test_a_request_without_a_uid_is_refused(cluster: Cluster) -> None:
    with grpc.insecure_channel(cluster.allocs[0].removeprefix("http://")) as channel:
        for method in ("Next", "Current", "Advance"):
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/seqsvr.v1.SequenceService/{method}")
            with pytest.raises(grpc.RpcError, match="send its field uid"):
                call(b"")


def test_a_batch_above_the_limit_goes_in_order(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0], deadline=60) as client:
        values = [allocated(result).value for result in client.next_many([uid] * 25_000)]
    assert values == list(range(1, 25_001))


def test_bad_input_is_refused_before_anything_is_sent(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        for number in (0, -1, 1_000_001):
            with pytest.raises(CountOutOfRange) as refused:
                client.next_n(uid, number)
            assert refused.value.reason == "COUNT_OUT_OF_RANGE"
            with pytest.raises(CountOutOfRange):
                client.next_many([uid, uid], [1, number])
        for outside in (-1, cluster.uid_end, 2**64):
            with pytest.raises(UidOutside):
                client.next(outside)
        with pytest.raises(TypeError):
            client.next("7")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="zip"):
            client.next_many([uid, uid], [1])
        assert client.current(uid).value == 0


def test_a_uid_is_advanced(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        assert client.advance(uid, 1_000) >= 1
        assert client.advance(uid, 1_000) >= 1, "it is idempotent"
        assert client.next(uid).value == 1_001
        with pytest.raises(Refused) as past:
            client.advance(uid, 1_000)
        assert (past.value.reason, past.value.retryable, past.value.bound) == ("ALREADY_PAST", False, None)
        with pytest.raises(Refused) as far:
            client.advance(uid, 2**61)
        assert far.value.reason == "ADVANCE_TOO_FAR"
        assert far.value.bound is not None
        assert client.advance(uid, far.value.bound) >= 1
        assert client.next(uid).value == far.value.bound + 1
        for wrong in (-1, 2**64):
            with pytest.raises(ValueError, match="a number is 0 to"):
                client.advance(uid, wrong)
        with pytest.raises(TypeError):
            client.advance(uid, "7")  # type: ignore[arg-type]
        with pytest.raises(UidOutside):
            client.advance(cluster.uid_end, 1)


def test_outcomes_that_are_unknown_are_those_of_the_servers() -> None:
    reasons = json.loads(seqsvr("explain", "-o", "json"))["items"]
    unknown = {each["reason"] for each in reasons if each["outcome"] == "unknown" and each["subject"] != "Clients"}
    assert unknown == OUTCOME_UNKNOWN - {""}


@pytest.mark.parametrize("seed", ["", "localhost", "h:0", "h:65536", "redis://h:1", "http://h:1/path", ":1"])
def test_bad_seeds_are_refused_by_name(seed: str) -> None:
    with pytest.raises(ConnectError, match="not of the form"):
        Client(seed)


def test_tls_is_refused_by_name() -> None:
    with pytest.raises(ConnectError, match=r"https://h:1.*pass tls="):
        Client("https://h:1")


def test_seeds_may_come_as_an_iterable(cluster: Cluster) -> None:
    with Client(cluster.allocs) as client:
        assert client.next(next(UIDS)).value == 1
    with Client(iter(cluster.allocs), "127.0.0.1:1") as client:
        assert client.next(next(UIDS)).value == 1
    for wrong in (7100, b"h:1", None, [7100], [b"h:1"]):
        with pytest.raises(TypeError, match="named by a str"):
            Client(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one node"):
        Client([])
    with pytest.raises(ValueError, match="at least one node"):
        Client()


def test_a_closed_client_stays_closed(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        assert client.next(uid).value == 1
    calls: list[Callable[[], object]] = [
        lambda: client.next(uid),
        lambda: client.next_many([uid, uid]),
        lambda: client.current(uid),
        lambda: client.current_many([uid]),
        lambda: client.connect(),
        lambda: client.next(cluster.uid_end),
    ]
    for call in calls:
        with pytest.raises(ClientClosed, match="closed") as closed:
            call()
        assert isinstance(closed.value, ValueError)
        assert not closed.value.may_have_applied
        assert not closed.value.retryable
    assert not client._channels, "no connection was opened again"
    client.close()
    # An unused client, too.
    unused = Client(cluster.allocs[0])
    unused.close()
    with pytest.raises(ClientClosed):
        unused.next(uid)
    with Client(cluster.allocs[0]) as other:
        assert other.current(uid).value == 1, "nothing was taken"


def test_close_ends_calls_in_flight() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        client = Client(f"127.0.0.1:{silent.getsockname()[1]}", deadline=60)
        under_way = pool.submit(client.next, 1)
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            client.close()
            with pytest.raises(ClientClosed):
                under_way.result(timeout=30)


def test_a_port_of_another_service_is_recognised(cluster: Cluster) -> None:
    with Client(cluster.stores[0], deadline=2) as client:
        with pytest.raises(ConnectError, match=r"is a store.*name an AllocSvr") as error:
            client.next(1)
        assert not error.value.retryable
    with Client(cluster.http, deadline=2) as client, pytest.raises(ConnectError, match="not gRPC"):
        client.next(1)


def test_an_unreachable_seed_is_named(cluster: Cluster) -> None:
    dead = "127.0.0.1:1"
    with Client(dead, deadline=2) as client, pytest.raises(ConnectError, match=dead):
        client.next(1)
    # One reachable seed is enough.
    with Client(dead, cluster.allocs[0]) as client:
        assert client.next(next(UIDS)).value == 1


def test_a_deadline_is_kept_and_its_error_is_specific(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        client.connect()
        with pytest.raises(DeadlineExceeded) as late:
            client.next(uid, deadline=0)
        assert late.value.retryable
        assert not late.value.may_have_applied
        assert isinstance(late.value, TimeoutError)


def known_set(client: Client) -> KnownSet:
    (known,) = client._shared.routes.sets.values()
    return known


def test_another_node_is_tried_after_an_unreachable_one(cluster: Cluster) -> None:
    uid = next(UIDS)
    with Client(cluster.allocs[0]) as client:
        client.connect()
        # The owner's address in this client's routes has no listener.
        known = known_set(client)
        known.nodes[known.space[uid].owner] = "127.0.0.1:1"
        answer = client.next(uid)
        assert (answer.value, answer.lost) == (1, 0)
        # Now no node's address has a listener; the seed's has.
        for node in known.nodes:
            known.nodes[node] = "127.0.0.1:1"
        assert allocated(client.next_many([uid])[0]).value == 2


def test_a_set_without_reachable_nodes_is_an_error(cluster: Cluster) -> None:
    with Client(cluster.allocs[0]) as client:
        client.connect()
        known = known_set(client)
        for node in known.nodes:
            known.nodes[node] = "127.0.0.1:1"
        object.__setattr__(known, "seeds", ())
        with pytest.raises((Unreachable, DeadlineExceeded)) as error:
            client.next(1, deadline=0.5)
        assert error.value.retryable
        with pytest.raises((Unreachable, DeadlineExceeded)):
            client.next_many([1, 2], deadline=0.5)


def test_threads_share_a_client_and_numbers_grow_for_each(cluster: Cluster) -> None:
    uid = next(UIDS)
    taken: list[int] = []
    lock = threading.Lock()

    def take() -> None:
        last = 0
        for _ in range(50):
            answer = client.next(uid)
            assert answer.value > last
            assert answer.prev >= last
            last = answer.value
            with lock:
                taken.append(last)

    with Client(*cluster.allocs) as client:
        with ThreadPoolExecutor(8) as pool:
            for worker in [pool.submit(take) for _ in range(8)]:
                worker.result()
        assert sorted(taken) == list(range(1, 401))
        assert client.current(uid).value == 400
