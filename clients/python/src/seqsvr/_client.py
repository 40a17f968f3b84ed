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
from seqsvr._answers import Allocation, Current
from seqsvr._attempts import DEADLINE, Attempt, Call, Shared
from seqsvr._errors import ClientClosed, SeqError
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._seeds import METHODS, OPTIONS, REFRESH_EVERY, Gather, Seed, addresses, serialize

Answer = TypeVar("Answer", Allocation, Current)


class Client:
    """A handle on the sequence service, for use from any number of threads. Make one per process.

    Calls go to the node that owns the uid; which that is, is learnt from the seeds and from answers. Each call has one
    deadline over everything it does. What can succeed later is repeated until then, as long as the client's retry budget
    lasts: a fifth of its calls, and ten a second. A node that fails is followed by another one; any node answers for any
    uid of its set.
    """

    def __init__(self, *seeds: Seed, deadline: float = DEADLINE) -> None:
        """Names one node of each set, as `host:port` or `http://host:port`; more let the client start while some are down.

        seeds: strings, or iterables of them.
        deadline: seconds that a call may take, unless the call says otherwise.

        Nothing is sent before the first call, or `connect`. Raises ConnectError for a seed that is no address.
        """
        self._seeds = addresses(seeds)
        self._deadline = deadline
        self._shared = Shared()
        self._lock = threading.Lock()
        self._closed = False
        self._channels: dict[str, grpc.Channel] = {}
        self._methods: dict[tuple[str, str], grpc.UnaryUnaryMultiCallable[Any, Any]] = {}
        self._gathering = threading.Lock()
        self._gathered_at: float | None = None

    def __enter__(self) -> Client:
        """Is the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        self.close()

    def close(self) -> None:
        """Closes the connections for good; calls that are under way and later ones raise ClientClosed. May be repeated."""
        with self._lock:
            self._closed = True
            channels = list(self._channels.values())
            self._channels.clear()
            self._methods.clear()
        for channel in channels:
            channel.close()

    def connect(self) -> None:
        """Asks the seeds for routes now instead of at the first call. Raises ConnectError."""
        self._check_open()
        self._gather(self._deadline)

    def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Takes the next number of a uid, an int of a set that is served.

        Raises UidOutside, Refused, Unreachable, DeadlineExceeded, BadAnswer; their `may_have_applied` says whether a number
        may be lost to a gap. Raises ConnectError when no seed answers the first call, ClientClosed after `close`.
        """
        return self.next_n(uid, 1, deadline=deadline)

    def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Takes the next `count` numbers of a uid, 1 to 1,000,000; they follow each other without a gap.

        Raises CountOutOfRange before anything is sent, and what `next` raises.
        """
        return self._run([uid], [count], deadline, _attempts.Next()).one()

    def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Takes one number for each uid, or `counts[i]` for `uids[i]`, in one request to each owner concerned.

        Each item succeeds or fails by itself: the list has an Allocation or a SeqError for each uid, in order. A uid that is
        named twice takes twice, in that order, unless its first item had to be repeated. Any number of uids; more than
        10,000 of one owner go in several requests, one after the other.

        Raises CountOutOfRange before anything is sent; Unreachable, DeadlineExceeded or BadAnswer when nobody answered any
        item, and then `may_have_applied` speaks for all.
        """
        counts = [1] * len(uids) if counts is None else counts
        return self._run(uids, counts, deadline, _attempts.NextMany()).many()

    def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid. Moves nothing. Raises what `next` raises."""
        return self._run([uid], [1], deadline, _attempts.CurrentOne()).one()

    def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid, as `next_many` takes them. Moves nothing."""
        return self._run(uids, [1] * len(uids), deadline, _attempts.CurrentMany()).many()

    def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, asks: _attempts.Asks[Answer]
    ) -> Call[Answer]:
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, asks)
        if call.is_outside:
            self._gather(call.remaining)
        while attempts := call.round():
            # All of them first, so that owners are asked at the same time.
            sent = [(attempt, self._send(attempt)) for attempt in attempts]
            for attempt, future in sent:
                try:
                    call.answered(attempt, future.result())
                except grpc.RpcError as error:
                    if self._closed:
                        # Closing the connection cancelled it: it may have reached the server.
                        raise ClientClosed(may_have_applied=True) from error
                    call.failed(attempt, error)
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
            # The library's word for a connection that was closed in the meantime.
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

    def _gather(self, deadline: float) -> None:
        """Asks the seeds; does nothing if that was done a moment ago."""
        with self._gathering:
            routes = self._shared.routes
            recent = self._gathered_at is not None and time.monotonic() - self._gathered_at < REFRESH_EVERY
            if recent and routes.sets:
                return
            gather = Gather(routes, self._seeds, deadline)
            wait: float | None = 0.0
            while wait is not None:
                time.sleep(wait)
                request = pb.GetRoutesRequest()
                futures = [self._start(seed, "GetRoutes", request, gather.timeout) for seed in self._seeds]
                outcomes = [_outcome(future) for future in futures]
                self._check_open()
                wait = gather.done(outcomes)
            self._gathered_at = time.monotonic()


def _outcome(future: Any) -> pb.GetRoutesResponse | grpc.RpcError:
    try:
        answer = future.result()
    except grpc.RpcError as error:
        return error
    assert isinstance(answer, pb.GetRoutesResponse)
    return answer
