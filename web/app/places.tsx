/** Places: ten recommendations with their reasons, on a map and in a list, and all that a person says of a place. */

import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Point } from "../src/geography.ts";
import type { Reason } from "../src/recommend.ts";
import type { PlaceInfo } from "../src/surface.ts";
import { distance, rounded } from "./format.ts";
import { located } from "./location.ts";
import type { PlacesMap, Shown } from "./map.ts";
import { Amounts, called, Name } from "./parts.tsx";
import type { Phone } from "./phone.ts";
import { spoken, texts } from "./texts.ts";

const RADII = [1, 2, 5, 10, 20, 50];
const MOST_FOUND = 20;
const words = texts.places;

export function Places({ phone }: { phone: Phone }): VNode {
  const { status, suggestions } = phone.held!;
  const [chosen, setChosen] = useState<string | null>(null);
  const [picking, setPicking] = useState(false);
  const model = status.model === "start" || status.model === "own records alone" ? words.model[status.model] : words.model.learnt;
  const setHome = (home: Point): void => {
    setPicking(false);
    void phone.act(() => phone.device.setHome(rounded(home)), { words: words.homeSet, undo: null });
  };
  if (!status.canRecommend) {
    return (
      <>
        <h1>{words.title}</h1>
        <p class="card">{words.noCatalogue} <button type="button" onClick={() => void phone.act(() => phone.device.sync())}>{words.look}</button></p>
      </>
    );
  }
  const home = phone.held!.home;
  const place = chosen === null ? undefined : phone.places.get(chosen);
  return (
    <>
      <header class="head">
        <div>
          <h1>{words.title}</h1>
          <p class="quiet small">{model}</p>
        </div>
        <div class="controls">
          <label>
            {words.radius}{" "}
            <select value={phone.around.radiusKm} onChange={({ currentTarget }) => void phone.lookAround({ radiusKm: Number(currentTarget.value) })}>
              {RADII.map((km) => <option key={km} value={km}>{texts.kilometres(String(km))}</option>)}
            </select>
          </label>
          {phone.around.here === null
            ? <button type="button" onClick={() => void phone.act(async () => phone.lookAround({ here: await located() }))}>{words.aroundHere}</button>
            : <button type="button" onClick={() => void phone.lookAround({ here: null })}>{words.aroundHome}</button>}
          {phone.around.here !== null && !status.membership!.allRegions && (
            <button type="button" onClick={() => void phone.download(phone.around.here!)}>{words.download}</button>
          )}
        </div>
      </header>
      <div class="places">
        <div class="map-side">
          <MapOf
            shown={{ suggestions, places: phone.places, visits: phone.held!.visits, home, here: phone.around.here, radiusKm: phone.around.radiusKm, chosen }}
            picking={picking} setPicking={setPicking} choose={setChosen} pick={setHome}
          />
          {place !== undefined && <Chosen key={place.id} phone={phone} place={place} close={() => setChosen(null)} />}
          <Search phone={phone} />
        </div>
        <section aria-label={words.list}>
          {suggestions.length === 0 && <p class="card">{words.none}</p>}
          {suggestions.some(({ distanceKm }) => (distanceKm ?? 0) > phone.around.radiusKm) && <p class="small quiet beyond">{words.beyond}</p>}
          <ol class="suggestions">
            {suggestions.map(({ place: id, about, distanceKm, reasons }, at) => (
              <li key={id} class="card" data-place={id}>
                <span class="number" aria-hidden="true">{at + 1}</span>
                <div>
                  <h2><Name>{about || id}</Name></h2>
                  {distanceKm !== null && <p class="quiet small">{distance(distanceKm)}</p>}
                  <Reasons reasons={reasons} />
                </div>
                <Saying phone={phone} place={id} />
              </li>
            ))}
          </ol>
        </section>
      </div>
    </>
  );
}

function Reasons({ reasons }: { reasons: readonly Reason[] }): VNode {
  if (reasons.length === 0) return <p class="small quiet">{words.noReasons}</p>;
  return (
    <ul class="reasons">
      {reasons.map((reason) => (
        <li key={reason.words} class={reason.pull < 0 ? "against" : ""}>{reason.pull < 0 && `${words.but} `}<bdi>{spoken(reason)}</bdi></li>
      ))}
    </ul>
  );
}

/** The two things that a person says of a place; and of a visit, where the recommender averages a number, that one. */
function Saying({ phone, place }: { phone: Phone; place: string }): VNode {
  const name = phone.about(place);
  const { amounts } = phone.held!.status;
  const [times, setTimes] = useState(0);
  const told = useRef<Record<string, number>>({});
  const tell = (column: string, value: number | null): void => void (value === null ? delete told.current[column] : (told.current[column] = value));
  const say = (refusal: boolean): void => {
    const before = new Set(phone.held!.visits.map(({ id }) => id));
    const undo = async (): Promise<void> => {
      const made = (await phone.device.visits()).find((visit) => visit.place === place && !before.has(visit.id));
      if (made !== undefined) await phone.device.removeVisit(made.id);
    };
    const done = refusal ? words.refusedDone(name) : words.beenDone(name);
    const work = () => (refusal ? phone.device.refuse({ place }) : phone.device.recordVisit({ place, context: told.current }));
    void phone.act(work, { words: done, undo }).then((noted) => {
      if (!noted) return;
      told.current = {};
      setTimes(times + 1);
    });
  };
  return (
    <div class="buttons">
      {amounts.length > 0 && (
        <details key={times} class="small">
          <summary class="quiet">{words.amounts(amounts.map(({ column }) => called(column)))}<span class="unseen">: {name}</span></summary>
          <Amounts phone={phone} place={place} has={{}} tell={tell} />
        </details>
      )}
      <button type="button" class="main" onClick={() => say(false)}>{words.been}<span class="unseen">: {name}</span></button>
      <button type="button" onClick={() => say(true)}>{words.notForMe}<span class="unseen">: {name}</span></button>
    </div>
  );
}

/** A place that was tapped on the map. */
function Chosen({ phone, place, close }: { phone: Phone; place: PlaceInfo; close(): void }): VNode {
  const [reasons, setReasons] = useState<readonly Reason[]>([]);
  useEffect(() => {
    void phone.device.reasons(place.id, { radiusKm: phone.around.radiusKm }).then(setReasons, () => {});
  }, [place.id]);
  const [visits, refused] = saidOf(phone, place.id);
  return (
    <section class="card chosen" aria-label={words.chosen}>
      <h2><Name>{place.about || place.id}</Name></h2>
      <p class="quiet small">
        {[place.distanceKm !== null && distance(place.distanceKm), visits > 0 && words.visited(visits), refused && words.refused].filter(Boolean).join(", ")}
      </p>
      {reasons.length > 0 && <Reasons reasons={reasons} />}
      <Saying phone={phone} place={place.id} />
      <button type="button" class="quiet" onClick={close}>{words.close}</button>
    </section>
  );
}

function saidOf(phone: Phone, place: string): [visits: number, refused: boolean] {
  const said = phone.held!.visits.filter((visit) => visit.place === place);
  return [said.filter(({ label }) => label > 0).length, said.some(({ label }) => label < 0)];
}

/** A visit at any place of the catalogue, by its name. */
function Search({ phone }: { phone: Phone }): VNode {
  const [text, setText] = useState("");
  const found = useMemo(() => {
    const wanted = text.trim().toLocaleLowerCase();
    return wanted === "" ? [] : [...phone.places.values()].filter(({ id, about }) => (about || id).toLocaleLowerCase().includes(wanted));
  }, [text, phone.places]);
  return (
    <section class="card search" aria-label={words.search}>
      <label>{words.search} <input type="search" value={text} placeholder={words.searchHint} onInput={({ currentTarget }) => setText(currentTarget.value)} /></label>
      {text.trim() !== "" && (
        <>
          <p class="small quiet" role="status">{words.found(found.length)}{found.length > MOST_FOUND && `, ${words.more(found.length - MOST_FOUND)}`}</p>
          <ul>
            {found.slice(0, MOST_FOUND).map(({ id, about, distanceKm }) => (
              <li key={id}>
                <div><Name>{about || id}</Name> {distanceKm !== null && <span class="quiet small">{distance(distanceKm)}</span>}</div>
                <Saying phone={phone} place={id} />
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** The map, loaded when the page is there. Nothing where the browser cannot draw it: the list shows the same. */
function MapOf({ shown, picking, setPicking, choose, pick }: {
  shown: Shown;
  picking: boolean;
  setPicking(picking: boolean): void;
  choose(place: string): void;
  pick(point: Point): void;
}): VNode {
  const box = useRef<HTMLDivElement>(null);
  const map = useRef<PlacesMap | null>(null);
  const now = useRef({ picking, choose, pick });
  now.current = { picking, choose, pick };
  const [state, setState] = useState<"loading" | "there" | "impossible">("loading");
  useEffect(() => {
    let gone = false;
    const load = async (): Promise<void> => {
      if (!canDraw()) return setState("impossible");
      try {
        const { PlacesMap: Map } = await import("./map.ts");
        if (gone) return;
        map.current = new Map(box.current!, {
          tapped: (place, point) => (now.current.picking ? now.current.pick(point) : place !== null && now.current.choose(place)),
          drawn: () => setState("there"),
        });
        map.current.show(shown);
      } catch {
        setState("impossible");
      }
    };
    const soon = setTimeout(() => void load(), 50);
    return () => {
      gone = true;
      clearTimeout(soon);
      map.current?.remove();
      map.current = null;
    };
  }, []);
  useEffect(() => map.current?.show(shown), [shown.suggestions, shown.places, shown.visits, shown.home, shown.here, shown.radiusKm, shown.chosen]);
  if (state === "impossible") return <p class="card quiet small">{words.noMap}</p>;
  return (
    <>
      <figure class="map-box">
        <div ref={box} class={picking ? "map picking" : "map"} role="region" aria-label={words.map} data-drawn={state === "there"} />
        {state === "loading" && <p class="over quiet small">{words.loadingMap}</p>}
        <figcaption class="small quiet">
          <ul class="key">{(Object.keys(words.key) as (keyof typeof words.key)[]).map((name) => <li key={name} class={name}>{words.key[name]}</li>)}</ul>
        </figcaption>
      </figure>
      <div class="controls">
        <button type="button" aria-pressed={picking} onClick={() => setPicking(!picking)}>{words.setHome}</button>
        {picking && <span role="status">{words.pickHome}</span>}
      </div>
    </>
  );
}

function canDraw(): boolean {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext(); // a browser has few of them
  return context !== null;
}
