"""The client for asyncio."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from seqsvr import _methods
from seqsvr._attempts import DEADLINE, Attempt, Call, Connection, IdCall, Shared, Step
from seqsvr._errors import ClientClosed, OtherEventLoop, SeqError
from seqsvr._ids import CurrentId, Ids
from seqsvr._proto import sequence_pb2 as pb
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, path, serialize
from seqsvr._series import AsyncSeries, known
from seqsvr._tls import Tls

Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


class AsyncClient:
    """A handle on the sequence service, for any number of tasks of one event loop. Make one per loop.

    Its calls, their errors and its settings are those of `Client`. A task that is cancelled abandons its call; numbers may
    have been consumed then, which is a gap, never a duplicate.
    """

    def __init__(self, *seeds: Seed, deadline: float = DEADLINE, tls: Tls | None = None) -> None:
        """Names nodes of any sets; see `Client`. Raises ConnectError for a seed that is no address."""
        self._seeds = addresses(seeds, secure=tls is not None)
        self._deadline = deadline
        self._credentials = tls.credentials() if tls else None
        self._shared = Shared()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: dict[Connection, grpc.aio.Channel] = {}
        self._methods: dict[tuple[Connection, str], grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}
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
        await self._fetch_routes([], self._deadline)

    async def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a uid; see `Client.next`."""
        return await self.next_n(uid, 1, deadline=deadline)

    async def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a uid, 1 to 1,000,000; see `Client.next_n`."""
        return (await self._run([uid], [count], deadline, _methods.Next())).one()

    async def next_many(
        self, uids: Sequence[int], counts: Sequence[int] | None = None, *, deadline: float | None = None
    ) -> list[Allocation | SeqError]:
        """Allocates numbers for many uids, an Allocation or a SeqError for each; see `Client.next_many`."""
        counts = [1] * len(uids) if counts is None else counts
        return (await self._run(uids, counts, deadline, _methods.NextMany())).many()

    async def current(self, uid: int, *, deadline: float | None = None) -> Current:
        """Reads the last number of a uid; see `Client.current`."""
        return (await self._run([uid], [1], deadline, _methods.CurrentOne())).one()

    async def current_many(self, uids: Sequence[int], *, deadline: float | None = None) -> list[Current | SeqError]:
        """Reads the last number of each uid; see `Client.current_many`."""
        return (await self._run(uids, [1] * len(uids), deadline, _methods.CurrentMany())).many()

    async def series(self, name: str, *, deadline: float | None = None) -> AsyncSeries:
        """The series of a name; see `Client.series`."""
        self._enter()
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            await self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return AsyncSeries(self, *known(name, found))

    async def _run_ids(
        self, home: int, count: int, deadline: float | None, method: _methods.Method[Result], *, once: bool = False
    ) -> Result:
        self._enter()
        self._check_open()
        timeout = self._deadline if deadline is None else deadline
        call = IdCall(self._shared, home, count, timeout, method, once=once)
        await self._drive(call, call.start())
        return call.one()

    async def _run(
        self, uids: Sequence[int], counts: Sequence[int], deadline: float | None, method: _methods.Method[Result]
    ) -> Call[Result]:
        self._enter()
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        if call.is_outside:
            await self._fetch_routes(uids, call.remaining)
        await self._drive(call, call.start())
        return call

    async def _drive(self, call: Call[Result], steps: list[Step]) -> None:
        """Executes steps, and those that follow."""
        while steps:
            if len(steps) > 1:
                await asyncio.gather(*[self._drive(call, [step]) for step in steps])
                return
            (step,) = steps
            if step.wait:
                await asyncio.sleep(step.wait)
            attempts = call.attempts(step.group)
            if len(attempts) > 1:
                await asyncio.gather(*[self._drive_attempt(call, attempt) for attempt in attempts])
                return
            steps = [following for attempt in attempts for following in await self._outcome(call, attempt)]

    async def _drive_attempt(self, call: Call[Result], attempt: Attempt) -> None:
        await self._drive(call, await self._outcome(call, attempt))

    async def _outcome(self, call: Call[Result], attempt: Attempt) -> list[Step]:
        outcome = await self._request(attempt.connection, attempt.method, attempt.request, attempt.timeout)
        if not isinstance(outcome, grpc.RpcError):
            return call.on_response(attempt, outcome)
        if self._closed:
            # Cancelled by `close`: the request may have reached the server.
            raise ClientClosed(may_have_applied=True) from outcome
        return call.on_failure(attempt, outcome)

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

    async def _request(self, connection: Connection, method: str, request: Message, timeout: float) -> Message | grpc.RpcError:
        try:
            response = await self._method(connection, method)(request, timeout=timeout)
        except grpc.RpcError as error:
            return error
        except asyncio.CancelledError as error:
            # `close` cancels requests as a cancelled task does.
            if self._closed and not _is_cancelled():
                raise ClientClosed(may_have_applied=method != "GetRoutes") from error
            raise
        assert isinstance(response, Message)
        return response

    def _dial(self, addr: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(addr, options=OPTIONS)
        return grpc.aio.secure_channel(addr, self._credentials, options=OPTIONS)

    def _method(self, connection: Connection, name: str) -> grpc.aio.UnaryUnaryMultiCallable[Any, Any]:
        self._check_open()
        method = self._methods.get((connection, name))
        if method is None:
            channel = self._channels.get(connection)
            if channel is None:
                channel = self._channels[connection] = self._dial(connection[0])
            method = self._methods[connection, name] = channel.unary_unary(
                path(name),
                request_serializer=serialize,
                response_deserializer=METHODS[name].FromString,
            )
        return method

    async def _fetch_routes(self, uids: Sequence[int], deadline: float) -> None:
        """Fetches the routes of uids from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        async with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(routes, self._seeds, uids, deadline)
            while True:
                await self._fetch_round(fetch)
                wait = fetch.end_round()
                if wait is None:
                    break
                await asyncio.sleep(wait)
            self._fetched_at = time.monotonic()

    async def _fetch_round(self, fetch: RouteFetch) -> None:
        fetch.start_round()
        request = pb.GetRoutesRequest()
        seeds = {
            asyncio.create_task(self._request((seed, 0), "GetRoutes", request, fetch.timeout)): seed for seed in self._seeds
        }
        pending = set(seeds)
        try:
            while patience := fetch.patience:
                done, pending = await asyncio.wait(pending, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    response = task.result()
                    self._check_open()
                    assert isinstance(response, pb.GetRoutesResponse | grpc.RpcError)
                    fetch.on_response(seeds[task], response)
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)


def _is_cancelled() -> bool:
    """Whether the current task itself is cancelled; always False before Python 3.11, which has no such query."""
    task = asyncio.current_task()
    return sys.version_info >= (3, 11) and task is not None and task.cancelling() > 0
