// Lines with the changing parts taken out, and counted.

import * as api from "./api.js";
import { blank, button, count, h, percent, plural, visible } from "./dom.js";
import { add } from "./query.js";
import { levelClass } from "./histogram.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void}} Uses */

/** A pattern with its gaps marked. @param {string} pattern */
export const marked = (pattern) => pattern.split("<_>").flatMap((part, at) => [at ? h("i", { class: "gap", title: "changes" }, "\u2026") : "", visible(part)]);

/** @param {HTMLElement} place @param {api.Ask} ask @param {AbortSignal} signal @param {Uses} uses */
export async function showPatterns(place, ask, signal, { state, change }) {
  const { patterns, records, is_whole } = await api.patterns(ask, signal);
  if (!patterns.length) return place.replaceChildren(blank("No patterns", "No record in this range matches."));
  const most = patterns[0].records;
  place.replaceChildren(
    h("p", { class: "note lead" }, `${plural(patterns.length, "pattern")} in ${plural(records, "record")}${is_whole ? "" : ": the newest of this range, because reading all of them would take too long"}.`),
    h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Patterns" }, h("table", { class: "rows patterns" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "Records"), h("th", { scope: "col", class: "number" }, "Share"), h("th", { scope: "col" }, "Level"), h("th", { scope: "col" }, "Pattern"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", {}, ...patterns.map((pattern) => {
        const bar = h("i", { class: "share" });
        bar.style.width = (pattern.records / most) * 100 + "%";
        const { level } = pattern;
        return h("tr", {}, h("td", { class: "number" }, bar, h("span", {}, count(pattern.records))), h("td", { class: "number" }, percent(pattern.records / records)),
          h("td", {}, level ? h("span", { class: "chip " + levelClass(level) }, level) : ""),
          h("td", { class: "mono", dir: "auto", title: visible(pattern.example.slice(0, 1000)) }, ...marked(pattern.pattern)),
          h("td", { class: "acts" },
            button("Show", () => change({ q: add(state().q, pattern.query), view: "records" }), { class: "quiet", "aria-label": `Show the records of ${pattern.pattern.slice(0, 60)}` }),
            button("Hide", () => change({ q: add(state().q, pattern.query, true) }), { class: "quiet", "aria-label": `Hide ${pattern.pattern.slice(0, 60)}` })));
      })))));
}
