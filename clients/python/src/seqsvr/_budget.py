"""Retries: a budget for all calls to a set, a jittered backoff for each call, and the nodes that could not be reached."""

from __future__ import annotations

import random
import threading
import time

RETRY_RATIO = 0.2
"""Retries that one call earns. When a set fails every caller retries, and without a bound the retries keep it down."""

RETRIES_PER_SECOND = 10.0
"""Retries that a second earns: an idle client rides out a change of owner."""

MAX_SAVED_RETRIES = 1_000.0
"""Most retries that can be saved up, and the balance of a new client: one for each caller of a busy process."""

FIRST_BACKOFF = 0.010
"""The first backoff, in seconds: longer than a node needs to adopt a route it was just sent."""

MAX_BACKOFF = 0.5
"""The longest backoff unless a server requests a longer one, in seconds: short against a change of owner."""

SUSPECT_FOR = 1.0
"""How long a node stays suspect after a failure, in seconds: requests go to other nodes first."""


class Budget:
    """The retries that a client may still make to one set: a set that is down spends its own only. Thread-safe."""

    def __init__(self) -> None:
        """Starts full."""
        self._lock = threading.Lock()
        self._saved = MAX_SAVED_RETRIES
        self._updated_at = time.monotonic()

    def earn(self) -> None:
        """Counts a call, on its first attempt."""
        with self._lock:
            self._saved = min(self._saved + RETRY_RATIO, MAX_SAVED_RETRIES)

    def spend(self) -> bool:
        """Takes one retry; False if the budget is exhausted."""
        with self._lock:
            now = time.monotonic()
            earned = (now - self._updated_at) * RETRIES_PER_SECOND
            self._saved = min(self._saved + earned, MAX_SAVED_RETRIES)
            self._updated_at = now
            if self._saved < 1:
                return False
            self._saved -= 1
            return True


class Suspects:
    """The nodes that could not be reached in the last SUSPECT_FOR seconds, by address. Thread-safe."""

    def __init__(self) -> None:
        """Starts empty."""
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def add(self, addr: str) -> None:
        """Marks an address suspect: it could not be reached just now."""
        now = time.monotonic()
        with self._lock:
            self._until = {each: until for each, until in self._until.items() if until > now}
            self._until[addr] = now + SUSPECT_FOR

    def __contains__(self, addr: str) -> bool:
        """Whether an address could not be reached recently."""
        return self._until.get(addr, 0.0) > time.monotonic()


def backoff(made: int, at_least: float | None) -> float:
    """The backoff after `made` attempts: doubled and up to half shorter, or as requested and up to half longer."""
    jitter = random.random()
    own = min(FIRST_BACKOFF * (1 << min(made - 1, 16)), MAX_BACKOFF) * (1 - jitter / 2)
    return own if at_least is None else max(own, at_least * (1 + jitter / 2))
