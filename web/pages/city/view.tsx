/** What the page of a city says beside its map. */

import type { VNode } from "preact";
import { useMemo } from "preact/hooks";

import { Bars, Figure, Heat, Lines, Meter, shown, Table, Waiting } from "../../ui/charts.tsx";
import { DeviceCard, DeviceChoice, Line, OperatorCard } from "../../ui/one_device.tsx";
import { bytes, capital, count, spaced } from "../../ui/words.ts";
import type { City, Player, Sum, UnderWay, Watched } from "./city.ts";
import type { SumKind, Told } from "./events.ts";

export interface Handlers {
  toggle(): void;
  step(): void;
  speed(value: number): void;
  seek(time: number): void;
  follow(): void;
  look(device: number): void;
  canvas(element: HTMLCanvasElement | null): void;
}

const SPEEDS = [1, 4, 8, 20];
const SHOWN_PLACES = 12;
const SUMS: Record<SumKind, string> = { visits: "visits", moments: "moments", learning: "gradients of B", quality: "quality figures" };
const MEANING: Record<SumKind, string> = {
  visits: "Each device adds which places its person has visited. What is popular is read off this sum.",
  moments: "Each device adds its person’s features and their squares, so that features can be brought to one scale.",
  learning: "Each device adds how the shared model B would have to change to fit what its person did.",
  quality: "Each device adds how well the model foretells visits that the device has held out.",
};

export function CityView({ city, player, live, following, looked, handlers }: {
  city: City;
  player: Player;
  live: boolean;
  following: boolean;
  looked: number | undefined;
  handlers: Handlers;
}): VNode {
  const { plan } = city;
  return (
    <>
      <header>
        <div>
          <h1>A city with PriRec</h1>
          <p>Devices learn together which places to recommend. What a person did stays on the device: only sums over many people are opened, with noise in them.</p>
          <p class="quiet small">{about(plan)}</p>
        </div>
        <Controls player={player} live={live} following={following} handlers={handlers} />
        <p class="notice small">{caution(plan)}</p>
      </header>
      <main>
        <section class="card map" aria-label="Map of the city">
          <canvas ref={handlers.canvas} role="img" aria-label={`${city.here} of ${plan.devices} devices are there; ${city.added} have added to the sum`} />
          <Key plan={plan} />
        </section>
        <section class="now" aria-label="What happens now">
          <Now city={city} time={player.time} />
          <Sums sums={city.sums} />
        </section>
        {plan.personal && <OneDevice city={city} looked={looked} handlers={handlers} />}
        <section class="figures" aria-label="What was opened">
          {/* what was opened changes seldom: the same elements are not looked through again */}
          {useMemo(() => <PopularityFigure found={city.popularity} names={plan.names} />, [city.popularity])}
          {useMemo(() => <ModelFigure models={city.models} />, [city.models])}
          {useMemo(() => <HeatFigure model={city.models.at(-1)} />, [city.models])}
          {useMemo(() => plan.personal && <AccuracyFigure accuracy={city.accuracy} end={city.end} />, [city.accuracy, city.end])}
        </section>
      </main>
      <footer class="quiet small">
        One machine, made for this: a rehearsal protects nobody. Every device, the recommender{plan.operators === 2 ? " and the helper" : ""} ran
        as programs of their own and talked over TLS; this page is drawn from what they did.
      </footer>
    </>
  );
}

function about(plan: Told<"city">): string {
  const who = plan.made_up ? "made-up people" : "people of a data folder";
  const sums = plan.operators === 2 ? "over two operators" : "over one operator";
  return `${count(plan.devices, "device")} of ${who}, ${count(plan.places.length, "place")}, ${count(plan.rounds, "round")}, sums ${sums}, a privacy budget of ε = ${plan.epsilon} for each person in total`;
}

function caution(plan: Told<"city">): string {
  if (plan.made_up) return "Nobody on this page exists. A rehearsal owns everybody’s data, so it can show what no operator sees: homes, visits, exact counts and accuracy.";
  if (plan.personal) return "These are people of a data folder, shown because whoever started this asked for it. No operator sees homes, visits, exact counts or accuracy.";
  return "These are people of a data folder: where they live and what they did is not on this page, and neither is what only their owner could measure.";
}

function Controls({ player, live, following, handlers }: { player: Player; live: boolean; following: boolean; handlers: Handlers }): VNode {
  return (
    <div class="controls" role="group" aria-label="Time">
      <button type="button" onClick={handlers.toggle} aria-keyshortcuts="Space">{player.playing ? "Pause" : "Play"}</button>
      <button type="button" onClick={handlers.step} aria-keyshortcuts="ArrowRight">Step</button>
      <label>
        <span class="unseen">Speed</span>
        <select value={player.speed} onChange={({ currentTarget }) => handlers.speed(Number(currentTarget.value))}>
          {SPEEDS.map((speed) => <option key={speed} value={speed}>{speed}×</option>)}
        </select>
      </label>
      <label class="time">
        <span class="unseen">Time</span>
        <input type="range" min="0" max={Math.ceil(player.latest * 10) / 10} step="0.1" value={player.time} onInput={({ currentTarget }) => handlers.seek(Number(currentTarget.value))} />
        <output>{clock(player.time)} / {clock(player.latest)}</output>
      </label>
      {live && <button type="button" class="live" aria-pressed={following} onClick={handlers.follow}>Live</button>}
    </div>
  );
}

function Key({ plan }: { plan: Told<"city"> }): VNode {
  return (
    <ul class="key small">
      <li class="gone">not there</li>
      <li class="here">there</li>
      <li class="added">has added to this sum</li>
      <li class="place">place, by published popularity</li>
      {plan.personal && <li class="looked">device below, with its visits</li>}
    </ul>
  );
}

function Now({ city, time }: { city: City; time: number }): VNode {
  const { plan, sum } = city;
  return (
    <div class="card">
      <h2>{heading(city)}</h2>
      {sum !== undefined && <p class="small">{MEANING[sum.kind]}</p>}
      <p class="big"><b>{city.here.toLocaleString("en")}</b> of {plan.devices.toLocaleString("en")} devices are there</p>
      {sum !== undefined && <Window sum={sum} plan={plan} time={time} added={city.added} />}
      {city.traffic !== undefined && (
        <p class="quiet small">
          {bytes(city.traffic.sent / plan.devices)} sent and {bytes(city.traffic.received / plan.devices)} received by each device so far
        </p>
      )}
    </div>
  );
}

function heading(city: City): string {
  if (city.end !== undefined) return city.end.phase === "over" ? "The model is published" : "The campaign has failed";
  if (city.sum === undefined) return capital(city.doing) || "Before the first sum";
  const { kind, round } = city.sum;
  return kind === "learning" ? `Round ${round} of ${city.plan.rounds}: a sum of ${SUMS[kind]}` : `The sum of ${SUMS[kind]}`;
}

function Window({ sum, plan, time, added }: { sum: UnderWay; plan: Told<"city">; time: number; added: number }): VNode {
  const { window } = sum;
  const [reports, of] = window === undefined ? [added, plan.devices] : [sum.reports, window.people];
  const left = window === undefined ? undefined : Math.max(0, window.closes - time);
  return (
    <>
      <Meter label="reports" value={reports} most={of} floor={plan.floor} />
      <p class="small">
        <b>{reports.toLocaleString("en")}</b> of {of.toLocaleString("en")} {window === undefined ? "have added to it" : "have reported"}; it is opened over at least {plan.floor.toLocaleString("en")}
      </p>
      {window !== undefined && (
        <>
          <Meter label="time of the window" value={Math.min(time, window.closes) - window.opened} most={window.closes - window.opened} />
          <p class="small quiet">{left! > 0 ? `the window closes in ${Math.ceil(left!)} s` : "the window is closed: both operators check the reports and open their sum"}</p>
        </>
      )}
    </>
  );
}

function Sums({ sums }: { sums: readonly Sum[] }): VNode {
  const rows = sums.map(({ kind, round, ended, began }) => [
    kind === "learning" ? `${SUMS[kind]}, ${round}` : SUMS[kind],
    ended!.opened ? "opened" : "not opened",
    ended!.survivors,
    `${Math.round(ended!.at - began)} s`,
  ]);
  return (
    <div class="card">
      <h3>Sums</h3>
      {rows.length === 0 ? <p class="quiet small">None is over yet.</p> : <Table head={["sum of", "state", "people in it", "took"]} rows={rows} />}
    </div>
  );
}

function PopularityFigure({ found, names }: { found: Told<"popularity"> | undefined; names: readonly string[] }): VNode {
  const title = "The sum of visits: noise against signal";
  if (found === undefined) return <Waiting title={title} until="the sum of visits is open" />;
  const order = largest(found.opened, SHOWN_PLACES);
  const name = (row: number) => names[row] ?? `place ${row}`;
  const bars = order.map((row) => ({ name: name(row), value: found.opened[row]!, exact: found.exact?.[row] }));
  const rows = order.map((row) => [name(row), found.opened[row]!, found.exact?.[row] ?? "", found.released[row]!]);
  return (
    <Figure
      title={title}
      note={`All that anybody learns of visits is this sum: for each place, noise with a standard deviation of ${shown(found.noise)} is in it. A person adds a vector of length 1. The ${order.length} largest of ${count(found.opened.length, "place")}.`}
      head={["place", "opened", "exact", "published"]}
      rows={rows}
    >
      <Bars bars={bars} off={found.noise} label="The largest entries of the opened sum, with the noise in each" value="opened" exact="exact, which only a rehearsal knows" />
    </Figure>
  );
}

/** Positions of the largest of these, the largest first; without sorting all of them, which takes longer than a frame. */
function largest(values: readonly number[], many: number): number[] {
  const found: number[] = [];
  values.forEach((value, row) => {
    if (found.length === many && value <= values[found.at(-1)!]!) return;
    const at = found.findIndex((other) => values[other]! < value);
    found.splice(at < 0 ? found.length : at, 0, row);
    if (found.length > many) found.pop();
  });
  return found;
}

function ModelFigure({ models }: { models: readonly Told<"model">[] }): VNode {
  const title = "B, the shared model: noise against signal";
  if (models.length === 0) return <Waiting title={title} until="the first round is over" />;
  const pick = (name: "measured" | "noise" | "kept") => models.map((one) => one[name]);
  return (
    <Figure
      title={title}
      note="Each round is another measurement of B. Their average becomes less noisy; what does not rise above its noise is shrunk before it is published. B is V in the paper."
      head={["round", "measured", "noise in it", "published"]}
      rows={models.map((one) => [one.round, one.measured, one.noise, one.kept])}
    >
      <Lines
        series={[
          { name: "measured (root mean square of an entry)", values: pick("measured"), look: "first" },
          { name: "noise in it", values: pick("noise"), look: "second" },
          { name: "published", values: pick("kept"), look: "third" },
        ]}
        of="round"
        label="Size of the entries of B and of the noise in them, by round"
      />
    </Figure>
  );
}

function HeatFigure({ model }: { model: Told<"model"> | undefined }): VNode {
  const title = "B by kinds of features";
  if (model === undefined) return <Waiting title={title} until="the first round is over" />;
  const [rows, columns] = [model.rows.map(spaced), model.columns.map(spaced)];
  const label = `How strong each feature of people is with each feature of places, after round ${model.round}`;
  return (
    <Figure
      title={title}
      note={`${label}. “Everyone” is what holds for all people alike; the deeper the colour, the larger the entries.`}
      head={["places", ...rows]}
      rows={columns.map((name, column) => [name, ...model.strength.map((row) => row[column]!)])}
    >
      <Heat rows={rows} columns={columns} values={model.strength} label={label} />
    </Figure>
  );
}

function AccuracyFigure({ accuracy, end }: { accuracy: readonly Told<"accuracy">[]; end: Told<"end"> | undefined }): VNode {
  const title = "How well it recommends";
  if (accuracy.length === 0) return <Waiting title={title} until="the first round is over" />;
  const range = end?.simulated ?? [];
  const band = range.length > 0 ? ([Math.min(...range), Math.max(...range)] as const) : undefined;
  return (
    <Figure
      title={title}
      note={`AUC of all devices’ models on records that no device has. Only a rehearsal can measure this.${band === undefined ? "" : ` The band: ${count(range.length, "simulation")} of the same campaign, each with noise of its own.`}`}
      head={["round", "AUC", "log loss"]}
      rows={accuracy.map((one) => [one.round, one.auc, one.log_loss])}
    >
      <Lines series={[{ name: "AUC", values: accuracy.map((one) => one.auc), look: "first" }]} of="round" label="AUC by round" band={band} from={0.5} />
    </Figure>
  );
}

/** One device's view, beside what each operator sees of it. */
function OneDevice({ city, looked, handlers }: { city: City; looked: number | undefined; handlers: Handlers }): VNode | null {
  const one = looked === undefined ? undefined : city.watched.get(looked);
  if (one === undefined) return null;
  return (
    <section class="one" aria-label="One device">
      <header>
        <h2>One device, and what each operator sees of it</h2>
        <DeviceChoice devices={city.watched.keys()} looked={looked} look={handlers.look} />
      </header>
      <div class="views">
        <OwnView one={one} city={city} />
        <OperatorView one={one} city={city} who="recommender" />
        {city.plan.operators === 2 && <OperatorView one={one} city={city} who="helper" />}
      </div>
    </section>
  );
}

function OwnView({ one, city }: { one: Watched; city: City }): VNode {
  const { holds, epsilon, recommended } = one;
  const name = (place: number) => city.plan.names[place] ?? `place ${place}`;
  const visits = [...holds.visits].sort((a, b) => b[1] - a[1]);
  return (
    <DeviceCard holds={{ ...holds, visits: visits.map(([place]) => name(place)) }} records={visits.reduce((sum, [, times]) => sum + times, 0)}>
      <dl><Line label="privacy spent" value={`ε = ${epsilon.toFixed(3)} of ${city.plan.epsilon}`} /></dl>
      <Meter label="privacy spent" value={epsilon} most={city.plan.epsilon} />
      {recommended !== undefined && (
        <>
          <h4>It recommends, offline</h4>
          <ol>{recommended.places.map(([place, chance, why]) => <li key={place}>{name(place)} <span class="quiet">{Math.round(100 * chance)} %, {why}</span></li>)}</ol>
        </>
      )}
    </DeviceCard>
  );
}

function OperatorView({ one, city, who }: { one: Watched; city: City; who: "recommender" | "helper" }): VNode {
  const leader = who === "recommender";
  const last = one.sent.at(-1);
  if (last === undefined) {
    return (
      <div class="card">
        <h3>At the {who}</h3>
        <p class="quiet small">{city.plan.operators === 2 ? "A name that nobody has chosen; it has not reported yet." : "A name that nobody has chosen, and masked vectors: with one operator its budget rests on honest devices."}</p>
      </div>
    );
  }
  const seen = leader
    ? { name: last.name, came: `at ${clock(last.at)}, ${last.bytes.toLocaleString("en")} bytes`, begins: last.leader_begins, box: last.leader_box }
    : { name: last.name, came: "in a batch with others: in which order, not when", begins: last.helper_begins, box: last.helper_box };
  return (
    <OperatorCard who={who} seen={seen}>
      <Table
        head={["report for", ...(leader ? ["at"] : []), "bytes"]}
        rows={one.sent.map((sent) => [SUMS_OF[sent.kind] ?? sent.kind, ...(leader ? [clock(sent.at), sent.bytes] : [sent.helper_box])])}
      />
    </OperatorCard>
  );
}

const SUMS_OF: Readonly<Record<string, string>> = { popularity: "visits", moments: "moments", interaction: "gradients of B", quality: "quality figures" };

function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
