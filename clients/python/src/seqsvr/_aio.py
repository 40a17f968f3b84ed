"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from seqsvr import _attempts
from seqsvr._answers import Allocation, Current
from seqsvr._attempts import DEADLINE, Attempt, Call, Shared
from seqsvr._errors import ClientClosed, OtherEventLoop, SeqError
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._seeds import METHODS, OPTIONS, REFRESH_EVERY, Gather, Seed, addresses, serialize

Answer = TypeVar("Answer", Allocation, Current)


class AsyncClient:
    """A handle on the sequence service, for any number of tasks of one event loop. Make one per loop.

    Its calls, their errors and its settings are those of `Client`. A task that is cancelled abandons its call; numbers may
    have been consumed then, which is a gap, never a duplicate.
    """

    def __init__(self, *seeds: Seed, deadline: float = DEADLINE) -> None:
        """Names one node of each set; see `Client`. Raises ConnectError for a seed that is no address."""
        self._seeds = addresses(seeds)
        self._deadline = deadline
        self._shared = Shared()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._methods: dict[tuple[str, str], grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}
        self._gathering = asyncio.Lock()
        self._gathered_at: float | None = None

    async def __aenter__(self) -> AsyncClient:
        """Is the client."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        await self.close()

    async def close(self) -> None:
        """Closes the connections for good; calls that are under way and later ones raise ClientClosed. May be repeated."""
        self._enter()
        self._closed = True
        channels = list(self._channels.values())
        self._channels.clear()
        self._methods.clear()
        for channel in channels:
            await channel.close()

    async def connect(self) -> None:
        """Asks the seeds for routes now instead of at the first call. Raises ConnectError."""
        self._enter()
        self._check_open()
        await self._gather(self._deadline)

    async def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Takes the next number of a uid; see `Client.next`."""
        return await self.next_n(uid, 1, deadline=deadline)

    async def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Takes the next `count` numbers of a uid, 1 to 1,000,000; see `Client.next_n`."""
        return (await self._run([uid], [count], deadline, _attempts.Next())).one()

    async def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Takes numbers for many uids, an Allocation or a SeqError for each; see `Client.next_many`."""
        counts = [1] * len(uids) if counts is None else counts
        return (await self._run(uids, counts, deadline, _attempts.NextMany())).many()

    async def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid; see `Client.current`."""
        return (await self._run([uid], [1], deadline, _attempts.CurrentOne())).one()

    async def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid; see `Client.current_many`."""
        return (await self._run(uids, [1] * len(uids), deadline, _attempts.CurrentMany())).many()

    async def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, asks: _attempts.Asks[Answer]
    ) -> Call[Answer]:
        self._enter()
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, asks)
        if call.is_outside:
            await self._gather(call.remaining)
        while attempts := call.round():
            outcomes = await asyncio.gather(*map(self._send, attempts))
            for attempt, outcome in zip(attempts, outcomes, strict=True):
                if isinstance(outcome, grpc.RpcError):
                    if self._closed:
                        # Closing the connection cancelled it: it may have reached the server.
                        raise ClientClosed(may_have_applied=True) from outcome
                    call.failed(attempt, outcome)
                else:
                    call.answered(attempt, outcome)
            if wait := call.pause():
                await asyncio.sleep(wait)
        return call

    def _enter(self) -> None:
        """Binds the client to the event loop of its first use: the connections live on it."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise OtherEventLoop

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed

    async def _send(self, attempt: Attempt) -> Message | grpc.RpcError:
        return await self._ask(attempt.addr, attempt.method, attempt.request, attempt.timeout)

    async def _ask(self, addr: str, method: str, request: Message, timeout: float) -> Message | grpc.RpcError:
        try:
            answer = await self._method(addr, method)(request, timeout=timeout)
        except grpc.RpcError as error:
            return error
        assert isinstance(answer, Message)
        return answer

    def _method(self, addr: str, name: str) -> grpc.aio.UnaryUnaryMultiCallable[Any, Any]:
        self._check_open()
        method = self._methods.get((addr, name))
        if method is None:
            channel = self._channels.get(addr)
            if channel is None:
                channel = self._channels[addr] = grpc.aio.insecure_channel(addr, options=OPTIONS)
            method = self._methods[addr, name] = channel.unary_unary(
                f"/seqsvr.v1.SequenceService/{name}",
                request_serializer=serialize,
                response_deserializer=METHODS[name].FromString,
            )
        return method

    async def _gather(self, deadline: float) -> None:
        """Asks the seeds; does nothing if that was done a moment ago."""
        async with self._gathering:
            routes = self._shared.routes
            recent = self._gathered_at is not None and time.monotonic() - self._gathered_at < REFRESH_EVERY
            if recent and routes.sets:
                return
            gather = Gather(routes, self._seeds, deadline)
            wait: float | None = 0.0
            while wait is not None:
                await asyncio.sleep(wait)
                asks = [self._ask(seed, "GetRoutes", pb.GetRoutesRequest(), gather.timeout) for seed in self._seeds]
                answers = await asyncio.gather(*asks)
                self._check_open()
                wait = gather.done(answer for answer in answers if isinstance(answer, pb.GetRoutesResponse | grpc.RpcError))
            self._gathered_at = time.monotonic()
