"""The requests of one call of the client for threads."""

from __future__ import annotations

import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any

from seqsvr._shared import Attempt, Group, Step


class Requests:
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
