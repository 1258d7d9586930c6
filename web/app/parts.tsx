/** What the views share: cards, a question before something that cannot be undone, messages. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { Values } from "../src/encoding.ts";
import type { Phone } from "./phone.ts";
import { spoken, texts } from "./texts.ts";

export function Card({ title, children, kind = "" }: { title: string; children: ComponentChildren; kind?: string }): VNode {
  return (
    <section class={`card ${kind}`}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A place's name: somebody's words, in whatever direction they run. */
export function Name({ children }: { children: string }): VNode {
  return <bdi class="name">{children}</bdi>;
}

export function Question({ title, words, yes, answer }: { title: string; words: string; yes: string; answer(sure: boolean): void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="question" onCancel={() => answer(false)}>
      <h2 id="question">{title}</h2>
      <p>{words}</p>
      <p class="buttons">
        <button type="button" onClick={() => answer(false)}>{texts.cancel}</button>
        <button type="button" class="danger" onClick={() => answer(true)}>{yes}</button>
      </p>
    </dialog>
  );
}

/** Numbers of a visit that places get an average of. Each is optional; an empty one is null. */
export function Amounts({ phone, place, has, tell }: { phone: Phone; place: string; has: Values; tell(column: string, value: number | null): void }): VNode {
  return (
    <div class="amounts">
      {phone.held!.status.amounts.map(({ column, low, high }) => (
        <label key={column}>
          <bdi>{called(column)}</bdi><span class="unseen">: {phone.about(place)}</span>
          <input
            type="number" step="any" min={low} max={high} defaultValue={String(has[column] ?? "")} placeholder={texts.phone.notTold}
            onChange={({ currentTarget: { value } }) => tell(column, value === "" ? null : Number(value))}
          />
          <span class="hint">{texts.phone.range(low!, high!)}</span>
        </label>
      ))}
      <p class="small quiet">{texts.phone.amountsWords}</p>
    </div>
  );
}

/** A column's name, as it is shown. */
export function called(column: string): string {
  return column.replaceAll("_", " ");
}

const READ = 15_000; // milliseconds that what was done stays on the screen

/** Why something was not done, in plain words first. */
export function Problem({ phone }: { phone: Phone }): VNode | null {
  const { problem } = phone;
  if (problem === null) return null;
  const plain = problem.fault === null ? null : texts.faults[problem.fault];
  const url = phone.held?.status.membership?.url ?? phone.hosted?.url;
  return (
    <div class="problem" role="alert">
      <div>
        {plain !== null ? (
          <>
            <p><b>{plain}</b> {texts.refused}</p>
            <p class="small">{texts.details}: {sentence(spoken(problem.said))}</p>
          </>
        ) : problem.name === "UnavailableError" ? (
          <>
            <p><b>{texts.unreachable.words}</b></p>
            {url !== undefined && (
              <p class="small">
                {texts.unreachable.certificate} <a href={`${url}/audit/`} target="_blank" rel="noreferrer">{texts.unreachable.open}</a>
              </p>
            )}
          </>
        ) : <p><b>{sentence(spoken(problem.said))}</b></p>}
      </div>
      <button type="button" class="quiet" onClick={() => phone.dismiss("problem")}>{texts.dismiss}</button>
    </div>
  );
}

/** What was done, said aloud by screen readers, and how it is undone. */
export function Done({ phone }: { phone: Phone }): VNode {
  const { done } = phone;
  useEffect(() => {
    if (done === null) return;
    const over = setTimeout(() => phone.dismiss("done"), READ);
    return () => clearTimeout(over);
  }, [done]);
  return (
    <div class="done" role="status" data-shown={done !== null}>
      {done !== null && (
        <>
          <bdi>{done.words}</bdi>
          {done.undo !== null && <button type="button" onClick={() => void phone.act(done.undo!)}>{texts.undo}</button>}
          <button type="button" class="close" aria-label={texts.dismiss} onClick={() => phone.dismiss("done")}>×</button>
        </>
      )}
    </div>
  );
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}
