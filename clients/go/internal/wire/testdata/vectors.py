"""Writes vectors.json: messages that the Python library of protobuf has encoded, which the Go codec must encode the same.

    python clients/go/internal/wire/testdata/vectors.py             # with the packages of the Python client
    python clients/go/internal/wire/testdata/vectors.py --check     # compares the file instead

The values of each message are stated a second time in vectors_test.go.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "python" / "src"))

from google.protobuf.any_pb2 import Any  # noqa: E402
from google.protobuf.duration_pb2 import Duration  # noqa: E402
from google.protobuf.message import Message  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

from seqsvr.v1 import ids_pb2, keys_pb2, route_pb2, series_pb2  # noqa: E402
from seqsvr.v1 import sequence_pb2 as pb  # noqa: E402

OUT = HERE / "vectors.json"
MAX = 2**64 - 1


def routes() -> route_pb2.Routes:
    """A route table with every field that the client reads."""
    return route_pb2.Routes(
        set="set-a",
        version=7,
        base_version=6,
        uid_start=100,
        uid_end=2**40,
        section_size=100_000,
        nodes=[route_pb2.RouteNode(id=1, name="a1", addr="127.0.0.1:7100"), route_pb2.RouteNode(id=2, name="a2", addr="[::1]:1")],
        runs=[
            route_pb2.RouteRun(sections=3, owner=1, epoch=9),
            route_pb2.RouteRun(first_section=3, sections=300, epoch=2**62, away_set_id=MAX),
        ],
        set_id=0x1122334455667788,
        sets=[route_pb2.RouteSet(id=5, name="b", allocs=["x:1", "y:2"])],
        series=[
            series_pb2.StoredSeries(name="tweets", shape=b"\x12\x00", created_ms=1, retired=True, home_set_id=3)
        ],
    )


def routes_with_buckets() -> route_pb2.Routes:
    """The same with a keyspace and the routes of its buckets."""
    table = routes()
    lanes = series_pb2.Lanes(count=16_384, per_section=1, first_section=400, keys=series_pb2.Hashing(digest=MAX))
    table.series.append(series_pb2.StoredSeries(name="main", lanes=lanes, created_ms=2, home_set_id=3))
    table.lane_runs.append(route_pb2.RouteRun(first_section=400, sections=16, owner=2, epoch=1))
    return table


def routes_with_lanes() -> route_pb2.Routes:
    """The same with fields that the client skips."""
    table = routes_with_buckets()
    lanes = table.series[1].lanes
    lanes.start, lanes.margin, lanes.keys.seed = 5, 6, b"s" * 16
    lanes.clock.CopyFrom(series_pb2.TickClock(unit_ms=1))
    return table


def status() -> status_pb2.Status:
    """The details of a refusal."""
    info = error_details_pb2.ErrorInfo(reason="MOVED", domain="seqsvr", metadata={"set": "12"})
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1, nanos=500))
    details = []
    for message in (info, retry):
        packed = Any()
        packed.Pack(message)
        details.append(packed)
    return status_pb2.Status(code=14, message="the section is in another set \u2026", details=details)


VECTORS: dict[str, Message] = {
    "NextRequest": pb.NextRequest(uid=0, count=1_000_000, route_version=0, epoch=MAX, hops=2),
    "NextRequest/absent": pb.NextRequest(),
    "NextResponse": pb.NextResponse(value=2**63 - 1, prev=2**53 + 1, epoch=3, routes=routes(), lost=0),
    "NextManyRequest": pb.NextManyRequest(uids=[0, 1, 127, 128, MAX], counts=[1, 2, 300], route_version=5, known_epochs=[2**32]),
    "NextManyResponse": pb.NextManyResponse(
        values=[1, 0, 2**62],
        prevs=[0, 0, 5],
        epochs=[1, 0, 1],
        errors=[pb.ItemError(index=1, code=14, reason="MOVED", message="away", retry_after_ms=1, set_id=0, since=MAX)],
        lost=pb.LostAttempts(indexes=[0, 2], attempts=[1, 300]),
    ),
    "NextStreamRequest": pb.NextStreamRequest(tag=MAX, request=pb.NextManyRequest(uids=[42]), timeout_ms=4000, now_only=True),
    "NextStreamRequest/long": pb.NextStreamRequest(tag=1, request=pb.NextManyRequest(uids=[2**40 + n for n in range(300)])),
    "NextStreamResponse": pb.NextStreamResponse(tag=9, response=pb.NextManyResponse()),
    "NextStreamResponse/refusal": pb.NextStreamResponse(tag=9, refusal=pb.ItemError(code=8, reason="OUT_OF_MEMORY")),
    "CurrentRequest": pb.CurrentRequest(uid=MAX, route_version=1, epoch=2),
    "CurrentResponse": pb.CurrentResponse(value=8, exactness=pb.EXACTNESS_UPPER_BOUND, epoch=2),
    "CurrentManyRequest": pb.CurrentManyRequest(uids=[1, 2], route_version=0, known_epochs=[0, 7]),
    "CurrentManyResponse": pb.CurrentManyResponse(values=[4, 0], exactness=[1, 2], epochs=[1, 1]),
    "AdvanceRequest": pb.AdvanceRequest(uid=0, to=2**62 - 1, epoch=1),
    "AdvanceResponse": pb.AdvanceResponse(epoch=4),
    "GetRoutesRequest": pb.GetRoutesRequest(known_version=2**32),
    "GetRoutesResponse": pb.GetRoutesResponse(routes=routes()),
    "GetRoutesResponse/buckets": pb.GetRoutesResponse(routes=routes_with_buckets()),
    "GetRoutesResponse/skipped": pb.GetRoutesResponse(routes=routes_with_lanes()),
    "Shape/counter": series_pb2.Shape(counter=series_pb2.CounterShape(offset=1, increment=10, max_id=2**63 - 1)),
    "Shape/timed": series_pb2.Shape(
        timed=series_pb2.TimedShape(
            epoch_ms=1288834974657, unit_ms=1, time_bits=41, lane_bits=10, seq_bits=12, spread=True, named_lanes=True, ahead_ms=1000
        )
    ),
    "NextIdsRequest": ids_pb2.NextIdsRequest(series="media", count=3, lane=0, after=2**63 - 1),
    "NextIdsResponse": ids_pb2.NextIdsResponse(
        runs=[ids_pb2.IdRun(first=5, count=2), ids_pb2.IdRun(first=2**62, count=1)], step=10, epoch=2, lane=1341
    ),
    "CurrentIdRequest": ids_pb2.CurrentIdRequest(series="orders"),
    "CurrentIdResponse": ids_pb2.CurrentIdResponse(id=2**63 - 1, exact=True, epoch=1),
    "AdvanceIdRequest": ids_pb2.AdvanceIdRequest(series="orders", to=2**53 + 1),
    "AdvanceIdResponse": ids_pb2.AdvanceIdResponse(epoch=1),
    "NextKeyRequest": keys_pb2.NextKeyRequest(
        keyspace="main", raw_key=b"conv:\xff\x00", count=1_000_000, route_version=0, epoch=MAX
    ),
    "NextKeysRequest": keys_pb2.NextKeysRequest(
        keyspace="main", raw_keys=[b"a", b"", b"\xff"], counts=[1, 2, 300], route_version=5, known_epochs=[0, 1, 2**32]
    ),
    "CurrentKeyRequest": keys_pb2.CurrentKeyRequest(keyspace="main", raw_key=b"\r\n", route_version=1, epoch=2),
    "CurrentKeysRequest": keys_pb2.CurrentKeysRequest(
        keyspace="main", raw_keys=[b"k" * 512], route_version=0, known_epochs=[7]
    ),
    "AdvanceKeyRequest": keys_pb2.AdvanceKeyRequest(keyspace="main", raw_key=b"\0", to=2**62 - 1, route_version=0, epoch=1),
    "Status": status(),
    "Status/negative": status_pb2.Status(code=-1),
    "RetryInfo/negative": error_details_pb2.RetryInfo(retry_delay=Duration(seconds=-1, nanos=-5)),
}


def main() -> None:
    """Writes the vectors, or compares them."""
    vectors = {name: message.SerializeToString(deterministic=True).hex() for name, message in VECTORS.items()}
    text = json.dumps(vectors, indent=1) + "\n"
    if "--check" not in sys.argv[1:]:
        OUT.write_text(text)
    elif OUT.read_text() != text:
        sys.exit(f"{OUT.name} is stale: run {Path(__file__).name}")


if __name__ == "__main__":
    main()
