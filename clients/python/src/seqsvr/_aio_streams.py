"""Streams of the client for asyncio: concurrent calls to a node share the messages of one stream.

A batcher has the stream to one node, a task that reads its responses, and one that sends its messages. All calls that tasks
make in one turn of the event loop are in one message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from seqsvr._queue import MAX_CALLS, CallQueue, Closed, End, Other, Outcome, Pending, StreamEnd, TimedOut, complete
from seqsvr.v1 import sequence_pb2 as pb

STOP_TIMEOUT = 1.0
"""How long `close` waits for the end of a stream, in seconds: it has nothing to wait for."""

OpenStream = Callable[[], Any]
"""Opens a stream, a grpc.aio.StreamStreamCall."""


class _Call(Pending):
    """A call whose task waits."""

    __slots__ = ("future",)

    def __init__(self, request: pb.NextRequest, deadline_at: float, future: asyncio.Future[Outcome]) -> None:
        super().__init__(request, deadline_at)
        self.future = future

    def complete(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class AsyncBatcher:
    """Batches the calls of tasks to one node."""

    def __init__(self, open_stream: OpenStream) -> None:
        """Opens nothing before the first call."""
        self._open_stream = open_stream
        self._queue = CallQueue()
        self._places = asyncio.Semaphore(MAX_CALLS)
        self._changed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stream: Any = None
        self._closed = False

    async def send(self, request: pb.NextRequest, timeout: float) -> Outcome:
        """Sends a call and waits for its outcome."""
        deadline_at = time.monotonic() + timeout
        if self._places.locked():
            try:
                await asyncio.wait_for(self._places.acquire(), timeout)
            except asyncio.TimeoutError:
                return TimedOut(sent=False)
        else:
            await self._places.acquire()
        try:
            return await self._enqueue(request, deadline_at)
        finally:
            self._places.release()

    async def _enqueue(self, request: pb.NextRequest, deadline_at: float) -> Outcome:
        now = time.monotonic()
        if self._closed:
            return Other.CLOSED
        if self._queue.is_unsupported(now):
            return Other.UNSUPPORTED
        loop = asyncio.get_running_loop()
        call = _Call(request, deadline_at, loop.create_future())
        generation = self._queue.enqueue(call)
        if generation is not None:
            self._task = loop.create_task(self._serve(generation))
        self._notify()
        timer = loop.call_later(max(deadline_at - now, 0.0), self._expire, call)
        try:
            return await call.future
        finally:
            timer.cancel()
            if not call.future.done() or call.future.cancelled():
                self._queue.abandon(call)

    def retire(self) -> None:
        """Ends the stream once its calls have ended; others go to the batcher that replaces this one."""
        self._queue.retire()
        self._notify()

    async def stop(self) -> None:
        """Ends all calls, and the tasks."""
        self._closed = True
        if self._task is None or self._task.done():
            return
        if self._stream is not None:
            # Not the task, which would leave a request of grpcio without an end, and its connection open.
            self._stream.cancel()
        _, late = await asyncio.wait([self._task], timeout=STOP_TIMEOUT)
        for task in late:
            task.cancel()

    def _expire(self, call: _Call) -> None:
        call.complete(TimedOut(self._queue.abandon(call)))

    def _notify(self) -> None:
        """Wakes the task that sends: there may be a message."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _serve(self, generation: int | None) -> None:
        """Runs streams until one ends without calls that need another one."""
        while generation is not None:
            end = StreamEnd(End.STOPPED, "the client is closed")
            try:
                end = await self._run(generation)
            finally:
                # Also when the task is cancelled: by `stop`, or because the event loop ends.
                ended, generation = self._queue.end(generation, end, time.monotonic())
                for call, outcome in ended:
                    call.complete(outcome)

    async def _run(self, generation: int) -> StreamEnd:
        """Runs a stream until it ends."""
        sender: asyncio.Task[None] | None = None
        stream: Any = None
        try:
            stream = self._stream = self._open_stream()
            sender = asyncio.get_running_loop().create_task(self._send(stream, generation))
            while (response := await stream.read()) is not grpc.aio.EOF:
                calls = self._queue.take(response.tag)
                if calls is None:
                    return StreamEnd(End.BROKE, "a response to a message that is not in flight")
                if self._queue.has_pending:
                    self._notify()
                complete(calls, response)
        except grpc.RpcError as error:
            return StreamEnd.of(error)
        except asyncio.CancelledError:
            # As grpcio reports that the stream was cancelled.
            if not self._closed:
                raise
            return StreamEnd(End.STOPPED, "the client is closed")
        except grpc.aio.UsageError as error:
            # grpcio raises it for a channel that is closed.
            return StreamEnd(End.NEVER_SENT, str(error))
        finally:
            if sender is not None:
                sender.cancel()
            if stream is not None:
                stream.cancel()
        return StreamEnd(End.CLOSED, "closed by the node")

    async def _send(self, stream: Any, generation: int) -> None:
        """Sends the messages of a stream, each made when the one before was sent."""
        while True:
            message = self._queue.next_message(generation, time.monotonic())
            if message is None:
                self._changed = asyncio.get_running_loop().create_future()
                await self._changed
                continue
            try:
                if isinstance(message, Closed):
                    await stream.done_writing()
                    return
                await stream.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError):
                # The stream has ended; the task that reads has its status.
                return
