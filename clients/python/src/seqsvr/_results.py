"""What calls are answered with."""

from __future__ import annotations

from dataclasses import dataclass

from seqsvr._errors import BadAnswer
from seqsvr._proto import sequence_pb2 as pb

MAX_SEQ = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Numbers given out to one uid: `first` to `value`, the caller's alone.

    value: the last number, 1 to 2**63 - 1; the only one where one was asked for.
    prev: the number given out before the first one, or 0 when there was none or the owner does not know it. A receiver that
        has not seen `prev` has missed a message; when it is 0 it cannot tell.
    epoch: number of the ownership that gave them out, 1 or above; it never falls for one uid.
    count: how many numbers, 1 to 1,000,000.
    lost: attempts of the same call before that may have taken `count` numbers each without an answer: gaps, if they did.
    """

    value: int
    prev: int
    epoch: int
    count: int = 1
    lost: int = 0

    @property
    def first(self) -> int:
        """The first number."""
        return self.value - self.count + 1

    @property
    def numbers(self) -> range:
        """All of them, in order."""
        return range(self.first, self.value + 1)


@dataclass(frozen=True, slots=True)
class Current:
    """What is known of a uid's last number.

    value: the last number given out or a bound on it, 0 to 2**63 - 1; never below a number that was answered before.
    exact: whether `value` is the last number given out, 0 meaning that none ever was. If not, no number above it was; that is
        so after an owner's crash until the uid's next allocation.
    epoch: number of the ownership that answered, 1 or above.
    """

    value: int
    exact: bool
    epoch: int


def allocation(addr: str, value: int, prev: int, epoch: int, count: int, lost: int) -> Allocation:
    """Checks what came from the wire, so that `first` exists and chains to `prev`."""
    if value > MAX_SEQ or prev + count > value:
        raise BadAnswer(addr, "numbers that do not follow each other")
    return Allocation(value, prev, epoch, count, lost)


def current(addr: str, value: int, exactness: int, epoch: int) -> Current:
    """Checks what came from the wire."""
    if exactness not in (pb.EXACTNESS_EXACT, pb.EXACTNESS_UPPER_BOUND):
        raise BadAnswer(addr, "a value that is neither exact nor a bound")
    return Current(value, exactness == pb.EXACTNESS_EXACT, epoch)
