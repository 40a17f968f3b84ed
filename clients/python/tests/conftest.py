"""Servers for the tests: a real cluster for all of them, and a double for each that asks for one.

The binary is `$SEQSVR`, or the one that cargo has built in target/debug.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from seqsvr import AsyncClient, Client
from seqsvr.testing import DevServer

pytest_plugins = ["seqsvr.testing"]

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.setdefault("SEQSVR", str(ROOT / "target" / "debug" / "seqsvr"))

Cluster = DevServer


class UnaryClient(Client):
    """Sends each call alone, for tests of what follows from a single request. Streams have tests of their own."""

    def __init__(self, *seeds: str | list[str], deadline: float = 5.0) -> None:
        """Takes the settings that those tests need."""
        super().__init__(*seeds, deadline=deadline, coalesce=False)


class UnaryAsyncClient(AsyncClient):
    """Sends each call alone, as `UnaryClient`."""

    def __init__(self, *seeds: str | list[str], deadline: float = 5.0) -> None:
        """Takes the settings that those tests need."""
        super().__init__(*seeds, deadline=deadline, coalesce=False)


@pytest.fixture(scope="session")
def cluster(seqsvr_dev: DevServer) -> DevServer:
    return seqsvr_dev


def forwarded(cluster: Cluster) -> int:
    """Number of requests that the allocators forwarded to each other."""
    status = json.loads(cluster.run("status", "-o", "json"))
    return sum(int(alloc["forwarded"]) for alloc in status["allocs"])


def seqsvr(*args: str) -> str:
    """Runs a command of the program. Returns its output."""
    done = subprocess.run([BINARY, *args], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, f"{' '.join(args)}: {done.stderr}"
    return done.stdout
