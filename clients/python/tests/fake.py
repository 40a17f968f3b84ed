"""Sets of one cluster in this process, for what a single set cannot show: every node is a gRPC server on a port of its own.

A `World` knows in which set each section is; a set's route table knows what the set was notified of. Nodes serve what the
world has in their set, and forward the rest like real ones, unless a test scripts a refusal or stops them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from seqsvr._proto import route_pb2
from seqsvr._proto import sequence_pb2 as pb

SECTION = 10
"""Uids in a section."""

NODES = 2
"""Nodes of a set."""


@dataclass
class Refusal(Exception):
    """A refusal, as an ItemError or as a status."""

    reason: str
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    retry_after_ms: int = 1
    metadata: dict[str, str] = field(default_factory=dict)

    def item(self, index: int) -> pb.ItemError:
        """As an item of a batch, which has no metadata."""
        code = self.code.value[0]
        return pb.ItemError(index=index, code=code, reason=self.reason, message="refused", retry_after_ms=self.retry_after_ms)

    def abort(self, context: grpc.ServicerContext) -> None:
        """As the status of a request."""
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain="seqsvr", metadata=self.metadata)
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(self.retry_after_ms)
        details = []
        for message in (info, retry):
            packed = AnyMessage()
            packed.Pack(message)
            details.append(packed)
        status = status_pb2.Status(code=self.code.value[0], message="refused", details=details)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(self.code, "refused")


def moved(set_id: int, since: int) -> Refusal:
    """A claim: the section is in a set since an epoch."""
    return Refusal("MOVED", metadata={"set": str(set_id), "since": str(since)})


def unavailable(set_id: int) -> Refusal:
    """No node of a set can be reached."""
    return Refusal("SET_UNAVAILABLE", metadata={"set": str(set_id)})


@dataclass(frozen=True)
class Seen:
    """A request, or an item of a batch, as a node received it; `peer` is the connection."""

    addr: str
    peer: str
    uid: int
    epoch: int
    route_version: int


class FakeSet:
    """A set: its nodes, its route table with the version of each change, and what it received."""

    def __init__(self, world: World, set_id: int, name: str) -> None:
        """Starts the nodes, with a table that has nothing."""
        self.world = world
        self.id = set_id
        self.name = name
        self.version = 1
        self.uid_end = world.sections * SECTION
        self.table: dict[int, tuple[route_pb2.RouteRun, int]] = {}
        self.peers: dict[int, tuple[route_pb2.RouteSet, int]] = {}
        self.seen: list[Seen] = []
        self.forwarded = 0
        # What the next items are refused with, in order; None serves one.
        self.script: deque[Refusal | None] = deque()
        # Requests wait for it; how many have waited or wait.
        self.held = 0
        self.released = threading.Event()
        self.released.set()
        self.nodes: dict[int, tuple[str, grpc.Server]] = {}
        for node in range(1, NODES + 1):
            server = grpc.server(ThreadPoolExecutor(16))
            addr = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            server.add_generic_rpc_handlers((_Handler(self, addr),))
            server.start()
            self.nodes[node] = (addr, server)

    @property
    def addrs(self) -> list[str]:
        """The addresses of the nodes."""
        return [addr for addr, _ in self.nodes.values()]

    @property
    def is_up(self) -> bool:
        """Whether any node runs."""
        return bool(self.nodes)

    def stop(self) -> None:
        """Stops all nodes: connections to them are refused."""
        self.released.set()
        stopped = [server.stop(None) for _, server in self.nodes.values()]
        for each in stopped:
            each.wait()
        self.nodes = {}

    def state(self, section: int, epoch: int, owner: int = 0, away: int = 0) -> None:
        """Changes the route of a section in the set's table."""
        self.version += 1
        run = route_pb2.RouteRun(first_section=section, sections=1, owner=owner, epoch=epoch, away_set_id=away)
        self.table[section] = (run, self.version)

    def meet(self, other: FakeSet) -> None:
        """Adds another set and its addresses to the table."""
        self.version += 1
        self.peers[other.id] = (route_pb2.RouteSet(id=other.id, name=other.name, allocs=other.addrs), self.version)

    def routes(self, since: int) -> route_pb2.Routes | None:
        """The table, whole or what is newer than a version."""
        if since >= self.version:
            return None
        return route_pb2.Routes(
            set=self.name,
            set_id=self.id,
            version=self.version,
            base_version=since,
            uid_start=0,
            uid_end=self.uid_end,
            section_size=SECTION,
            nodes=[route_pb2.RouteNode(id=node, name=f"n{node}", addr=addr) for node, (addr, _) in self.nodes.items()],
            runs=[run for _, (run, version) in sorted(self.table.items()) if version > since],
            sets=[peer for peer, version in self.peers.values() if version > since],
        )

    def take(self, seen: Seen, count: int) -> tuple[int, int, int]:
        """Allocates numbers: the last one, the one before the first, and the epoch."""
        with self.world.lock:
            self.seen.append(seen)
            refusal = self.script.popleft() if self.script else None
            if refusal is not None:
                raise refusal
            epoch, home = self.world.homes[seen.uid // SECTION]
            if home is not self:
                if not home.is_up:
                    raise unavailable(home.id)
                self.forwarded += 1
            prev = self.world.numbers.get(seen.uid, 0)
            self.world.numbers[seen.uid] = prev + count
            return prev + count, prev, epoch


class World:
    """The cluster: the set and the epoch of each section, and the last number of each uid."""

    def __init__(self, names: str = "abc", sections: int = 6) -> None:
        """Starts sets that know each other; sections belong to them in turn, since epoch 1."""
        self.lock = threading.Lock()
        self.sections = sections
        self.numbers: dict[int, int] = {}
        self.sets = [FakeSet(self, set_id, name) for set_id, name in enumerate(names, start=1)]
        self.homes = [(1, self.sets[section % len(self.sets)]) for section in range(sections)]
        for one in self.sets:
            for section, (epoch, home) in enumerate(self.homes):
                self._notify(one, section, epoch, home)
            for other in self.sets:
                if other is not one:
                    one.meet(other)

    def _notify(self, one: FakeSet, section: int, epoch: int, home: FakeSet) -> None:
        if home is one:
            one.state(section, epoch, owner=1 + epoch % NODES)
        else:
            one.state(section, epoch, away=home.id)

    def move(self, section: int, to: FakeSet, *notified: FakeSet) -> int:
        """Moves a section to a set; the sets in `notified` get new routes. Returns the new epoch."""
        with self.lock:
            epoch = self.homes[section][0] + 1
            self.homes[section] = (epoch, to)
            for one in notified:
                self._notify(one, section, epoch, to)
            return epoch

    def stop(self) -> None:
        """Stops all sets."""
        for one in self.sets:
            one.stop()


@contextmanager
def world(names: str = "abc", sections: int = 6) -> Iterator[World]:
    """A world that is stopped at the end."""
    made = World(names, sections)
    try:
        yield made
    finally:
        made.stop()


class _Handler(grpc.GenericRpcHandler):
    """The sequence service of one node."""

    def __init__(self, of: FakeSet, addr: str) -> None:
        self._set = of
        self._addr = addr

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        name = handler_call_details.method.rsplit("/", 1)[1]
        methods: dict[str, tuple[type[Message], Callable[[Any, grpc.ServicerContext], Message]]] = {
            "GetRoutes": (pb.GetRoutesRequest, self._get_routes),
            "Next": (pb.NextRequest, self._next),
            "NextMany": (pb.NextManyRequest, self._next_many),
            "Current": (pb.CurrentRequest, self._current),
        }
        request, handle = methods[name]

        def held(message: Any, context: grpc.ServicerContext) -> Message:
            if not self._set.released.is_set():
                with self._set.world.lock:
                    self._set.held += 1
                self._set.released.wait()
            return handle(message, context)

        return grpc.unary_unary_rpc_method_handler(
            held, request_deserializer=request.FromString, response_serializer=lambda message: message.SerializeToString()
        )

    def _get_routes(self, request: pb.GetRoutesRequest, context: grpc.ServicerContext) -> Message:
        return pb.GetRoutesResponse(routes=self._set.routes(request.known_version))

    def _next(self, request: pb.NextRequest, context: grpc.ServicerContext) -> Message:
        value, prev, epoch = self._take(request.uid, request.count, request.epoch, request.route_version, context)
        return pb.NextResponse(value=value, prev=prev, epoch=epoch, routes=self._set.routes(request.route_version))

    def _current(self, request: pb.CurrentRequest, context: grpc.ServicerContext) -> Message:
        value, _, epoch = self._take(request.uid, 0, request.epoch, request.route_version, context)
        routes = self._set.routes(request.route_version)
        return pb.CurrentResponse(value=value, exactness=pb.EXACTNESS_EXACT, epoch=epoch, routes=routes)

    def _take(self, uid: int, count: int, epoch: int, version: int, context: grpc.ServicerContext) -> tuple[int, int, int]:
        try:
            return self._set.take(Seen(self._addr, context.peer(), uid, epoch, version), count)
        except Refusal as refusal:
            refusal.abort(context)
            raise

    def _next_many(self, request: pb.NextManyRequest, context: grpc.ServicerContext) -> Message:
        response = pb.NextManyResponse()
        counts = request.counts or [1] * len(request.uids)
        for index, (uid, count, epoch) in enumerate(zip(request.uids, counts, request.known_epochs, strict=True)):
            taken = (0, 0, 0)
            try:
                taken = self._set.take(Seen(self._addr, context.peer(), uid, epoch, request.route_version), count)
            except Refusal as refusal:
                response.errors.append(refusal.item(index))
            for values, value in zip((response.values, response.prevs, response.epochs), taken, strict=True):
                values.append(value)
        if routes := self._set.routes(request.route_version):
            response.routes.CopyFrom(routes)
        return response
