"""The driver of the conformance suite, through its pipes, against a real cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import seqsvr
from seqsvr.testing import FakeCluster
from tests.conftest import Cluster

DRIVER = Path(__file__).resolve().parent.parent / "conformance_driver.py"

UIDS = count(450_000)
"""Uids that no other test uses."""

Json = dict[str, Any]


class Driven:
    """A running driver. Responses may come in any order."""

    def __init__(self, *args: str) -> None:
        """Starts it, and reads its first line."""
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(DRIVER), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ids = count(1)
        self._early: dict[str, list[Json]] = {}
        self.hello = self._read()

    def _read(self) -> Json:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver has ended"
        return dict(json.loads(line))

    def send(self, op: str, **arguments: Any) -> str:
        """Sends a request. Returns its id."""
        number = str(next(self._ids))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "op": op, "client": "c", **arguments}) + "\n")
        self._process.stdin.flush()
        return number

    def lines(self, number: str) -> list[Json]:
        """The lines of a request, up to its response."""
        found = self._early.pop(number, [])
        while not (found and "call" not in found[-1]):
            line = self._read()
            (found if line["id"] == number else self._early.setdefault(line["id"], [])).append(line)
        return found

    def call(self, op: str, **arguments: Any) -> Json:
        """Sends a request, and waits for its response."""
        return self.lines(self.send(op, **arguments))[-1]

    def end(self) -> int:
        """Ends it by the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            # Writes the stacks of its threads.
            self._process.send_signal(signal.SIGABRT)
            raise


@pytest.fixture(params=["threads", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driven]:
    driven = Driven(*(["--asyncio"] if request.param == "asyncio" else []))
    yield driven
    assert driven.end() == 0


def test_each_operation_has_its_response(driver: Driven, cluster: Cluster) -> None:
    is_async = driver.hello["sdk"] == "python-asyncio"
    assert (driver.hello["hello"], driver.hello["version"]) == (1, seqsvr.__version__)
    assert driver.call("open", seeds=cluster.allocs, deadline_ms=10_000)["ok"] == {}
    a, b = next(UIDS), next(UIDS) + cluster.section_size
    first = driver.call("next", uid=str(a), count=3)["ok"]
    assert {key: first[key] for key in ("first", "value", "prev", "count", "lost")} == {
        "first": "1",
        "value": "3",
        "prev": "0",
        "count": 3,
        "lost": 0,
    }
    assert int(first["epoch"]) >= 1
    items = driver.call("next_many", uids=[str(a), str(cluster.uid_end), str(b)], counts=[1, 1, 2])["ok"]["items"]
    assert [each["ok"]["value"] if "ok" in each else each["error"]["kind"] for each in items] == ["4", "uid_outside", "2"]
    assert driver.call("current", uid=str(a))["ok"]["value"] == "4"
    reads = driver.call("current_many", uids=[str(a), str(b)])["ok"]["items"]
    assert [(each["ok"]["value"], each["ok"]["exact"]) for each in reads] == [("4", True), ("2", True)]
    assert int(driver.call("advance", uid=str(a), to="1000")["ok"]["epoch"]) >= 1
    assert driver.call("next", uid=str(a))["ok"]["value"] == "1001"
    past = driver.call("advance", uid=str(a), to="7")["error"]
    assert (past["kind"], past["reason"], past["code"], past["retryable"]) == (
        "refused",
        "ALREADY_PAST",
        "FAILED_PRECONDITION",
        False,
    )
    assert driver.call("next", uid=str(2**64 - 1))["error"]["kind"] == "uid_outside"
    assert driver.call("next", uid=str(a), count=0)["error"]["kind"] == "count"
    late = driver.call("next", uid=str(a), deadline_ms=0)["error"]
    assert (late["kind"], late["may_have_applied"]) == ("deadline", False)
    assert driver.call("reload")["ok"] == {}
    stats = driver.call("stats")["ok"]
    assert stats["calls"] >= 8
    assert (stats["pending"], stats["retries"], stats["budget_refused"]) == (0, 0, 0)
    assert stats["connections"] >= 1
    assert stats["route_adoptions"] >= 1
    assert stats["tasks" if is_async else "threads"] >= 1
    if not is_async:
        assert driver.call("fork", uid=str(a))["ok"]["value"] == "1002"
    assert driver.call("close", drain_ms=1_000)["ok"] == {}
    assert driver.call("next", uid=str(a))["error"]["kind"] == "closed"
    assert driver.call("close")["ok"] == {}
    unreachable = [driver.call("open", client="d", seeds=["127.0.0.1:1"], deadline_ms=1_000)]
    unreachable.append(driver.call("next", client="d", uid="1"))
    assert [(each["error"]["kind"], each["error"]["retryable"]) for each in unreachable] == [("connect", True)] * 2
    assert driver.call("next", client="none", uid="1")["error"]["kind"] == "closed"
    assert driver.call("rewind")["error"]["kind"] == "unsupported"


def test_a_burst_has_a_line_for_each_call(driver: Driven, cluster: Cluster) -> None:
    uids = [str(next(UIDS)) for _ in range(3)]
    driver.call("open", seeds=cluster.allocs, deadline_ms=10_000)
    *calls, response = driver.lines(driver.send("burst", uids=uids, calls=300, concurrency=32, seed=7))
    assert response["ok"] == {"done": 300, "failed": 0}
    assert len(calls) == 300
    taken: dict[str, list[tuple[int, int, int]]] = {}
    for call in (line["call"] for line in calls):
        assert "ok" in call, call
        taken.setdefault(call["uid"], []).append((int(call["ok"]["value"]), int(call["start_ns"]), int(call["end_ns"])))
    for of_uid in taken.values():
        of_uid.sort()
        assert [value for value, _, _ in of_uid] == list(range(1, len(of_uid) + 1))
        # In the order of real time: a call that began after another one had ended has the larger number.
        latest_start = 0
        for _, start, end in of_uid:
            assert latest_start <= end
            latest_start = max(latest_start, start)


def test_a_call_in_flight_is_cancelled_or_closed(driver: Driven, seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    driver.call("open", seeds=one.addrs, deadline_ms=60_000)
    assert driver.call("next", uid="1")["ok"]["value"] == "1"
    one.hold()
    number = driver.send("next", uid="1")
    if "cancel" in driver.hello["features"]:
        assert driver.call("cancel", target=number)["ok"] == {}
        assert driver.lines(number)[-1]["error"]["kind"] == "cancelled"
        number = driver.send("next", uid="1")
    assert driver.call("close", drain_ms=0)["ok"] == {}
    assert driver.lines(number)[-1]["error"]["kind"] == "closed"
    one.release()
