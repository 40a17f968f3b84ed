import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { NextIdsResponseSchema } from "../../src/generated/seqsvr/v1/ids_pb.js";
import { ShapeSchema } from "../../src/generated/seqsvr/v1/series_pb.js";
import { decodeId, decodeShape, Ids, MAX_ID, type TimedShape } from "../../src/ids.js";
import { Allocation, Current } from "../../src/index.js";
import { Series } from "../../src/series.js";

/** Twitter's Snowflake. */
const SNOWFLAKE: TimedShape = {
  kind: "timed",
  epochMs: 1_288_834_974_657n,
  unitMs: 1,
  timeBits: 41,
  laneBits: 10,
  seqBits: 12,
};

test("ids are validated, and made as they are needed", () => {
  const runs = [
    { first: 10n, count: 2 },
    { first: 31n, count: 1 },
  ];
  const response = create(NextIdsResponseSchema, { runs, step: 10n, epoch: 3n, lane: 4 });
  const ids = Ids.checked("a:1", response, 3, 9n);
  assert.deepEqual([...ids], [10n, 20n, 31n]);
  assert.deepEqual([ids.first, ids.last, ids.length, ids.lane, ids.epoch], [10n, 31n, 3, 4, 3n]);
  assert.equal(JSON.stringify({ ids }), '{"ids":["10","20","31"]}');
  for (const [fields, count, after] of [
    [{}, 3, 10n],
    [{}, 2, 0n],
    [{}, 4, 0n],
    [{ step: 0n }, 3, 0n],
    [
      {
        runs: [
          { first: 10n, count: 2 },
          { first: 20n, count: 1 },
        ],
      },
      3,
      0n,
    ],
    [{ runs: [{ first: MAX_ID, count: 3 }] }, 3, 0n],
    [{ runs: [] }, 1, 0n],
  ] as const) {
    const wrong = create(NextIdsResponseSchema, { runs, step: 10n, ...fields } as Parameters<typeof create>[1]);
    assert.throws(() => Ids.checked("a:1", wrong as typeof response, count, after), { kind: "bad_answer" });
  }
});

test("an id has the parts that its shape states", () => {
  const id = (420_906_795n << 22n) | (378n << 12n) | 5n;
  assert.deepEqual(decodeId(SNOWFLAKE, id), {
    lane: 378,
    number: (420_906_795n << 12n) | 5n,
    time: new Date(1_288_834_974_657 + 420_906_795),
    seq: 5n,
  });
  for (const wrong of [0n, -1n, MAX_ID + 1n]) {
    assert.equal(decodeId(SNOWFLAKE, wrong), undefined);
  }
  assert.notEqual(decodeId(SNOWFLAKE, MAX_ID), undefined);
  assert.equal(decodeId({ ...SNOWFLAKE, timeBits: 40 }, MAX_ID), undefined);
  const counter = { kind: "counter", offset: 3n, increment: 5n, maxId: 100n } as const;
  assert.deepEqual(
    [3n, 8n, 98n].map((each) => decodeId(counter, each)?.number),
    [1n, 2n, 20n],
  );
  for (const wrong of [2n, 4n, 103n]) {
    assert.equal(decodeId(counter, wrong), undefined);
  }
});

test("a shape that only later releases know is none", () => {
  const timed = toBinary(ShapeSchema, create(ShapeSchema, { kind: { case: "timed", value: { timeBits: 41 } } }));
  assert.equal(decodeShape(timed)?.kind, "timed");
  const counter = create(ShapeSchema, { kind: { case: "counter", value: { offset: 1n, increment: 1n, maxId: 9n } } });
  assert.deepEqual(decodeShape(toBinary(ShapeSchema, counter)), {
    kind: "counter",
    offset: 1n,
    increment: 1n,
    maxId: 9n,
  });
  assert.equal(decodeShape(new Uint8Array([0x1a, 0])), undefined);
  assert.equal(decodeShape(new Uint8Array([0x0a, 0xff])), undefined);
});

test("lanes and ids of a series are checked before anything is sent", async () => {
  const series = new Series(() => assert.fail("sent"), undefined as never, "tweets", SNOWFLAKE);
  assert.throws(() => series.lane(1.5), TypeError);
  assert.throws(() => series.lane("1" as unknown as number), TypeError);
  assert.throws(() => series.lane(-1), { reason: "LANE_OUT_OF_RANGE" });
  assert.throws(() => series.after(7 as unknown as bigint), TypeError);
  for (const wrong of [0n, MAX_ID + 1n]) {
    assert.throws(() => series.after(wrong), { reason: "NOT_AN_ID", kind: "refused" });
    assert.throws(() => series.decode(wrong), { reason: "NOT_AN_ID" });
    await assert.rejects(series.advance(wrong), { reason: "NOT_AN_ID" });
  }
  for (const count of [0, 1.5, 1_000_001]) {
    await assert.rejects(series.take(count), { kind: "count" });
  }
  await assert.rejects(series.take(1n as unknown as number), TypeError);
  assert.equal(series.decode(1n).lane, 0);
});

test("numbers are strings in JSON", () => {
  const allocation = new Allocation((1n << 63n) - 1n, 0n, 7n, 2, 1);
  assert.equal(
    JSON.stringify(allocation),
    '{"first":"9223372036854775806","value":"9223372036854775807","prev":"0","epoch":"7","count":2,"lost":1}',
  );
  assert.deepEqual([...allocation], [(1n << 63n) - 2n, (1n << 63n) - 1n]);
  assert.equal(
    JSON.stringify(new Current(1n << 62n, false, 7n)),
    '{"value":"4611686018427387904","exact":false,"epoch":"7"}',
  );
});
