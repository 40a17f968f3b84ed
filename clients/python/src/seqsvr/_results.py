"""Results of calls, validated as they are decoded."""

from __future__ import annotations

from dataclasses import dataclass

from seqsvr._errors import BadAnswer
from seqsvr.v1 import sequence_pb2 as pb

MAX_SEQ = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Numbers allocated for one uid: `first` to `value`. No other request gets them.

    value: the last number, 1 to 2**63 - 1; the only one if one was requested.
    prev: the number allocated before the first one, or 0 if there was none or the owner does not know it. A receiver that
        has not seen `prev` has missed a message; with 0 it cannot detect that.
    epoch: epoch of the ownership that allocated them, 1 or above; monotonic for one uid.
    count: number of numbers, 1 to 1,000,000.
    lost: earlier attempts of this call without a response: each may have taken `count` numbers, which are then a gap.
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
        """All numbers, in order."""
        return range(self.first, self.value + 1)


@dataclass(frozen=True, slots=True)
class Current:
    """The last number of a uid, or an upper bound of it.

    value: the last number allocated or an upper bound of it, 0 to 2**63 - 1; never below a number returned before.
    exact: whether `value` is the last number allocated; 0 means that none ever was. If False, no number above it was
        allocated: the state after an owner's crash until the uid's next allocation.
    epoch: epoch of the ownership that replied, 1 or above.
    """

    value: int
    exact: bool
    epoch: int


def allocation(addr: str, value: int, prev: int, epoch: int, count: int, lost: int) -> Allocation:
    """Validates the fields of a response: `first` exists and is above `prev`."""
    if value > MAX_SEQ or prev + count > value:
        raise BadAnswer(addr, "numbers that do not follow each other")
    return Allocation(value, prev, epoch, count, lost)


def current(addr: str, value: int, exactness: int, epoch: int) -> Current:
    """Validates the fields of a response."""
    if exactness not in (pb.EXACTNESS_EXACT, pb.EXACTNESS_UPPER_BOUND):
        raise BadAnswer(addr, "a value that is neither exact nor a bound")
    return Current(value, exactness == pb.EXACTNESS_EXACT, epoch)
