/** Checks, and what a message tells to whom, as the auditor's page shows them. */

import type { VNode } from "preact";

import learnt from "../../../src/prirec/device/who_learns_what.json" with { type: "json" };
import type { Check, Outcome } from "./audit.ts";

export const MARKS: Record<Outcome, string> = { good: "✓", bad: "✗", unknown: "–" };
export const WORDS: Record<Outcome, string> = { good: "holds", bad: "does not hold", unknown: "not known" };

export function CheckLine({ check: { what, outcome, why } }: { check: Check }): VNode {
  return (
    <li class={outcome}>
      <span class="mark">{MARKS[outcome]}<span class="unseen"> {WORDS[outcome]}</span></span> {what}{why !== undefined && <>: {why}</>}
    </li>
  );
}

export const MESSAGES = learnt.messages;
export type Message = (typeof MESSAGES)[number];

/** In a sum the recommender is the leader; this page calls it by one name. */
export function named(words: string): string {
  return words.replace(/\bleader\b/g, "recommender");
}

/** Who learns what from a message. */
export function Learns({ message }: { message: Message }): VNode {
  return (
    <dl class="learns">
      <div><dt>the receiver learns</dt><dd>{named(message.to_receiver)}</dd></div>
      <div><dt>whoever listens</dt><dd>{named(message.to_relay)}</dd></div>
      <div class="hidden"><dt>stays hidden</dt><dd>{named(message.hidden)}</dd></div>
    </dl>
  );
}

/** What a field of a message is, in words. */
export function aboutField(message: Message, field: string): string {
  return named((message.fields as Readonly<Record<string, string>>)[field] ?? "");
}
