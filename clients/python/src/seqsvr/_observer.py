"""Events of a client, for metrics and traces."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("seqsvr")


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """The end of an attempt.

    method: the RPC, as `"Next"`; an attempt in a stream has that of its call.
    addr: the node's address.
    set: name of the set that the items are in; empty if the client does not know it.
    reason: `"OK"`, or the reason of the failure, of the first one for a batch.
    seconds: time since the request was sent.
    is_streamed: whether the request shared a message of a stream with others.
    """

    method: str
    addr: str
    set: str
    reason: str
    seconds: float
    is_streamed: bool


@dataclass(frozen=True, slots=True)
class CallEvent:
    """The end of a call.

    method: the RPC, as `"Next"`.
    outcome: `"ok"`, `"failed"`, or `"partial"` for a batch of which some items failed.
    reason: `"OK"`, or the reason of the failure, of the first one for a batch.
    set: name of the set that the first item is in; empty if the client does not know it.
    seconds: time since the call began.
    items: number of items.
    attempts: number of requests that were sent.
    lost: attempts of all items without a response; each may have taken numbers.
    """

    method: str
    outcome: str
    reason: str
    set: str
    seconds: float
    items: int
    attempts: int
    lost: int


class Observer:
    """Receives the events of a client. Its methods do nothing; a subclass overrides those that it needs.

    They are called in the threads of the callers, or in the event loop, and must not block. What a method raises is logged and
    changes no call. No event has a uid.
    """

    def call_started(self, method: str, items: int) -> Any:
        """Begins a call. Its result is passed to the other events of the call, as `call`."""
        return None

    def headers(self, call: Any) -> Sequence[tuple[str, str]]:
        """The headers of the call's requests, such as `traceparent`. A request in a stream has none."""
        return ()

    def attempt_ended(self, call: Any, event: AttemptEvent) -> None:
        """An attempt has got a response, or failed."""

    def retrying(self, call: Any, reason: str, wait: float) -> None:
        """Items that failed for `reason` are sent again, after `wait` seconds."""

    def budget_refused(self, call: Any, set: str) -> None:
        """Items are not sent again because the retry budget of their set is exhausted."""

    def call_ended(self, call: Any, event: CallEvent) -> None:
        """A call has its results, or failed."""

    def routes_adopted(self, set: str, version: int) -> None:
        """Newer routes of a set were adopted."""

    def connection_opened(self, addr: str) -> None:
        """A node responded on a connection that was new or lost."""

    def connection_lost(self, addr: str) -> None:
        """A request failed because its connection did."""


class Events:
    """The observer of a client, if it has one. Logs what the observer raises."""

    def __init__(self, observer: Observer | None) -> None:
        """Passes events to an observer; without one they are dropped."""
        self._observer = observer

    def __bool__(self) -> bool:
        """Whether there is an observer."""
        return self._observer is not None

    def __call__(self, event: str, *args: Any) -> Any:
        """Calls the method of the observer that is named like the event."""
        if self._observer is None:
            return None
        try:
            return getattr(self._observer, event)(*args)
        except Exception:
            logger.exception("%s of %r failed", event, self._observer)
            return None
