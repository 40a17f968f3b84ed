"""Keyspaces: numbers of keys through any node of the cluster, with the attempts of every other call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from seqsvr import _methods
from seqsvr._errors import Refused, SeqError
from seqsvr._results import Allocation, Current
from seqsvr._series import refusal
from seqsvr.v1.series_pb2 import StoredSeries

if TYPE_CHECKING:
    from seqsvr._aio import AsyncClient
    from seqsvr._client import Client

MAX_KEY_BYTES = 512
"""The longest key, in bytes."""

Key = str | bytes
"""A key. A text and its UTF-8 are the same key."""

Result = TypeVar("Result", Allocation, Current, int)


class AnyKeyspace:
    """What the keyspaces of both clients have in common."""

    def __init__(self, home: int, name: str) -> None:
        """Made by `Client.keyspace`."""
        self._home = home
        self._name = name

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def _next(self, key: Key) -> tuple[list[bytes], _methods.NextKey]:
        raw = encoded(key)
        return [raw], _methods.NextKey(self._name, raw)

    def _next_many(self, keys: Sequence[Key], counts: Sequence[int] | None) -> tuple[_Batch, list[int], _methods.NextKeys]:
        batch = _Batch(keys)
        sent = batch.counts([1] * len(keys) if counts is None else counts)
        return batch, sent, _methods.NextKeys(self._name, batch.sent)

    def _current(self, key: Key) -> tuple[list[bytes], _methods.CurrentKey]:
        raw = encoded(key)
        return [raw], _methods.CurrentKey(self._name, raw)

    def _current_many(self, keys: Sequence[Key]) -> tuple[_Batch, _methods.CurrentKeys]:
        batch = _Batch(keys)
        return batch, _methods.CurrentKeys(self._name, batch.sent)

    def _advance(self, key: Key, to: int) -> tuple[list[bytes], _methods.AdvanceKey]:
        raw = encoded(key)
        return [raw], _methods.AdvanceKey(_methods.number(to), self._name, raw)


class Keyspace(AnyKeyspace):
    """A keyspace: counters of keys, which are str or bytes of 1 to 512 bytes.

    Any node serves a call. Failed attempts are repeated as those of `Client`; numbers of a lost response are a gap, never a
    duplicate.
    """

    def __init__(self, client: Client, home: int, name: str) -> None:
        """Made by `Client.keyspace`."""
        super().__init__(home, name)
        self._client = client

    def next(self, key: Key, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a key.

        Raises Refused with KEY_SIZE for a key of another size before anything is sent, TypeError for a key that is neither
        str nor bytes, and what `Client.next` raises.
        """
        return self.next_n(key, 1, deadline=deadline)

    def next_n(self, key: Key, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a key, 1 to 1,000,000; they are contiguous.

        Raises CountOutOfRange before anything is sent, and what `next` raises.
        """
        keys, method = self._next(key)
        return self._client._run_keys(self._home, keys, [count], deadline, method).one()

    def next_many(
        self, keys: Sequence[Key], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates one number for each key, or `counts[i]` for `keys[i]`.

        Each item succeeds or fails independently, as of `Client.next_many`: the list has an Allocation or a SeqError for each
        key, in order. A key that occurs twice gets numbers twice, in that order, unless its first item had to be retried. Any
        number of keys; more than 10,000, or more than 128 KiB of them, go in several requests, one after the other.

        A key of another size has Refused with KEY_SIZE in its place, and is not sent.

        Raises CountOutOfRange and TypeError before anything is sent; Unreachable, DeadlineExceeded or BadAnswer if no item got
        a response.
        """
        batch, sent, method = self._next_many(keys, counts)
        return batch.joined(self._client._run_keys(self._home, batch.sent, sent, deadline, method).many())

    def current(self, key: Key, *, deadline: float | None = None) -> Current:
        """Reads the last number of a key, or an upper bound of it. Moves nothing. Raises what `next` raises."""
        keys, method = self._current(key)
        return self._client._run_keys(self._home, keys, [1], deadline, method).one()

    def current_many(self, keys: Sequence[Key], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each key, in requests as those of `next_many`. Moves nothing."""
        batch, method = self._current_many(keys)
        return batch.joined(self._client._run_keys(self._home, batch.sent, [1] * len(batch.sent), deadline, method).many())

    def advance(self, key: Key, to: int, *, deadline: float | None = None) -> int:
        """Raises a key to a number, 0 to 2**62, so that its next number is above it: for imports. Idempotent.

        Returns the epoch of the ownership. Raises Refused with ALREADY_PAST if the key is above the number or may be, and
        what `Client.advance` raises.
        """
        keys, method = self._advance(key, to)
        return self._client._run_keys(self._home, keys, [1], deadline, method).one()


class AsyncKeyspace(AnyKeyspace):
    """A keyspace for asyncio; see `Keyspace`."""

    def __init__(self, client: AsyncClient, home: int, name: str) -> None:
        """Made by `AsyncClient.keyspace`."""
        super().__init__(home, name)
        self._client = client

    async def next(self, key: Key, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a key; see `Keyspace.next`."""
        return await self.next_n(key, 1, deadline=deadline)

    async def next_n(self, key: Key, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a key; see `Keyspace.next_n`."""
        keys, method = self._next(key)
        return (await self._client._run_keys(self._home, keys, [count], deadline, method)).one()

    async def next_many(
        self, keys: Sequence[Key], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates numbers for many keys; see `Keyspace.next_many`."""
        batch, sent, method = self._next_many(keys, counts)
        return batch.joined((await self._client._run_keys(self._home, batch.sent, sent, deadline, method)).many())

    async def current(self, key: Key, *, deadline: float | None = None) -> Current:
        """Reads the last number of a key; see `Keyspace.current`."""
        keys, method = self._current(key)
        return (await self._client._run_keys(self._home, keys, [1], deadline, method)).one()

    async def current_many(self, keys: Sequence[Key], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each key; see `Keyspace.current_many`."""
        batch, method = self._current_many(keys)
        call = await self._client._run_keys(self._home, batch.sent, [1] * len(batch.sent), deadline, method)
        return batch.joined(call.many())

    async def advance(self, key: Key, to: int, *, deadline: float | None = None) -> int:
        """Raises a key to a number, so that its next number is above it; see `Keyspace.advance`."""
        keys, method = self._advance(key, to)
        return (await self._client._run_keys(self._home, keys, [1], deadline, method)).one()


def home(name: str, found: tuple[int, StoredSeries] | None) -> int:
    """The home of a keyspace in the routes. Raises Refused for an unknown keyspace, and for the name of a series."""
    if found is None or not found[1].lanes.HasField("keys"):
        text = f"no keyspace is named {name!r}: `seqsvr keyspace list` lists them"
        raise refusal("UNKNOWN_KEYSPACE", "NOT_FOUND", text)
    return found[0]


def encoded(key: Key) -> bytes:
    """The bytes of a key. Raises Refused with KEY_SIZE, and TypeError for a key that is neither str nor bytes."""
    if isinstance(key, str):
        raw = key.encode()
    elif isinstance(key, bytes):
        raw = key
    else:
        raise TypeError(f"a key is a str or bytes, not {type(key).__name__}")
    if not 1 <= len(raw) <= MAX_KEY_BYTES:
        text = f"the key has {len(raw)} bytes: a key has 1 to {MAX_KEY_BYTES}"
        raise refusal("KEY_SIZE", "INVALID_ARGUMENT", text)
    return raw


class _Batch:
    """The keys of a batch. A key of another size is not sent, and has its refusal in its place."""

    def __init__(self, keys: Sequence[Key]) -> None:
        """Raises TypeError for a key that is neither str nor bytes, and for a single key."""
        if isinstance(keys, str | bytes):
            # Both are sequences: of letters, and of ints.
            raise TypeError(f"keys are a sequence of str or bytes, not one {type(keys).__name__}")
        self.sent: list[bytes] = []
        self._refused: list[SeqError | None] = []
        for key in keys:
            try:
                self.sent.append(encoded(key))
                self._refused.append(None)
            except Refused as refused:
                self._refused.append(refused)

    def counts(self, counts: Sequence[int]) -> list[int]:
        """The counts of the keys that are sent. Raises ValueError if there are more or fewer counts than keys."""
        return [count for count, refused in zip(counts, self._refused, strict=True) if refused is None]

    def joined(self, results: list[Result | SeqError]) -> list[Result | SeqError]:
        """The results of all keys, from those of the keys that were sent."""
        sent = iter(results)
        return [next(sent) if refused is None else refused for refused in self._refused]
