/** What the auditor's page shows. */

import type { VNode } from "preact";
import { useMemo } from "preact/hooks";

import { capital, moment } from "../../ui/words.ts";
import type { Questions } from "./attack.ts";
import { AttackView } from "./attack_view.tsx";
import { type AuditedEntry, type Deployment, worst } from "./audit.ts";
import { aboutField, CheckLine, Learns, MARKS, MESSAGES, named, WORDS } from "./checks.tsx";
import type { Replay } from "./round.ts";
import { RoundView } from "./round_view.tsx";

export interface State {
  deployment?: Deployment;
  entries: readonly AuditedEntry[];
  /** How many entries there are. */
  all: number;
  problemsOnly: boolean;
  /** Fingerprints that whoever looks has from elsewhere. */
  expected: { recommender: string; helper: string };
  problem?: string;
  /** A recorded round, and questions about made-up people: once they are read, or what is wrong with them. */
  replay?: Replay | string;
  questions?: Questions | string;
}

const PARTS = [
  ["log", "The log"], ["who-learns-what", "Who learns what"], ["round", "A round, message by message"], ["device", "One device"], ["attack", "An attack to try"],
] as const;

export function AuditView({ state, toggle, expect }: {
  state: State;
  toggle(): void;
  expect(who: "recommender" | "helper", text: string): void;
}): VNode {
  const { deployment, entries, all, problem } = state;
  const wrong = entries.filter(({ checks }) => worst(checks) === "bad");
  const shown = state.problemsOnly ? wrong : entries;
  return (
    <>
      <header>
        <h1>What this recommender has published</h1>
        <p class="quiet">
          {deployment === undefined ? "Reading …" : `“${deployment.title}”: everything that anybody was ever told by it, read and verified in this browser.`}
        </p>
        <nav class="small" aria-label="On this page">
          {PARTS.map(([id, title]) => <a key={id} href={`#${id}`}>{title}</a>)}
        </nav>
      </header>
      <main>
        {problem !== undefined && <p class="verdict bad" role="alert">{problem}</p>}
        {deployment !== undefined && (
          <>
            <Verdict deployment={deployment} entries={entries} all={all} wrong={wrong.length} expected={state.expected} />
            <section class="keys" aria-label="Operators">
              <Key who="recommender" fingerprint={deployment.recommender} expected={state.expected.recommender} expect={expect} />
              {deployment.helper !== undefined && <Key who="helper" fingerprint={deployment.helper} expected={state.expected.helper} expect={expect} />}
            </section>
            <p class="notice small">
              The recommender that is audited serves this page, and could serve another one: before you rely on it, compare its files with those that a
              package of PriRec contains. Compare the fingerprints with those that you have from each operator.
            </p>
            <section aria-label="The log" id="log">
              <div class="head">
                <h2>The log</h2>
                <label class="small"><input type="checkbox" checked={state.problemsOnly} onChange={toggle} /> only what does not hold</label>
              </div>
              {state.problemsOnly && shown.length === 0 && <p class="card quiet">Everything that was looked at holds.</p>}
              <ol class="log">{shown.map((entry) => <Entry key={entry.index} entry={entry} />)}</ol>
            </section>
            {useMemo(() => <Learnt two={deployment.helper !== undefined} />, [deployment.helper])}
          </>
        )}
        {useMemo(() => <Shown of={state.replay} show={(replay) => <RoundView replay={replay} />} />, [state.replay])}
        {useMemo(() => <Shown of={state.questions} show={(file) => <AttackView file={file} />} />, [state.questions])}
      </main>
    </>
  );
}

/** A part of the page that has a file of its own. */
function Shown<T extends object>({ of, show }: { of: T | string | undefined; show(file: T): VNode }): VNode | null {
  return of === undefined ? null : typeof of === "string" ? <p class="verdict bad" role="alert">{of}</p> : show(of);
}

function Verdict({ deployment, entries, all, wrong, expected }: {
  deployment: Deployment;
  entries: readonly AuditedEntry[];
  all: number;
  wrong: number;
  expected: State["expected"];
}): VNode {
  const others = (["recommender", "helper"] as const).filter((who) => isOther(expected[who], deployment[who] ?? ""));
  const checks = deployment.checks.filter(({ outcome }) => outcome !== "good");
  const outcome = wrong > 0 || others.length > 0 ? "bad" : entries.length < all ? "unknown" : worst(checks);
  const sentences = [
    entries.length < all && `${entries.length.toLocaleString("en")} of ${all.toLocaleString("en")} entries looked at …`,
    wrong > 0 ? (all === 1 ? "Its one entry does not hold." : `${wrong.toLocaleString("en")} of ${entries.length.toLocaleString("en")} entries ${wrong === 1 ? "does" : "do"} not hold.`) : entries.length === all && (all === 1 ? "Its one entry holds." : `All ${all.toLocaleString("en")} entries hold.`),
    ...others.map((who) => `The ${who}’s fingerprint is not the one that you have.`),
    ...checks.map(({ what, why }) => `${capital(what)}: ${why}.`),
    deployment.signed !== undefined && `The helper has signed ${deployment.signed.length.toLocaleString("en")} entries, at ${moment(deployment.signed.time)}.`,
  ];
  return <p class={`verdict ${outcome}`} role="status">{sentences.filter((one) => one !== false).join(" ")}</p>;
}

function Key({ who, fingerprint, expected, expect }: { who: "recommender" | "helper"; fingerprint: string; expected: string; expect(who: "recommender" | "helper", text: string): void }): VNode {
  const other = isOther(expected, fingerprint);
  return (
    <div class="card">
      <h3>The {who}’s key</h3>
      <code>{fingerprint.match(/.{1,8}/g)!.join(" ")}</code>
      <label class="small quiet">
        the fingerprint that you have
        <input type="text" spellcheck={false} autocomplete="off" value={expected} aria-invalid={other} onInput={({ currentTarget }) => expect(who, currentTarget.value)} />
      </label>
      {expected !== "" && <p class={`small ${other ? "bad" : "good"}`}>{other ? "It is another key." : "It is this key."}</p>}
    </div>
  );
}

/** At least 16 digits are compared, as a device does. */
function isOther(expected: string, fingerprint: string): boolean {
  const digits = expected.toLowerCase().replace(/\s/g, "");
  return digits !== "" && (digits.length < 16 || !fingerprint.startsWith(digits));
}

function Entry({ entry }: { entry: AuditedEntry }): VNode {
  const outcome = worst(entry.checks);
  return (
    <li class={`card entry ${outcome}`}>
      <details open={outcome === "bad"}>
        <summary>
          <span class="mark" title={WORDS[outcome]}>{MARKS[outcome]}<span class="unseen"> {WORDS[outcome]}</span></span>
          <span class="number">{entry.index}</span>
          <b>{entry.subject}</b>
          <span class="about">{entry.about}</span>
        </summary>
        <ul class="checks">{entry.checks.map((one, at) => <CheckLine key={at} check={one} />)}</ul>
        <p class="small quiet"><code>{entry.document}</code>, {entry.bytes.toLocaleString("en")} bytes</p>
      </details>
    </li>
  );
}

/** Who learns what from each message of a sum. */
function Learnt({ two }: { two: boolean }): VNode {
  const protocol = two ? "two operators" : "double masks";
  const messages = MESSAGES.filter((one) => one.in.includes(protocol));
  return (
    <section aria-label="Who learns what" id="who-learns-what">
      <div class="head"><h2>Who learns what from a sum</h2></div>
      <p class="quiet">
        The log holds what follows from sums. The messages of a sum ({protocol}) are not published; this is what each of them tells, and to whom.
      </p>
      <div class="messages">
        {messages.map((one) => (
          <article class="card" key={one.name}>
            <h3>{one.name}</h3>
            <p class="small quiet">{one.ways.map((way) => named(way.join(" → "))).join(", ")}</p>
            <Learns message={one} />
            <details>
              <summary class="small">Fields</summary>
              <dl class="small">{Object.keys(one.fields).map((field) => <div key={field}><dt><code>{field}</code></dt><dd>{aboutField(one, field)}</dd></div>)}</dl>
            </details>
          </article>
        ))}
      </div>
    </section>
  );
}
