// What is different between two ranges: values and patterns whose share has changed.

import * as api from "./api.js";
import { blank, button, count, grid, h, percent, visible } from "./dom.js";
import { marked } from "./patterns.js";
import { add, term } from "./query.js";
import { parse } from "./range.js";
import { full, rangeText, rfc } from "./time.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, range: () => [number, number]}} Uses */
/** @typedef {{field: string, value: string, query: string, n: [number, number]}} Difference */

const SHOWN = 60;
/** The least change of a share that is shown. */
const LEAST = 0.002;

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showCompare(place, signal, { state, change, range }) {
  const { q, since2, until2, utc } = state();
  const [from, to] = range();
  // Without another range, the one before, of the same length.
  const asks = [{ q, since: rfc(from), until: rfc(to) }, { q, since: since2 || rfc(2 * from - to), until: until2 || rfc(from) }];
  const input = (/** @type {string} */ name, /** @type {string} */ value) => h("input", { value: full(Date.parse(value), utc), "aria-label": name });
  const [begin, end] = [input("Other range from", asks[1].since), input("Other range to", asks[1].until)];
  const form = h("form", { class: "compare-form", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    change({ since2: parse(begin.value, utc) ?? "", until2: parse(end.value, utc) ?? "" });
  } }, h("b", {}, "A"), rangeText(asks[0].since, asks[0].until, utc), h("b", {}, "B"), begin, end, h("button", { type: "submit" }, "Compare"));
  const result = h("div", {}, h("p", { class: "note lead" }, "Reading both ranges \u2026"));
  place.replaceChildren(form, result);
  const answers = await Promise.all(asks.map((one) => Promise.all([api.facets(one, signal), api.patterns(one, signal)])));
  /** @type {Map<string, Difference>} */
  const all = new Map();
  answers.forEach(([facets, { patterns }], at) => {
    const note = (/** @type {string} */ field, /** @type {string} */ value, /** @type {number} */ n, /** @type {string} */ query) => {
      const one = all.get(query) ?? { field, value, query, n: [0, 0] };
      one.n[at] += n;
      all.set(query, one);
    };
    for (const { field, values } of facets) for (const { value, n } of values) note(field, String(value), n, term(field, String(value)));
    for (const { pattern, records, query } of patterns) note("pattern", pattern, records, query);
  });
  const sums = answers.map(([, { records }]) => records);
  const share = (/** @type {Difference} */ { n }, /** @type {number} */ at) => n[at] / (sums[at] || 1);
  const gap = (/** @type {Difference} */ one) => share(one, 0) - share(one, 1);
  const different = [...all.values()].filter((one) => Math.abs(gap(one)) > LEAST).sort((a, b) => Math.abs(gap(b)) - Math.abs(gap(a))).slice(0, SHOWN);
  result.replaceChildren(h("p", { class: "note lead" }, `A has ${count(sums[0])} records, B has ${count(sums[1])}. Shares are of each range\u2019s records.`),
    different.length ? grid("Differences", ["Field", "Value", "A", "B", "Change", "Actions"], different.map((one) => {
      const { field, value, n } = one;
      const line = h("i", { class: gap(one) > 0 ? "more" : "less" });
      line.style.width = Math.abs(gap(one)) * 50 + "%";
      return [field, h("span", { class: "mono" }, ...(field === "pattern" ? marked(value) : [visible(value.slice(0, 200)) || "(empty)"])), percent(share(one, 0)), percent(share(one, 1)),
        h("span", { class: "change" }, line, n[1] ? (n[0] ? (gap(one) > 0 ? "more" : "less") : "gone") : "new"),
        button("Show", () => change({ q: add(q, one.query), view: "records", ...(n[0] ? {} : asks[1]) }), { class: "quiet", "aria-label": `Show ${field} ${visible(value.slice(0, 60))}` })];
    }), [2, 3]) : blank("No difference", sums[0] && sums[1] ? "Every value and pattern has the same share in both ranges." : "One of the ranges has no record: choose others."));
}
