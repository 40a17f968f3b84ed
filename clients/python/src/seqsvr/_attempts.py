"""State machine of a call, without any I/O: targets of its attempts, handling of responses and failures, retries.

`Client` and `AsyncClient` drive a `Call`: each `Step` is to be executed after its wait and yields `Attempt`s to send, and the
response to each attempt, or its failure, yields the steps that follow. A call without steps or attempts is complete. Steps
are independent: items of a set that is down hold up no others. Only retryable failures are retried; numbers of a lost
attempt are a gap, no other caller gets them.

An attempt has the timeout of the call, or a third of it while another node can serve: then the node is suspect, and the next
attempt goes elsewhere. The first attempt of a call for one uid may share a message of the stream to the owner.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from seqsvr import _results
from seqsvr._budget import backoff
from seqsvr._errors import (
    BadAnswer,
    ClientClosed,
    ConnectError,
    CountOutOfRange,
    DeadlineExceeded,
    Refused,
    SeqError,
    SetUnavailable,
    UidOutside,
    Unreachable,
)
from seqsvr._failure import STREAM_BREAKS, Failure
from seqsvr._ids import CurrentId, Ids
from seqsvr._methods import Item, Method, Next
from seqsvr._observer import AttemptEvent, CallEvent
from seqsvr._queue import Broken, Granted, Invalid, Other, Outcome, RefusedItem, TimedOut
from seqsvr._results import Allocation, Current
from seqsvr._routes import NO_ROUTE, VIRGIN, KnownSet, Route
from seqsvr._shared import Attempt, Group, Shared, Step
from seqsvr.v1 import route_pb2
from seqsvr.v1 import sequence_pb2 as pb

DEADLINE = 5.0
"""Default timeout of a call, in seconds: longer than the sections of a lost host wait for their next owner."""

MAX_DEADLINE = 86_400.0
"""The longest timeout of a call, in seconds."""

MIN_ATTEMPT = 1.0
"""The shortest timeout of an attempt while another node can serve, in seconds: a busy node is left no sooner."""

ATTEMPTS_IN_DEADLINE = 3
"""Attempts at nodes that hang for which a deadline suffices."""

LEAST_ATTEMPT = 0.02
"""Time left for which no further attempt is made, in seconds: it would end without a response, and its outcome is unknown."""

TLS_WORDS = ("TSI_", "SSL_", "Peer name", "andshake")
"""Words of grpcio in the failure of a connection whose cause is TLS."""

MAX_COUNT = 1_000_000
"""Most numbers of one item."""

MAX_ITEMS = 10_000
"""Most items of one request; larger batches go in several, one after the other."""

MAX_KEYS_BYTES = 128 * 1024
"""Most bytes of the keys of one request: half of the largest request of a server; the rest is for their lengths."""

logger = logging.getLogger("seqsvr")

Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


class Call(Generic[Result]):
    """One call of a client: one item or many."""

    def __init__(self, shared: Shared, uids: Sequence[int], counts: Sequence[int], deadline: float, method: Method[Result]):
        """Starts the call. Raises CountOutOfRange, and TypeError or ValueError for an invalid uid."""
        items = [Item(_uid(uid), _count(uid, count)) for uid, count in zip(uids, counts, strict=True)]
        self._begin(shared, items, deadline, method)

    def _begin(self, shared: Shared, items: list[Item], deadline: float, method: Method[Result]) -> None:
        self._shared = shared
        self._method: Method[Result] = method
        self._items = items
        self.results: list[Result | SeqError | None] = [None] * len(items)
        deadline = min(deadline, MAX_DEADLINE)
        self._started_at = time.monotonic()
        self._deadline_at = self._started_at + deadline
        self._limit = max(MIN_ATTEMPT, deadline / ATTEMPTS_IN_DEADLINE)
        self._fails_fast = False
        self._sent = 0
        self._observed = shared.events("call_started", method.name, len(items))

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self._deadline_at - time.monotonic()

    @property
    def headers(self) -> Sequence[tuple[str, str]] | None:
        """The headers of its requests."""
        return (self._shared.events("headers", self._observed) or None) if self._shared.events else None

    @property
    def is_outside(self) -> bool:
        """Whether an item is outside of all known uids, so that the routes must be fetched again."""
        return any(item.uid is not None and self._shared.routes.route(item.uid) is None for item in self._items)

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
        sets = {set_id for set_id, _ in groups}
        self._fails_fast = len(sets) > 1
        for set_id, _ in groups:
            if known := self._shared.routes.sets.get(set_id):
                known.budget.earn()
        return [Step(group) for group in groups.values()]

    def stream_attempt(self) -> Attempt | None:
        """The first attempt of a call for numbers of one uid, in the stream to the owner; None if the call has none.

        If it is None the call begins with `start`.
        """
        uid = self._items[0].uid
        if len(self._items) != 1 or uid is None or not isinstance(self._method, Next) or self.remaining <= 0:
            return None
        route = self._shared.routes.route(uid)
        known = self._shared.routes.sets.get(route.set_id) if route else None
        addr = known.nodes.get(route.owner) if known and route else None
        if addr is None or route is None or known is None or addr in self._shared.suspects:
            return None
        known.budget.earn()
        attempt = self._request(known, addr, Group([]), [0], [route], self.remaining)
        attempt.is_streamed = True
        return attempt

    def attempts(self, group: Group) -> list[Attempt]:
        """The requests to send for a group now: the next part of its items, one for each set that they are in by now."""
        timeout = self.remaining
        if timeout <= 0:
            self._deadline_exceeded(group, group.items)
            return []
        size = self._part(group.items)
        part, group.items = group.items[:size], group.items[size:]
        routes = [self._route(index) for index in part]
        by_set: dict[int, list[int]] = {}
        for position, route in enumerate(routes):
            by_set.setdefault(route.set_id, []).append(position)
        attempts: list[Attempt] = []
        for positions in by_set.values():
            # The items that are not in this part stay with the first set.
            each = Group([], group.made, group.excluded) if attempts else group
            of_set = [routes[position] for position in positions]
            target, addr = self._target(of_set[0], each)
            attempts.append(self._request(target, addr, each, [part[position] for position in positions], of_set, timeout))
        return attempts

    def _request(
        self, target: KnownSet, addr: str, group: Group, items: list[int], routes: list[Route], timeout: float
    ) -> Attempt:
        uids = self._uids(items)
        counts = [self._items[index].count for index in items]
        epochs = [route.epoch for route in routes]
        method, request = self._method.request(uids, counts, self._shared.routes.known_version(target), epochs)
        known = self._shared.routes.sets.get(routes[0].set_id, target)
        is_limited = self._limit < timeout and self._has_other(target, addr)
        timeout = self._limit if is_limited else timeout
        self._sent += 1
        return Attempt(addr, target, known, method, request, timeout, is_limited, items, epochs, group)

    def _part(self, items: Sequence[int]) -> int:
        """The number of the first items that go in one request."""
        return MAX_ITEMS

    def _uids(self, items: Sequence[int]) -> list[int]:
        """The uids of items, for the request."""
        return [self._items[index].uid or 0 for index in items]

    def _has_other(self, target: KnownSet, addr: str) -> bool:
        """Whether another node of a set can serve, as far as is known."""
        return any(other != addr and other not in self._shared.suspects for other in target.nodes.values())

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
        routes, decoder = self._method.decode(response)
        if routes is not None:
            self._adopt(routes, attempt.addr)
        try:
            results = list(decoder(attempt.addr, [self._items[index] for index in attempt.items]))
            if len(results) != len(attempt.items):
                raise BadAnswer(attempt.addr, "lists of other lengths than the request's")
        except BadAnswer as error:
            return self._invalid(attempt, error)
        return self._on_results(attempt, results)

    def _on_results(self, attempt: Attempt, results: Sequence[Result | pb.ItemError]) -> list[Step]:
        """Handles the results of an attempt's items."""
        group = attempt.group
        group.made += 1
        self._shared.responded(attempt.connection)
        moved: list[int] = []
        retries: list[tuple[int, SeqError]] = []
        first_reason = "OK"
        for index, epoch, result in zip(attempt.items, attempt.epochs, results, strict=True):
            if not isinstance(result, pb.ItemError):
                self.results[index] = result
                continue
            failure = Failure.of_item(result)
            first_reason = failure.reason if first_reason == "OK" else first_reason
            self._items[index].lost += failure.is_outcome_unknown
            self._claim(index, failure)
            if self._is_moved(index, epoch, failure):
                moved.append(index)
            else:
                retries.append((index, self._refused(index, attempt, failure)))
        self._attempt_ended(attempt, first_reason)
        return self._follow(group, moved) + self._retry(attempt, retries)

    def on_stream(self, attempt: Attempt, outcome: Outcome) -> list[Step]:
        """Handles the outcome of an attempt in a stream. Raises ClientClosed."""
        item = self._items[0]
        if isinstance(outcome, Granted | RefusedItem) and outcome.routes is not None:
            self._adopt(outcome.routes, attempt.addr)
        if isinstance(outcome, Granted):
            try:
                value, prev, epoch, lost, _ = outcome
                allocation: Any = _results.allocation(attempt.addr, value, prev, epoch, item.count, lost)
            except BadAnswer as error:
                return self._invalid(attempt, error)
            return self._on_results(attempt, [allocation])
        if isinstance(outcome, RefusedItem) and outcome.item.reason != "WOULD_WAIT":
            attempt.group.made += 1
            return self._on_refusal(attempt, Failure.of_item(outcome.item))
        if isinstance(outcome, Broken):
            failure = Failure("UNAVAILABLE", outcome.text) if outcome.error is None else Failure.of(outcome.error)
            attempt.group.made += 1
            if not outcome.sent or (not failure.reason and failure.code in STREAM_BREAKS):
                return self._broken(attempt, failure.reason, outcome.text, int(outcome.sent))
            return self._on_refusal(attempt, failure)
        if isinstance(outcome, TimedOut):
            attempt.group.made += outcome.sent
            return self._timed_out(attempt, int(outcome.sent))
        if isinstance(outcome, Invalid):
            return self._invalid(attempt, BadAnswer(attempt.addr, outcome.what))
        if outcome in (Other.CLOSED, Other.CLOSED_SENT):
            raise ClientClosed(may_have_applied=outcome is Other.CLOSED_SENT)
        # The item must wait, or the node implements no streams: it is sent alone, which is no retry.
        if isinstance(outcome, RefusedItem):
            self._attempt_ended(attempt, outcome.item.reason)
        return [Step(Group([0]))]

    def on_failure(self, attempt: Attempt, error: grpc.RpcError) -> list[Step]:
        """Handles the failure of a whole request; returns the steps that follow."""
        attempt.group.made += 1
        failure = Failure.of(error)
        if failure.is_timeout:
            return self._timed_out(attempt, 1)
        if failure.is_break:
            return self._broken(attempt, failure.reason, failure.message, 0 if failure.never_sent else 1)
        return self._on_refusal(attempt, failure)

    def _invalid(self, attempt: Attempt, error: BadAnswer) -> list[Step]:
        attempt.group.made += 1
        self._attempt_ended(attempt, error.reason)
        for index in attempt.items:
            self.results[index] = error
        return _rest(attempt.group)

    def _timed_out(self, attempt: Attempt, lost: int) -> list[Step]:
        """Handles an attempt without a response. It may have moved counters `lost` times."""
        group = attempt.group
        if attempt.is_limited and self.remaining > LEAST_ATTEMPT:
            return self._broken(attempt, "DEADLINE_EXCEEDED", f"no response within {attempt.timeout:.3g} s", lost)
        self._attempt_ended(attempt, "DEADLINE_EXCEEDED")
        self._count_lost(attempt.items, lost)
        self._deadline_exceeded(group, attempt.items + group.items)
        return []

    def _broken(self, attempt: Attempt, reason: str, text: str, lost: int) -> list[Step]:
        """Handles an attempt that failed in its connection: the next one goes to another node, at first at once."""
        group = attempt.group
        self._attempt_ended(attempt, reason or "UNREACHABLE")
        self._count_lost(attempt.items, lost)
        self._shared.broke(attempt.connection)
        first, group.excluded = group.excluded is None, attempt.addr
        return self._retry(attempt, [(index, self._unreachable(index, attempt, text)) for index in attempt.items], first)

    def _on_refusal(self, attempt: Attempt, failure: Failure) -> list[Step]:
        """Handles the refusal of a whole request."""
        group, items = attempt.group, attempt.items
        self._shared.responded(attempt.connection)
        self._attempt_ended(attempt, failure.reason or "REFUSED_BY_OTHERS")
        self._count_lost(items, failure.is_outcome_unknown)
        if len(items) == 1:
            self._claim(items[0], failure)
        moved = [self._is_moved(index, epoch, failure) for index, epoch in zip(items, attempt.epochs, strict=True)]
        if all(moved):
            return self._follow(group, items) + _rest(group)
        at_once = failure.reason == "SHUTTING_DOWN" and group.excluded is None
        if failure.reason == "SHUTTING_DOWN":
            group.excluded = attempt.addr
        return self._retry(attempt, [(index, self._refused(index, attempt, failure)) for index in items], at_once)

    def _claim(self, index: int, failure: Failure) -> None:
        """Merges the set and the epoch that the refusal of an item names, if its section moved."""
        uid = self._items[index].uid
        if failure.reason == "MOVED" and uid is not None and failure.set_id and failure.since is not None:
            self._shared.routes.claim(uid, failure.set_id, failure.since)

    def _is_moved(self, index: int, epoch: int, failure: Failure) -> bool:
        """Whether an item was refused because its section moved, and a newer route of it is known than `epoch`."""
        return failure.reason == "MOVED" and self._route(index).epoch > epoch

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
            # In a batch, items of a set that is down do not delay the others.
            if error.retryable and not (self._fails_fast and isinstance(error, SetUnavailable)):
                by_set.setdefault(self._set_of(index, error), []).append((index, error))
            else:
                self.results[index] = error
        for set_id, failed in by_set.items():
            hints = [error.retry_after or 0.0 for _, error in failed if isinstance(error, Refused)]
            wait = 0.0 if at_once else backoff(group.made, max(hints, default=None))
            known = self._shared.routes.sets.get(set_id, attempt.set)
            is_late = wait + LEAST_ATTEMPT >= self.remaining
            if is_late or not known.budget.spend():
                for index, error in failed:
                    self.results[index] = error
                if not is_late:
                    self._shared.events("budget_refused", self._observed, known.name)
                continue
            items = [index for index, _ in failed]
            excluded = None
            if set_id == attempt.set.id:
                items, group.items, excluded = items + group.items, [], group.excluded
            self._shared.events("retrying", self._observed, failed[0][1].reason, wait)
            steps.append(Step(Group(items, group.made, excluded), wait))
        return steps + _rest(group)

    def _set_of(self, index: int, error: SeqError) -> int:
        """The set that failed an item: the one that the refusal names, or that the item is in."""
        named = error.set_id if isinstance(error, SetUnavailable) else 0
        return named if named in self._shared.routes.sets else self._route(index).set_id

    def _adopt(self, routes: route_pb2.Routes, addr: str) -> None:
        try:
            self._shared.adopt(routes)
        except ConnectError as error:
            # The response itself is valid.
            logger.warning("routes in a response of %s were not adopted: %s", addr, error)

    def _count_lost(self, items: Iterable[int], lost: int) -> None:
        for index in items:
            self._items[index].lost += lost

    def _unreachable(self, index: int, attempt: Attempt, text: str) -> Unreachable:
        lost = self._items[index].lost > 0
        return Unreachable(attempt.addr, text, may_have_applied=lost, attempts=attempt.group.made)

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
                bound=failure.bound,
            )
        # An item of a batch may not name the set; the routes do, unless they are older than those of the server.
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

    def _attempt_ended(self, attempt: Attempt, reason: str) -> None:
        if self._shared.events:
            seconds = time.monotonic() - attempt.started_at
            event = AttemptEvent(attempt.method, attempt.addr, attempt.set.name, reason, seconds, attempt.is_streamed)
            self._shared.events("attempt_ended", self._observed, event)

    def ended(self, raised: BaseException | None = None) -> None:
        """Reports the end of the call, by its results or by what was raised in their place."""
        if not self._shared.events:
            return
        errors = [result for result in self.results if isinstance(result, SeqError)]
        reason = errors[0].reason if errors else "OK"
        if raised is not None:
            reason = raised.reason if isinstance(raised, SeqError) else "CANCELLED"
        failed = raised is not None or (errors and len(errors) == len(self.results))
        item = self._items[0] if self._items else None
        known = self._shared.routes.sets.get(self._route(0).set_id) if item else None
        event = CallEvent(
            self._method.name,
            "failed" if failed else "partial" if errors else "ok",
            reason,
            known.name if known else "",
            time.monotonic() - self._started_at,
            len(self._items),
            self._sent,
            sum(item.lost for item in self._items),
        )
        self._shared.events("call_ended", self._observed, event)

    @property
    def refused_handshake(self) -> Unreachable | None:
        """The error of an item whose connections failed in TLS; None if there is none."""
        failed = (result for result in self.results if isinstance(result, Unreachable))
        return next((error for error in failed if any(word in str(error) for word in TLS_WORDS)), None)

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
        self._home = home
        self._once = once
        self._begin(shared, [Item(None, _count(None, count))], deadline, method)
        if once:
            self._limit = deadline

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


class KeyCall(Call[Result]):
    """A call for keys of a keyspace: any node serves it, of the set `home`, or of another set while `home` is down.

    Its method gets the indexes of the items instead of uids.
    """

    def __init__(
        self,
        shared: Shared,
        home: int,
        keys: Sequence[bytes],
        counts: Sequence[int],
        deadline: float,
        method: Method[Result],
    ) -> None:
        """Starts the call. Raises CountOutOfRange, and TypeError for an invalid count."""
        self._home = home
        self._keys = keys
        items = [Item(None, _count(None, count)) for _, count in zip(keys, counts, strict=True)]
        self._begin(shared, items, deadline, method)

    def start(self) -> list[Step]:
        """See `Call`."""
        if not self._items:
            return []
        if known := self._shared.routes.sets.get(self._home):
            known.budget.earn()
        return [Step(Group(list(range(len(self._items)))))]

    def _part(self, items: Sequence[int]) -> int:
        size = 0
        for position, index in enumerate(items[:MAX_ITEMS]):
            size += len(self._keys[index])
            if size > MAX_KEYS_BYTES:
                return position
        return MAX_ITEMS

    def _uids(self, items: Sequence[int]) -> list[int]:
        return list(items)

    def _route(self, index: int) -> Route:
        return Route(0, VIRGIN, self._home, 0)


@contextlib.contextmanager
def reported(call: Call[Result]) -> Iterator[None]:
    """Reports the end of a call to the observer."""
    try:
        yield
    except BaseException as error:
        call.ended(error)
        raise
    call.ended()


def _rest(group: Group) -> list[Step]:
    """The step of the items that were not sent yet."""
    return [Step(group)] if group.items else []


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
