/** What a city of two operators has really published (tests/web/published.json), to be changed as somebody dishonest would. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { hex, type Source } from "../pages/audit/audit.ts";
import { type Bytes, sha256 } from "../src/bytes.ts";
import { jointHello } from "../src/client.ts";
import { decode, encode } from "../src/codec.ts";
import {
  coSignature, counts, edition, keyChange, logEntry, logPage, manifest, NO_LOG, numbersIn, rotation, type Rotation, rotations,
} from "../src/documents.ts";
import { SigningKey } from "../src/keys.ts";
import { digestOf } from "../src/messages.ts";
import { POPULARITY, popularityOf } from "../src/popularity.ts";

const HELD = JSON.parse(readFileSync(new URL("../../tests/web/published.json", import.meta.url), "utf8")) as {
  deployment: string; log: string; documents: Record<string, string>;
};

interface Keys {
  readonly recommender: SigningKey;
  readonly helper: SigningKey;
}

/** What a recommender gives out, to be changed. */
export class Published implements Source {
  hello = decode(jointHello, bytesOf(HELD.deployment));
  page = decode(logPage, bytesOf(HELD.log));
  documents = new Map(Object.entries(HELD.documents).map(([name, body]) => [name, bytesOf(body)]));

  async deployment(): Promise<Bytes> {
    return encode(jointHello, this.hello);
  }

  rotated: readonly Rotation[] = [];

  async rotations(): Promise<Bytes> {
    return encode(rotations, { rotations: this.rotated });
  }

  async log(after: number): Promise<Bytes> {
    return encode(logPage, { ...this.page, entries: this.page.entries.slice(after) });
  }

  async document(address: string): Promise<Bytes | undefined> {
    return this.documents.get(address);
  }

  at(subject: string): number {
    return this.page.entries.findIndex(({ entry }) => entry.subject === subject);
  }

  /** As dishonest operators would: everything is signed anew, with keys of their own. */
  async signAnew(change: (subject: string, document: Bytes) => Promise<Bytes>): Promise<Keys> {
    const [recommender, helper] = [await SigningKey.generate(), await SigningKey.generate()];
    this.hello = { ...this.hello, recommender: recommender.public, helper: helper.public };
    let last = NO_LOG.last;
    const entries = [];
    for (const { entry } of this.page.entries) {
      const signed = { ...entry, previous: last, document: await change(entry.subject, entry.document) };
      entries.push({ entry: signed, signature: await recommender.sign(encode(logEntry, signed)) });
      last = await digestOf(logEntry, signed);
    }
    const statement = { ...this.page.cosigned!.statement, last };
    this.page = { entries, cosigned: { statement, signature: await helper.sign(encode(coSignature, statement)) } };
    return { recommender, helper };
  }

  /** A rotation of the recommender's key at the end, and an entry that the new key has signed; or that nobody told of. */
  async rotate({ recommender, helper }: Keys, changes: Partial<Rotation>, told = true): Promise<void> {
    const next = await SigningKey.generate();
    const { deployment } = this.page.entries[0]!.entry;
    const change = { deployment, number: 0, role: "recommender" as const, old: recommender.public, new: next.public, time: 0 };
    const [byOld, byNew, byPeer] = await Promise.all([recommender, next, helper].map((one) => one.sign(encode(keyChange, change))));
    const said = { change, byOld: byOld!, byNew: byNew!, byPeer: byPeer!, ...changes };
    const entries = [...this.page.entries];
    const again = entries[this.at("catalogue")]!.entry.document;
    const more = [["rotation", await this.put(encode(rotation, said)), recommender], ["catalogue", again, next]] as const;
    for (const [subject, document, by] of more) {
      const previous = await digestOf(logEntry, entries.at(-1)!.entry);
      const entry = { version: 1, deployment, index: entries.length, previous, subject, document };
      entries.push({ entry, signature: await by.sign(encode(logEntry, entry)) });
    }
    const last = await digestOf(logEntry, entries.at(-1)!.entry);
    const statement = { ...this.page.cosigned!.statement, length: entries.length, last };
    this.page = { entries, cosigned: { statement, signature: await helper.sign(encode(coSignature, statement)) } };
    this.hello = { ...this.hello, recommender: next.public };
    this.rotated = told ? [said] : [];
  }

  async put(body: Bytes): Promise<Bytes> {
    const name = await sha256(body);
    this.documents.set(hex(name), body);
    return name;
  }

  /** An edition in which popularity rises out of the noise; with something added to an opened sum after it was computed. */
  async risen(added: number): Promise<void> {
    await this.signAnew(async (subject, document) => {
      if (subject !== "edition") return document;
      const found = decode(edition, this.documents.get(hex(document))!);
      const list = decode(manifest, this.documents.get(hex(found.manifest))!);
      const { popularity } = JSON.parse(new TextDecoder().decode(found.encoding)) as { popularity: { column: string }[] };
      const own = popularity.findIndex(({ column }) => column === POPULARITY);
      assert.ok(own >= 0);
      const regions = [];
      for (const region of list.regions) {
        const held = decode(counts, this.documents.get(hex(region.counts))!);
        const many = held.sums.length / 8;
        const [sums, predicted, released] = [numbersIn(held.sums, "float64", many), numbersIn(held.predicted, "float64", many), numbersIn(held.released, "float64", many * popularity.length)];
        for (let at = 0; at < many; at += 1) released[at * popularity.length + own] = popularityOf(sums[at]!, predicted[at]!, found.sigma, 2);
        if (regions.length === 0) sums[0]! += added;
        const bytes = (values: Float64Array) => new Uint8Array(values.buffer) as Bytes;
        regions.push({ ...region, counts: await this.put(encode(counts, { ...held, sums: bytes(sums), released: bytes(released) })) });
      }
      return this.put(encode(edition, { ...found, shape: 2, manifest: await this.put(encode(manifest, { ...list, regions })) }));
    });
  }
}

function bytesOf(text: string): Bytes {
  return Uint8Array.from(Buffer.from(text, "base64"));
}
