/** Certificates of a client. They are read again for each handshake, so a rotation needs no new client. */

import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import { ConnectFailed } from "./errors.js";
import type { Log } from "./observer.js";

/** A file by its path, or its content. */
export type PemSource = string | URL | Uint8Array;

/** The cluster's authorities, and the client's own certificate. */
export interface TlsOptions {
  /** The certificates to trust, `ca.crt`, as `seqsvr cert` writes it. */
  ca: PemSource;
  /**
   * The client's private key and its certificate in one file, such as `client.backend.pem` of `seqsvr cert issue`. A
   * caller with a token needs none.
   */
  pem?: PemSource;
}

/** The credentials for the next handshake. */
export class Credentials {
  readonly #options: TlsOptions;
  readonly #log: Log;
  #context: SecureContext;
  /** The contents of the present context. */
  #read: string;

  /** Reads the files. Throws ConnectFailed if a file cannot be read or used. */
  constructor(options: TlsOptions, log: Log) {
    this.#options = options;
    this.#log = log;
    const { ca, pem } = this.#load();
    this.#context = newContext(ca, pem);
    this.#read = `${ca}\0${pem}`;
  }

  /**
   * Returns the context for a handshake. If a file cannot be used now, for example while it is written, the last one.
   */
  context(): SecureContext {
    try {
      const { ca, pem } = this.#load();
      const read = `${ca}\0${pem}`;
      if (read !== this.#read) {
        this.#context = newContext(ca, pem);
        this.#read = read;
        this.#log("info", "the certificates were read again", {});
      }
    } catch (error) {
      this.#log("warn", "the certificates cannot be read, and the last ones are used", { error: String(error) });
    }
    return this.#context;
  }

  #load(): { ca: string; pem: string | undefined } {
    const { ca, pem } = this.#options;
    const own = pem === undefined ? undefined : load(pem, ["CERTIFICATE", "PRIVATE KEY"]);
    return { ca: load(ca, ["CERTIFICATE"]), pem: own };
  }
}

function load(source: PemSource, sections: string[]): string {
  const isPath = typeof source === "string" || source instanceof URL;
  const name = isPath ? String(source) : "the given content";
  let content: string;
  try {
    content = isPath ? readFileSync(source, "utf8") : Buffer.from(source).toString("utf8");
  } catch (cause) {
    throw new ConnectFailed(`${name} cannot be read: ${(cause as Error).message}`, { retryable: false, cause });
  }
  for (const section of sections) {
    // Keys of some kinds have a word in front, as "EC PRIVATE KEY".
    if (!new RegExp(`^-----BEGIN ([A-Z]+ )?${section}-----`, "m").test(content)) {
      throw new ConnectFailed(`${name} has no section -----BEGIN ${section}-----`, { retryable: false });
    }
  }
  return content;
}

function newContext(ca: string, pem: string | undefined): SecureContext {
  try {
    const own = pem === undefined ? {} : { cert: pem, key: pem };
    return createSecureContext({ ca, ...own, minVersion: "TLSv1.3" });
  } catch (cause) {
    throw new ConnectFailed(`the certificates cannot be used: ${(cause as Error).message}`, {
      retryable: false,
      cause,
    });
  }
}
