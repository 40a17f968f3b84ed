"""The RPCs of a call: how each encodes its items and decodes their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from google.protobuf.message import Message

from seqsvr import _results
from seqsvr._errors import BadAnswer
from seqsvr._ids import CurrentId, Ids
from seqsvr._results import Allocation, Current
from seqsvr.v1 import ids_pb2, keys_pb2, route_pb2
from seqsvr.v1 import sequence_pb2 as pb

Result_co = TypeVar("Result_co", Allocation, Current, Ids, CurrentId, int, covariant=True)


@dataclass
class Item:
    """A uid, the number of numbers to allocate, and the number of attempts that may have taken them without a response.

    A request for ids or keys has no uid.
    """

    uid: int | None
    count: int
    lost: int = 0


Decoder = Callable[[str, Sequence[Item]], Iterator[Result_co | pb.ItemError]]
"""Decodes the results of the items, in order; the address is the server's."""


class Method(Protocol[Result_co]):
    """An RPC: encodes its request and decodes its response."""

    @property
    def name(self) -> str:
        """The method that its first request calls."""
        ...

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """The method and the request."""
        ...

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Result_co]]:
        """The newer routes in a response, and the decoder of its results."""
        ...


class Next:
    """Allocates numbers of one uid."""

    name = "Next"

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "Next", pb.NextRequest(uid=uids[0], count=counts[0], route_version=version, epoch=epochs[0])

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Allocation]]:
        """See `Method`."""
        assert isinstance(response, pb.NextResponse)
        value, prev, epoch, lost = response.value, response.prev, response.epoch, response.lost

        def read(addr: str, items: Sequence[Item]) -> Iterator[Allocation]:
            yield _results.allocation(addr, value, prev, epoch, items[0].count, items[0].lost + lost)

        return _routes(response), read


class NextMany:
    """Allocates numbers of many uids."""

    name = "NextMany"

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        counts = [] if all(count == 1 for count in counts) else counts
        return "NextMany", pb.NextManyRequest(uids=uids, counts=counts, route_version=version, known_epochs=epochs)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Allocation]]:
        """See `Method`."""
        assert isinstance(response, pb.NextManyResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[Allocation | pb.ItemError]:
            errors = _errors(addr, response.errors, len(items))
            lost = dict(zip(response.lost.indexes, response.lost.attempts, strict=False))
            lists = zip(response.values, response.prevs, response.epochs, strict=False)
            for index, ((value, prev, epoch), item) in enumerate(zip(lists, items, strict=False)):
                if index in errors:
                    yield errors[index]
                else:
                    yield _results.allocation(addr, value, prev, epoch, item.count, item.lost + lost.get(index, 0))

        return _routes(response), read


class CurrentOne:
    """Reads the last number of one uid."""

    name = "Current"

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "Current", pb.CurrentRequest(uid=uids[0], route_version=version, epoch=epochs[0])

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Current]]:
        """See `Method`."""
        assert isinstance(response, pb.CurrentResponse)
        value, exactness, epoch = response.value, response.exactness, response.epoch

        def read(addr: str, items: Sequence[Item]) -> Iterator[Current]:
            yield _results.current(addr, value, exactness, epoch)

        return _routes(response), read


class CurrentMany:
    """Reads the last numbers of many uids."""

    name = "CurrentMany"

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "CurrentMany", pb.CurrentManyRequest(uids=uids, route_version=version, known_epochs=epochs)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Current]]:
        """See `Method`."""
        assert isinstance(response, pb.CurrentManyResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[Current | pb.ItemError]:
            errors = _errors(addr, response.errors, len(items))
            lists = zip(response.values, response.exactness, response.epochs, strict=False)
            for index, ((value, exactness, epoch), _) in enumerate(zip(lists, items, strict=False)):
                if index in errors:
                    yield errors[index]
                else:
                    yield _results.current(addr, value, exactness, epoch)

        return _routes(response), read


@dataclass
class Advance:
    """Raises one uid to a number; the result is the epoch of the ownership."""

    name: ClassVar[str] = "Advance"
    to: int

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "Advance", pb.AdvanceRequest(uid=uids[0], to=self.to, route_version=version, epoch=epochs[0])

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[int]]:
        """See `Method`."""
        assert isinstance(response, pb.AdvanceResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[int]:
            yield response.epoch

        return _routes(response), read


@dataclass
class NextIds:
    """Takes ids of a series."""

    name: ClassVar[str] = "NextIds"
    series: str
    count: int
    lane: int | None
    after: int

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        after = self.after or None
        return "NextIds", ids_pb2.NextIdsRequest(series=self.series, count=self.count, lane=self.lane, after=after)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Ids]]:
        """See `Method`."""
        assert isinstance(response, ids_pb2.NextIdsResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[Ids]:
            yield Ids.checked(addr, response, self.count, self.after)

        return None, read


@dataclass
class ReadId:
    """Reads the last id of a counter."""

    name: ClassVar[str] = "CurrentId"
    series: str

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "CurrentId", ids_pb2.CurrentIdRequest(series=self.series)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[CurrentId]]:
        """See `Method`."""
        assert isinstance(response, ids_pb2.CurrentIdResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[CurrentId]:
            yield CurrentId(response.id or None, response.exact, response.epoch)

        return None, read


@dataclass
class AdvanceId:
    """Raises a counter to an id; the result is the epoch of the ownership."""

    name: ClassVar[str] = "AdvanceId"
    series: str
    to: int

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "AdvanceId", ids_pb2.AdvanceIdRequest(series=self.series, to=self.to)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[int]]:
        """See `Method`."""
        assert isinstance(response, ids_pb2.AdvanceIdResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[int]:
            yield response.epoch

        return None, read


@dataclass
class NextKey(Next):
    """Allocates numbers of one key."""

    name = "NextKey"
    keyspace: str
    key: bytes

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        request = keys_pb2.NextKeyRequest(keyspace=self.keyspace, raw_key=self.key, count=counts[0], route_version=version)
        return self.name, request


@dataclass
class NextKeys(NextMany):
    """Allocates numbers of many keys; `request` gets their indexes."""

    name = "NextKeys"
    keyspace: str
    keys: Sequence[bytes]

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        counts = [] if all(count == 1 for count in counts) else counts
        keys = [self.keys[index] for index in uids]
        request = keys_pb2.NextKeysRequest(keyspace=self.keyspace, raw_keys=keys, counts=counts, route_version=version)
        return self.name, request


@dataclass
class CurrentKey(CurrentOne):
    """Reads the last number of one key."""

    name = "CurrentKey"
    keyspace: str
    key: bytes

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return self.name, keys_pb2.CurrentKeyRequest(keyspace=self.keyspace, raw_key=self.key, route_version=version)


@dataclass
class CurrentKeys(CurrentMany):
    """Reads the last numbers of many keys; `request` gets their indexes."""

    name = "CurrentKeys"
    keyspace: str
    keys: Sequence[bytes]

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        keys = [self.keys[index] for index in uids]
        return self.name, keys_pb2.CurrentKeysRequest(keyspace=self.keyspace, raw_keys=keys, route_version=version)


@dataclass
class AdvanceKey(Advance):
    """Raises one key to a number; the result is the epoch of the ownership."""

    name: ClassVar[str] = "AdvanceKey"
    keyspace: str
    key: bytes

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        request = keys_pb2.AdvanceKeyRequest(keyspace=self.keyspace, raw_key=self.key, to=self.to, route_version=version)
        return self.name, request


def number(to: int) -> int:
    """Validates the number to which a uid or key is raised. The server has the limit."""
    if not isinstance(to, int) or isinstance(to, bool):
        raise TypeError(f"a number is an int, not {type(to).__name__}")
    if not 0 <= to < 2**64:
        raise ValueError(f"a number is 0 to 2**62, not {to}")
    return to


def _errors(addr: str, errors: Iterable[pb.ItemError], items: int) -> dict[int, pb.ItemError]:
    """The refusals by index. Raises BadAnswer for an item that was not sent."""
    by_index = {error.index: error for error in errors}
    if any(index >= items for index in by_index):
        raise BadAnswer(addr, "an error of an item that was not sent")
    return by_index


def _routes(
    response: pb.NextResponse | pb.NextManyResponse | pb.CurrentResponse | pb.CurrentManyResponse | pb.AdvanceResponse,
) -> route_pb2.Routes | None:
    return response.routes if response.HasField("routes") else None
