"""The inboxes of examples/inbox.py: their rules, and no message lost or doubled while an owner is killed."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from examples.inbox import Entry, Inbox
from seqsvr import Client, ConnectError, SeqError
from tests.conftest import BINARY, ROOT, Cluster

UIDS = count(750_000)
"""Uids that no other test uses."""


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.allocs[0]) as client:
        yield client


def texts(entries: Sequence[Entry]) -> list[str]:
    return [entry.text for entry in entries]


def test_a_message_is_sent_once_however_often_it_is_repeated(client: Client, tmp_path: Path) -> None:
    inbox, members = Inbox(client, str(tmp_path / "db"), grace=0.0), [next(UIDS), next(UIDS)]
    sent = inbox.send("c", members, "key", "hello")
    assert inbox.send("c", members, "key", "hello") == sent
    inbox.send("c", members, "other key", "again")
    for uid in members:
        assert texts(inbox.sync(uid, 0)) == ["hello", "again"]
        assert texts(inbox.sync(uid, sent[uid])) == ["again"]


def test_a_message_without_members_is_refused(client: Client, tmp_path: Path) -> None:
    inbox = Inbox(client, str(tmp_path / "db"))
    with pytest.raises(ValueError, match="at least one member"):
        inbox.send("c", [], "key", "hello")


class Paused(Inbox):
    """Inbox whose sender runs `meanwhile` once, between its numbers and its rows."""

    meanwhile: Callable[[], None] | None = None

    def _write(self, conversation: str, sender_key: str, text: str, rows: list[tuple[int, int, int]]) -> bool:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super()._write(conversation, sender_key, text, rows)


def test_a_reader_waits_for_an_entry_that_is_late(client: Client, tmp_path: Path) -> None:
    path, uid = str(tmp_path / "db"), next(UIDS)
    late, prompt = Paused(client, path), Inbox(client, path, grace=3600)
    prompt.send("c", [uid], "1", "first")

    def meanwhile() -> None:
        prompt.send("c", [uid], "3", "third")
        assert texts(prompt.sync(uid, 0)) == ["first"], "the second one is on its way"

    late.meanwhile = meanwhile
    late.send("c", [uid], "2", "second")
    assert texts(prompt.sync(uid, 0)) == ["first", "second", "third"]


def test_a_sender_that_is_too_late_takes_another_number(client: Client, tmp_path: Path) -> None:
    path, uid = str(tmp_path / "db"), next(UIDS)
    late, hasty = Paused(client, path), Inbox(client, path, grace=0.0)
    first = hasty.send("c", [uid], "1", "first")[uid]
    seen: list[Entry] = []

    def meanwhile() -> None:
        hasty.send("c", [uid], "3", "third")
        seen.extend(hasty.sync(uid, 0))

    late.meanwhile = meanwhile
    second = late.send("c", [uid], "2", "second")[uid]
    assert texts(seen) == ["first", "third"]
    assert second > seen[-1].seq > first
    assert texts(hasty.sync(uid, seen[-1].seq)) == ["second"], "a device that had the third one gets it"


def test_an_entry_of_an_owner_that_does_not_know_the_number_before_is_no_first_one(client: Client, tmp_path: Path) -> None:
    path, uid = str(tmp_path / "db"), next(UIDS)
    inbox = Inbox(client, path, grace=3600)
    assert inbox._write("c", "1", "after a crash", [(uid, 10_001, 0)])
    assert inbox.sync(uid, 0) == []
    assert inbox._write("c", "2", "before it", [(uid, 1, 0)])
    assert texts(inbox.sync(uid, 0)) == ["before it"]
    inbox.grace = 0.0
    assert texts(inbox.sync(uid, 0)) == ["before it", "after a crash"]


def test_the_program_of_the_page_prints_what_the_page_says(cluster: Cluster) -> None:
    page = (ROOT / "docs" / "inbox.md").read_text()
    program = ROOT / "clients" / "python" / "examples" / "inbox.py"
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        assert block in program.read_text(), f"the page shows a part that the program does not have:\n{block}"
    for schema in re.findall(r"```sql\n(.*?)```", page, re.DOTALL):
        assert schema in program.read_text(), f"the page shows a table that the program does not have:\n{schema}"
    members = [str(next(UIDS)) for _ in range(3)]
    command = [sys.executable, str(program), cluster.allocs[0], *members]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    shown = re.search(r"inbox\.py \S+ 7 42 1001\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    expected = shown[1]
    for uid, member in zip(["7", "42", "1001"], members, strict=True):
        expected = expected.replace(f"inbox of {uid}:", f"inbox of {member}:")
    assert output == expected


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[list[str], list[subprocess.Popen[bytes]]]]:
    """The addresses of two AllocSvrs, each a process of its own beside a StoreSvr, and their processes."""
    host = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(2, 255)}"
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.create_server((host, 0))) for _ in range(8)]
        addrs = [f"{host}:{each.getsockname()[1]}" for each in sockets]
    file = tmp_path / "set.toml"
    file.write_text(
        f"""name = "inbox"
plaintext = true
uids = "0..100"
section_size = 10
step = 100
store = [{{ id = 1, name = "s1", addr = "{addrs[0]}", raft = "{addrs[1]}", http = "{addrs[2]}" }}]
alloc = [
  {{ name = "a1", addr = "{addrs[3]}", peer = "{addrs[4]}" }},
  {{ name = "a2", addr = "{addrs[5]}", peer = "{addrs[6]}" }},
]
"""
    )
    store = ["store", "--id", "1", "--form", "--data", str(tmp_path / "s1")]
    commands = [store, ["alloc", "--name", "a1", "--cores", "1"], ["alloc", "--name", "a2", "--cores", "1"]]
    with ExitStack() as running:
        started = []
        for command in commands:
            process = subprocess.Popen([BINARY, *command, "--set", str(file)], stderr=subprocess.DEVNULL)
            running.enter_context(process)
            running.callback(process.kill)
            started.append(process)
        yield [addrs[3], addrs[5]], started[1:]


def connect(addr: str) -> Client:
    """Connects once the servers serve all uids."""
    until = time.monotonic() + 60
    while True:
        try:
            client = Client(addr, deadline=10)
            client.current_many(range(100))
            if not any(isinstance(result, SeqError) for result in client.current_many(range(100))):
                return client
            client.close()
        except ConnectError:
            if time.monotonic() > until:
                raise


def test_no_message_is_lost_or_doubled_while_an_owner_is_killed(
    processes: tuple[list[str], list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    (addrs, allocs), path = processes, str(tmp_path / "db")
    members, senders, messages, kill_after = list(range(0, 100, 9)), 4, 60, 20
    with connect(addrs[1]) as client:
        Inbox(client, path)
        half, failures = threading.Barrier(senders + 1), []

        def send(sender: int) -> None:
            try:
                inbox = Inbox(client, path, grace=1.0)
                for message in range(messages):
                    if message == kill_after:
                        half.wait(60)
                    to = random.Random(sender * messages + message).sample(members, 4)
                    while True:
                        try:
                            inbox.send("c", to, f"{sender} {message}", f"{sender} {message}")
                            break
                        except SeqError as error:
                            if not error.retryable:
                                raise
            except BaseException as error:
                failures.append(error)
                half.abort()

        received: dict[int, list[Entry]] = {uid: [] for uid in members}

        def receive() -> None:
            for uid, entries in received.items():
                entries += inbox.sync(uid, entries[-1].seq if entries else 0)

        inbox = Inbox(client, path, grace=0.5)
        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
        for thread in threads:
            thread.start()
        half.wait(60)
        allocs[0].kill()
        for thread in threads:
            while thread.is_alive():
                receive()
                thread.join(0.02)
        assert not failures, failures
        expected: dict[int, list[str]] = {uid: [] for uid in members}
        for sender in range(senders):
            for message in range(messages):
                for uid in random.Random(sender * messages + message).sample(members, 4):
                    expected[uid].append(f"{sender} {message}")
        until = time.monotonic() + 60
        while sum(map(len, received.values())) < sum(map(len, expected.values())) and time.monotonic() < until:
            receive()
        for uid, entries in received.items():
            assert sorted(texts(entries)) == sorted(expected[uid]), f"uid {uid}"
            assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries}), f"uid {uid}"
            for sender in range(senders):
                of_sender = [int(text.split()[1]) for text in texts(entries) if text.startswith(f"{sender} ")]
                assert of_sender == sorted(of_sender), f"uid {uid}: messages of sender {sender} out of order"
