/** What is on this phone: everything that it holds of a person, to be changed and erased; and what it believes they like. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import type { Value } from "../src/encoding.ts";
import type { Point } from "../src/geography.ts";
import type { Visit } from "../src/records.ts";
import type { Area, Belief, Opinion, ProfileFeature } from "../src/surface.ts";
import { localNow, wallClock } from "./format.ts";
import { located } from "./location.ts";
import { Amounts, called, Card, Name, Question } from "./parts.tsx";
import type { Phone } from "./phone.ts";
import { spoken, texts } from "./texts.ts";

const SHOWN = 12; // lines of a list before it is opened
const FEWEST = 6; // beliefs that are shown, however weak
const words = texts.phone;

export function OnPhone({ phone }: { phone: Phone }): VNode {
  const { visits, status } = phone.held!;
  return (
    <>
      <header class="head">
        <div>
          <h1>{words.title}</h1>
          <p class="quiet">{words.intro} {status.persisted !== null && words.kept[status.persisted ? "yes" : "no"]}</p>
        </div>
      </header>
      <div class="cards">
        <Beliefs phone={phone} />
        <Visits phone={phone} title={words.visits} none={words.visitsNone} visits={visits.filter(({ label }) => label > 0)} />
        <Visits phone={phone} title={words.refusals} none={words.refusalsNone} visits={visits.filter(({ label }) => label < 0)} />
        <ProfileCard phone={phone} />
        <Home phone={phone} />
        {status.membership?.allRegions === false && <Areas phone={phone} />}
        <AllOfIt phone={phone} />
      </div>
    </>
  );
}

function ProfileCard({ phone }: { phone: Phone }): VNode {
  const { values, features, unused } = phone.held!.profile;
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const told = Object.fromEntries(features!.map((feature) => [feature.column, valueOf(feature, form.getAll(feature.column).map(String))]));
    void phone.act(() => phone.device.setProfile(told), { words: words.profileDone, undo: null });
  };
  return (
    <Card title={words.profile}>
      <p class="quiet small">{features === null ? words.profileLater : features.length === 0 ? words.profileNone : words.profileWords}</p>
      {features !== null && features.length > 0 && (
        <form onSubmit={save} key={JSON.stringify(values)}>
          {features.map((feature) => <Feature key={feature.column} feature={feature} value={values[feature.column]} />)}
          <button class="main">{words.save}</button>
        </form>
      )}
      <ul class="lines">
        {Object.keys(features === null ? values : unused).map((column) => (
          <li key={column}>
            <div><b><bdi>{column}</bdi></b> <bdi>{String(values[column])}</bdi> {unused[column] !== undefined && <span class="quiet small">{spoken(unused[column])}</span>}</div>
            <button type="button" onClick={() => void phone.act(() => phone.device.setProfile({ [column]: null }))}>{words.erase}<span class="unseen"> {column}</span></button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Feature({ feature: { column, kind, words: known, low, high }, value }: { feature: ProfileFeature; value: Value | undefined }): VNode {
  const has = value === undefined ? [] : Array.isArray(value) ? value.map(String) : [String(value)];
  const name = called(column);
  if (kind === "words") {
    return (
      <fieldset class="choices">
        <legend><bdi>{name}</bdi></legend>
        {known.map((word) => <label key={word}><input type="checkbox" name={column} value={word} defaultChecked={has.includes(word)} /> <bdi>{word}</bdi></label>)}
      </fieldset>
    );
  }
  return (
    <label>
      <bdi>{name}</bdi>
      {kind === "number"
        ? <input name={column} type="number" step="any" min={low} max={high} defaultValue={has[0] ?? ""} placeholder={words.notTold} />
        : <input name={column} defaultValue={has.join(", ")} placeholder={words.notTold} />}
      {kind === "free words" && <span class="hint">{words.words}</span>}
      {low !== undefined && high !== undefined && <span class="hint">{words.range(low, high)}</span>}
    </label>
  );
}

/** What was filled in; null erases what was told before. */
function valueOf({ kind }: ProfileFeature, given: readonly string[]): Value | null {
  const some = (kind === "free words" ? given.flatMap((one) => one.split(",")) : given).map((one) => one.trim()).filter((one) => one !== "");
  if (some.length === 0) return null;
  return kind === "number" ? Number(some[0]) : some;
}

/** A point, as two numbers of a form. */
function PointFields({ at }: { at: Point | null }): VNode {
  return (
    <div class="pair">
      <label>{words.latitude} <input name="latitude" type="number" step="any" min={-90} max={90} required defaultValue={at === null ? "" : String(at[0])} /></label>
      <label>{words.longitude} <input name="longitude" type="number" step="any" min={-180} max={180} required defaultValue={at === null ? "" : String(at[1])} /></label>
    </div>
  );
}

function pointIn(event: SubmitEvent): Point {
  event.preventDefault();
  const form = new FormData(event.currentTarget as HTMLFormElement);
  return [Number(form.get("latitude")), Number(form.get("longitude"))];
}

function Home({ phone }: { phone: Phone }): VNode {
  const { home } = phone.held!;
  const set = (point: Point | null): void => void phone.act(() => phone.device.setHome(point), { words: point === null ? words.removed(words.home) : texts.places.homeSet, undo: null });
  return (
    <Card title={words.home}>
      {home === null && <p class="quiet small">{words.homeNone}</p>}
      <form onSubmit={(event) => set(pointIn(event))} key={String(home)}>
        <PointFields at={home} />
        <div class="buttons">
          <button class="main">{words.save}</button>
          <button type="button" onClick={() => void phone.act(async () => phone.device.setHome(await located()), { words: texts.places.homeSet, undo: null })}>{texts.join.locate}</button>
          {home !== null && <button type="button" onClick={() => set(null)}>{words.erase}<span class="unseen"> {words.home}</span></button>}
        </div>
      </form>
    </Card>
  );
}

/** What was downloaded beside the home's surroundings. */
function Areas({ phone }: { phone: Phone }): VNode {
  const name = ({ id, centre }: Area): string => (centre === null ? id : words.areaOf(centre[0].toFixed(2), centre[1].toFixed(2)));
  return (
    <Card title={words.areas}>
      <p class="quiet small">{words.areasWords}</p>
      <ul class="lines">
        {phone.held!.areas.map((area) => (
          <li key={area.id}>
            <div>{name(area)}</div>
            <button type="button" onClick={() => void phone.act(() => phone.device.dropArea(area.id), { words: words.areaGone, undo: null })}>
              {words.erase}<span class="unseen"> {name(area)}</span>
            </button>
          </li>
        ))}
      </ul>
      <form onSubmit={(event) => void phone.download(pointIn(event))}>
        <PointFields at={null} />
        <div class="buttons">
          <button>{words.download}</button>
          <button type="button" onClick={() => void phone.act(async () => phone.download(await located()))}>{texts.join.locate}</button>
        </div>
      </form>
    </Card>
  );
}

function Visits({ phone, title, none, visits }: { phone: Phone; title: string; none: string; visits: readonly Visit[] }): VNode {
  const [all, setAll] = useState(false);
  const newest = visits.toReversed();
  return (
    <Card title={title}>
      {visits.length === 0 && <p class="quiet small">{none}</p>}
      <ul class="lines">{(all ? newest : newest.slice(0, SHOWN)).map((visit) => <VisitLine key={visit.id} phone={phone} visit={visit} />)}</ul>
      {!all && visits.length > SHOWN && <button type="button" onClick={() => setAll(true)}>{words.showAll(visits.length)}</button>}
    </Card>
  );
}

function VisitLine({ phone, visit }: { phone: Phone; visit: Visit }): VNode {
  const name = phone.about(visit.place);
  const again = (time: number | null) => {
    const { place, context } = visit;
    return visit.label > 0 ? phone.device.recordVisit({ place, context, time }) : phone.device.refuse({ place, context, time });
  };
  const move = (text: string): void => {
    const time = Date.parse(`${text}Z`) / 1000;
    if (Number.isNaN(time) || time === visit.time) return;
    void phone.act(async () => {
      await again(time); // the new one first: a failure loses nothing
      await phone.device.removeVisit(visit.id);
    }, { words: words.moved, undo: null });
  };
  const describe = (column: string, value: number | null): void =>
    void phone.act(() => phone.device.describeVisit(visit.id, { [column]: value }), { words: words.profileDone, undo: null });
  const amounts = visit.label > 0 ? phone.held!.status.amounts : [];
  const told = amounts.flatMap(({ column }) => (visit.context[column] === undefined ? [] : [`${called(column)} ${visit.context[column]}`]));
  const remove = (): void => void phone.act(() => phone.device.removeVisit(visit.id), { words: words.removed(name), undo: async () => void (await again(visit.time)) });
  return (
    <li>
      <div>
        <Name>{name}</Name>
        <details class="small">
          <summary class="quiet">{visit.time === null ? words.noTime : wallClock(visit.time)}{told.map((one) => <bdi key={one}>, {one}</bdi>)}</summary>
          <input
            type="datetime-local" aria-label={words.whenOf(name)} max={wallText(localNow())} defaultValue={visit.time === null ? "" : wallText(visit.time)}
            onChange={({ currentTarget }) => move(currentTarget.value)}
          />
          {amounts.length > 0 && <Amounts phone={phone} place={visit.place} has={visit.context} tell={describe} />}
        </details>
      </div>
      <button type="button" onClick={remove}>{words.remove}<span class="unseen"> {name}</span></button>
    </li>
  );
}

/** As a field for a time has it. */
function wallText(seconds: number): string {
  return new Date(1000 * seconds).toISOString().slice(0, 16);
}

function Beliefs({ phone }: { phone: Phone }): VNode {
  const { beliefs } = phone.held!;
  const [all, setAll] = useState(false);
  const first = beliefs.filter(({ pull, overruled }, at) => at < FEWEST || overruled !== null || words.pull(pull) !== words.noPull).slice(0, SHOWN);
  const most = Math.max(0.5, ...beliefs.map(({ pull }) => Math.abs(pull)));
  return (
    <Card title={words.beliefs} kind="wide">
      <p class="quiet small">{beliefs.length === 0 ? words.beliefsNone : `${words.beliefsWords} ${words.beliefsMixed}`}</p>
      <ul class="beliefs">
        {(all ? beliefs : first).map((belief) => <BeliefLine key={`${belief.column}\0${belief.word}`} phone={phone} belief={belief} most={most} />)}
      </ul>
      {!all && beliefs.length > first.length && <button type="button" onClick={() => setAll(true)}>{words.showAll(beliefs.length)}</button>}
    </Card>
  );
}

const OPINIONS = ["like", "dislike", "ignore"] as const satisfies readonly Opinion[];

function BeliefLine({ phone, belief, most }: { phone: Phone; belief: Belief; most: number }): VNode {
  const { column, word, pull, own, visits, refusals, overruled } = belief;
  const say = (opinion: Opinion | null): void => void phone.act(() => phone.device.overrule({ column, word }, opinion));
  const why = words.because(visits, refusals) || (Math.abs(own) > Math.abs(pull - own) ? words.fromYou : words.fromOthers);
  return (
    <li data-word={word}>
      <div class="belief">
        <b><bdi>{word}</bdi></b> <span class="quiet small"><bdi>{called(column)}</bdi></span>
        <svg class="pull" viewBox="-1 0 2 0.12" preserveAspectRatio="none" aria-hidden="true">
          <rect class={pull < 0 ? "down" : "up"} x={Math.min(0, pull / most)} y="0" width={Math.abs(pull / most)} height="0.12" />
        </svg>
        <span class="small">{overruled !== null ? words.overruled[overruled] : words.pull(pull) === words.noPull ? words.noPull : `${words.pull(pull)}; ${why}`}</span>
      </div>
      <div class="buttons" role="group" aria-label={words.opinionOf(word)}>
        {OPINIONS.map((opinion) => (
          <button key={opinion} type="button" aria-pressed={overruled === opinion} onClick={() => say(overruled === opinion ? null : opinion)}>{words.opinions[opinion]}</button>
        ))}
      </div>
    </li>
  );
}

function AllOfIt({ phone }: { phone: Phone }): VNode {
  const [asking, setAsking] = useState(false);
  const exported = async (): Promise<void> => {
    const body = JSON.stringify(await phone.device.export(), null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([body], { type: "application/json" }));
    link.download = words.exportFile;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  const imported = (input: HTMLInputElement): void => {
    const file = input.files?.[0];
    if (file === undefined) return;
    input.value = "";
    void phone.act(async (tell) => {
      let found: unknown;
      try {
        found = JSON.parse(await file.text());
      } catch {
        throw new Error(words.notJson);
      }
      const { visits, charges } = await phone.device.import(found);
      tell({ words: words.imported(visits, charges), undo: null });
    });
  };
  const forget = (sure: boolean): void => {
    setAsking(false);
    if (!sure) return;
    void phone.act(async (tell) => {
      phone.stop();
      const outcome = await phone.device.forget();
      tell({ words: words.forgotten[outcome], undo: null });
    });
  };
  return (
    <Card title={words.all}>
      <p class="quiet small">{words.exportWords}</p>
      <button type="button" onClick={() => void phone.act(exported)}>{words.export}</button>
      <p class="quiet small">{words.importWords}</p>
      <label class="file">{words.import} <input type="file" accept="application/json,.json" onChange={({ currentTarget }) => imported(currentTarget)} /></label>
      <p class="quiet small">{words.forgetWords}</p>
      <button type="button" class="danger" onClick={() => setAsking(true)}>{words.forget}</button>
      {asking && <Question title={words.forgetTitle} words={words.forgetSure} yes={words.forget} answer={forget} />}
    </Card>
  );
}
