/**
 * The catalogue as a device knows it: regions that were downloaded whole, read from documents and checked. Nothing that
 * arrives is trusted: PeerError for a document that does not fit the others. Which regions there are on a device is private
 * and follows from the coarse cell of the home, and those of areas that the person asked for beside it.
 */

import { type Bytes, same } from "./bytes.ts";
import type { Tagged } from "./codec.ts";

import { type Counts, counts as countsKind, type Manifest, numbersIn, type Places, places as placesKind } from "./documents.ts";
import { type Basis, Campaign } from "./campaign.ts";
import { encodeColumn, type Encoding, LARGEST, readEncoding, width } from "./encoding.ts";
import { PeerError } from "./errors.ts";
import type { Point } from "./geography.ts";
import type { KnownPlaces, NoisySums } from "./places.ts";
import { averageColumn, POPULARITY } from "./popularity.ts";

const COUNTED = 1e9; // the largest count of people in one place
const REACH_KM = 10; // regions within this distance of the coarse cell are downloaded
const FINEST_CELL = 6; // the smallest region that is downloaded whole: about 36 km²
const EARTH_KM = 6371.007180918475; // as H3 has it
const NEARBY = "weighted popularity nearby";

/** Cells of H3: the functions of h3-js by these names. */
export interface Cells {
  latLngToCell(latitude: number, longitude: number, resolution: number): string;
  cellToParent(cell: string, resolution: number): string;
  cellToLatLng(cell: string): number[];
  cellToBoundary(cell: string): number[][];
}

/** How a device knows which regions are its own. */
export interface Reach {
  readonly h3: Cells | null;
  /** Coarse cells that the person asked for beside that of the home. */
  areas(): readonly bigint[];
}

/** The coarse cell around a home; 0 without one, which stands for all regions. */
export function homeCell(home: Point | null, h3: Cells | null): bigint {
  return home === null || h3 === null ? 0n : BigInt(`0x${h3.latLngToCell(home[0], home[1], FINEST_CELL)}`);
}

/** The regions around a coarse cell, and those places that are nowhere; null: all. */
export function cellsAround(home: bigint, manifest: Manifest, { h3 }: Reach): ReadonlySet<bigint> | null {
  return home === 0n || h3 === null ? null : around(home, manifest, h3);
}

/** Regions that the person asked for beside these own ones (null: all). Private, so that nothing waits for one of them. */
export function cellsBeside(own: ReadonlySet<bigint> | null, manifest: Manifest, { h3, areas }: Reach): ReadonlySet<bigint> {
  if (own === null || h3 === null) return new Set();
  return new Set(areas().flatMap((area) => [...around(area, manifest, h3)]).filter((cell) => !own.has(cell)));
}

function around(home: bigint, { resolution, regions }: Manifest, h3: Cells): ReadonlySet<bigint> {
  const centre = h3.cellToLatLng(h3.cellToParent(home.toString(16), Math.min(resolution, FINEST_CELL)));
  const own = circle(h3.latLngToCell(centre[0]!, centre[1]!, resolution), h3);
  const near = regions.filter(({ cell }) => {
    if (cell === 0n) return true;
    const there = circle(cell.toString(16), h3);
    return distanceKm(own.centre, there.centre) - own.radiusKm - there.radiusKm <= REACH_KM;
  });
  return new Set(near.map(({ cell }) => cell));
}

/** Around a cell: nothing in it is farther from its centre. */
function circle(cell: string, h3: Cells): { centre: readonly number[]; radiusKm: number } {
  const centre = h3.cellToLatLng(cell);
  return { centre, radiusKm: Math.max(...h3.cellToBoundary(cell).map((corner) => distanceKm(centre, corner))) };
}

function distanceKm(one: readonly number[], other: readonly number[]): number {
  const radians = (degrees: number): number => (degrees * Math.PI) / 180;
  const [a, b] = [radians(one[0]!), radians(other[0]!)];
  const up = Math.sin((b - a) / 2);
  const round = Math.sin(radians(other[1]! - one[1]!) / 2);
  const inside = up * up + Math.cos(a) * Math.cos(b) * round * round;
  return 2 * EARTH_KM * Math.atan2(Math.sqrt(inside), Math.sqrt(1 - inside));
}

/** Addresses of the documents of these regions; null: of all. */
export function regionDocuments(manifest: Manifest, cells: ReadonlySet<bigint> | null): Bytes[] {
  return manifest.regions
    .filter(({ cell }) => cells === null || cells.has(cell))
    .flatMap((line) => [line.places, line.counts])
    .filter((name) => name.length > 0);
}

/** PeerError if the places changed: an edition adds popularity to its charter's places. */
export function refuseOtherPlaces(manifest: Manifest, than: Manifest): void {
  const alike = manifest.resolution === than.resolution && manifest.regions.length === than.regions.length
    && manifest.regions.every((line, at) => line.cell === than.regions[at]!.cell && same(line.places, than.regions[at]!.places));
  if (!alike) throw new PeerError("PARAMS_MISMATCH", "the catalogue has other places than the campaign began with");
}

/** How documents are read: by their kind and address. */
export type Fetched = <T>(kind: Tagged<T>, name: Bytes) => Promise<T>;

/** The places of these regions (null: of all), with popularity if there is an edition. */
export async function readRegions(
  manifest: Manifest, basis: Basis, cells: ReadonlySet<bigint> | null, fetched: Fetched,
): Promise<KnownPlaces> {
  refuseOddCells(manifest);
  if (basis.edition !== null) {
    refuseOtherEncoding(basis);
    const { sigma, shape } = basis.edition;
    if (!(sigma > 0 && sigma <= COUNTED && shape >= 0)) throw misfit("nobody could leave an own part out of this popularity");
  }
  const found: Place[] = [];
  for (const line of manifest.regions) {
    if (cells !== null && !cells.has(line.cell)) continue;
    const region = await fetched(placesKind, line.places);
    if (region.cell !== line.cell) throw misfit("a document is of another region");
    let counted: Counted[] | null = null;
    if (basis.edition !== null) {
      if (line.counts.length === 0) throw misfit("a region lacks a document that it should have");
      const counts = await fetched(countsKind, line.counts);
      if (counts.cell !== line.cell) throw misfit("a document is of another region");
      counted = readCounts(counts, basis, region.ids.length);
    }
    found.push(...readPlaces(region, basis.encoding).map((place, at) => ({ ...place, counted: counted?.[at] ?? null })));
    if (found.length > basis.offered.places) throw misfit("there are more places than were announced");
  }
  found.sort((a, b) => a.row - b.row);
  refuseRepeated(found, basis.offered.places);
  return {
    ids: found.map(({ id }) => id),
    words: found.map(({ words }) => words),
    rows: found.map(({ row }) => row),
    location: found.map(({ location }) => location),
    features: found.map(({ features }) => features),
    released: found.map(({ counted }) => counted?.released ?? []),
    sums: sumsOf(found, basis),
  };
}

interface Counted {
  readonly released: readonly number[];
  readonly opened: number;
  /** Of each average. */
  readonly values: readonly number[];
  readonly predicted: number;
  readonly weight: number;
}

interface Place {
  readonly id: string;
  readonly words: string;
  readonly row: number;
  readonly location: Point;
  readonly features: Float32Array;
  readonly counted: Counted | null;
}

/** What a device needs to leave its own part out of popularity, of a campaign that asks for that. */
function sumsOf(places: readonly Place[], basis: Basis): NoisySums | null {
  if (!(basis instanceof Campaign) || basis.edition === null || !basis.settings.ownLeftOut) return null;
  return {
    opened: places.map(({ counted }) => counted!.opened),
    predicted: places.map(({ counted }) => counted!.predicted),
    weight: places.map(({ counted }) => counted!.weight),
    sigma: basis.edition.sigma,
    shape: basis.edition.shape,
    averages: basis.encoding.averages.map(({ column, low, high }, at) => {
      const { middle, spread } = basis.edition!.averages[at]!;
      const opened = places.map(({ counted }) => counted!.values[at]!);
      return { column: averageColumn(column), low, high, middle, spread, opened };
    }),
    many: basis.offered.places,
  };
}

function readPlaces(region: Places, encoding: Encoding): Omit<Place, "counted">[] {
  const n = region.ids.length;
  const wide = width(encoding.place);
  const location = numbersIn(region.location, "float64", 2 * n);
  const features = numbersIn(region.features, "float32", n * wide);
  const rows = numbersIn(region.rows, "int32", n);
  // ids and words end up on screens and in terminals, where control characters could forge output
  if (region.words.length !== n || ![...region.ids, ...region.words].every(isPrintable)) {
    throw misfit("not each place has an id and words that can be shown");
  }
  refuseLarge(features);
  return region.ids.map((id, at) => {
    const [latitude, longitude] = [location[2 * at]!, location[2 * at + 1]!];
    const nowhere = Number.isNaN(latitude) && Number.isNaN(longitude);
    if (!nowhere && !(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180)) throw misfit("a place is not on the globe");
    return {
      id, words: region.words[at]!, row: rows[at]!, location: [latitude, longitude],
      features: Float32Array.from(features.subarray(at * wide, (at + 1) * wide)),
    };
  });
}

/** As Python's `str.isprintable`: neither control, format, private, unassigned nor separator, but for the space. */
function isPrintable(text: string): boolean {
  return !/\p{C}|(?! )\p{Z}/u.test(text);
}

function readCounts(counts: Counts, { encoding, edition }: Basis, n: number): Counted[] {
  const columns = encoding.popularity.length;
  const released = numbersIn(counts.released, "float64", n * columns);
  const each = 1 + edition!.averages.length;
  const sums = numbersIn(counts.sums, "float64", n * each);
  const [predicted, weight] = [counts.predicted, counts.weight].map((data) => numbersIn(data, "float64", n));
  for (const values of [released, sums, predicted!]) refuseLarge(values, COUNTED);
  refuseLarge(weight!);
  // a Gamma prior divides by the prediction
  if (edition!.shape > 0 && !predicted!.every((value) => value > 0)) {
    throw misfit("a place is predicted to have nobody, or fewer");
  }
  return Array.from({ length: n }, (_, at) => {
    const row = Array.from(released.subarray(at * columns, (at + 1) * columns));
    // popularity is encoded by steep maps: what comes out is looked at as well
    refuseLarge(encoding.popularity.flatMap((block, column) => encodeColumn(block, row[column]!)));
    const [opened, ...values] = sums.subarray(at * each, (at + 1) * each);
    return { released: row, opened: opened!, values, predicted: predicted![at]!, weight: weight![at]! };
  });
}

function refuseOddCells({ regions, resolution }: Manifest): void {
  const ascending = regions.every(({ cell }, at) => at === 0 || regions[at - 1]!.cell < cell);
  if (!ascending || !regions.every(({ cell }) => cell === 0n || isCell(cell, resolution))) {
    throw misfit("regions are not the cells of one resolution, in order");
  }
}

const PENTAGONS = new Set([4, 14, 24, 38, 49, 58, 63, 72, 83, 97, 107, 117]); // among the base cells

/** Whether these bits are a cell of H3: its mode, resolution, base cell, a digit for each resolution and 7 beyond. */
export function isCell(cell: bigint, resolution: number): boolean {
  const base = Number((cell >> 45n) & 0x7fn);
  if (cell >> 56n !== 0x08n || Number((cell >> 52n) & 15n) !== resolution || base > 121) return false;
  const digits = Array.from({ length: 15 }, (_, at) => Number((cell >> BigInt(3 * (14 - at))) & 7n));
  if (!digits.every((digit, at) => (at < resolution ? digit < 7 : digit === 7))) return false;
  // one of the seven children of a pentagon is not there
  return !PENTAGONS.has(base) || digits.slice(0, resolution).find((digit) => digit !== 0) !== 1;
}

/** Of places by ascending rows. */
function refuseRepeated(places: readonly Place[], many: number): void {
  const within = places.every(({ row }, at) => row >= 0 && row < many && (at === 0 || places[at - 1]!.row !== row));
  if (!within || new Set(places.map(({ id }) => id)).size < places.length) {
    throw misfit("a place is there twice, or has no row in the catalogue");
  }
}

/** An edition adds popularity, under the names that devices can leave their own part out of, and nothing else. That of a
 * starting model has whatever popularity its training had; places are encoded already. */
function refuseOtherEncoding(basis: Basis): void {
  const before = readEncoding(basis.offered.encoding);
  const names = basis.encoding.popularity.map((block) => block.column);
  const alike = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
  const usual = [POPULARITY, NEARBY, ...before.averages.map(({ column }) => averageColumn(column))];
  const fits = basis instanceof Campaign
    ? alike({ ...basis.encoding, popularity: [] }, before) && alike(names, usual.filter((one) => names.includes(one)))
      && basis.edition!.averages.length === before.averages.length
    : alike(basis.encoding.place, before.place) && new Set(names).size === names.length;
  if (!fits) throw new PeerError("PARAMS_MISMATCH", "an edition's encoding is another than the catalogue was offered with");
}

function refuseLarge(values: ArrayLike<number>, most = LARGEST): void {
  for (let at = 0; at < values.length; at++) {
    if (!(Math.abs(values[at]!) <= most)) throw misfit("a number is not finite, or larger than any that could be meant");
  }
}

function misfit(problem: string): PeerError {
  return new PeerError("DECODE", `the catalogue does not fit together: ${problem}`);
}
