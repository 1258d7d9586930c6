/** My phone: starts the page, and keeps it for when there is no network. */

import "../ui/trusted.ts";
import "../ui/base.css";
import "./app.css";

import { render } from "preact";

import { linked } from "./deployment.ts";
import { Phone } from "./phone.ts";
import { PhoneView } from "./view.tsx";

const root = document.getElementById("page")!;
const link = linked(location.hash);
if (link !== null) history.replaceState(null, "", location.pathname); // a code in it is nobody else's business

root.replaceChildren();
const phone = new Phone(link, draw);

function draw(): void {
  render(<PhoneView phone={phone} />, root);
}

draw();
void phone.open();
navigator.serviceWorker?.register("service_worker.js").catch(() => {}); // without it the page needs a network to open
