/** BLAKE2b (RFC 7693) with a key and a personalisation: what words and places are hashed with. WebCrypto has none. */

import { type Bytes, utf8 } from "./bytes.ts";

const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n, 0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
] as const;
const COLUMNS = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]] as const;
const DIAGONALS = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] as const;
const BLOCK = 128;

/** A hash of so many bytes; the personalisation has at most 16, the key at most 64. */
export function blake2b(
  message: Bytes, { size, key = new Uint8Array(0), person }: { size: number; key?: Bytes; person: string },
): Bytes {
  const named = new DataView(new ArrayBuffer(16));
  new Uint8Array(named.buffer).set(utf8(person));
  const state = BigUint64Array.from(IV);
  state[0]! ^= 0x01010000n ^ (BigInt(key.length) << 8n) ^ BigInt(size);
  state[6]! ^= named.getBigUint64(0, true);
  state[7]! ^= named.getBigUint64(8, true);

  const start = key.length > 0 ? BLOCK : 0;
  const blocks = Math.max(1, Math.ceil((start + message.length) / BLOCK));
  const padded = new Uint8Array(blocks * BLOCK);
  padded.set(key);
  padded.set(message, start);
  for (let block = 0; block < blocks; block++) {
    const last = block === blocks - 1;
    compress(state, new DataView(padded.buffer, block * BLOCK), last ? start + message.length : (block + 1) * BLOCK, last);
  }
  const view = new DataView(new ArrayBuffer(64));
  state.forEach((word, at) => view.setBigUint64(8 * at, word, true));
  return new Uint8Array(view.buffer, 0, size);
}

function compress(state: BigUint64Array, block: DataView, counted: number, last: boolean): void {
  const v = new BigUint64Array(16); // whose sums wrap at 2^64
  v.set(state);
  v.set(IV, 8);
  v[12]! ^= BigInt(counted);
  if (last) v[14] = ~v[14]!;
  for (let turn = 0; turn < 12; turn++) {
    const order = SIGMA[turn % 10]!;
    [...COLUMNS, ...DIAGONALS].forEach(([a, b, c, d], at) => {
      const x = block.getBigUint64(8 * order[2 * at]!, true);
      const y = block.getBigUint64(8 * order[2 * at + 1]!, true);
      v[a]! += v[b]! + x;
      v[d] = rotated(v[d]! ^ v[a]!, 32n);
      v[c]! += v[d]!;
      v[b] = rotated(v[b]! ^ v[c]!, 24n);
      v[a]! += v[b]! + y;
      v[d] = rotated(v[d]! ^ v[a]!, 16n);
      v[c]! += v[d]!;
      v[b] = rotated(v[b]! ^ v[c]!, 63n);
    });
  }
  for (let at = 0; at < 8; at++) state[at]! ^= v[at]! ^ v[at + 8]!;
}

function rotated(word: bigint, bits: bigint): bigint {
  return (word >> bits) | (word << (64n - bits));
}
