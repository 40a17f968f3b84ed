"""A real cluster, `seqsvr dev`, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from types import TracebackType

READY_TIMEOUT = 60.0
"""How long a cluster may take until it is ready, in seconds. It takes less than one on a machine without other work."""

STARTS = 3
"""Most attempts to start a cluster: on a machine with much other work, a store may lose its majority in its first second."""


def program(binary: str | None) -> str:
    """The given path of `seqsvr`, or `$SEQSVR`, or the one in the `PATH`."""
    return binary or os.environ.get("SEQSVR") or "seqsvr"


def check(binary: str) -> None:
    """Raises FileNotFoundError without a binary."""
    if shutil.which(binary) is None:
        raise FileNotFoundError(f"no seqsvr at {binary!r}: name the program in $SEQSVR, or add it to the PATH")


def first_line(process: subprocess.Popen[str]) -> str:
    """The line that a cluster prints when it is ready; an empty text if it ends, or takes too long."""
    assert process.stdout is not None
    timer = threading.Timer(READY_TIMEOUT, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


class DevServer:
    """A cluster of three stores and two allocators on free ports, without data; it ends with the `with` block.

    allocs: `host:port` of the allocators.
    stores: `host:port` of the stores.
    http: `host:port` of the port for metrics and probes.
    section_size: number of neighbouring uids that move together.
    uid_end: the first uid that is outside.
    """

    def __init__(self, binary: str | None = None, *, args: tuple[str, ...] = ()) -> None:
        """Takes the path of `seqsvr`, by default `$SEQSVR` or the one in the `PATH`, and further arguments of `seqsvr dev`."""
        self.binary = program(binary)
        self._args = args

    def __enter__(self) -> DevServer:
        """Starts the cluster. Raises FileNotFoundError without a binary, RuntimeError if the cluster does not become ready."""
        check(self.binary)
        for _ in range(STARTS):
            try:
                self._start()
                return self
            except RuntimeError as error:
                failed = error
        raise failed

    def _start(self) -> None:
        command = [self.binary, "dev", "--ports", "random", "-o", "json", *self._args]
        # A file, because nothing would read a pipe.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        line = first_line(self._process)
        try:
            ready = json.loads(line)
            self.allocs = [str(node["grpc"]) for node in ready["allocs"]]
            self.stores = [str(node["grpc"]) for node in ready["stores"]]
            self.http = str(ready["http"])
            self.section_size = int(ready["section_size"])
            self.uid_end = int(ready["uid_end"])
        except (ValueError, KeyError):
            self.stop()
            with self._errors:
                self._errors.seek(0)
                message = line.strip() or self._errors.read().strip() or "without a message"
            raise RuntimeError(f"`{' '.join(command)}` has not become ready: {message}") from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stops the cluster."""
        self.stop()
        self._errors.close()

    @property
    def seed(self) -> str:
        """The address of one node, for a client."""
        return self.allocs[0]

    def run(self, *args: str) -> str:
        """Runs a command of the program, such as `series create`, against the cluster. Returns its output."""
        command = [self.binary, *args, "--addr", self.seed]
        done = subprocess.run(command, capture_output=True, timeout=60, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` failed with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def stop(self) -> None:
        """Stops the cluster; idempotent."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=READY_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
