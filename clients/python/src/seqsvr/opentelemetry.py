"""Metrics and traces of a client, with OpenTelemetry: `pip install seqsvr[opentelemetry]`.

>>> from seqsvr import Client
>>> from seqsvr.opentelemetry import OpenTelemetryObserver
>>> client = Client("127.0.0.1:7100", observer=OpenTelemetryObserver())  # doctest: +SKIP

The metrics are `seqsvr.client.calls`, `.attempts`, `.retries`, `.lost` and `.duration`, with the attributes `method`,
`outcome`, `reason` and `set`. Each call is a span, a child of the present one. Its requests carry `traceparent`, unless they
share a message of a stream: make the client with `coalesce=False` for spans of the servers.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import propagate, trace
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from seqsvr._observer import AttemptEvent, CallEvent, Observer
from seqsvr._version import __version__


class OpenTelemetryObserver(Observer):
    """Records metrics and spans with the providers, by default those of the process."""

    def __init__(self, *, meter_provider: MeterProvider | None = None, tracer_provider: TracerProvider | None = None) -> None:
        """Makes the instruments."""
        meter = get_meter("seqsvr.client", __version__, meter_provider)
        self._tracer = trace.get_tracer("seqsvr.client", __version__, tracer_provider)
        self._calls = meter.create_counter("seqsvr.client.calls", "{call}", "Calls that have ended.")
        self._attempts = meter.create_counter("seqsvr.client.attempts", "{attempt}", "Requests that have ended.")
        self._retries = meter.create_counter("seqsvr.client.retries", "{retry}", "Retries, and those without a budget.")
        self._lost = meter.create_counter("seqsvr.client.lost", "{attempt}", "Attempts that may have taken numbers.")
        self._duration = meter.create_histogram("seqsvr.client.duration", "s", "Time of calls.")

    def call_started(self, method: str, items: int) -> Span:
        """Begins the span of a call."""
        attributes: dict[str, AttributeValue] = {"rpc.system": "grpc", "rpc.method": method, "seqsvr.items": items}
        return self._tracer.start_span(f"seqsvr {method}", kind=SpanKind.CLIENT, attributes=attributes)

    def headers(self, call: Span) -> Sequence[tuple[str, str]]:
        """The headers of the present propagator."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(call))
        return list(carrier.items())

    def attempt_ended(self, call: Span, event: AttemptEvent) -> None:
        """Counts an attempt, and adds it to the span."""
        outcome = "ok" if event.reason == "OK" else "failed"
        self._attempts.add(1, {"method": event.method, "outcome": outcome, "reason": event.reason, "set": event.set})
        details: dict[str, AttributeValue] = {"server.address": event.addr, "reason": event.reason, "set": event.set}
        call.add_event("attempt", {**details, "seconds": event.seconds})

    def retrying(self, call: Span, reason: str, wait: float) -> None:
        """Counts a retry."""
        self._retries.add(1, {"outcome": "sent", "reason": reason})

    def budget_refused(self, call: Span, set: str) -> None:
        """Counts a retry that was not made."""
        self._retries.add(1, {"outcome": "budget_refused", "set": set})
        call.add_event("retry budget exhausted", {"set": set})

    def call_ended(self, call: Span, event: CallEvent) -> None:
        """Counts a call, and ends its span."""
        attributes = {"method": event.method, "outcome": event.outcome, "reason": event.reason, "set": event.set}
        self._calls.add(1, attributes)
        self._duration.record(event.seconds, attributes)
        if event.lost:
            self._lost.add(event.lost, {"method": event.method, "set": event.set})
        call.set_attributes({"outcome": event.outcome, "reason": event.reason, "set": event.set, "lost": event.lost})
        if event.outcome != "ok":
            call.set_status(Status(StatusCode.ERROR, event.reason))
        call.end()
