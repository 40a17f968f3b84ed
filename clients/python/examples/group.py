"""A message to a group, with asyncio: `python examples/group.py 127.0.0.1:7100 7 42 1001`."""

import asyncio
import sys

from seqsvr import AsyncClient, SeqError


async def main() -> None:
    """Allocates one number for each member; many such messages may be in flight at a time."""
    seed, *members = sys.argv[1:]
    async with AsyncClient(seed) as client:

        async def send(text: str) -> None:
            numbers = await client.next_many([int(member) for member in members])
            for member, number in zip(members, numbers, strict=True):
                print(f"{member}: {text!r} is {number if isinstance(number, SeqError) else number.value}")

        await asyncio.gather(send("hello"), send("how are you"))


if __name__ == "__main__":
    asyncio.run(main())
