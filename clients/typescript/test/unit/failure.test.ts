import assert from "node:assert/strict";
import { test } from "node:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeName, Failure, markUnprocessed, messageOf } from "../../src/failure.js";

/** Returns a `google.rpc.ErrorInfo`. */
function errorInfo(reason: string, domain: string, metadata: Record<string, string>): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, WireType.LengthDelimited).string(reason).tag(2, WireType.LengthDelimited).string(domain);
  for (const [key, value] of Object.entries(metadata)) {
    const entry = new BinaryWriter();
    entry.tag(1, WireType.LengthDelimited).string(key).tag(2, WireType.LengthDelimited).string(value);
    writer.tag(3, WireType.LengthDelimited).bytes(entry.finish());
  }
  // A field of a later release.
  return writer.tag(9, WireType.Varint).uint32(1).finish();
}

/** Returns a `google.rpc.RetryInfo`. */
function retryInfo(seconds: number, nanos: number): Uint8Array {
  const delay = new BinaryWriter().tag(1, WireType.Varint).int64(seconds).tag(2, WireType.Varint).int32(nanos);
  return new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(delay.finish()).finish();
}

/** Returns an error as connect makes it of a refusal. */
function refused(code: Code, ...details: [string, Uint8Array][]): ConnectError {
  const error = new ConnectError("why", code, { "grpc-status": String(code) });
  error.details = details.map(([type, value]) => ({ type, value }));
  return error;
}

test("a refusal has its reason, its hint and its metadata", () => {
  const metadata = { set: "18446744073709551615", since: "7", bound: "4611686018427387905" };
  const failure = Failure.of(
    refused(
      Code.Unavailable,
      ["google.rpc.ErrorInfo", errorInfo("MOVED", "seqsvr", metadata)],
      ["google.rpc.RetryInfo", retryInfo(1, 250_000_000)],
    ),
  );
  const { kind, code, reason, retryAfterMs, setId, since, bound, isFromServer, neverSent, message } = failure;
  assert.deepEqual(
    { kind, code, reason, retryAfterMs, setId, since, bound, isFromServer, neverSent, message },
    {
      kind: "refusal",
      code: "UNAVAILABLE",
      reason: "MOVED",
      retryAfterMs: 1_250,
      setId: (1n << 64n) - 1n,
      since: 7n,
      bound: (1n << 62n) + 1n,
      isFromServer: true,
      neverSent: false,
      message: "why",
    },
  );
});

test("a refusal of others has no reason", () => {
  const info = errorInfo("MOVED", "example.org", { set: "no number" });
  const failure = Failure.of(refused(Code.PermissionDenied, ["google.rpc.ErrorInfo", info]));
  assert.deepEqual([failure.kind, failure.reason, failure.message], ["refusal", "", "PERMISSION_DENIED: why"]);
  assert.equal(failure.setId, undefined);
  const large = errorInfo("MOVED", "seqsvr", { set: "18446744073709551616", since: "-1" });
  const named = Failure.of(refused(Code.Unavailable, ["google.rpc.ErrorInfo", large]));
  assert.deepEqual([named.reason, named.setId, named.since], ["MOVED", undefined, undefined]);
  const broken = Failure.of(refused(Code.Unavailable, ["google.rpc.ErrorInfo", new Uint8Array([0x0a, 0xff])]));
  assert.deepEqual([broken.kind, broken.reason], ["refusal", ""]);
});

test("a server may notice the deadline first", () => {
  const failure = Failure.of(refused(Code.DeadlineExceeded));
  assert.deepEqual([failure.kind, failure.isFromServer], ["timeout", true]);
  const own = Failure.of(new ConnectError("the operation timed out", Code.DeadlineExceeded));
  assert.deepEqual([own.kind, own.isFromServer], ["timeout", false]);
});

test("a failed connection is told from a bad response", () => {
  const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  const cases: [ConnectError, string, boolean][] = [
    [new ConnectError("read ECONNRESET", Code.Aborted, undefined, undefined, reset), "connection", false],
    [
      new ConnectError("x", Code.Internal, undefined, undefined, markUnprocessed(new Error("refused"))),
      "connection",
      true,
    ],
    // The end of a connection, as connect reports it.
    [new ConnectError("http/2 stream closed with error code CANCEL (0x8)", Code.Canceled), "connection", false],
    [new ConnectError("http/2 stream closed with error code INTERNAL_ERROR (0x2)", Code.Internal), "connection", false],
    [new ConnectError("HTTP 503", Code.Unavailable, { server: "haproxy" }), "connection", false],
    [new ConnectError("HTTP 404", Code.Unimplemented), "invalid", false],
    [new ConnectError("protocol error: missing status", Code.Internal), "invalid", false],
    [
      new ConnectError("message size 7 is larger than configured readMaxBytes 6", Code.ResourceExhausted),
      "invalid",
      false,
    ],
  ];
  for (const [error, kind, neverSent] of cases) {
    const failure = Failure.of(error);
    assert.deepEqual([failure.kind, failure.neverSent, failure.isFromServer], [kind, neverSent, false], error.message);
  }
});

test("an error of TLS is its reason, without places in the code of OpenSSL", () => {
  const alert = Object.assign(
    new Error("80CC:error:0A000414:SSL routines:read:sslv3 alert certificate revoked:a.c:1601"),
    {
      code: "ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED",
      library: "SSL routines",
      reason: "sslv3 alert certificate revoked",
    },
  );
  const failure = Failure.of(new ConnectError("x", Code.Internal, undefined, undefined, alert));
  assert.deepEqual([failure.kind, failure.message], ["connection", "TLS: sslv3 alert certificate revoked"]);
  const two = new AggregateError([new Error("refused by ::1"), new Error("refused by 127.0.0.1")]);
  assert.equal(messageOf(two), "refused by ::1, refused by 127.0.0.1");
});

test("codes have the names of gRPC", () => {
  assert.deepEqual([1, 4, 8, 16, 0, 17].map(codeName), [
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNKNOWN",
    "UNKNOWN",
  ]);
});
