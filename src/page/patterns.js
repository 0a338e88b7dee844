// Lines with the changing parts taken out, and counted.

import * as api from "./api.js";
import { bar, blank, button, dash, grid, h, percent, plural, visible } from "./dom.js";
import { grouped } from "./number.js";
import { add } from "./query.js";
import { LEVELS, levelClass } from "./histogram.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, ask: () => api.Ask}} Uses */

/** A pattern with its gaps marked. @param {string} pattern */
export const marked = (pattern) => pattern.split("<_>").flatMap((part, at) => [at ? h("i.gap", { title: "changes" }, "\u2026") : "", visible(part)]);

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showPatterns(place, signal, { state, change, ask }) {
  const { patterns, records, others, is_whole } = await api.patterns(ask(), signal);
  if (!patterns.length) return place.replaceChildren(blank("No patterns", "No record in this range matches."));
  const most = patterns[0].records;
  place.replaceChildren(
    h("p.note.lead", `${others ? "The most frequent " : ""}${plural(patterns.length, "pattern")} in ${others ? grouped(records - others) + " of " : ""}${plural(records, "record")}${is_whole ? "" : ": the newest of this range, because reading all of them would take too long"}.`),
    grid("Patterns", [
      ["Records", (row) => h("span", bar(row.records / most), h("span", grouped(row.records))), (row) => row.records, true],
      ["Share", (row) => percent(row.records / records), (row) => row.records, true],
      ["Level", ({ level }) => (level ? h("span", { class: "chip " + levelClass(level) }, level) : dash()), ({ level }) => level && -LEVELS.indexOf(level)],
      ["Pattern", (row) => h("span.mono", { title: visible(row.example) }, ...marked(row.pattern))],
      ["Actions", (row) => h("span.acts", ...[false, true].map((isOut) => button(isOut ? "Hide" : "Show", () => change(isOut ? { q: add(state().q, row.query, true) } : { q: add(state().q, row.query), view: "records" }),
        { class: "quiet", "aria-label": `${isOut ? "Hide" : "Show"} ${visible(row.pattern.slice(0, 60))}` }))), null],
    ], patterns));
}
