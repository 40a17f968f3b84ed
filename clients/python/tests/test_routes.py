"""The merge of the route tables of several sets: its order does not matter, and nothing falls."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from seqsvr import ConnectError
from seqsvr._routes import CLAIMED, MAX_SECTIONS, STATED, VIRGIN, Route, Routes
from seqsvr.v1 import route_pb2 as pb

SECTIONS, SIZE = 6, 10
SETS = (1, 2, 3)

Runs = dict[int, tuple[int, int, int]]
"""Owner, epoch and other set of sections."""


def table(set_id: int, version: int, runs: Runs, base: int = 0, **fields: object) -> pb.Routes:
    message = pb.Routes(
        set=f"set-{set_id}",
        set_id=set_id,
        version=version,
        base_version=base,
        uid_end=SECTIONS * SIZE,
        section_size=SIZE,
        nodes=[pb.RouteNode(id=node, addr=f"set-{set_id}-{node}:1") for node in (1, 2, 3)],
        runs=[
            pb.RouteRun(first_section=section, sections=1, owner=owner, epoch=epoch, away_set_id=away)
            for section, (owner, epoch, away) in sorted(runs.items())
        ],
        sets=[pb.RouteSet(id=other, name=f"set-{other}", allocs=[f"set-{other}-1:1"]) for other in SETS if other != set_id],
    )
    message.MergeFrom(pb.Routes(**fields))  # type: ignore[arg-type]
    return message


def adopt(routes: Routes, message: pb.Routes) -> None:
    routes.adopt(message, "seed:1")


def claim(routes: Routes, uid: int, set_id: int, since: int) -> None:
    routes.claim(uid, set_id, since)


def merged(routes: Routes) -> list[Route]:
    return [route for section in range(SECTIONS) if (route := routes.route(section * SIZE)) is not None]


class History:
    """A random past of a cluster: sections change owners and sets, and sets learn of it late or never."""

    def __init__(self, rng: random.Random) -> None:
        """Lets up to 39 things happen."""
        self.rng = rng
        self.tables: dict[int, Runs] = {set_id: {} for set_id in SETS}
        self.versions = dict.fromkeys(SETS, 1)
        self.homes = [(0, rng.choice(SETS), 0) for _ in range(SECTIONS)]
        # Whole tables and changes, each as a set sent it at some time; what a refusal claimed; claims on their way.
        self.messages: list[pb.Routes] = []
        self.claims: list[tuple[int, int, int]] = []
        self.under_way: list[tuple[int, int, int, int]] = []
        for section, (_, home, _) in enumerate(self.homes):
            for set_id in rng.sample(SETS, 2):
                if set_id != home:
                    self.state(set_id, section, (0, 0, home))
        for _ in range(rng.randrange(40)):
            self.happen()
        self.newest = [self.whole(set_id) for set_id in SETS]

    def state(self, set_id: int, section: int, run: tuple[int, int, int]) -> None:
        """Changes the table of a set, unless it has something newer."""
        known = self.tables[set_id].get(section, (0, 0, 0))
        if run[1] > known[1] or section not in self.tables[set_id]:
            self.versions[set_id] += 1
            self.tables[set_id][section] = run

    def whole(self, set_id: int) -> pb.Routes:
        """The whole table of a set, as it is now."""
        return table(set_id, self.versions[set_id], self.tables[set_id])

    def happen(self) -> None:
        """A change of owner or set, a claim that arrives, or a table that is sent."""
        rng, section = self.rng, self.rng.randrange(SECTIONS)
        epoch, home, _ = self.homes[section]
        what = rng.randrange(6)
        if what <= 2:
            # The next ownership, in the same set or in another one.
            to = home if what else rng.choice(SETS)
            owner = rng.choice((0, 1, 2, 3))
            self.homes[section] = (epoch + 1, to, owner)
            self.state(to, section, (owner, epoch + 1, 0))
            for other in SETS:
                if other == home != to:
                    self.state(other, section, (0, epoch + 1, to))
                elif other != to:
                    self.under_way.append((other, section, epoch + 1, to))
            self.claims.append((section, to, epoch + 1))
        elif what == 3 and self.under_way:
            other, section, since, to = self.under_way.pop(rng.randrange(len(self.under_way)))
            self.state(other, section, (0, since, to))
        elif what == 4:
            self.messages.append(self.whole(rng.choice(SETS)))
        else:
            set_id = rng.choice(SETS)
            before, base = dict(self.tables[set_id]), self.versions[set_id]
            self.happen()
            changed = {key: run for key, run in self.tables[set_id].items() if before.get(key) != run}
            if changed:
                self.messages.append(table(set_id, self.versions[set_id], changed, base))

    def expected(self) -> list[Route]:
        """The newest of all that any set or claim has, section by section."""
        expected = []
        for section in range(SECTIONS):
            routes = [Route(0, VIRGIN, set_id, 0) for set_id in SETS]
            for set_id in SETS:
                if section in self.tables[set_id]:
                    owner, epoch, away = self.tables[set_id][section]
                    basis = CLAIMED if away else STATED if epoch else VIRGIN
                    routes.append(Route(epoch, basis, away or set_id, owner))
            routes += [Route(since, CLAIMED, to, 0) for at, to, since in self.claims if at == section]
            expected.append(max(routes))
        return expected


@pytest.mark.parametrize("seed", range(200))
def test_no_order_of_messages_changes_the_merge_or_takes_it_backwards(seed: int) -> None:
    rng = random.Random(seed)
    history = History(rng)
    deliveries: list[Callable[[Routes], None]] = []
    for message in history.messages + history.newest:
        deliveries += [partial(adopt, message=message)] * rng.choice((1, 1, 2))
    for section, to, since in history.claims:
        deliveries.append(partial(claim, uid=section * SIZE, set_id=to, since=since))
    ends = []
    for _ in range(3):
        routes = Routes()
        routes.adopt(rng.choice(history.newest), "seed:1")
        rng.shuffle(deliveries)
        for deliver in deliveries:
            before, versions = merged(routes), {known.id: known.version for known in routes.sets.values()}
            deliver(routes)
            assert all(new[:3] >= old[:3] for new, old in zip(merged(routes), before, strict=True))
            assert all(routes.sets[set_id].version >= version for set_id, version in versions.items())
        for message in history.newest:
            routes.adopt(message, "seed:1")
        ends.append(merged(routes))
        assert {known.id: known.version for known in routes.sets.values()} == history.versions
    assert ends[0] == ends[1] == ends[2] == history.expected()
    for route, (epoch, home, owner) in zip(ends[0], history.homes, strict=True):
        if epoch:
            assert route == Route(epoch, STATED, home, owner)


def test_a_statement_of_the_owning_set_wins_over_a_claim_of_the_same_epoch() -> None:
    own, claimed = table(2, 5, {0: (3, 7, 0)}), table(1, 9, {0: (0, 7, 2)})
    for order in ((own, claimed), (claimed, own)):
        routes = Routes()
        for message in order:
            routes.adopt(message, "seed:1")
        route = routes.route(0)
        assert route == Route(7, STATED, 2, 3)
        assert routes.owner(route) == "set-2-3:1"
    # Its newer table replaces what it stated itself.
    routes.adopt(table(2, 6, {0: (1, 7, 0)}, base=5))
    assert routes.route(0) == Route(7, STATED, 2, 1)
    # A claim that is newer takes the section away, one that is older does not.
    routes.claim(0, 3, 6)
    assert routes.route(0) == Route(7, STATED, 2, 1)
    routes.claim(0, 3, 8)
    assert routes.route(0) == Route(8, CLAIMED, 3, 0)


def test_a_set_that_knows_nothing_of_a_section_takes_no_claim_back() -> None:
    for order in ((1, 3), (3, 1)):
        routes = Routes()
        for set_id in order:
            runs = {0: (0, 0, 2), 1: (0, 0, 2)} if set_id == 1 else {1: (0, 0, 0)}
            routes.adopt(table(set_id, 4, runs), "seed:1")
        assert [routes.route(0), routes.route(SIZE)] == [Route(0, CLAIMED, 2, 0)] * 2


def test_versions_are_those_of_each_set() -> None:
    routes = Routes()
    routes.adopt(table(1, 40, {0: (1, 1, 0)}), "seed:1")
    assert [(known.id, known.version) for known in routes.sets.values()] == [(2, 0), (3, 0), (1, 40)]
    assert routes.sets[2].any_host(None) == "set-2-1:1"
    # The first response of another set has its whole table; changes on an unknown version ask for it once.
    routes.adopt(table(2, 3, {1: (2, 1, 0)}))
    assert routes.known_version(routes.sets[2]) == 3
    routes.adopt(table(2, 9, {1: (3, 2, 0)}, base=8))
    assert routes.route(SIZE) == Route(1, STATED, 2, 2)
    assert [routes.known_version(routes.sets[set_id]) for set_id in (1, 2, 2)] == [40, 0, 3]
    # Not a set of this cluster: neither a seed nor a known set named it.
    routes.adopt(table(9, 1, {0: (1, 99, 0)}))
    assert routes.route(0) == Route(1, STATED, 1, 1)


def test_a_space_grows() -> None:
    routes = Routes()
    routes.adopt(table(1, 1, {}), "seed:1")
    assert routes.route(SECTIONS * SIZE) is None
    routes.adopt(table(2, 1, {SECTIONS: (1, 3, 0)}, uid_end=SECTIONS * SIZE + 5))
    assert routes.route(SECTIONS * SIZE + 4) == Route(3, STATED, 2, 1)
    assert routes.route(SECTIONS * SIZE + 5) is None
    # A set that lags has the shorter one.
    routes.adopt(table(1, 2, {0: (1, 1, 0)}, base=1))
    assert routes.route(SECTIONS * SIZE + 4) == Route(3, STATED, 2, 1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (table(0, 1, {}), "invalid"),
        (table(2, 1, {}, section_size=SIZE + 1), "'set-2' and 'set-1' overlap"),
        (table(2, 1, {SECTIONS: (1, 1, 0)}), "sections that it does not have"),
        (table(2, 1, {}, uid_end=SIZE * (MAX_SECTIONS + 1)), "more than"),
        (table(2, 7, {}, base=6), "lack their beginning"),
    ],
)
def test_invalid_routes_change_nothing(wrong: pb.Routes, text: str) -> None:
    routes = Routes()
    first = table(1, 1, {0: (1, 1, 0)})
    del first.sets[:]
    routes.adopt(first, "seed:1")
    before = merged(routes)
    with pytest.raises(ConnectError, match=text):
        routes.adopt(wrong, "seed:2")
    assert merged(routes) == before
    assert list(routes.sets) == [1]
    assert routes.space(SECTIONS * SIZE) is None


def test_seeds_of_two_clusters_are_refused() -> None:
    def alone(set_id: int) -> pb.Routes:
        routes = table(set_id, 1, {0: (1, 5, 0)})
        del routes.sets[:]
        return routes

    routes = Routes()
    routes.adopt(alone(1), "seed:1")
    with pytest.raises(ConnectError, match="'set-2' and 'set-1' overlap and do not know each other"):
        routes.adopt(alone(2), "seed:2")
    assert list(routes.sets) == [1]
    # A cluster with other uids overlaps none.
    routes.adopt(pb.Routes(set="far", set_id=9, version=1, uid_start=100, uid_end=120, section_size=20), "seed:3")
    assert routes.route(110) == Route(0, VIRGIN, 9, 0)
