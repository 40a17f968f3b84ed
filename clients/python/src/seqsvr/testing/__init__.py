"""Servers for tests of programs that use `seqsvr`.

With pytest, in `conftest.py`:

>>> pytest_plugins = ["seqsvr.testing"]

Then a test may ask for `seqsvr_dev`, a real cluster that is started once for all tests; for `seqsvr_fake_server`, a cluster in
memory with the endpoints of a real one and faults on request, in a process of its own; or for `seqsvr_fake`, a double in the
process of the test. The last two are new for each test:

>>> def test_a_message_gets_a_number(seqsvr_dev):
...     with Client(seqsvr_dev.seed) as client:
...         assert client.next(42).value == 1

Without pytest, `DevServer`, `FakeServer` and `FakeCluster` are context managers. Nothing is downloaded: the first two run the
`seqsvr` that `$SEQSVR` names, or the one in the `PATH`.

It has no assertions of its own for pytest to explain: PYTEST_DONT_REWRITE
"""

import contextlib

from seqsvr.testing._dev import DevServer
from seqsvr.testing._fake import FakeCluster, FakeSet, Refusal
from seqsvr.testing._fake_server import FakeServer

with contextlib.suppress(ModuleNotFoundError):
    from seqsvr.testing._fixtures import seqsvr_dev, seqsvr_fake, seqsvr_fake_server

__all__ = [
    "DevServer",
    "FakeCluster",
    "FakeServer",
    "FakeSet",
    "Refusal",
    "seqsvr_dev",
    "seqsvr_fake",
    "seqsvr_fake_server",
]
