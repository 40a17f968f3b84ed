"""Several sets behind one seed: calls follow sections from set to set, and a set that is down affects no other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqsvr import (
    Allocation,
    ClientClosed,
    ConnectError,
    Current,
    Refused,
    SeqError,
    SetUnavailable,
    _attempts,
    _budget,
    _seeds,
)
from seqsvr._attempts import MAX_ITEMS
from seqsvr.testing import FakeCluster, FakeSet, Refusal
from seqsvr.testing._fake import SECTION, moved, unavailable
from tests.conftest import UnaryAsyncClient as AsyncClient
from tests.conftest import UnaryClient as Client
from tests.servers import until

UNSERVED = Refusal("UNSERVED")


@pytest.fixture
def world() -> Iterator[FakeCluster]:
    with FakeCluster("abc") as made:
        yield made


@pytest.fixture
def backoffs(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The backoffs as the servers requested them. Time earns no retries, and makes no node good again."""
    made: list[float | None] = []

    def backoff(attempts: int, at_least: float | None) -> float:
        made.append(at_least)
        return 0.001

    monkeypatch.setattr(_attempts, "backoff", backoff)
    monkeypatch.setattr(_budget, "RETRIES_PER_SECOND", 0.0)
    monkeypatch.setattr(_budget, "SUSPECT_FOR", 600.0)
    return made


def uid_of(one: FakeSet) -> int:
    """A uid of the first section of a set."""
    return (one.id - 1) * SECTION


def values(results: list[Allocation | SeqError]) -> list[int | str]:
    """The number of each item, or the reason of its error."""
    return [result.reason if isinstance(result, SeqError) else result.value for result in results]


def budget(client: Client | AsyncClient, one: FakeSet) -> _budget.Budget:
    return client._shared.routes.sets[one.id].budget


def saved(client: Client | AsyncClient, one: FakeSet) -> float:
    """The retries that a client has saved up for a set."""
    return budget(client, one)._saved


def test_one_seed_is_enough_to_reach_the_owners_in_every_set(world: FakeCluster) -> None:
    with Client(world.sets[0].addrs[0]) as client:
        for _ in range(3):
            for uid in range(0, world.sections * SECTION, SECTION):
                client.next(uid)
        results = client.next_many(list(range(0, world.sections * SECTION, SECTION)))
        reads = [client.current(uid) for uid in range(0, world.sections * SECTION, SECTION)]
    assert values(results) == [4] * world.sections
    assert [(read.value, read.exact) for read in reads] == [(4, True)] * world.sections
    for one in world.sets:
        assert one.forwarded == 0
        # Each set is asked for what is newer than its own version, once it sent one; then the owner is asked.
        assert {seen.route_version for seen in one.seen} <= {0, one.version}
        owner = one.addrs[1 % 2]
        assert all(seen.addr == owner for seen in one.seen if seen.route_version)


def test_calls_follow_a_section_that_moves(world: FakeCluster) -> None:
    a, b, c = world.sets
    uid = uid_of(a)
    with Client(a.addrs) as client:
        assert client.next(uid).value == 1
        # The old set has been notified; its response has the route.
        world.move(0, b, a, b)
        assert (client.next(uid).value, a.forwarded) == (2, 1)
        assert (client.next(uid).value, a.forwarded, b.forwarded) == (3, 1, 0)
        # The next one has not, and forwards until it is.
        world.move(0, c, c)
        assert [client.next(uid).value for _ in range(3)] == [4, 5, 6]
        assert b.forwarded == 3
        # Any response of the third set has the newer route, and the others' older ones do not take it back.
        client.next(uid_of(c))
        client.next(uid_of(b))
        taken = client.next(uid)
        assert (taken.value, taken.prev, taken.epoch, b.forwarded) == (7, 6, 3, 3)
        assert c.seen[-1].epoch == 3, "requests carry the newest epoch"


def test_numbers_are_unique_and_in_order_while_sections_move(world: FakeCluster) -> None:
    stop = threading.Event()
    uids = list(range(0, world.sections * SECTION, SECTION))

    def take(client: Client) -> list[list[int]]:
        taken: list[list[int]] = [[] for _ in uids]
        while not stop.is_set():
            for result, numbers in zip(client.next_many(uids), taken, strict=True):
                assert isinstance(result, Allocation), result
                numbers.append(result.value)
            numbers = taken[len(taken[0]) % len(uids)]
            numbers.append(client.next(uids[len(taken[0]) % len(uids)]).value)
        return taken

    with Client(world.sets[1].addrs) as client, ThreadPoolExecutor(4) as pool:
        takers = [pool.submit(take, client) for _ in range(4)]
        for step in range(60):
            section = step % world.sections
            old, to = world.homes[section][1], world.sets[step // 2 % len(world.sets)]
            if to is not old:
                world.move(section, to, *world.sets[: step % 4], to)
            before = len(to.seen)
            until("calls go on", lambda to=to, before=before: len(to.seen) > before + 4)  # type: ignore[misc]
        stop.set()
        taken = [taker.result() for taker in takers]
    for index in range(len(uids)):
        for each in taken:
            assert each[index] == sorted(each[index])
        together = sorted(number for each in taken for number in each[index])
        assert together == list(range(1, len(together) + 1))


def test_a_newer_claim_is_followed_at_once_and_for_free(world: FakeCluster, backoffs: list[float | None]) -> None:
    a, b, c = world.sets
    with Client(a.addrs) as client:
        client.connect()
        for one in world.sets:
            client.next(uid_of(one))
        before = [saved(client, one) for one in world.sets]
        # To the second set, from there to the third, and back: each claim is newer than the one before.
        a.script.append(moved(b.id, 5))
        b.script.append(moved(c.id, 6))
        c.script.append(moved(a.id, 9))
        assert client.next(uid_of(a)).value == 2
        assert [one.seen[-1].epoch for one in (a, b, c)] == [9, 5, 6]
        assert backoffs == []
        assert [saved(client, one) >= start for one, start in zip(world.sets, before, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    "claim", [moved(2, 1), moved(2, 0), moved(0, 9), Refusal("MOVED"), Refusal("MOVED", metadata={"set": "x"})]
)
def test_a_claim_that_is_not_newer_costs_a_backoff_and_a_retry(
    world: FakeCluster, backoffs: list[float | None], claim: Refusal
) -> None:
    a = world.sets[0]
    with Client(a.addrs) as client:
        client.next(uid_of(a))
        before = saved(client, a)
        a.script.extend([claim, claim])
        taken = client.next(uid_of(a))
        assert (taken.value, taken.lost) == (2, 0)
        assert backoffs == [0.001, 0.001]
        assert saved(client, a) == pytest.approx(before - 2)
        # Without retries it is the call's error.
        budget(client, a)._saved = 0.0
        a.script.append(claim)
        with pytest.raises(Refused) as refused:
            client.next(uid_of(a))
        assert (refused.value.reason, refused.value.retryable, refused.value.may_have_applied) == ("MOVED", True, False)


def test_items_follow_newer_routes_at_once_and_others_back_off(world: FakeCluster, backoffs: list[float | None]) -> None:
    a, b, _ = world.sets
    with Client(a.addrs) as client:
        uids = [uid_of(a), uid_of(b), uid_of(a) + 1]
        assert values(client.next_many(uids)) == [1, 1, 1]
        # The response to the item that moved has the route.
        world.move(0, b, a, b)
        a.script.extend([Refusal("MOVED"), None])
        assert values(client.next_many(uids)) == [2, 2, 2]
        assert backoffs == []
        # No newer route comes with it.
        b.script.append(Refusal("MOVED"))
        assert values(client.next_many([uid_of(a)])) == [3]
        assert len(backoffs) == 1


def test_a_section_in_a_set_without_a_known_address_is_reached_through_others(world: FakeCluster) -> None:
    a, b, _ = world.sets
    with Client(a.addrs) as client:
        client.connect()
        assert client.next(uid_of(a)).value == 1
        client._shared.routes.claim(uid_of(a), 77, 4)
        assert client.next(uid_of(a)).value == 2
        assert sorted(seen.epoch for one in world.sets for seen in one.seen) == [1, 4]
        # A set that others name without an address.
        peer = world.sets[0].peers[b.id][0]
        del peer.allocs[:]
    with Client(a.addrs) as client:
        assert client.next(uid_of(b)).value == 1
        assert uid_of(b) not in [seen.uid for seen in b.seen]


def test_an_unavailable_set_is_an_error_of_its_own_that_names_it(world: FakeCluster, backoffs: list[float | None]) -> None:
    a, b, _ = world.sets
    with Client(a.addrs) as client:
        assert client.next(uid_of(a)).value == 1
        # It is retried, and may be available again.
        a.script.extend([unavailable(b.id)] * 3)
        assert client.next(uid_of(a)).value == 2
        assert len(backoffs) == 3
        a.script.extend([unavailable(b.id)] * 2_000)
        budget(client, b)._saved = 5.0
        with pytest.raises(SetUnavailable, match="set b is unavailable") as error:
            client.next(uid_of(a))
        a.script.clear()
        assert isinstance(error.value, Refused)
        assert (error.value.set_id, error.value.set_name, error.value.reason) == (b.id, "b", "SET_UNAVAILABLE")
        assert (error.value.retryable, error.value.may_have_applied, error.value.uid) == (True, False, uid_of(a))
        assert error.value.attempts >= 6
        # The set of the node that refused is not charged.
        assert saved(client, a) == 1_000
        # An item of a batch does not name the set, and by the client's routes it is the one that responded.
        budget(client, a)._saved = 0.0
        a.script.append(unavailable(b.id))
        (result,) = client.next_many([uid_of(a)])
        assert isinstance(result, SetUnavailable)
        assert (result.set_id, result.set_name) == (0, "")


def test_a_set_that_does_not_come_back_is_retried_as_long_as_the_deadline_allows(
    world: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = world.sets
    refusal = unavailable(b.id)
    refusal.retry_after_ms = 20
    hints: list[float | None] = []

    def backoff(attempts: int, at_least: float | None) -> float:
        hints.append(at_least)
        return 0.001 if attempts < 3 else 600.0

    monkeypatch.setattr(_attempts, "backoff", backoff)
    with Client(a.addrs, deadline=60) as client:
        client.next(uid_of(a))
        a.script.extend([refusal] * 3)
        with pytest.raises(SetUnavailable) as error:
            client.next(uid_of(a))
        assert (error.value.attempts, error.value.retry_after, hints) == (3, 0.02, [0.02] * 3)


@pytest.mark.parametrize("is_known", [False, True])
def test_items_of_a_set_that_is_down_have_errors_and_the_others_numbers(
    world: FakeCluster, backoffs: list[float | None], is_known: bool
) -> None:
    a, b, c = world.sets
    uids = [uid_of(a), uid_of(b), uid_of(c), uid_of(b) + 1, world.sections * SECTION]
    with Client(a.addrs) as client:
        client.connect()
        if is_known:
            assert values(client.next_many(uids)) == [1, 1, 1, 1, "UID_OUTSIDE"]
        b.stop()
        budget(client, b)._saved = 9.0
        results = client.next_many(uids, deadline=600)
    number = 2 if is_known else 1
    # Its nodes refuse connections, and other sets report it.
    assert values(results) == [number, "SET_UNAVAILABLE", number, "SET_UNAVAILABLE", "UID_OUTSIDE"]
    for result in (results[1], results[3]):
        assert isinstance(result, SetUnavailable)
        assert (result.set_id, result.set_name, result.retryable) == (b.id, "b", True)
        assert is_known or not result.may_have_applied


def test_a_set_that_hangs_holds_up_no_other_items(world: FakeCluster) -> None:
    a, b, c = world.sets
    uids = [uid_of(a)] * (2 * MAX_ITEMS + 1) + [uid_of(b)] + [uid_of(c)]
    with Client(a.addrs) as client, ThreadPoolExecutor(1) as pool:
        client.next_many([uid_of(one) for one in world.sets])
        b.hold()
        c.script.append(UNSERVED)
        results = pool.submit(client.next_many, uids, deadline=60)
        # All parts of the first set, and the retry of the third, while the second one has not responded.
        until("the first set has all items", lambda: len(a.seen) == 2 * MAX_ITEMS + 2)
        until("the third set has the retry", lambda: len(c.seen) == 3)
        assert not results.done()
        # Other calls go on.
        assert client.next(uid_of(a)).value == 2 * MAX_ITEMS + 3
        b.release()
        assert values(results.result()) == [*range(2, 2 * MAX_ITEMS + 3), 2, 2]


def test_the_retries_of_a_set_are_its_own(world: FakeCluster, backoffs: list[float | None]) -> None:
    a, b, _ = world.sets
    with Client(a.addrs) as client:
        client.next_many([uid_of(a), uid_of(b)])
        budget(client, b)._saved = 20.0
        b.script.extend([UNSERVED] * 30)
        with pytest.raises(Refused):
            client.next(uid_of(b), deadline=60)
        assert saved(client, b) < 1
        a.script.extend([UNSERVED] * 30)
        assert client.next(uid_of(a)).value == 2
        assert saved(client, a) == pytest.approx(970)


def test_requests_that_wait_for_another_set_are_on_connections_of_their_own(
    world: FakeCluster, backoffs: list[float | None]
) -> None:
    a, b, c = world.sets
    uids = [uid_of(one) for one in world.sets]
    with Client(*a.addrs, *c.addrs) as client:
        client.next_many(uids)
        b.stop()
        budget(client, b)._saved = 20.0
        with pytest.raises(SetUnavailable):
            client.next(uid_of(b), deadline=600)
        client.next_many([uids[0], uids[2]])
    seen = [*a.seen, *c.seen]
    own, forwarded = ({each.peer for each in seen if (each.uid == uid_of(b)) is other} for other in (False, True))
    assert own
    assert forwarded
    assert not own & forwarded


def test_sections_that_left_a_set_before_it_went_down_are_found(world: FakeCluster) -> None:
    a, b, c = world.sets
    with Client(a.addrs) as client:
        assert client.next(uid_of(b)).value == 1
        world.move(1, c, c)
        b.stop()
        assert client.next(uid_of(b)).value == 2
        # The table of its new set has the route.
        client.next(uid_of(c))
        assert client.next(uid_of(b)).value == 3
        assert (c.seen[-1].uid, c.seen[-1].epoch) == (uid_of(b), 2)


def test_a_seed_that_does_not_respond_delays_no_start(world: FakeCluster) -> None:
    a, b, _ = world.sets
    b.hold()
    # If the start waited for it, the call would have no time left.
    with Client(b.addrs[0], a.addrs, deadline=60) as client:
        assert client.next(uid_of(a)).value == 1

    async def take() -> None:
        async with AsyncClient(b.addrs[0], a.addrs, deadline=60) as client:
            assert (await client.next(uid_of(a))).value == 2

    asyncio.run(take())
    with Client(b.addrs[0], deadline=0.3) as client, pytest.raises(ConnectError, match=b.addrs[0]):
        client.next(1)


def test_seeds_of_two_clusters_are_refused(world: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_seeds, "SEED_GRACE", 600.0)
    with FakeCluster("xyz") as other:
        # The ids of a set are drawn at random; here they are counted.
        for one in other.sets:
            one.id += 10
            one.peers.clear()
            for section in [section for section, (run, _) in one.table.items() if run.away_set_id]:
                del one.table[section]
        with Client(world.sets[0].addrs, other.sets[0].addrs) as client, pytest.raises(ConnectError, match="know each other"):
            client.connect()


async def test_asyncio_follows_sections_and_survives_a_set(world: FakeCluster, backoffs: list[float | None]) -> None:
    a, b, c = world.sets
    async with AsyncClient(a.addrs) as client:
        uids = [uid_of(one) for one in world.sets]
        assert values(await client.next_many(uids)) == [1, 1, 1]
        before = [saved(client, one) for one in world.sets]
        a.script.append(moved(b.id, 5))
        b.script.append(moved(a.id, 6))
        assert (await client.next(uids[0])).value == 2
        assert [saved(client, one) >= start for one, start in zip(world.sets, before, strict=True)] == [True] * 3
        assert backoffs == []

        world.move(0, c, a, c)
        a.script.append(Refusal("MOVED"))
        b.hold()
        c.script.append(UNSERVED)
        batch = asyncio.create_task(client.next_many([uids[0]] * (MAX_ITEMS + 1) + uids[1:], deadline=60))
        while len(c.seen) < 3:
            await asyncio.sleep(0.001)
        assert not batch.done()
        assert (await client.next(uids[2])).value >= 2
        b.release()
        assert not any(isinstance(result, SeqError) for result in await batch)

        b.stop()
        budget(client, b)._saved = 9.0
        results = await client.next_many(uids, deadline=600)
        assert [isinstance(result, Allocation) for result in results] == [True, False, True]
        assert isinstance(results[1], SetUnavailable)
        assert results[1].set_name == "b"
        assert isinstance(await client.current(uids[0]), Current)


@pytest.mark.parametrize("seeds", [1, 2])
async def test_close_ends_calls_of_asyncio_in_flight(world: FakeCluster, seeds: int) -> None:
    a = world.sets[0]
    client = AsyncClient(a.addrs[:seeds], deadline=60)
    if seeds == 2:
        await client.connect()
    for one in world.sets:
        one.hold()
    call = asyncio.create_task(client.next_many([uid_of(one) for one in world.sets]))
    while sum(one.held for one in world.sets) < (1 if seeds == 1 else 3):
        await asyncio.sleep(0.001)
    await client.close()
    with pytest.raises(ClientClosed) as closed:
        await asyncio.wait_for(call, 60)
    # The first call had only asked for routes.
    assert closed.value.may_have_applied == (seeds == 2)
