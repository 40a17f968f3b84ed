/** Numbers for a stream of uids, and errors: `node numbers.js http://127.0.0.1:7100 42 43`. */

import { Client, SeqError } from "../src/index.js";

const [seed = "", ...uids] = process.argv.slice(2);
await using client = await Client.open({ seeds: seed });

/** Yields the uids; a queue or a database cursor would do as well. */
async function* source(): AsyncGenerator<bigint> {
  for (const uid of uids) {
    yield BigInt(uid);
  }
}

for await (const { uid, result } of client.nextAll(source())) {
  if (!(result instanceof SeqError)) {
    console.log(`${uid}: ${result.value} after ${result.prev}`);
  } else if (result.mayHaveApplied) {
    console.log(`${uid}: ${result.message}; a number may be lost to a gap`);
  } else {
    console.log(`${uid}: ${result.message}`);
  }
}
