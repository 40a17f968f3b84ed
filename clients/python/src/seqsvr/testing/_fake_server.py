"""A cluster in memory, `seqsvr fake`, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from types import TracebackType

from seqsvr.testing._dev import check, first_line, program


class FakeServer:
    """A cluster of the endpoints of real nodes and counters in memory, on free ports; it ends with the `with` block.

    allocs: URLs of the ports for gRPC and JSON, of the first set.
    redis: `host:port` of the Redis ports, of the first set.
    ready: the line that the cluster printed when it was ready.
    """

    def __init__(self, binary: str | None = None, *, args: tuple[str, ...] = ()) -> None:
        """Takes the path of `seqsvr`, by default `$SEQSVR` or the one in the `PATH`, and further arguments of `seqsvr fake`."""
        self.binary = program(binary)
        self._args = args

    def __enter__(self) -> FakeServer:
        """Starts the cluster. Raises FileNotFoundError without a binary, RuntimeError if the cluster does not become ready."""
        check(self.binary)
        command = [self.binary, "fake", "-o", "json", *self._args]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = first_line(self._process)
        try:
            self.ready = json.loads(line)
            self.allocs = [str(node["grpc"]) for node in self.ready["allocs"]]
            self.redis = [str(node["redis"]) for node in self.ready["allocs"]]
        except (ValueError, KeyError):
            self.stop()
            raise RuntimeError(f"`{' '.join(command)}` has not become ready: {line.strip() or 'see stderr'}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stops the cluster."""
        self.stop()

    @property
    def seed(self) -> str:
        """The address of one node, for a client."""
        return self.allocs[0]

    def inject(self, fault: str, **fields: str | int | bool) -> None:
        """Injects a fault: `inject("take_over", uid=42, to="a2")`. Raises ValueError if the cluster does not know it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"fault": fault, **fields}) + "\n")
        self._process.stdin.flush()
        response = json.loads(self._process.stdout.readline() or '{"error": "the cluster has ended"}')
        if "error" in response:
            raise ValueError(response["error"])

    def stop(self) -> None:
        """Stops the cluster; idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
