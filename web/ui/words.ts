/** Numbers and moments in words. */

export function count(many: number, what: string, several = what === "person" ? "people" : `${what}s`): string {
  return `${many.toLocaleString("en")} ${many === 1 ? what : several}`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of a column, as words. */
export function spaced(name: string): string {
  return name.replaceAll("_", " ");
}

/** Seconds since 1970. */
export function moment(time: number): string {
  return `${new Date(1000 * time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Two moments; the day of the later one only if it is another. */
export function fromTo(from: number, to: number): string {
  const [before, after] = [moment(from), moment(to)];
  const day = before.slice(0, 10);
  return after.startsWith(day) ? `${before.slice(0, 16)} to ${after.slice(11)}` : `${before} to ${after}`;
}

export function bytes(many: number): string {
  const [part, unit] = many >= 1e9 ? [many / 1e9, "GB"] : many >= 1e6 ? [many / 1e6, "MB"] : [many / 1e3, "kB"];
  return `${part >= 10 ? Math.round(part) : part.toFixed(1)} ${unit}`;
}
