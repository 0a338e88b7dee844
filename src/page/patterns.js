// Lines with the changing parts taken out, and counted.

import * as api from "./api.js";
import { bar, blank, button, grid, h, percent, plural, visible } from "./dom.js";
import { grouped } from "./number.js";
import { add } from "./query.js";
import { levelClass } from "./histogram.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, ask: () => api.Ask}} Uses */

/** A pattern with its gaps marked. @param {string} pattern */
export const marked = (pattern) => pattern.split("<_>").flatMap((part, at) => [at ? h("i.gap", { title: "changes" }, "\u2026") : "", visible(part)]);

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showPatterns(place, signal, { state, change, ask }) {
  const { patterns, records, is_whole } = await api.patterns(ask(), signal);
  if (!patterns.length) return place.replaceChildren(blank("No patterns", "No record in this range matches."));
  const most = patterns[0].records;
  place.replaceChildren(
    h("p.note.lead", `${plural(patterns.length, "pattern")} in ${plural(records, "record")}${is_whole ? "" : ": the newest of this range, because reading all of them would take too long"}.`),
    grid("Patterns", ["Records", "Share", "Level", "Pattern", "Actions"], patterns.map((pattern) => {
      const { level } = pattern;
      const name = visible(pattern.pattern.slice(0, 60));
      return [h("span", bar(pattern.records / most), h("span", grouped(pattern.records))), percent(pattern.records / records), level ? h("span", { class: "chip " + levelClass(level) }, level) : "",
        h("span.mono", { title: visible(pattern.example) }, ...marked(pattern.pattern)),
        h("span.acts", button("Show", () => change({ q: add(state().q, pattern.query), view: "records" }), { class: "quiet", "aria-label": `Show ${name}` }),
          button("Hide", () => change({ q: add(state().q, pattern.query, true) }), { class: "quiet", "aria-label": `Hide ${name}` }))];
    }), [0, 1]));
}
