/**
 * The map: places as points, rings of distance, and recommendations as numbered buttons. Drawn by MapLibre from what is on
 * this device. There are no tiles below: whoever serves tiles sees where people look.
 */

import { type GeoJSONSource, Map as Drawn, Marker, ScaleControl, setWorkerUrl, type StyleSpecification } from "maplibre-gl";
import worker from "worker:maplibre-gl/dist/maplibre-gl-worker.mjs";

import { EARTH_RADIUS_KM, type Point } from "../src/geography.ts";
import type { Suggestion } from "../src/recommend.ts";
import type { Visit } from "../src/records.ts";
import type { PlaceInfo } from "../src/surface.ts";
import { coloursOf } from "../ui/colours.ts";
import { texts } from "./texts.ts";

export interface Shown {
  readonly suggestions: readonly Suggestion[];
  readonly places: ReadonlyMap<string, PlaceInfo>;
  readonly visits: readonly Visit[];
  readonly home: Point | null;
  readonly here: Point | null;
  readonly radiusKm: number;
  readonly chosen: string | null;
}

export interface Told {
  /** A point of the map, and the place there, if there is one. */
  tapped(place: string | null, point: Point): void;
  drawn(): void;
}

const COLOURS = ["paper", "card", "line", "quiet", "accent", "bad", "ink"] as const;
const REACH = 12; // pixels around a tap in which a place is meant
const CORNERS = 96; // of a ring
const DEGREE = 180 / Math.PI;

setWorkerUrl(new URL(worker, document.baseURI).href);

export class PlacesMap {
  private readonly box: HTMLElement;
  private readonly map: Drawn;
  private readonly told: Told;
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");
  private markers: Marker[] = [];
  private shown: Shown | null = null;
  private framed = "";
  private loaded = false;

  constructor(box: HTMLElement, told: Told) {
    this.box = box;
    this.told = told;
    this.map = new Drawn({
      container: box, style: this.style(), attributionControl: false, dragRotate: false, pitchWithRotate: false, touchPitch: false,
      fadeDuration: 0, maxZoom: 18, renderWorldCopies: false,
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new ScaleControl(), "bottom-left");
    this.map.on("load", () => {
      this.loaded = true;
      if (this.shown !== null) this.show(this.shown);
      told.drawn();
    });
    this.map.on("click", ({ point, lngLat }) => {
      const near = this.map.queryRenderedFeatures([[point.x - REACH, point.y - REACH], [point.x + REACH, point.y + REACH]], { layers: ["places"] });
      const closest = near.toSorted((a, b) => this.apart(a, point) - this.apart(b, point))[0];
      told.tapped((closest?.properties["id"] as string | undefined) ?? null, [lngLat.lat, lngLat.lng]);
    });
    this.dark.addEventListener("change", this.recolour);
  }

  show(shown: Shown): void {
    this.shown = shown;
    this.frame(shown);
    if (!this.loaded) return;
    const { places, visits, suggestions, home, here, radiusKm, chosen } = shown;
    const said = new Map(visits.map(({ place, label }) => [place, label]));
    this.source("places").setData({
      type: "FeatureCollection",
      features: [...places.values()].flatMap(({ id, location }) =>
        location === null ? [] : [{
          type: "Feature", geometry: { type: "Point", coordinates: [location[1], location[0]] }, properties: { id, said: said.get(id) ?? 0, chosen: id === chosen },
        }],
      ),
    });
    const centre = here ?? home;
    this.source("rings").setData({
      type: "FeatureCollection",
      features: centre === null ? [] : [radiusKm / 2, radiusKm].map((km) => ({ type: "Feature", properties: {}, geometry: { type: "LineString", coordinates: ring(centre, km) } })),
    });
    for (const marker of this.markers) marker.remove();
    this.markers = [
      ...[home, here].flatMap((point, at) => (point === null ? [] : [this.spot(point, at === 0 ? "home" : "here")])),
      ...suggestions.flatMap(({ place }, at) => {
        const location = places.get(place)?.location ?? null;
        return location === null ? [] : [this.numbered(at + 1, place, location)];
      }),
    ];
  }

  remove(): void {
    this.dark.removeEventListener("change", this.recolour);
    this.map.remove();
  }

  /** A button on the map: a keyboard reaches it as a finger does. */
  private numbered(number: number, place: string, [latitude, longitude]: Point): Marker {
    const element = document.createElement("button");
    element.type = "button";
    element.className = "marker";
    element.textContent = String(number);
    element.setAttribute("aria-label", `${number}: ${this.shown!.places.get(place)!.about || place}`);
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      this.told.tapped(place, [latitude, longitude]);
    });
    return new Marker({ element }).setLngLat([longitude, latitude]).addTo(this.map);
  }

  private spot([latitude, longitude]: Point, kind: "home" | "here"): Marker {
    const element = document.createElement("div");
    element.className = `spot ${kind}`;
    element.title = kind === "home" ? texts.places.key.home : texts.places.aroundHere;
    return new Marker({ element }).setLngLat([longitude, latitude]).addTo(this.map);
  }

  /** Moves to where recommendations are for, when that changes; where the person has moved the map it stays. */
  private frame({ home, here, radiusKm, places, suggestions }: Shown): void {
    const centre = here ?? home;
    const wanted = JSON.stringify([centre, radiusKm, places.size > 0]);
    if (wanted === this.framed) return;
    const points = centre === null
      ? [...places.values()].flatMap(lngLat)
      : [...ring(centre, radiusKm), ...suggestions.flatMap(({ place }) => lngLat(places.get(place)))]; // some may be beyond
    if (points.length === 0) return;
    this.framed = wanted;
    const [x, y] = [points.map(([longitude]) => longitude), points.map(([, latitude]) => latitude)];
    const [least, most] = [(all: number[]) => all.reduce((a, b) => Math.min(a, b)), (all: number[]) => all.reduce((a, b) => Math.max(a, b))];
    this.map.fitBounds([[least(x), least(y)], [most(x), most(y)]], { padding: 24, animate: false });
  }

  private apart(feature: { geometry: unknown }, at: { x: number; y: number }): number {
    const { x, y } = this.map.project((feature.geometry as { coordinates: [number, number] }).coordinates);
    return Math.hypot(x - at.x, y - at.y);
  }

  private source(name: string): GeoJSONSource {
    return this.map.getSource(name)!;
  }

  private readonly recolour = (): void => {
    if (!this.box.isConnected) return; // another view is shown, and this map is about to be removed
    for (const layer of this.style().layers) {
      for (const [name, value] of Object.entries(layer.paint ?? {})) this.map.setPaintProperty(layer.id, name as never, value as never);
    }
  };

  private style(): StyleSpecification {
    const colours = coloursOf(this.box, COLOURS);
    const empty = { type: "geojson", data: { type: "FeatureCollection", features: [] } } as const;
    return {
      version: 8,
      sources: { places: empty, rings: empty },
      layers: [
        { id: "ground", type: "background", paint: { "background-color": colours.card } },
        { id: "rings", type: "line", source: "rings", paint: { "line-color": colours.accent, "line-opacity": 0.5, "line-dasharray": [3, 3], "line-width": 1.2 } },
        {
          id: "places", type: "circle", source: "places",
          paint: {
            "circle-color": ["match", ["get", "said"], 1, colours.accent, -1, colours.bad, colours.quiet],
            "circle-opacity": ["match", ["get", "said"], 0, 0.45, 0.9],
            "circle-radius": ["interpolate", ["linear"], ["zoom"], 8, 1.5, 12, 4, 17, 8],
            "circle-stroke-color": colours.ink,
            "circle-stroke-width": ["case", ["get", "chosen"], 2.5, 0],
          },
        },
      ],
    };
  }
}

/** Where a place is, if that is known. */
function lngLat(place: PlaceInfo | undefined): [number, number][] {
  const location = place?.location ?? null;
  return location === null ? [] : [[location[1], location[0]]];
}

/** Points around a centre, as far from it as they say. */
function ring([latitude, longitude]: Point, km: number): [number, number][] {
  const reach = (km / EARTH_RADIUS_KM) * DEGREE;
  const narrow = Math.max(Math.cos(latitude / DEGREE), 0.01);
  return Array.from({ length: CORNERS + 1 }, (_, at) => {
    const turn = (2 * Math.PI * at) / CORNERS;
    return [longitude + (reach * Math.sin(turn)) / narrow, Math.max(-85, Math.min(85, latitude + reach * Math.cos(turn)))];
  });
}
