"""Discovery of the sets: routes from the seeds, without any I/O."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import grpc
from google.protobuf.message import Message

from seqsvr._budget import FIRST_BACKOFF, MAX_BACKOFF
from seqsvr._errors import ConnectError
from seqsvr._failure import Failure
from seqsvr._shared import Shared
from seqsvr.v1 import ids_pb2
from seqsvr.v1 import sequence_pb2 as pb

MIN_REFRESH_INTERVAL = 1.0
"""Minimum interval between fetches from the seeds for uids outside every known set, in seconds."""

SEED_TIMEOUT = 1.0
"""How long a fetch waits for the other seeds while a uid is outside of what some sent, in seconds: a connection's timeout."""

SEED_GRACE = 0.1
"""How long a fetch waits for the other seeds once all uids are known, in seconds: their sets' own tables are newer."""

METHODS: dict[str, type[Message]] = {
    "Next": pb.NextResponse,
    "NextMany": pb.NextManyResponse,
    "Current": pb.CurrentResponse,
    "CurrentMany": pb.CurrentManyResponse,
    "Advance": pb.AdvanceResponse,
    "GetRoutes": pb.GetRoutesResponse,
    "NextIds": ids_pb2.NextIdsResponse,
    "CurrentId": ids_pb2.CurrentIdResponse,
    "AdvanceId": ids_pb2.AdvanceIdResponse,
    "NextKey": pb.NextResponse,
    "NextKeys": pb.NextManyResponse,
    "CurrentKey": pb.CurrentResponse,
    "CurrentKeys": pb.CurrentManyResponse,
    "AdvanceKey": pb.AdvanceResponse,
}
"""The methods that a client calls, and their response types."""

ID_METHODS = {"NextIds": "Next", "CurrentId": "Current", "AdvanceId": "Advance"}
"""The names of the methods for ids in their service."""

KEY_METHODS = {
    "NextKey": "Next",
    "NextKeys": "NextMany",
    "CurrentKey": "Current",
    "CurrentKeys": "CurrentMany",
    "AdvanceKey": "Advance",
}
"""The names of the methods for keys in their service."""

OPTIONS: Sequence[tuple[str, int]] = (
    # This client makes the retries itself: a retry inside grpcio would hide a gap.
    ("grpc.enable_retries", 0),
    # Nodes are reached by address, without a proxy.
    ("grpc.enable_http_proxy", 0),
    # Reconnects soon to a node that comes back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Names are resolved again soon after a connection has failed.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # Detects a node that hangs before the sections of a lost node have new owners. The numbers are those of the Rust SDK.
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 1_500),
    # A ping that waits for its turn, one a second, cancels the timeout above; each ping has this one, of 60 s by default.
    ("grpc.http2.ping_timeout_ms", 1_500),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Connections of one address are separate if they serve different sets.
    ("grpc.use_local_subchannel_pool", 1),
    # The response to a full batch of 10,000 items, with routes.
    ("grpc.max_receive_message_length", 16 << 20),
)
"""Options of every connection."""


def path(method: str) -> str:
    """The path of a method."""
    if method in ID_METHODS:
        return f"/seqsvr.v1.IdService/{ID_METHODS[method]}"
    if method in KEY_METHODS:
        return f"/seqsvr.v1.KeyService/{KEY_METHODS[method]}"
    return f"/seqsvr.v1.SequenceService/{method}"


def serialize(message: Message) -> bytes:
    """The bytes of a request."""
    return message.SerializeToString()


Seed = str | Iterable[str]
"""A node as `host:port` or `http://host:port`, or several of them."""


def addresses(seeds: Iterable[Seed], *, secure: bool = False) -> list[str]:
    """The addresses in seeds. Raises ConnectError, TypeError for a seed that is no str, ValueError if there is none."""
    found = [address(one, secure=secure) for seed in seeds for one in ([seed] if isinstance(seed, str) else _several(seed))]
    if not found:
        raise ValueError("name at least one node as host:port")
    return found


def _several(seed: Iterable[str]) -> Iterable[str]:
    if isinstance(seed, bytes | bytearray) or not isinstance(seed, Iterable):
        raise TypeError(f"a node is named by a str as 'host:port', or several by an iterable of them, not by {seed!r}")
    return seed


def address(url: str, *, secure: bool = False) -> str:
    """The address in a seed, given as `host:port`, `http://host:port` or `https://host:port`. Raises ConnectError."""
    if not isinstance(url, str):
        raise TypeError(f"a node is named by a str as 'host:port', not by {url!r}")
    if url.startswith("https://") and not secure:
        raise ConnectError(f"{url!r} is reached over TLS only: pass tls=Tls(ca, certificate)", retryable=False)
    addr = url.removeprefix("http://").removeprefix("https://").removesuffix("/")
    host, colon, port = addr.rpartition(":")
    if "://" in addr or "/" in addr or not host or not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConnectError(f"{url!r} is not of the form http://host:port", retryable=False)
    return addr


class RouteFetch:
    """Fetches routes from the seeds, in rounds of one request to each, until one has some or the deadline passes.

    A round does not wait for all of them: a set that is down delays the others by SEED_GRACE, or by SEED_TIMEOUT if a uid may
    be of a seed that has not responded.
    """

    def __init__(self, shared: Shared, seeds: Sequence[str], uids: Sequence[int], deadline: float) -> None:
        """Starts the deadline, in seconds. `uids` are those that the routes are needed for; none: any routes do."""
        self._shared = shared
        self._routes = shared.routes
        self._seeds = seeds
        self._uids = uids
        self._started_at = time.monotonic()
        self._deadline_at = self._started_at + deadline
        self._backoff = FIRST_BACKOFF
        self.start_round()

    @property
    def timeout(self) -> float:
        """Timeout of a request, in seconds."""
        return max(self._deadline_at - time.monotonic(), 0.001)

    def start_round(self) -> None:
        """Forgets the responses of the round before."""
        self._pending = len(self._seeds)
        self._covered_at: float | None = None
        self._starting, self._failed, self._retryable = False, "", False
        # The last seed that could not be reached.
        self.unreached: str | None = None

    @property
    def patience(self) -> float:
        """Seconds to wait for the next response of the round; 0 if the round is complete."""
        now = time.monotonic()
        until = self._deadline_at
        if self._covered_at is not None:
            until = min(until, self._covered_at + SEED_GRACE)
        elif self._routes.sets:
            until = min(until, self._started_at + SEED_TIMEOUT)
        return max(until - now, 0.0) if self._pending else 0.0

    def on_response(self, seed: str, response: pb.GetRoutesResponse | grpc.RpcError) -> None:
        """Handles the response of one seed. Raises ConnectError if it has invalid routes."""
        self._pending -= 1
        if isinstance(response, grpc.RpcError):
            failure = Failure.of(response)
            self._failed = f"{seed} {_describe(failure)}"
            if failure.is_break or failure.is_timeout:
                self.unreached = seed
            self._retryable = self._retryable or failure.is_transient
        elif response.HasField("routes"):
            self._shared.adopt(response.routes, seed)
            self._shared.responded((seed, 0))
            if self._covered_at is None and all(self._routes.route(uid) is not None for uid in self._uids):
                self._covered_at = time.monotonic()
        else:
            self._starting = True

    def end_round(self) -> float | None:
        """None if the fetch is complete, else seconds to wait before the next round. Raises ConnectError."""
        if self._routes.sets:
            return None
        self._backoff = min(self._backoff * 2, MAX_BACKOFF)
        if self._starting and self._backoff < self.timeout:
            return self._backoff
        if self._starting:
            raise ConnectError("the seeds respond, but have no routes yet", retryable=True)
        failed = self._failed or f"{', '.join(self._seeds)} did not respond before the deadline"
        raise ConnectError(f"no seed answered; {failed}", retryable=self._retryable or not self._failed)


def _describe(failure: Failure) -> str:
    """Describes the failure of a seed, and what it is if the error shows that it is no AllocSvr."""
    if failure.code == "UNIMPLEMENTED" and "http2 header" in failure.message:
        return "speaks HTTP but not gRPC; name the gRPC port of an AllocSvr"
    if failure.code == "UNIMPLEMENTED":
        return "does not give out sequence numbers: it is a store or another gRPC server; name an AllocSvr"
    if failure.reason:
        return f"refused: {failure.message} ({failure.reason})"
    return f"failed: {failure.message}"
