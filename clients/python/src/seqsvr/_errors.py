"""Errors of calls, with what a caller needs to decide on a retry."""

from __future__ import annotations


class SeqError(Exception):
    """Error of a call, or of one item of a batch.

    reason: in capitals, as `UNSERVED`; the server's own if it refused.
    retryable: whether the same call can succeed later. A retry never yields a duplicate.
    may_have_applied: whether numbers may have been consumed although none was returned; they are a gap then.
    attempts: number of times that the request was sent.
    """

    def __init__(
        self, message: str, *, reason: str, retryable: bool, may_have_applied: bool = False, attempts: int = 0
    ) -> None:
        """Raised by clients."""
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable
        self.may_have_applied = may_have_applied
        self.attempts = attempts


class UidOutside(SeqError, ValueError):
    """The uid is in no set that the seeds know. Nothing was sent."""

    def __init__(self, uid: int) -> None:
        """Raised by clients."""
        super().__init__(f"uid {uid} is outside every known set", reason="UID_OUTSIDE", retryable=False)
        self.uid = uid


class CountOutOfRange(SeqError, ValueError):
    """The count is 0 or above the limit of an item. Nothing was sent."""

    def __init__(self, uid: int | None, count: int, limit: int) -> None:
        """Raised by clients."""
        message = f"{_of(uid)}count {count} is not in 1..={limit}"
        super().__init__(message, reason="COUNT_OUT_OF_RANGE", retryable=False)
        self.uid = uid
        self.count = count


class Refused(SeqError):
    """A server refused the request, and retries failed or would fail as well.

    uid: the requested uid; None for a request for ids or keys, whose message names the series or the key.
    code: the gRPC code, as `"UNAVAILABLE"`.
    retry_after: seconds after which the server expects a retry to succeed; None for a permanent refusal.
    bound: the highest number to which an advance may raise the uid now, if the reason is ADVANCE_TOO_FAR; else None.
    """

    def __init__(
        self,
        uid: int | None,
        message: str,
        *,
        code: str,
        reason: str,
        retry_after: float | None,
        may_have_applied: bool,
        attempts: int,
        bound: int | None = None,
    ) -> None:
        """Raised by clients."""
        super().__init__(
            f"{_of(uid)}{message}",
            reason=reason or "REFUSED_BY_OTHERS",
            retryable=retry_after is not None or code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"),
            may_have_applied=may_have_applied,
            attempts=attempts,
        )
        self.uid = uid
        self.code = code
        self.retry_after = retry_after
        self.bound = bound


class SetUnavailable(Refused):
    """No node of the set that the uid is in can be reached; other sets go on serving. It was retried until the deadline.

    set_id: the set's id, 1 to 2**64 - 1; 0 if the server did not name it.
    set_name: its name; empty if it is not known.
    """

    def __init__(
        self,
        uid: int | None,
        message: str,
        *,
        set_id: int,
        set_name: str,
        code: str,
        retry_after: float | None,
        may_have_applied: bool,
        attempts: int,
    ) -> None:
        """Raised by clients."""
        super().__init__(
            uid,
            f"set {set_name or set_id or 'unknown'} is unavailable: {message}",
            code=code,
            reason="SET_UNAVAILABLE",
            retry_after=retry_after,
            may_have_applied=may_have_applied,
            attempts=attempts,
        )
        self.set_id = set_id
        self.set_name = set_name


class Unreachable(SeqError):
    """The last attempt of a call failed in its connection, to `addr`."""

    def __init__(self, addr: str, message: str, *, may_have_applied: bool, attempts: int) -> None:
        """Raised by clients."""
        super().__init__(
            f"the call to {addr} failed after {attempts} attempts: {message}",
            reason="UNREACHABLE",
            retryable=True,
            may_have_applied=may_have_applied,
            attempts=attempts,
        )
        self.addr = addr

    def explain(self, cause: str) -> None:
        """Puts the cause in plain words in place of those of grpcio."""
        self.args = (f"the call to {self.addr} failed after {self.attempts} attempts: {cause}",)


class DeadlineExceeded(SeqError, TimeoutError):
    """The deadline passed before a response arrived."""

    def __init__(self, *, may_have_applied: bool, attempts: int) -> None:
        """Raised by clients."""
        super().__init__(
            f"no response before the deadline, after {attempts} attempts",
            reason="DEADLINE_EXCEEDED",
            retryable=True,
            may_have_applied=may_have_applied,
            attempts=attempts,
        )


class BadAnswer(SeqError):
    """A server sent a response that does not match the request; it implements another protocol or has a bug."""

    def __init__(self, addr: str, what: str) -> None:
        """Raised by clients."""
        message = f"{addr} sent an invalid response: {what}"
        super().__init__(message, reason="BAD_ANSWER", retryable=False, may_have_applied=True, attempts=1)
        self.addr = addr


class ClientClosed(SeqError, ValueError):
    """The client was closed: before the call, and then nothing was sent, or while the call was in flight."""

    def __init__(self, *, may_have_applied: bool = False) -> None:
        """Raised by clients."""
        super().__init__(
            "the client is closed; create a new one",
            reason="CLIENT_CLOSED",
            retryable=False,
            may_have_applied=may_have_applied,
        )


class OtherEventLoop(SeqError, RuntimeError):
    """An AsyncClient was used from an event loop other than the one of its first call. Nothing was sent."""

    def __init__(self) -> None:
        """Raised by clients."""
        message = "this AsyncClient belongs to another event loop, that of its first call; create one client for each loop"
        super().__init__(message, reason="OTHER_EVENT_LOOP", retryable=False)


class AfterFork(SeqError, RuntimeError):
    """An AsyncClient was used in a child of a process that has used one. Nothing was sent."""

    def __init__(self) -> None:
        """Raised by clients."""
        message = "asyncio of grpcio does not work in a child of a process that has used it: fork before that, or use Client"
        super().__init__(message, reason="AFTER_FORK", retryable=False)


class ConnectError(SeqError):
    """No seed could be reached for routes, or the routes are invalid."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        """Raised by clients."""
        super().__init__(message, reason="CONNECT", retryable=retryable)


def _of(uid: int | None) -> str:
    """The begin of a message about a uid."""
    return "" if uid is None else f"uid {uid}: "
