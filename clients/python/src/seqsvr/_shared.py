"""State that all calls of a client share, and the pieces of which a call consists."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from google.protobuf.message import Message

from seqsvr._budget import Suspects
from seqsvr._observer import Events, Observer
from seqsvr._routes import KnownSet, Routes
from seqsvr.v1 import route_pb2

Connection = tuple[str, int]
"""The address, and the id of the set that the node forwards to; 0 for requests that its own set handles."""


class Shared:
    """State shared by all calls of a client."""

    def __init__(self, observer: Observer | None = None) -> None:
        """Starts without routes."""
        self.routes = Routes()
        self.suspects = Suspects()
        self.events = Events(observer)
        self._up: set[Connection] = set()

    def adopt(self, routes: route_pb2.Routes, seed: str | None = None) -> None:
        """Adopts routes; see `Routes.adopt`."""
        if self.routes.adopt(routes, seed):
            self.events("routes_adopted", routes.set, routes.version)

    def responded(self, connection: Connection) -> None:
        """A node has sent a response."""
        if connection not in self._up:
            self._up.add(connection)
            self.events("connection_opened", connection[0])

    def broke(self, connection: Connection) -> None:
        """A request failed in its connection."""
        self.suspects.add(connection[0])
        if connection in self._up:
            self._up.discard(connection)
            self.events("connection_lost", connection[0])


@dataclass
class Group:
    """Items without a result that are sent one part after the other, in order.

    Initially those of one owner: all items of a uid are in one group until one of them is retried.
    made: number of attempts for these items.
    excluded: the address that failed last.
    """

    items: list[int]
    made: int = 0
    excluded: str | None = None


@dataclass
class Step:
    """A group whose next attempt is due in `wait` seconds."""

    group: Group
    wait: float = 0.0


@dataclass
class Attempt:
    """A request to send, and its target.

    target: the set of the node at `addr`.
    set: the set that the items are in by the client's routes. Another one than `target` if the request is to be forwarded;
        `target` if the client does not know it.
    timeout: in seconds.
    is_limited: whether the timeout is shorter than that of the call, because another node can serve.
    items: indexes of its items.
    epochs: the epochs of their routes.
    """

    addr: str
    target: KnownSet
    set: KnownSet
    method: str
    request: Message
    timeout: float
    is_limited: bool
    items: list[int]
    epochs: list[int]
    group: Group
    is_streamed: bool = False
    started_at: float = field(default_factory=time.monotonic)

    @property
    def connection(self) -> Connection:
        """The connection: requests that wait for another set to respond are not on the one of the target's own."""
        return self.addr, 0 if self.set.id == self.target.id else self.set.id
