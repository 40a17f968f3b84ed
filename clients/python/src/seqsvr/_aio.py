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
from seqsvr._attempts import DEADLINE, Attempt, Call, Shared
from seqsvr._errors import ClientClosed, OtherEventLoop, SeqError
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, serialize

Result = TypeVar("Result", Allocation, Current)


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
        self._fetch_lock = asyncio.Lock()
        self._fetched_at: float | None = None

    async def __aenter__(self) -> AsyncClient:
        """Is the client."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls in flight and later ones raise ClientClosed. Idempotent."""
        self._enter()
        self._closed = True
        channels = list(self._channels.values())
        self._channels.clear()
        self._methods.clear()
        for channel in channels:
            await channel.close()

    async def connect(self) -> None:
        """Fetches the routes from the seeds now instead of at the first call. Raises ConnectError."""
        self._enter()
        self._check_open()
        await self._fetch_routes(self._deadline)

    async def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a uid; see `Client.next`."""
        return await self.next_n(uid, 1, deadline=deadline)

    async def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a uid, 1 to 1,000,000; see `Client.next_n`."""
        return (await self._run([uid], [count], deadline, _attempts.Next())).one()

    async def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates numbers for many uids, an Allocation or a SeqError for each; see `Client.next_many`."""
        counts = [1] * len(uids) if counts is None else counts
        return (await self._run(uids, counts, deadline, _attempts.NextMany())).many()

    async def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid; see `Client.current`."""
        return (await self._run([uid], [1], deadline, _attempts.CurrentOne())).one()

    async def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid; see `Client.current_many`."""
        return (await self._run(uids, [1] * len(uids), deadline, _attempts.CurrentMany())).many()

    async def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, method: _attempts.Method[Result]
    ) -> Call[Result]:
        self._enter()
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        if call.is_outside:
            await self._fetch_routes(call.remaining)
        while attempts := call.round():
            outcomes = await asyncio.gather(*map(self._send, attempts))
            for attempt, outcome in zip(attempts, outcomes, strict=True):
                if isinstance(outcome, grpc.RpcError):
                    if self._closed:
                        # Cancelled by `close`: the request may have reached the server.
                        raise ClientClosed(may_have_applied=True) from outcome
                    call.on_failure(attempt, outcome)
                else:
                    call.on_response(attempt, outcome)
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
        return await self._request(attempt.addr, attempt.method, attempt.request, attempt.timeout)

    async def _request(self, addr: str, method: str, request: Message, timeout: float) -> Message | grpc.RpcError:
        try:
            response = await self._method(addr, method)(request, timeout=timeout)
        except grpc.RpcError as error:
            return error
        assert isinstance(response, Message)
        return response

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

    async def _fetch_routes(self, deadline: float) -> None:
        """Fetches the routes from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        async with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(routes, self._seeds, deadline)
            wait: float | None = 0.0
            while wait is not None:
                await asyncio.sleep(wait)
                requests = [self._request(seed, "GetRoutes", pb.GetRoutesRequest(), fetch.timeout) for seed in self._seeds]
                responses = await asyncio.gather(*requests)
                self._check_open()
                wait = fetch.done(
                    response for response in responses if isinstance(response, pb.GetRoutesResponse | grpc.RpcError)
                )
            self._fetched_at = time.monotonic()
