/** The whole page: what is above and below every view, and which view is shown. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Join } from "./join.tsx";
import { OnPhone } from "./on_phone.tsx";
import { Done, Problem } from "./parts.tsx";
import type { Phone } from "./phone.ts";
import { Places } from "./places.tsx";
import { texts } from "./texts.ts";
import { verdictOf, WhatLeft } from "./what_left.tsx";

const VIEWS = ["places", "phone", "left"] as const;
type View = (typeof VIEWS)[number];

export function PhoneView({ phone }: { phone: Phone }): VNode {
  const view = useView();
  const open = phone.phase === "open";
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")!.focus(); }}>{texts.skip}</a>
      <header class="top">
        <p class="brand">{texts.title}</p>
        {open && (
          <nav aria-label={texts.nav.label}>
            {VIEWS.map((one) => <a key={one} href={`#${one}`} aria-current={one === view ? "page" : undefined}><Icon view={one} /><span>{texts.nav[one]}</span></a>)}
          </nav>
        )}
        {open && phone.member && <p class="small quiet state">{verdictOf(phone)}</p>}
      </header>
      <main id="content" tabIndex={-1} aria-busy={phone.busy > 0}>
        {phone.hosted?.rehearsal === true && <p class="notice">{texts.rehearsal}</p>}
        {open && !phone.online && <p class="notice">{texts.offline}</p>}
        {phone.phase === "opening" && <p class="starting" role="status">{texts.opening}</p>}
        {phone.phase === "elsewhere" && <div class="card" role="status"><h1>{texts.elsewhere.title}</h1><p>{texts.elsewhere.words}</p></div>}
        {phone.phase === "failed" && <h1>{texts.failed.title}</h1>}
        <Problem phone={phone} />
        {open && view === "places" && (phone.member ? <Places phone={phone} /> : <Join phone={phone} />)}
        {open && view === "phone" && <OnPhone phone={phone} />}
        {open && view === "left" && <WhatLeft phone={phone} />}
        {phone.phase === "failed" && <button type="button" onClick={() => location.reload()}>{texts.failed.again}</button>}
      </main>
      <footer>
        <details>
          <summary>{texts.trust.title}</summary>
          {texts.trust.words.map((one) => <p key={one} class="small">{one}</p>)}
        </details>
      </footer>
      <Done phone={phone} />
    </>
  );
}

/** The view that the address names. */
function useView(): View {
  const [view, setView] = useState(viewOf);
  useEffect(() => {
    const moved = (): void => {
      setView(viewOf());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return view;
}

function viewOf(): View {
  return VIEWS.find((one) => location.hash === `#${one}`) ?? "places";
}

const PATHS: Record<View, string> = {
  places: "M12 21s7-6.2 7-11.5a7 7 0 1 0-14 0C5 14.8 12 21 12 21Zm0-9a2.5 2.5 0 1 1 0-5 2.5 2.5 0 0 1 0 5Z",
  phone: "M8 2h8a2 2 0 0 1 2 2v16a2 2 0 0 1-2 2H8a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2Zm0 3v12h8V5H8Zm4 14.2a.9.9 0 1 0 0 1.8.9.9 0 0 0 0-1.8Z",
  left: "M12 3l6 6-1.4 1.4L13 6.8V16h-2V6.8L7.4 10.4 6 9l6-6ZM5 18h14v2H5v-2Z",
};

function Icon({ view }: { view: View }): VNode {
  return <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path fill-rule="evenodd" d={PATHS[view]} /></svg>;
}
