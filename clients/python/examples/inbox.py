"""Inboxes of a messenger, in SQLite: `python examples/inbox.py 127.0.0.1:7100 7 42 1001`; docs/inbox.md explains each part.

The program sends a message to the members of a group, sends it again as after a lost response, and synchronises each
member.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from seqsvr import Client, SeqError

SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    id           INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    sender_key   TEXT NOT NULL,      -- drawn by the sender, and kept over its retries
    text         TEXT NOT NULL,
    UNIQUE (conversation, sender_key)
);
CREATE TABLE IF NOT EXISTS inbox (
    uid     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    prev    INTEGER NOT NULL,        -- the number of the entry before, 0 if it is not known
    message INTEGER NOT NULL REFERENCES message (id),
    written REAL NOT NULL,           -- time of the row, in seconds since 1970
    PRIMARY KEY (uid, seq)
);
CREATE INDEX IF NOT EXISTS entries_of_message ON inbox (message);
CREATE TABLE IF NOT EXISTS horizon (
    uid INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL             -- no entry is written at this number or below any more
);
"""

GRACE = 5.0
"""Seconds that a reader waits for an entry whose number is taken and whose row is not there."""


@dataclass(frozen=True)
class Entry:
    """An entry of an inbox."""

    seq: int
    conversation: str
    text: str


class Inbox:
    """The inboxes of all users. An object is for one thread; any number of processes may share the database."""

    def __init__(self, client: Client, path: str, grace: float = GRACE) -> None:
        """Opens the database, and creates its tables if there are none."""
        self.client, self.grace = client, grace
        self.db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.executescript(SCHEMA)

    def send(self, conversation: str, members: Sequence[int], sender_key: str, text: str) -> dict[int, int]:
        """Sends a message to all members, once, however often it is called. Returns each member's number of it.

        Raises a `SeqError` if a number could not be allocated; then no member has the message, and the call can be repeated.
        Raises a `ValueError` without members, because such a message would be in no inbox.
        """
        if not members:
            raise ValueError("a message needs at least one member")
        while True:
            if (sent := self._numbers(conversation, sender_key)) is not None:
                return sent
            numbers = self.client.next_many(members)
            rows: list[tuple[int, int, int]] = []
            for uid, number in zip(members, numbers, strict=True):
                if isinstance(number, SeqError):
                    raise number
                rows.append((uid, number.value, number.prev))
            if self._write(conversation, sender_key, text, rows):
                return {uid: seq for uid, seq, _ in rows}

    def _write(self, conversation: str, sender_key: str, text: str, rows: list[tuple[int, int, int]]) -> bool:
        """Writes a message and its entries. Returns False, without effect, if it was sent before or a number is too late."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            message = """INSERT INTO message (conversation, sender_key, text) VALUES (?, ?, ?)
                ON CONFLICT DO NOTHING RETURNING id"""
            inserted = self.db.execute(message, (conversation, sender_key, text)).fetchone()
            if inserted is None or any(seq <= self._horizon(uid) for uid, seq, _ in rows):
                self.db.execute("ROLLBACK")
                return False
            written = time.time()
            entries = [(uid, seq, prev, inserted[0], written) for uid, seq, prev in rows]
            self.db.executemany("INSERT INTO inbox (uid, seq, prev, message, written) VALUES (?, ?, ?, ?, ?)", entries)
            self.db.execute("COMMIT")
            return True
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def sync(self, uid: int, after: int, limit: int = 100) -> list[Entry]:
        """Returns the next entries of a user with numbers above `after`, in order: no entry is ever written between them."""
        # Read before the entries: all entries up to the horizon are there by then.
        closed = self._horizon(uid)
        query = """SELECT seq, prev, written, conversation, text FROM inbox JOIN message ON message.id = inbox.message
            WHERE uid = ? AND seq > ? ORDER BY seq LIMIT ?"""
        rows = self.db.execute(query, (uid, after, limit)).fetchall()
        entries: list[Entry] = []
        last = after
        for seq, prev, written, conversation, text in rows:
            no_number_between = seq - 1 <= max(last, closed) or (prev > 0 and prev == last)
            if not no_number_between:
                waited = time.time() - written
                if waited < self.grace or not self._close(uid, last, seq):
                    break
            entries.append(Entry(seq, conversation, text))
            last = seq
        return entries

    def _close(self, uid: int, last: int, seq: int) -> bool:
        """Closes a user's numbers below `seq`. Returns False, without effect, if there are entries after `last` by now."""
        self.db.execute("BEGIN IMMEDIATE")
        between = "SELECT count(*) FROM inbox WHERE uid = ? AND seq > ? AND seq < ?"
        empty: bool = self.db.execute(between, (uid, last, seq)).fetchone() == (0,)
        if empty:
            raised = "INSERT INTO horizon VALUES (?, ?) ON CONFLICT (uid) DO UPDATE SET seq = max(seq, excluded.seq)"
            self.db.execute(raised, (uid, seq - 1))
        self.db.execute("COMMIT")
        return empty

    def _horizon(self, uid: int) -> int:
        """Returns the number up to which a user's numbers are closed."""
        row = self.db.execute("SELECT seq FROM horizon WHERE uid = ?", (uid,)).fetchone()
        return 0 if row is None else int(row[0])

    def _numbers(self, conversation: str, sender_key: str) -> dict[int, int] | None:
        """Returns each member's number of a message that was sent already, or None."""
        query = """SELECT uid, seq FROM message JOIN inbox ON inbox.message = message.id
            WHERE conversation = ? AND sender_key = ?"""
        return dict(self.db.execute(query, (conversation, sender_key)).fetchall()) or None


def main() -> None:
    """Sends two messages, the second one twice, and prints the inbox of each member."""
    seed, *arguments = sys.argv[1:]
    members = [int(uid) for uid in arguments]
    with Client(seed) as client:
        inbox = Inbox(client, ":memory:", grace=0.0)
        first = inbox.send("holiday", members, "phone-1", "who is coming?")
        second = inbox.send("holiday", members, "phone-2", "I am")
        again = inbox.send("holiday", members, "phone-2", "I am")
        print("sent again, the numbers are the same:", again == second)
        for uid in members:
            # A device knows the last number that it has, and asks for what follows.
            entries = inbox.sync(uid, after=first[uid] - 1)
            print(f"inbox of {uid}:", ", ".join(f"{entry.seq} {entry.text!r}" for entry in entries))


if __name__ == "__main__":
    main()
