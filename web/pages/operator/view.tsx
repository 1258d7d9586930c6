/** What the operator's page shows. */

import type { ComponentChildren, VNode } from "preact";

import { Bars, Figure, Lines, Meter, shown, Table, Waiting } from "../../ui/charts.tsx";
import { bytes, capital, count, moment } from "../../ui/words.ts";
import type { Campaign, Log, ModelNoise, OpenWindow, Overview, People, Quality, Refused, Sum, VisitsNoise } from "./overview.ts";

export interface State {
  doing: "asking" | "login" | "showing";
  shown?: Overview;
  problem?: string;
}

const DAY = 86_400;
const SUMS: Readonly<Record<string, string>> = { visits: "visits", moments: "moments", learning: "gradients of B", quality: "quality figures" };

export function OperatorView({ state, logIn, logOut }: { state: State; logIn(token: string): void; logOut(): void }): VNode {
  const { doing, shown: of, problem } = state;
  if (doing === "login") return <LoginForm problem={problem} logIn={logIn} />;
  if (of === undefined) return <p class={problem === undefined ? "quiet loading" : "verdict bad"} role="status">{problem ?? "Asking the service …"}</p>;
  return (
    <>
      <header>
        <div>
          <h1>{of.title}</h1>
          <p class="quiet">{of.role === "helper" ? "The helper, second operator of a deployment" : "The recommender"}, as of {clock(of.time)}</p>
        </div>
        <button type="button" onClick={logOut}>Log out</button>
      </header>
      {problem !== undefined && <p class="verdict bad" role="alert">{problem} What follows is as of {clock(of.time)}.</p>}
      <Verdict of={of} />
      <main>
        <Now of={of} />
        <PeopleCard of={of.people} />
        <SumsFigure of={of.campaign} />
        <ListedFigure of={of.people} />
        <VisitsFigure of={of.visits} />
        <ModelFigure of={of.model} />
        <QualityCard of={of.quality} />
        {of.visits !== null && of.visits.averages.length > 0 && <AveragesCard of={of.visits.averages} />}
        <RefusedCard settled={of.settled} posted={of.posted} role={of.role} />
        <StoreCard of={of} />
        <LogCard of={of.log} />
      </main>
      <footer class="quiet small">
        <p>Deployment <code>{of.deployment}</code>, key of this {of.role} <code>{of.fingerprint}</code>.</p>
        <p>
          Everything here is public, or a count that its operator has. There is no map of people: devices tell where they are to nobody. Reports are
          sealed and masked, so what is in one is not here either.
        </p>
      </footer>
    </>
  );
}

function LoginForm({ problem, logIn }: { problem: string | undefined; logIn(token: string): void }): VNode {
  return (
    <form
      class="card login"
      onSubmit={(event) => {
        event.preventDefault();
        logIn(new FormData(event.currentTarget).get("token") as string);
      }}
    >
      <h1>Operator’s page</h1>
      <label>
        Login token
        <input type="password" name="token" autocomplete="current-password" required aria-invalid={problem !== undefined} aria-describedby="help" />
      </label>
      {problem !== undefined && <p class="bad" role="alert">{problem}</p>}
      <button type="submit">Log in</button>
      <p class="quiet small" id="help">
        <code>init</code> has printed it. Another one: <code>prirec recommender token STORE</code>, or <code>prirec helper token STORE</code>.
      </p>
    </form>
  );
}

function Verdict({ of }: { of: Overview }): VNode {
  const worst = of.signs.some(({ level }) => level === "bad") ? "bad" : of.signs.length > 0 ? "unknown" : "good";
  return (
    <section class={`verdict ${worst}`} role="status" aria-label="Verdict">
      <p>{capital(of.verdict)}.{of.signs.length === 0 && " Nothing needs a look."}</p>
      {of.signs.length > 0 && (
        <ul>{of.signs.map(({ level, text }) => <li key={text} class={level}><b>{level === "bad" ? "Act" : "Look"}:</b> {text}</li>)}</ul>
      )}
    </section>
  );
}

function Now({ of: { campaign, time, role } }: { of: Overview }): VNode {
  if (campaign === null) return <Card title="Campaign"><p class="quiet">None has begun yet.</p></Card>;
  return (
    <Card title={`Campaign ${campaign.number}`}>
      <p><b>{capital(campaign.state)}</b></p>
      <Meter label="rounds finished" value={campaign.round} most={campaign.rounds} />
      <p class="small">{campaign.round.toLocaleString("en")} of {count(campaign.rounds, "round")} finished; {count(campaign.places, "place")}; no sum of fewer than {count(campaign.floor, "person")} is opened</p>
      {campaign.window !== null && <Window window={campaign.window} floor={campaign.floor} time={time} />}
      {role === "recommender" && campaign.window === null && campaign.phase !== "over" && campaign.phase !== "failed" && <p class="small quiet">No window is open.</p>}
    </Card>
  );
}

function Window({ window, floor, time }: { window: OpenWindow; floor: number; time: number }): VNode {
  const left = window.closes - time;
  return (
    <>
      <h4>Window for the sum of {SUMS[window.kind] ?? window.kind}</h4>
      {window.reports !== null && (
        <>
          <Meter label="reports" value={window.reports} most={window.people} floor={floor} />
          <p class="small"><b>{window.reports.toLocaleString("en")}</b> of {count(window.people, "person has", "people have")} reported</p>
        </>
      )}
      <Meter label="time of the window" value={Math.min(time, window.closes) - window.opens} most={window.closes - window.opens} />
      <p class="small quiet">
        {left > 0 ? `It closes in ${span(left)}, at ${moment(window.closes)}` : "It is over: both operators check the reports and open their sum"}
        {window.extended > 0 && `; extended ${count(window.extended, "time")}`}.
      </p>
    </>
  );
}

function PeopleCard({ of }: { of: People }): VNode {
  const rows: [string, string | number][] = [];
  if (of.listed !== null) rows.push(["on the list in the log", of.listed]);
  if (of.enrolled !== null) rows.push(["enrolled", of.enrolled], ["excluded", of.excluded], ["broke the protocol", of.blamed]);
  const days = of.days.slice(-14);
  return (
    <Card title="People">
      <Facts rows={rows} />
      {days.length > 0 && (
        <details>
          <summary class="small">Enrolled by day</summary>
          <Table head={["day", "of those enrolled now"]} rows={days.map(([day, many]) => [moment(day * DAY).slice(0, 10), many])} />
        </details>
      )}
      <p class="quiet small">
        {of.enrolled === null ? "Devices do not talk to a helper: it knows the list that both operators keep. " : ""}Counts by area do not exist: devices tell no operator where they are.
      </p>
    </Card>
  );
}

function SumsFigure({ of }: { of: Campaign | null }): VNode {
  const title = "Sums";
  if (of === null || of.sums.length === 0) return <Waiting title={title} until="the first sum is over" />;
  return (
    <Figure
      title={title}
      note="How many came to each sum of the campaign, and how many are in it. Below the floor nothing is opened."
      head={["sum of", "opened", "came", "in it", "why not"]}
      rows={of.sums.map((one) => [named(one), one.opened ? "yes" : "no", one.rostered, one.survivors, one.problem])}
    >
      <Lines
        series={[
          { name: "came", values: of.sums.map((one) => one.rostered), look: "third" },
          { name: "in the sum", values: of.sums.map((one) => one.survivors), look: "first" },
          { name: "floor", values: of.sums.map(() => of.floor), look: "limit" },
        ]}
        of="sum"
        label="People in each sum of the campaign"
      />
    </Figure>
  );
}

function ListedFigure({ of: { points } }: { of: People }): VNode {
  const title = "People over time";
  if (points.length === 0) return <Waiting title={title} until="the first window opens" />;
  return (
    <Figure
      title={title}
      note="Who might report when each window opened, or with one operator each campaign began; and who joined and left since the one before."
      head={["window", "when", "people", "joined", "left"]}
      rows={points.map((one) => [one.label, one.time === 0 ? "" : moment(one.time), one.people, one.joined ?? "", one.left ?? ""])}
    >
      <Lines series={[{ name: "people on the list", values: points.map((one) => one.people), look: "first" }]} of={points[0]!.time === 0 ? "campaign" : "window"} label="People on the list, by window" />
    </Figure>
  );
}

function VisitsFigure({ of }: { of: VisitsNoise | null }): VNode {
  const title = "The sum of visits: noise against signal";
  if (of === null) return <Waiting title={title} until="the sum of visits is open" />;
  return (
    <Figure
      title={title}
      note={`Each place’s number has noise with a standard deviation of ${shown(of.noise)} in it; a person adds a vector of length 1. ${of.above.toLocaleString("en")} of ${count(of.places, "place")} ${of.above === 1 ? "is" : "are"} more than two of these above 0; by noise alone it would be about ${Math.round(0.0228 * of.places).toLocaleString("en")}.`}
      head={["place", "opened", "published"]}
      rows={of.largest}
    >
      <Bars bars={of.largest.map(([name, value]) => ({ name, value }))} off={of.noise} label="The largest numbers of the opened sum, with the noise in each" value="opened" />
    </Figure>
  );
}

function ModelFigure({ of }: { of: ModelNoise | null }): VNode {
  const title = "B, the shared model: noise against signal";
  if (of === null) return <Waiting title={title} until="the first round is over" />;
  const sizes = [["measured", of.measured], ["noise in it", of.noise], ["published", of.published]] as const;
  return (
    <Figure
      title={title}
      note={`An entry of B after ${count(of.rounds, "round")}, as root mean squares. Rounds are averaged, so the noise becomes less; what does not rise above it is shrunk before it is published.`}
      head={["B", "size of an entry"]}
      rows={[...sizes, ...of.by_round.map(([round, size]) => [`published after ${count(round, "round")}`, size] as const)]}
    >
      <Bars bars={sizes.map(([name, value]) => ({ name, value }))} label="Size of an entry of B, of the noise in it, and of what is published" value="size of an entry" />
    </Figure>
  );
}

function QualityCard({ of }: { of: Quality | null }): VNode {
  if (of === null) return <Waiting title="How well it recommends" until="a sum of quality figures is open; it is taken where the budget has a part for it" />;
  return (
    <Card title="How well it recommends">
      <Facts rows={of.figures.map(({ name, value, error }) => [name, value === null ? "drowned by noise" : `${value.toFixed(3)} ± ${error.toFixed(3)}`])} />
      <p class="quiet small">The published model, on records that devices held out: read from one noisy sum over {count(of.reports, "report")}, with twice the standard error.</p>
    </Card>
  );
}

function AveragesCard({ of }: { of: VisitsNoise["averages"] }): VNode {
  return (
    <Card title="Averages over visits">
      <Facts
        rows={of.map(({ name, value, error, at_a_place }) => [
          name, `${shown(value)} ± ${shown(error)} in the city; ${at_a_place === null ? "noise drowns how places differ" : `of a place ± ${shown(at_a_place)} at best`}`,
        ])}
      />
      <p class="quiet small">From the sum of visits, with twice the standard error that its noise leaves.</p>
    </Card>
  );
}

function RefusedCard({ settled, posted, role }: { settled: readonly Refused[]; posted: readonly Refused[]; role: Overview["role"] }): VNode {
  return (
    <Card title="Refused reports">
      <RefusedTable caption="Checked by both operators, in no sum of this campaign" of={settled} none="No report of this campaign was found wrong." />
      {role === "recommender" && <RefusedTable caption="When they were posted, since the service started" of={posted} none="None was refused at the door." />}
    </Card>
  );
}

function RefusedTable({ caption, of, none }: { caption: string; of: readonly Refused[]; none: string }): VNode {
  return (
    <>
      <h4>{caption}</h4>
      {of.length === 0 ? <p class="quiet small">{none}</p> : <Table head={["what", "why", "how many"]} rows={of.map((one) => [one.what, one.reason, one.many])} />}
    </>
  );
}

function StoreCard({ of }: { of: Overview }): VNode {
  const { disk, log } = of;
  const rows: [string, string][] = Object.entries(of.certificates).map(([name, until]) => [`certificate of the ${name}`, `until ${moment(until).slice(0, 10)}, ${count(Math.floor((until - of.time) / DAY), "day")}`]);
  if (log.signed !== null) rows.push([of.role === "helper" ? "signed last" : "helper’s signature", log.signed_at === null ? "none yet" : `${moment(log.signed_at)}, ${span(Math.max(0, of.time - log.signed_at))} ago`]);
  if (of.box_key !== null) rows.push(["box key of the campaign", of.box_key ? "there; erased when it is over" : "missing, as after a restore"]);
  rows.push(["database", `${disk.database}, ${bytes(disk.bytes)}`]);
  if (disk.free !== null && disk.total !== null) rows.push(["free on its disk", `${bytes(disk.free)} of ${bytes(disk.total)}`]);
  rows.push(["PriRec", of.version]);
  return <Card title="Certificates, keys, store"><Facts rows={rows} /></Card>;
}

function LogCard({ of }: { of: Log }): VNode {
  const words = of.signed === null ? count(of.entries, "entry", "entries") : `${count(of.entries, "entry", "entries")}, ${of.signed.toLocaleString("en")} of them signed by the helper`;
  const head = ["entry", "what", "document", ...(of.signed === null ? [] : ["signed"])];
  const rows = of.newest.map((one) => [one.index, one.subject, `${one.document.slice(0, 8)}…`, ...(one.signed === null ? [] : [one.signed ? "yes" : "not yet"])]);
  return (
    <section class="card wide">
      <h2>The log</h2>
      <p class="quiet small">{words}. Devices and auditors read all of it; the auditor’s page (<code>/audit</code>, on the port for devices) verifies it.</p>
      {rows.length > 0 && <div class="newest" tabIndex={0} role="region" aria-label="Newest entries of the log"><Table head={head} rows={rows} /></div>}
    </section>
  );
}

function Card({ title, children }: { title: string; children: ComponentChildren }): VNode {
  return <section class="card"><h2>{title}</h2>{children}</section>;
}

function Facts({ rows }: { rows: readonly (readonly [string, string | number])[] }): VNode {
  return <dl>{rows.map(([what, value]) => <div key={what}><dt>{what}</dt><dd>{shown(value)}</dd></div>)}</dl>;
}

function named({ kind, round }: Sum): string {
  return kind === "learning" ? `${SUMS[kind]}, ${round}` : (SUMS[kind] ?? kind);
}

function clock(time: number): string {
  return `${new Date(1000 * time).toISOString().slice(11, 19)} UTC`;
}

function span(seconds: number): string {
  if (seconds < 120) return count(Math.round(seconds), "second");
  if (seconds < 2 * 3600) return count(Math.round(seconds / 60), "minute");
  return seconds < 2 * DAY ? count(Math.round(seconds / 3600), "hour") : count(Math.round(seconds / DAY), "day");
}
