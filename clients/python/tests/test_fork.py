"""A process that forks: clients work in the parent and in its children, and no id is given out twice."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.conftest import Cluster

PROGRAM = """
import asyncio, json, os, sys, threading
from seqsvr import AfterFork, AsyncClient, Client

seeds, series = sys.argv[1].split(","), sys.argv[2]

def report(name, value):
    os.write(1, (json.dumps([name, value]) + "\\n").encode())

async def take_async():
    async with AsyncClient(*seeds) as client:
        return [(await client.next(2)).value]

def fork(name, run):
    child = os.fork()
    if child == 0:
        try:
            report(name, run())
        except BaseException as error:
            report(name, f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    report(name + " exit", status)

coalesce = sys.argv[3] == "stream"
client = Client(*seeds, coalesce=coalesce)
ids = client.series(series)
segments = ids.segments()

# Calls are in flight in other threads while the process forks.
stop = threading.Event()
taken = []
def take():
    while not stop.is_set():
        taken.append(client.next(1).value)
threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()

report("parent", [client.next(2).value for _ in range(3)])
report("parent ids", [segments.next() for _ in range(200)])
for number in range(2):
    fork(f"child {number}", lambda: [client.next(2).value for _ in range(3)])
fork("child ids", lambda: [segments.next() for _ in range(200)])
fork("child batch", lambda: [result.value for result in client.next_many([2, 2])])
fork("child id", lambda: [ids.next()])
fork("child with asyncio", lambda: asyncio.run(take_async()))
fork("child of a child", lambda: fork("grandchild", lambda: [client.next(2).value]))
report("parent", [client.next(2).value for _ in range(3)])
report("parent ids", [segments.next() for _ in range(200)])
stop.set()
for thread in threads:
    thread.join()
report("taken", taken)
client.close()

# Asyncio works in a child only if the parent has not used it.
report("parent", asyncio.run(take_async()))
def refused():
    try:
        return asyncio.run(take_async())
    except AfterFork as error:
        return {"reason": error.reason}
fork("refused", refused)
"""


# The reports of numbers of one uid, and of ids of one series.
NUMBERS = {"parent", "child 0", "child 1", "child batch", "child with asyncio", "grandchild"}
IDS = {"parent ids", "child ids", "child id"}


def run(cluster: Cluster, kind: str) -> tuple[list[list[object]], str]:
    """The reports of the program, and what it wrote to stderr."""
    name = f"fork-{kind}"
    cluster.run("series", "create", name, "--counter", "--yes")
    command = [sys.executable, "-c", PROGRAM, ",".join(cluster.allocs), name, kind]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_clients_work_before_and_after_a_fork(cluster: Cluster) -> None:
    for kind in ("stream", "unary"):
        reports, errors = run(cluster, kind)
        exits = {name: value for name, value in reports if str(name).endswith("exit")}
        assert set(exits.values()) == {0}, (exits, errors)
        assert not [value for _, value in reports if isinstance(value, str)], reports
        numbers = [number for name, value in reports if str(name) in NUMBERS for number in as_list(value)]
        assert len(set(numbers)) == len(numbers) == 3 * 4 + 2 + 3, reports
        ids = [id for name, value in reports if str(name) in IDS for id in as_list(value)]
        assert len(set(ids)) == len(ids) == 601, reports
        assert ["refused", {"reason": "AFTER_FORK"}] in reports
        (taken,) = [value for name, value in reports if name == "taken"]
        assert as_list(taken)
        assert len(set(as_list(taken))) == len(as_list(taken)), "each thread has numbers of its own"


def as_list(value: object) -> list[object]:
    assert isinstance(value, list), value
    return value
