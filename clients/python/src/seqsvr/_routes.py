"""The client's routes: uid range -> set -> section -> owner -> address.

Readers take a snapshot without a lock; newer routes arrive in responses. Invariants: sets do not overlap, and the route
version of a set is monotonic.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from seqsvr._errors import ConnectError
from seqsvr._proto import route_pb2 as pb


class Route(NamedTuple):
    """The owner of a uid's section, by address, None if it has none, and the epoch of the ownership."""

    owner: str | None
    epoch: int


@dataclass(frozen=True)
class SetRoutes:
    """One set's routes. Immutable: newer routes are a new object."""

    name: str
    version: int
    uid_start: int
    uid_end: int
    section_size: int
    nodes: dict[int, str]
    owners: array[int]
    """Node id by section; 0 for a section without an owner."""
    epochs: array[int]
    seeds: tuple[str, ...]
    """The seeds that sent the set's routes."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every address that serves the set."""
        return tuple(dict.fromkeys([*self.nodes.values(), *self.seeds]))

    def route(self, uid: int) -> Route:
        """The route of a uid of this set."""
        section = (uid - self.uid_start) // self.section_size
        return Route(self.nodes.get(self.owners[section]), self.epochs[section])

    def apply(self, routes: pb.Routes, seeds: tuple[str, ...]) -> SetRoutes | None:
        """The routes with newer ones applied, or None if those build on a version that is not known here."""
        same = (self.uid_start, self.uid_end, self.section_size) == (
            routes.uid_start,
            routes.uid_end,
            routes.section_size,
        )
        if not same or routes.base_version > self.version:
            return None
        return _filled(routes, self.owners[:], self.epochs[:], seeds)


def _whole(routes: pb.Routes, seeds: tuple[str, ...]) -> SetRoutes:
    if routes.version == 0 or routes.uid_end <= routes.uid_start or routes.section_size == 0:
        raise ConnectError(f"the routes of set {routes.set!r} are invalid", retryable=False)
    sections = -(-(routes.uid_end - routes.uid_start) // routes.section_size)
    if any(run.first_section + run.sections > sections for run in routes.runs):
        raise ConnectError(f"the routes of set {routes.set!r} contain sections that it does not have", retryable=False)
    return _filled(routes, array("I", [0]) * sections, array("Q", [0]) * sections, seeds)


def _filled(routes: pb.Routes, owners: array[int], epochs: array[int], seeds: tuple[str, ...]) -> SetRoutes:
    for run in routes.runs:
        for section in range(run.first_section, min(run.first_section + run.sections, len(owners))):
            owners[section] = run.owner
            epochs[section] = run.epoch
    nodes = {node.id: node.addr for node in routes.nodes}
    return SetRoutes(
        routes.set, routes.version, routes.uid_start, routes.uid_end, routes.section_size, nodes, owners, epochs, seeds
    )


class Routes:
    """The newest routes of every known set. Thread-safe; shared by all calls of a client."""

    def __init__(self) -> None:
        """Starts without routes."""
        self._lock = threading.Lock()
        # The sets in order of uid, and the first uid of each; replaced together.
        self._known: tuple[list[SetRoutes], list[int]] = ([], [])
        self._want_whole = False

    @property
    def sets(self) -> list[SetRoutes]:
        """The sets, in order of uid; must not be modified."""
        return self._known[0]

    def set_of(self, uid: int) -> SetRoutes | None:
        """The set of a uid."""
        sets, starts = self._known
        index = bisect_right(starts, uid) - 1
        return sets[index] if index >= 0 and uid < sets[index].uid_end else None

    def known_version(self, routes: SetRoutes) -> int:
        """The route version in a request; 0 asks for the whole table."""
        if self._want_whole:
            self._want_whole = False
            return 0
        return routes.version

    def adopt(self, routes: pb.Routes, seed: str | None = None) -> None:
        """Adopts newer routes. Only a seed adds a new set. Raises ConnectError for invalid routes of a seed."""
        with self._lock:
            known = next((known for known in self.sets if known.name == routes.set), None)
            if known is None and seed is None:
                return
            seeds = known.seeds if known else ()
            if seed is not None and seed not in seeds:
                seeds = (*seeds, seed)
            adopted = known
            if known is None or routes.version > known.version:
                if routes.base_version == 0:
                    adopted = _whole(routes, seeds)
                elif known is not None:
                    adopted = known.apply(routes, seeds)
            if adopted is None:
                self._want_whole = True
                return
            if adopted is known and known is not None and seeds != known.seeds:
                adopted = SetRoutes(**{**known.__dict__, "seeds": seeds})
            self._replace(known, adopted)

    def _replace(self, known: SetRoutes | None, adopted: SetRoutes) -> None:
        sets = [other for other in self.sets if other is not known]
        for other in sets:
            if adopted.uid_start < other.uid_end and other.uid_start < adopted.uid_end:
                raise ConnectError(f"sets {adopted.name!r} and {other.name!r} overlap", retryable=False)
        sets = sorted([*sets, adopted], key=lambda each: each.uid_start)
        self._known = (sets, [each.uid_start for each in sets])
