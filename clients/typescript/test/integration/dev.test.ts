/** The client against a real cluster: `seqsvr dev`. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Allocation, Client, Current, SeqError } from "../../src/index.js";
import { type Dev, eventually, seqsvr, startDev } from "../cluster.js";

let dev: Dev;
let nextUid = 1_000n;

/** Returns a uid that no other test uses. */
function freshUid(): bigint {
  nextUid += 1n;
  return nextUid;
}

/** Returns the arguments of commands on the cluster. */
function at(): string[] {
  return ["--addr", dev.allocs[0] ?? ""];
}

function open(options: Partial<Parameters<typeof Client.open>[0]> = {}): Promise<Client> {
  return Client.open({ seeds: dev.allocs[0] ?? "", ...options });
}

before(async () => {
  dev = await startDev();
});

after(async () => {
  await dev.stop();
});

test("numbers are consecutive, and results have their range", async () => {
  await using client = await open();
  const uid = freshUid();
  assert.deepEqual(await client.current(uid), new Current(0n, true, (await client.current(uid)).epoch));
  const first = await client.next(uid);
  assert.deepEqual([first.value, first.prev, first.count, first.lost], [1n, 0n, 1, 0]);
  assert.ok(first.epoch >= 1n);
  const five = await client.nextN(uid, 5);
  assert.deepEqual([five.prev, ...five], [1n, 2n, 3n, 4n, 5n, 6n]);
  assert.deepEqual([(await client.current(uid)).value, (await client.current(uid)).exact], [6n, true]);
  const million = await client.nextN(uid, 1_000_000);
  assert.deepEqual([million.first, million.value], [7n, 1_000_006n]);
});

test("calls go to the owner", async () => {
  const forwarded = await dev.forwarded();
  await using client = await open({ seeds: dev.allocs[1] ?? "" });
  const sections = Number(dev.uidEnd / dev.sectionSize);
  const uids = Array.from({ length: sections }, (_, section) => BigInt(section) * dev.sectionSize + 7n);
  for (const uid of uids) {
    await client.next(uid);
    await client.current(uid);
  }
  const numbers = await client.nextMany(uids);
  const reads = await client.currentMany(uids);
  assert.deepEqual(
    reads.map((read) => read instanceof Current && read.value),
    numbers.map((number) => number instanceof Allocation && number.value),
  );
  assert.equal(await dev.forwarded(), forwarded);
});

test("each item of a batch has its own result", async () => {
  await using client = await open({ seeds: dev.allocs });
  const [a, b] = [freshUid(), freshUid() + dev.sectionSize];
  const results = await client.nextMany([a, b, a, dev.uidEnd, a], [1, 2, 3, 4, 5]);
  const values = results.map((result) => (result instanceof SeqError ? result.reason : result.value));
  assert.deepEqual(values, [1n, 2n, 4n, "UID_OUTSIDE", 9n]);
  const many = await client.nextMany(new Array(10_001).fill(a));
  assert.ok(many.every((result, index) => result instanceof Allocation && result.value === BigInt(index + 10)));
});

test("user 0 is a user", async () => {
  await using client = await open();
  const first = await client.next(0n);
  assert.equal((await client.next(0n)).prev, first.value);
  assert.equal((await client.current(0n)).value, first.value + 1n);
});

test("256 callers share messages, and each gets its numbers", async () => {
  await using client = await open();
  const uid = freshUid();
  await client.next(uid);
  const before = client.stats().messages;
  let calls = 0;
  const caller = async () => {
    const numbers: bigint[] = [];
    for (let turn = 0; turn < 20; turn++, calls++) {
      const { value, prev } = await client.next(uid);
      assert.ok(value > prev && prev >= (numbers.at(-1) ?? 0n));
      numbers.push(value);
    }
    return numbers;
  };
  const numbers = (await Promise.all(Array.from({ length: 256 }, caller))).flat();
  assert.equal(new Set(numbers).size, 256 * 20);
  assert.equal((await client.current(uid)).value, BigInt(256 * 20 + 1));
  const messages = client.stats().messages - before;
  assert.ok(messages <= calls / 8, `${messages} messages for ${calls} calls`);
});

test("an advance raises a uid, and one that is past is refused", async () => {
  await using client = await open();
  const uid = freshUid();
  assert.ok((await client.advance(uid, 5_000n)) >= 1n);
  await client.advance(uid, 5_000n);
  const number = await client.next(uid);
  assert.deepEqual([number.value, number.prev], [5_001n, 0n]);
  await assert.rejects(client.advance(uid, 4_000n), { reason: "ALREADY_PAST", kind: "refused", mayHaveApplied: false });
  await assert.rejects(client.advance(uid, 1n << 62n), (error) => {
    return (
      error instanceof SeqError && error.reason === "ADVANCE_TOO_FAR" && "bound" in error && error.bound !== undefined
    );
  });
});

test("ids of series increase, and have their parts", async () => {
  await using client = await open();
  const orders = await client.series("orders");
  const [one, three] = [await orders.next(), await orders.take(3)];
  assert.deepEqual([...three], [one + 1n, one + 2n, one + 3n]);
  assert.deepEqual((await orders.current()).id, three.last);
  assert.ok((await orders.advance(three.last + 10n)) >= 1n);
  assert.equal(await orders.next(), three.last + 11n);
  assert.equal(orders.decode(one).lane, 0);
  const tweets = await client.series("tweets");
  const id = await tweets.next();
  const replies = await tweets.after(id).take(5);
  assert.ok([...replies].every((reply) => reply > id));
  assert.ok(Math.abs((tweets.decode(id).time?.getTime() ?? 0) - Date.now()) < 60_000);
  assert.equal(JSON.parse(JSON.stringify(replies))[0], String(replies.first));
  // The program decodes the same id, which is above 2^53, with the parts that the client decodes.
  assert.ok(id > 1n << 53n);
  const output = await seqsvr("id", "decode", String(id), "--series", "tweets", ...at(), "-o", "json");
  const decoded = JSON.parse(output).items[0].readings[0];
  assert.equal(BigInt(decoded.lane), BigInt(tweets.decode(id).lane));
  assert.equal(BigInt(decoded.seq), tweets.decode(id).seq);
  const media = await client.series("media");
  assert.equal(media.decode(await media.lane(1_341).next()).lane, 1_341);
  await assert.rejects(media.next(), { reason: "LANE_REQUIRED" });
  await assert.rejects(tweets.current(), { reason: "NOT_A_COUNTER" });
  await assert.rejects(client.series("none"), { reason: "UNKNOWN_SERIES", kind: "refused" });
});

test("a stream of uids has results in order", async () => {
  await using client = await open();
  const uids = Array.from({ length: 2_000 }, (_, index) => 500_000n + BigInt(index % 700));
  async function* source() {
    yield* uids;
  }
  const seen: bigint[] = [];
  for await (const { uid, result } of client.nextAll(source())) {
    assert.ok(result instanceof Allocation);
    seen.push(uid);
  }
  assert.deepEqual(seen, uids);
  assert.equal((await client.current(500_000n)).value, 3n);
});

test("keys of any bytes are numbered by their owners", async () => {
  await using client = await open({ seeds: dev.allocs });
  const main = client.keyspace("main");
  const unknown = { kind: "refused", reason: "UNKNOWN_KEYSPACE", retryable: false };
  await assert.rejects(main.next("conv:42"), unknown);
  await seqsvr("keyspace", "create", "main", "--yes", ...at());
  const unused = await eventually("the keyspace is served", () => main.current("conv:42"));
  assert.deepEqual([unused.value, unused.exact], [0n, true]);
  const first = await main.next("conv:42");
  assert.deepEqual([first.value, first.prev, first.count, first.lost], [1n, 0n, 1, 0]);
  assert.deepEqual([...(await main.nextN(Buffer.from("conv:42"), 3))], [2n, 3n, 4n]);
  assert.ok((await main.advance("conv:42", 1_000n)) >= 1n);
  await assert.rejects(main.advance("conv:42", 7n), { reason: "ALREADY_PAST", retryable: false, uid: undefined });
  assert.equal((await main.next("conv:42")).value, 1_001n);
  const bytes = ["ff00", "20", "0d0a", "c3bc"].map((hex) => Buffer.from(hex, "hex"));
  const keys = [...bytes, "x".repeat(512), ...Array.from({ length: 20_000 }, (_, index) => `many:${index}`)];
  const forwarded = await dev.forwarded();
  const results = await main.nextMany([...keys, bytes[0] as Buffer]);
  const expected = [...keys.map(() => 1n), 2n];
  assert.ok(results.every((result, index) => result instanceof Allocation && result.value === expected[index]));
  const read = await main.currentMany([bytes[0] as Buffer, "ü", "conv:42", "none"]);
  assert.deepEqual(
    read.map((result) => (result instanceof Current ? result.value : result.reason)),
    [2n, 1n, 1_001n, 0n],
  );
  for (let number = 0; number < 100; number++) {
    await main.next(`many:${number}`);
  }
  assert.equal(await dev.forwarded(), forwarded);
  await assert.rejects(client.keyspace("tweets").next("a"), unknown);
  await assert.rejects(client.series("main"), { reason: "UNKNOWN_SERIES" });
});

test("a signal aborts a call, and the client goes on", async () => {
  await using client = await open();
  const uid = freshUid();
  const reason = new Error("enough");
  await assert.rejects(client.next(uid, { signal: AbortSignal.abort(reason) }), (error) => {
    return error instanceof SeqError && error.name === "AbortError" && error.cause === reason && !error.mayHaveApplied;
  });
  const controllers = Array.from({ length: 500 }, () => new AbortController());
  const calls = controllers.map(({ signal }) => client.next(uid, { signal }).catch((error: SeqError) => error));
  const half = controllers.filter((_, index) => index % 2 === 0);
  setImmediate(() => {
    for (const controller of half) {
      controller.abort();
    }
  });
  const results = await Promise.all(calls);
  const numbers = results.filter((result) => result instanceof Allocation);
  const cancelled = results.filter((result) => result instanceof SeqError && result.kind === "cancelled");
  assert.equal(numbers.length + cancelled.length, 500);
  assert.ok(numbers.length >= 250);
  const taken = Number((await client.current(uid)).value);
  assert.ok(taken >= numbers.length && taken <= 500);
  assert.equal(client.stats().pending, 0);
});

test("a uid outside, a short deadline, and a port of another kind are named", async () => {
  await using client = await open();
  for (const uid of [dev.uidEnd, (1n << 64n) - 1n]) {
    await assert.rejects(client.next(uid), { kind: "uid_outside", uid, retryable: false, mayHaveApplied: false });
  }
  await assert.rejects(client.next(freshUid(), { deadlineMs: 0 }), { kind: "deadline", mayHaveApplied: false });
  await assert.rejects(open({ seeds: dev.stores[0] ?? "" }), {
    kind: "connect",
    retryable: false,
    message: /it is a store or another gRPC server; name an AllocSvr/,
  });
  await assert.rejects(open({ seeds: dev.http }), { kind: "connect" });
  await assert.rejects(open({ seeds: "127.0.0.1:1" }), { kind: "connect", retryable: true, message: /127\.0\.0\.1:1/ });
  // One seed that responds is enough.
  await using other = await open({ seeds: ["127.0.0.1:1", dev.allocs[0] ?? ""] });
  assert.equal((await other.next(freshUid())).value, 1n);
});

test("100 clients leave nothing behind", async () => {
  const sockets = () => process.getActiveResourcesInfo().filter((kind) => /TCP|Timeout|TLS/.test(kind)).length;
  const one = await open();
  await one.next(freshUid());
  await one.close();
  const before = await eventually("sockets are closed", () => sockets() + 1);
  for (let round = 0; round < 10; round++) {
    const clients = await Promise.all(Array.from({ length: 10 }, () => open({ seeds: dev.allocs })));
    await Promise.all(clients.map((client) => client.next(freshUid())));
    assert.ok(clients.every((client) => client.stats().connections > 0));
    await Promise.all(clients.map((client) => client.close()));
    assert.ok(clients.every((client) => client.stats().connections === 0));
  }
  await eventually("no socket or timer is left", () => sockets() + 1 <= before);
});

test("close ends calls in flight, or waits for them", async () => {
  const client = await open();
  const uid = freshUid();
  await client.next(uid);
  const calls = Array.from({ length: 100 }, () => client.next(uid).catch((error: SeqError) => error));
  await client.close({ drainMs: 10_000 });
  for (const result of await Promise.all(calls)) {
    assert.ok(result instanceof Allocation, `${result}`);
  }
  await assert.rejects(client.next(uid), { kind: "closed", mayHaveApplied: false });
  const other = await open();
  const ended = Array.from({ length: 100 }, () => other.next(uid).catch((error: SeqError) => error));
  await other.close();
  assert.ok((await Promise.all(ended)).some((result) => result instanceof SeqError && result.kind === "closed"));
});

test("an observer and a log see the connection", async () => {
  const lines: string[] = [];
  const events: string[] = [];
  const client = await open({
    log: (level, message) => lines.push(`${level}: ${message}`),
    observer: {
      connectionOpened: ({ addr }) => events.push(`opened ${addr}`),
      routeAdopted: ({ set }) => events.push(`adopted ${set}`),
      call: ({ method }) => ({
        end: ({ outcome, set, attempts }) => events.push(`${method} ${outcome} ${set} ${attempts}`),
      }),
    },
  });
  await client.next(freshUid());
  await client.close();
  assert.ok(lines.includes("info: connected"));
  assert.ok(events.some((event) => event.startsWith("opened 127.0.0.1:")));
  assert.ok(events.includes("adopted dev") && events.includes("next ok dev 1"), events.join(", "));
});
