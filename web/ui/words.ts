/** Numbers and moments in words. */

export function count(many: number, what: string, several = what === "person" ? "people" : `${what}s`): string {
  return `${many.toLocaleString("en")} ${many === 1 ? what : several}`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Seconds since 1970. */
export function moment(time: number): string {
  return `${new Date(1000 * time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
