/** Charts as SVG, each with its numbers as a table: who cannot see a chart, or wants to count, has the same. */

import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export type Cell = string | number;

/** A chart, or anything else that is looked at, with a title, a sentence, and its numbers. */
export function Figure({ title, note, children, head, rows }: {
  title: string;
  note?: ComponentChildren;
  children?: ComponentChildren;
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
}): VNode {
  return (
    <figure class="card figure">
      <figcaption>
        <h3>{title}</h3>
        {note !== undefined && <p class="quiet small">{note}</p>}
      </figcaption>
      {children}
      <details>
        <summary class="small">Numbers</summary>
        <Table head={head} rows={rows} />
      </details>
    </figure>
  );
}

/** In the place of a figure or a card that cannot be shown yet. */
export function Waiting({ title, until }: { title: string; until: string }): VNode {
  return (
    <section class="card waiting">
      <h3>{title}</h3>
      <p class="quiet small">Nothing is known before {until}.</p>
    </section>
  );
}

export function Table({ head, rows }: { head: readonly string[]; rows: readonly (readonly Cell[])[] }): VNode {
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>{head.map((name, at) => <th key={at} scope="col" class={typeof rows[0]?.[at] === "number" ? "number" : ""}>{name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>{row.map((cell, column) => <td key={column} class={typeof cell === "number" ? "number" : ""}>{shown(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function shown(cell: Cell): string {
  if (typeof cell === "string") return cell;
  if (Number.isInteger(cell)) return cell.toLocaleString("en");
  const size = Math.abs(cell);
  return size >= 100 ? cell.toFixed(0) : size >= 1 ? cell.toFixed(2) : cell.toPrecision(3);
}

/** How far something is, and perhaps a mark on the way. */
export function Meter({ label, value, most, floor }: { label: string; value: number; most: number; floor?: number }): VNode {
  const part = (one: number) => `${Math.max(0, Math.min(100, (100 * one) / Math.max(most, 1e-9)))}%`;
  return (
    <div class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={most} aria-valuenow={Math.round(value)}>
      <span style={{ width: part(value) }} />
      {floor !== undefined && <i style={{ left: part(floor) }} title={`floor: ${floor}`} />}
    </div>
  );
}

export interface Series {
  readonly name: string;
  readonly values: readonly number[];
  /** A class of the style sheet: its colour. */
  readonly look: "first" | "second" | "third" | "limit";
}

const [HEIGHT, LEFT, BOTTOM, TOP] = [200, 46, 26, 10];

/** A drawing in pixels of the page, as wide as its place: text in it is as large on a phone as on a desk. */
function Drawing({ height, label, children }: { height: number; label: string; children: (width: number) => ComponentChildren }): VNode {
  const [width, setWidth] = useState(420);
  const place = useRef<SVGSVGElement>(null);
  useLayoutEffect(() => {
    const watching = new ResizeObserver(([of]) => { if (of!.contentRect.width > 0) setWidth(Math.round(of!.contentRect.width)); });
    watching.observe(place.current!);
    return () => watching.disconnect();
  }, []);
  return <svg ref={place} class="chart" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>{children(width)}</svg>;
}

/** Lines over the same steps, 1, 2, …; with a band behind them. */
export function Lines({ series, of, label, band, from }: {
  series: readonly Series[];
  /** What a step is. */
  of: string;
  /** What the chart shows, for who hears it. */
  label: string;
  band?: readonly [number, number] | undefined;
  /** Where the scale begins; 0 if nothing is said. */
  from?: number;
}): VNode {
  const steps = Math.max(1, ...series.map(({ values }) => values.length));
  const all = [...series.flatMap(({ values }) => values), ...(band ?? [])].filter(Number.isFinite);
  const low = from ?? 0;
  const high = niceAbove(Math.max(low + 1e-9, ...all));
  const y = (value: number) => TOP + ((high - value) * (HEIGHT - TOP - BOTTOM)) / (high - low);
  const every = Math.ceil(steps / 8);
  return (
    <>
      <Drawing height={HEIGHT} label={label}>
        {(width) => {
          const [inside, right] = [width - LEFT - 8, width - 8];
          const x = (at: number) => LEFT + ((at + 0.5) * inside) / steps;
          return (
            <>
              {[0, 0.5, 1].map((part) => {
                const value = low + part * (high - low);
                return (
                  <g key={part}>
                    <line class="grid" x1={LEFT} x2={right} y1={y(value)} y2={y(value)} />
                    <text class="tick" x={LEFT - 6} y={y(value)} text-anchor="end" dominant-baseline="middle">{shown(value)}</text>
                  </g>
                );
              })}
              {band !== undefined && <rect class="band" x={LEFT} width={inside} y={y(band[1])} height={Math.max(1.5, y(band[0]) - y(band[1]))} />}
              {Array.from({ length: steps }, (_, at) => at).filter((at) => at % every === 0).map((at) => (
                <text key={at} class="tick" x={x(at)} y={HEIGHT - 8} text-anchor="middle">{at === 0 ? `${of} 1` : at + 1}</text>
              ))}
              {series.map(({ name, values, look }) => (
                <g key={name} class={look}>
                  <polyline class="stroke" points={values.map((value, at) => `${x(at)},${y(value)}`).join(" ")} />
                  {values.map((value, at) => <circle key={at} cx={x(at)} cy={y(value)} r="3" />)}
                </g>
              ))}
            </>
          );
        }}
      </Drawing>
      <Legend entries={series.map(({ name, look }) => [name, look] as const)} />
    </>
  );
}

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** What it would be without noise. */
  readonly exact?: number | undefined;
}

/** Bars from left to right, one below the other, each with its number, and perhaps with how far it may be off, and where it really is. */
export function Bars({ bars, off, label, value, exact }: {
  bars: readonly Bar[];
  off?: number;
  label: string;
  /** What bar and mark are called. */
  value: string;
  /** Needed where a bar has such a mark. */
  exact?: string;
}): VNode {
  const [each, numbers] = [22, 52];
  const high = niceAbove(Math.max(1e-9, ...bars.flatMap((one) => [one.value + 2 * (off ?? 0), one.exact ?? 0])));
  const low = Math.min(0, ...bars.map((one) => one.value - 2 * (off ?? 0)));
  const known = bars.some((one) => one.exact !== undefined);
  const longest = Math.max(...bars.map(({ name }) => name.length));
  return (
    <>
      <Drawing height={bars.length * each + 4} label={label}>
        {(width) => {
          const left = Math.min(LETTER * longest + 12, 0.4 * width);
          const x = (at: number) => left + ((Math.max(at, low) - low) * (width - left - numbers)) / (high - low);
          return (
            <>
              {bars.map((one, at) => {
                const y = (at + 0.5) * each + 2;
                return (
                  <g key={one.name}>
                    <text class="tick" x={left - 8} y={y} text-anchor="end" dominant-baseline="middle">{cut(one.name, Math.floor((left - 8) / LETTER))}</text>
                    <rect class="bar" x={Math.min(x(0), x(one.value))} width={Math.abs(x(one.value) - x(0))} y={y - 6} height="12" rx="2" />
                    {off !== undefined && <line class="whisker" x1={x(one.value - 2 * off)} x2={x(one.value + 2 * off)} y1={y} y2={y} />}
                    {one.exact !== undefined && <circle class="exact" cx={x(one.exact)} cy={y} r="4" />}
                    <text x={width} y={y} text-anchor="end" dominant-baseline="middle">{shown(one.value)}</text>
                  </g>
                );
              })}
              <line class="zero" x1={x(0)} x2={x(0)} y1="0" y2={bars.length * each + 4} />
            </>
          );
        }}
      </Drawing>
      <Legend entries={[[value, "first"], ...(off === undefined ? [] : [["two standard deviations of the noise", "whiskers"] as const]), ...(known ? [[exact ?? "exact", "third"] as const] : [])]} />
    </>
  );
}

/** A table whose cells are coloured by how large they are: it is its own numbers. */
export function Heat({ rows, columns, values, label }: {
  rows: readonly string[];
  columns: readonly string[];
  values: readonly (readonly number[])[];
  label: string;
}): VNode {
  const most = Math.max(1e-12, ...values.flat());
  return (
    <div class="scroll" tabIndex={0}>
      <table class="heat">
        <caption class="unseen">{label}</caption>
        <thead>
          <tr><td />{columns.map((name) => <th key={name} scope="col"><span>{name}</span></th>)}</tr>
        </thead>
        <tbody>
          {rows.map((name, row) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {columns.map((column, at) => {
                const value = values[row]?.[at] ?? 0;
                const part = Math.round((value / most) * 100);
                return (
                  <td key={column} title={`${name} × ${column}: ${shown(value)}`} style={{ "--part": `${part}%` }}>
                    <span class="unseen">{value === 0 ? "0" : value.toPrecision(2)}</span>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Legend({ entries }: { entries: readonly (readonly [name: string, look: string])[] }): VNode {
  return <ul class="legend small">{entries.map(([name, look]) => <li key={name} class={look}>{name}</li>)}</ul>;
}

/** The next round number above. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((one) => one * power >= value * 0.999) ?? 10) * power;
}

/** About as wide as a letter of a chart is, in pixels. */
const LETTER = 7;

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
