/**
 * Keys: X25519 agreement, Ed25519 signatures, HKDF-SHA256 that binds a derived key to everything it is meant for, and
 * boxes, which are HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM.
 *
 * All by WebCrypto, which browsers and Node share, and which keeps secrets out of reach where they are not extractable.
 * What it lacks is here: public keys of low order, under which one signature holds for every message and which Chromium
 * takes (w3c/webcrypto, issue 423), are refused; and HPKE is put together from its parts. Whatever is wrong with a key,
 * a signature or a box, the peer reads the same words.
 */

import { bigEndian, type Bytes, joined, littleEndian, utf8 } from "./bytes.ts";
import { PeerError, UsageError } from "./errors.ts";

export const KEY = 32; // bytes of every key here, secret, public or derived

const SIGN = 1n << 255n; // the bit of a public key that is not part of its coordinate
const FIELD = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n; // y of two points
// y of all points of order 1, 2, 4 and 8, the spellings of 0 and 1 beyond the field included
const LOW_ORDER = new Set([0n, 1n, FIELD - 1n, FIELD, FIELD + 1n, ORDER_EIGHT, FIELD - ORDER_EIGHT]);

const refused = (): PeerError => new PeerError("AUTH", "a key or a signature does not hold");

/** What a key is bound to: bytes, text or whole numbers. */
export type Field = Bytes | string | number | bigint;

/** An X25519 key pair. Both ends of `agree` learn the same secret; the wire sees public keys only. */
export class AgreementKey {
  readonly #secret: CryptoKey;
  readonly public: Bytes;

  private constructor(secret: CryptoKey, publicKey: Bytes) {
    this.#secret = secret;
    this.public = publicKey;
  }

  static async of(secret: Bytes): Promise<AgreementKey> {
    const key = await crypto.subtle.importKey("pkcs8", pkcs8(0x6e, secret), "X25519", false, ["deriveBits"]);
    return new AgreementKey(key, await agreed(key, Uint8Array.of(9, ...new Uint8Array(KEY - 1)))); // 9: the base point
  }

  /** A new key, which cannot be read out again. */
  static async generate(): Promise<AgreementKey> {
    const pair = (await crypto.subtle.generateKey("X25519", false, ["deriveBits"])) as CryptoKeyPair;
    return new AgreementKey(pair.privateKey, await rawPublic(pair));
  }

  /** The 32 bytes shared with the holder of a public key; PeerError AUTH if it is malformed or of low order. */
  async agree(peer: Bytes): Promise<Bytes> {
    return agreed(this.#secret, peer);
  }

  /** What was sealed to this key with exactly these fields; PeerError AUTH for any other bytes. */
  async openBox(box: Bytes, ...fields: readonly Field[]): Promise<Bytes> {
    const enclosed = box.slice(0, KEY);
    const { key, nonce } = await boxKey(await this.agree(enclosed), enclosed, this.public, spelledOut(fields));
    try {
      return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv: nonce }, key, box.slice(KEY)));
    } catch {
      throw refused();
    }
  }
}

/** An Ed25519 key pair. A signature need not be the same twice: Safari signs with randomness. */
export class SigningKey {
  readonly #secret: CryptoKey;
  readonly public: Bytes;

  private constructor(secret: CryptoKey, publicKey: Bytes) {
    this.#secret = secret;
    this.public = publicKey;
  }

  static async of(secret: Bytes): Promise<SigningKey> {
    // what may be exported, so that the public key can be; then the same as a key that cannot be read out
    const encoded = pkcs8(0x70, secret);
    const open = await crypto.subtle.importKey("pkcs8", encoded, "Ed25519", true, ["sign"]);
    const { x } = await crypto.subtle.exportKey("jwk", open);
    const key = await crypto.subtle.importKey("pkcs8", encoded, "Ed25519", false, ["sign"]);
    return new SigningKey(key, fromBase64Url(x!));
  }

  /** A new key, which cannot be read out again. */
  static async generate(): Promise<SigningKey> {
    const pair = (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
    return new SigningKey(pair.privateKey, await rawPublic(pair));
  }

  /** One that was generated here and kept by a store. */
  static kept(secret: CryptoKey, publicKey: Bytes): SigningKey {
    return new SigningKey(secret, publicKey);
  }

  /** What a store keeps. */
  get key(): CryptoKey {
    return this.#secret;
  }

  async sign(message: Bytes): Promise<Bytes> {
    return new Uint8Array(await crypto.subtle.sign("Ed25519", this.#secret, message));
  }
}

/** Silent if the holder of `publicKey` signed exactly this message; otherwise PeerError AUTH. */
export async function verify(publicKey: Bytes, signature: Bytes, message: Bytes): Promise<void> {
  if (publicKey.length !== KEY || LOW_ORDER.has(littleEndian(publicKey) & ~SIGN)) throw refused();
  let holds = false;
  try {
    const key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
    holds = await crypto.subtle.verify("Ed25519", key, signature, message);
  } catch {
    // no point of the curve: some browsers say so when the key is read, others find that nothing holds under it
  }
  if (!holds) throw refused();
}

/** HKDF-SHA256 without salt: 32 bytes for exactly this list of fields; say in them what the key is for. */
export async function derive(secret: Bytes, ...fields: readonly Field[]): Promise<Bytes> {
  if (secret.length < 16) throw new UsageError("keys are derived from a secret of at least 16 bytes"); // or be guessed
  const info = spelledOut(fields);
  const key = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
  const terms = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info };
  return new Uint8Array(await crypto.subtle.deriveBits(terms, key, 8 * KEY));
}

/** A box for the holder of an X25519 key, 48 bytes longer than its content; say in the fields what it is. */
export async function sealBox(publicKey: Bytes, content: Bytes, ...fields: readonly Field[]): Promise<Bytes> {
  const ephemeral = await AgreementKey.generate();
  const agreement = await ephemeral.agree(publicKey);
  const { key, nonce } = await boxKey(agreement, ephemeral.public, publicKey, spelledOut(fields));
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, key, content);
  return joined(ephemeral.public, new Uint8Array(sealed));
}

/** HMAC-SHA256. */
export async function hmac(key: Bytes, message: Bytes): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, message));
}

async function agreed(secret: CryptoKey, peer: Bytes): Promise<Bytes> {
  try {
    const key = await crypto.subtle.importKey("raw", peer, "X25519", false, []);
    const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: key }, secret, 8 * KEY));
    if (shared.some((byte) => byte !== 0)) return shared;
  } catch {
    // refused below
  }
  throw refused();
}

/** A secret key as WebCrypto reads it: RFC 8410, where the kind of key is one byte. */
function pkcs8(kind: number, secret: Bytes): Bytes {
  if (secret.length !== KEY) throw new UsageError(`a secret key is ${KEY} bytes`);
  return Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, kind, 4, 0x22, 4, 0x20, ...secret);
}

async function rawPublic(pair: CryptoKeyPair): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
}

function fromBase64Url(text: string): Bytes {
  const decoded = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
}

// What a key is bound to

/** Every field as its type, its length and its content: two lists that differ anywhere are spelt differently. */
function spelledOut(fields: readonly Field[]): Bytes {
  return joined(
    ...fields.flatMap((field) => {
      const [kind, content] = spelt(field);
      return [utf8(kind), bigEndian(content.length, 8), content];
    }),
  );
}

function spelt(field: Field): [string, Bytes] {
  if (field instanceof Uint8Array) return ["b", field];
  if (typeof field === "string" && field.isWellFormed()) return ["s", utf8(field)];
  if (typeof field === "bigint" || Number.isSafeInteger(field)) return ["i", twosComplement(BigInt(field))];
  throw new UsageError("the fields that a key is bound to are bytes, text or whole numbers");
}

/** The shortest two's complement, big endian. */
function twosComplement(number: bigint): Bytes {
  let size = 1;
  while (BigInt.asIntN(8 * size, number) !== number) size++;
  return bigEndian(BigInt.asUintN(8 * size, number), size);
}

// HPKE: the key of a box, from what both ends agreed on

const VERSION = utf8("HPKE-v1");
const KEM = Uint8Array.of(...utf8("KEM"), 0, 0x20);
const SUITE = Uint8Array.of(...utf8("HPKE"), 0, 0x20, 0, 1, 0, 1);
const NOTHING = new Uint8Array(0);

async function boxKey(
  agreement: Bytes, enclosed: Bytes, publicKey: Bytes, info: Bytes,
): Promise<{ key: CryptoKey; nonce: Bytes }> {
  const shared = await expand(
    await extract(NOTHING, "eae_prk", agreement, KEM), "shared_secret", joined(enclosed, publicKey), KEY, KEM,
  );
  const hashes = [await extract(NOTHING, "psk_id_hash", NOTHING, SUITE), await extract(NOTHING, "info_hash", info, SUITE)];
  const context = joined(Uint8Array.of(0), ...hashes);
  const secret = await extract(shared, "secret", NOTHING, SUITE);
  const key = await expand(secret, "key", context, 16, SUITE);
  return {
    key: await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]),
    nonce: await expand(secret, "base_nonce", context, 12, SUITE),
  };
}

function extract(salt: Bytes, label: string, secret: Bytes, suite: Bytes): Promise<Bytes> {
  return hmac(salt.length === 0 ? new Uint8Array(KEY) : salt, joined(VERSION, suite, utf8(label), secret));
}

/** At most 32 bytes, for which HKDF needs one block. */
async function expand(key: Bytes, label: string, info: Bytes, size: number, suite: Bytes): Promise<Bytes> {
  const labelled = joined(bigEndian(size, 2), VERSION, suite, utf8(label), info, Uint8Array.of(1));
  return (await hmac(key, labelled)).slice(0, size);
}
