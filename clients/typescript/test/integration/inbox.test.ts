/** The inboxes of examples/inbox.ts: their rules, and no message lost or doubled while an owner is killed. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import Database from "better-sqlite3";
import { BadMembers, type Entry, Inbox, MAX_MEMBERS } from "../../examples/inbox.js";
import { Allocation, Client, SeqError } from "../../src/index.js";
import { Chat, database } from "../chat.js";
import { type Dev, eventually, SeparateSet, type Server, seqsvr, startDev } from "../cluster.js";

let dev: Dev;
let client: Client;

/** Returns a uid that no other test uses. */
const nextUid = (() => {
  let uid = 750_000n;
  return () => uid++;
})();

before(async () => {
  dev = await startDev();
  client = await Client.open({ seeds: dev.allocs, deadlineMs: 10_000 });
});

after(async () => {
  await client.close();
  await dev.stop();
});

/** Opens the inboxes of a database with another connection. */
function open(t: TestContext, path: string, grace: number, numbers: Pick<Client, "nextMany"> = client): Inbox {
  const inbox = new Inbox(numbers, path, grace);
  t.after(() => inbox.close());
  return inbox;
}

/** Returns a client whose caller runs `meanwhile` between its numbers and its rows, the first time. */
function paused(meanwhile: () => Promise<void>): Pick<Client, "nextMany"> {
  let isFirst = true;
  return {
    nextMany: async (uids) => {
      const numbers = await client.nextMany(uids);
      if (isFirst) {
        isFirst = false;
        await meanwhile();
      }
      return numbers;
    },
  };
}

function texts(entries: Entry[]): string[] {
  return entries.map(({ text }) => text);
}

test("the tables are those of docs/inbox.md, which other clients share", (t) => {
  const page = readFileSync(join(process.env.DOCS ?? "", "inbox.md"), "utf8");
  const schema = /```sql\n(.*?)```/s.exec(page)?.[1];
  assert.ok(schema !== undefined);
  const [ofPage, ofInbox] = [new Database(":memory:"), database(t)];
  ofPage.exec(schema);
  open(t, ofInbox, 0);
  const tables = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
  assert.deepEqual(new Database(ofInbox).prepare(tables).all(), ofPage.prepare(tables).all());
});

test("a message is sent once however often it is repeated", async (t) => {
  const path = database(t);
  const [inbox, other] = [open(t, path, 0), open(t, path, 0)];
  const members = [nextUid(), nextUid()];
  const sent = await inbox.send("c", members, "key", "hello");
  assert.deepEqual(await other.send("c", members, "key", "hello"), sent);
  const [one, two] = await Promise.all([inbox, other].map((each) => each.send("c", members, "other key", "again")));
  assert.deepEqual(one, two, "two attempts at a time");
  for (const uid of members) {
    assert.deepEqual(texts(inbox.sync(uid, 0n)), ["hello", "again"]);
    assert.deepEqual(texts(inbox.sync(uid, sent.get(uid) ?? 0n)), ["again"]);
    assert.deepEqual(texts(inbox.sync(uid, 0n, 1)), ["hello"]);
  }
});

test("a reader waits for an entry that is late", async (t) => {
  const [path, uid] = [database(t), nextUid()];
  const prompt = open(t, path, 3_600);
  const meanwhile = async () => {
    await prompt.send("c", [uid], "3", "third");
    assert.deepEqual(texts(prompt.sync(uid, 0n)), ["first"], "the second one is on its way");
  };
  await prompt.send("c", [uid], "1", "first");
  await open(t, path, 3_600, paused(meanwhile)).send("c", [uid], "2", "second");
  assert.deepEqual(texts(prompt.sync(uid, 0n)), ["first", "second", "third"]);
});

test("a sender that is too late takes another number", async (t) => {
  const [path, uid] = [database(t), nextUid()];
  const hasty = open(t, path, 0);
  const first = (await hasty.send("c", [uid], "1", "first")).get(uid) ?? 0n;
  let seen: Entry[] = [];
  const meanwhile = async () => {
    await hasty.send("c", [uid], "3", "third");
    seen = hasty.sync(uid, 0n);
  };
  const late = open(t, path, 0, paused(meanwhile));
  const second = (await late.send("c", [uid], "2", "second")).get(uid) ?? 0n;
  assert.deepEqual(texts(seen), ["first", "third"]);
  const third = seen.at(-1)?.seq ?? 0n;
  assert.ok(second > third && third > first);
  assert.deepEqual(texts(hasty.sync(uid, third)), ["second"], "a device that had the third one gets it");
});

test("an entry of an owner that does not know the number before is no first one", async (t) => {
  const [path, uid] = [database(t), nextUid()];
  const send = async (value: bigint, text: string) => {
    const number = new Allocation(value, 0n, 1n, 1, 0);
    await open(t, path, 0, { nextMany: async () => [number] }).send("c", [uid], text, text);
  };
  const inbox = open(t, path, 3_600);
  await send(10_001n, "after a crash");
  assert.deepEqual(inbox.sync(uid, 0n), []);
  assert.deepEqual(texts(inbox.sync(uid, 10_000n)), ["after a crash"], "a device with the number before needs no wait");
  await send(1n, "before it");
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["before it"]);
  inbox.grace = 0;
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["before it", "after a crash"]);
  inbox.grace = 3_600;
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["before it", "after a crash"], "what is closed needs no wait");
});

test("an entry whose number before is that of the last entry needs no wait", async (t) => {
  const [path, uid] = [database(t), nextUid()];
  const numbers = [new Allocation(1n, 0n, 1n, 1, 0), new Allocation(20n, 1n, 2n, 1, 0)];
  const inbox = open(t, path, 3_600, { nextMany: async () => numbers.splice(0, 1) });
  await inbox.send("c", [uid], "1", "first");
  await inbox.send("c", [uid], "2", "second");
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["first", "second"]);
});

test("a number is not closed if its entry is written just before", async (t) => {
  const [path, uid] = [database(t), nextUid()];
  const numbers = [new Allocation(1n, 0n, 1n, 1, 0), new Allocation(3n, 2n, 1n, 1, 0)];
  const inbox = open(t, path, 0, { nextMany: async () => numbers.splice(0, 1) });
  await inbox.send("c", [uid], "1", "first");
  await inbox.send("c", [uid], "3", "third");
  // Another process writes while the reader looks at its clock, which is between the entries and the horizon.
  const db = new Database(path);
  t.after(() => db.close());
  const now = Date.now();
  const clock = t.mock.method(Date, "now", () => {
    clock.mock.restore();
    db.exec(`INSERT INTO message VALUES (100, 'c', '2', 'second'); INSERT INTO inbox VALUES (${uid}, 2, 1, 100, 0)`);
    return now + 1_000;
  });
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["first"]);
  assert.deepEqual(texts(inbox.sync(uid, 0n)), ["first", "second", "third"]);
});

test("numbers and uids that no double has stay exact", async (t) => {
  const [path, uid] = [database(t), (1n << 63n) - 3n];
  const value = (1n << 62n) + 1n;
  const numbers = [value, value + 1n].map((each) => new Allocation(each, each - 1n, 1n, 1, 0));
  const inbox = open(t, path, 0, { nextMany: async () => numbers.splice(0, 1) });
  assert.deepEqual(await inbox.send("c", [uid], "1", "first"), new Map([[uid, value]]));
  await inbox.send("c", [uid], "2", "second");
  assert.deepEqual(inbox.sync(uid, value), [{ seq: value + 1n, conversation: "c", text: "second" }]);
  assert.deepEqual(await inbox.send("c", [uid], "1", "first"), new Map([[uid, value]]));
  assert.deepEqual(inbox.sync(uid - 1n, 0n), []);
});

test("members that an inbox cannot have are refused, and no member has the message", async (t) => {
  const [inbox, uid] = [open(t, database(t), 0), nextUid()];
  const many = Array.from({ length: MAX_MEMBERS + 1 }, (_, index) => BigInt(index));
  for (const [members, named] of [
    [[], /members is empty/],
    [[uid, 5n, uid], new RegExp(`uid ${uid} twice`)],
    [[uid, 1n << 63n], /uid 9223372036854775808, which is not in 0\.\.2\^63/],
    [many, /has 1001 uids, above 1000/],
  ] satisfies [bigint[], RegExp][]) {
    await assert.rejects(inbox.send("c", members, "key", "hello"), (error: Error) => {
      return error instanceof BadMembers && named.test(error.message);
    });
  }
  await assert.rejects(inbox.send("c", [uid, dev.uidEnd], "key", "hello"), { kind: "uid_outside", uid: dev.uidEnd });
  assert.deepEqual(inbox.sync(uid, 0n), []);
});

/** Messages of each sender before the owner is killed, and after. */
const MESSAGES = 25;

/** Four members of each message, of which the sections have both owners. */
const MEMBERS = Array.from({ length: 12 }, (_, index) => BigInt(index) * 83n + 5n);

const SENDERS = [0, 1, 2, 3, 4, 5];

/** Entries of a user, by their numbers, as text that is comparable. */
type Received = { seq: string; text: string }[];

/** A device that reads one inbox until it is stopped. */
class Device {
  readonly received: Received = [];
  readonly #done: Promise<void>;
  #isStopped = false;

  constructor(chats: Chat[], uid: bigint) {
    this.#done = this.#run(chats, uid);
    // The failure is that of `stop`.
    this.#done.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#done;
  }

  async #run(chats: Chat[], uid: bigint): Promise<void> {
    for (let turn = 0; !this.#isStopped; turn++) {
      const chat = chats[turn % chats.length] as Chat;
      const { status, body } = await chat.get(`/inbox/${uid}?after=${this.received.at(-1)?.seq ?? 0}`);
      assert.equal(status, 200, JSON.stringify(body));
      this.received.push(...body.entries.map(({ seq, text }: Received[number]) => ({ seq, text })));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** Returns the allocator that has allocated most numbers, so that users of the load are in its sections, and the other. */
async function busiest(set: SeparateSet): Promise<[Server, Server]> {
  const allocated = await eventually("an allocator has allocated numbers", async () => {
    const { allocs } = JSON.parse(await seqsvr("status", "-o", "json", "--addr", set.seeds[0] ?? ""));
    const byAddr = new Map(allocs.map(({ addr, allocations }: Record<string, unknown>) => [addr, Number(allocations)]));
    const counts = set.allocs.map(({ addr }) => Number(byAddr.get(addr)));
    return counts.some((count) => count > 0) ? counts : undefined;
  });
  const [one, two] = set.allocs.map(({ server }) => server) as [Server, Server];
  return (allocated[0] ?? 0) > (allocated[1] ?? 0) ? [one, two] : [two, one];
}

test("no message is lost or doubled, and no send fails, while an owner is killed", async (t) => {
  const set = await SeparateSet.start({ allocs: 2 });
  t.after(() => set.stop());
  const served = await set.open();
  await eventually("all sections are served", async () => {
    return (await served.currentMany(MEMBERS)).every((result) => !(result instanceof SeqError));
  });
  await served.close();
  // Two servers that share the database, as behind a balancer.
  const seeds = set.seeds.flatMap((seed) => ["--seed", seed]);
  const path = database(t);
  const chats = await Promise.all(
    ["0.5", "1"].map((grace) => Chat.start(t, ["--database", path, "--grace", grace, ...seeds])),
  );

  const expected = new Map<bigint, Received>(MEMBERS.map((uid) => [uid, []]));
  const failed: unknown[] = [];
  const sent = SENDERS.map(() => 0);
  let isKilled = false;
  const send = async (sender: number): Promise<void> => {
    for (let toGo = MESSAGES, message = 0; toGo > 0 && failed.length === 0; message++) {
      toGo -= isKilled ? 1 : 0;
      const to = [0, 5, 10, 15].map((step) => MEMBERS[(sender * 7 + message + step) % MEMBERS.length] as bigint);
      const text = `${sender} ${message}`;
      const request = { conversation: "c", members: to.map(String), sender_key: text, text };
      // Each third message is repeated at a time, as by a phone that has lost the response.
      const attempts = message % 3 === 0 ? chats : [chats[sender % 2] as Chat];
      const responses = await Promise.all(attempts.map((chat) => chat.post(request)));
      const [{ status, body }] = responses as [(typeof responses)[number]];
      if (responses.some((each) => each.status !== 200 || JSON.stringify(each.body) !== JSON.stringify(body))) {
        failed.push({ text, responses });
        return;
      }
      assert.equal(status, 200);
      for (const uid of to) {
        expected.get(uid)?.push({ seq: body.numbers[String(uid)], text });
      }
      sent[sender] = message + 1;
    }
  };
  const devices = MEMBERS.map((uid) => new Device(chats, uid));
  const senders = SENDERS.map(send);
  await eventually("each sender has sent", () => failed.length > 0 || sent.every((count) => count >= MESSAGES));
  const [owner, other] = await busiest(set);
  await owner.stop("SIGKILL");
  isKilled = true;
  await Promise.all(senders);
  assert.deepEqual(failed, []);

  const count = (lists: Iterable<Received>) => [...lists].reduce((sum, { length }) => sum + length, 0);
  const total = count(expected.values());
  assert.ok(sent.every((count) => count >= 2 * MESSAGES));
  await eventually("the devices have all messages", () => count(devices.map(({ received }) => received)) >= total);
  await Promise.all(devices.map((device) => device.stop()));
  for (const [index, uid] of MEMBERS.entries()) {
    const { received } = devices[index] as Device;
    const inOrder = [...(expected.get(uid) ?? [])].sort((one, other) => (BigInt(one.seq) < BigInt(other.seq) ? -1 : 1));
    assert.deepEqual(received, inOrder, `uid ${uid}: what the device has, and what was sent`);
    for (const sender of SENDERS) {
      const ofSender = received.filter(({ text }) => text.startsWith(`${sender} `));
      const messages = ofSender.map(({ text }) => Number(text.split(" ")[1]));
      const sorted = messages.toSorted((one, other) => one - other);
      assert.deepEqual(messages, sorted, `uid ${uid}: messages of sender ${sender}`);
    }
  }

  const db = new Database(path, { readonly: true });
  t.after(() => db.close());
  const jumps = db.prepare(`SELECT count(*) FROM inbox AS entry WHERE prev = 0
    AND EXISTS (SELECT * FROM inbox AS earlier WHERE earlier.uid = entry.uid AND earlier.seq < entry.seq)`);
  const afterCrash = Number(jumps.pluck().get());
  const closed = Number(db.prepare("SELECT count(*) FROM horizon").pluck().get());
  t.diagnostic(
    `${total} entries, ${afterCrash} of them the first ones after the crash, ${closed} users with a horizon`,
  );
  assert.ok(afterCrash > 0 && closed > 0, "the new owner did not know the numbers before, and devices closed them");

  const hurried = await Chat.start(t, ["--database", path, "--deadline", "3", ...seeds]);
  await other.stop("SIGKILL");
  const last = devices[0]?.received.at(-1)?.seq;
  const lost = { conversation: "c", members: [String(MEMBERS[0])], sender_key: "nobody", text: "nobody" };
  const { status, body, headers } = await hurried.post(lost);
  assert.deepEqual([status, Number(headers.get("retry-after")) >= 1], [503, true], "no owner is left");
  assert.match(body.error, /^no number was allocated: /);
  assert.match(body.next, /^send the same request again/);
  assert.deepEqual((await hurried.get(`/inbox/${MEMBERS[0]}?after=${last}`)).body, { entries: [], after: last });
});
