"""Servers for tests of programs that use `seqsvr`.

With pytest, in `conftest.py`:

>>> pytest_plugins = ["seqsvr.testing"]

Then a test may ask for `seqsvr_dev`, a real cluster that is started once for all tests, or for `seqsvr_fake`, a double in the
process of the test, new for each test, that refuses, hangs and stops as the test wants:

>>> def test_a_message_gets_a_number(seqsvr_dev):
...     with Client(seqsvr_dev.seed) as client:
...         assert client.next(42).value == 1

Without pytest, `DevServer` and `FakeCluster` are context managers. Nothing is downloaded: `DevServer` runs the `seqsvr` that
`$SEQSVR` names, or the one in the `PATH`.

It has no assertions of its own for pytest to explain: PYTEST_DONT_REWRITE
"""

import contextlib

from seqsvr.testing._dev import DevServer
from seqsvr.testing._fake import FakeCluster, FakeSet, Refusal

with contextlib.suppress(ModuleNotFoundError):
    from seqsvr.testing._fixtures import seqsvr_dev, seqsvr_fake

__all__ = ["DevServer", "FakeCluster", "FakeSet", "Refusal", "seqsvr_dev", "seqsvr_fake"]
