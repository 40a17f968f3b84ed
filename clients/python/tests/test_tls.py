"""Clients with certificates, against one store and one allocator over TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from seqsvr import AsyncClient, Client, ConnectError, SeqError, Tls
from tests.conftest import BINARY


def free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The allocator's URL, and the directory of the certificates."""
    directory = tmp_path_factory.mktemp("tls")
    addrs = [f"127.0.0.1:{port}" for port in free_ports(6)]
    file, certs = directory / "set.toml", directory / "certs"
    file.write_text(
        f"""name = "tls"
uids = "0..1000"
section_size = 100
step = 100
[[store]]
id = 1
name = "s1"
addr = "{addrs[0]}"
raft = "{addrs[5]}"
http = "{addrs[1]}"
[[alloc]]
name = "a1"
addr = "{addrs[2]}"
peer = "{addrs[4]}"
http = "{addrs[3]}"
"""
    )
    at = ["--set", str(file), "--certs", str(certs)]
    made = subprocess.run([BINARY, "tenant", "token", "push", "-o", "json"], check=True, capture_output=True, timeout=60)
    token = json.loads(made.stdout)
    (directory / "token").write_text(token["token"])
    (directory / "tenants.toml").write_text(
        f"""[[tenant]]
name = "push"
uids = ["0..100"]
tokens = ["{token["hash"]}"]
certificates = ["backend"]
"""
    )
    (directory / "settings.toml").write_text(f'[tenants]\nfile = "{directory / "tenants.toml"}"\n')
    subprocess.run([BINARY, "cert", "issue", "client/backend", *at], check=True, capture_output=True, timeout=60)
    commands = [
        ["store", "--id", "1", "--form", "--data", str(directory / "s1")],
        ["alloc", "--name", "a1", "--cores", "1", "--config", str(directory / "settings.toml")],
    ]
    with ExitStack() as running:
        for command in commands:
            process = subprocess.Popen([BINARY, *command, *at], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.enter_context(process)
            running.callback(process.terminate)
        yield f"https://{addrs[2]}", certs


def holder(certs: Path) -> Tls:
    return Tls(certs / "ca.crt", certs / "client.backend.pem")


def test_a_client_with_a_certificate_is_served(place: tuple[str, Path]) -> None:
    url, certs = place
    until = time.monotonic() + 60
    while True:
        try:
            with Client(url, tls=holder(certs), deadline=5) as client:
                first = client.next(42)
                assert client.next(42).value == first.value + 1
                break
        except ConnectError:
            # The servers are starting.
            if time.monotonic() > until:
                raise

    async def once() -> int:
        async with AsyncClient(url, tls=holder(certs), deadline=5) as client:
            return (await client.next(42)).value

    assert asyncio.run(once()) > first.value


def test_a_client_with_a_token_is_served_within_its_quotas(place: tuple[str, Path]) -> None:
    url, certs = place
    token = (certs.parent / "token").read_text()
    tls = Tls(certs / "ca.crt", token=token)
    assert token not in repr(tls)
    with Client(url, tls=tls, deadline=5) as client:
        assert client.next(43).value > 0
        with pytest.raises(SeqError, match="is not one of the tenant"):
            client.next(100)

    async def once() -> int:
        async with AsyncClient(url, tls=tls, deadline=5) as client:
            return (await client.next(43)).value

    assert asyncio.run(once()) > 1
    with Client(url, tls=Tls(certs / "ca.crt", token="push.wrong"), deadline=2) as client, pytest.raises(SeqError):
        client.next(43)


def test_a_client_without_one_is_not(place: tuple[str, Path]) -> None:
    url, certs = place
    with pytest.raises(ConnectError, match="pass tls="):
        Client(url)
    with pytest.raises(ConnectError, match="pass tls="):
        AsyncClient(url)
    with Client(url.removeprefix("https://"), deadline=2) as client, pytest.raises(SeqError):
        client.next(42)
    with pytest.raises(ValueError, match=r"ca\.crt has no section -----BEGIN PRIVATE KEY-----"):
        Client(url, tls=Tls(certs / "ca.crt", certs / "ca.crt"))
    with pytest.raises(OSError, match="nowhere"):
        Client(url, tls=Tls("nowhere", certs / "client.backend.pem"))
