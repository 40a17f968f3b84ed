"""Clients with certificates, against one store and one allocator over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqsvr import AsyncClient, Client, ConnectError, SeqError, Tls, _tls
from seqsvr.testing import FakeCluster
from tests.conftest import BINARY, seqsvr
from tests.servers import Processes, until


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    directory = tmp_path_factory.mktemp("tls")
    token = json.loads(seqsvr("tenant", "token", "push", "-o", "json"))
    (directory / "token").write_text(token["token"])
    (directory / "tenants.toml").write_text(
        f"""[[tenant]]
name = "push"
uids = ["0..100"]
tokens = ["{token["hash"]}"]
certificates = ["backend"]
"""
    )
    config = f'[tenants]\nfile = "{directory / "tenants.toml"}"\n'
    with Processes(directory, allocs=1, tls=True, config=config) as processes:

        def serves() -> bool:
            try:
                with Client(*urls(processes), tls=holder(processes), deadline=5) as client:
                    return client.next(42).value > 0
            except SeqError:
                return False

        until("the set serves", serves)
        yield processes


def urls(nodes: Processes) -> list[str]:
    return [f"https://{addr}" for addr in nodes.allocs]


def holder(nodes: Processes) -> Tls:
    return Tls(nodes.certs / "ca.crt", nodes.certs / "client.backend.pem")


def refusal(*seeds: str, tls: Tls | None) -> str:
    """The text of the error with which clients of both kinds do not connect."""
    texts = []
    with Client(*seeds, tls=tls, deadline=2) as client, pytest.raises(ConnectError) as refused:
        client.next(42)
    texts.append(str(refused.value))

    async def once() -> None:
        async with AsyncClient(*seeds, tls=tls, deadline=2) as client:
            await client.next(42)

    with pytest.raises(ConnectError) as refused:
        asyncio.run(once())
    texts.append(str(refused.value))
    assert texts[0] == texts[1]
    return texts[0]


def test_a_client_with_a_certificate_is_served(nodes: Processes) -> None:
    with Client(*urls(nodes), tls=holder(nodes), deadline=5) as client:
        first = client.next(42)
        assert client.next(42).value == first.value + 1

    async def once() -> int:
        async with AsyncClient(*urls(nodes), tls=holder(nodes), deadline=5) as client:
            return (await client.next(42)).value

    assert asyncio.run(once()) > first.value


def test_a_client_with_a_token_is_served_within_its_quotas(nodes: Processes) -> None:
    token = (nodes.directory / "token").read_text()
    tls = Tls(nodes.certs / "ca.crt", token=token)
    assert token not in repr(tls)
    for coalesce in (True, False):
        with Client(*urls(nodes), tls=tls, deadline=5, coalesce=coalesce) as client:
            assert client.next(43).value > 0
            with pytest.raises(SeqError, match="is not one of the tenant"):
                client.next(100)

    async def once() -> int:
        async with AsyncClient(*urls(nodes), tls=tls, deadline=5) as client:
            return (await client.next(43)).value

    assert asyncio.run(once()) > 1
    wrong = Tls(nodes.certs / "ca.crt", token="push.wrong")
    with Client(*urls(nodes), tls=wrong, deadline=2) as client, pytest.raises(SeqError) as refused:
        client.next(43)
    assert "push.wrong" not in str(refused.value)


def test_certificates_are_read_again_when_they_change(nodes: Processes, tmp_path: Path) -> None:
    """Calls go on while a certificate is renewed; those after it are made with the new one."""
    for name in ("ca.crt", "client.backend.pem"):
        shutil.copy(nodes.certs / name, tmp_path / name)
    tls = Tls(tmp_path / "ca.crt", tmp_path / "client.backend.pem")
    stop = threading.Event()

    def take(coalesce: bool) -> list[int]:
        taken = []
        with Client(*urls(nodes), tls=tls, coalesce=coalesce) as client:
            clients.append(client)
            while not stop.is_set():
                taken.append(client.next(7).value)
        return taken

    clients: list[Client] = []
    with ThreadPoolExecutor(2) as pool:
        takers = [pool.submit(take, coalesce) for coalesce in (True, False)]
        until("calls are made", lambda: len(clients) == 2 and all(client._channels for client in clients))
        before = [dict(client._channels) for client in clients]
        # Half of a file changes nothing.
        whole = (tmp_path / "client.backend.pem").read_text()
        for client in clients:
            replace(tmp_path / "client.backend.pem", whole[: len(whole) // 2])
            with pytest.raises(ValueError, match=r"client\.backend\.pem"):
                client.reload()
        seqsvr("cert", "issue", "client/backend", *nodes.at)
        replace(tmp_path / "client.backend.pem", (nodes.certs / "client.backend.pem").read_text())

        def renewed() -> bool:
            pairs = zip(clients, before, strict=True)
            return all(client._channels and client._channels != channels for client, channels in pairs)

        until("new connections are used", renewed)
        stop.set()
        values = sorted(value for taker in takers for value in taker.result())
    assert values == sorted(set(values)), "no call has failed, and no number came twice"


async def test_certificates_of_asyncio_are_read_again(nodes: Processes, tmp_path: Path) -> None:
    for name in ("ca.crt", "client.backend.pem"):
        shutil.copy(nodes.certs / name, tmp_path / name)
    tls = Tls(tmp_path / "ca.crt", tmp_path / "client.backend.pem")
    async with AsyncClient(*urls(nodes), tls=tls) as client:
        calls = [asyncio.create_task(client.next(8)) for _ in range(100)]
        await asyncio.sleep(0)
        before = dict(client._channels)
        await client.reload()
        assert not client._channels
        taken = await asyncio.gather(*calls)
        assert sorted({each.value for each in taken}) == sorted(each.value for each in taken)
        assert (await client.next(8)).value > 100
        assert client._channels != before
        replace(tmp_path / "ca.crt", (nodes.certs / "ca.crt").read_text() + "\n")
        before = dict(client._channels)
        while client._channels == before:
            await client.next(8)


def test_a_client_without_a_certificate_is_told_so(nodes: Processes, tmp_path: Path) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ConnectError, match="pass tls="):
            kind(*urls(nodes))
    assert refusal(*nodes.allocs, tls=None) == (
        f"no seed answered; {nodes.allocs[0]} takes connections over TLS only: pass tls=Tls(ca, certificate)"
    )
    with FakeCluster() as fake:
        assert "speaks no TLS: name it without https://" in refusal(fake.seed, tls=holder(nodes))


def test_files_that_cannot_be_used_are_named(nodes: Processes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ca\.crt has no section -----BEGIN PRIVATE KEY-----"):
        Client(*urls(nodes), tls=Tls(nodes.certs / "ca.crt", nodes.certs / "ca.crt"))
    with pytest.raises(OSError, match="nowhere"):
        Client(*urls(nodes), tls=Tls("nowhere", nodes.certs / "client.backend.pem"))
    seqsvr("cert", "issue", "client/other", *nodes.at)
    key, certificate = (sections((nodes.certs / f"client.{name}.pem").read_text()) for name in ("backend", "other"))
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(key["PRIVATE KEY"] + certificate["CERTIFICATE"])
    with pytest.raises(ValueError, match=r"mixed\.pem .*its private key is not that of its certificate"):
        Client(*urls(nodes), tls=Tls(nodes.certs / "ca.crt", mixed))


def test_a_wrong_host_is_named(nodes: Processes) -> None:
    port = nodes.allocs[0].rpartition(":")[2]
    text = refusal(f"https://localhost:{port}", tls=holder(nodes))
    assert f"the certificate of localhost:{port} is not for the host 'localhost': name the node by a host in it" in text


def test_an_unknown_authority_is_named(nodes: Processes, tmp_path: Path) -> None:
    seqsvr("cert", "ca", "--cluster", "py", "--certs", str(tmp_path))
    tls = Tls(tmp_path / "ca.crt", nodes.certs / "client.backend.pem")
    text = refusal(*urls(nodes), tls=tls)
    assert f"is of an authority that {tmp_path / 'ca.crt'} does not have: pass the ca.crt of its cluster" in text
    # The server does not know the authority of the client.
    seqsvr("cert", "issue", "client/backend", *nodes.at[:2], "--certs", str(tmp_path))
    tls = Tls(nodes.certs / "ca.crt", tmp_path / "client.backend.pem")
    assert f"refuses the certificate {tls.certificate}" in refusal(*urls(nodes), tls=tls)


def test_an_expired_certificate_is_named(nodes: Processes, tmp_path: Path) -> None:
    if shutil.which("faketime") is None:
        assert not os.environ.get("CI"), "faketime is missing"
        pytest.skip("faketime is not installed")
    for name in ("ca.crt", "ca.key"):
        shutil.copy(nodes.certs / name, tmp_path / name)
    for holders in ("client/backend", "alloc/py/a1"):
        command = ["faketime", "-f", "-2d", BINARY, "cert", "issue", holders, "--days", "1", *nodes.at[:2], "--certs", tmp_path]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    tls = Tls(nodes.certs / "ca.crt", tmp_path / "client.backend.pem")
    text = refusal(*urls(nodes), tls=tls)
    assert f"refuses the certificate {tls.certificate}, which has expired: issue a new one" in text
    (certificate,) = tmp_path.glob("alloc*.pem")
    with expired_server(certificate) as addr:
        text = refusal(f"https://{addr}", tls=holder(nodes))
    assert f"the certificate of {addr} has expired: issue a new one on the node" in text


@contextmanager
def expired_server(certificate: Path) -> Iterator[str]:
    """A server that makes handshakes with a certificate. Its value is the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def sections(pem: str) -> dict[str, str]:
    """The sections of a PEM file by name, the last one of each."""
    found = {}
    for part in pem.split("-----BEGIN ")[1:]:
        found[part.partition("-----")[0]] = f"-----BEGIN {part}"
    return found


def replace(path: Path, text: str) -> None:
    """Replaces a file at once, as programs that renew certificates do."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def test_a_node_that_is_down_has_no_diagnosis(nodes: Processes) -> None:
    assert _tls.diagnose("127.0.0.1:1", holder(nodes)) is None
    assert _tls.diagnose(nodes.allocs[0], holder(nodes)) is None
