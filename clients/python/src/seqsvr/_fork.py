"""Processes that fork: clients go on in the parent, and start anew in the child.

grpcio works in a child only if no other thread of the parent was inside of it. So a fork waits for the calls of the clients
for threads, whose next calls wait for the fork, and for the end of their streams. The threads of the parent do not exist in the
child, and may hold locks; so the child discards connections and locks, and ids that were fetched ahead, which belong to the
parent.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from types import TracebackType
from typing import Any

TIMEOUT = 1.0
"""How long a fork waits for calls and streams, in seconds. Calls take milliseconds, unless a node hangs."""

logger = logging.getLogger("seqsvr")


class Forks:
    """An object that starts anew in a child."""

    def _before_fork(self, timeout: float) -> bool:
        """Leaves grpcio for a fork, within a timeout in seconds. Returns whether it has."""
        return True

    def _after_fork(self) -> None:
        """Starts anew, in the child."""
        raise NotImplementedError


class Gate:
    """Keeps calls and forks apart. A call is a `with` block, in which the thread makes no other one."""

    def __init__(self) -> None:
        """Starts open."""
        self.reset()

    def reset(self) -> None:
        """Forgets the calls of other threads."""
        self._changed = threading.Condition()
        self._calls = 0
        self._is_closed = False

    def __enter__(self) -> None:
        """Begins a call, after a fork that is in progress."""
        with self._changed:
            while self._is_closed:
                self._changed.wait()
            self._calls += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Ends a call."""
        with self._changed:
            self._calls -= 1
            if self._is_closed:
                self._changed.notify_all()

    def close(self, timeout: float) -> bool:
        """Lets no further call begin, and waits for those in flight. Returns whether they have ended."""
        with self._changed:
            self._is_closed = True
            return self._changed.wait_for(lambda: self._calls == 0, timeout)

    def open(self) -> None:
        """Lets calls begin."""
        with self._changed:
            self._is_closed = False
            self._changed.notify_all()


gate = Gate()
"""The gate of the calls of all clients for threads."""

_objects: dict[int, weakref.ref[Forks]] = {}

# What a child discards is kept as it is: its destructors would wait for threads of the parent.
_discarded: list[dict[str, Any]] = []


def register(target: Forks) -> None:
    """Starts an object anew in each child that this process forks."""
    key = id(target)
    _objects[key] = weakref.ref(target, lambda _: _objects.pop(key, None))


def discard(target: Forks) -> None:
    """Keeps the attributes of an object that starts anew."""
    _discarded.append(dict(vars(target)))


def _registered() -> list[Forks]:
    found = (reference() for reference in list(_objects.values()))
    return [target for target in found if target is not None]


def _before() -> None:
    until = time.monotonic() + TIMEOUT
    is_quiet = gate.close(TIMEOUT)
    for target in _registered():
        is_quiet = target._before_fork(max(until - time.monotonic(), 0.0)) and is_quiet
    if not is_quiet:
        logger.warning("the process forks while calls are in flight: in the child, grpcio may not work")


def _in_child() -> None:
    gate.reset()
    for target in _registered():
        target._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=gate.open, after_in_child=_in_child)
