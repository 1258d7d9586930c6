/** Which recommender this page is for: what the page's own host says, what a link says, and what the person types. */

/** `recommender.json`, which lies beside the page. The page's headers let it talk to this address and no other. */
export interface Hosted {
  readonly url: string;
  readonly fingerprint?: string;
  readonly helperFingerprint?: string;
  /** Seconds between two looks at the log while taking part. */
  readonly seconds?: number;
  /** Whether the recommender itself serves this page, which is for made-up data only. */
  readonly rehearsal?: boolean;
}

/** What a link of the form `#url=…&fingerprint=…&helper=…&code=…` says. A fragment is sent to nobody. */
export interface Linked {
  readonly url?: string;
  readonly fingerprint?: string;
  readonly helperFingerprint?: string;
  readonly code?: string;
}

const FILE = "./recommender.json";
const KEPT = "recommender.json"; // for when there is no network

/** Null where the host names none. */
export async function hosted(): Promise<Hosted | null> {
  try {
    const answer = await fetch(FILE, { cache: "no-cache" });
    if (!answer.ok) return null;
    const found = (await answer.json()) as Hosted;
    localStorage.setItem(KEPT, JSON.stringify(found));
    return found;
  } catch {
    const kept = localStorage.getItem(KEPT);
    return kept === null ? null : (JSON.parse(kept) as Hosted);
  }
}

export function linked(fragment: string): Linked | null {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!given.has("fingerprint")) return null;
  const names = { url: "url", fingerprint: "fingerprint", helper: "helperFingerprint", code: "code" };
  return Object.fromEntries(Object.entries(names).flatMap(([name, as]) => (given.has(name) ? [[as, given.get(name)!]] : [])));
}
