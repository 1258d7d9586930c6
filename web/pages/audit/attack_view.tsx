/** The attack to try by hand: what an operator sees of one person, a guess, and the scores of both attackers. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";

import { Bars, Table } from "../../ui/charts.tsx";
import { spaced } from "../../ui/words.ts";
import { bestGuess, type Mode, MODES, NO_TRY, type Question, type Questions, rateOf, type Score, shuffled, tried } from "./attack.ts";

const TITLES: Record<Mode, string> = {
  paper: "The paper’s mode",
  "made up": "Double masks, all other names made up",
  planned: "Double masks, as planned",
  "two operators": "Two operators",
};

export function AttackView({ file }: { file: Questions }): VNode {
  const order = useMemo(() => shuffled(file.questions.length), [file]);
  const [mode, setMode] = useState<Mode>("paper");
  const [scores, setScores] = useState<Readonly<Record<Mode, Score>>>({ paper: NO_TRY, "made up": NO_TRY, planned: NO_TRY, "two operators": NO_TRY });
  const [guess, setGuess] = useState<0 | 1 | undefined>();
  const tries = scores[mode].tries;
  const question = file.questions[order[(guess === undefined ? tries : tries - 1) % order.length]!]!;
  const choose = (next: Mode) => { setMode(next); setGuess(undefined); };
  const take = (side: 0 | 1) => {
    setScores({ ...scores, [mode]: tried(scores[mode], question, mode, side) });
    setGuess(side);
  };
  return (
    <section aria-label="An attack to try" class="attack" id="attack">
      <div class="head"><h2>Try it: which of two places did this person visit?</h2></div>
      <p class="quiet">
        You are the operator, or whoever has its data. You know all other people’s records, everything that is public, and whatever you drew yourself.
        The people are made up; what you see of them was computed by PriRec itself.
      </p>
      <div class="choice" role="group" aria-label="Which sums">
        {MODES.map((one) => <button key={one} type="button" aria-pressed={one === mode} onClick={() => choose(one)}>{TITLES[one]}</button>)}
      </div>
      <div class="card question">
        <p>{about(mode, file)}</p>
        {mode === "paper" ? <Gradient question={question} file={file} /> : <LeftInSum question={question} mode={mode} file={file} />}
        <div class="guesses" role="group" aria-label="Your guess">
          {([0, 1] as const).map((side) => (
            <button key={side} type="button" disabled={guess !== undefined} aria-pressed={guess === side} onClick={() => take(side)}>
              <b>{file.places[question.two[side]]!.name}</b> {file.places[question.two[side]]!.words.join(", ")}
            </button>
          ))}
        </div>
        <div class="controls answer" role="status">
          {guess === undefined ? <span class="quiet">Which one?</span> : (
            <>
              <span class={guess === question.visited ? "good" : "bad"}>
                {guess === question.visited ? "Right" : "Wrong"}: it was {file.places[question.two[question.visited]]!.name}. The best guess was {bestGuess(question, mode) === question.visited ? "right" : "wrong"}.
              </span>
              <button type="button" onClick={() => setGuess(undefined)}>Next person</button>
            </>
          )}
        </div>
      </div>
      <div class="card">
        <h3>Scores</h3>
        <p class="small quiet">
          Beside you, about the same people, guesses a program that knows the law of the noise: in the paper’s mode it reads the whole sample off the
          gradient, elsewhere the place with the larger number is the likelier one. Then how often it is right about all people of this file, and how
          often it should be by that law. Knowing nothing, one is right half of the time.
        </p>
        <Table
          head={["what is attacked", "you", "program", `of all ${file.questions.length}`, "expected"]}
          rows={MODES.map((one) => [
            TITLES[one], rightOf(scores[one].you, scores[one].tries), rightOf(scores[one].attacker, scores[one].tries),
            percent(rateOf(file.questions, one)), one === "paper" ? "100 %" : percent(file.expected[one]),
          ])}
        />
      </div>
    </section>
  );
}

function about(mode: Mode, file: Questions): string {
  const noise = mode === "paper" ? 0 : file.noise[mode];
  const left = `What hides the person is noise with a standard deviation of ${noise.toPrecision(2)} at each place; one visit is 1 divided by the root of how many places the person has visited.`;
  switch (mode) {
    case "paper":
      return "Algorithm 2 as printed: after each sample the recommender gets a gradient of V, Eq. (4), aggregated over a batch of one. A row of it is 0 where the sample lacks that feature.";
    case "made up":
      return `One operator, and a sum over ${file.roster.toLocaleString("en")} names of which you made up ${(file.roster - 1).toLocaleString("en")}. You take their vectors and their noise off the sum again: what is left is this person’s vector and the person’s own share of the noise. ${left}`;
    case "planned":
      return `One operator, and a sum over ${file.roster.toLocaleString("en")} names of which you made up ${file.made_up}, as many as a plan allows for. You happen to know the vectors of all others too, but not their noise. ${left}`;
    case "two operators":
      return `You are the recommender, you made up every other name, and the helper does not work with you. You have your share of the person’s report, and the opened sum without the noise that you added; the helper’s noise is still in it. ${left}`;
  }
}

/** The rows of a gradient that are features of a place, beside which of the two places has them. */
function Gradient({ question, file }: { question: Question; file: Questions }): VNode {
  const rows = new Map(question.paper.rows);
  const two = question.two.map((place) => file.places[place]!);
  const ofPlaces = new Set(file.places.flatMap(({ features }) => features));
  const shown = [...ofPlaces].filter((feature) => rows.has(feature) || two.some(({ features }) => features.includes(feature))).sort((a, b) => a - b);
  const others = [...rows.keys()].filter((feature) => !ofPlaces.has(feature)).map((feature) => spaced(file.features[feature]!));
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Rows of the gradient">
        <table class="gradient">
          <thead><tr><th scope="col">row of the gradient</th><th scope="col">its length</th>{two.map(({ name }) => <th key={name} scope="col">{name} has it</th>)}</tr></thead>
          <tbody>
            {shown.map((feature) => {
              const length = rows.get(feature) ?? 0;
              return (
                <tr key={feature}>
                  <th scope="row">{spaced(file.features[feature]!)}</th>
                  <td><span class="length" style={{ width: `${6 * length}rem` }} /> {length === 0 ? "0" : length.toFixed(2)}</td>
                  {two.map(({ name, features }) => <td key={name}>{features.includes(feature) ? "yes" : "–"}</td>)}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="small quiet">Rows that are not 0 beside these: {others.join(", ")}. With V, which is public, the value of each can be computed.</p>
    </>
  );
}

function LeftInSum({ question, mode, file }: { question: Question; mode: Exclude<Mode, "paper">; file: Questions }): VNode {
  const two = question.two.map((place) => file.places[place]!.name);
  return (
    <>
      <Bars
        bars={two.map((name, side) => ({ name, value: question[mode][side]! }))} off={file.noise[mode]}
        label={`What is left of the sum at ${two.join(" and ")}`} value="left of the sum"
      />
      <Table head={["you see", ...two]} rows={[
        ["left of the sum", ...question[mode].map(String)],
        ...(mode === "two operators" ? [["your share of the report", ...question.share.map((one) => BigInt(one).toString(16).padStart(16, "0"))]] : []),
      ]} />
    </>
  );
}

function rightOf(right: number, tries: number): string {
  return tries === 0 ? "–" : `${right} of ${tries}`;
}

function percent(part: number): string {
  return `${Math.round(100 * part)} %`;
}
