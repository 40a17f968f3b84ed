"""Streams of the client for threads: concurrent calls to a node share the messages of one stream.

A batcher has the stream to one node. grpcio takes the messages out of a generator, in a thread of its own, and a thread of the
batcher reads the responses; both end when the stream does, and the next call opens another one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from seqsvr._queue import CallQueue, Closed, End, Other, Outcome, Pending, StreamEnd, TimedOut, complete
from seqsvr.v1 import sequence_pb2 as pb

JOIN_TIMEOUT = 1.0
"""How long `close` waits for the thread of a stream, in seconds: it has nothing to wait for."""

OpenStream = Callable[[Iterator[pb.NextStreamRequest]], Any]
"""Opens a stream that sends messages; the result yields the responses, and has `cancel`."""


class _Call(Pending):
    """A call whose thread waits."""

    __slots__ = ("_done", "outcome")

    def __init__(self, request: pb.NextRequest, deadline_at: float) -> None:
        super().__init__(request, deadline_at)
        self.outcome: Outcome | None = None
        # Held until the outcome is there: the cheapest event that Python has.
        self._done = threading.Lock()
        self._done.acquire()

    def complete(self, outcome: Outcome) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self._done.release()

    def wait(self, timeout: float) -> None:
        """Waits for the outcome, or until the timeout."""
        self._done.acquire(timeout=max(timeout, 0.0))


class Batcher:
    """Batches the calls of threads to one node. The number of calls is that of threads, which bounds it."""

    def __init__(self, open_stream: OpenStream) -> None:
        """Opens nothing before the first call."""
        self._open_stream = open_stream
        self._queue = CallQueue()
        # Notified when there may be a message to send. Reentrant, because a client that is not closed stops the batcher when
        # it is collected, which may be in the midst of this.
        self._changed = threading.Condition()
        self._stream: Any = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, request: pb.NextRequest, timeout: float) -> Outcome:
        """Sends a call and waits for its outcome."""
        now = time.monotonic()
        call = _Call(request, now + timeout)
        with self._changed:
            if self._closed:
                return Other.CLOSED
            if self._queue.is_unsupported(now):
                return Other.UNSUPPORTED
            generation = self._queue.enqueue(call)
            self._changed.notify()
        if generation is not None:
            self._begin(generation)
        try:
            call.wait(timeout)
        finally:
            if call.outcome is None:
                with self._changed:
                    sent = self._queue.abandon(call)
        return TimedOut(sent) if call.outcome is None else call.outcome

    def retire(self) -> None:
        """Ends the stream once its calls have ended; others go to the batcher that replaces this one."""
        with self._changed:
            self._queue.retire()
            self._changed.notify()

    def stop(self) -> None:
        """Ends all calls."""
        with self._changed:
            self._closed = True
            stream = self._stream
        if stream is not None:
            stream.cancel()

    def join(self, timeout: float) -> bool:
        """Waits for the end of the stream and its thread. Returns whether they have ended."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(max(timeout, 0.0))
        return not thread.is_alive()

    def _begin(self, generation: int) -> None:
        """Opens a stream, in a thread of its own."""
        thread = threading.Thread(target=self._serve, args=(generation,), name="seqsvr-stream", daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._end(generation, StreamEnd(End.NEVER_SENT, str(error)))

    def _serve(self, generation: int | None) -> None:
        """Runs streams until one ends without calls that need another one."""
        while generation is not None:
            generation = self._end(generation, self._run(generation))

    def _end(self, generation: int, end: StreamEnd) -> int | None:
        """Ends a stream and its calls. Returns the number of the next stream, if calls need one."""
        with self._changed:
            self._stream = None
            if self._closed:
                end = StreamEnd(End.STOPPED, "the client is closed")
            ended, following = self._queue.end(generation, end, time.monotonic())
            # The generator of the stream ends.
            self._changed.notify()
        for call, outcome in ended:
            call.complete(outcome)
        return following

    def _run(self, generation: int) -> StreamEnd:
        """Runs a stream until it ends."""
        try:
            stream = self._open_stream(self._messages(generation))
            with self._changed:
                self._stream = stream
                if self._closed:
                    stream.cancel()
            for response in stream:
                with self._changed:
                    calls = self._queue.take(response.tag)
                    if self._queue.has_pending:
                        self._changed.notify()
                if calls is None:
                    stream.cancel()
                    return StreamEnd(End.BROKE, "a response to a message that is not in flight")
                complete(calls, response)
        except grpc.RpcError as error:
            return StreamEnd.of(error)
        except ValueError as error:
            # grpcio raises it for a channel that is closed.
            return StreamEnd(End.NEVER_SENT, str(error))
        return StreamEnd(End.CLOSED, "closed by the node")

    def _messages(self, generation: int) -> Iterator[pb.NextStreamRequest]:
        """The messages of a stream, each made when the one before was sent."""
        while True:
            # Threads that can run enqueue their calls first: without it there are few calls in a message.
            time.sleep(0)
            with self._changed:
                while (message := self._queue.next_message(generation, time.monotonic())) is None:
                    self._changed.wait()
            if isinstance(message, Closed):
                return
            yield message
