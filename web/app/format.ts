/** Numbers, times and distances as a person reads them, in the browser's language. */

import type { Point } from "../src/geography.ts";
import { texts } from "./texts.ts";

const WHOLE = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

export const whole = (value: number): string => WHOLE.format(value);

export const short = (value: number): string => SHORT.format(value);

export const percent = (part: number): string => `${Math.round(100 * part)} %`;

/** A moment by the clock of this machine. */
export const moment = (seconds: number): string => MOMENT.format(1000 * seconds);

export const clock = (seconds: number): string => CLOCK.format(1000 * seconds);

/** Seconds since 1970 on the wall clock, as visits have them. */
export function localNow(): number {
  const now = Date.now() / 1000;
  return Math.floor(now) - 60 * new Date().getTimezoneOffset();
}

/** A moment on the wall clock. */
export function wallClock(seconds: number): string {
  return moment(seconds + 60 * new Date(1000 * seconds).getTimezoneOffset());
}

export function distance(km: number): string {
  return km < 1 ? texts.metres(whole(Math.max(10, Math.round(100 * km) * 10))) : texts.kilometres(km < 10 ? km.toFixed(1) : whole(Math.round(km)));
}

export function bytes(many: number): string {
  return many < 1000 ? texts.bytes(whole(many)) : many < 1e6 ? texts.kilobytes(short(many / 1000)) : texts.megabytes(short(many / 1e6));
}

/** Hexadecimal digits in groups that can be compared. */
export function grouped(digits: string): string {
  return digits.match(/.{1,8}/g)?.join(" ") ?? "";
}

/** To ten metres: nearer than that nobody taps. */
export function rounded([latitude, longitude]: Point): Point {
  return [Number(latitude.toFixed(4)), Number(longitude.toFixed(4))];
}
