"""Driver of the conformance suite, protocol 1: runs calls of the Python SDK for a runner of rows.

    python conformance_driver.py [--asyncio]

JSON, one object a line: requests on stdin, responses on stdout in the order of completion. 64-bit values are decimal strings.
The first line is `{"hello":1,"sdk":...,"version":...,"features":[...]}`. A request is
`{"id":"2","op":"next","client":"c","uid":"42","count":1,"deadline_ms":800}`; its response has the `id`, and `ok` or `error`.
`burst` writes a line `{"id":...,"call":{"uid":...,"start_ns":...,"end_ns":...,"ok":...}}` for each call, with times of
CLOCK_MONOTONIC, before its response `{"id":...,"ok":{"done":n}}`. The driver ends when stdin does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

import seqsvr
from seqsvr import Allocation, AsyncClient, CallEvent, Client, ConnectError, Current, Observer, Refused, SeqError, Tls


class UnsupportedError(Exception):
    """The driver does not have an op."""


KINDS: list[tuple[type[BaseException], str]] = [
    (seqsvr.UidOutside, "uid_outside"),
    (seqsvr.CountOutOfRange, "count"),
    (seqsvr.SetUnavailable, "set_unavailable"),
    (seqsvr.Refused, "refused"),
    (seqsvr.Unreachable, "unreachable"),
    (seqsvr.DeadlineExceeded, "deadline"),
    (seqsvr.BadAnswer, "bad_answer"),
    (seqsvr.ClientClosed, "closed"),
    (seqsvr.ConnectError, "connect"),
    (asyncio.CancelledError, "cancelled"),
    (UnsupportedError, "unsupported"),
]
"""The kind of each error; a subclass before its base."""

OPERATIONS = frozenset(
    ("open", "next", "next_many", "current", "current_many", "advance", "burst", "cancel", "reload", "stats", "fork", "close")
)

OPERATIONS_OF_KEYS = frozenset(("next_key", "next_keys", "current_key", "current_keys", "advance_key"))

THREADS = 512
"""Most calls at a time of the client for threads."""

Json = dict[str, Any]


class Counters(Observer):
    """Counts the events of a client, for `stats`."""

    def __init__(self) -> None:
        """Starts at 0."""
        self._lock = threading.Lock()
        self.counts = dict.fromkeys(
            ("calls", "attempts", "retries", "budget_refused", "connections", "pending", "route_adoptions"), 0
        )

    def _add(self, name: str, number: int = 1) -> None:
        with self._lock:
            self.counts[name] += number

    def call_started(self, method: str, items: int) -> None:
        """See `Observer`."""
        self._add("calls")
        self._add("pending")

    def call_ended(self, call: Any, event: CallEvent) -> None:
        """See `Observer`."""
        self._add("pending", -1)
        self._add("attempts", event.attempts)

    def retrying(self, call: Any, reason: str, wait: float) -> None:
        """See `Observer`."""
        self._add("retries")

    def budget_refused(self, call: Any, set: str) -> None:
        """See `Observer`."""
        self._add("budget_refused")

    def routes_adopted(self, set: str, version: int) -> None:
        """See `Observer`."""
        self._add("route_adoptions")

    def connection_opened(self, addr: str) -> None:
        """See `Observer`."""
        self._add("connections")

    def connection_lost(self, addr: str) -> None:
        """See `Observer`."""
        self._add("connections", -1)


class Opened:
    """A client of either kind, with one way to make its calls."""

    def __init__(self, request: Json, *, is_async: bool, threads: ThreadPoolExecutor) -> None:
        """Opens a client."""
        self.counters = Counters()
        self.tasks: set[asyncio.Task[None]] = set()
        self._threads = threads
        tls = request.get("tls")
        options: Json = {
            "deadline": request.get("deadline_ms", 5_000) / 1_000,
            "coalesce": request.get("coalesce", True),
            "observer": self.counters,
            "tls": Tls(tls["ca"], tls.get("cert"), token=request.get("token")) if tls else None,
        }
        self.client: Client | AsyncClient = (AsyncClient if is_async else Client)(request["seeds"], **options)

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Makes a call, in a thread of its own if the client is one for threads."""
        function: Callable[..., Any] = getattr(self.client, method)
        if isinstance(self.client, AsyncClient):
            return await function(*args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **options))


class Driver:
    """Executes requests, each in a task of its own."""

    def __init__(self, *, is_async: bool) -> None:
        """Opens clients for asyncio, or for threads."""
        self._is_async = is_async
        self._threads = ThreadPoolExecutor(THREADS)
        self._clients: dict[str, Opened] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Executes the requests of stdin."""
        features = ["stream", "advance", "tls", "token", "reload", "stats", "keys", "cancel" if self._is_async else "fork"]
        sdk = "python-asyncio" if self._is_async else "python"
        write({"hello": 1, "sdk": sdk, "version": seqsvr.__version__, "features": features})
        async for line in lines():
            request = json.loads(line)
            task = asyncio.create_task(self._respond(request))
            self._tasks[request["id"]] = task
            opened = self._clients.get(request.get("client", ""))
            if opened is not None and request["op"] not in ("close", "cancel", "stats"):
                opened.tasks.add(task)
                task.add_done_callback(opened.tasks.discard)
        for opened in self._clients.values():
            await opened.call("close")
        await asyncio.gather(*self._tasks.values())

    async def _respond(self, request: Json) -> None:
        try:
            if request["op"] not in OPERATIONS | OPERATIONS_OF_KEYS:
                raise UnsupportedError(f"this driver has no op {request['op']!r}")
            if request["op"] != "open" and request["client"] not in self._clients:
                raise seqsvr.ClientClosed
            operation: Callable[[Json], Coroutine[Any, Any, Json]] = getattr(self, f"_{request['op']}")
            response = {"ok": await operation(request)}
        except (Exception, asyncio.CancelledError) as error:
            response = {"error": failure(error)}
        self._tasks.pop(request["id"], None)
        write({"id": request["id"], **response})

    async def _open(self, request: Json) -> Json:
        try:
            opened = Opened(request, is_async=self._is_async, threads=self._threads)
        except (OSError, ValueError) as error:
            # A file of a certificate that cannot be used.
            raise ConnectError(str(error), retryable=False) from error
        self._clients[request["client"]] = opened
        await opened.call("connect")
        return {}

    async def _next(self, request: Json) -> Json:
        taken = await self._call(request, "next_n", int(request["uid"]), request.get("count", 1))
        return allocation(taken)

    async def _next_many(self, request: Json) -> Json:
        results = await self._call(request, "next_many", uids(request), request.get("counts"))
        return {"items": [item(result, allocation) for result in results]}

    async def _current(self, request: Json) -> Json:
        return current(await self._call(request, "current", int(request["uid"])))

    async def _current_many(self, request: Json) -> Json:
        results = await self._call(request, "current_many", uids(request))
        return {"items": [item(result, current) for result in results]}

    async def _advance(self, request: Json) -> Json:
        return {"epoch": str(await self._call(request, "advance", int(request["uid"]), int(request["to"])))}

    async def _next_key(self, request: Json) -> Json:
        return allocation(await self._call_keys(request, "next_n", key(request["key"]), request.get("count", 1)))

    async def _next_keys(self, request: Json) -> Json:
        of = keys(request)
        results = await self._call_keys(request, "next_many", of, [request.get("count", 1)] * len(of))
        return {"items": [item(result, allocation) for result in results]}

    async def _current_key(self, request: Json) -> Json:
        return current(await self._call_keys(request, "current", key(request["key"])))

    async def _current_keys(self, request: Json) -> Json:
        results = await self._call_keys(request, "current_many", keys(request))
        return {"items": [item(result, current) for result in results]}

    async def _advance_key(self, request: Json) -> Json:
        epoch = await self._call_keys(request, "advance", key(request["key"]), int(request["to"]))
        return {"epoch": str(epoch)}

    async def _burst(self, request: Json) -> Json:
        """Makes calls from several callers, each of which waits for its response before its next call."""
        draw, drawn = random.Random(int(request["seed"])), uids(request)
        todo = SimpleQueue[int]()
        for _ in range(request["calls"]):
            todo.put(draw.choice(drawn))
        client, options = self._clients[request["client"]].client, deadline(request)
        is_quiet, failed = request.get("quiet", False), SimpleQueue[SeqError]()
        loop = asyncio.get_running_loop()

        async def task(client: AsyncClient) -> None:
            while not todo.empty():
                call: Json = {"uid": str(uid := todo.get()), "start_ns": str(time.monotonic_ns())}
                try:
                    if (keyspace := request.get("keyspace")) is None:
                        taken = await client.next(uid, **options)
                    else:
                        taken = await (await client.keyspace(keyspace, **options)).next(f"key:{uid}", **options)
                    if is_quiet:
                        continue
                    call["ok"] = allocation(taken)
                except SeqError as error:
                    failed.put(error)
                    call["error"] = failure(error)
                if not is_quiet:
                    write({"id": request["id"], "call": {**call, "end_ns": str(time.monotonic_ns())}})

        def thread(client: Client) -> None:
            while True:
                try:
                    call: Json = {"uid": str(uid := todo.get_nowait()), "start_ns": str(time.monotonic_ns())}
                except Empty:
                    return
                try:
                    if (keyspace := request.get("keyspace")) is None:
                        taken = client.next(uid, **options)
                    else:
                        taken = client.keyspace(keyspace, **options).next(f"key:{uid}", **options)
                    if is_quiet:
                        continue
                    call["ok"] = allocation(taken)
                except SeqError as error:
                    failed.put(error)
                    call["error"] = failure(error)
                if not is_quiet:
                    line = {"id": request["id"], "call": {**call, "end_ns": str(time.monotonic_ns())}}
                    loop.call_soon_threadsafe(write, line)

        def caller() -> Awaitable[None]:
            if isinstance(client, AsyncClient):
                return task(client)
            return loop.run_in_executor(self._threads, thread, client)

        await asyncio.gather(*[caller() for _ in range(request["concurrency"])])
        return {"done": request["calls"], "failed": failed.qsize()}

    async def _cancel(self, request: Json) -> Json:
        if task := self._tasks.get(request["target"]):
            task.cancel()
        return {}

    async def _reload(self, request: Json) -> Json:
        await self._clients[request["client"]].call("reload")
        return {}

    async def _stats(self, request: Json) -> Json:
        counts = dict(self._clients[request["client"]].counters.counts)
        if self._is_async:
            return {**counts, "tasks": len(asyncio.all_tasks())}
        return {**counts, "threads": threading.active_count()}

    async def _fork(self, request: Json) -> Json:
        client = self._clients[request["client"]].client
        assert isinstance(client, Client), "the event loop is the parent's"
        text = await asyncio.get_running_loop().run_in_executor(self._threads, in_child, client, int(request["uid"]))
        if not text:
            raise RuntimeError("the child has died")
        response: Json = json.loads(text)
        if "error" in response:
            raise ForkedError(response["error"])
        return dict(response["ok"])

    async def _close(self, request: Json) -> Json:
        opened = self._clients[request["client"]]
        if opened.tasks and request.get("drain_ms"):
            await asyncio.wait(opened.tasks, timeout=request["drain_ms"] / 1_000)
        await opened.call("close")
        return {}

    async def _call(self, request: Json, method: str, *args: Any) -> Any:
        return await self._clients[request["client"]].call(method, *args, **deadline(request))

    async def _call_keys(self, request: Json, method: str, *args: Any) -> Any:
        """Makes a call for keys, as `_call`."""
        keyspace = await self._call(request, "keyspace", request["keyspace"])
        function: Callable[..., Any] = getattr(keyspace, method)
        options = deadline(request)
        if self._is_async:
            return await function(*args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **options))


class ForkedError(SeqError):
    """The error of a call in a child."""

    def __init__(self, error: Json) -> None:
        """Keeps the error as the child has written it."""
        super().__init__(error["message"], reason=error.get("reason", "OTHER"), retryable=False)
        self.error = error


def in_child(client: Client, uid: int) -> str:
    """Makes one call in a child that shares the client. Returns its response; empty if the child dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        response: Json = {}
        try:
            response = {"ok": allocation(client.next(uid))}
        except BaseException as error:
            response = {"error": failure(error)}
        finally:
            os.write(writing, json.dumps(response).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def deadline(request: Json) -> dict[str, float]:
    """The deadline of a call, if the request has one."""
    return {"deadline": request["deadline_ms"] / 1_000} if "deadline_ms" in request else {}


def uids(request: Json) -> list[int]:
    """The uids of a request."""
    return [int(uid) for uid in request["uids"]]


def key(value: Any) -> str | bytes:
    """A key: a text, or an object with the bytes in hex."""
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


def keys(request: Json) -> list[str | bytes]:
    """The keys of a request."""
    return [key(value) for value in request["keys"]]


def item(result: Any, encode: Callable[[Any], Json]) -> Json:
    """The result of an item."""
    return {"error": failure(result)} if isinstance(result, SeqError) else {"ok": encode(result)}


def allocation(taken: Allocation) -> Json:
    """Numbers."""
    numbers = {"first": taken.first, "value": taken.value, "prev": taken.prev, "epoch": taken.epoch}
    return {**{key: str(number) for key, number in numbers.items()}, "count": taken.count, "lost": taken.lost}


def current(read: Current) -> Json:
    """The result of a read."""
    return {"value": str(read.value), "exact": read.exact, "epoch": str(read.epoch)}


def failure(error: BaseException) -> Json:
    """An error."""
    if isinstance(error, ForkedError):
        return error.error
    retry_after = error.retry_after if isinstance(error, Refused) else None
    return {
        "kind": next((kind for of, kind in KINDS if isinstance(error, of)), "other"),
        "reason": getattr(error, "reason", ""),
        "code": getattr(error, "code", ""),
        "retryable": getattr(error, "retryable", False),
        # A call that was abandoned may have been sent.
        "may_have_applied": getattr(error, "may_have_applied", isinstance(error, asyncio.CancelledError)),
        "retry_after_ms": None if retry_after is None else round(retry_after * 1_000),
        "attempts": getattr(error, "attempts", 0),
        "message": str(error) or type(error).__name__,
    }


def write(line: Json) -> None:
    """Writes a line, in the event loop alone."""
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


async def lines() -> AsyncIterator[bytes]:
    """The lines of stdin, up to 16 MiB each."""
    reader = asyncio.StreamReader(limit=16 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


if __name__ == "__main__":
    asyncio.run(Driver(is_async="--asyncio" in sys.argv[1:]).run())
