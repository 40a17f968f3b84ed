/** A message to a group: `node group.js http://127.0.0.1:7100 7 42 1001`. */

import { Client, SeqError } from "../src/index.js";

const [seed = "", ...members] = process.argv.slice(2);
await using client = await Client.open({ seeds: seed });

/** Allocates one number for each member, in one request to each owner. */
async function send(text: string): Promise<void> {
  const numbers = await client.nextMany(members.map(BigInt));
  for (const [index, number] of numbers.entries()) {
    console.log(`${members[index]}: "${text}" is ${number instanceof SeqError ? number.message : number.value}`);
  }
}

await Promise.all([send("hello"), send("how are you")]);
