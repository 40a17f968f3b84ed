"""Client of seqsvr: numbers that grow, for each user.

>>> from seqsvr import Client
>>> with Client("127.0.0.1:7100") as client:  # doctest: +SKIP
...     client.next(42).value
1

`Client` is for threads, `AsyncClient` for asyncio; both have the same calls. Every error of a call is a `SeqError`.

`seqsvr.testing` has servers for tests, `seqsvr.opentelemetry` metrics and traces, `seqsvr.v1` the messages and stubs of the
protos.
"""

from seqsvr._aio import AsyncClient
from seqsvr._attempts import DEADLINE
from seqsvr._client import Client
from seqsvr._errors import (
    AfterFork,
    BadAnswer,
    ClientClosed,
    ConnectError,
    CountOutOfRange,
    DeadlineExceeded,
    OtherEventLoop,
    Refused,
    SeqError,
    SetUnavailable,
    UidOutside,
    Unreachable,
)
from seqsvr._ids import CounterShape, CurrentId, DecodedId, Ids, TimedShape
from seqsvr._keyspace import AsyncKeyspace, Keyspace
from seqsvr._observer import AttemptEvent, CallEvent, Observer
from seqsvr._results import Allocation, Current
from seqsvr._segments import AsyncSegments, Segments
from seqsvr._series import AsyncSeries, Series
from seqsvr._tickets import AsyncTickets, Tickets
from seqsvr._tls import Tls
from seqsvr._version import __version__

__all__ = [
    "DEADLINE",
    "AfterFork",
    "Allocation",
    "AsyncClient",
    "AsyncKeyspace",
    "AsyncSegments",
    "AsyncSeries",
    "AsyncTickets",
    "AttemptEvent",
    "BadAnswer",
    "CallEvent",
    "Client",
    "ClientClosed",
    "ConnectError",
    "CountOutOfRange",
    "CounterShape",
    "Current",
    "CurrentId",
    "DeadlineExceeded",
    "DecodedId",
    "Ids",
    "Keyspace",
    "Observer",
    "OtherEventLoop",
    "Refused",
    "Segments",
    "SeqError",
    "Series",
    "SetUnavailable",
    "Tickets",
    "TimedShape",
    "Tls",
    "UidOutside",
    "Unreachable",
    "__version__",
]
