"""The client for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from seqsvr import _methods
from seqsvr._attempts import DEADLINE, Attempt, Call, Connection, Group, IdCall, Shared, Step
from seqsvr._errors import ClientClosed, SeqError
from seqsvr._ids import CurrentId, Ids
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, path, serialize
from seqsvr._series import Series, known
from seqsvr._tls import Tls

Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


class Client:
    """A handle on the sequence service, for use from any number of threads. Make one per process.

    Requests go to the owner of the uid; the routes come from the seeds and from responses, and follow sections from set to
    set. Each call has one deadline over all its attempts. Retryable failures are retried until then, within a retry budget
    for each set: a fifth of the calls to it, and ten a second. After a connection failure the next attempt goes to another
    node; any node serves any uid. Calls to a set that is down delay no calls to others.
    """

    def __init__(self, *seeds: Seed, deadline: float = DEADLINE, tls: Tls | None = None) -> None:
        """Takes nodes of any sets of a cluster; one that responds is enough to start.

        seeds: `host:port`, `http://host:port` or `https://host:port`, or iterables of them.
        deadline: default timeout of a call, in seconds.
        tls: connects to every node over TLS with this certificate; without it connections have no TLS.

        Nothing is sent before the first call, or `connect`. Raises ConnectError for a seed that is no address.
        """
        self._seeds = addresses(seeds, secure=tls is not None)
        self._deadline = deadline
        self._credentials = tls.credentials() if tls else None
        self._shared = Shared()
        self._lock = threading.Lock()
        self._closed = False
        self._channels: dict[Connection, grpc.Channel] = {}
        self._methods: dict[tuple[Connection, str], grpc.UnaryUnaryMultiCallable[Any, Any]] = {}
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
        self._fetch_routes([], self._deadline)

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
        return self._run([uid], [count], deadline, _methods.Next()).one()

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

    def series(self, name: str, *, deadline: float | None = None) -> Series:
        """The series of a name. Sends a request only if the client has no series of this name yet.

        Raises Refused with the reason UNKNOWN_SERIES if the seeds know no such series; a new one is known within a second.
        Raises ConnectError if no seed responds to the first call.
        """
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return Series(self, *known(name, found))

    def _run_ids(
        self, home: int, count: int, deadline: float | None, method: _methods.Method[Result], *, once: bool = False
    ) -> Result:
        self._check_open()
        timeout = self._deadline if deadline is None else deadline
        return self._drive(IdCall(self._shared, home, count, timeout, method, once=once)).one()

    def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, method: _methods.Method[Result]
    ) -> Call[Result]:
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        if call.is_outside:
            self._fetch_routes(uids, call.remaining)
        return self._drive(call)

    def _drive(self, call: Call[Result]) -> Call[Result]:
        """Executes a call."""
        requests = _Requests(call.start())
        try:
            while True:
                for group in requests.due():
                    for attempt in call.attempts(group):
                        requests.add(attempt, self._start(attempt))
                if requests.is_empty:
                    return call
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

    def _start(self, attempt: Attempt) -> Any:
        return self._request(attempt.connection, attempt.method, attempt.request, attempt.timeout)

    def _request(self, connection: Connection, name: str, request: Message, timeout: float) -> Any:
        try:
            return self._method(connection, name).future(request, timeout=timeout)
        except ValueError as error:
            # grpcio raises it for a channel that was closed in the meantime.
            if self._closed and not isinstance(error, ClientClosed):
                raise ClientClosed from error
            raise

    def _dial(self, addr: str) -> grpc.Channel:
        if self._credentials is None:
            return grpc.insecure_channel(addr, options=OPTIONS)
        return grpc.secure_channel(addr, self._credentials, options=OPTIONS)

    def _method(self, connection: Connection, name: str) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        method = self._methods.get((connection, name))
        if method is None:
            with self._lock:
                self._check_open()
                channel = self._channels.get(connection)
                if channel is None:
                    channel = self._channels[connection] = self._dial(connection[0])
                method = self._methods[connection, name] = channel.unary_unary(
                    path(name),
                    request_serializer=serialize,
                    response_deserializer=METHODS[name].FromString,
                )
        return method

    def _fetch_routes(self, uids: Sequence[int], deadline: float) -> None:
        """Fetches the routes of uids from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(routes, self._seeds, uids, deadline)
            while True:
                self._fetch_round(fetch)
                wait = fetch.end_round()
                if wait is None:
                    break
                time.sleep(wait)
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


class _Requests:
    """The requests of one call that are in flight, and the groups that wait for their backoff."""

    def __init__(self, steps: Iterable[Step]) -> None:
        """Starts with steps."""
        self._done: SimpleQueue[tuple[Attempt, Any]] = SimpleQueue()
        self._futures: set[Any] = set()
        self._due_at: list[tuple[float, Group]] = []
        self.schedule(steps)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in flight and nothing waits."""
        return not self._futures and not self._due_at

    def schedule(self, steps: Iterable[Step]) -> None:
        """Adds steps."""
        now = time.monotonic()
        self._due_at.extend((now + step.wait if step.wait else now, step.group) for step in steps)

    def due(self) -> list[Group]:
        """Takes the groups whose wait is over."""
        now = time.monotonic()
        due = [group for at, group in self._due_at if at <= now]
        self._due_at = [(at, group) for at, group in self._due_at if at > now]
        return due

    def add(self, attempt: Attempt, future: Any) -> None:
        """Adds a request that was sent."""
        self._futures.add(future)
        future.add_done_callback(lambda future: self._done.put((attempt, future)))

    def wait(self) -> tuple[Attempt, Any] | None:
        """Waits for the next response, or until a group is due; None then."""
        now = time.monotonic()
        timeout = min((at - now for at, _ in self._due_at), default=None)
        try:
            done = self._done.get(timeout=None if timeout is None else max(timeout, 0.0))
        except Empty:
            return None
        self._futures.discard(done[1])
        return done

    def cancel(self) -> None:
        """Cancels what is in flight, when the call ends early."""
        for future in self._futures:
            future.cancel()


def _response(future: Any) -> pb.GetRoutesResponse | grpc.RpcError:
    try:
        response = future.result()
    except grpc.RpcError as error:
        return error
    assert isinstance(response, pb.GetRoutesResponse)
    return response
