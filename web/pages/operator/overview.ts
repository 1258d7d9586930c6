/** What the service says of itself (src/prirec/recommender/overview.py), and how it is asked. */

export interface Overview {
  readonly role: "recommender" | "helper";
  readonly title: string;
  readonly deployment: string;
  readonly fingerprint: string;
  readonly version: string;
  /** Seconds since 1970, as all times. */
  readonly time: number;
  readonly verdict: string;
  readonly signs: readonly Sign[];
  readonly people: People;
  readonly campaign: Campaign | null;
  readonly settled: readonly Refused[];
  readonly posted: readonly Refused[];
  readonly visits: VisitsNoise | null;
  readonly model: ModelNoise | null;
  /** null: no sum of quality figures of the published model was opened. */
  readonly quality: Quality | null;
  readonly log: Log;
  /** When each ends. */
  readonly certificates: Readonly<Record<string, number>>;
  /** null: no campaign is under way that needs one. */
  readonly box_key: boolean | null;
  readonly disk: Disk;
}

export interface Sign {
  readonly level: "warn" | "bad";
  readonly text: string;
}

export interface People {
  /** null: a helper has no traffic of devices. */
  readonly enrolled: number | null;
  readonly excluded: number;
  readonly blamed: number;
  /** null: with one operator there is no list in the log. */
  readonly listed: number | null;
  readonly points: readonly { readonly label: string; readonly time: number; readonly people: number; readonly joined: number | null; readonly left: number | null }[];
  readonly days: readonly (readonly [day: number, many: number])[];
}

export interface Campaign {
  readonly number: number;
  readonly state: string;
  readonly phase: "visits" | "moments" | "learning" | "quality" | "over" | "failed";
  readonly people: number;
  readonly places: number;
  readonly round: number;
  readonly rounds: number;
  readonly floor: number;
  readonly conducted: boolean | null;
  readonly window: OpenWindow | null;
  readonly sums: readonly Sum[];
}

export interface OpenWindow {
  readonly kind: string;
  readonly people: number;
  /** null: a helper is handed reports when the window is over. */
  readonly reports: number | null;
  readonly opens: number;
  readonly closes: number;
  readonly extended: number;
}

export interface Sum {
  readonly kind: string;
  readonly round: number;
  readonly opened: boolean;
  readonly survivors: number;
  readonly rostered: number;
  readonly problem: string;
}

export interface Refused {
  readonly what: string;
  readonly reason: string;
  readonly many: number;
}

export interface VisitsNoise {
  readonly noise: number;
  readonly places: number;
  readonly above: number;
  readonly largest: readonly (readonly [place: string, opened: number, published: number])[];
  /** Over visits, in their own unit; errors are twice the standard error. `at_a_place` null: noise drowns how places differ. */
  readonly averages: readonly { readonly name: string; readonly value: number; readonly error: number; readonly at_a_place: number | null }[];
}

export interface ModelNoise {
  readonly rounds: number;
  readonly measured: number;
  readonly noise: number;
  readonly published: number;
  readonly by_round: readonly (readonly [rounds: number, published: number])[];
}

export interface Quality {
  readonly reports: number;
  /** `value` null: noise drowns it. `error` is twice its standard error. */
  readonly figures: readonly { readonly name: string; readonly value: number | null; readonly error: number }[];
}

export interface Log {
  readonly entries: number;
  /** null: there is no helper. */
  readonly signed: number | null;
  readonly signed_at: number | null;
  readonly newest: readonly { readonly index: number; readonly subject: string; readonly document: string; readonly signed: boolean | null }[];
}

export interface Disk {
  readonly database: string;
  readonly bytes: number;
  /** null: the database is another server's. */
  readonly free: number | null;
  readonly total: number | null;
}

/** The service did not answer as it should; `status` 0: not at all. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number) {
    super(PROBLEMS[status] ?? (status === 0 ? "The service does not answer." : `The service answered ${status}.`));
    this.status = status;
  }
}

const PROBLEMS: Readonly<Record<number, string>> = {
  401: "That is not the token.",
  403: "The browser says that another page asks. Open the page by its address.",
  421: "This name is not in the server’s certificate: open the page by one that is.",
  429: "Too many tries: wait a while.",
  503: "The service cannot use its store: its disk is full, or its database is away.",
};

export async function overview(): Promise<Overview> {
  return (await asked("./overview")).json() as Promise<Overview>;
}

export async function logIn(token: string): Promise<void> {
  await asked("./login", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
}

export async function logOut(): Promise<void> {
  await asked("./logout", { method: "POST" });
}

async function asked(path: string, how: RequestInit = {}): Promise<Response> {
  const answer = await fetch(path, { ...how, cache: "no-store", credentials: "same-origin", referrerPolicy: "no-referrer" }).catch(() => undefined);
  if (!answer?.ok) throw new Refusal(answer?.status ?? 0);
  return answer;
}
