/** The operator's page: logs in, and asks the service again and again while somebody looks. */

import "../../ui/trusted.ts";
import "../../ui/base.css";
import "../../ui/charts.css";
import "./operator.css";

import { render } from "preact";

import { logIn, logOut, overview, Refusal } from "./overview.ts";
import { OperatorView, type State } from "./view.tsx";

const EVERY = 2000; // milliseconds between two looks
const AFTER_PROBLEM = 5000;

const root = document.getElementById("operator")!;
root.replaceChildren();
const state: State = { doing: "asking" };
let next: ReturnType<typeof setTimeout> | undefined;

function draw(): void {
  document.title = state.shown === undefined ? "Operator’s page" : `${state.shown.title}: ${state.shown.role}`;
  render(<OperatorView state={state} logIn={enter} logOut={leave} />, root);
}

async function look(): Promise<void> {
  clearTimeout(next);
  try {
    state.shown = await overview();
    state.doing = "showing";
    delete state.problem;
  } catch (problem) {
    fail(problem as Refusal);
  }
  draw();
  if (state.doing !== "login" && !document.hidden) next = setTimeout(() => void look(), state.problem === undefined ? EVERY : AFTER_PROBLEM);
}

function fail(problem: Refusal): void {
  if (problem.status === 401) {
    state.doing = "login";
    delete state.shown;
    delete state.problem;
  } else {
    state.problem = problem.message;
  }
}

async function enter(token: string): Promise<void> {
  try {
    await logIn(token.trim());
    await look();
  } catch (problem) {
    state.doing = "login";
    state.problem = (problem as Refusal).message;
    draw();
  }
}

async function leave(): Promise<void> {
  clearTimeout(next);
  try {
    await logOut();
    fail(new Refusal(401));
  } catch (problem) {
    state.problem = (problem as Refusal).message;
  }
  draw();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && state.doing === "showing") void look();
});

// An address may bring the token behind a #, which a browser sends to nobody; it does not stay in the address.
const brought = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
if (brought !== undefined) history.replaceState(null, "", location.pathname);
await (brought === undefined ? look() : enter(brought));
