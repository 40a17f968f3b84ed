"""What programs that use `seqsvr` get for their tests."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from seqsvr import Allocation, AsyncClient, Client, Current, Refused, Unreachable
from seqsvr.testing import DevServer, FakeCluster, FakeServer
from tests.conftest import BINARY, ROOT

pytest_plugins = ["pytester"]


def test_a_double_does_what_a_cluster_does(seqsvr_fake: FakeCluster) -> None:
    with Client(seqsvr_fake.seed) as client:
        assert [client.next(1).value for _ in range(3)] == [1, 2, 3]
        assert client.next_n(2, 5).numbers == range(1, 6)
        assert client.current(1).value == 3
        assert client.advance(1, 1_000) == 1
        assert client.next(1).value == 1_001
        with pytest.raises(Refused) as past:
            client.advance(1, 7)
        assert past.value.reason == "ALREADY_PAST"
        assert [each.value for each in client.next_many([1, 2, 1]) if isinstance(each, Allocation)] == [1_002, 6, 1_003]
        assert [each.value for each in client.current_many([1, 2]) if isinstance(each, Current)] == [1_003, 6]
        (one,) = seqsvr_fake.sets
        one.refuse("UNSERVED", times=2)
        assert client.next(1).value == 1_004
        one.stop()
        with pytest.raises(Unreachable):
            client.next(1, deadline=0.2)


async def test_a_double_serves_asyncio(seqsvr_fake: FakeCluster) -> None:
    async with AsyncClient(seqsvr_fake.seed) as client:
        assert (await client.next(1)).value == 1
        assert await client.advance(1, 10) == 1
        assert (await client.next(1)).value == 11


def test_a_fake_server_has_faults_on_request() -> None:
    with FakeServer(BINARY, args=("--uids", "4000", "--section-size", "1000")) as fake, Client(fake.seed) as client:
        assert client.next(42).value == 1
        fake.inject("refuse", reason="UNSERVED", times=2)
        assert client.next(42).value == 2
        fake.inject("cut", node="a1", times=1)
        lost = client.next(42)
        assert lost.value == 4
        assert lost.lost >= 1
        fake.inject("take_over", uid=42, to="a2")
        taken = client.next(42)
        assert (taken.value, taken.prev, taken.epoch) == (10_005, 0, 2)
        assert client.series("orders").next() == 1
        with pytest.raises(ValueError, match="the nodes are a1, a2"):
            fake.inject("stop", node="a3")
        fake.inject("kill", node="a1")
        fake.inject("kill", node="a2")
        with pytest.raises(Unreachable):
            client.next(42, deadline=0.2)


def test_the_fixtures_are_there_for_programs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQSVR", BINARY)
    pytester.makeconftest('pytest_plugins = ["seqsvr.testing"]')
    pytester.makepyfile(
        """
        from seqsvr import Client

        def test_real(seqsvr_dev):
            with Client(seqsvr_dev.seed) as client:
                assert client.next(42).value == 1
                assert client.series("orders").next() >= 1

        def test_same(seqsvr_dev):
            with Client(seqsvr_dev.seed) as client:
                assert client.next(42).value == 2

        def test_double(seqsvr_fake):
            with Client(seqsvr_fake.seed) as client:
                assert client.next(42).value == 1

        def test_in_memory(seqsvr_fake_server):
            with Client(seqsvr_fake_server.seed) as client:
                assert client.next(42).value == 1
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=4)


def test_the_files_of_the_page_are_tests_that_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQSVR", BINARY)
    page = (ROOT / "docs" / "testing.md").read_text()
    files: dict[str, str] = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL))
    assert sorted(files) == ["conftest.py", "test_chat.py"]
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQSVR", "/nowhere/seqsvr")
    with pytest.raises(FileNotFoundError, match=r"no seqsvr at '/nowhere/seqsvr': name .* in \$SEQSVR"), DevServer():
        pass


def test_a_server_that_does_not_become_ready_shows_its_message(tmp_path: Path) -> None:
    broken = tmp_path / "seqsvr"
    broken.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 3\n")
    os.chmod(broken, stat.S_IRWXU)
    with pytest.raises(RuntimeError, match="has not become ready: no space left"), DevServer(str(broken)):
        pass
    with pytest.raises(RuntimeError, match="fake -o json` has not become ready: see stderr"), FakeServer(str(broken)):
        pass
