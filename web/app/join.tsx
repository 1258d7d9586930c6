/** Joining a recommender: typed, or by a link that carries address and fingerprints in its fragment. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { located } from "./location.ts";
import { Card } from "./parts.tsx";
import type { Phone } from "./phone.ts";
import { texts } from "./texts.ts";

export function Join({ phone }: { phone: Phone }): VNode {
  const { hosted, linked, busy } = phone;
  const [place, setPlace] = useState({ latitude: "", longitude: "" });
  const words = texts.join;
  const other = hosted !== null && linked?.url !== undefined && linked.url !== hosted.url;
  const join = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Record<string, string>;
    const { url = "", fingerprint = "", helperFingerprint = "", code = "", latitude = "", longitude = "" } = given;
    const home = latitude.trim() === "" || longitude.trim() === "" ? {} : { home: [Number(latitude), Number(longitude)] as const };
    void phone.act(async (tell) => {
      const { title } = await phone.device.join({ url, fingerprint, helperFingerprint, ...(code === "" ? {} : { code }), ...home });
      await phone.refresh();
      await phone.device.sync(); // joining goes on without what cannot be had now; here it is told why
      tell({ words: words.done(title), undo: null });
    });
  };
  return (
    <Card title={words.title} kind="join">
      {words.intro.map((one) => <p key={one}>{one}</p>)}
      {other && <p class="notice">{words.otherUrl(linked.url!)}</p>}
      <form onSubmit={join}>
        <label>
          {words.url}
          <input name="url" type="url" required readOnly={hosted !== null} defaultValue={hosted?.url ?? linked?.url ?? ""} placeholder="https://" />
          {hosted !== null && <span class="hint">{words.fixed}</span>}
        </label>
        <label>
          {words.fingerprint}
          <input name="fingerprint" class="digits" required spellcheck={false} autocomplete="off" defaultValue={linked?.fingerprint ?? hosted?.fingerprint ?? ""} />
        </label>
        <label>
          {words.helperFingerprint}
          <input name="helperFingerprint" class="digits" required spellcheck={false} autocomplete="off" defaultValue={linked?.helperFingerprint ?? hosted?.helperFingerprint ?? ""} />
          <span class="hint">{words.fingerprints}</span>
        </label>
        <label>
          {words.code}
          <input name="code" autocomplete="off" defaultValue={linked?.code ?? ""} />
        </label>
        <fieldset>
          <legend>{words.home}</legend>
          <p class="hint">{words.homeWords}</p>
          <div class="pair">
            <label>{texts.phone.latitude} <input name="latitude" type="number" step="any" min={-90} max={90} value={place.latitude} onInput={({ currentTarget: { value } }) => setPlace({ ...place, latitude: value })} /></label>
            <label>{texts.phone.longitude} <input name="longitude" type="number" step="any" min={-180} max={180} value={place.longitude} onInput={({ currentTarget: { value } }) => setPlace({ ...place, longitude: value })} /></label>
          </div>
          <button type="button" onClick={() => void phone.act(async () => {
            const [latitude, longitude] = await located();
            setPlace({ latitude: String(latitude), longitude: String(longitude) });
          })}>{words.locate}</button>
        </fieldset>
        <button class="main" disabled={busy > 0}>{busy > 0 ? texts.working : words.button}</button>
      </form>
    </Card>
  );
}
