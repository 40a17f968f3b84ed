/** Inboxes of a messenger, in SQLite. docs/inbox.md explains each part; chat.ts serves them over HTTP. */

import Database from "better-sqlite3";
import { type Client, SeqError } from "../src/index.js";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS message (
    id           INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    sender_key   TEXT NOT NULL,      -- drawn by the sender, and kept over its retries
    text         TEXT NOT NULL,
    UNIQUE (conversation, sender_key)
);
CREATE TABLE IF NOT EXISTS inbox (
    uid     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    prev    INTEGER NOT NULL,        -- the number of the entry before, 0 if it is not known
    message INTEGER NOT NULL REFERENCES message (id),
    written REAL NOT NULL,           -- time of the row, in seconds since 1970
    PRIMARY KEY (uid, seq)
);
CREATE INDEX IF NOT EXISTS entries_of_message ON inbox (message);
CREATE TABLE IF NOT EXISTS horizon (
    uid INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL             -- no entry is written at this number or below any more
);
`;

/** Seconds that a reader waits for an entry whose number is taken and whose row is not there. */
export const GRACE_SECONDS = 5;

/** Largest integer of SQLite, and largest uid of an inbox. */
export const MAX_INTEGER = (1n << 63n) - 1n;

/** Most members of a message: more are a room, which has numbers of its own. */
export const MAX_MEMBERS = 1_000;

/** Time for which a transaction waits for one of another process, in which this process does nothing else. */
const BUSY_MS = 5_000;

/** An entry of an inbox. */
export interface Entry {
  seq: bigint;
  conversation: string;
  text: string;
}

/** A row of the table `inbox`, without its message. */
interface Row {
  uid: bigint;
  seq: bigint;
  prev: bigint;
}

/** The members of a message are not of a form that an inbox has. Nothing was sent. */
export class BadMembers extends Error {}

/** The inboxes of all users. Calls may run at a time, and any number of processes may share the database. */
export class Inbox {
  readonly #client: Pick<Client, "nextMany">;
  readonly #db: Database.Database;
  readonly #statements: ReturnType<typeof prepare>;
  /** Seconds that a reader waits for an entry that is on its way. */
  grace: number;

  /** Opens the database, and creates its tables if there are none. */
  constructor(client: Pick<Client, "nextMany">, path: string, grace = GRACE_SECONDS) {
    this.#client = client;
    this.grace = grace;
    this.#db = new Database(path, { timeout: BUSY_MS });
    // Integers are bigints, because a double has no exact ones above 2^53.
    this.#db.defaultSafeIntegers(true);
    this.#db.pragma("journal_mode = WAL");
    this.#db.exec(SCHEMA);
    this.#statements = prepare(this.#db);
  }

  /** Closes the database. */
  close(): void {
    this.#db.close();
  }

  /**
   * Sends a message to all members, once, however often it is called. Returns each member's number of it.
   *
   * Throws a SeqError if a number could not be allocated; then no member has the message, and the call can be repeated.
   */
  async send(
    conversation: string,
    members: readonly bigint[],
    senderKey: string,
    text: string,
  ): Promise<Map<bigint, bigint>> {
    checkMembers(members);
    for (;;) {
      const sent = this.#numbers(conversation, senderKey);
      if (sent !== undefined) {
        return sent;
      }
      const numbers = await this.#client.nextMany(members);
      const rows = numbers.map((number, index): Row => {
        if (number instanceof SeqError) {
          throw number;
        }
        return { uid: members[index] as bigint, seq: number.value, prev: number.prev };
      });
      if (this.#write(conversation, senderKey, text, rows)) {
        return new Map(rows.map(({ uid, seq }) => [uid, seq]));
      }
    }
  }

  /** Returns the next entries of a user with numbers above `after`, in order: no entry is ever written between them. */
  sync(uid: bigint, after: bigint, limit = 100): Entry[] {
    // Read before the entries: all entries up to the horizon are there by then.
    const closed = this.#horizon(uid);
    const entries: Entry[] = [];
    let last = after;
    for (const { seq, prev, written, conversation, text } of this.#statements.entries.all(uid, after, limit)) {
      const noNumberBetween = seq - 1n <= last || seq - 1n <= closed || (prev > 0n && prev === last);
      if (!noNumberBetween) {
        const waited = Date.now() / 1_000 - written;
        if (waited < this.grace || !this.#close(uid, last, seq)) {
          break;
        }
      }
      entries.push({ seq, conversation, text });
      last = seq;
    }
    return entries;
  }

  /** Writes a message and its entries. Returns false, without effect, if it was sent before or a number is too late. */
  #write(conversation: string, senderKey: string, text: string, rows: readonly Row[]): boolean {
    const write = this.#db.transaction((): boolean => {
      if (rows.some(({ uid, seq }) => seq <= this.#horizon(uid))) {
        return false;
      }
      const inserted = this.#statements.message.get(conversation, senderKey, text);
      if (inserted === undefined) {
        return false;
      }
      const written = Date.now() / 1_000;
      for (const { uid, seq, prev } of rows) {
        this.#statements.entry.run(uid, seq, prev, inserted.id, written);
      }
      return true;
    });
    return write.immediate();
  }

  /** Closes a user's numbers below `seq`. Returns false, without effect, if there are entries after `last` by now. */
  #close(uid: bigint, last: bigint, seq: bigint): boolean {
    const close = this.#db.transaction((): boolean => {
      const isEmpty = this.#statements.between.get(uid, last, seq) === undefined;
      if (isEmpty) {
        this.#statements.raise.run(uid, seq - 1n);
      }
      return isEmpty;
    });
    return close.immediate();
  }

  /** Returns the number up to which a user's numbers are closed. */
  #horizon(uid: bigint): bigint {
    return this.#statements.horizon.get(uid)?.seq ?? 0n;
  }

  /** Returns each member's number of a message that was sent already, or undefined. */
  #numbers(conversation: string, senderKey: string): Map<bigint, bigint> | undefined {
    const rows = this.#statements.numbers.all(conversation, senderKey);
    return rows.length === 0 ? undefined : new Map(rows.map(({ uid, seq }) => [uid, seq]));
  }
}

/** Throws BadMembers unless there are members, each once, whose uids SQLite can hold. */
function checkMembers(members: readonly bigint[]): void {
  if (members.length === 0) {
    throw new BadMembers("members is empty; name at least one uid");
  }
  if (members.length > MAX_MEMBERS) {
    throw new BadMembers(
      `members has ${members.length} uids, above ${MAX_MEMBERS}; give a larger room a number of its own`,
    );
  }
  const seen = new Set<bigint>();
  for (const uid of members) {
    if (uid < 0n || uid > MAX_INTEGER) {
      throw new BadMembers(`members has the uid ${uid}, which is not in 0..2^63, the integers of SQLite; leave it out`);
    }
    if (seen.has(uid)) {
      throw new BadMembers(`members has the uid ${uid} twice; name it once`);
    }
    seen.add(uid);
  }
}

/** Prepares the statements of an inbox. */
function prepare(db: Database.Database) {
  return {
    message: db.prepare<[string, string, string], { id: bigint }>(
      `INSERT INTO message (conversation, sender_key, text) VALUES (?, ?, ?)
        ON CONFLICT DO NOTHING RETURNING id`,
    ),
    entry: db.prepare<[bigint, bigint, bigint, bigint, number]>(
      "INSERT INTO inbox (uid, seq, prev, message, written) VALUES (?, ?, ?, ?, ?)",
    ),
    entries: db.prepare<[bigint, bigint, number], Row & Entry & { written: number }>(
      `SELECT seq, prev, written, conversation, text FROM inbox JOIN message ON message.id = inbox.message
        WHERE uid = ? AND seq > ? ORDER BY seq LIMIT ?`,
    ),
    between: db.prepare<[bigint, bigint, bigint]>("SELECT 1 FROM inbox WHERE uid = ? AND seq > ? AND seq < ? LIMIT 1"),
    raise: db.prepare<[bigint, bigint]>(
      "INSERT INTO horizon VALUES (?, ?) ON CONFLICT (uid) DO UPDATE SET seq = max(seq, excluded.seq)",
    ),
    horizon: db.prepare<[bigint], { seq: bigint }>("SELECT seq FROM horizon WHERE uid = ?"),
    numbers: db.prepare<[string, string], { uid: bigint; seq: bigint }>(
      `SELECT uid, seq FROM message JOIN inbox ON inbox.message = message.id
        WHERE conversation = ? AND sender_key = ?`,
    ),
  };
}
