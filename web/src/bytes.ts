/** Byte strings. */

/** Bytes in memory of their own, as WebCrypto takes them. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

export function joined(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Whether two byte strings are the same. Not in constant time: for what is public. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** A number as so many bytes, big endian. */
export function bigEndian(number: number | bigint, size: number): Bytes {
  const bytes = new Uint8Array(size);
  let rest = BigInt(number);
  for (let at = size - 1; at >= 0; at--) {
    bytes[at] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

/** Bytes as a number, little endian. */
export function littleEndian(bytes: Uint8Array): bigint {
  let number = 0n;
  for (let at = bytes.length - 1; at >= 0; at--) number = (number << 8n) | BigInt(bytes[at]!);
  return number;
}

/** SHA-256. */
export async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
