"""A double of a cluster in this process: every node is a gRPC server on a port of its own, on 127.0.0.1.

A `FakeCluster` knows in which set each section is; a set's route table knows what the set was notified of. Nodes serve what the
cluster has in their set, and forward the rest like real ones, unless a test scripts a refusal, holds them or stops them. They
have no series and no leases; numbers are exact.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from seqsvr.v1 import route_pb2
from seqsvr.v1 import sequence_pb2 as pb

SECTION = 10
"""Uids in a section."""

NODES = 2
"""Nodes of a set."""

OPTIONS = (
    # Real nodes respond to each ping of a client; a server of grpcio ends the connection after a few.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 100),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass
class Refusal(Exception):
    """A refusal, as an ItemError or as a status.

    reason: as in docs/reference/reasons.md, for example UNSERVED.
    code: the gRPC code.
    retry_after_ms: when a retry can succeed; 0 for a permanent refusal.
    metadata: of the ErrorInfo, as the keys `set` and `since` of MOVED.
    """

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
        for message in (info, retry) if self.retry_after_ms else (info,):
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
    """A set: its nodes, its route table with the version of each change, and what it received.

    script: what the next items are refused with, in order; None serves one.
    seen: the items that its nodes received.
    forwarded: number of items that belonged to other sets.
    has_streams: whether its nodes implement NextStream.
    held: number of requests that have waited for `release`.
    headers: headers of its requests, without streams and fetches of routes.
    """

    def __init__(self, cluster: FakeCluster, set_id: int, name: str) -> None:
        """Starts the nodes, with a table that has nothing."""
        self.cluster = cluster
        self.id = set_id
        self.name = name
        self.version = 1
        self.uid_end = cluster.sections * SECTION
        self.table: dict[int, tuple[route_pb2.RouteRun, int]] = {}
        self.peers: dict[int, tuple[route_pb2.RouteSet, int]] = {}
        self.seen: list[Seen] = []
        self.forwarded = 0
        self.script: deque[Refusal | None] = deque()
        self.has_streams = True
        self.headers: list[dict[str, str | bytes]] = []
        self.held = 0
        self._hanging: set[str] = set()
        self._released = threading.Event()
        self.nodes: dict[int, tuple[str, grpc.Server]] = {}
        for node in range(1, NODES + 1):
            server = grpc.server(ThreadPoolExecutor(16), options=OPTIONS)
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

    def refuse(self, reason: str, times: int = 1, retry_after_ms: int = 1) -> None:
        """Refuses the next items, as a set in trouble does."""
        self.script.extend([Refusal(reason, retry_after_ms=retry_after_ms)] * times)

    def hold(self, *addrs: str) -> None:
        """Has requests to some nodes, or to all, wait for `release`, as a node that hangs does."""
        self._released.clear()
        self._hanging = set(addrs or self.addrs)

    def release(self) -> None:
        """Ends what `hold` began."""
        self._hanging = set()
        self._released.set()

    def wait(self, addr: str) -> None:
        """Waits while the node is held."""
        if addr in self._hanging:
            with self.cluster.lock:
                self.held += 1
            self._released.wait()

    def stop_node(self, addr: str) -> None:
        """Stops a node: its connections break, and new ones are refused."""
        for node, (each, server) in list(self.nodes.items()):
            if each == addr:
                del self.nodes[node]
                server.stop(None)

    def stop(self) -> None:
        """Stops all nodes: connections to them are refused."""
        self.release()
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

    def take(self, seen: Seen, count: int, *, now_only: bool = False) -> tuple[int, int, int]:
        """Allocates numbers: the last one, the one before the first, and the epoch. Raises Refusal."""
        with self.cluster.lock:
            self.seen.append(seen)
            refusal = self.script.popleft() if self.script else None
            if refusal is not None:
                raise refusal
            epoch, home = self.cluster.homes[seen.uid // SECTION]
            if home is not self:
                if now_only:
                    raise Refusal("WOULD_WAIT")
                if not home.is_up:
                    raise unavailable(home.id)
                self.forwarded += 1
            prev = self.cluster.numbers.get(seen.uid, 0)
            self.cluster.numbers[seen.uid] = prev + count
            return prev + count, prev, epoch


class FakeCluster:
    """The cluster: the set and the epoch of each section, and the last number of each uid; it ends with the `with` block.

    numbers: the last number of each uid that has one; a test may change it.
    sets: the sets, each of two nodes.
    """

    def __init__(self, names: str = "a", sections: int = 6) -> None:
        """Starts a set for each letter, which know each other; sections of ten uids belong to them in turn, since epoch 1."""
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

    def __enter__(self) -> FakeCluster:
        """Is the cluster, which has started already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stops all sets."""
        self.stop()

    @property
    def seed(self) -> str:
        """The address of one node, for a client."""
        return self.sets[0].addrs[0]

    def stop(self) -> None:
        """Stops all sets."""
        for one in self.sets:
            one.stop()


class _Handler(grpc.GenericRpcHandler):
    """The sequence service of one node."""

    def __init__(self, of: FakeSet, addr: str) -> None:
        self._set = of
        self._addr = addr

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        name = handler_call_details.method.rsplit("/", 1)[1]
        if name == "NextStream" and self._set.has_streams:
            return grpc.stream_stream_rpc_method_handler(
                self._next_stream,
                request_deserializer=pb.NextStreamRequest.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        methods: dict[str, tuple[type[Message], Callable[[Any, grpc.ServicerContext], Message]]] = {
            "GetRoutes": (pb.GetRoutesRequest, self._get_routes),
            "Next": (pb.NextRequest, self._next),
            "NextMany": (pb.NextManyRequest, self._next_many),
            "Current": (pb.CurrentRequest, self._current),
            "CurrentMany": (pb.CurrentManyRequest, self._current_many),
            "Advance": (pb.AdvanceRequest, self._advance),
        }
        if name not in methods:
            return None
        request, handle = methods[name]

        def held(message: Any, context: grpc.ServicerContext) -> Message:
            if name != "GetRoutes":
                self._set.headers.append(dict(context.invocation_metadata()))
            self._set.wait(self._addr)
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

    def _advance(self, request: pb.AdvanceRequest, context: grpc.ServicerContext) -> Message:
        value, _, epoch = self._take(request.uid, 0, request.epoch, request.route_version, context)
        if value > request.to:
            Refusal("ALREADY_PAST", grpc.StatusCode.FAILED_PRECONDITION, 0).abort(context)
        self._set.cluster.numbers[request.uid] = request.to
        return pb.AdvanceResponse(epoch=epoch, routes=self._set.routes(request.route_version))

    def _next_many(self, request: pb.NextManyRequest, context: grpc.ServicerContext) -> Message:
        return self._batch(request, context)

    def _next_stream(
        self, requests: Iterable[pb.NextStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.NextStreamResponse]:
        for message in requests:
            self._set.wait(self._addr)
            response = self._batch(message.request, context, now_only=message.now_only)
            yield pb.NextStreamResponse(tag=message.tag, response=response)

    def _batch(
        self, request: pb.NextManyRequest, context: grpc.ServicerContext, *, now_only: bool = False
    ) -> pb.NextManyResponse:
        response = pb.NextManyResponse()
        counts = request.counts or [1] * len(request.uids)
        for index, (uid, count, epoch) in enumerate(zip(request.uids, counts, request.known_epochs, strict=True)):
            taken = (0, 0, 0)
            try:
                seen = Seen(self._addr, context.peer(), uid, epoch, request.route_version)
                taken = self._set.take(seen, count, now_only=now_only)
            except Refusal as refusal:
                response.errors.append(refusal.item(index))
            for values, value in zip((response.values, response.prevs, response.epochs), taken, strict=True):
                values.append(value)
        if routes := self._set.routes(request.route_version):
            response.routes.CopyFrom(routes)
        return response

    def _current_many(self, request: pb.CurrentManyRequest, context: grpc.ServicerContext) -> Message:
        response = pb.CurrentManyResponse()
        for index, (uid, epoch) in enumerate(zip(request.uids, request.known_epochs, strict=True)):
            value, exactness = 0, pb.EXACTNESS_UNSPECIFIED
            try:
                value, _, epoch = self._set.take(Seen(self._addr, context.peer(), uid, epoch, request.route_version), 0)
                exactness = pb.EXACTNESS_EXACT
            except Refusal as refusal:
                response.errors.append(refusal.item(index))
                epoch = 0
            response.values.append(value)
            response.exactness.append(exactness)
            response.epochs.append(epoch)
        if routes := self._set.routes(request.route_version):
            response.routes.CopyFrom(routes)
        return response
