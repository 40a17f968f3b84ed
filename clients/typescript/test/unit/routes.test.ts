import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { RoutesSchema } from "../../src/generated/seqsvr/v1/route_pb.js";
import { replaces } from "../../src/merge.js";
import { type Route, Routes, RoutesError } from "../../src/routes.js";
import { FakeClock } from "../fake_clock.js";

/** Returns a table of set 1 with uids 0..100 in ten sections, with changes. */
function table(fields: MessageInitShape<typeof RoutesSchema> = {}) {
  const nodes = [
    { id: 1, name: "a1", addr: "a1:1" },
    { id: 2, name: "a2", addr: "a2:1" },
  ];
  return create(RoutesSchema, { setId: 1n, set: "one", version: 1n, uidEnd: 100n, sectionSize: 10, nodes, ...fields });
}

function shown(routes: Routes, uid: bigint): string {
  const route = routes.route(uid);
  return route === undefined ? "outside" : `set ${route.set.id} owner ${route.owner} epoch ${route.epoch}`;
}

test("a table routes uids to owners", () => {
  const routes = new Routes(new FakeClock());
  const runs = [
    { firstSection: 0, sections: 3, owner: 1, epoch: 4n },
    { firstSection: 3, sections: 1, owner: 2, epoch: 5n },
    { firstSection: 9, sections: 1, epoch: 7n, awaySetId: 2n },
  ];
  const sets = [{ id: 2n, name: "two", allocs: ["b1:1"] }];
  assert.deepEqual(routes.adopt(table({ runs, sets }), "seed:1"), { isNewer: true, addrs: true });
  assert.equal(shown(routes, 0n), "set 1 owner 1 epoch 4");
  assert.equal(shown(routes, 29n), "set 1 owner 1 epoch 4");
  assert.equal(shown(routes, 30n), "set 1 owner 2 epoch 5");
  assert.equal(shown(routes, 99n), "set 2 owner 0 epoch 7");
  // A section without a route is requested from the set whose table came first.
  assert.equal(shown(routes, 50n), "set 1 owner 0 epoch 0");
  assert.equal(shown(routes, 100n), "outside");
  assert.deepEqual([...routes.addrs()].sort(), ["a1:1", "a2:1", "b1:1", "seed:1"]);
  assert.deepEqual(routes.adopt(table({ runs, sets }), "seed:1"), { isNewer: false, addrs: false });
});

test("a delta builds on its version, and another one asks for the whole table", () => {
  const routes = new Routes(new FakeClock());
  routes.adopt(table({ runs: [{ firstSection: 0, sections: 10, owner: 1, epoch: 1n }] }), "seed:1");
  const run = { firstSection: 4, sections: 2, owner: 2, epoch: 2n };
  routes.adopt(table({ version: 2n, baseVersion: 1n, runs: [run] }));
  assert.deepEqual([shown(routes, 45n), shown(routes, 65n)], ["set 1 owner 2 epoch 2", "set 1 owner 1 epoch 1"]);
  const set = routes.route(0n)?.set;
  assert.equal(set?.knownVersion(), 2n);
  assert.throws(() => routes.adopt(table({ version: 9n, baseVersion: 8n, runs: [run] })), RoutesError);
  assert.deepEqual([set?.knownVersion(), set?.knownVersion()], [0n, 2n]);
});

test("a route never falls, and the merge of routes has no order", () => {
  const tables = [1n, 2n, 3n, 4n, 5n, 6n].map((setId) => {
    const runs = Array.from({ length: 10 }, (_, firstSection) => {
      const epoch = BigInt((firstSection * 7 + Number(setId) * 5) % 6) + 1n;
      const away = (firstSection + Number(setId)) % 3 === 0 ? (setId % 6n) + 1n : 0n;
      return { firstSection, sections: 1, epoch, owner: away === 0n ? 1 : 0, awaySetId: away };
    });
    return table({ setId, set: `set-${setId}`, runs });
  });
  const adopted = (order: typeof tables) => {
    const routes = new Routes(new FakeClock());
    const epochs = new Array<bigint>(10).fill(0n);
    for (const each of order) {
      routes.adopt(each, `seed-${each.setId}:1`);
      for (let section = 0; section < 10; section++) {
        const epoch = routes.route(BigInt(section * 10))?.epoch ?? 0n;
        assert.ok(epoch >= (epochs[section] ?? 0n));
        epochs[section] = epoch;
      }
    }
    return Array.from({ length: 10 }, (_, section) => shown(routes, BigInt(section * 10)));
  };
  const expected = adopted(tables);
  // A shuffle that a failed run repeats.
  let state = 1;
  for (let round = 0; round < 50; round++) {
    const order = [...tables, ...tables];
    for (let index = order.length - 1; index > 0; index--) {
      state = (state * 48_271) % 2_147_483_647;
      const other = state % (index + 1);
      [order[index], order[other]] = [order[other] as (typeof tables)[0], order[index] as (typeof tables)[0]];
    }
    assert.deepEqual(adopted(order), expected, `round ${round}`);
  }
});

test("an owner is more than a claim, and a claim more than no owner", () => {
  const routes = new Routes(new FakeClock());
  routes.adopt(table({ sets: [{ id: 2n, name: "two", allocs: ["b1:1"] }] }), "seed:1");
  const [one, two] = [routes.sets.get(1n), routes.sets.get(2n)];
  assert.ok(one && two);
  const claim: Route = { epoch: 5n, set: two, owner: 0, isClaim: true };
  const owned: Route = { epoch: 5n, set: two, owner: 2, isClaim: false };
  const unknown: Route = { epoch: 5n, set: one, owner: 0, isClaim: false };
  const newer: Route = { epoch: 6n, set: one, owner: 0, isClaim: false };
  const ascending = [unknown, claim, owned, newer];
  for (const [index, route] of ascending.entries()) {
    for (const [at, known] of ascending.entries()) {
      assert.equal(replaces(route, known), index > at, `${index} over ${at}`);
    }
  }
});

test("a claim of a refusal is adopted if it is newer", () => {
  const routes = new Routes(new FakeClock());
  routes.adopt(table({ runs: [{ firstSection: 0, sections: 10, owner: 1, epoch: 5n }] }), "seed:1");
  routes.claim(15n, 2n, 5n);
  assert.equal(shown(routes, 15n), "set 1 owner 1 epoch 5");
  routes.claim(15n, 2n, 6n);
  assert.deepEqual([shown(routes, 15n), shown(routes, 25n)], ["set 2 owner 0 epoch 6", "set 1 owner 1 epoch 5"]);
  routes.claim(1_000n, 2n, 6n);
});

test("invalid routes are refused, and change nothing", () => {
  const routes = new Routes(new FakeClock());
  const run = { firstSection: 0, sections: 1, owner: 1, epoch: 1n };
  const wrong: [string, MessageInitShape<typeof RoutesSchema>][] = [
    ["no uids", { uidEnd: 0n }],
    ["no uids", { sectionSize: 0 }],
    ["does not follow", { version: 0n }],
    ["does not follow", { baseVersion: 1n }],
    ["more than 1048576", { uidEnd: 1n << 60n }],
    ["a run of 2 sections", { runs: [{ ...run, firstSection: 9, sections: 2 }] }],
    ["a run of 1 sections", { runs: [run, run] }],
    ["none of the set", { runs: [{ ...run, owner: 3 }] }],
    ["none of the set", { runs: [{ ...run, awaySetId: 2n }] }],
    ["no id", { nodes: [{ id: 0, name: "a", addr: "a:1" }] }],
    ["not known here", { version: 3n, baseVersion: 2n }],
  ];
  for (const [text, fields] of wrong) {
    assert.throws(() => routes.adopt(table(fields), "seed:1"), { message: new RegExp(text) });
  }
  assert.equal(routes.sets.size, 0);
  routes.adopt(table(), "seed:1");
  const overlapping = table({ setId: 7n, set: "seven", uidStart: 50n, uidEnd: 200n });
  assert.throws(() => routes.adopt(overlapping, "seed:2"), /sets "seven" and "one" overlap/);
  routes.adopt(table({ setId: 8n, set: "eight", uidStart: 100n, uidEnd: 200n }), "seed:3");
  assert.equal(routes.route(150n)?.set.id, 8n);
  // A set becomes known by a seed or another set, so that it has an address.
  assert.equal(routes.adopt(table({ setId: 9n })).isNewer, false);
});

test("the host of a request is the owner, or a good node, or any", () => {
  const routes = new Routes(new FakeClock());
  routes.adopt(table(), "seed:1");
  const set = routes.sets.get(1n);
  assert.ok(set);
  const none = () => false;
  assert.equal(set.host(2, undefined, none), "a2:1");
  assert.equal(set.host(2, "a2:1", none, 0), "a1:1");
  assert.equal(
    set.host(2, undefined, (addr) => addr !== "seed:1"),
    "seed:1",
  );
  assert.equal(
    set.host(2, "a1:1", () => true),
    "a2:1",
  );
  assert.deepEqual([set.isDown(() => true), set.isDown((addr) => addr !== "a1:1")], [true, false]);
  assert.equal(
    set.hasOtherGoodHost("a1:1", (addr) => addr === "a2:1"),
    true,
  );
  assert.equal(
    set.hasOtherGoodHost("seed:1", (addr) => addr !== "seed:1"),
    false,
  );
});

test("a set without routes of its own is asked for its whole table once a second", async () => {
  const clock = new FakeClock();
  const routes = new Routes(clock);
  routes.adopt(table({ sets: [{ id: 2n, name: "two", allocs: ["b1:1"] }] }), "seed:1");
  const two = routes.sets.get(2n);
  assert.deepEqual([two?.knownVersion(), two?.knownVersion()], [0n, undefined]);
  await clock.advance(1_000);
  assert.deepEqual([two?.knownVersion(), two?.knownVersion()], [0n, undefined]);
});
