// What is different between two ranges: values and patterns whose share has changed.

import * as api from "./api.js";
import { blank, button, count, h, percent, visible } from "./dom.js";
import { marked } from "./patterns.js";
import { add, term } from "./query.js";
import { parse } from "./range.js";
import { full, rangeText, rfc } from "./time.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, range: () => [number, number]}} Uses */

const SHOWN = 60;

/** The range before one, of the same length. @param {[number, number]} range @returns {[number, number]} */
const before = ([from, to]) => [2 * from - to, from];

/** @param {HTMLElement} place @param {api.Ask} ask @param {AbortSignal} signal @param {Uses} uses */
export async function showCompare(place, ask, signal, { state, change, range }) {
  const now = state();
  const [from, to] = range();
  const first = { q: ask.q, since: rfc(from), until: rfc(to) };
  const [a, b] = before([from, to]);
  const second = { q: ask.q, since: now.since2 || rfc(a), until: now.until2 || rfc(b) };
  const input = (/** @type {string} */ name, /** @type {string} */ value) => h("input", { value: Number.isNaN(Date.parse(value)) ? value : full(Date.parse(value), now.utc), "aria-label": name, spellcheck: false });
  const [since2, until2] = [input("Other range from", second.since), input("Other range to", second.until)];
  const form = h("form", { class: "compare-form", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const [x, y] = [parse(since2.value, now.utc), parse(until2.value, now.utc)];
    if (x && y) change({ since2: x, until2: y });
  } }, h("span", {}, h("b", {}, "A"), " ", rangeText(first.since, first.until, now.utc)), h("span", {}, h("b", {}, "B"), " ", since2, " – ", until2),
    h("button", { type: "submit" }, "Compare"), now.since2 ? button("The range before", () => change({ since2: "", until2: "" }), { class: "quiet" }) : "");
  const result = h("div", { class: "result" }, h("p", { class: "note lead" }, "Reading both ranges …"));
  place.replaceChildren(form, result);
  const [x, y, p, q] = await Promise.all([api.facets(first, signal), api.facets(second, signal), api.patterns(first, signal), api.patterns(second, signal)]);
  /** @type {{field: string, value: string, a: number, b: number, sumA: number, sumB: number, filter: string}[]} */
  const all = [];
  const fields = new Map(y.facets.map((facet) => [facet.field, facet]));
  const sums = (/** @type {api.Facet[]} */ facets) => facets.reduce((most, facet) => Math.max(most, facet.records), 0);
  const [sumA, sumB] = [p.records || sums(x.facets), q.records || sums(y.facets)];
  for (const field of new Set([...x.facets, ...y.facets].map((facet) => facet.field))) {
    if (["row_key", "time", "message"].includes(field)) continue;
    const [own, other] = [x.facets.find((facet) => facet.field === field)?.values ?? [], fields.get(field)?.values ?? []];
    const values = new Map(own.map(({ value, n }) => [value, [n, 0]]));
    for (const { value, n } of other) values.set(value, [values.get(value)?.[0] ?? 0, n]);
    for (const [value, [n, m]] of values) all.push({ field, value, a: n, b: m, sumA, sumB, filter: term(field, value) });
  }
  const patterns = new Map(q.patterns.map((pattern) => [pattern.pattern, pattern]));
  const others = new Set(p.patterns.map((pattern) => pattern.pattern));
  for (const pattern of p.patterns) all.push({ field: "pattern", value: pattern.pattern, a: pattern.records, b: patterns.get(pattern.pattern)?.records ?? 0, sumA: p.records, sumB: q.records, filter: pattern.query });
  for (const pattern of q.patterns) if (!others.has(pattern.pattern)) all.push({ field: "pattern", value: pattern.pattern, a: 0, b: pattern.records, sumA: p.records, sumB: q.records, filter: pattern.query });
  const shares = all.map((row) => ({ ...row, x: row.a / (row.sumA || 1), y: row.b / (row.sumB || 1) }));
  const different = shares.filter((row) => Math.abs(row.x - row.y) > 0.002).sort((r, s) => Math.abs(s.x - s.y) - Math.abs(r.x - r.y)).slice(0, SHOWN);
  const total = h("p", { class: "note lead" }, `A has ${count(sumA)} records, B has ${count(sumB)}. Shares are of each range's records.`);
  if (!different.length) return result.replaceChildren(total, blank("No difference", sumA && sumB ? "Every value and pattern has the same share in both ranges." : "One of the ranges has no record: choose others."));
  result.replaceChildren(total, h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Differences" }, h("table", { class: "rows" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Field"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col", class: "number" }, "A"), h("th", { scope: "col", class: "number" }, "B"), h("th", { scope: "col" }, "Change"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))),
    h("tbody", {}, ...different.map((row) => {
      const bar = h("i", { class: row.x > row.y ? "more" : "less" });
      bar.style.width = Math.abs(row.x - row.y) * 50 + "%";
      const word = !row.b ? "new" : !row.a ? "gone" : row.x > row.y ? "more" : "less";
      return h("tr", {}, h("td", {}, row.field), h("td", { class: "mono", dir: "auto" }, ...(row.field === "pattern" ? marked(row.value) : [visible(row.value.slice(0, 200)) || "(empty)"])),
        h("td", { class: "number", title: count(row.a) }, percent(row.x)), h("td", { class: "number", title: count(row.b) }, percent(row.y)),
        h("td", { class: "change" }, bar, h("span", {}, word)),
        h("td", { class: "acts" }, button("Show", () => change({ q: add(now.q, row.filter), view: "records", ...(row.a ? {} : second) }), { class: "quiet", "aria-label": `Show the records with ${row.field} ${visible(row.value.slice(0, 60))}` })));
    })))));
}
