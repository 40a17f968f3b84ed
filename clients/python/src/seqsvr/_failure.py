"""Failures of requests and refusals of items, decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from seqsvr.v1 import sequence_pb2 as pb

DOMAIN = "seqsvr"

OUTCOME_UNKNOWN = frozenset(
    (
        # Without a reason a refusal is not from the sequence service.
        "",
        "OWNER_TIMED_OUT",
        "OWNER_CONNECTION_LOST",
        "NOT_GRANTED",
        "RAISE_TOO_FAST",
        "NOT_LEADER",
        "LEADER_UNREACHABLE",
        "COMMIT_TIMED_OUT",
        "RAFT_STOPPED",
        "NOT_TAKEN_OVER",
    )
)
"""Reasons of refusals that may have moved a counter, as `seqsvr explain -o json` has them; a test compares the two."""

STREAM_BREAKS = frozenset(("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"))
"""Codes that concern a stream as a whole and not its calls, if they come without a reason."""


@dataclass(frozen=True)
class Failure:
    """A failed request, or a refused item.

    code: the gRPC code, as `"UNAVAILABLE"`.
    reason: in capitals; empty if it is not the sequence service's own.
    retry_after: seconds after which the server expects a retry to succeed.
    set_id: id of the set that the refusal names; 0 if it names none.
    since: epoch since which the section is there; None if the refusal states none.
    bound: the highest number to which an advance is accepted now; None if the refusal states none.
    never_sent: whether no connection could be established; otherwise the request may have been sent.
    """

    code: str
    message: str
    reason: str = ""
    retry_after: float | None = None
    set_id: int = 0
    since: int | None = None
    bound: int | None = None
    never_sent: bool = False

    @property
    def is_timeout(self) -> bool:
        """Whether the timeout of the request passed; the client or a server noticed it."""
        return not self.reason and self.code in ("DEADLINE_EXCEEDED", "CANCELLED")

    @property
    def is_break(self) -> bool:
        """Whether the connection failed: the code without a reason is not from a server."""
        return not self.reason and self.code == "UNAVAILABLE"

    @property
    def is_transient(self) -> bool:
        """Whether a repeated request can succeed."""
        return self.retry_after is not None or self.is_timeout or self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether the refusal may have moved a counter."""
        return self.reason in OUTCOME_UNKNOWN

    @staticmethod
    def of(error: grpc.RpcError) -> Failure:
        """The failure of a request."""
        code = error.code()
        message = error.details() or (code.name if code else "UNKNOWN")
        reason, retry_after = "", None
        named: dict[str, str] = {}
        metadata: Any = error.trailing_metadata() or ()
        for value in (value for key, value in metadata if key == "grpc-status-details-bin"):
            for detail in status_pb2.Status.FromString(value).details:
                info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    reason, named = info.reason, dict(info.metadata)
                elif detail.Unpack(retry) and retry.HasField("retry_delay"):
                    retry_after = retry.retry_delay.ToMicroseconds() / 1e6
        return Failure(
            code.name if code else "UNKNOWN",
            message,
            reason,
            retry_after,
            _number(named.get("set")) or 0,
            _number(named.get("since")),
            _number(named.get("bound")),
            # The text of grpcio.
            never_sent=message.startswith("failed to connect to all addresses"),
        )

    @staticmethod
    def of_item(item: pb.ItemError) -> Failure:
        """The refusal of one item."""
        return Failure(
            _code_name(item.code),
            item.message,
            item.reason,
            item.retry_after_ms / 1_000 if item.retry_after_ms else None,
            item.set_id,
            item.since if item.HasField("since") else None,
        )


def _number(text: str | None) -> int | None:
    """An unsigned 64-bit number in a refusal's metadata; None if it is none."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 20):
        return None
    number = int(text)
    return number if number < 2**64 else None


def _code_name(code: int) -> str:
    return next((each.name for each in grpc.StatusCode if each.value[0] == code), "UNKNOWN")
