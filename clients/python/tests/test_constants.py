"""The constants of the Rust SDK, which this one has in common with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqsvr import DEADLINE, _attempts, _budget, _queue, _seeds

CRATES = Path(__file__).resolve().parents[3] / "crates"

if not CRATES.is_dir():
    pytest.skip("the tests do not run in the repository", allow_module_level=True)

OPTIONS = dict(_seeds.OPTIONS)

CONSTANTS = [
    ("seq-client/src/client.rs", "DEADLINE", DEADLINE),
    ("seq-client/src/client.rs", "MAX_DEADLINE", _attempts.MAX_DEADLINE),
    ("seq-client/src/attempts.rs", "FIRST_BACKOFF", _budget.FIRST_BACKOFF),
    ("seq-client/src/attempts.rs", "MAX_BACKOFF", _budget.MAX_BACKOFF),
    ("seq-client/src/attempts.rs", "LEAST_ATTEMPT", _attempts.LEAST_ATTEMPT),
    ("seq-client/src/budget.rs", "RETRY_RATIO", _budget.RETRY_RATIO),
    ("seq-client/src/budget.rs", "RETRIES_PER_SECOND", _budget.RETRIES_PER_SECOND),
    ("seq-client/src/budget.rs", "MAX_SAVED_RETRIES", _budget.MAX_SAVED_RETRIES),
    ("seq-client/src/discovery.rs", "MIN_REFRESH_INTERVAL", _seeds.MIN_REFRESH_INTERVAL),
    ("seq-channel/src/pool.rs", "CONNECT_TIMEOUT", OPTIONS["grpc.min_reconnect_backoff_ms"] / 1_000),
    ("seq-channel/src/pool.rs", "KEEP_ALIVE_EVERY", OPTIONS["grpc.keepalive_time_ms"] / 1_000),
    ("seq-channel/src/pool.rs", "KEEP_ALIVE_TIMEOUT", OPTIONS["grpc.keepalive_timeout_ms"] / 1_000),
    ("seq-channel/src/pool.rs", "SUSPECT_FOR", _budget.SUSPECT_FOR),
    ("seq-channel/src/batch/queue.rs", "items", _queue.MAX_CALLS),
    ("seq-channel/src/batch/queue.rs", "message", _queue.MAX_MESSAGE),
    ("seq-channel/src/batch/queue.rs", "in_flight", _queue.MAX_IN_FLIGHT),
    ("seq-channel/src/batch/queue.rs", "MAX_TIMEOUT", _queue.MAX_TIMEOUT),
    ("seq-channel/src/batch/stream.rs", "UNSUPPORTED_FOR", _queue.UNSUPPORTED_FOR),
]


@pytest.mark.parametrize(("file", "name", "value"), CONSTANTS)
def test_a_constant_is_that_of_the_rust_sdk(file: str, name: str, value: float) -> None:
    text = (CRATES / file).read_text()
    # A duration, a number, or a field of a bound.
    number = re.search(rf"\b{name}: (?:\w+ = )?(?:Duration::from_(secs|millis)\()?([\d_.]+(?: \* [\d_]+)?)", text)
    assert number is not None, f"{file} has no {name}"
    factors = [float(factor) for factor in number[2].replace("_", "").split(" * ")]
    in_rust = factors[0] * (factors[1] if len(factors) > 1 else 1) / (1_000 if number[1] == "millis" else 1)
    assert value == in_rust
