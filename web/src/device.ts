/**
 * `Device`: one person's device, in a store of its own. What it offers is described in surface.ts.
 *
 *     const device = await Device.open(await BrowserStore.open("prirec"), { h3 });
 *     await device.join({ url, fingerprint, helperFingerprint, home: [47.37, 8.54] });
 *     await device.recordVisit({ place: "poi-17" });
 *     await device.takePart();
 *     for (const place of await device.recommend()) console.log(place.about, place.probability);
 */

import { affordable, checkBudget, epsilonOf } from "./accountant.ts";
import { beliefsOf, checkBelief, corrected } from "./beliefs.ts";
import { blake2b } from "./blake2b.ts";
import { same, utf8 } from "./bytes.ts";
import { checkedUrl, Client, type Fetch, UnavailableError } from "./client.ts";
import { usualScaling } from "./columns.ts";
import { encode } from "./codec.ts";
import { rotations } from "./documents.ts";
import { type ColumnBlock, type Encoding, fits, recorded, type Value, type Values } from "./encoding.ts";
import { DataError, PeerError, PrirecError, StateError, UsageError } from "./errors.ts";
import { haversineKm, isKnown, type Point } from "./geography.ts";
import { fromHex, Held, hex, identityOf, type JournalEntry, type Member } from "./held.ts";
import { SigningKey } from "./keys.ts";
import { type Budget, counted, howManyMore } from "./ledger.ts";
import { fetchAreas, follow, stored, type View } from "./log.ts";
import { type KnownPlaces, positionsOf } from "./places.ts";
import { type Person, personOf, Published, type Reason, reasonsFor, recommend, type Suggestion } from "./recommend.ts";
import { homeOf, type Visit } from "./records.ts";
import { type Cells, homeCell, type Reach } from "./regions.ts";
import { checkOperators } from "./rotations.ts";
import { NO_CATALOGUE, say, type Sentence } from "./sentences.ts";
import { SharedModel } from "./shared_model.ts";
import type { Change, Store } from "./storage.ts";
import type {
  Area, Around, Asked, Belief, BeliefKey, BudgetState, DeviceApi, Exported, Imported, Invitation, Membership, NewVisit, Opinion,
  PlaceInfo, Profile, ProfileFeature, Sent, Statement, Status, Synced, TakenPart,
} from "./surface.ts";
import { entropy } from "./two_operators.ts";
import { DAY, deliver, enter, forgetPast, openTo, ownData, type Pace, pending, purpose, roundOf, secondsLeft } from "./windows.ts";

const FINGERPRINT = 16; // hex digits that a fingerprint needs: 64 bits, out of reach for whoever searches for a similar key
const LONGEST = 500; // characters of a name or a word
const LONGEST_CODE = 100;
const MOST_VALUES = 1000; // far above any encoding: a bug in an app must not fill the store
const EARTH_KM = 20_100; // half way around it: no two places are farther from each other
const LATEST = 253_402_300_799; // the end of the year 9999
const EARLIEST = -62_135_596_800;

export interface DeviceOptions {
  /** h3-js, or what has its functions; without it all regions are downloaded. */
  readonly h3?: Cells;
  /** Seconds since 1970. */
  readonly clock?: () => number;
  readonly fetch?: Fetch;
  /** Seconds in which a contribution is computed; null: as long as it takes, for many devices in one program, whose times
   * tell of nobody. */
  readonly work?: number | null;
}

export class Device implements DeviceApi {
  private readonly held: Held;
  private readonly reach: Reach;
  private readonly fetch: Fetch;
  private readonly pace: Pace;
  private view: View | null = null;
  private client: Client | null = null;
  private online: Promise<unknown> = Promise.resolve();
  private downloads: Promise<unknown> = Promise.resolve();
  private stopped: (() => void) | null = null;
  private tell: (news: Sentence) => void = () => {};
  private made: { readonly view: View; readonly published: Published } | null = null;
  private learnt: { readonly of: Published; readonly version: number; readonly person: Person } | null = null;

  private constructor(held: Held, options: DeviceOptions) {
    this.held = held;
    this.reach = { h3: options.h3 ?? null, areas: () => held.areas() };
    this.fetch = options.fetch ?? ((url, how) => fetch(url, how));
    this.pace = {
      clock: options.clock ?? (() => Date.now() / 1000),
      draw: entropy,
      sleep: (seconds) => new Promise((over) => setTimeout(over, 1000 * seconds)),
      work: options.work === undefined ? 2 : options.work,
    };
  }

  /** StateError if what is stored is damaged, or of a newer program. */
  static async open(store: Store, options: DeviceOptions = {}): Promise<Device> {
    return new Device(await Held.open(store), options);
  }

  async close(): Promise<void> {
    await this.stop();
    await Promise.all([this.online, this.downloads]);
    await this.held.change(() => []);
    await this.held.store.close();
  }

  // Joining and leaving

  async join({ url, fingerprint, helperFingerprint, code = "", home }: Invitation): Promise<Membership> {
    const [wanted, wantedOfHelper] = [digits(fingerprint), digits(helperFingerprint)];
    const here = home === undefined ? this.held.home() : checkedPoint(home);
    if (code.length > LONGEST_CODE) throw new UsageError(say("code", { most: LONGEST_CODE }));
    if (this.held.member() !== null) throw new StateError(say("member"));
    const client = new Client(url, this.fetch);
    const hello = await client.hello();
    if (!hex(hello.recommender).startsWith(wanted)) {
      throw new PeerError("AUTH", say("anotherRecommender"));
    }
    if (!hex(hello.helper).startsWith(wantedOfHelper) || same(hello.helper, hello.recommender)) {
      throw new PeerError("AUTH", say("anotherHelper"));
    }
    const found = await client.rotations();
    await checkOperators({ recommender: hello.recommender, helper: hello.helper, rotations: found }, hello.deployment);
    const secret = entropy(32);
    const identity = this.held.store.keepsKeys ? await SigningKey.generate() : await SigningKey.of(secret);
    const member: Member = {
      deployment: hello.deployment, url: checkedUrl(url), title: printable(hello.title), recommender: hello.recommender,
      helper: hello.helper, cell: homeCell(here, this.reach.h3), name: identity.public,
      key: this.held.store.keepsKeys ? identity.key : secret, negativesSecret: entropy(32), code,
      enrolled: false, length: 0, last: new Uint8Array(32), cosigned: new Uint8Array(0), joined: 0,
      rotations: encode(rotations, { rotations: found }),
    };
    // stored before enrolling: after a crash the identity is known, and enrolling again with it is harmless
    await this.held.change(() => {
      if (this.held.member() !== null) throw new StateError(say("member"));
      const homeRow: Change[] = here === null ? [] : [{ table: "person", key: "home", value: here }];
      return [{ table: "membership", key: "one", value: member }, ...homeRow];
    });
    this.refresh();
    try {
      await this.enrol();
      await this.sync();
    } catch (problem) {
      if (problem instanceof PeerError && !this.member().enrolled) {
        await this.held.change(() => this.held.leaving());
        this.refresh();
        throw problem;
      }
      // it has joined; what is published is downloaded when it next takes part
      if (!(problem instanceof PrirecError)) throw problem;
    }
    return this.held.membership()!;
  }

  private async enrol(): Promise<void> {
    const member = this.member();
    await (await this.named()).enrol(member.code);
    const sent = this.leaving("joined", member.url, 32, say("sentName", { title: member.title }));
    await this.held.change(() => [
      { table: "membership", key: "one", value: { ...this.member(), enrolled: true, code: "" } }, this.held.sending(sent),
    ]);
    this.tell(say("enrolled"));
  }

  async leave(): Promise<void> {
    await this.serially(async () => {
      const member = this.member();
      await (await this.named()).leave();
      const sent = this.leaving("left", member.url, 0, say("sentLeave"));
      await this.held.change(() => [...this.held.leaving(), this.held.sending(sent)]);
      await this.dropDocuments();
      this.refresh();
    });
  }

  private async dropDocuments(): Promise<void> {
    const names = await this.held.store.keys("documents");
    await this.held.change(() => names.map((key): Change => ({ table: "documents", key })));
  }

  // The person's own data

  async profile(): Promise<Profile> {
    const values = this.held.profile();
    const basis = (await this.viewOrNull())?.basis ?? null;
    if (basis === null) return { values, features: null, unused: {} };
    const blocks = basis.encoding.person.filter((block) => block.type !== "area") as ColumnBlock[];
    const unused = Object.fromEntries(
      Object.entries(values).flatMap(([name, value]) => {
        const why = unfit(blocks, name, value);
        return why === null ? [] : [[name, why]];
      }),
    );
    return { values, features: blocks.map(featureOf), unused };
  }

  async setProfile(values: Readonly<Record<string, Value | null>>): Promise<void> {
    const basis = (await this.viewOrNull())?.basis ?? null;
    const blocks = basis?.encoding.person.filter((block) => block.type !== "area") as ColumnBlock[] | undefined;
    if (Object.keys(values).length > MOST_VALUES) throw new UsageError(say("tooMany", { most: MOST_VALUES }));
    const checked = Object.entries(values).map(([name, value]): [string, Value | null] => {
      checkName(name, "the name of a person's column");
      if (value === null) return [name, null];
      const why = blocks === undefined ? null : unfit(blocks, name, checkedValue(value, name));
      if (why !== null) throw new DataError(why, name);
      return [name, checkedValue(value, name)];
    });
    await this.held.change(() => {
      const merged = new Map<string, Value>(Object.entries(this.held.profile()));
      for (const [name, value] of checked) value === null ? merged.delete(name) : merged.set(name, value);
      return [{ table: "person", key: "profile", value: Object.fromEntries(merged) }];
    });
  }

  async home(): Promise<Point | null> {
    return this.held.home();
  }

  async setHome(home: Point | null): Promise<void> {
    const point = home === null ? undefined : checkedPoint(home);
    await this.held.change(() => [{ table: "person", key: "home", value: point }]);
  }

  async visits(): Promise<readonly Visit[]> {
    return this.held.visits();
  }

  recordVisit(visit: NewVisit): Promise<boolean> {
    return this.record(visit, 1);
  }

  refuse(visit: NewVisit): Promise<boolean> {
    return this.record(visit, -1);
  }

  private async record({ place, time, context = {}, id }: NewVisit, label: 1 | -1): Promise<boolean> {
    const visit = checkedVisit({ place, time: time === undefined ? this.localNow() : time, context, id, label });
    const view = await this.viewOrNull();
    if (view?.basis != null) {
      const known = await view.known(view.basis);
      if (!known.ids.includes(place)) throw new DataError(say("noSuchPlace"));
      refuseUnfit(view.basis.encoding, visit.context);
    }
    let fresh = false;
    await this.held.change(() => {
      const before = this.held.visit(visit.id);
      if (before === undefined) {
        fresh = true;
        return [{ table: "visits", key: visit.id, value: { ...visit, number: this.held.nextNumber } }];
      }
      // never overwritten: two visits under one id are an app's mistake more often than a correction
      if (before.place === visit.place && before.time === visit.time && before.label === visit.label) return [];
      throw new UsageError(say("anotherVisit"));
    });
    return fresh;
  }

  async describeVisit(id: string, values: Readonly<Record<string, Value | null>>): Promise<void> {
    const basis = (await this.viewOrNull())?.basis ?? null;
    const set = checkedContext(Object.fromEntries(Object.entries(values).filter((one): one is [string, Value] => one[1] !== null)));
    if (basis !== null) refuseUnfit(basis.encoding, set);
    await this.held.change(() => {
      const before = this.held.visit(id);
      if (before === undefined) throw new UsageError(say("noSuchVisit"));
      const left = Object.entries(before.context).filter(([name]) => !Object.hasOwn(values, name));
      return [{ table: "visits", key: id, value: { ...before, context: { ...Object.fromEntries(left), ...set } } }];
    });
  }

  async removeVisit(id: string): Promise<void> {
    await this.held.change(() => {
      if (this.held.visit(id) === undefined) throw new UsageError(say("noSuchVisit"));
      return [{ table: "visits", key: id }];
    });
  }

  // Recommending

  async recommend(asked: Asked = {}): Promise<readonly Suggestion[]> {
    const { person, published } = await this.ready();
    const refused = this.refusedIn(published.known);
    return recommend(person, published, { ...moment(asked), k: asked.k ?? 10, radiusKm: asked.radiusKm ?? 5, without: refused });
  }

  async reasons(place: string, asked: Asked = {}): Promise<readonly Reason[]> {
    const { person, published } = await this.ready();
    return reasonsFor(place, person, published, { ...moment(asked), radiusKm: asked.radiusKm ?? 5 });
  }

  async places({ near, radiusKm = 5, most = 1000 }: Around = {}): Promise<readonly PlaceInfo[]> {
    const view = await this.viewOrNull();
    const basis = view?.inForce?.basis ?? view?.basis ?? null;
    if (view === null || basis === null) throw new StateError(say("nothingToShow"));
    const known = await view.known(basis);
    const here = near === undefined ? homeOf(ownData(this.held, view), known) : checkedPoint(near);
    const visits = new Map<string, number>();
    const refused = new Set<string>();
    for (const { place, label } of this.held.visits()) {
      if (label > 0) visits.set(place, (visits.get(place) ?? 0) + 1);
      else refused.add(place);
    }
    const nowhere = !isKnown(here);
    return known.ids
      .map((id, at): PlaceInfo => {
        const location = known.location[at]!;
        const km = haversineKm(here, location);
        return {
          id, about: known.words[at]!, location: isKnown(location) ? location : null, distanceKm: Number.isNaN(km) ? null : km,
          visits: visits.get(id) ?? 0, refused: refused.has(id),
        };
      })
      .filter(({ distanceKm }) => nowhere || radiusKm === Infinity || (distanceKm !== null && distanceKm <= radiusKm))
      .toSorted((a, b) => (a.distanceKm ?? EARTH_KM) - (b.distanceKm ?? EARTH_KM))
      .slice(0, most);
  }

  async believes(): Promise<readonly Belief[]> {
    const { person, published } = await this.ready();
    return beliefsOf(person, published, this.held.visits(), this.held.overruled());
  }

  async overrule({ column, word }: BeliefKey, opinion: Opinion | null): Promise<void> {
    if (opinion !== null) checkBelief({ column, word }, (await this.ready()).published);
    const value = opinion === null ? undefined : { column, word, opinion };
    await this.held.change(() => [{ table: "overruled", key: JSON.stringify([column, word]), value }]);
  }

  private async ready(): Promise<{ person: Person; published: Published }> {
    const published = await this.published();
    if (this.learnt?.of !== published || this.learnt.version !== this.held.version) {
      const version = this.held.version;
      const own = ownData(this.held, (await this.viewOrNull())!, this.basisInUse((await this.viewOrNull())!));
      this.learnt = { of: published, version, person: corrected(personOf(own, published), published, this.held.overruled()) };
    }
    return { person: this.learnt.person, published };
  }

  private async published(): Promise<Published> {
    const view = await this.viewOrNull();
    const basis = view === null ? null : this.basisInUse(view);
    if (view === null || basis === null) throw new StateError(say("nothingToRecommend"));
    if (this.made?.view !== view) {
      const known = await view.known(basis);
      const { encoding, columns, rules } = basis;
      const scaling = basis.scaling ?? usualScaling(columns, known.features);
      const model = view.inForce === null ? SharedModel.unlearnt(encoding, columns, scaling) : await basis.shared(view.inForce.model);
      this.made = { view, published: new Published(encoding, rules, known, model) };
    }
    return this.made.published;
  }

  private basisInUse(view: View) {
    return view.inForce?.basis ?? view.basis;
  }

  private refusedIn(known: KnownPlaces): ReadonlySet<number> {
    const position = positionsOf(known);
    return new Set(this.held.visits().filter(({ label }) => label < 0).flatMap(({ place }) => position.get(place) ?? []));
  }

  // Areas beside the home

  async download(near: Point): Promise<number> {
    const point = checkedPoint(near);
    await this.sync();
    const basis = this.view!.basis;
    if (basis === null) throw new StateError(say("nothingToDownload"));
    if (this.member().cell === 0n) return 0; // all regions are here
    const before = (await this.view!.known(basis)).ids.length;
    const cell = homeCell(point, this.reach.h3);
    await this.held.change(() => [{ table: "areas", key: cell.toString(16), value: true }]);
    await this.fetchAreas();
    return (await this.view!.known(basis)).ids.length - before;
  }

  async areas(): Promise<readonly Area[]> {
    const { h3 } = this.reach;
    return this.held.areas().map((cell) => {
      const id = cell.toString(16);
      const centre = h3?.cellToLatLng(id);
      return { id, centre: centre === undefined ? null : [centre[0]!, centre[1]!] };
    });
  }

  async dropArea(id: string): Promise<void> {
    await this.held.change(() => [{ table: "areas", key: id }]);
    this.view = this.view?.anew() ?? null; // what was downloaded is deleted when the log is next followed
  }

  /** One after another, beside all that is sent under the device's name: whoever holds an area back must not see from a
   * report that is late who has asked for it. */
  private fetchAreas(): Promise<void> {
    const doing = this.downloads.then(async () => {
      const member = this.member();
      try {
        const many = await fetchAreas(this.held, (await this.viewOrNull())!, this.anonymous(member));
        if (many === 0) return;
        await this.held.change(() => [this.held.sending(this.leaving("regions", member.url, 0, say("sentAreaRegions")))]);
      } finally {
        this.view = this.view?.anew() ?? null;
      }
    });
    this.downloads = doing.catch(() => {});
    return doing;
  }

  // Online

  sync(): Promise<Synced> {
    return this.serially(() => this.followed());
  }

  takePart({ spread = 30 }: { readonly spread?: number } = {}): Promise<TakenPart> {
    return this.serially(async () => {
      let synced: Synced = this.seen([]);
      try {
        if (!this.member().enrolled) await this.enrol();
        synced = await this.followed();
        const sent = await this.sendPending();
        if (sent !== null) return { ...synced, outcome: "sent", why: null, what: sent };
        const round = openTo(this.held, this.view!, this.pace.clock);
        if (round === null) {
          const known = roundOf(this.view!);
          const arrived = known !== null && this.held.entry(known)?.stage === "arrived";
          return { ...synced, outcome: arrived ? "arrived before" : "nothing due", why: null, what: null };
        }
        const longest = Math.max(0, Math.min(spread, secondsLeft(this.view!, this.pace.clock) / 2));
        if (longest > 0) await this.pace.sleep(longest * jitter());
        synced = await this.followed(); // an old signature of the helper's would not do
        if (openTo(this.held, this.view!, this.pace.clock) === null) return { ...synced, outcome: "nothing due", why: null, what: null };
        await enter(this.held, this.view!, this.pace);
        this.tell(say("wroteReport", { sum: round.kind }));
        await this.sendPending();
        return { ...synced, outcome: "sent", why: null, what: purpose(round.kind, this.view!.campaign) };
      } catch (problem) {
        if (!(problem instanceof PrirecError)) throw problem;
        const outcome = problem instanceof UnavailableError ? "unreachable" : "declined";
        const fault = problem instanceof PeerError ? problem.fault : null;
        this.tell(outcome === "declined" ? say("stayedOut", { why: problem.said, fault }) : say("tryingAgain", { why: problem.said }));
        return { ...synced, outcome, why: problem.said, what: null };
      }
    });
  }

  async run({ seconds = 60 }: { readonly seconds?: number } = {}): Promise<void> {
    if (this.stopped !== null) throw new StateError(say("takesPart"));
    const { promise: over, resolve } = Promise.withResolvers<void>();
    let going = true;
    this.stopped = () => {
      going = false;
      resolve();
    };
    try {
      for (let failures = 0; going;) {
        const { outcome } = await this.takePart({ spread: Math.min(30, seconds) });
        failures = outcome === "unreachable" ? failures + 1 : 0;
        // at times of its own, less often the longer nobody answers
        const pause = Math.min(3600, seconds * 2 ** Math.min(failures, 10)) * (0.5 + jitter());
        await Promise.race([this.pace.sleep(pause), over]);
      }
    } finally {
      this.stopped = null;
    }
  }

  async stop(): Promise<void> {
    this.stopped?.();
  }

  onNews(tell: (news: Sentence) => void): void {
    this.tell = tell;
  }

  /** One request after another: two at once would read the log twice. */
  private serially<T>(work: () => Promise<T>): Promise<T> {
    const doing = this.online.then(work);
    this.online = doing.catch(() => {});
    return doing;
  }

  private async followed(): Promise<Synced> {
    const member = this.member();
    const before = this.held.standing();
    const { view, fetched } = await follow(this.held, member, this.anonymous(member), this.reach);
    const after = this.held.standing();
    const fresh = [...after].filter(([key, value]) => !before.has(key) || !same(before.get(key)!, value)).map(([key]) => key);
    const unchanged = fresh.length === 0 && after.size === before.size && this.view !== null;
    this.view = unchanged ? this.view!.renewed(view.member) : view;
    if (this.made !== null && unchanged) this.made = { view: this.view, published: this.made.published };
    await this.held.change(() => this.held.seeing(this.day));
    if (fetched > 0) {
      const said = say(member.cell === 0n ? "sentAllRegions" : "sentHomeRegions");
      await this.held.change(() => [this.held.sending(this.leaving("regions", member.url, 0, said))]);
    }
    await forgetPast(this.held, this.view);
    if (this.held.areas().length > 0) this.fetchAreas().catch(() => {}); // once more with the next look at the log
    if (view.member.length > member.length) this.tell(say("readLog", { entries: view.member.length }));
    if ((view.member.joined > 0) !== (member.joined > 0)) {
      this.tell(say(view.member.joined > 0 ? "listed" : "unlisted"));
    }
    return this.seen(fresh.filter((subject) => subject === "catalogue" || subject === "start" || subject === "publication"));
  }

  private seen(news: readonly string[]): Synced {
    return { entries: this.held.member()?.length ?? 0, news, cosigned: this.view?.cosigned?.statement.time ?? null };
  }

  /** What the report was for that was written down and has now arrived; null if there is none. */
  private async sendPending(): Promise<string | null> {
    const entry = pending(this.held, this.view!, this.pace.clock);
    if (entry === null) return null;
    await deliver(this.held, entry, await this.named());
    this.tell(say("reportArrived", { sum: entry.round.kind }));
    return entry.what;
  }

  private anonymous(member: Member): Client {
    return new Client(member.url, this.fetch);
  }

  private async named(): Promise<Client> {
    const member = this.member();
    return (this.client ??= new Client(member.url, this.fetch, { deployment: member.deployment, identity: await identityOf(member) }));
  }

  // What left, and what is allowed

  async statement(): Promise<Statement> {
    const { delta } = this.held.budget();
    const reports = this.held.journal().map((entry) => reportSent(entry, delta));
    return {
      sent: [...this.held.sent(), ...reports].toSorted((a, b) => b.at - a.at),
      budget: this.budgetState(),
      membership: this.held.membership(),
    };
  }

  private budgetState(): BudgetState {
    const [budget, ledger] = [this.held.budget(), this.held.ledger()];
    const spent = counted(ledger, budget, this.day);
    const all = counted(ledger, { ...budget, periodDays: null }, this.day);
    const last = ledger.at(-1)?.charge.grains ?? null;
    return {
      budget,
      spent: epsilonOf(spent, budget.delta),
      share: Math.min(1, Number(spent) / Number(affordable(budget.epsilon, budget.delta))),
      releases: ledger.length,
      lifetime: epsilonOf(all, budget.delta),
      more: last === null ? null : howManyMore(ledger, last, budget, this.day),
      floor: this.held.floor(),
      restsOn: [say("budgetHolds", { days: budget.periodDays }), say("oneIsHonest"), say("sameProgram")],
    };
  }

  async setBudget(budget: Budget): Promise<void> {
    const value = checkedBudget(budget);
    await this.held.change(() => [{ table: "allowed", key: "budget", value }]);
  }

  async setFloor(devices: number): Promise<void> {
    const value = checkedFloor(devices);
    await this.held.change(() => [{ table: "allowed", key: "floor", value }]);
  }

  async status(): Promise<Status> {
    const member = this.held.member();
    const view = await this.viewOrNull();
    const basis = view?.basis ?? null;
    const known = view === null || basis === null ? null : await view.known(basis);
    const visits = this.held.visits();
    const there = known === null ? null : positionsOf(known);
    const round = view === null ? null : roundOf(view);
    const entry = round === null ? undefined : this.held.entry(round);
    const rounds = view?.campaign?.settings.iterations ?? 0;
    const zeros = this.held.journal().filter((one) => one.zeros !== null);
    const model = view?.inUse ?? "";
    return {
      visits: visits.filter(({ label }) => label > 0).length,
      refusals: visits.filter(({ label }) => label < 0).length,
      profile: Object.keys(this.held.profile()),
      amounts: basis?.encoding.averages.map(featureOf) ?? [],
      home: this.held.home() !== null,
      membership: this.held.membership(),
      places: known?.ids.length ?? 0,
      canRecommend: model !== "",
      model,
      entries: member?.length ?? 0,
      cosigned: view?.cosigned?.statement.time ?? null,
      campaign: view?.campaign?.charter.campaign ?? null,
      round: view?.learnt === true ? rounds : (view?.model?.iteration ?? 0),
      rounds,
      listed: (member?.joined ?? 0) > 0,
      windowCloses: round !== null && view!.window!.closes > this.pace.clock() ? view!.window!.closes : null,
      reported: entry !== undefined,
      quality: view === null || view.figures === null ? null : { reports: view.figures.reports, figures: view.figures.figures },
      zeros: zeros.length,
      zerosBecause: zeros.at(-1)?.zeros ?? null,
      visitsElsewhere: there === null ? 0 : visits.filter(({ place }) => !there.has(place)).length,
      persisted: await this.held.store.persisted(),
      verdict: verdict(this.held.membership(), model),
    };
  }

  // All of it

  async export(): Promise<Exported> {
    return {
      version: 1,
      profile: this.held.profile(),
      home: this.held.home(),
      visits: this.held.visits(),
      overruled: this.held.overruled(),
      areas: this.held.areas().map((cell) => cell.toString(16)),
      budget: this.held.budgetSet(),
      floor: this.held.floor(),
      membership: this.held.membership(),
      spent: this.held.ledger().map(({ charge, day }) => ({
        deployment: hex(charge.deployment), kind: charge.kind, number: charge.number, attempt: charge.attempt, what: charge.what,
        grains: String(charge.grains), day,
      })),
      sent: (await this.statement()).sent,
    };
  }

  async import(exported: unknown): Promise<Imported> {
    const given = readExport(exported);
    let [visits, charges] = [0, 0];
    await this.held.change(async () => {
      let number = this.held.nextNumber;
      const fresh = given.visits.filter(({ id }) => this.held.visit(id) === undefined);
      const unpaid = given.spent.filter(({ charge }) => !this.held.hasPaid(charge));
      [visits, charges] = [fresh.length, unpaid.length];
      const kept: Change[] = [
        { table: "person", key: "profile", value: { ...given.profile, ...this.held.profile() } },
        ...(given.home !== null && this.held.home() === null ? [{ table: "person", key: "home", value: given.home } as const] : []),
        ...(given.budget !== null && this.held.budgetSet() === null ? [{ table: "allowed", key: "budget", value: given.budget } as const] : []),
        { table: "allowed", key: "floor", value: Math.max(given.floor, this.held.floor()) },
        ...fresh.map((visit): Change => ({ table: "visits", key: visit.id, value: { ...visit, number: number++ } })),
        ...given.overruled.map((one): Change => ({ table: "overruled", key: JSON.stringify([one.column, one.word]), value: one })),
      ];
      return unpaid.length === 0 ? kept : [...kept, ...(await this.held.charging(unpaid))];
    });
    return { visits, charges };
  }

  async forget(): Promise<"left" | "unreachable" | "no member"> {
    let outcome: "left" | "unreachable" | "no member" = "no member";
    if (this.held.member() !== null) {
      try {
        await this.leave();
        outcome = "left";
      } catch (problem) {
        if (!(problem instanceof PrirecError)) throw problem;
        outcome = "unreachable"; // it keeps nobody from erasing
      }
    }
    await this.held.change(() => this.held.forgetting());
    await this.dropDocuments();
    this.refresh();
    return outcome;
  }

  // What these share

  private member(): Member {
    const member = this.held.member();
    if (member === null) throw new StateError(say("noMember"));
    return member;
  }

  /** The deployment as it is stored; null for a device that belongs to none. */
  private async viewOrNull(): Promise<View | null> {
    const member = this.held.member();
    return member === null ? null : (this.view ??= await stored(this.held, member, this.reach));
  }

  private refresh(): void {
    this.view = this.client = this.made = this.learnt = null;
  }

  private leaving(what: Sent["what"], to: string, bytes: number, said: Sentence): Sent {
    return { at: Math.floor(this.pace.clock()), what, to, bytes, said, report: null };
  }

  private get day(): number {
    return Math.floor(this.pace.clock() / DAY);
  }

  private localNow(): number {
    const now = this.pace.clock();
    return Math.floor(now) - 60 * new Date(1000 * now).getTimezoneOffset();
  }
}

function moment({ near, time }: Asked): { moment: { here?: Point; time?: number } } {
  return { moment: { ...(near === undefined ? {} : { here: checkedPoint(near) }), ...(time === undefined ? {} : { time }) } };
}

function verdict(member: Membership | null, model: string): string {
  if (member === null) return "in no deployment yet; let it join one";
  if (!member.enrolled) return `joined ${member.title}, not enrolled yet; it enrols when it next takes part`;
  if (model === "") return `enrolled in ${member.title}; cannot recommend: ${NO_CATALOGUE}`;
  const words: { readonly [model: string]: string } = {
    "start": "with the operator's starting model",
    "own records alone": "from the person's own records alone, since no model is published yet",
  };
  return `enrolled in ${member.title}; ready to recommend, ${words[model] ?? `with the model of ${model}`}`;
}

/** A report as the person reads of it. */
function reportSent(entry: JournalEntry, delta: number): Sent {
  const { round, stage, entries, people, floor, grains, zeros, at, to, bytes } = entry;
  const report = { kind: round.kind, number: round.number, state: stage, entries, people, floor, epsilon: epsilonOf(grains, delta), zeros };
  return { at, what: "report", to, bytes, said: say("sentReport", { sum: round.kind, entries, floor, people }), report };
}

/** From [0, 1). */
function jitter(): number {
  return new DataView(entropy(8).buffer).getUint32(0) / 2 ** 32;
}

// What callers give

function digits(fingerprint: string): string {
  const found = fingerprint.replace(/[\s:]/g, "").toLowerCase();
  if (!new RegExp(`^[0-9a-f]{${FINGERPRINT},64}$`).test(found)) {
    throw new UsageError(say("fingerprint", { least: FINGERPRINT, most: 64 }));
  }
  return found;
}

function printable(title: string): string {
  return title.replace(/\p{C}/gu, "");
}

function checkedPoint(point: Point): Point {
  const [latitude, longitude] = point;
  if (!(Math.abs(latitude) <= 90)) throw new DataError(say("latitude"), "lat");
  if (!(Math.abs(longitude) <= 180)) throw new DataError(say("longitude"), "lon");
  return [Number(latitude), Number(longitude)];
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= LONGEST && value.trim() !== "" && value.isWellFormed();
}

function checkName(name: unknown, what: string): asserts name is string {
  if (!isText(name)) throw new UsageError(`${what} is 1 to ${LONGEST} characters of text, not blank`);
}

/** A finite number, a word, or a list of words without repetitions. */
function checkedValue(value: Value, column: string): Value {
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new DataError(say("notFinite"), column);
    return value;
  }
  const words = typeof value === "string" ? [value] : value;
  if (!Array.isArray(words) || words.length > MOST_VALUES || !words.every(isText)) {
    throw new DataError(say("badValue", { longest: LONGEST }), column);
  }
  return typeof value === "string" ? value : [...new Set(words)];
}

function checkedBudget({ epsilon, delta, periodDays }: Budget): Budget {
  checkBudget(epsilon, delta);
  if (periodDays !== null && !(Number.isInteger(periodDays) && periodDays >= 1)) {
    throw new UsageError(say("period"));
  }
  return { epsilon, delta, periodDays };
}

function checkedFloor(devices: number): number {
  if (!(Number.isInteger(devices) && devices >= 0 && devices < 2 ** 31)) throw new UsageError(say("floor"));
  return devices;
}

/** Why a value is nothing that the deployment has a place for, without the value; null if it is. */
function unfit(blocks: readonly ColumnBlock[], name: string, value: Value): Sentence | null {
  const block = blocks.find(({ column }) => column === name);
  if (block === undefined) {
    return say("unused", { others: blocks.map((one) => one.column) });
  }
  if (fits(block, value)) return null;
  if (block.type === "range") return say("wantsRange", { low: block.low, high: block.high });
  if (block.type === "log") return say("wantsNumber");
  if (block.type === "hashed" || typeof value === "number") return say("wantsWords");
  return say("undeclared", { words: block.words.slice(0, 20), more: block.words.length > 20 });
}

function featureOf(block: ColumnBlock): ProfileFeature {
  switch (block.type) {
    case "range": return { column: block.column, kind: "number", words: [], low: block.low, high: block.high };
    case "log": return { column: block.column, kind: "number", words: [] };
    case "hashed": return { column: block.column, kind: "free words", words: [] };
    case "words": return { column: block.column, kind: "words", words: block.words };
  }
}

function checkedVisit({ place, time, context, id, label }: {
  place: string; time: number | null; context: Values; id: string | undefined; label: 1 | -1;
}): Visit {
  checkName(place, "the id of a place");
  if (time !== null && !(Number.isInteger(time) && time >= EARLIEST && time <= LATEST)) {
    throw new DataError(say("time"), "time");
  }
  if (label !== 1 && label !== -1) throw new DataError("a label is 1 (visited or wanted) or -1 (shown and ignored)", "label");
  const values = checkedContext(context);
  if (id !== undefined) checkName(id, "the id of a visit");
  const name = id ?? hex(blake2b(utf8(`${time ?? "None"}\0${place}`), { size: 16, person: "prirec visit" }));
  return { id: name, place, time, label, context: values };
}

function checkedContext(context: Values): Values {
  return Object.fromEntries(Object.entries(context).map(([name, value]): [string, Value] => {
    checkName(name, "the name of a visit's column");
    return [name, checkedValue(value, name)];
  }));
}

/** DataError for what a visit cannot be described by here. */
function refuseUnfit(encoding: Encoding, context: Values): void {
  for (const [name, value] of Object.entries(context)) {
    const why = unfit(recorded(encoding), name, value);
    if (why !== null) throw new DataError(why, name);
  }
}

/** DataError for what is no export. */
function readExport(exported: unknown) {
  try {
    const given = exported as Exported;
    if (given.version !== 1) throw new DataError(say("exportVersion"));
    const home = given.home === null ? null : checkedPoint(given.home);
    const profile = Object.fromEntries(
      Object.entries(given.profile).map(([name, value]): [string, Value] => {
        checkName(name, "the name of a person's column");
        return [name, checkedValue(value, name)];
      }),
    );
    const visits = given.visits.map(({ id, place, time, label, context }) => checkedVisit({ id, place, time, label, context }));
    const overruled = given.overruled.map(({ column, word, opinion }) => {
      if (!isText(column) || !isText(word) || !["like", "dislike", "ignore"].includes(opinion)) throw new TypeError();
      return { column, word, opinion };
    });
    const spent = given.spent.map(({ deployment, kind, number, attempt, what, grains, day }) => {
      const charge = { deployment: fromHex(deployment), kind, number, attempt, what, grains: BigInt(grains) };
      const whole = [number, attempt, day].every((one) => Number.isSafeInteger(one) && one >= 0);
      if (!whole || day * DAY > LATEST || !/^[0-9a-f]{32}$/.test(deployment) || !(charge.grains >= 1n) || !isText(kind) || !isText(what)) throw new TypeError();
      return { charge, day };
    });
    const budget = given.budget === null ? null : checkedBudget(given.budget);
    return { home, profile, visits, overruled, spent, budget, floor: checkedFloor(given.floor) };
  } catch (problem) {
    if (problem instanceof PrirecError) throw problem;
    throw new DataError(say("noExport"));
  }
}
