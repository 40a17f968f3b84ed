"""Certificates of a client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True)
class Tls:
    """The files that a client proves its identity with, as `seqsvr cert` writes them.

    ca: the certificates to trust, `ca.crt`.
    certificate: the client's private key and its certificate in one file, such as `client.backend.pem`.

    They are read when a client is made. A process that outlives its certificate makes a new client after a rotation.
    """

    ca: str | Path
    certificate: str | Path

    def credentials(self) -> grpc.ChannelCredentials:
        """What grpcio takes. Raises OSError for a file that cannot be read, ValueError for one without its part."""
        ca, own = Path(self.ca).read_bytes(), Path(self.certificate).read_bytes()
        for path, text, part in [
            (self.ca, ca, b"CERTIFICATE"),
            (self.certificate, own, b"CERTIFICATE"),
            (self.certificate, own, b"PRIVATE KEY"),
        ]:
            if b"-----BEGIN " + part + b"-----" not in text:
                raise ValueError(f"{path} has no section -----BEGIN {part.decode()}-----")
        return grpc.ssl_channel_credentials(root_certificates=ca, private_key=own, certificate_chain=own)
