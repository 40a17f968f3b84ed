"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from seqsvr import _methods, _tls
from seqsvr._aio_streams import AsyncBatcher
from seqsvr._attempts import DEADLINE, Call, IdCall, KeyCall, reported
from seqsvr._errors import AfterFork, ClientClosed, ConnectError, OtherEventLoop, SeqError
from seqsvr._ids import CurrentId, Ids
from seqsvr._keyspace import AsyncKeyspace
from seqsvr._keyspace import home as home_of_keyspace
from seqsvr._observer import Observer
from seqsvr._results import Allocation, Current
from seqsvr._seeds import METHODS, MIN_REFRESH_INTERVAL, OPTIONS, RouteFetch, Seed, addresses, path, serialize
from seqsvr._series import AsyncSeries, known
from seqsvr._shared import Attempt, Connection, Shared, Step
from seqsvr._tls import REPLACED_FOR, Certificates, Tls
from seqsvr.v1 import sequence_pb2 as pb

# The process that has used a client first: grpcio's asyncio has threads and pipes that it shares with its children.
_process: int | None = None

Self = TypeVar("Self", bound="AsyncClient")
Result = TypeVar("Result", Allocation, Current, Ids, CurrentId, int)


class AsyncClient:
    """A handle on the sequence service, for any number of tasks of one event loop. Make one per loop.

    Its calls, their errors and its settings are those of `Client`. A task that is cancelled abandons its call; numbers may
    have been consumed then, which is a gap, never a duplicate.

    A child of a process that has used an AsyncClient can use none: its calls raise AfterFork.
    """

    def __init__(
        self,
        *seeds: Seed,
        deadline: float = DEADLINE,
        tls: Tls | None = None,
        coalesce: bool = True,
        observer: Observer | None = None,
    ) -> None:
        """Names nodes of any sets; see `Client`. Raises ConnectError for a seed that is no address."""
        self._seeds = addresses(seeds, secure=tls is not None)
        self._deadline = deadline
        self._tls = tls
        self._coalesce = coalesce
        self._observer = observer
        self._closed = False
        self._certificates = Certificates(tls) if tls else None
        self._shared = Shared(self._observer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: dict[Connection, grpc.aio.Channel] = {}
        self._methods: dict[tuple[Connection, str], grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}
        self._batchers: dict[str, AsyncBatcher] = {}
        # Connections with certificates that were replaced, each until its calls have ended, and the tasks that end them.
        self._replaced: dict[asyncio.Task[None], grpc.aio.Channel] = {}
        self._fetch_lock = asyncio.Lock()
        self._fetched_at: float | None = None

    async def __aenter__(self: Self) -> Self:
        """Is the client."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls in flight and later ones raise ClientClosed. Idempotent."""
        self._enter()
        self._closed = True
        batchers = list(self._batchers.values())
        channels = [*self._channels.values(), *self._replaced.values()]
        closing = list(self._replaced)
        self._batchers.clear()
        self._channels.clear()
        self._methods.clear()
        self._replaced.clear()
        for task in closing:
            task.cancel()
        await asyncio.gather(*closing, return_exceptions=True)
        for batcher in batchers:
            await batcher.stop()
        for channel in channels:
            await channel.close()

    async def connect(self) -> None:
        """Fetches the routes from the seeds now instead of at the first call. Raises ConnectError."""
        self._enter()
        self._check_open()
        await self._fetch_routes([], self._deadline)

    async def reload(self) -> None:
        """Reads the certificates again, and uses them for new connections; see `Client.reload`."""
        self._enter()
        self._check_open()
        if self._certificates is not None:
            self._certificates.reload()
            self._replace_connections()

    async def next(self, uid: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next number of a uid; see `Client.next`."""
        return await self.next_n(uid, 1, deadline=deadline)

    async def next_n(self, uid: int, count: int, *, deadline: float | None = None) -> Allocation:
        """Allocates the next `count` numbers of a uid, 1 to 1,000,000; see `Client.next_n`."""
        return (await self._run([uid], [count], deadline, _methods.Next(), coalesce=self._coalesce)).one()

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

    async def advance(self, uid: int, to: int, *, deadline: float | None = None) -> int:
        """Raises a uid to a number, so that its next number is above it; see `Client.advance`."""
        return (await self._run([uid], [1], deadline, _methods.Advance(_methods.number(to)))).one()

    async def series(self, name: str, *, deadline: float | None = None) -> AsyncSeries:
        """The series of a name; see `Client.series`."""
        self._enter()
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            await self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return AsyncSeries(self, *known(name, found))

    async def keyspace(self, name: str, *, deadline: float | None = None) -> AsyncKeyspace:
        """The keyspace of a name; see `Client.keyspace`."""
        self._enter()
        self._check_open()
        found = self._shared.routes.series(name)
        if found is None:
            await self._fetch_routes([], self._deadline if deadline is None else deadline)
            found = self._shared.routes.series(name)
        return AsyncKeyspace(self, home_of_keyspace(name, found), name)

    async def _run_ids(
        self, home: int, count: int, deadline: float | None, method: _methods.Method[Result], *, once: bool = False
    ) -> Result:
        self._enter()
        self._check_open()
        timeout = self._deadline if deadline is None else deadline
        call = IdCall(self._shared, home, count, timeout, method, once=once)
        with reported(call):
            if not self._shared.routes.sets:
                # The process was forked from the process that fetched them.
                await self._fetch_routes([], call.remaining)
            await self._drive(call, call.start())
            await self._explain(call)
        return call.one()

    async def _run_keys(
        self,
        home: int,
        keys: Sequence[bytes],
        counts: Sequence[int],
        deadline: float | None,
        method: _methods.Method[Result],
    ) -> Call[Result]:
        self._enter()
        self._check_open()
        call = KeyCall(self._shared, home, keys, counts, self._deadline if deadline is None else deadline, method)
        with reported(call):
            if not self._shared.routes.sets:
                # The process was forked from the process that fetched them.
                await self._fetch_routes([], call.remaining)
            await self._drive(call, call.start())
            await self._explain(call)
        return call

    async def _run(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        deadline: float | None,
        method: _methods.Method[Result],
        *,
        coalesce: bool = False,
    ) -> Call[Result]:
        self._enter()
        self._check_open()
        call = Call(self._shared, uids, counts, self._deadline if deadline is None else deadline, method)
        with reported(call):
            if call.is_outside:
                await self._fetch_routes(uids, call.remaining)
            attempt = call.stream_attempt() if coalesce else None
            if attempt is None:
                steps = call.start()
            else:
                assert isinstance(attempt.request, pb.NextRequest)
                outcome = await self._batcher(attempt.addr).send(attempt.request, attempt.timeout)
                steps = call.on_stream(attempt, outcome)
            await self._drive(call, steps)
            await self._explain(call)
        return call

    async def _explain(self, call: Call[Result]) -> None:
        """Names the cause if the connections of a call failed in TLS."""
        if self._certificates is not None and (failed := call.refused_handshake):
            cause = await asyncio.to_thread(self._certificates.diagnose, failed.addr)
            if cause is not None:
                failed.explain(cause)

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
        outcome = await self._request(attempt.connection, attempt.method, attempt.request, attempt.timeout, call.headers)
        if not isinstance(outcome, grpc.RpcError):
            return call.on_response(attempt, outcome)
        if self._closed:
            # Cancelled by `close`: the request may have reached the server.
            raise ClientClosed(may_have_applied=True) from outcome
        return call.on_failure(attempt, outcome)

    def _enter(self) -> None:
        """Binds the client to the event loop of its first use: the connections live on it."""
        global _process
        process = os.getpid()
        if _process is None:
            _process = process
        elif _process != process:
            raise AfterFork
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise OtherEventLoop

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed

    async def _request(
        self,
        connection: Connection,
        method: str,
        request: Message,
        timeout: float,
        headers: Sequence[tuple[str, str]] | None = None,
    ) -> Message | grpc.RpcError:
        try:
            response = await self._method(connection, method)(request, timeout=timeout, metadata=headers)
        except grpc.RpcError as error:
            return error
        except asyncio.CancelledError as error:
            # `close` cancels requests as a cancelled task does.
            if self._closed and not _is_cancelled():
                raise ClientClosed(may_have_applied=method != "GetRoutes") from error
            raise
        if response is None:
            # grpcio for asyncio logs a response that it cannot decode, and returns None. For threads it raises this code.
            return grpc.aio.AioRpcError(
                grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), grpc.aio.Metadata(), "the response cannot be decoded"
            )
        assert isinstance(response, Message)
        return response

    def _method(self, connection: Connection, name: str) -> grpc.aio.UnaryUnaryMultiCallable[Any, Any]:
        self._check_open()
        self._renew()
        method = self._methods.get((connection, name))
        if method is None:
            method = self._methods[connection, name] = self._channel(connection).unary_unary(
                path(name),
                request_serializer=serialize,
                response_deserializer=METHODS[name].FromString,
            )
        return method

    def _batcher(self, addr: str) -> AsyncBatcher:
        self._check_open()
        self._renew()
        batcher = self._batchers.get(addr)
        if batcher is None:
            open_stream: Callable[[], Any] = self._channel((addr, 0)).stream_stream(
                path("NextStream"),
                request_serializer=serialize,
                response_deserializer=pb.NextStreamResponse.FromString,
            )
            batcher = self._batchers[addr] = AsyncBatcher(open_stream)
        return batcher

    def _channel(self, connection: Connection) -> grpc.aio.Channel:
        """The connection, made at its first use."""
        channel = self._channels.get(connection)
        if channel is None:
            addr, _ = connection
            if self._certificates is None:
                channel = grpc.aio.insecure_channel(addr, options=OPTIONS)
            else:
                channel = grpc.aio.secure_channel(addr, self._certificates.credentials, options=OPTIONS)
            self._channels[connection] = channel
        return channel

    def _renew(self) -> None:
        """Looks whether the certificates have changed, once a second."""
        now = time.monotonic()
        if self._certificates is not None and self._certificates.is_due(now) and self._certificates.renew(now):
            self._replace_connections()

    def _replace_connections(self) -> None:
        """Has new calls make new connections; calls in flight go on with theirs."""
        for batcher in self._batchers.values():
            batcher.retire()
        for channel in self._channels.values():
            task = asyncio.get_running_loop().create_task(channel.close(REPLACED_FOR))
            self._replaced[task] = channel
            task.add_done_callback(lambda task: self._replaced.pop(task, None))
        self._batchers.clear()
        self._channels.clear()
        self._methods.clear()

    async def _fetch_routes(self, uids: Sequence[int], deadline: float) -> None:
        """Fetches the routes of uids from the seeds; does nothing within MIN_REFRESH_INTERVAL of the last time."""
        async with self._fetch_lock:
            routes = self._shared.routes
            recent = self._fetched_at is not None and time.monotonic() - self._fetched_at < MIN_REFRESH_INTERVAL
            if recent and routes.sets:
                return
            fetch = RouteFetch(self._shared, self._seeds, uids, deadline)
            try:
                while True:
                    await self._fetch_round(fetch)
                    wait = fetch.end_round()
                    if wait is None:
                        break
                    await asyncio.sleep(wait)
            except ConnectError as error:
                cause = None
                if fetch.unreached:
                    cause = await asyncio.to_thread(_tls.diagnose, fetch.unreached, self._tls)
                if cause is None:
                    raise
                raise ConnectError(f"no seed answered; {cause}", retryable=False) from error
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
