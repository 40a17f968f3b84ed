"""State machine of a call, without any I/O: targets of its attempts, handling of responses and failures, retries.

`Client` and `AsyncClient` drive a `Call`: they send each `Attempt` of a `round`, pass the response or the failure back, and
sleep for `pause` seconds, until a round is empty. Only retryable failures are retried; numbers of a lost attempt are a gap,
no other caller gets them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from seqsvr import _results
from seqsvr._budget import Budget, backoff
from seqsvr._errors import BadAnswer, CountOutOfRange, DeadlineExceeded, Refused, SeqError, UidOutside, Unreachable
from seqsvr._proto import route_pb2
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._routes import Routes, SetRoutes

DEADLINE = 5.0
"""Default timeout of a call, in seconds: longer than the sections of a lost host wait for their next owner."""

MAX_COUNT = 1_000_000
"""Most numbers of one item."""

MAX_ITEMS = 10_000
"""Most items of one request; larger batches go in several, one after the other."""

DOMAIN = "seqsvr"

Result = TypeVar("Result", Allocation, Current)
Result_co = TypeVar("Result_co", Allocation, Current, covariant=True)


@dataclass
class Shared:
    """State shared by all calls of a client."""

    routes: Routes = field(default_factory=Routes)
    budget: Budget = field(default_factory=Budget)


@dataclass
class Attempt:
    """A request to send, its target, and its items."""

    addr: str
    method: str
    request: Message
    timeout: float
    items: list[int]


class ManyResponse(Protocol):
    """Common fields of responses to batches."""

    @property
    def errors(self) -> Sequence[pb.ItemError]: ...
    @property
    def routes(self) -> route_pb2.Routes: ...
    def HasField(self, name: str) -> bool: ...


@dataclass
class _Item:
    uid: int
    count: int
    lost: int = 0


@dataclass
class _Group:
    """Items of one owner, in order: all items of a uid are in one group."""

    items: list[int]
    made: int = 0
    excluded: str | None = None


class Call(Generic[Result]):
    """One call of a client: one item or many."""

    def __init__(self, shared: Shared, uids: Sequence[int], counts: Sequence[int], deadline: float, method: Method[Result]):
        """Starts the call. Raises CountOutOfRange, and TypeError or ValueError for an invalid uid."""
        self._shared = shared
        self._method: Method[Result] = method
        self._deadline_at = time.monotonic() + deadline
        self._items = [_Item(_uid(uid), _count(uid, count)) for uid, count in zip(uids, counts, strict=True)]
        self.results: list[Result | SeqError | None] = [None] * len(self._items)
        self._groups: list[_Group] = []
        self._planned = False
        self._wait: float | None = 0.0

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self._deadline_at - time.monotonic()

    @property
    def is_outside(self) -> bool:
        """Whether an item is outside every known set, so that the routes must be fetched again."""
        return any(self._shared.routes.set_of(item.uid) is None for item in self._items)

    def round(self) -> list[Attempt]:
        """The requests to send now, in parallel; empty if the call is complete."""
        if not self._planned:
            self._plan()
        attempts = []
        for group in self._groups:
            attempt = self._attempt(group)
            if attempt is not None:
                attempts.append(attempt)
        return attempts

    def pause(self) -> float:
        """Seconds to wait before the next round."""
        wait, self._wait = self._wait, None
        return wait or 0.0

    def _plan(self) -> None:
        self._planned = True
        groups: dict[tuple[str, str | None], _Group] = {}
        for index, item in enumerate(self._items):
            known = self._shared.routes.set_of(item.uid)
            if known is None:
                self.results[index] = UidOutside(item.uid)
                continue
            key = (known.name, known.route(item.uid).owner)
            groups.setdefault(key, _Group([])).items.append(index)
        for group in groups.values():
            # Sequential: a part of MAX_ITEMS is complete before the next one is sent.
            self._groups.append(group)
            self._shared.budget.earn()

    def _attempt(self, group: _Group) -> Attempt | None:
        items = [index for index in group.items if self.results[index] is None][:MAX_ITEMS]
        if not items:
            return None
        timeout = self.remaining
        if timeout <= 0:
            self._fail(group, group.items, lambda lost: DeadlineExceeded(may_have_applied=lost > 0, attempts=group.made))
            return None
        uid = self._items[items[0]].uid
        known = self._shared.routes.set_of(uid)
        assert known is not None, "sets are never forgotten"
        addr = self._host(known, known.route(uid).owner, group.excluded)
        uids = [self._items[index].uid for index in items]
        counts = [self._items[index].count for index in items]
        version = self._shared.routes.known_version(known)
        epochs = [known.route(uid).epoch if known.uid_start <= uid < known.uid_end else 0 for uid in uids]
        method, request = self._method.request(uids, counts, version, epochs)
        return Attempt(addr, method, request, timeout, items)

    def _host(self, known: SetRoutes, owner: str | None, excluded: str | None) -> str:
        """The owner unless suspect or excluded, else a random host that is neither, else any that is not excluded."""

        def is_good(addr: str) -> bool:
            return addr != excluded and not self._shared.budget.is_suspect(addr)

        if owner is not None and is_good(owner):
            return owner
        hosts = list(known.hosts)
        random.shuffle(hosts)
        others = [host for host in hosts if host != excluded]
        return next(filter(is_good, hosts), (others or hosts)[0])

    def _group(self, attempt: Attempt) -> _Group:
        return next(group for group in self._groups if attempt.items[0] in group.items)

    def on_response(self, attempt: Attempt, response: Message) -> None:
        """Handles a response."""
        group = self._group(attempt)
        group.made += 1
        routes, decoder = self._method.decode(response)
        if routes is not None:
            self._shared.routes.adopt(routes)
        try:
            results = list(decoder(attempt.addr, [self._items[index] for index in attempt.items]))
            if len(results) != len(attempt.items):
                raise BadAnswer(attempt.addr, "lists of other lengths than the request's")
        except BadAnswer as error:
            bad = error
            self._fail(group, attempt.items, lambda _: bad)
            return
        retries: list[tuple[int, Refused]] = []
        for index, result in zip(attempt.items, results, strict=True):
            item = self._items[index]
            if isinstance(result, pb.ItemError):
                item.lost += _is_outcome_unknown(result.reason)
                retry_after = result.retry_after_ms / 1_000 if result.retry_after_ms else None
                code = _code_name(result.code)
                refused = self._refused(index, group, code, result.reason, result.message, retry_after)
                if refused.retryable:
                    retries.append((index, refused))
                else:
                    self.results[index] = refused
            else:
                self.results[index] = result
        if retries:
            wait = max((refused.retry_after or 0.0 for _, refused in retries), default=None)
            if not self._may_retry(group, wait):
                for index, refused in retries:
                    self.results[index] = refused

    def on_failure(self, attempt: Attempt, error: grpc.RpcError) -> None:
        """Handles the failure of a whole request."""
        group = self._group(attempt)
        group.made += 1
        failure = _Failure(error)
        reason, retry_after = failure.reason, failure.retry_after
        if reason is None and failure.code in ("DEADLINE_EXCEEDED", "CANCELLED"):
            self._add_lost(attempt.items, 1)
            self._fail(group, group.items, lambda lost: DeadlineExceeded(may_have_applied=lost > 0, attempts=group.made))
            return
        if reason is None and failure.code == "UNAVAILABLE":
            # Without a reason it is not from a server: the connection failed.
            self._add_lost(attempt.items, 0 if failure.never_sent else 1)
            first = group.excluded is None
            self._shared.budget.suspect(attempt.addr)
            group.excluded = attempt.addr
            if not self._may_retry(group, None, at_once=first):
                message = failure.message
                self._fail(
                    group,
                    attempt.items,
                    lambda lost: Unreachable(attempt.addr, message, may_have_applied=lost > 0, attempts=group.made),
                )
            return
        self._add_lost(attempt.items, _is_outcome_unknown(reason or ""))
        at_once = reason == "SHUTTING_DOWN" and group.excluded is None
        if reason == "SHUTTING_DOWN":
            group.excluded = attempt.addr
        refused = [
            self._refused(index, group, failure.code, reason or "", failure.message, retry_after) for index in attempt.items
        ]
        if not refused[0].retryable or not self._may_retry(group, retry_after, at_once=at_once):
            for index, each in zip(attempt.items, refused, strict=True):
                self.results[index] = each

    def _may_retry(self, group: _Group, at_least: float | None, at_once: bool = False) -> bool:
        wait = 0.0 if at_once else backoff(group.made, at_least)
        if wait >= self.remaining or not self._shared.budget.spend():
            return False
        self._wait = max(self._wait or 0.0, wait)
        return True

    def _add_lost(self, items: Sequence[int], lost: int) -> None:
        for index in items:
            self._items[index].lost += lost

    def _fail(self, group: _Group, items: Sequence[int], error: Callable[[int], SeqError]) -> None:
        for index in items:
            if self.results[index] is None:
                self.results[index] = error(self._items[index].lost)

    def _refused(self, index: int, group: _Group, code: str, reason: str, message: str, retry_after: float | None) -> Refused:
        item = self._items[index]
        if reason in ("OWNER_TIMED_OUT", "OWNER_CONNECTION_LOST", "OWNER_UNREACHABLE"):
            # Another node could not reach the owner: a direct request would most likely time out as well.
            known = self._shared.routes.set_of(item.uid)
            owner = known.route(item.uid).owner if known else None
            if owner is not None:
                self._shared.budget.suspect(owner)
        return Refused(
            item.uid,
            message,
            code=code,
            reason=reason,
            retry_after=retry_after,
            may_have_applied=item.lost > 0,
            attempts=group.made,
        )

    def one(self) -> Result:
        """The result of a call for one item. Raises its error."""
        (result,) = self.results
        if isinstance(result, SeqError):
            raise result
        assert result is not None, "a complete call has its results"
        return result

    def many(self) -> list[Result | SeqError]:
        """The results of a batch. Raises if no item got a response."""
        results = [result for result in self.results if result is not None]
        assert len(results) == len(self.results), "a complete call has its results"
        unanswered = (Unreachable, DeadlineExceeded, BadAnswer)
        if results and all(isinstance(result, unanswered) for result in results):
            first = results[0]
            assert isinstance(first, SeqError)
            first.may_have_applied = any(isinstance(each, SeqError) and each.may_have_applied for each in results)
            raise first
        return results


Decoder = Callable[[str, Sequence[_Item]], Iterator[Result_co | pb.ItemError]]
"""Decodes the results of the items, in order; the address is the server's."""


class Method(Protocol[Result_co]):
    """An RPC: encodes its request and decodes its response."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """The method and the request."""
        ...

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Result_co]]:
        """The newer routes in a response, and the decoder of its results."""
        ...


class Next:
    """Allocates numbers of one uid."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "Next", pb.NextRequest(uid=uids[0], count=counts[0], route_version=version, epoch=epochs[0])

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Allocation]]:
        """See `Method`."""
        assert isinstance(response, pb.NextResponse)
        value, prev, epoch, lost = response.value, response.prev, response.epoch, response.lost

        def read(addr: str, items: Sequence[_Item]) -> Iterator[Allocation]:
            yield _results.allocation(addr, value, prev, epoch, items[0].count, items[0].lost + lost)

        return _routes(response), read


class NextMany:
    """Allocates numbers of many uids."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        counts = [] if all(count == 1 for count in counts) else counts
        return "NextMany", pb.NextManyRequest(uids=uids, counts=counts, route_version=version, known_epochs=epochs)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Allocation]]:
        """See `Method`."""
        assert isinstance(response, pb.NextManyResponse)

        def read(addr: str, items: Sequence[_Item]) -> Iterator[Allocation | pb.ItemError]:
            errors = {error.index: error for error in response.errors}
            lost = dict(zip(response.lost.indexes, response.lost.attempts, strict=False))
            lists = zip(response.values, response.prevs, response.epochs, strict=False)
            for index, ((value, prev, epoch), item) in enumerate(zip(lists, items, strict=False)):
                if index in errors:
                    yield errors[index]
                else:
                    yield _results.allocation(addr, value, prev, epoch, item.count, item.lost + lost.get(index, 0))

        return _routes(response), read


class CurrentOne:
    """Reads the last number of one uid."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "Current", pb.CurrentRequest(uid=uids[0], route_version=version, epoch=epochs[0])

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Current]]:
        """See `Method`."""
        assert isinstance(response, pb.CurrentResponse)
        value, exactness, epoch = response.value, response.exactness, response.epoch

        def read(addr: str, items: Sequence[_Item]) -> Iterator[Current]:
            yield _results.current(addr, value, exactness, epoch)

        return _routes(response), read


class CurrentMany:
    """Reads the last numbers of many uids."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "CurrentMany", pb.CurrentManyRequest(uids=uids, route_version=version)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Current]]:
        """See `Method`."""
        assert isinstance(response, pb.CurrentManyResponse)

        def read(addr: str, items: Sequence[_Item]) -> Iterator[Current | pb.ItemError]:
            errors = {error.index: error for error in response.errors}
            lists = zip(response.values, response.exactness, response.epochs, strict=False)
            for index, ((value, exactness, epoch), _) in enumerate(zip(lists, items, strict=False)):
                if index in errors:
                    yield errors[index]
                else:
                    yield _results.current(addr, value, exactness, epoch)

        return _routes(response), read


def _routes(
    response: pb.NextResponse | pb.NextManyResponse | pb.CurrentResponse | pb.CurrentManyResponse,
) -> route_pb2.Routes | None:
    return response.routes if response.HasField("routes") else None


def _uid(uid: int) -> int:
    if not isinstance(uid, int) or isinstance(uid, bool):
        raise TypeError(f"a uid is an int, not {type(uid).__name__}")
    if not 0 <= uid < 2**64:
        raise UidOutside(uid)
    return uid


def _count(uid: int, count: int) -> int:
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"a count is an int, not {type(count).__name__}")
    if not 1 <= count <= MAX_COUNT:
        raise CountOutOfRange(uid, count, MAX_COUNT)
    return count


def _is_outcome_unknown(reason: str) -> int:
    """1 if a refusal with this reason may have moved a counter: no response to a forwarded request, or no seqsvr reason."""
    return int(reason in ("OWNER_TIMED_OUT", "OWNER_CONNECTION_LOST", ""))


def _code_name(code: int) -> str:
    return next((each.name for each in grpc.StatusCode if each.value[0] == code), "UNKNOWN")


class _Failure:
    """Status, reason and retry hint of a failed request."""

    def __init__(self, error: grpc.RpcError) -> None:
        code = error.code()
        self.code: str = code.name if code is not None else "UNKNOWN"
        self.message: str = error.details() or self.code
        self.reason: str | None = None
        self.retry_after: float | None = None
        # The text of grpcio if no connection could be established; with any other the request may have been sent.
        self.never_sent = self.message.startswith("failed to connect to all addresses")
        metadata: Any = error.trailing_metadata() or ()
        for key, value in metadata:
            if key == "grpc-status-details-bin":
                self._read(value)

    def _read(self, details: bytes) -> None:
        for detail in status_pb2.Status.FromString(details).details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                self.reason = info.reason
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToMicroseconds() / 1e6
