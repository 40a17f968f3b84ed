"""Fixtures of pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqsvr.testing._dev import DevServer
from seqsvr.testing._fake import FakeCluster
from seqsvr.testing._fake_server import FakeServer


@pytest.fixture(scope="session")
def seqsvr_dev() -> Iterator[DevServer]:
    """A real cluster, `seqsvr dev`, for all tests of the session."""
    with DevServer() as server:
        yield server


@pytest.fixture
def seqsvr_fake() -> Iterator[FakeCluster]:
    """A double of a cluster in this process."""
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def seqsvr_fake_server() -> Iterator[FakeServer]:
    """A cluster in memory, `seqsvr fake`, new for each test."""
    with FakeServer() as server:
        yield server
