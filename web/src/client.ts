/**
 * A device's HTTPS requests to its recommender. Public documents are fetched without a name, cookie or referrer, the same
 * by everyone of a region; the rest goes under a session, which is opened by signing a challenge. What concerns the helper
 * travels through the recommender.
 *
 * A browser cannot pin a certificate: nothing here is believed but what is signed with the pinned keys.
 */

import { type Bytes, joined, utf8 } from "./bytes.ts";
import { bytes, decode, decodeOneOf, encode, LIMIT, list, text, whole, type Of, type Tagged, tagged } from "./codec.ts";
import { deployment, logPage, type Rotation, rotations, WIRE_VERSION } from "./documents.ts";
import { type Fault, PeerError, PrirecError, UsageError } from "./errors.ts";
import type { SigningKey } from "./keys.ts";
import { name, natural, signature } from "./messages.ts";
import { say, type Sentence } from "./sentences.ts";

const MEDIA = "application/msgpack";
const SHORT = 2 ** 16; // bytes of an answer: a proxy may send a page of HTML instead of one
const LONGEST_PAGE = 2 ** 20; // of the log
const SILENCE = 10_000; // milliseconds without a byte after which a request is given up
const WHOLE = 300_000; // for a whole answer

/** The recommender cannot be reached, or is overloaded: try again later. */
export class UnavailableError extends PrirecError {
  override readonly name = "UnavailableError";
  /** Seconds that the recommender asked to wait. */
  readonly after: number;

  constructor(problem: Sentence, after = 0) {
    super(problem);
    this.after = after;
  }
}

// Messages

const opaque = bytes(1, 256);
const greeting = { version: natural, deployment, recommender: name, title: text(0, 200) };

/** GET /v1/deployment: who the recommender is, of a deployment without a helper, and of one with it. */
export const hello = tagged("prirec deployment", greeting);
export const jointHello = tagged("prirec deployment of two operators", { ...greeting, helper: name });
export type JointHello = Of<typeof jointHello>;

/** A device's name, which is its public key; signed with that key. */
export const enrolment = tagged("prirec enrolment", { deployment, name, code: text(0, 100), challenge: opaque });
/** POST /v1/devices. */
export const signedEnrolment = tagged("prirec signed enrolment", { enrolment, signature });
/** POST /v1/challenges: fresh bytes to sign. */
export const challenge = tagged("prirec challenge", { challenge: opaque });
/** What an enrolled device signs to open a session. */
export const claim = tagged("prirec claim", { deployment, name, challenge: opaque });
/** POST /v1/sessions. */
export const signedClaim = tagged("prirec signed claim", { claim, signature });
/** The answer to a claim: a bearer token. */
export const session = tagged("prirec session", { token: text(1, 512), seconds: natural });
/** POST /v1/devices/leave takes it empty. */
export const mail = tagged("prirec mail", {
  messages: list(bytes(0, LIMIT), 8), after: whole(2 ** 53 - 1), wait: whole(30),
});
export const done = tagged("prirec done", {});
/** The body of an error: a fault's name, and a text that repeats nothing of the request. */
export const refusal = tagged("prirec refusal", { fault: text(0, 40), problem: text(0, 400) });

const FAULTS: readonly string[] = ["AUTH", "PARAMS_MISMATCH", "DECODE", "EQUIVOCATION", "ORDER", "PROOF", "ABORTED"];

/** How requests are sent: `fetch`, or what stands in for it. */
export type Fetch = (url: string, how: RequestInit) => Promise<Response>;

export class Client {
  private readonly base: string;
  private readonly fetch: Fetch;
  private readonly deployment: Bytes;
  private readonly identity: SigningKey | null;
  private token = "";

  constructor(url: string, fetch: Fetch, who: { readonly deployment: Bytes; readonly identity: SigningKey } | null = null) {
    this.base = checkedUrl(url);
    this.fetch = fetch;
    this.deployment = who?.deployment ?? new Uint8Array(0);
    this.identity = who?.identity ?? null;
  }

  // Public, without a name

  async hello(): Promise<JointHello> {
    const found = decodeOneOf([hello, jointHello, refusal], await this.get("/v1/deployment", SHORT), SHORT);
    if (found.tag === refusal.tag) throw refused(found.value as Of<typeof refusal>);
    const said = found.value as JointHello;
    if (said.version !== WIRE_VERSION) {
      throw new PeerError("DECODE", say(said.version < WIRE_VERSION ? "olderRecommender" : "olderDevice"));
    }
    if (found.tag !== jointHello.tag) {
      throw new PeerError("PARAMS_MISMATCH", say("oneOperator"));
    }
    return said;
  }

  /** Log entries from this index on, and the helper's signature; the caller verifies them. */
  async log(after: number): Promise<Of<typeof logPage>> {
    return decode(logPage, await this.get(`/v1/log?after=${after}`, LONGEST_PAGE), LONGEST_PAGE);
  }

  /** Of the operators' keys, all that devices follow; the caller verifies them. */
  async rotations(): Promise<readonly Rotation[]> {
    return decode(rotations, await this.get("/v1/rotations", LONGEST_PAGE), LONGEST_PAGE).rotations;
  }

  /** The bytes of a public document; the caller compares the hash. */
  document(address: string): Promise<Bytes> {
    return this.get(`/v1/documents/${address}`, LIMIT);
  }

  // Under the device's identity

  async enrol(code: string): Promise<void> {
    const identity = this.signer();
    const asked = { deployment: this.deployment, name: identity.public, code, challenge: await this.challenge() };
    const body = encode(signedEnrolment, { enrolment: asked, signature: await identity.sign(encode(enrolment, asked)) });
    try {
      expect(done, await this.post("/v1/devices", body));
    } catch (problem) {
      if (problem instanceof PeerError && problem.fault === "AUTH") throw new PeerError("AUTH", say("notEnrolled"));
      throw problem;
    }
  }

  async leave(): Promise<void> {
    expect(done, await this.inSession("/v1/devices/leave", encode(mail, { messages: [], after: 0, wait: 0 })));
  }

  /** Hands in a report, as it was written down. Sent again, the same bytes are the same report. */
  async report(body: Bytes): Promise<void> {
    expect(done, await this.inSession("/v1/reports", body));
  }

  private async inSession(path: string, body: Bytes): Promise<Bytes> {
    for (let attempt = 1; ; attempt++) {
      if (this.token === "") await this.openSession();
      try {
        return await this.post(path, body, this.token);
      } catch (problem) {
        this.token = ""; // it may have expired: once more under a new one
        if (!(problem instanceof PeerError && problem.fault === "AUTH") || attempt === 2) throw problem;
      }
    }
  }

  private async openSession(): Promise<void> {
    const identity = this.signer();
    const asked = { deployment: this.deployment, name: identity.public, challenge: await this.challenge() };
    const body = encode(signedClaim, { claim: asked, signature: await identity.sign(encode(claim, asked)) });
    this.token = expect(session, await this.post("/v1/sessions", body)).token;
  }

  private async challenge(): Promise<Bytes> {
    return expect(challenge, await this.post("/v1/challenges", new Uint8Array(0))).challenge;
  }

  private signer(): SigningKey {
    if (this.identity === null) throw new UsageError("this client has no identity; it is for what is public");
    return this.identity;
  }

  private get(path: string, most: number): Promise<Bytes> {
    return this.request(path, { method: "GET", headers: { accept: MEDIA } }, most);
  }

  private post(path: string, body: Bytes, token = ""): Promise<Bytes> {
    const session = token === "" ? {} : { authorization: `Bearer ${token}` };
    return this.request(path, { method: "POST", headers: { accept: MEDIA, "content-type": MEDIA, ...session }, body }, SHORT);
  }

  private async request(path: string, how: RequestInit, most: number): Promise<Bytes> {
    const ended = new AbortController();
    const whole = setTimeout(() => ended.abort(), WHOLE);
    let silence = setTimeout(() => ended.abort(), SILENCE + (how.body === undefined ? 0 : SILENCE));
    const heard = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => ended.abort(), SILENCE);
    };
    try {
      const answer = await this.fetch(this.base + path, {
        ...how,
        signal: ended.signal,
        // no-store: what was downloaded stays here as long as the device keeps it, and no longer
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
      const body = await bounded(answer, most, heard);
      if (answer.ok) return body;
      if (answer.status === 429 || answer.status >= 500) {
        const after = answer.headers.get("retry-after") ?? "";
        throw new UnavailableError(say("busy"), /^\d{1,6}$/.test(after) ? Number(after) : 1);
      }
      throw refused(decode(refusal, body, SHORT));
    } catch (problem) {
      if (problem instanceof PrirecError) throw problem;
      throw new UnavailableError(say("unreachable")); // of the reason a browser tells nothing
    } finally {
      clearTimeout(whole);
      clearTimeout(silence);
      ended.abort();
    }
  }
}

/** The body, without ever holding more than the limit: a recommender must not be able to fill a device's memory. */
async function bounded(answer: Response, most: number, heard: () => void): Promise<Bytes> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (part === undefined || part.done) return joined(...parts);
    heard();
    size += part.value.length;
    if (size > most) throw new PeerError("DECODE", "the recommender's answer is longer than any answer may be");
    parts.push(part.value);
  }
}

function expect<T>(kind: Tagged<T>, body: Bytes): T {
  const answer = decodeOneOf([kind, refusal] as const, body, SHORT);
  if (answer.tag === refusal.tag) throw refused(answer.value as Of<typeof refusal>);
  return answer.value as T;
}

function refused({ fault, problem }: Of<typeof refusal>): PeerError {
  return new PeerError(FAULTS.includes(fault) ? (fault as Fault) : "ABORTED", problem); // a newer one may have more of them
}

/** UsageError for an address without TLS, or with something in it that would be sent along with every request. */
export function checkedUrl(url: string): string {
  const found = URL.canParse(url) ? new URL(url) : null;
  const plain = found !== null && found.username === "" && found.password === "" && found.search === "" && found.hash === "";
  if (found === null || !plain || found.protocol !== "https:" || utf8(url).length > 500) {
    throw new UsageError(say("address"));
  }
  return found.origin + found.pathname.replace(/\/+$/, "");
}
