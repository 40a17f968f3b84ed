"""The client's routes: uid -> section -> (epoch, set, owner), merged from the route tables of all sets.

The table of each set covers the uids of its whole cluster: it states the owners of the set's own sections, and claims in
which other sets the rest are. Epochs of a section go on across sets, so the merge keeps the larger one, and no order of
messages takes it backwards.

Readers take no lock. Invariants: the route of a section never falls; the route version of a set never falls; the uids of
spaces do not overlap, and a space only grows.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from seqsvr._budget import Budget
from seqsvr._errors import ConnectError
from seqsvr.v1 import route_pb2 as pb
from seqsvr.v1.series_pb2 import StoredSeries

MAX_SETS = 256
"""Most sets that a client knows. Further ones are reached through these, which forward."""

MAX_SECTIONS = 1_048_576
"""Most sections of a cluster, as in the servers: a larger table is invalid, and no memory is taken for it."""

VIRGIN, CLAIMED, STATED = range(3)
"""What a route is based on. At the same epoch the later one wins.

VIRGIN: a set's table has it as its own section that never had an owner, which is also what a set has that knows nothing
of a section. CLAIMED: another set, or a refusal, names the set that the section is in. STATED: that set's own table.
"""


class Route(NamedTuple):
    """The set that a section is in, and its owner there. Of two routes of a section the one that is larger is newer.

    epoch: of the ownership, or since which the section is in the set; 0 if it never had an owner.
    basis: VIRGIN, CLAIMED or STATED.
    set_id: the set's id; 0 while no set has sent a table.
    owner: id of the owner among the set's nodes; 0 if it has none, or none is known.
    """

    epoch: int
    basis: int
    set_id: int
    owner: int

    def replaces(self, known: Route) -> bool:
        """Whether this route, received later, replaces `known`. A set's newer table replaces what it stated before."""
        return self[:3] >= known[:3]


NO_ROUTE = Route(0, VIRGIN, 0, 0)


class Space:
    """Uids `start` to `end`, exclusive, in sections of `section_size` neighbours, and the routes of the sections."""

    def __init__(self, set_name: str, start: int, section_size: int) -> None:
        """Starts empty; `set_name` is the first set that sent a table of it, for errors."""
        self.set_name = set_name
        self.start = start
        self.end = start
        self.section_size = section_size
        self._routes: list[Route] = []
        # The series of the cluster, by name, and the set whose table had them first. A cluster only adds to them.
        self.series: dict[str, StoredSeries] = {}
        self.home = 0

    def __getitem__(self, uid: int) -> Route:
        """The route of a uid of this space."""
        return self._routes[(uid - self.start) // self.section_size]

    @property
    def has_sparse_uids(self) -> bool:
        """Whether the cluster has a keyspace of uids, so that it serves the uids that are in no space."""
        return any(series.lanes.keys.of_uids for series in self.series.values())

    def grow(self, end: int) -> None:
        """Adds the uids up to `end`, exclusive, if they are new."""
        if end > self.end:
            sections = -(-(end - self.start) // self.section_size)
            self._routes.extend([NO_ROUTE] * (sections - len(self._routes)))
            self.end = end

    def merge(self, first: int, last: int, route: Route) -> None:
        """Keeps the newer route of each section from `first` to `last`, exclusive."""
        routes = self._routes
        known, newer = NO_ROUTE, route.replaces(NO_ROUTE)
        for section in range(first, last):
            # Neighbours of one run share the object, and the comparison.
            if routes[section] is not known:
                known = routes[section]
                newer = route.replaces(known)
            if newer:
                routes[section] = route

    def stated(self, runs: Iterable[pb.RouteRun]) -> Iterator[Route]:
        """The routes of the sections of runs that have an owner, once for neighbours that share one."""
        for run in runs:
            known = NO_ROUTE
            for route in self._routes[run.first_section : run.first_section + run.sections]:
                if route is not known:
                    known = route
                    if route.owner:
                        yield route


@dataclass(frozen=True)
class KnownSet:
    """A set of the cluster. Immutable: what is newer is a new object.

    id: 1 or above.
    name: a label, which can change.
    version: of the newest table of the set that was adopted; 0 if there was none.
    space: its cluster's uids.
    nodes: addresses of its AllocSvrs by id, from its own table.
    seeds: the seeds that sent its table.
    allocs: addresses of its AllocSvrs as another set has them, which may be old.
    named: ids of the sets that its tables named.
    budget: retries of calls to it.
    """

    id: int
    name: str
    version: int
    space: Space
    budget: Budget
    nodes: dict[int, str]
    seeds: tuple[str, ...] = ()
    allocs: tuple[str, ...] = ()
    named: frozenset[int] = frozenset()

    @property
    def has_hosts(self) -> bool:
        """Whether an address of the set is known."""
        return bool(self.nodes or self.seeds or self.allocs)

    def good_host(self, owner: int, is_good: Callable[[str], bool]) -> str | None:
        """The owner if it is good, else a random good host, which forwards; None if there is none.

        Addresses from the set itself come before those from others.
        """
        addr = self.nodes.get(owner)
        if addr is not None and is_good(addr):
            return addr
        return next(filter(is_good, self._hosts()), None)

    def any_host(self, excluded: str | None) -> str | None:
        """A random host, the excluded one only if there is no other; None if no address is known."""
        hosts = self._hosts()
        return next((host for host in hosts if host != excluded), next(iter(hosts), None))

    def _hosts(self) -> list[str]:
        own, claimed = [*self.nodes.values(), *self.seeds], list(self.allocs)
        random.shuffle(own)
        random.shuffle(claimed)
        return [*own, *claimed]


class Routes:
    """The merged routes and every known set. Thread-safe; shared by all calls of a client."""

    def __init__(self) -> None:
        """Starts without routes."""
        self._lock = threading.Lock()
        # The spaces in order of uid, and the first uid of each; replaced together.
        self._spaces: tuple[list[Space], list[int]] = ([], [])
        self._sets: dict[int, KnownSet] = {}
        # Sets that sent changes to a version that is not known here: the next request asks for the whole table.
        self._want_whole: set[int] = set()

    @property
    def sets(self) -> dict[int, KnownSet]:
        """The sets by id; must not be modified."""
        return self._sets

    def space(self, uid: int) -> Space | None:
        """The space of a uid; None for a uid outside every known one."""
        spaces, starts = self._spaces
        index = bisect_right(starts, uid) - 1
        return spaces[index] if index >= 0 and uid < spaces[index].end else None

    def route(self, uid: int) -> Route | None:
        """The newest known route of a uid; None for a uid outside every known space.

        Any node serves a sparse uid, if the cluster has a keyspace of uids, and forwards it to the owner.
        """
        space = self.space(uid)
        if space is not None:
            return space[uid]
        home = next((space.home for space in self._spaces[0] if space.has_sparse_uids), None)
        return None if home is None else Route(0, VIRGIN, home, 0)

    def series(self, name: str) -> tuple[int, StoredSeries] | None:
        """The series of a name, with the id of a set of its cluster; None for an unknown name."""
        found = ((space.home, space.series[name]) for space in self._spaces[0] if name in space.series)
        return next(found, None)

    def owner(self, route: Route) -> str | None:
        """The address of a route's owner, if there is one and it is known."""
        known = self._sets.get(route.set_id)
        return None if known is None else known.nodes.get(route.owner)

    def known_version(self, known: KnownSet) -> int:
        """The route version in a request to a set; 0 asks for the whole table."""
        if known.id in self._want_whole:
            with self._lock:
                self._want_whole.discard(known.id)
            return 0
        return known.version

    def claim(self, uid: int, set_id: int, since: int) -> None:
        """Merges a claim of a refusal: the section of `uid` is in a set since an epoch."""
        with self._lock:
            space = self.space(uid)
            if space is not None:
                section = (uid - space.start) // space.section_size
                space.merge(section, section + 1, Route(since, CLAIMED, set_id, 0))

    def adopt(self, routes: pb.Routes, seed: str | None = None) -> bool:
        """Adopts the table of a set, or newer changes of it. Returns whether they were newer.

        A set becomes known by its seeds, and by the tables of sets that are. Raises ConnectError for invalid routes, which
        change nothing.
        """
        with self._lock:
            known = self._sets.get(routes.set_id)
            if known is None and seed is None:
                return False
            version, is_newer = known.version if known else 0, False
            if routes.version > version or known is None:
                _check(routes)
                if routes.base_version <= version:
                    known, is_newer = self._write(routes, known), True
                elif known is None:
                    raise ConnectError(f"the routes of set {routes.set!r} lack their beginning", retryable=True)
                else:
                    self._want_whole.add(known.id)
            if seed is not None and seed not in known.seeds:
                self._put(replace(known, seeds=(*known.seeds, seed)))
            return is_newer

    def _write(self, routes: pb.Routes, known: KnownSet | None) -> KnownSet:
        named = {run.away_set_id for run in routes.runs} | {each.id for each in routes.sets}
        space = self._find_space(routes)
        if known is None:
            if len(self._sets) >= MAX_SETS:
                raise ConnectError(f"set {routes.set!r} is one more than the {MAX_SETS} a client knows", retryable=False)
            if space is not None:
                self._check_related(routes, space, named)
        if space is None:
            space = self._add_space(routes)
        space.grow(routes.uid_end)
        if routes.base_version == 0:
            # A whole table leaves out the sections that the set knows nothing of.
            space.merge(0, _sections(routes), Route(0, VIRGIN, routes.set_id, 0))
        space.home = space.home or routes.set_id
        if len(routes.series) >= len(space.series):
            space.series = {each.name: each for each in routes.series}
        for run in routes.runs:
            space.merge(run.first_section, run.first_section + run.sections, _route(run, routes.set_id))
        for other in routes.sets:
            self._learn(other, space)
        known = known or KnownSet(routes.set_id, routes.set, 0, space, Budget(), {})
        known = replace(
            known,
            name=routes.set,
            version=routes.version,
            space=space,
            nodes={node.id: node.addr for node in routes.nodes},
            named=known.named | (named - {0, routes.set_id}),
        )
        self._put(known)
        return known

    def _put(self, known: KnownSet) -> None:
        self._sets = {**self._sets, known.id: known}

    def _learn(self, other: pb.RouteSet, space: Space) -> None:
        """Adds a set that another one names, or its addresses; its own table has its name and its nodes once it came."""
        known = self._sets.get(other.id)
        if known is None and other.id != 0 and len(self._sets) < MAX_SETS:
            known = KnownSet(other.id, other.name, 0, space, Budget(), {})
        if known is not None:
            name = known.name if known.version else other.name
            self._put(replace(known, name=name, allocs=tuple(other.allocs)))

    def _find_space(self, routes: pb.Routes) -> Space | None:
        """The space of a table; None if it is new. Raises ConnectError if it overlaps another one."""
        spaces, _ = self._spaces
        for space in spaces:
            if space.start == routes.uid_start and space.section_size == routes.section_size:
                continue
            if routes.uid_start < space.end and space.start < routes.uid_end:
                raise ConnectError(f"sets {routes.set!r} and {space.set_name!r} overlap", retryable=False)
        return next((space for space in spaces if space.start == routes.uid_start), None)

    def _add_space(self, routes: pb.Routes) -> Space:
        space = Space(routes.set, routes.uid_start, routes.section_size)
        space.grow(routes.uid_end)
        spaces = sorted([*self._spaces[0], space], key=lambda each: each.start)
        self._spaces = (spaces, [each.start for each in spaces])
        return space

    def _check_related(self, routes: pb.Routes, space: Space, named: set[int]) -> None:
        """Raises ConnectError if a new set states owners of sections that an unrelated one states: of two clusters."""
        for route in space.stated(run for run in routes.runs if run.owner):
            other = self._sets.get(route.set_id)
            if other is None or routes.set_id in other.named or (named - {0}) & (other.named | {other.id}):
                continue
            raise ConnectError(
                f"sets {routes.set!r} and {other.name!r} overlap and do not know each other: they are of two clusters",
                retryable=False,
            )


def _route(run: pb.RouteRun, set_id: int) -> Route:
    if run.away_set_id:
        return Route(run.epoch, CLAIMED, run.away_set_id, 0)
    return Route(run.epoch, STATED if run.epoch else VIRGIN, set_id, run.owner)


def _sections(routes: pb.Routes) -> int:
    return -(-(routes.uid_end - routes.uid_start) // routes.section_size)


def _check(routes: pb.Routes) -> None:
    """Raises ConnectError for routes that no set sends."""
    if not (routes.set_id and routes.version and routes.section_size and routes.uid_start < routes.uid_end):
        raise ConnectError(f"the routes of set {routes.set!r} are invalid", retryable=False)
    sections = _sections(routes)
    if sections > MAX_SECTIONS:
        raise ConnectError(f"set {routes.set!r} has {sections} sections, more than {MAX_SECTIONS}", retryable=False)
    if any(run.first_section + run.sections > sections for run in routes.runs):
        raise ConnectError(f"the routes of set {routes.set!r} contain sections that it does not have", retryable=False)
