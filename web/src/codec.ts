/**
 * Bytes to values and back, by the kind of each value. Nothing else parses bytes: one value comes out, or a PeerError.
 *
 * MessagePack in its canonical form, which is that of the Python package: every head is the shortest that there is,
 * records are lists of their fields, real numbers have 64 bits. So bytes that decode to a value are the bytes that this
 * value encodes to, and a hash of one is a hash of the other.
 */

import { type Bytes, joined, utf8 } from "./bytes.ts";
import { PeerError, UsageError } from "./errors.ts";

/** How one kind of value is written and read. */
export interface Kind<T> {
  write(to: Writer, value: T): void;
  read(from: Reader): T;
}

/** A record that is led by its name, where it is one of several kinds. */
export interface Tagged<T> extends Kind<T> {
  readonly tag: string;
}

export type Of<K> = K extends Kind<infer T> ? T : never;

export const LIMIT = 64 * 2 ** 20; // bytes

const damaged = (): PeerError => new PeerError("DECODE", "these bytes are not exactly one message of this version");
const notCanonical = (): PeerError => new PeerError("DECODE", "these bytes are not the canonical form of a message");
const unfit = (): UsageError => new UsageError("a value is not of the kind, length or size that its field calls for");

class Writer {
  readonly parts: Bytes[] = [];

  head(first: number, size: number, number: number | bigint): void {
    const part = new Uint8Array(1 + size);
    part[0] = first;
    const view = new DataView(part.buffer);
    if (size === 1) view.setUint8(1, Number(number));
    else if (size === 2) view.setUint16(1, Number(number));
    else if (size === 4) view.setUint32(1, Number(number));
    else if (size === 8) view.setBigUint64(1, BigInt(number));
    this.parts.push(part);
  }

  /** The head of a text, list or byte string: in itself where it is short, else with 1, 2 or 4 bytes behind it. */
  sized(size: number, most: number, short: number, heads: Heads): void {
    if (size <= most) this.head(short | size, 0, 0);
    else if (heads[0] !== null && size < 2 ** 8) this.head(heads[0], 1, size);
    else if (size < 2 ** 16) this.head(heads[1], 2, size);
    else this.head(heads[2], 4, size);
  }
}

type Heads = readonly [number | null, number, number];
const TEXT: Heads = [0xd9, 0xda, 0xdb];
const BYTES: Heads = [0xc4, 0xc5, 0xc6];
const LIST: Heads = [null, 0xdc, 0xdd];
const NOTHING = 0xc0;

class Reader {
  private readonly bytes: Bytes;
  private readonly view: DataView;
  private at = 0;

  constructor(bytes: Bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get left(): number {
    return this.bytes.length - this.at;
  }

  take(size: number): Bytes {
    if (size > this.left) throw damaged();
    this.at += size;
    return this.bytes.slice(this.at - size, this.at);
  }

  /** The byte that comes next, which is left where it is. */
  get next(): number | undefined {
    return this.bytes[this.at];
  }

  byte(): number {
    return this.take(1)[0]!;
  }

  /** An unsigned number of 1, 2, 4 or 8 bytes that needs them all. */
  private unsigned(size: number, least: number | bigint): bigint {
    const number = this.take(size).reduce((found, byte) => (found << 8n) | BigInt(byte), 0n);
    if (number < BigInt(least)) throw notCanonical();
    return number;
  }

  sized(most: number, short: number, heads: Heads): number {
    const head = this.byte();
    if (head >= short && head <= (short | most)) return head - short;
    const power = heads.indexOf(head);
    if (power < 0) throw damaged();
    const least = power === 0 ? most + 1 : power === 1 && heads[0] === null ? most + 1 : 2 ** (8 * power);
    return Number(this.unsigned(2 ** power, least));
  }

  whole(): bigint {
    const head = this.byte();
    if (head < 0x80) return BigInt(head);
    if (head < 0xcc || head > 0xcf) throw damaged();
    const size = 2 ** (head - 0xcc);
    return this.unsigned(size, size === 1 ? 0x80 : 2n ** BigInt(4 * size));
  }

  real(): number {
    if (this.byte() !== 0xcb) throw damaged();
    const at = this.at;
    this.take(8);
    return this.view.getFloat64(at);
  }
}

// Kinds of values

/** Bytes of a length within these bounds. */
export function bytes(least: number, most = least): Kind<Bytes> {
  return {
    write(to, value) {
      if (value.length < least || value.length > most) throw unfit();
      to.sized(value.length, -1, 0, BYTES);
      to.parts.push(value);
    },
    read(from) {
      const size = from.sized(-1, 0x100, BYTES);
      if (size < least || size > most) throw damaged();
      return from.take(size);
    },
  };
}

/** Text of so many characters, counted as Unicode does. */
export function text(least = 0, most = LIMIT): Kind<string> {
  const fits = (value: string): boolean => {
    if (value.length < least) return false; // a character is one or two units
    if (value.length <= most && (least < 2 || value.length >= 2 * least)) return true;
    const characters = [...value].length;
    return characters >= least && characters <= most;
  };
  return {
    write(to, value) {
      if (!value.isWellFormed() || !fits(value)) throw unfit();
      const spelt = utf8(value);
      to.sized(spelt.length, 31, 0xa0, TEXT);
      to.parts.push(spelt);
    },
    read(from) {
      const spelt = from.take(from.sized(31, 0xa0, TEXT));
      const value = decodedText(spelt);
      if (!fits(value)) throw damaged();
      return value;
    },
  };
}

const textDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodedText(spelt: Bytes): string {
  try {
    return textDecoder.decode(spelt);
  } catch {
    throw damaged();
  }
}

/** A whole number from `least` to `most`, both below 2^53. */
export function whole(most: number, least = 0): Kind<number> {
  const fits = (value: number): boolean => Number.isSafeInteger(value) && value >= least && value <= most;
  return {
    write(to, value) {
      if (!fits(value)) throw unfit();
      writeWhole(to, value);
    },
    read(from) {
      const value = Number(from.whole());
      if (!fits(value)) throw damaged();
      return value;
    },
  };
}

/** A whole number that may need all 64 bits. */
export function long(most: bigint): Kind<bigint> {
  const fits = (value: bigint): boolean => value >= 0n && value <= most;
  return {
    write(to, value) {
      if (!fits(value)) throw unfit();
      writeWhole(to, value);
    },
    read(from) {
      const value = from.whole();
      if (!fits(value)) throw damaged();
      return value;
    },
  };
}

function writeWhole(to: Writer, value: number | bigint): void {
  if (value < 0x80) to.head(Number(value), 0, 0);
  else if (value < 0x100) to.head(0xcc, 1, value);
  else if (value < 0x10000) to.head(0xcd, 2, value);
  else if (value < 0x100000000) to.head(0xce, 4, value);
  else to.head(0xcf, 8, value);
}

/** A real number of 64 bits. */
export const real: Kind<number> = {
  write(to, value) {
    const part = new Uint8Array(9);
    part[0] = 0xcb;
    new DataView(part.buffer).setFloat64(1, value);
    to.parts.push(part);
  },
  read: (from) => from.real(),
};

/** A real number within these bounds, which is never NaN. */
export function realWithin(least: number, most: number): Kind<number> {
  const fits = (value: number): boolean => value >= least && value <= most;
  return {
    write(to, value) {
      if (!fits(value)) throw unfit();
      real.write(to, value);
    },
    read(from) {
      const value = from.real();
      if (!fits(value)) throw damaged();
      return value;
    },
  };
}

export const flag: Kind<boolean> = {
  write: (to, value) => to.head(value ? 0xc3 : 0xc2, 0, 0),
  read(from) {
    const head = from.byte();
    if (head !== 0xc2 && head !== 0xc3) throw damaged();
    return head === 0xc3;
  },
};

/** One of these values. */
export function oneOf<T, const V extends T>(kind: Kind<T>, ...values: readonly V[]): Kind<V> {
  return {
    write(to, value) {
      if (!values.includes(value)) throw unfit();
      kind.write(to, value);
    },
    read(from) {
      const value = kind.read(from);
      if (!(values as readonly T[]).includes(value)) throw damaged();
      return value as V;
    },
  };
}

/** A value of this kind, or none. */
export function orNothing<T>(kind: Kind<T>): Kind<T | null> {
  return {
    write(to, value) {
      if (value === null) to.head(NOTHING, 0, 0);
      else kind.write(to, value);
    },
    read(from) {
      if (from.next !== NOTHING) return kind.read(from);
      from.byte();
      return null;
    },
  };
}

/** At most so many values of one kind. */
export function list<T>(of: Kind<T>, most = LIMIT, least = 0): Kind<readonly T[]> {
  return {
    write(to, values) {
      if (values.length > most || values.length < least) throw unfit();
      to.sized(values.length, 15, 0x90, LIST);
      for (const value of values) of.write(to, value);
    },
    read(from) {
      const size = from.sized(15, 0x90, LIST);
      if (size > most || size < least || size > from.left) throw damaged(); // each value takes a byte at least
      return Array.from({ length: size }, () => of.read(from));
    },
  };
}

type Fields = Readonly<Record<string, Kind<never> | Kind<unknown>>>;
type Values<F> = { readonly [name in keyof F]: Of<F[name]> };

/** A record: its fields in the order in which they are given. */
export function record<const F extends Fields>(fields: F): Kind<Values<F>> {
  return recordLedBy(null, fields);
}

/** A record that is led by its name. */
export function tagged<const F extends Fields>(tag: string, fields: F): Tagged<Values<F>> {
  return { tag, ...recordLedBy(tag, fields) };
}

function recordLedBy<const F extends Fields>(tag: string | null, fields: F): Kind<Values<F>> {
  const kinds = Object.entries(fields) as [string, Kind<unknown>][];
  const size = kinds.length + (tag === null ? 0 : 1);
  const name = text();
  return {
    write(to, values) {
      to.sized(size, 15, 0x90, LIST);
      if (tag !== null) name.write(to, tag);
      for (const [field, kind] of kinds) kind.write(to, values[field as keyof F]);
    },
    read(from) {
      if (from.sized(15, 0x90, LIST) !== size || (tag !== null && name.read(from) !== tag)) throw damaged();
      return Object.fromEntries(kinds.map(([field, kind]) => [field, kind.read(from)])) as Values<F>;
    },
  };
}

// Whole messages

/** Canonical bytes of a value. */
export function encode<T>(kind: Kind<T>, value: T): Bytes {
  const to = new Writer();
  kind.write(to, value);
  return joined(...to.parts);
}

/** Decode bytes that are exactly one value of this kind; PeerError otherwise. */
export function decode<T>(kind: Kind<T>, data: Bytes, limit = LIMIT): T {
  if (data.length > limit) {
    throw new PeerError("DECODE", `a message of ${data.length} bytes is over the limit of ${limit}`);
  }
  const from = new Reader(data);
  const value = kind.read(from);
  if (from.left > 0) throw damaged();
  return value;
}

/** Decode bytes that are exactly one record of one of these kinds, each led by its name. */
export function decodeOneOf<const K extends readonly Tagged<unknown>[]>(
  kinds: K, data: Bytes, limit = LIMIT,
): { [at in keyof K]: { readonly tag: string; readonly value: Of<K[at]> } }[number] {
  const tag = tagOf(data.length > limit ? new Uint8Array(0) : data);
  const kind = kinds.find((one) => one.tag === tag);
  if (kind === undefined) throw damaged();
  return { tag: kind.tag, value: decode(kind, data, limit) } as never;
}

/** The text that a record of whatever kind is led by; null if there is none. */
export function tagOf(data: Bytes): string | null {
  try {
    const from = new Reader(data);
    return from.sized(15, 0x90, LIST) > 0 ? text().read(from) : null;
  } catch {
    return null;
  }
}
