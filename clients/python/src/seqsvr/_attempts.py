"""State machine of a call, without any I/O: targets of its attempts, handling of responses and failures, retries.

`Client` and `AsyncClient` drive a `Call`: each `Step` is to be executed after its wait and yields `Attempt`s to send, and the
response to each attempt, or its failure, yields the steps that follow. A call without steps or attempts is complete. Steps
are independent: items of a set that is down hold up no others. Only retryable failures are retried; numbers of a lost
attempt are a gap, no other caller gets them.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from seqsvr._budget import Suspects, backoff
from seqsvr._errors import (
    BadAnswer,
    ConnectError,
    CountOutOfRange,
    DeadlineExceeded,
    Refused,
    SeqError,
    SetUnavailable,
    UidOutside,
    Unreachable,
)
from seqsvr._ids import CurrentId, Ids
from seqsvr._methods import Item, Method
from seqsvr._proto import route_pb2
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._routes import NO_ROUTE, VIRGIN, KnownSet, Route, Routes

DEADLINE = 5.0
"""Default timeout of a call, in seconds: longer than the sections of a lost host wait for their next owner."""

MAX_COUNT = 1_000_000
"""Most numbers of one item."""

MAX_ITEMS = 10_000
"""Most items of one request; larger batches go in several, one after the other."""

DOMAIN = "seqsvr"

logger = logging.getLogger("seqsvr")

Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


@dataclass
class Shared:
    """State shared by all calls of a client."""

    routes: Routes = field(default_factory=Routes)
    suspects: Suspects = field(default_factory=Suspects)


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


Connection = tuple[str, int]
"""The address, and the id of the set that the node forwards to; 0 for requests that its own set handles."""


@dataclass
class Attempt:
    """A request to send, and its target.

    target: the set of the node at `addr`.
    set: the set that the items are in by the client's routes. Another one than `target` if the request is to be forwarded;
        `target` if the client does not know it.
    timeout: in seconds.
    items: indexes of its items.
    epochs: the epochs of their routes.
    """

    addr: str
    target: KnownSet
    set: KnownSet
    method: str
    request: Message
    timeout: float
    items: list[int]
    epochs: list[int]
    group: Group

    @property
    def connection(self) -> Connection:
        """The connection: requests that wait for another set to respond are not on the one of the target's own."""
        return self.addr, 0 if self.set.id == self.target.id else self.set.id


class Call(Generic[Result]):
    """One call of a client: one item or many."""

    def __init__(self, shared: Shared, uids: Sequence[int], counts: Sequence[int], deadline: float, method: Method[Result]):
        """Starts the call. Raises CountOutOfRange, and TypeError or ValueError for an invalid uid."""
        self._shared = shared
        self._method: Method[Result] = method
        self._deadline_at = time.monotonic() + deadline
        self._items = [Item(_uid(uid), _count(uid, count)) for uid, count in zip(uids, counts, strict=True)]
        self.results: list[Result | SeqError | None] = [None] * len(self._items)

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self._deadline_at - time.monotonic()

    @property
    def is_outside(self) -> bool:
        """Whether an item is outside of all known uids, so that the routes must be fetched again."""
        return any(item.uid is not None and self._shared.routes.space(item.uid) is None for item in self._items)

    def start(self) -> list[Step]:
        """The first steps: one for each owner concerned."""
        groups: dict[tuple[int, int], Group] = {}
        for index, item in enumerate(self._items):
            assert item.uid is not None
            route = self._shared.routes.route(item.uid)
            if route is None:
                self.results[index] = UidOutside(item.uid)
            else:
                groups.setdefault((route.set_id, route.owner), Group([])).items.append(index)
        for set_id, _ in groups:
            if known := self._shared.routes.sets.get(set_id):
                known.budget.earn()
        return [Step(group) for group in groups.values()]

    def attempts(self, group: Group) -> list[Attempt]:
        """The requests to send for a group now: the next part of its items, one for each set that they are in by now."""
        timeout = self.remaining
        if timeout <= 0:
            self._deadline_exceeded(group, group.items)
            return []
        part, group.items = group.items[:MAX_ITEMS], group.items[MAX_ITEMS:]
        routes = [self._route(index) for index in part]
        by_set: dict[int, list[int]] = {}
        for position, route in enumerate(routes):
            by_set.setdefault(route.set_id, []).append(position)
        attempts: list[Attempt] = []
        for positions in by_set.values():
            # The items that are not in this part stay with the first set.
            each = Group([], group.made, group.excluded) if attempts else group
            items = [part[position] for position in positions]
            attempts.append(self._attempt(each, items, [routes[position] for position in positions], timeout))
        return attempts

    def _attempt(self, group: Group, items: list[int], routes: list[Route], timeout: float) -> Attempt:
        target, addr = self._target(routes[0], group)
        uids = [self._items[index].uid or 0 for index in items]
        counts = [self._items[index].count for index in items]
        epochs = [route.epoch for route in routes]
        method, request = self._method.request(uids, counts, self._shared.routes.known_version(target), epochs)
        known = self._shared.routes.sets.get(routes[0].set_id, target)
        return Attempt(addr, target, known, method, request, timeout, items, epochs, group)

    def _target(self, route: Route, group: Group) -> tuple[KnownSet, str]:
        """The node of the next attempt, and its set.

        A node of the route's set. A retry goes to a node of another set if none is left that could be reached: it forwards,
        and it knows the sections that moved out of a set that is down.
        """
        routes, excluded = self._shared.routes, group.excluded

        def is_good(addr: str) -> bool:
            return addr != excluded and addr not in self._shared.suspects

        known = routes.sets.get(route.set_id)
        if known is not None and (addr := known.good_host(route.owner, is_good)):
            return known, addr
        others = [each for each in routes.sets.values() if known is None or (each is not known and each.space is known.space)]
        random.shuffle(others)
        if known is None or not known.has_hosts or group.made > 0:
            for other in others:
                if addr := other.good_host(0, is_good):
                    return other, addr
        if known is not None:
            others.insert(0, known)
        for each in others:
            if addr := each.any_host(excluded):
                return each, addr
        raise AssertionError("a set that is known by its seeds has an address")

    def _route(self, index: int) -> Route:
        uid = self._items[index].uid
        assert uid is not None
        return self._shared.routes.route(uid) or NO_ROUTE

    def on_response(self, attempt: Attempt, response: Message) -> list[Step]:
        """Handles a response; returns the steps that follow."""
        group = attempt.group
        group.made += 1
        routes, decoder = self._method.decode(response)
        if routes is not None:
            self._adopt(routes, attempt.addr)
        try:
            results = list(decoder(attempt.addr, [self._items[index] for index in attempt.items]))
            if len(results) != len(attempt.items):
                raise BadAnswer(attempt.addr, "lists of other lengths than the request's")
        except BadAnswer as error:
            for index in attempt.items:
                self.results[index] = error
            return _rest(group)
        moved: list[int] = []
        retries: list[tuple[int, SeqError]] = []
        for index, epoch, result in zip(attempt.items, attempt.epochs, results, strict=True):
            if not isinstance(result, pb.ItemError):
                self.results[index] = result
                continue
            self._items[index].lost += _is_outcome_unknown(result.reason)
            if result.reason == "MOVED" and self._route(index).epoch > epoch:
                moved.append(index)
                continue
            retry_after = result.retry_after_ms / 1_000 if result.retry_after_ms else None
            failure = Failure(_code_name(result.code), result.message, result.reason, retry_after)
            retries.append((index, self._refused(index, attempt, failure)))
        return self._follow(group, moved) + self._retry(attempt, retries)

    def on_failure(self, attempt: Attempt, error: grpc.RpcError) -> list[Step]:
        """Handles the failure of a whole request; returns the steps that follow."""
        group = attempt.group
        items = attempt.items
        group.made += 1
        failure = Failure.of(error)
        if not failure.reason and failure.code in ("DEADLINE_EXCEEDED", "CANCELLED"):
            self._count_lost(items, 1)
            self._deadline_exceeded(group, items + group.items)
            return []
        if not failure.reason and failure.code == "UNAVAILABLE":
            # Without a reason it is not from a server: the connection failed.
            self._count_lost(items, 0 if failure.never_sent else 1)
            first, group.excluded = group.excluded is None, attempt.addr
            self._shared.suspects.add(attempt.addr)
            return self._retry(attempt, [(index, self._unreachable(index, attempt, failure)) for index in items], first)
        self._count_lost(items, _is_outcome_unknown(failure.reason))
        if failure.reason == "MOVED":
            uid = self._items[items[0]].uid
            if len(items) == 1 and uid is not None and failure.set_id and failure.since is not None:
                self._shared.routes.claim(uid, failure.set_id, failure.since)
            if all(self._route(index).epoch > epoch for index, epoch in zip(items, attempt.epochs, strict=True)):
                return self._follow(group, items) + _rest(group)
        at_once = failure.reason == "SHUTTING_DOWN" and group.excluded is None
        if failure.reason == "SHUTTING_DOWN":
            group.excluded = attempt.addr
        return self._retry(attempt, [(index, self._refused(index, attempt, failure)) for index in items], at_once)

    def _follow(self, group: Group, moved: list[int]) -> list[Step]:
        """Retries items of which newer routes are known than those that sent them: at once, and without a budget.

        The epoch of an item's route grows with each of these retries, so they end.
        """
        return [Step(Group(moved, group.made))] if moved else []

    def _retry(self, attempt: Attempt, retries: Iterable[tuple[int, SeqError]], at_once: bool = False) -> list[Step]:
        """The steps that retry items, for each set with its own backoff and budget; an item that has none fails.

        Includes the items of the group that were not sent yet: they follow those of their own set.
        """
        group = attempt.group
        steps: list[Step] = []
        by_set: dict[int, list[tuple[int, SeqError]]] = {}
        for index, error in retries:
            if error.retryable:
                by_set.setdefault(self._set_of(index, error), []).append((index, error))
            else:
                self.results[index] = error
        for set_id, failed in by_set.items():
            hints = [error.retry_after or 0.0 for _, error in failed if isinstance(error, Refused)]
            wait = 0.0 if at_once else backoff(group.made, max(hints, default=None))
            known = self._shared.routes.sets.get(set_id, attempt.set)
            if wait >= self.remaining or not known.budget.spend():
                for index, error in failed:
                    self.results[index] = error
                continue
            items = [index for index, _ in failed]
            excluded = None
            if set_id == attempt.set.id:
                items, group.items, excluded = items + group.items, [], group.excluded
            steps.append(Step(Group(items, group.made, excluded), wait))
        return steps + _rest(group)

    def _set_of(self, index: int, error: SeqError) -> int:
        """The set that failed an item: the one that the refusal names, or that the item is in."""
        named = error.set_id if isinstance(error, SetUnavailable) else 0
        return named if named in self._shared.routes.sets else self._route(index).set_id

    def _adopt(self, routes: route_pb2.Routes, addr: str) -> None:
        try:
            self._shared.routes.adopt(routes)
        except ConnectError as error:
            # The response itself is valid.
            logger.warning("routes in a response of %s were not adopted: %s", addr, error)

    def _count_lost(self, items: Iterable[int], lost: int) -> None:
        for index in items:
            self._items[index].lost += lost

    def _unreachable(self, index: int, attempt: Attempt, failure: Failure) -> Unreachable:
        lost = self._items[index].lost > 0
        return Unreachable(attempt.addr, failure.message, may_have_applied=lost, attempts=attempt.group.made)

    def _deadline_exceeded(self, group: Group, items: Iterable[int]) -> None:
        for index in items:
            lost = self._items[index].lost > 0
            self.results[index] = DeadlineExceeded(may_have_applied=lost, attempts=group.made)

    def _refused(self, index: int, attempt: Attempt, failure: Failure) -> Refused:
        """The error of an item that a server refused. Marks its owner suspect if the server could not reach it."""
        item, route = self._items[index], self._route(index)
        if failure.reason in ("OWNER_TIMED_OUT", "OWNER_CONNECTION_LOST", "OWNER_UNREACHABLE"):
            # A direct request would most likely time out as well.
            owner = self._shared.routes.owner(route)
            if owner is not None:
                self._shared.suspects.add(owner)
        lost, made = item.lost > 0, attempt.group.made
        if failure.reason != "SET_UNAVAILABLE":
            return Refused(
                item.uid,
                failure.message,
                code=failure.code,
                reason=failure.reason,
                retry_after=failure.retry_after,
                may_have_applied=lost,
                attempts=made,
            )
        # An item of a batch does not name the set; the routes do, unless they are older than those of the server.
        set_id = failure.set_id or (0 if route.set_id == attempt.target.id else route.set_id)
        known = self._shared.routes.sets.get(set_id)
        return SetUnavailable(
            item.uid,
            failure.message,
            set_id=set_id,
            set_name=known.name if known else "",
            code=failure.code,
            retry_after=failure.retry_after,
            may_have_applied=lost,
            attempts=made,
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


class IdCall(Call[Result]):
    """A call for ids of a series: any node serves it, of the set `home`, or of another set while `home` is down.

    With `once` its first failure is its error, for callers that go on elsewhere.
    """

    def __init__(
        self, shared: Shared, home: int, count: int, deadline: float, method: Method[Result], *, once: bool = False
    ) -> None:
        """Starts the call. Raises CountOutOfRange, and TypeError for an invalid count."""
        self._shared = shared
        self._method: Method[Result] = method
        self._deadline_at = time.monotonic() + deadline
        self._items = [Item(None, _count(None, count))]
        self.results: list[Result | SeqError | None] = [None]
        self._home = home
        self._once = once

    def start(self) -> list[Step]:
        """See `Call`."""
        if known := self._shared.routes.sets.get(self._home):
            known.budget.earn()
        return [Step(Group([0]))]

    def _route(self, index: int) -> Route:
        return Route(0, VIRGIN, self._home, 0)

    def _retry(self, attempt: Attempt, retries: Iterable[tuple[int, SeqError]], at_once: bool = False) -> list[Step]:
        if not self._once:
            return super()._retry(attempt, retries, at_once)
        for index, error in retries:
            self.results[index] = error
        return []


@dataclass(frozen=True)
class Failure:
    """A failed request, or a refused item.

    code: the gRPC code, as `"UNAVAILABLE"`.
    reason: in capitals; empty if it is not the sequence service's own.
    retry_after: seconds after which the server expects a retry to succeed.
    set_id: id of the set that the refusal names; 0 if it names none.
    since: epoch since which the section is there; None if the refusal states none.
    never_sent: whether no connection could be established; otherwise the request may have been sent.
    """

    code: str
    message: str
    reason: str = ""
    retry_after: float | None = None
    set_id: int = 0
    since: int | None = None
    never_sent: bool = False

    @staticmethod
    def of(error: grpc.RpcError) -> Failure:
        """The failure of a request."""
        code = error.code()
        message = error.details() or (code.name if code else "UNKNOWN")
        reason, retry_after, set_id, since = "", None, 0, None
        metadata: Any = error.trailing_metadata() or ()
        for value in (value for key, value in metadata if key == "grpc-status-details-bin"):
            for detail in status_pb2.Status.FromString(value).details:
                info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    reason = info.reason
                    set_id, since = _number(info.metadata.get("set")) or 0, _number(info.metadata.get("since"))
                elif detail.Unpack(retry):
                    retry_after = retry.retry_delay.ToMicroseconds() / 1e6
        # The text of grpcio.
        never_sent = message.startswith("failed to connect to all addresses")
        return Failure(code.name if code else "UNKNOWN", message, reason, retry_after, set_id, since, never_sent)


def _rest(group: Group) -> list[Step]:
    """The step of the items that were not sent yet."""
    return [Step(group)] if group.items else []


def _number(text: str | None) -> int | None:
    """An unsigned 64-bit number in a refusal's metadata; None if it is none."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 20):
        return None
    number = int(text)
    return number if number < 2**64 else None


def _uid(uid: int) -> int:
    if not isinstance(uid, int) or isinstance(uid, bool):
        raise TypeError(f"a uid is an int, not {type(uid).__name__}")
    if not 0 <= uid < 2**64:
        raise UidOutside(uid)
    return uid


def _count(uid: int | None, count: int) -> int:
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
