"""Events of clients, and the metrics and spans of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from seqsvr import AsyncClient, AttemptEvent, CallEvent, Client, Observer, Refused, SeqError
from seqsvr.opentelemetry import OpenTelemetryObserver
from seqsvr.testing import FakeCluster, Refusal


class Recorder(Observer):
    """Keeps the events."""

    def __init__(self) -> None:
        """Starts empty."""
        self.events: list[tuple[Any, ...]] = []
        self.calls: list[CallEvent] = []
        self.attempts: list[AttemptEvent] = []

    def call_started(self, method: str, items: int) -> str:
        self.events.append(("call_started", method, items))
        return f"call of {method}"

    def attempt_ended(self, call: str, event: AttemptEvent) -> None:
        assert call.startswith("call of ")
        self.attempts.append(event)
        self.events.append(("attempt_ended", event.reason))

    def retrying(self, call: str, reason: str, wait: float) -> None:
        self.events.append(("retrying", reason))

    def budget_refused(self, call: str, set: str) -> None:
        self.events.append(("budget_refused", set))

    def call_ended(self, call: str, event: CallEvent) -> None:
        self.calls.append(event)
        self.events.append(("call_ended", event.outcome, event.reason))

    def routes_adopted(self, set: str, version: int) -> None:
        self.events.append(("routes_adopted", set, version))

    def connection_opened(self, addr: str) -> None:
        self.events.append(("connection_opened", addr))

    def connection_lost(self, addr: str) -> None:
        self.events.append(("connection_lost", addr))


@pytest.mark.parametrize("coalesce", [True, False])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_observer_receives_calls_attempts_and_retries(seqsvr_fake: FakeCluster, coalesce: bool, is_async: bool) -> None:
    (one,) = seqsvr_fake.sets
    recorder = Recorder()
    one.refuse("UNSERVED")

    async def once() -> None:
        async with AsyncClient(seqsvr_fake.seed, observer=recorder, coalesce=coalesce, deadline=60) as client:
            await client.next(1)

    if is_async:
        asyncio.run(once())
    else:
        with Client(seqsvr_fake.seed, observer=recorder, coalesce=coalesce, deadline=60) as client:
            client.next(1)
    seed, owner = one.addrs
    assert recorder.events[0] == ("call_started", "Next", 1)
    assert ("routes_adopted", "a", one.version) in recorder.events
    assert ("connection_opened", seed) in recorder.events
    tail = [event for event in recorder.events if event[0] in ("attempt_ended", "retrying", "call_ended")]
    assert tail == [
        ("attempt_ended", "UNSERVED"),
        ("retrying", "UNSERVED"),
        ("attempt_ended", "OK"),
        ("call_ended", "ok", "OK"),
    ]
    assert [(event.addr, event.set, event.is_streamed) for event in recorder.attempts] == [
        (owner, "a", coalesce),
        (owner, "a", False),
    ]
    (call,) = recorder.calls
    assert (call.method, call.set, call.items, call.attempts, call.lost) == ("Next", "a", 1, 2, 0)
    assert 0 < recorder.attempts[0].seconds < call.seconds


def test_failures_budgets_and_connections_are_events(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    recorder = Recorder()
    with Client(seqsvr_fake.seed, observer=recorder, coalesce=False, deadline=60) as client:
        client.next(1)
        one.stop_node(one.addrs[1])
        # The connection of the owner is gone; the other node serves, and owns nothing.
        client.next(1)
        assert any(event[0] == "connection_lost" for event in recorder.events)
        client._shared.routes.sets[one.id].budget._saved = -100.0
        one.refuse("UNSERVED")
        with pytest.raises(Refused):
            client.next(1)
        assert recorder.events[-2:] == [("budget_refused", "a"), ("call_ended", "failed", "UNSERVED")]
        one.script.append(Refusal("EXHAUSTED", grpc.StatusCode.RESOURCE_EXHAUSTED, 0))
        results = client.next_many([1, 2])
        assert isinstance(results[0], SeqError)
        assert recorder.events[-1] == ("call_ended", "partial", "EXHAUSTED")


def test_what_an_observer_raises_changes_no_call(seqsvr_fake: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        def call_ended(self, call: Any, event: CallEvent) -> None:
            raise RuntimeError("broken observer")

    with caplog.at_level(logging.ERROR, "seqsvr"), Client(seqsvr_fake.seed, observer=Broken()) as client:
        assert client.next(1).value == 1
    assert "call_ended" in caplog.text
    assert "broken observer" in caplog.text


def test_opentelemetry_has_metrics_and_spans(seqsvr_fake: FakeCluster) -> None:
    (one,) = seqsvr_fake.sets
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(meter_provider=meters, tracer_provider=tracers)
    with Client(seqsvr_fake.seed, observer=observer, coalesce=False, deadline=60) as client:
        one.refuse("UNSERVED")
        client.next(1)
        one.script.append(Refusal("EXHAUSTED", grpc.StatusCode.RESOURCE_EXHAUSTED, 0))
        with pytest.raises(Refused):
            client.next(1)
    data = reader.get_metrics_data()
    assert data is not None
    points: dict[str, list[Any]] = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {name: sum(getattr(point, "value", 0) for point in each) for name, each in points.items()} == {
        "seqsvr.client.calls": 2,
        "seqsvr.client.attempts": 3,
        "seqsvr.client.retries": 1,
        "seqsvr.client.duration": 0,
    }
    assert sum(point.count for point in points["seqsvr.client.duration"]) == 2
    assert {tuple(sorted(point.attributes.items())) for point in points["seqsvr.client.calls"]} == {
        (("method", "Next"), ("outcome", "ok"), ("reason", "OK"), ("set", "a")),
        (("method", "Next"), ("outcome", "failed"), ("reason", "EXHAUSTED"), ("set", "a")),
    }
    first, second = exporter.get_finished_spans()
    assert (first.name, [event.name for event in first.events]) == ("seqsvr Next", ["attempt", "attempt"])
    assert (first.status.is_ok, second.status.is_ok) == (True, False)
    assert first.context is not None
    # The servers continue the trace.
    assert [str(headers["traceparent"]).split("-")[1] for headers in one.headers[:1]] == [f"{first.context.trace_id:032x}"]
