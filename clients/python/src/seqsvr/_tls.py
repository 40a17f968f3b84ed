"""Certificates of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import grpc


@dataclass(frozen=True)
class Tls:
    """What a client proves its identity with: a certificate, or the token of a tenant.

    ca: the certificates to trust, `ca.crt`, as `seqsvr cert` writes it.
    certificate: the client's private key and its certificate in one file, such as `client.backend.pem`.
    token: the token of a tenant, as `seqsvr tenant token` makes it; it is in no representation of the object.

    They are read when a client is made. A process that outlives its certificate makes a new client after a rotation.
    """

    ca: str | Path
    certificate: str | Path | None = None
    token: str | None = field(default=None, repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        """What grpcio takes. Raises OSError for a file that cannot be read, ValueError for one without its part."""
        own = None if self.certificate is None else _read(self.certificate, b"CERTIFICATE", b"PRIVATE KEY")
        channel = grpc.ssl_channel_credentials(_read(self.ca, b"CERTIFICATE"), private_key=own, certificate_chain=own)
        if self.token is None:
            return channel
        return grpc.composite_channel_credentials(channel, grpc.access_token_call_credentials(self.token))


def _read(path: str | Path, *parts: bytes) -> bytes:
    """The contents of a file in PEM that has all of these sections."""
    text = Path(path).read_bytes()
    for part in parts:
        if b"-----BEGIN " + part + b"-----" not in text:
            raise ValueError(f"{path} has no section -----BEGIN {part.decode()}-----")
    return text
