"""Why a call did not work, with what is needed to decide what to do next."""

from __future__ import annotations


class SeqError(Exception):
    """A call, or one item of a batch, that got no answer.

    reason: in capitals, as `UNSERVED`; the server's own where it refused.
    retryable: whether the same call can succeed later. Repeating it never yields a duplicate.
    may_have_applied: whether numbers may have been consumed although none was answered; they are a gap then.
    attempts: how often the call was sent.
    """

    def __init__(
        self, message: str, *, reason: str, retryable: bool, may_have_applied: bool = False, attempts: int = 0
    ) -> None:
        """Makes the error; clients do."""
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable
        self.may_have_applied = may_have_applied
        self.attempts = attempts


class UidOutside(SeqError, ValueError):
    """No set that the seeds know holds the uid. Nothing was sent."""

    def __init__(self, uid: int) -> None:
        """Makes the error; clients do."""
        super().__init__(f"uid {uid} is outside every known set", reason="UID_OUTSIDE", retryable=False)
        self.uid = uid


class CountOutOfRange(SeqError, ValueError):
    """A count of nothing, or of more than one item may take. Nothing was sent."""

    def __init__(self, uid: int, count: int, limit: int) -> None:
        """Makes the error; clients do."""
        message = f"uid {uid}: count {count} is not in 1..={limit}"
        super().__init__(message, reason="COUNT_OUT_OF_RANGE", retryable=False)
        self.uid = uid
        self.count = count


class Refused(SeqError):
    """A server refused, and repeating did not help or would not.

    code: the gRPC code, as `"UNAVAILABLE"`.
    retry_after: seconds after which the server expects that calling again can succeed; None where it says that it cannot.
    """

    def __init__(
        self,
        uid: int,
        message: str,
        *,
        code: str,
        reason: str,
        retry_after: float | None,
        may_have_applied: bool,
        attempts: int,
    ) -> None:
        """Makes the error; clients do."""
        super().__init__(
            f"uid {uid}: {message}",
            reason=reason or "REFUSED_BY_OTHERS",
            retryable=retry_after is not None or code == "UNAVAILABLE",
            may_have_applied=may_have_applied,
            attempts=attempts,
        )
        self.uid = uid
        self.code = code
        self.retry_after = retry_after


class Unreachable(SeqError):
    """The connection failed under the call, the last time it was tried. `addr` is where."""

    def __init__(self, addr: str, message: str, *, may_have_applied: bool, attempts: int) -> None:
        """Makes the error; clients do."""
        super().__init__(
            f"the call to {addr} failed after {attempts} attempts: {message}",
            reason="UNREACHABLE",
            retryable=True,
            may_have_applied=may_have_applied,
            attempts=attempts,
        )
        self.addr = addr


class DeadlineExceeded(SeqError, TimeoutError):
    """The deadline passed before an answer came."""

    def __init__(self, *, may_have_applied: bool, attempts: int) -> None:
        """Makes the error; clients do."""
        super().__init__(
            f"no answer before the deadline, after {attempts} attempts",
            reason="DEADLINE_EXCEEDED",
            retryable=True,
            may_have_applied=may_have_applied,
            attempts=attempts,
        )


class BadAnswer(SeqError):
    """A server answered something that is no answer to the call; it speaks another protocol or is broken."""

    def __init__(self, addr: str, what: str) -> None:
        """Makes the error; clients do."""
        message = f"{addr} sent a bad answer: {what}"
        super().__init__(message, reason="BAD_ANSWER", retryable=False, may_have_applied=True, attempts=1)
        self.addr = addr


class ClientClosed(SeqError, ValueError):
    """The client was closed: before the call, and then nothing was sent, or while it was under way."""

    def __init__(self, *, may_have_applied: bool = False) -> None:
        """Makes the error; clients do."""
        super().__init__(
            "the client is closed; make a new one",
            reason="CLIENT_CLOSED",
            retryable=False,
            may_have_applied=may_have_applied,
        )


class OtherEventLoop(SeqError, RuntimeError):
    """An AsyncClient was used from an event loop other than the one of its first call. Nothing was sent."""

    def __init__(self) -> None:
        """Makes the error; clients do."""
        message = "this AsyncClient belongs to another event loop, that of its first call; make one client for each loop"
        super().__init__(message, reason="OTHER_EVENT_LOOP", retryable=False)


class ConnectError(SeqError):
    """No seed could be asked for routes, or what they said makes no sense."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        """Makes the error; clients do."""
        super().__init__(message, reason="CONNECT", retryable=retryable)
