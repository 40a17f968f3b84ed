"""The RPCs of a call: how each encodes its items and decodes their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from seqsvr import _results
from seqsvr._ids import CurrentId, Ids
from seqsvr._proto import ids_pb2, route_pb2
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current

Result_co = TypeVar("Result_co", Allocation, Current, Ids, CurrentId, int, covariant=True)


@dataclass
class Item:
    """A uid, the number of numbers to allocate, and the number of attempts that may have taken them without a response.

    A request for ids has no uid.
    """

    uid: int | None
    count: int
    lost: int = 0


Decoder = Callable[[str, Sequence[Item]], Iterator[Result_co | pb.ItemError]]
"""Decodes the results of the items, in order; the address is the server's."""


class Method(Protocol[Result_co]):
    """An RPC: encodes its request and decodes its response."""

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """The method and the request."""
        ...

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Result_co]]:
        """The newer routes in a response, and the decoder of its results."""
        ...


class Next:
    """Allocates numbers of one uid."""

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

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        counts = [] if all(count == 1 for count in counts) else counts
        return "NextMany", pb.NextManyRequest(uids=uids, counts=counts, route_version=version, known_epochs=epochs)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Allocation]]:
        """See `Method`."""
        assert isinstance(response, pb.NextManyResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[Allocation | pb.ItemError]:
            errors = {error.index: error for error in response.errors}
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

    def request(self, uids: Sequence[int], counts: Sequence[int], version: int, epochs: Sequence[int]) -> tuple[str, Message]:
        """See `Method`."""
        return "CurrentMany", pb.CurrentManyRequest(uids=uids, route_version=version, known_epochs=epochs)

    def decode(self, response: Message) -> tuple[route_pb2.Routes | None, Decoder[Current]]:
        """See `Method`."""
        assert isinstance(response, pb.CurrentManyResponse)

        def read(addr: str, items: Sequence[Item]) -> Iterator[Current | pb.ItemError]:
            errors = {error.index: error for error in response.errors}
            lists = zip(response.values, response.exactness, response.epochs, strict=False)
            for index, ((value, exactness, epoch), _) in enumerate(zip(lists, items, strict=False)):
                if index in errors:
                    yield errors[index]
                else:
                    yield _results.current(addr, value, exactness, epoch)

        return _routes(response), read


@dataclass
class NextIds:
    """Takes ids of a series."""

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


def _routes(
    response: pb.NextResponse | pb.NextManyResponse | pb.CurrentResponse | pb.CurrentManyResponse,
) -> route_pb2.Routes | None:
    return response.routes if response.HasField("routes") else None
