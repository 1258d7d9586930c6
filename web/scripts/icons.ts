/** The icons of My phone, drawn by arithmetic: a hexagon, as on the map, with a place in it. */

import { crc32, deflateSync } from "node:zlib";

const BACK = [0x0f, 0x5c, 0x55] as const;
const HEXAGON = [0x2f, 0x8f, 0x83] as const;
const PIN = [0xff, 0xff, 0xff] as const;
const SAMPLES = 4; // by 4, within each pixel

/** By file name. A maskable icon fills its square, since a system cuts its own shape out of it. */
export function icons(): Map<string, Uint8Array> {
  return new Map([
    ["icon.svg", new TextEncoder().encode(svg())],
    ["icon-192.png", png(192, { maskable: false })],
    ["icon-512.png", png(512, { maskable: false })],
    ["icon-maskable-512.png", png(512, { maskable: true })],
  ]);
}

const RADIUS = 0.36; // of the hexagon, where the icon's side is 1

function svg(): string {
  const corners = Array.from({ length: 6 }, (_, at) => {
    const angle = Math.PI / 6 + (at * Math.PI) / 3;
    return `${(50 + 100 * RADIUS * Math.cos(angle)).toFixed(2)},${(50 + 100 * RADIUS * Math.sin(angle)).toFixed(2)}`;
  });
  return [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">',
    `<rect width="100" height="100" rx="22" fill="${hex(BACK)}"/>`,
    `<polygon points="${corners.join(" ")}" fill="${hex(HEXAGON)}"/>`,
    `<path d="M50 70C42 58 36 52 36 44a14 14 0 0 1 28 0c0 8-6 14-14 26z" fill="${hex(PIN)}"/>`,
    `<circle cx="50" cy="44" r="5.5" fill="${hex(HEXAGON)}"/></svg>\n`,
  ].join("");
}

function hex(colour: readonly number[]): string {
  return `#${colour.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** The colour of a point of the unit square, and how opaque it is. */
function colourAt(x: number, y: number, maskable: boolean): readonly [readonly number[], number] {
  if (!maskable && !inRoundedSquare(x, y)) return [BACK, 0];
  const [dx, dy] = [x - 0.5, y - 0.44];
  const far = Math.hypot(dx, dy);
  if (far < 0.055) return [HEXAGON, 1];
  if (far < 0.14 || (dy > 0 && y < 0.7 && Math.abs(dx) < 0.14 * Math.sqrt(1 - (y - 0.44) / 0.26) * (1 - 0.35 * ((y - 0.44) / 0.26)))) return [PIN, 1];
  return [inHexagon(x - 0.5, y - 0.5) ? HEXAGON : BACK, 1];
}

function inRoundedSquare(x: number, y: number): boolean {
  const corner = 0.22;
  const [dx, dy] = [Math.max(corner - x, x - (1 - corner), 0), Math.max(corner - y, y - (1 - corner), 0)];
  return Math.hypot(dx, dy) <= corner;
}

function inHexagon(x: number, y: number): boolean {
  const apothem = RADIUS * Math.cos(Math.PI / 6);
  return [0, 1, 2].every((at) => Math.abs(x * Math.cos((at * Math.PI) / 3) + y * Math.sin((at * Math.PI) / 3)) <= apothem);
}

/** 8 bits of red, green, blue and opacity. */
function png(side: number, { maskable }: { maskable: boolean }): Uint8Array {
  const rows = Buffer.alloc(side * (1 + 4 * side));
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const sum = [0, 0, 0, 0];
      for (let sample = 0; sample < SAMPLES * SAMPLES; sample++) {
        const x = (column + ((sample % SAMPLES) + 0.5) / SAMPLES) / side;
        const y = (row + (Math.floor(sample / SAMPLES) + 0.5) / SAMPLES) / side;
        const [colour, opacity] = colourAt(x, y, maskable);
        colour.forEach((value, at) => { sum[at]! += value * opacity; });
        sum[3]! += opacity;
      }
      const at = row * (1 + 4 * side) + 1 + 4 * column;
      for (let part = 0; part < 3; part++) rows[at + part] = sum[3] === 0 ? 0 : Math.round(sum[part]! / sum[3]!);
      rows[at + 3] = Math.round((255 * sum[3]!) / (SAMPLES * SAMPLES));
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([8, 6, 0, 0, 0], 8); // bits, colour type, and the only ways to pack, filter and interlace
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

function chunk(name: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(name, "latin1"), body]);
  const framed = Buffer.alloc(4 + named.length + 4);
  framed.writeUInt32BE(body.length, 0);
  framed.set(named, 4);
  framed.writeUInt32BE(crc32(named), 4 + named.length);
  return framed;
}
