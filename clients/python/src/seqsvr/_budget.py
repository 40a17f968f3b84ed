"""How often and how soon a call is repeated: a budget for all calls of a client, and a jittered wait for each."""

from __future__ import annotations

import random
import threading
import time

RETRY_RATIO = 0.2
"""What one call earns, in retries. When a set fails everybody wants to repeat, and the repeats would keep it down."""

RETRIES_PER_SECOND = 10.0
"""What a second earns: a quiet client rides out a change of owner."""

MAX_SAVED_RETRIES = 1_000.0
"""Most retries that can be saved up, and what a new client starts with: the callers of one busy process, once each."""

FIRST_BACKOFF = 0.010
"""The first wait, in seconds: longer than a node needs to adopt a route it was just sent."""

MAX_BACKOFF = 0.5
"""The longest wait that no server asked for: short against a change of owner."""

SUSPECT_FOR = 1.0
"""How long a node that could not be reached is not the first to be asked, in seconds."""


class Budget:
    """What a client may still spend on retries, and whom it could not reach lately. For all threads."""

    def __init__(self) -> None:
        """Is full."""
        self._lock = threading.Lock()
        self._saved = MAX_SAVED_RETRIES
        self._looked_at = time.monotonic()
        self._suspects: dict[str, float] = {}

    def earn(self) -> None:
        """Notes a call that is sent for the first time."""
        with self._lock:
            self._saved = min(self._saved + RETRY_RATIO, MAX_SAVED_RETRIES)

    def spend(self) -> bool:
        """Takes one retry; answers whether there was one."""
        with self._lock:
            now = time.monotonic()
            earned = (now - self._looked_at) * RETRIES_PER_SECOND
            self._saved = min(self._saved + earned, MAX_SAVED_RETRIES)
            self._looked_at = now
            if self._saved < 1:
                return False
            self._saved -= 1
            return True

    def suspect(self, addr: str) -> None:
        """Notes that an address could not be reached just now."""
        with self._lock:
            self._suspects[addr] = time.monotonic() + SUSPECT_FOR

    def is_suspect(self, addr: str) -> bool:
        """Whether an address could not be reached lately."""
        if not self._suspects:
            return False
        with self._lock:
            until = self._suspects.get(addr, 0.0)
            if until <= time.monotonic():
                self._suspects.pop(addr, None)
                return False
            return True


def backoff(made: int, at_least: float | None) -> float:
    """How long to wait after `made` attempts: doubled and shortened by up to half, or as asked for and up to half longer."""
    jitter = random.random()
    own = min(FIRST_BACKOFF * (1 << min(made - 1, 16)), MAX_BACKOFF) * (1 - jitter / 2)
    return own if at_least is None else max(own, at_least * (1 + jitter / 2))
