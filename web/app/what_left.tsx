/** What left this phone: every report with what it could tell and cost, the budget, taking part, and both operators. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import type { Sent } from "../src/surface.ts";
import { bytes, clock, grouped, moment, percent, short, whole } from "./format.ts";
import { Card, Question } from "./parts.tsx";
import type { Phone } from "./phone.ts";
import { spoken, texts } from "./texts.ts";

const SHOWN = 20;
const words = texts.left;

export function WhatLeft({ phone }: { phone: Phone }): VNode {
  return (
    <>
      <header class="head">
        <div>
          <h1>{words.title}</h1>
          <p class="quiet">{words.intro}</p>
        </div>
      </header>
      <div class="cards">
        <Budget phone={phone} />
        {phone.member && <TakingPart phone={phone} />}
        {phone.member && <Operators phone={phone} />}
        <Everything phone={phone} />
      </div>
    </>
  );
}

function Budget({ phone }: { phone: Phone }): VNode {
  const { budget, spent, share, releases, lifetime, more, floor, restsOn } = phone.held!.statement.budget;
  const change = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void phone.act(async () => {
      await phone.device.setBudget({ ...budget, epsilon: Number(form.get("epsilon")) });
      await phone.device.setFloor(Number(form.get("floor")));
    }, { words: words.budgetDone, undo: null });
  };
  return (
    <Card title={words.budget}>
      <p class="quiet small">{words.budgetWords}</p>
      <div class="gauge" role="meter" aria-label={words.budget} aria-valuemin={0} aria-valuemax={1} aria-valuenow={share} aria-valuetext={words.gauge(percent(share))}>
        <svg viewBox="0 0 120 70" aria-hidden="true">
          <path class="track" d="M10 60 A50 50 0 0 1 110 60" pathLength="1" />
          <path class="used" d="M10 60 A50 50 0 0 1 110 60" pathLength="1" stroke-dasharray={`${share} 2`} />
          <text x="60" y="58">{percent(share)}</text>
        </svg>
      </div>
      <p class="centred"><b>{words.spent(short(spent), short(budget.epsilon))}</b></p>
      <p class="centred">{more === null || releases === 0 ? words.noReports : words.more(more)}</p>
      {releases > 0 && <p class="quiet small">{words.grows}</p>}
      <details>
        <summary>{words.restsOn}</summary>
        <ul class="bullets small">{restsOn.map((one) => <li key={one.kind}>{spoken(one)}</li>)}</ul>
        <p class="small">{words.lifetime(short(lifetime))}; δ = {budget.delta}</p>
      </details>
      <details>
        <summary>{words.change}</summary>
        <form onSubmit={change} key={`${budget.epsilon} ${floor}`}>
          <label>{words.epsilon} <input name="epsilon" type="number" step="any" min={0.01} required defaultValue={String(budget.epsilon)} /></label>
          <label>{words.floor} <input name="floor" type="number" step={1} min={0} required defaultValue={String(floor)} /></label>
          <button class="main">{texts.phone.save}</button>
        </form>
      </details>
    </Card>
  );
}

/** How taking part stands, in a sentence. */
export function verdictOf(phone: Phone): string {
  const { listed, windowCloses, reported, cosigned, membership } = phone.held!.status;
  const verdict = words.verdict;
  if (membership === null) return verdict.noMember;
  if (!phone.takesPart) return verdict.off;
  if (!phone.online) return verdict.offline;
  if (cosigned === null) return verdict.noSignature;
  if (!listed) return verdict.notListed;
  if (windowCloses === null) return verdict.waiting;
  return reported ? verdict.reported(clock(windowCloses)) : verdict.open(clock(windowCloses));
}

function TakingPart({ phone }: { phone: Phone }): VNode {
  const { zeros, zerosBecause } = phone.held!.status;
  return (
    <Card title={words.part}>
      <p class="quiet small">{words.partWords}</p>
      <label class="switch"><input type="checkbox" role="switch" checked={phone.takesPart} onChange={({ currentTarget }) => phone.takePart(currentTarget.checked)} /> {words.switch}</label>
      <p role="status">{verdictOf(phone)}</p>
      {zeros > 0 && <p class="small notice">{words.zeros(zeros, zerosBecause === null ? "" : spoken(zerosBecause))}</p>}
      {phone.news.length > 0 && (
        <details>
          <summary>{words.news}</summary>
          <ul class="bullets small">{phone.news.map(({ at, said }) => <li key={`${at}${said.words}`}><span class="quiet">{clock(at)}</span> {spoken(said)}</li>)}</ul>
        </details>
      )}
    </Card>
  );
}

function Operators({ phone }: { phone: Phone }): VNode {
  const [asking, setAsking] = useState(false);
  const { status } = phone.held!;
  const { recommenderKey, helperKey, rotated, name, url, allRegions } = status.membership!;
  const leave = (sure: boolean): void => {
    setAsking(false);
    if (!sure) return;
    phone.stop();
    void phone.act(() => phone.device.leave(), { words: words.leaveDone, undo: null });
  };
  return (
    <Card title={words.operators}>
      <p class="quiet small">{words.operatorsWords}</p>
      <dl>
        <div><dt>{words.recommender}</dt><dd><code>{grouped(recommenderKey)}</code></dd></div>
        <div><dt>{words.helper}</dt><dd><code>{grouped(helperKey)}</code></dd></div>
        <div><dt>{words.address}</dt><dd><code>{url}</code></dd></div>
        <div><dt>{words.name}</dt><dd><code>{grouped(name)}</code></dd></div>
      </dl>
      {rotated.length > 0 && (
        <ul class="bullets small">
          {rotated.map(({ operator, old, time }) => <li key={old}>{words.rotated(words[operator], moment(time))} <code>{grouped(old)}</code></li>)}
        </ul>
      )}
      <p class="small">{status.cosigned === null ? words.unsigned(whole(status.entries)) : words.signed(whole(status.entries), moment(status.cosigned))}</p>
      <p class="small quiet">{allRegions ? words.regions.all : words.regions.some}</p>
      <button type="button" class="danger" onClick={() => setAsking(true)}>{words.leave}</button>
      {asking && <Question title={words.leaveTitle} words={words.leaveSure} yes={words.leave} answer={leave} />}
    </Card>
  );
}

function Everything({ phone }: { phone: Phone }): VNode {
  const { sent } = phone.held!.statement;
  const [all, setAll] = useState(false);
  return (
    <Card title={words.list} kind="wide">
      {sent.length === 0 && <p class="quiet">{words.none}</p>}
      <ol class="sent">{(all ? sent : sent.slice(0, SHOWN)).map((one, at) => <SentLine key={sent.length - at} sent={one} />)}</ol>
      {!all && sent.length > SHOWN && <button type="button" onClick={() => setAll(true)}>{texts.phone.showAll(sent.length)}</button>}
    </Card>
  );
}

function SentLine({ sent: { at, what, to, bytes: many, said, report } }: { sent: Sent }): VNode {
  return (
    <li data-what={what}>
      <p><b>{words.what[what]}</b> <span class="quiet small">{moment(at)}, {words.to(to)}{many > 0 && `, ${bytes(many)}`}</span></p>
      <p class="small">{spoken(said)}</p>
      <p class="small">
        {report === null ? <span class="quiet">{words.free}</span> : (
          <>
            <span class="tag">{words.cost(short(report.epsilon))}</span> <span class="tag">{words.state[report.state]}</span>{" "}
            <span class="tag">{words.crowd(whole(report.floor), whole(report.people))}</span>
            {report.zeros !== null && <> <span class="tag">{words.zeroed(spoken(report.zeros))}</span></>}
          </>
        )}
      </p>
    </li>
  );
}
