// What is different between two ranges: values and patterns whose share has changed, and whether chance explains it.

import * as api from "./api.js";
import { blank, button, grid, h, percent, textOf, visible } from "./dom.js";
import { grouped } from "./number.js";
import { marked } from "./patterns.js";
import { add, split, term } from "./query.js";
import { parse } from "./range.js";
import { full, rangeText, rfc } from "./time.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, range: () => [number, number]}} Uses */
/** @typedef {{n: number, of: number, isExact: boolean}} Share the records with a value, of how many */
/** @typedef {{field: string, value: string, query: string}} Value */

const DIFFERENCES_MAX = 60;
/** Values of a field that are compared. */
const VALUES = 50;
/** The z of a difference that chance explains once in 15,000 comparisons. */
const SURE = 4;

/** The z of two shares: their distance, in standard errors of the share of both together. @param {Share} a @param {Share} b */
export function zOf(a, b) {
  const both = (a.n + b.n) / (a.of + b.of);
  return (a.n / a.of - b.n / b.of) / Math.sqrt(both * (1 - both) * (1 / a.of + 1 / b.of)) || 0;
}

/** The shares of a range's values and patterns. @param {api.Ask} ask @param {AbortSignal} signal */
async function sharesOf(ask, signal) {
  const [facets, { patterns, records }] = await Promise.all([api.facets(ask, signal, VALUES), api.patterns(ask, signal)]);
  const of = Math.min(records, api.SAMPLE);
  /** @type {Map<string, Value & Share>} */
  const shares = new Map();
  /** @type {Map<string, number>} what a value that is not listed has at most */
  const most = new Map();
  for (const { field, distinct, values } of facets) {
    most.set(field, distinct > values.length ? values.at(-1)?.n ?? 0 : 0);
    for (const { value, n } of values) {
      const query = term(field, textOf(value));
      shares.set(query, { field, value: textOf(value), query, n, of, isExact: true });
    }
  }
  for (const { pattern, records: n, query } of patterns) shares.set(query, { field: "pattern", value: pattern, query, n, of: records, isExact: true });
  return { records, of, shares, most };
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showCompare(place, signal, { state, change, range }) {
  const { since2, until2, utc } = state();
  const [q] = split(state().q);
  const [from, to] = range();
  // Without another range, the one before, of the same length.
  const asks = [{ q, since: rfc(from), until: rfc(to) }, { q, since: since2 || rfc(2 * from - to), until: until2 || rfc(from) }];
  const input = (/** @type {string} */ name, /** @type {string} */ value) => h("input", { value: full(Date.parse(value), utc), "aria-label": name });
  const [begin, end] = [input("Other range from", asks[1].since), input("Other range to", asks[1].until)];
  const form = h("form.compare-form", { onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    change({ since2: parse(begin.value, utc) ?? "", until2: parse(end.value, utc) ?? "" });
  } }, h("b", "A"), rangeText(asks[0].since, asks[0].until, utc), h("b", "B"), begin, end, h("button", { type: "submit" }, "Compare"));
  const result = h("div", h("p.note.lead", "Reading both ranges \u2026"));
  place.replaceChildren(form, result);
  const [a, b] = await Promise.all(asks.map((ask) => sharesOf(ask, signal)));
  const different = [...new Map([...b.shares, ...a.shares])].map(([query, value]) => {
    const [x, y] = [a, b].map(({ records, of, shares, most }) =>
      shares.get(query) ?? { n: most.get(value.field) ?? 0, of: value.field === "pattern" ? records : of, isExact: !most.get(value.field) });
    return { ...value, x, y, gap: x.n / x.of - y.n / y.of, z: Math.abs(zOf(x, y)) };
  }).filter(({ z }) => z >= SURE).sort((one, other) => Math.abs(other.gap) - Math.abs(one.gap)).slice(0, DIFFERENCES_MAX);
  result.replaceChildren(h("p.note.lead", `The newest ${grouped(a.records)} records of A and ${grouped(b.records)} of B, for fields ${grouped(a.of)} and ${grouped(b.of)}. Listed is what has a z of ${SURE} or more in a test of two proportions: chance does that once in 15,000.`),
    different.length ? grid("Differences", ["Field", "Value", "A", "B", "Change", "z", "Actions"], different.map(({ field, value, query, x, y, gap, z }) => {
      const line = h("i", { class: gap > 0 ? "more" : "less" });
      line.style.width = Math.abs(gap) * 50 + "%";
      return [field, h("span.mono", ...(field === "pattern" ? marked(value) : [visible(value.slice(0, 200)) || "(empty)"])), ...[x, y].map(({ n, of, isExact }) => (isExact ? "" : "\u2264 ") + percent(n / of)),
        h("span.change", line, y.n ? (x.n ? (gap > 0 ? "more" : "less") : "gone") : "new"), z.toFixed(0),
        button("Show", () => change({ q: add(q, query), view: "records", ...(x.n ? {} : asks[1]) }), { class: "quiet", "aria-label": `Show ${field} ${visible(value.slice(0, 60))}` })];
    }), [2, 3, 5]) : blank("No difference", a.records && b.records ? "No share differs by more than chance explains." : "One of the ranges has no record: choose others."));
}
