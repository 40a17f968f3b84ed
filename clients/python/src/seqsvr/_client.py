"""The client for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from seqsvr import _attempts
from seqsvr._attempts import DEADLINE, Attempt, Call, Shared
from seqsvr._errors import ClientClosed, SeqError
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, serialize

Result = TypeVar("Result", Allocation, Current)


class Client:
    """A handle on the sequence service, for use from any number of threads. Make one per process.

    Requests go to the owner of the uid; the routes come from the seeds and from responses. Each call has one deadline over all
    its attempts. Retryable failures are retried until then, within the client's retry budget: a fifth of its calls, and ten a
    second. After a connection failure the next attempt goes to another node; any node serves any uid of its set.
    """

    def __init__(self, *seeds: Seed, deadline: float = DEADLINE) -> None:
        """Takes one node of each set, as `host:port` or `http://host:port`; more let the client start while some are down.

        seeds: strings, or iterables of them.
        deadline: default timeout of a call, in seconds.

        Nothing is sent before the first call, or `connect`. Raises ConnectError for a seed that is no address.
        """
        self._seeds = addresses(seeds)
        self._deadline = deadline
        self._shared = Shared()
        self._lock = threading.Lock()
        self._closed = False
        self._channels: dict[str, grpc.Channel] = {}
        self._methods: dict[tuple[str, str], grpc.UnaryUnaryMultiCallable[Any, Any]] = {}
        self._fetch_lock = threading.Lock()
        self._fetched_at: float | None = None

    def __enter__(self) -> Client:
        """Is the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        self.close()

    def close(self) -> None:
        """Closes the connections; calls in flight and later ones raise ClientClosed. Idempotent."""
        with self._lock:
            self._closed = True
            channels = list(self._channels.values())
            self._channels.clear()
            self._methods.clear()
        for channel in channels:
            channel.close()

    def connect(self) -> None:
        """Fetches the routes from the seeds now instead of at the first call. Raises ConnectError."""
        self._check_open()
        self._fetch_routes(self._deadline)

    def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a uid, an int of a set that is served.

        Raises UidOutside, Refused, Unreachable, DeadlineExceeded, BadAnswer; with `may_have_applied` a number may be lost to a
        gap. Raises ConnectError if no seed responds to the first call, ClientClosed after `close`.
        """
        return self.next_n(uid, 1, deadline=deadline)

    def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a uid, 1 to 1,000,000; they are contiguous.

        Raises CountOutOfRange before anything is sent, and what `next` raises.
        """
        return self._run([uid], [count], deadline, _attempts.Next()).one()

    def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates one number for each uid, or `counts[i]` for `uids[i]`, in one request to each owner concerned.

        Each item succeeds or fails independently: the list has an Allocation or a SeqError for each uid, in order. A uid that
        occurs twice gets numbers twice, in that order, unless its first item had to be retried. Any number of uids; more than
        10,000 of one owner go in several requests, one after the other.

        Raises CountOutOfRange before anything is sent; Unreachable, DeadlineExceeded or BadAnswer if no item got a response,
        and then `may_have_applied` covers all items.
        """
        counts = [1] * len(uids) if counts is None else counts
        return self._run(uids, counts, deadline, _attempts.NextMany()).many()

    def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid. Moves nothing. Raises what `next` raises."""
        return self._run([uid], [1], deadline, _attempts.CurrentOne()).one()

    def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid, in requests as those of `next_many`. Moves nothing."""
        return self._run(uids, [1] * len(uids), deadline, _attempts.CurrentMany()).many()

    def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, method: _attempts.Method[Result]
    ) -> Call[Result]:
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        if call.is_outside:
            self._fetch_routes(call.remaining)
        while attempts := call.round():
            # Sends all requests before it waits: the owners work in parallel.
            sent = [(attempt, self._send(attempt)) for attempt in attempts]
            for attempt, future in sent:
                try:
                    call.on_response(attempt, future.result())
                except grpc.RpcError as error:
                    if self._closed:
                        # Cancelled by `close`: the request may have reached the server.
                        raise ClientClosed(may_have_applied=True) from error
                    call.on_failure(attempt, error)
            time.sleep(call.pause())
        return call

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed

    def _send(self, attempt: Attempt) -> Any:
        return self._start(attempt.addr, attempt.method, attempt.request, attempt.timeout)

    def _start(self, addr: str, name: str, request: Message, timeout: float) -> Any:
        try:
            return self._method(addr, name).future(request, timeout=timeout)
        except ValueError as error:
            # grpcio raises it for a channel that was closed in the meantime.
            if self._closed and not isinstance(error, ClientClosed):
                raise ClientClosed from error
            raise

    def _method(self, addr: str, name: str) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        method = self._methods.get((addr, name))
        if method is None:
            with self._lock:
                self._check_open()
                channel = self._channels.get(addr)
                if channel is None:
                    channel = self._channels[addr] = grpc.insecure_channel(addr, options=OPTIONS)
                method = self._methods[addr, name] = channel.unary_unary(
                    f"/seqsvr.v1.SequenceService/{name}",
                    request_serializer=serialize,
                    response_deserializer=METHODS[name].FromString,
                )
        return method

    def _fetch_routes(self, deadline: float) -> None:
        """Fetches the routes from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(routes, self._seeds, deadline)
            wait: float | None = 0.0
            while wait is not None:
                time.sleep(wait)
                request = pb.GetRoutesRequest()
                futures = [self._start(seed, "GetRoutes", request, fetch.timeout) for seed in self._seeds]
                outcomes = [_outcome(future) for future in futures]
                self._check_open()
                wait = fetch.done(outcomes)
            self._fetched_at = time.monotonic()


def _outcome(future: Any) -> pb.GetRoutesResponse | grpc.RpcError:
    try:
        response = future.result()
    except grpc.RpcError as error:
        return error
    assert isinstance(response, pb.GetRoutesResponse)
    return response
