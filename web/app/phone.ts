/** What the page knows of the device, and all that a person can do with it. Drawn anew by `changed` after each change. */

import type { Point } from "../src/geography.ts";
import type { Fault } from "../src/errors.ts";
import type { Suggestion } from "../src/recommend.ts";
import type { Visit } from "../src/records.ts";
import type { Sentence, Wordings } from "../src/sentences.ts";
import type { Area, Belief, PlaceInfo, Profile, Statement, Status } from "../src/surface.ts";
import { type Hosted, hosted, type Linked } from "./deployment.ts";
import { localNow } from "./format.ts";
import { type Problem, problemOf, type RemoteDevice, remoteDevice } from "./remote_device.ts";
import { texts } from "./texts.ts";

const FOLLOWED_EVERY = 15 * 60_000; // milliseconds between two looks at the log while not taking part
const TAKES_PART = "takes part";
const MOST_NEWS = 20;

export interface News {
  readonly at: number;
  readonly said: Sentence;
}

/** What the device holds, as it said last. */
export interface Held {
  readonly status: Status;
  readonly statement: Statement;
  readonly profile: Profile;
  readonly home: Point | null;
  readonly visits: readonly Visit[];
  readonly suggestions: readonly Suggestion[];
  readonly beliefs: readonly Belief[];
  readonly areas: readonly Area[];
}

/** Where recommendations are for. */
export interface Around {
  readonly here: Point | null;
  readonly radiusKm: number;
}

/** Something that was done, and how it is undone. */
export interface Done {
  readonly words: string;
  readonly undo: (() => Promise<void>) | null;
}

export class Phone {
  readonly device: RemoteDevice;
  readonly linked: Linked | null;
  /** "elsewhere": another tab has the device open; this one goes on when that one closes. */
  phase: "opening" | "elsewhere" | "failed" | "open" = "opening";
  hosted: Hosted | null = null;
  held: Held | null = null;
  /** Every place that is on this device, by its id. */
  places: ReadonlyMap<string, PlaceInfo> = new Map();
  around: Around = { here: null, radiusKm: 5 };
  busy = 0;
  takesPart = false;
  online = navigator.onLine;
  problem: Problem | null = null;
  done: Done | null = null;
  news: readonly News[] = [];

  private readonly changed: () => void;
  private catalogue = "";
  private refreshing: Promise<void> | null = null;
  private stale = false;
  private askedToKeep = false;

  constructor(linked: Linked | null, changed: () => void) {
    this.linked = linked;
    this.changed = changed;
    this.device = remoteDevice((said) => this.heard(said));
  }

  async open(): Promise<void> {
    const reading = hosted();
    try {
      await this.device.open({ wait: false }).catch(async (problem: unknown) => {
        if (problemOf(problem).said.kind !== "anotherWriter") throw problem;
        this.phase = "elsewhere";
        this.changed();
        await this.device.open({ wait: true });
      });
      this.hosted = await reading;
      await this.refresh();
      this.phase = "open";
    } catch (problem) {
      this.phase = "failed";
      this.problem = problemOf(problem);
    }
    this.changed();
    if (this.phase === "open") this.follow();
  }

  /** While the page is open: takes part if the person wants that, else reads the log now and then, without a name. */
  private follow(): void {
    const onLine = (): void => {
      this.online = navigator.onLine;
      if (this.online) void this.sync();
      this.changed();
    };
    addEventListener("online", onLine);
    addEventListener("offline", onLine);
    setInterval(() => void this.sync(), FOLLOWED_EVERY);
    if (localStorage.getItem(TAKES_PART) === "yes" && this.member) this.takePart(true);
    else void this.sync();
  }

  get member(): boolean {
    return this.held?.status.membership != null;
  }

  private async sync(): Promise<void> {
    if (!this.member || !this.online || this.takesPart) return;
    try {
      await this.device.sync();
      if (this.problem?.name === "PeerError") this.problem = null;
    } catch (problem) {
      if (problemOf(problem).name !== "UnavailableError") this.problem = problemOf(problem);
    }
    await this.refresh().catch(() => {}); // what it cannot say now it says when it is asked next
  }

  /** Does what a person asked for, looks at everything anew, and tells what was done, or why it cannot be. */
  async act(work: (tell: (done: Done) => void) => Promise<unknown>, done: Done | null = null): Promise<boolean> {
    let telling = done;
    this.busy += 1;
    this.problem = this.done = null;
    this.changed();
    try {
      await work((found) => (telling = found));
      await this.refresh();
      if (telling !== null) this.done = telling;
      return true;
    } catch (problem) {
      this.problem = problemOf(problem);
      return false;
    } finally {
      this.busy -= 1;
      this.changed();
    }
  }

  /** One look at a time; whatever changed meanwhile is looked at once more. */
  refresh(): Promise<void> {
    this.stale = true;
    return (this.refreshing ??= this.look());
  }

  private async look(): Promise<void> {
    try {
      while (this.stale) await this.lookOnce();
    } finally {
      this.refreshing = null; // at once: whoever asks from now on is not told of this look
    }
  }

  private async lookOnce(): Promise<void> {
    this.stale = false;
    const { device, around: { here, radiusKm } } = this;
    const [status, statement, profile, home, visits, areas] = await Promise.all([
      device.status(), device.statement(), device.profile(), device.home(), device.visits(), device.areas(),
    ]);
    if (status.membership !== null && status.persisted === false) this.askToKeep();
    const asked = { radiusKm, time: localNow(), ...(here === null ? {} : { near: here }) };
    const [suggestions, beliefs] = status.canRecommend
      ? await Promise.all([device.recommend(asked), device.believes()])
      : [[], []];
    const catalogue = JSON.stringify([status.membership?.deployment, status.places, status.model, home]);
    if (catalogue !== this.catalogue) {
      const places = status.places === 0 ? [] : await device.places({ radiusKm: Infinity, most: Infinity });
      this.places = new Map(places.map((place) => [place.id, place]));
      this.catalogue = catalogue;
    }
    this.held = { status, statement, profile, home, visits, suggestions, beliefs, areas };
    this.changed();
  }

  /** Asks the browser, once, not to evict what the device stores: a worker cannot ask. */
  private askToKeep(): void {
    if (this.askedToKeep) return;
    this.askedToKeep = true;
    void navigator.storage.persist().then((promised) => (promised ? this.refresh() : undefined), () => {});
  }

  /** Downloads the area around a point. */
  download(near: Point): Promise<boolean> {
    return this.act(async (tell) => {
      const many = await this.device.download(near);
      tell({ words: texts.phone.areaDone(many), undo: null });
    });
  }

  lookAround(around: Partial<Around>): Promise<boolean> {
    const before = this.around;
    this.around = { ...before, ...around };
    return this.act(async () => {
      await this.refresh().catch((problem: unknown) => {
        this.around = before;
        throw problem;
      });
    });
  }

  /** Starts or stops taking part; remembered for the next time that the page is opened. */
  takePart(on: boolean): void {
    localStorage.setItem(TAKES_PART, on ? "yes" : "no");
    if (on === this.takesPart) return;
    this.takesPart = on;
    this.changed();
    if (!on) return void this.device.stop();
    this.device.run({ seconds: this.hosted?.seconds ?? 60 }).catch((problem: unknown) => {
      this.takesPart = false;
      this.problem = problemOf(problem);
      this.changed();
    });
  }

  /** Before the device leaves or forgets: nothing goes on behind the person's back. */
  async stop(): Promise<void> {
    this.takePart(false);
    localStorage.removeItem(TAKES_PART);
  }

  private heard(said: Sentence): void {
    this.news = [{ at: Date.now() / 1000, said }, ...this.news].slice(0, MOST_NEWS);
    if (said.kind === "stayedOut") {
      const [{ why, fault }] = said.about as Parameters<Wordings["stayedOut"]>;
      if (fault !== null) this.problem = { name: "PeerError", said: why, fault: fault as Fault }; // what an operator sent
    }
    this.changed();
    void this.refresh().catch(() => {}); // likewise
  }

  /** Takes away what was told. */
  dismiss(what: "problem" | "done"): void {
    this[what] = null;
    this.changed();
  }

  /** The words on a place, or its id where this device has no words on it. */
  about(place: string): string {
    return this.places.get(place)?.about || place;
  }
}
