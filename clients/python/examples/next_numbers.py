"""Allocates the next number of each uid: `python examples/next_numbers.py 127.0.0.1:7100 42 43`."""

import sys

from seqsvr import Client, SeqError


def main() -> None:
    """Allocates them in one request, and prints each result."""
    seed, *uids = sys.argv[1:]
    with Client(seed, deadline=2.0) as client:
        for uid, result in zip(uids, client.next_many([int(uid) for uid in uids]), strict=True):
            if not isinstance(result, SeqError):
                print(f"{uid}: {result.value} after {result.prev}")
            elif result.may_have_applied:
                print(f"{uid}: {result}; a number may be lost to a gap")
            else:
                print(f"{uid}: {result}")


if __name__ == "__main__":
    main()
