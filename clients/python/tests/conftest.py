"""A real cluster for the tests: `seqsvr dev`, three stores and two allocators in one process on random ports.

The binary is `$SEQSVR`, or the one that cargo has built in target/debug.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("SEQSVR", str(ROOT / "target" / "debug" / "seqsvr"))


@dataclass
class Cluster:
    """A running cluster, and its allocators' addresses."""

    allocs: list[str]
    stores: list[str]
    http: str
    section_size: int
    uid_end: int

    def forwarded(self) -> int:
        """Number of requests that the allocators forwarded to each other."""
        command = [BINARY, "status", "-o", "json", "--addr", self.allocs[0]]
        status = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
        return sum(int(alloc["forwarded"]) for alloc in status["allocs"])


def seqsvr(*args: str) -> None:
    """Runs a command of the program."""
    subprocess.run([BINARY, *args], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if not Path(BINARY).exists():
        pytest.fail(f"no binary at {BINARY}: `cargo build`, or name one in $SEQSVR")
    command = [BINARY, "dev", "--ports", "random", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            allocs, stores = ([node["grpc"] for node in ready[role]] for role in ("allocs", "stores"))
            yield Cluster(allocs, stores, ready["http"], ready["section_size"], int(ready["uid_end"]))
        finally:
            process.terminate()
            process.wait(timeout=60)
