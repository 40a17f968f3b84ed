// Starts the driver of the conformance suite where it was built: here by `npm run typecheck`, or by the script `check`.
import { existsSync } from "node:fs";

const places = ["./build", "../../target/typescript/build"].map((place) => {
  return new URL(`${place}/conformance/driver.js`, import.meta.url);
});
const built = places.find((place) => existsSync(place));
if (built === undefined) {
  console.error("the driver is not built: run clients/typescript/check");
  process.exit(2);
}
await import(built.href);
