"""The client for threads."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from seqsvr import _fork, _methods, _tls
from seqsvr._attempts import DEADLINE, Call, IdCall, KeyCall, reported
from seqsvr._errors import ClientClosed, ConnectError, SeqError
from seqsvr._ids import CurrentId, Ids
from seqsvr._keyspace import Keyspace
from seqsvr._keyspace import home as home_of_keyspace
from seqsvr._observer import Observer
from seqsvr._requests import Requests
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, path, serialize
from seqsvr._series import Series, known
from seqsvr._shared import Attempt, Connection, Shared, Step
from seqsvr._streams import JOIN_TIMEOUT, Batcher
from seqsvr._tls import REPLACED_FOR, Certificates, Tls
from seqsvr.v1 import sequence_pb2 as pb

Self = TypeVar("Self", bound="Client")
Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


class Client(_fork.Forks):
    """A handle on the sequence service, for use from any number of threads. Make one per process.

    Requests go to the owner of the uid; the routes come from the seeds and from responses, and follow sections from set to
    set. Each call has one deadline over all its attempts. Retryable failures are retried until then, within a retry budget
    for each set: a fifth of the calls to it, and ten a second. After a connection failure the next attempt goes to another
    node; any node serves any uid. Calls to a set that is down delay no calls to others.
    """

    def __init__(
        self,
        *seeds: Seed,
        deadline: float = DEADLINE,
        tls: Tls | None = None,
        coalesce: bool = True,
        observer: Observer | None = None,
    ) -> None:
        """Takes nodes of any sets of a cluster; one that responds is enough to start.

        seeds: `host:port`, `http://host:port` or `https://host:port`, or iterables of them.
        deadline: default timeout of a call, in seconds.
        tls: connects to every node over TLS with this certificate; without it connections have no TLS.
        coalesce: whether concurrent calls of `next` and `next_n` share the messages of a stream to each node; no call waits
            for another one either way.
        observer: receives the events of the client, for metrics and traces.

        Nothing is sent before the first call, or `connect`. Raises ConnectError for a seed that is no address, OSError or
        ValueError for certificates that cannot be used.
        """
        self._seeds = addresses(seeds, secure=tls is not None)
        self._deadline = deadline
        self._tls = tls
        self._coalesce = coalesce
        self._observer = observer
        self._closed = False
        self._certificates = Certificates(tls) if tls else None
        self._start()
        _fork.register(self)

    def _start(self) -> None:
        """Begins without connections and routes."""
        self._shared = Shared(self._observer)
        self._lock = threading.Lock()
        self._channels: dict[Connection, grpc.Channel] = {}
        self._methods: dict[tuple[Connection, str], grpc.UnaryUnaryMultiCallable[Any, Any]] = {}
        self._batchers: dict[str, Batcher] = {}
        # Connections with certificates that were replaced, each until it is dropped: `close` ends their calls.
        self._replaced: list[tuple[float, grpc.Channel]] = []
        self._fetch_lock = threading.Lock()
        self._fetched_at: float | None = None

    def _before_fork(self, timeout: float) -> bool:
        with self._lock:
            batchers = list(self._batchers.values())
            self._batchers.clear()
        for batcher in batchers:
            batcher.retire()
        until = time.monotonic() + timeout
        return all([batcher.join(until - time.monotonic()) for batcher in batchers])

    def _after_fork(self) -> None:
        _fork.discard(self)
        self._start()

    def _before_exit(self, timeout: float) -> None:
        # Calls of threads that go on are sent alone.
        self._coalesce = False
        self._before_fork(timeout)

    def __del__(self) -> None:
        """Ends the threads of a client that was not closed."""
        if sys.is_finalizing():
            return
        with contextlib.suppress(Exception):
            for batcher in self._batchers.values():
                batcher.stop()

    def __enter__(self: Self) -> Self:
        """Is the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        self.close()

    def close(self) -> None:
        """Closes the connections; calls in flight and later ones raise ClientClosed. Idempotent."""
        with self._lock:
            self._closed = True
            batchers = list(self._batchers.values())
            channels = [*self._channels.values(), *(channel for _, channel in self._replaced)]
            self._batchers.clear()
            self._channels.clear()
            self._methods.clear()
            self._replaced.clear()
        for batcher in batchers:
            batcher.stop()
        for channel in channels:
            channel.close()
        for batcher in batchers:
            batcher.join(JOIN_TIMEOUT)

    def connect(self) -> None:
        """Fetches the routes from the seeds now instead of at the first call. Raises ConnectError."""
        self._check_open()
        with _fork.gate:
            self._fetch_routes([], self._deadline)

    def reload(self) -> None:
        """Reads the certificates again, and uses them for new connections; calls in flight go on.

        A client in use does so by itself within a second of a change. Raises OSError for a file that cannot be read, ValueError
        for one that cannot be used, and goes on with the certificates before.
        """
        self._check_open()
        if self._certificates is not None:
            with self._lock:
                self._certificates.reload()
                self._replace_connections()

    def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a uid, an int of a set that is served.

        Raises UidOutside, Refused, SetUnavailable, Unreachable, DeadlineExceeded, BadAnswer; with `may_have_applied` a number
        may be lost to a gap. Raises ConnectError if no seed responds to the first call, ClientClosed after `close`.
        """
        return self.next_n(uid, 1, deadline=deadline)

    def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a uid, 1 to 1,000,000; they are contiguous.

        Raises CountOutOfRange before anything is sent, and what `next` raises.
        """
        return self._run([uid], [count], deadline, _methods.Next(), coalesce=self._coalesce).one()

    def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates one number for each uid, or `counts[i]` for `uids[i]`, in one request to each owner concerned.

        Each item succeeds or fails independently: the list has an Allocation or a SeqError for each uid, in order. A uid that
        occurs twice gets numbers twice, in that order, unless its first item had to be retried. Any number of uids; more than
        10,000 of one owner go in several requests, one after the other. While a set is down, its items have errors, at the
        deadline at the latest, and those of other sets have numbers.

        Raises CountOutOfRange before anything is sent; Unreachable, DeadlineExceeded or BadAnswer if no item got a response,
        and then `may_have_applied` covers all items.
        """
        counts = [1] * len(uids) if counts is None else counts
        return self._run(uids, counts, deadline, _methods.NextMany()).many()

    def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid. Moves nothing. Raises what `next` raises."""
        return self._run([uid], [1], deadline, _methods.CurrentOne()).one()

    def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid, in requests as those of `next_many`. Moves nothing."""
        return self._run(uids, [1] * len(uids), deadline, _methods.CurrentMany()).many()

    def advance(self, uid: int, to: int, *, deadline: float | None = None) -> int:
        """Raises a uid to a number, 0 to 2**62, so that its next number is above it: for imports. Idempotent.

        Returns the epoch of the ownership. Raises Refused with ALREADY_PAST if the uid is above the number, possibly by an
        earlier attempt of this call; with ADVANCE_TOO_FAR and a `bound` if the number is too far above; and what `next` raises.
        """
        return self._run([uid], [1], deadline, _methods.Advance(_methods.number(to))).one()

    def series(self, name: str, *, deadline: float | None = None) -> Series:
        """The series of a name. Sends a request only if the client has no series of this name yet.

        Raises Refused with the reason UNKNOWN_SERIES if the seeds know no such series; a new one is known within a second.
        Raises ConnectError if no seed responds to the first call.
        """
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            with _fork.gate:
                self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return Series(self, *known(name, found))

    def keyspace(self, name: str, *, deadline: float | None = None) -> Keyspace:
        """The keyspace of a name. Sends a request only if the client has no keyspace of this name yet.

        Raises Refused with the reason UNKNOWN_KEYSPACE if the seeds know no such keyspace; a new one is known within a second.
        Raises ConnectError if no seed responds to the first call.
        """
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            with _fork.gate:
                self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return Keyspace(self, home_of_keyspace(name, found), name)

    def _run_ids(
        self, home: int, count: int, deadline: float | None, method: _methods.Method[Result], *, once: bool = False
    ) -> Result:
        self._check_open()
        timeout = self._deadline if deadline is None else deadline
        call = IdCall(self._shared, home, count, timeout, method, once=once)
        with _fork.gate, reported(call):
            if not self._shared.routes.sets:
                # The process was forked from the process that fetched them.
                self._fetch_routes([], call.remaining)
            self._drive(call, call.start())
            self._explain(call)
        return call.one()

    def _run_keys(
        self,
        home: int,
        keys: Sequence[bytes],
        counts: Sequence[int],
        deadline: float | None,
        method: _methods.Method[Result],
    ) -> Call[Result]:
        self._check_open()
        call = KeyCall(self._shared, home, keys, counts, self._deadline if deadline is None else deadline, method)
        with _fork.gate, reported(call):
            if not self._shared.routes.sets:
                # The process was forked from the process that fetched them.
                self._fetch_routes([], call.remaining)
            self._drive(call, call.start())
            self._explain(call)
        return call

    def _run(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        deadline: float | None,
        method: _methods.Method[Result],
        *,
        coalesce: bool = False,
    ) -> Call[Result]:
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        with _fork.gate, reported(call):
            if call.is_outside:
                self._fetch_routes(uids, call.remaining)
            attempt = call.stream_attempt() if coalesce else None
            if attempt is None:
                steps = call.start()
            else:
                assert isinstance(attempt.request, pb.NextRequest)
                outcome = self._batcher(attempt.addr).send(attempt.request, attempt.timeout)
                steps = call.on_stream(attempt, outcome)
            self._drive(call, steps)
            self._explain(call)
        return call

    def _explain(self, call: Call[Result]) -> None:
        """Names the cause if the connections of a call failed in TLS."""
        if self._certificates is not None and (failed := call.refused_handshake):
            cause = self._certificates.diagnose(failed.addr)
            if cause is not None:
                failed.explain(cause)

    def _drive(self, call: Call[Result], steps: Sequence[Step]) -> None:
        """Executes the steps of a call, and those that follow."""
        if not steps:
            return
        requests = Requests(steps)
        try:
            while True:
                for group in requests.due():
                    for attempt in call.attempts(group):
                        requests.add(attempt, self._send(call, attempt))
                if requests.is_empty:
                    return
                if (done := requests.wait()) is not None:
                    requests.schedule(self._outcome(call, *done))
        finally:
            requests.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed

    def _outcome(self, call: Call[Result], attempt: Attempt, future: Any) -> list[Step]:
        try:
            response = future.result()
        except grpc.RpcError as error:
            if self._closed:
                # Cancelled by `close`: the request may have reached the server.
                raise ClientClosed(may_have_applied=True) from error
            return call.on_failure(attempt, error)
        return call.on_response(attempt, response)

    def _send(self, call: Call[Result], attempt: Attempt) -> Any:
        return self._request(attempt.connection, attempt.method, attempt.request, attempt.timeout, call.headers)

    def _request(
        self,
        connection: Connection,
        name: str,
        request: Message,
        timeout: float,
        headers: Sequence[tuple[str, str]] | None = None,
    ) -> Any:
        try:
            return self._method(connection, name).future(request, timeout=timeout, metadata=tuple(headers) if headers else None)
        except ValueError as error:
            # grpcio raises it for a channel that was closed in the meantime.
            if self._closed and not isinstance(error, ClientClosed):
                raise ClientClosed from error
            raise

    def _method(self, connection: Connection, name: str) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        self._renew()
        method = self._methods.get((connection, name))
        if method is None:
            with self._lock:
                method = self._methods[connection, name] = self._channel(connection).unary_unary(
                    path(name),
                    request_serializer=serialize,
                    response_deserializer=METHODS[name].FromString,
                )
        return method

    def _batcher(self, addr: str) -> Batcher:
        self._renew()
        batcher = self._batchers.get(addr)
        if batcher is None:
            with self._lock:
                batcher = self._batchers.get(addr)
                if batcher is None:
                    open_stream: Callable[[Any], Any] = self._channel((addr, 0)).stream_stream(
                        path("NextStream"),
                        request_serializer=serialize,
                        response_deserializer=pb.NextStreamResponse.FromString,
                    )
                    batcher = self._batchers[addr] = Batcher(open_stream)
        return batcher

    def _channel(self, connection: Connection) -> grpc.Channel:
        """The connection, made at its first use. Called with the lock."""
        self._check_open()
        channel = self._channels.get(connection)
        if channel is None:
            addr, _ = connection
            if self._certificates is None:
                channel = grpc.insecure_channel(addr, options=OPTIONS)
            else:
                channel = grpc.secure_channel(addr, self._certificates.credentials, options=OPTIONS)
            self._channels[connection] = channel
        return channel

    def _renew(self) -> None:
        """Looks whether the certificates have changed, once a second."""
        now = time.monotonic()
        if self._certificates is not None and self._certificates.is_due(now):
            with self._lock:
                self._replaced = [(until, channel) for until, channel in self._replaced if until > now]
                if self._certificates.is_due(now) and self._certificates.renew(now):
                    self._replace_connections()

    def _replace_connections(self) -> None:
        """Has new calls make new connections; calls in flight go on with theirs. Called with the lock."""
        until = time.monotonic() + REPLACED_FOR
        for batcher in self._batchers.values():
            batcher.retire()
        self._replaced += [(until, channel) for channel in self._channels.values()]
        self._batchers.clear()
        self._channels.clear()
        self._methods.clear()

    def _fetch_routes(self, uids: Sequence[int], deadline: float) -> None:
        """Fetches the routes of uids from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(self._shared, self._seeds, uids, deadline)
            try:
                while True:
                    self._fetch_round(fetch)
                    wait = fetch.end_round()
                    if wait is None:
                        break
                    time.sleep(wait)
            except ConnectError as error:
                cause = _tls.diagnose(fetch.unreached, self._tls) if fetch.unreached else None
                if cause is None:
                    raise
                raise ConnectError(f"no seed answered; {cause}", retryable=False) from error
            self._fetched_at = time.monotonic()

    def _fetch_round(self, fetch: RouteFetch) -> None:
        fetch.start_round()
        done: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        request = pb.GetRoutesRequest()
        futures = [(seed, self._request((seed, 0), "GetRoutes", request, fetch.timeout)) for seed in self._seeds]
        for seed, future in futures:
            future.add_done_callback(lambda future, seed=seed: done.put((seed, future)))
        try:
            while patience := fetch.patience:
                try:
                    seed, future = done.get(timeout=patience)
                except Empty:
                    continue
                response = _response(future)
                self._check_open()
                fetch.on_response(seed, response)
        finally:
            for _, future in futures:
                future.cancel()


def _response(future: Any) -> pb.GetRoutesResponse | grpc.RpcError:
    try:
        response = future.result()
    except grpc.RpcError as error:
        return error
    assert isinstance(response, pb.GetRoutesResponse)
    return response
