"""The queue of calls to one node that share the messages of a stream, without any I/O and without a clock.

A call is sent at once if the queue is empty; calls that arrive while the sender is busy share the next message. No timer
fills messages, and no call waits for the items of another one: messages set `now_only`, so the node refuses an item that
would wait (WOULD_WAIT), and its caller sends it again alone.

Invariant: a call gets at most one outcome, and is in one message at most, so it is sent once at most.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import grpc

from seqsvr.v1 import route_pb2
from seqsvr.v1 import sequence_pb2 as pb

MAX_MESSAGE = 1_024
"""Most calls in a message: the cost of the message is then negligible, and its first call does not wait long for its last."""

MAX_IN_FLIGHT = 256
"""Most messages in flight: half of those that a node accepts on a stream."""

MAX_CALLS = 65_536
"""Most calls to a node, pending and in flight; further ones wait, up to their deadlines."""

MAX_TIMEOUT = 10.0
"""The longest timeout of a message, in seconds."""

UNSUPPORTED_FOR = 60.0
"""How long no stream is opened to a node that implements none, in seconds: only a restart of the node changes that."""


class Granted(NamedTuple):
    """The numbers of a call, not yet validated. Only one call of a message has its routes."""

    value: int
    prev: int
    epoch: int
    lost: int
    routes: route_pb2.Routes | None


class RefusedItem(NamedTuple):
    """The refusal of a call, or of its whole message. Only one call of a message has its routes."""

    item: pb.ItemError
    routes: route_pb2.Routes | None


class Broken(NamedTuple):
    """The stream ended before a response; `sent` is whether the node may have processed the call.

    error: the status of the stream; None if it ended without an error, or not as the protocol has it.
    """

    error: grpc.RpcError | None
    text: str
    sent: bool


class TimedOut(NamedTuple):
    """No response within the timeout; `sent` is whether the node may have processed the call, or may do so later."""

    sent: bool


class Invalid(NamedTuple):
    """The response violates the protocol."""

    what: str


class Other(Enum):
    """Outcomes without a value.

    UNSUPPORTED: the node implements no streams. Nothing was sent.
    CLOSED: the client was closed before the call was sent.
    CLOSED_SENT: the client was closed after the call was sent.
    """

    UNSUPPORTED = auto()
    CLOSED = auto()
    CLOSED_SENT = auto()


Outcome = Granted | RefusedItem | Broken | TimedOut | Invalid | Other
"""The outcome of a call."""


class Pending:
    """A call in the queue. Subclasses wake its caller."""

    __slots__ = ("deadline_at", "is_abandoned", "is_sent", "request")

    def __init__(self, request: pb.NextRequest, deadline_at: float) -> None:
        """Made by a batcher. `deadline_at` is the time until which the caller waits."""
        self.request = request
        self.deadline_at = deadline_at
        self.is_sent = False
        self.is_abandoned = False

    def complete(self, outcome: Outcome) -> None:
        """Passes the outcome to the caller, if it still waits."""
        raise NotImplementedError


class End(Enum):
    """Why a stream ended.

    BROKE: it was open and broke.
    CLOSED: the node ended it after its last response; messages without one moved nothing.
    NEVER_SENT: it could not be opened.
    UNSUPPORTED: the node implements no streams.
    STOPPED: the client was closed.
    """

    BROKE = auto()
    CLOSED = auto()
    NEVER_SENT = auto()
    UNSUPPORTED = auto()
    STOPPED = auto()


@dataclass(frozen=True)
class StreamEnd:
    """The end of a stream, and its status."""

    end: End
    text: str
    error: grpc.RpcError | None = None

    @staticmethod
    def of(error: grpc.RpcError) -> StreamEnd:
        """The end by a status."""
        code, text = error.code(), error.details() or ""
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return StreamEnd(End.UNSUPPORTED, text, error)
        # The text of grpcio.
        if text.startswith("failed to connect to all addresses"):
            return StreamEnd(End.NEVER_SENT, text, error)
        return StreamEnd(End.BROKE, text, error)


class Closed(Enum):
    """In place of a message: the stream has no more of them."""

    CLOSED = auto()


class CallQueue:
    """The calls to one node. Its users serialise the access."""

    def __init__(self, max_message: int = MAX_MESSAGE, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        """Starts empty, without a stream."""
        self._max_message, self._max_in_flight = max_message, max_in_flight
        self._pending: deque[Pending] = deque()
        self._in_flight: dict[int, list[Pending]] = {}
        self._tag = 0
        # The stream that is open or being opened; the number of the last one otherwise.
        self._generation = 0
        self._is_open = self._responded = self._is_retired = False
        self._unsupported_until = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no call is pending or in flight."""
        return not self._pending and not self._in_flight

    @property
    def has_pending(self) -> bool:
        """Whether calls wait to be sent."""
        return bool(self._pending)

    def is_unsupported(self, now: float) -> bool:
        """Whether the node implements no streams, as far as is known."""
        return now < self._unsupported_until

    def enqueue(self, call: Pending) -> int | None:
        """Adds a call. Returns the number of the stream that is to be opened for it; None if there is one."""
        self._pending.append(call)
        return None if self._is_open else self._reopen()

    def abandon(self, call: Pending) -> bool:
        """Ends the wait for a call: it is not sent if it is still pending. Returns whether it was sent."""
        call.is_abandoned = True
        return call.is_sent

    def next_message(self, generation: int, now: float) -> pb.NextStreamRequest | Closed | None:
        """The next message of a stream, of the calls that are pending; None if there is none now."""
        if not self._is_open or generation != self._generation:
            return Closed.CLOSED
        if len(self._in_flight) >= self._max_in_flight:
            return None
        calls: list[Pending] = []
        while self._pending and len(calls) < self._max_message:
            call = self._pending.popleft()
            if not call.is_abandoned:
                call.is_sent = True
                calls.append(call)
        if not calls:
            return Closed.CLOSED if self._is_retired else None
        self._tag += 1
        self._in_flight[self._tag] = calls
        return _message(self._tag, calls, now)

    def take(self, tag: int) -> list[Pending] | None:
        """Takes the calls of a message that got its response; None if no such message is in flight."""
        self._responded = True
        return self._in_flight.pop(tag, None)

    def retire(self) -> None:
        """Ends the stream when no call is pending any more: its connection is replaced."""
        self._is_retired = True

    def end(self, generation: int, end: StreamEnd, now: float) -> tuple[list[tuple[Pending, Outcome]], int | None]:
        """Ends a stream. Returns the calls that end with it, and the number of the next stream, if calls need one.

        Calls that were not sent wait for the next stream if this one broke after a response. Otherwise they end with it: their
        callers may be able to reach another node.
        """
        if not self._is_open or generation != self._generation:
            return [], None
        self._is_open = False
        in_flight = [call for calls in self._in_flight.values() for call in calls]
        self._in_flight.clear()
        pending: list[Pending] = []
        if not (end.end is End.BROKE and self._responded):
            pending = list(self._pending)
            self._pending.clear()
        if end.end is End.UNSUPPORTED:
            self._unsupported_until = now + UNSUPPORTED_FOR
        ended = [(call, _outcome(end, end.end is End.BROKE)) for call in in_flight]
        ended += [(call, _outcome(end, False)) for call in pending]
        if end.end is End.STOPPED:
            ended = [(call, Other.CLOSED_SENT if call.is_sent else Other.CLOSED) for call, _ in ended]
        return ended, self._reopen() if self._pending else None

    def _reopen(self) -> int:
        self._generation += 1
        self._is_open, self._responded = True, False
        return self._generation


def _outcome(end: StreamEnd, sent: bool) -> Outcome:
    if end.end is End.UNSUPPORTED:
        return Other.UNSUPPORTED
    return Broken(end.error, f"the stream ended: {end.text or end.end.name.lower()}", sent)


def _message(tag: int, calls: list[Pending], now: float) -> pb.NextStreamRequest:
    requests = [call.request for call in calls]
    counts = [request.count for request in requests]
    timeout = min(max(max(call.deadline_at for call in calls) - now, 0.001), MAX_TIMEOUT)
    request = pb.NextManyRequest(
        uids=[request.uid for request in requests],
        counts=[] if all(count == 1 for count in counts) else counts,
        route_version=min(request.route_version for request in requests),
        known_epochs=[request.epoch for request in requests],
    )
    return pb.NextStreamRequest(tag=tag, request=request, timeout_ms=int(timeout * 1_000), now_only=True)


def complete(calls: list[Pending], response: pb.NextStreamResponse) -> None:
    """Passes the response to a message to its calls."""
    if response.HasField("refusal"):
        for call in calls:
            call.complete(RefusedItem(response.refusal, None))
        return
    answer = response.response
    lists = (answer.values, answer.prevs, answer.epochs)
    errors = {error.index: error for error in answer.errors}
    what = ""
    if not response.HasField("response"):
        what = "neither a response nor a refusal"
    elif any(len(each) != len(calls) for each in lists):
        what = "lists of other lengths than the request's"
    elif any(index >= len(calls) for index in errors):
        what = "an error of an item that was not sent"
    if what:
        for call in calls:
            call.complete(Invalid(what))
        return
    lost = dict(zip(answer.lost.indexes, answer.lost.attempts, strict=False))
    routes = answer.routes if answer.HasField("routes") else None
    for index, (call, value, prev, epoch) in enumerate(zip(calls, *lists, strict=True)):
        error = errors.get(index)
        if error is not None:
            call.complete(RefusedItem(error, routes))
        else:
            call.complete(Granted(value, prev, epoch, lost.get(index, 0), routes))
        routes = None
