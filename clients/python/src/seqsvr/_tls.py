"""Certificates of a client: files that are read again when they change, and plain words for what is wrong with them."""

from __future__ import annotations

import logging
import math
import os
import socket
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path

import grpc

CHECK_INTERVAL = 1.0
"""Interval at which a client in use looks whether the files have changed, in seconds."""

REPLACED_FOR = 60.0
"""How long a client keeps a connection with the certificates before, in seconds: longer than calls that are in flight."""

DIAGNOSIS_TIMEOUT = 1.0
"""How long a handshake is waited for that shows why a node was not reached, in seconds: as a connection's timeout."""

logger = logging.getLogger("seqsvr")


@dataclass(frozen=True)
class Tls:
    """What a client proves its identity with: a certificate, or the token of a tenant.

    ca: the certificates to trust, `ca.crt`, as `seqsvr cert` writes it.
    certificate: the client's private key and its certificate in one file, such as `client.backend.pem`.
    token: the token of a tenant, as `seqsvr tenant token` makes it; it is in no representation of the object.

    A client in use reads the files again within a second of their change, and uses them for new connections.
    """

    ca: str | Path
    certificate: str | Path | None = None
    token: str | None = field(default=None, repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        """What grpcio takes. Raises OSError for a file that cannot be read, ValueError for one that cannot be used."""
        own = None if self.certificate is None else _read(self.certificate, b"CERTIFICATE", b"PRIVATE KEY")
        authorities = _read(self.ca, b"CERTIFICATE")
        # grpcio takes anything, and fails later without a cause.
        self.context()
        channel = grpc.ssl_channel_credentials(authorities, private_key=own, certificate_chain=own)
        if self.token is None:
            return channel
        return grpc.composite_channel_credentials(channel, grpc.access_token_call_credentials(self.token))

    def context(self) -> ssl.SSLContext:
        """The same for `ssl`. Raises as `credentials`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["h2"])
        path = self.ca
        try:
            context.load_verify_locations(path)
            if self.certificate is not None:
                path = self.certificate
                # No prompt for the password of an encrypted key.
                context.load_cert_chain(path, password="")
        except ssl.SSLError as error:
            raise ValueError(f"{path} is no usable PEM file: {_unusable(error)}") from error
        return context


class Certificates:
    """The credentials of a client, as its files have them. Its users serialise the access."""

    def __init__(self, tls: Tls) -> None:
        """Reads the files. Raises as `Tls.credentials`."""
        self.tls = tls
        self._files = self._stamps()
        self.credentials = tls.credentials()
        self._check_at = 0.0
        # The last diagnosis of an address, and its time.
        self._diagnoses: dict[str, tuple[float, str | None]] = {}

    def is_due(self, now: float) -> bool:
        """Whether the files are to be looked at again."""
        return now >= self._check_at

    def renew(self, now: float) -> bool:
        """Reads the files again if they have changed. Returns whether they are used now; logs files that cannot be."""
        self._check_at = now + CHECK_INTERVAL
        if self._stamps() == self._files:
            return False
        try:
            self.reload()
        except (OSError, ValueError) as error:
            logger.warning("changed certificates are not used, and those before go on: %s", error)
            return False
        return True

    def reload(self) -> None:
        """Reads the files again. Raises as `Tls.credentials`."""
        self._files = self._stamps()
        self.credentials = self.tls.credentials()

    def diagnose(self, addr: str) -> str | None:
        """Diagnoses the failure of a connection; see `diagnose`. Many calls that fail make one handshake a second."""
        now = time.monotonic()
        at, cause = self._diagnoses.get(addr, (-math.inf, None))
        if now - at >= DIAGNOSIS_TIMEOUT:
            cause = diagnose(addr, self.tls)
            self._diagnoses[addr] = (time.monotonic(), cause)
        return cause

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in (self.tls.ca, self.tls.certificate) if path is not None]


def diagnose(addr: str, tls: Tls | None, timeout: float = DIAGNOSIS_TIMEOUT) -> str | None:
    """Repeats the handshake with a node, for the cause of its failure in plain words, with the next step.

    Returns None if TLS is not the cause.
    """
    host, _, port = addr.rpartition(":")
    host = host.strip("[]")
    try:
        context = _unchecked() if tls is None else tls.context()
        tcp = socket.create_connection((host, int(port)), timeout)
        with tcp, context.wrap_socket(tcp, server_hostname=host) as stream:
            if tls is None:
                return f"{addr} takes connections over TLS only: pass tls=Tls(ca, certificate)"
            # With TLS 1.3 a server refuses the client's certificate after the handshake.
            stream.recv(1)
    except ssl.SSLCertVerificationError as error:
        assert tls is not None, "an unchecked certificate is not verified"
        return _unverified(addr, host, tls, error)
    except ssl.SSLError as error:
        return None if tls is None else _refused(addr, tls, error)
    except (OSError, ValueError):
        pass
    return None


def _unverified(addr: str, host: str, tls: Tls, error: ssl.SSLCertVerificationError) -> str:
    """The words for a server's certificate that is not accepted here, by the codes of OpenSSL."""
    if error.verify_code in (62, 64):
        return (
            f"the certificate of {addr} is not for the host {host!r}: name the node by a host in its certificate, "
            "or issue the certificate for this host"
        )
    if error.verify_code == 10:
        return f"the certificate of {addr} has expired: issue a new one on the node, with `seqsvr cert issue`"
    if error.verify_code == 9:
        return f"the certificate of {addr} is not valid yet: compare the clocks of this machine and of the node"
    if error.verify_code in (7, 18, 19, 20, 21):
        return f"the certificate of {addr} is of an authority that {tls.ca} does not have: pass the ca.crt of its cluster"
    return f"the certificate of {addr} is not accepted: {error.verify_message}"


def _refused(addr: str, tls: Tls, error: ssl.SSLError) -> str | None:
    """The words for a handshake that the server refused, by the names of OpenSSL."""
    name = error.reason or ""
    if "WRONG_VERSION_NUMBER" in name or "RECORD_LAYER_FAILURE" in name:
        return f"{addr} speaks no TLS: name it without https:// and make the client without tls"
    if "CERTIFICATE_REQUIRED" in name or ("HANDSHAKE_FAILURE" in name and tls.certificate is None):
        return (
            f"{addr} requires a certificate of the client: pass tls=Tls(ca, certificate), from `seqsvr cert issue client/NAME`"
        )
    if "CERTIFICATE_EXPIRED" in name:
        return f"{addr} refuses the certificate {tls.certificate}, which has expired: issue a new one, with `seqsvr cert issue`"
    if "CERTIFICATE_REVOKED" in name:
        return f"{addr} refuses the certificate {tls.certificate}, which is revoked: issue a new one, with `seqsvr cert issue`"
    if "UNKNOWN_CA" in name:
        return f"{addr} refuses the certificate {tls.certificate}, which is of another authority than its own: issue it there"
    if "ALERT" in name:
        return f"{addr} refuses the certificate {tls.certificate}: {name.lower().replace('_', ' ')}"
    return None


def _unchecked() -> ssl.SSLContext:
    """A context that shows whether a server speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _unusable(error: ssl.SSLError) -> str:
    if "MISMATCH" in (error.reason or ""):
        return "its private key is not that of its certificate"
    return (error.reason or str(error)).lower().replace("_", " ")


def _read(path: str | Path, *parts: bytes) -> bytes:
    """The contents of a file in PEM that has all of these sections."""
    text = Path(path).read_bytes()
    for part in parts:
        if b"-----BEGIN " + part + b"-----" not in text:
            raise ValueError(f"{path} has no section -----BEGIN {part.decode()}-----")
    return text


def _stamp(path: str | Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
