"""Sets whose nodes are processes of their own, for what `seqsvr dev` cannot show: nodes that hang, and TLS."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from tests.conftest import BINARY, seqsvr

TIMEOUT = 60.0
"""How long a condition may take, in seconds: far longer than it needs."""


def until(what: str, is_true: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + TIMEOUT
    while not is_true():
        assert time.monotonic() < deadline, f"not within {TIMEOUT} s: {what}"
        time.sleep(0.001)


def free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


class Processes:
    """A set of one store and some allocators on free ports; it ends with the `with` block.

    allocs: `host:port` of the allocators.
    certs: the directory of the certificates of a set with TLS.
    """

    def __init__(self, directory: Path, *, allocs: int, tls: bool = False, config: str = "") -> None:
        """Writes the set file, and issues the certificates of a set with TLS; `config` is the text of a settings file."""
        ports = iter(free_ports(3 + 3 * allocs))
        self.directory, self.certs = directory, directory / "certs"
        self.allocs: list[str] = []
        store = [next(ports) for _ in range(3)]
        lines = [
            'name = "py"\nuids = "0..1000"\nsection_size = 100\nstep = 100',
            "" if tls else "plaintext = true",
            f'[[store]]\nid = 1\nname = "s1"\naddr = "127.0.0.1:{store[0]}"',
            f'raft = "127.0.0.1:{store[1]}"\nhttp = "127.0.0.1:{store[2]}"',
        ]
        for number in range(1, allocs + 1):
            addr, peer, http = (f"127.0.0.1:{next(ports)}" for _ in range(3))
            lines.append(f'[[alloc]]\nname = "a{number}"\naddr = "{addr}"\npeer = "{peer}"\nhttp = "{http}"')
            self.allocs.append(addr)
        self.at = ["--set", str(directory / "set.toml")]
        (directory / "set.toml").write_text("\n".join(lines) + "\n")
        (directory / "settings.toml").write_text(config)
        if tls:
            self.at += ["--certs", str(self.certs)]
            seqsvr("cert", "issue", "client/backend", *self.at)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        """Starts the nodes; does not wait for them."""
        store = ["store", "--id", "1", "--form", "--data", str(self.directory / "s1")]
        self._start("s1", store)
        for number in range(1, len(self.allocs) + 1):
            settings = ["--config", str(self.directory / "settings.toml")]
            self._start(f"a{number}", ["alloc", "--name", f"a{number}", "--cores", "1", *settings])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Ends the nodes; after a failure, shows the end of their logs."""
        for name, process in self._running.items():
            process.kill()
            process.wait()
            if error is not None:
                print(f"--- log of {name}\n{(self.directory / name).with_suffix('.log').read_text()[-2_000:]}")

    @contextmanager
    def hung(self, addr: str) -> Iterator[None]:
        """Has the allocator at an address hang in the `with` block."""
        pid = self._running[f"a{self.allocs.index(addr) + 1}"].pid
        os.kill(pid, signal.SIGSTOP)
        # Returns when all of its threads have stopped.
        os.waitpid(pid, os.WUNTRACED)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _start(self, name: str, command: Iterable[str]) -> None:
        with (self.directory / name).with_suffix(".log").open("wb") as log:
            self._running[name] = subprocess.Popen([BINARY, *command, *self.at], stdout=log, stderr=log)
