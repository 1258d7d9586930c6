/** Where this phone is, by the browser; asked for on a person's tap alone. */

import type { Point } from "../src/geography.ts";
import { rounded } from "./format.ts";
import { texts } from "./texts.ts";

export function located(): Promise<Point> {
  return new Promise((found, failed) => {
    const no = (): void => failed(new Error(texts.noLocation));
    if (navigator.geolocation === undefined) return no();
    navigator.geolocation.getCurrentPosition(({ coords }) => found(rounded([coords.latitude, coords.longitude])), no, { timeout: 20_000 });
  });
}
