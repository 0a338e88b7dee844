// What is different between two ranges: values and patterns whose share has changed, and whether chance explains it.

import * as api from "./api.js";
import { blank, button, dash, grid, h, percent, plural, textOf, visible } from "./dom.js";
import { grouped } from "./number.js";
import { marked } from "./patterns.js";
import { add, split, term } from "./query.js";
import { parse } from "./range.js";
import { dayBegin, full, instant, rfc } from "./time.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, range: () => [number, number], extent: () => [number, number]}} Uses */
/** @typedef {{n: number, of: number, isExact: boolean}} Share the records with a value, of how many */
/** @typedef {{field: string, value: string, query: string}} Value */
/** @typedef {Awaited<ReturnType<typeof sharesOf>>} Shares */

const DIFFERENCES_MAX = 60;
/** Values of a field that are compared. */
const VALUES = 50;
/** Records with a value in one of the ranges from which on its share says something. */
const LEAST = 5;
/** The z of a difference that chance explains once in 15,000 comparisons. */
const SURE = 4;

/** The z of two shares: their distance, in standard errors of the share of both together. @param {Share} a @param {Share} b */
export function zOf(a, b) {
  const both = (a.n + b.n) / (a.of + b.of);
  return (a.n / a.of - b.n / b.of) / Math.sqrt(both * (1 - both) * (1 / a.of + 1 / b.of)) || 0;
}

/** A share in words. One that is not listed is below that of the last listed value. @param {Share} share */
const shareText = ({ n, of, isExact }) => (isExact ? percent(n / of) : percent(n / of).replace(/^<?/, n / of < 0.001 ? "<" : "\u2264 "));

/** How much a share has changed, as a line. @param {number} gap */
function changeBar(gap) {
  const line = h("i", { class: gap > 0 ? "more" : "less" });
  line.style.width = Math.abs(gap) * 50 + "%";
  return line;
}

/** The shares of a range's values and patterns. @param {api.Ask} ask @param {AbortSignal} signal */
async function sharesOf(ask, signal) {
  const [facets, { patterns, records }] = await Promise.all([api.facets(ask, signal, VALUES), api.patterns(ask, signal)]);
  const of = Math.min(records, api.SAMPLE);
  /** @type {Map<string, Value & Share>} */
  const shares = new Map();
  /** @type {Map<string, number>} what a value that is not listed has at most */
  const most = new Map();
  const list = (/** @type {string} */ field, /** @type {{value: unknown, n: number}[]} */ values, /** @type {boolean} */ isWhole) => {
    most.set(field, isWhole ? 0 : values.at(-1)?.n ?? 0);
    for (const { value, n } of values) {
      const query = term(field, textOf(value));
      shares.set(query, { field, value: textOf(value), query, n, of, isExact: true });
    }
  };
  // Messages are compared by their patterns.
  for (const { field, distinct, values } of facets) if (field !== "message") list(field, values, distinct <= values.length);
  for (const { pattern, records: n, query } of patterns) shares.set(query, { field: "pattern", value: pattern, query, n, of: records, isExact: true });
  return { ask, records, of, shares, most, list };
}

/** Lists the fields that are listed in the other range, and have too many values for a facet here. @param {Shares} here @param {Shares} there @param {AbortSignal} signal */
async function listOthers(here, there, signal) {
  const lacking = [...there.most.keys()].filter((field) => !here.most.has(field));
  if (!lacking.length) return;
  const names = new Set((await api.fieldNames(here.ask, signal)).map(({ name }) => name));
  await Promise.all(lacking.filter((field) => names.has(field)).map(async (field) => {
    const values = await api.values(here.ask, field, signal, VALUES);
    here.list(field, values, values.length < VALUES);
  }));
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showCompare(place, signal, { state, change, range, extent }) {
  const { since2, until2, utc } = state();
  const [q] = split(state().q);
  // Before all time there is nothing: its halves are compared.
  const isHalved = state().since === "all" && !state().until && !since2 && !until2;
  const [from, to] = isHalved ? [extent()[0], extent()[1] + 1] : range();
  const begins = (/** @type {string} */ text) => dayBegin(text, Date.now(), utc);
  // Without another range, the one before, of the same length.
  const middle = isHalved ? Math.round((from + to) / 2) : from;
  const asks = [{ q, since: rfc(middle), until: rfc(to) }, { q, since: begins(since2) || rfc(isHalved ? from : 2 * from - to), until: begins(until2) || rfc(middle) }];
  const inputs = asks.flatMap(({ since, until }, at) => [["from", since], ["to", until]].map(([name, time]) =>
    h("input", { value: full(instant(time, Date.now()), utc), "aria-label": `${"AB"[at]} ${name}`, spellcheck: false })));
  const wrong = h("p.bad", { role: "alert" });
  const shown = inputs.map(({ value }) => value);
  const form = h("form.compare-form", { onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const times = inputs.map(({ value }) => parse(value, utc));
    const bad = times.indexOf(undefined);
    if (bad >= 0) return void (wrong.textContent = `${inputs[bad].getAttribute("aria-label")} is not a time: write 2026-11-21, 2026-11-21 08:00, yesterday or an age such as 2h.`);
    const [since, until, other, end] = /** @type {string[]} */ (times);
    // A range that nobody touched stays what it is: an age, or the time before A.
    const isChanged = (/** @type {number} */ at) => inputs[at].value !== shown[at] || inputs[at + 1].value !== shown[at + 1];
    change({ ...(isChanged(0) ? { since: since || "all", until } : {}), ...(isChanged(2) ? { since2: other, until2: end } : {}) });
  } }, ...["A", "B"].map((name, at) => h("span", h("b", name), inputs[2 * at], "\u2013", inputs[2 * at + 1])), h("button", { type: "submit" }, "Compare"), wrong);
  const result = h("div", h("p.note.lead", "Reading both ranges \u2026"));
  place.replaceChildren(form, result);
  const [a, b] = await Promise.all(asks.map((ask) => sharesOf(ask, signal)));
  const listed = new Map(a.most);
  await Promise.all([listOthers(a, b, signal), listOthers(b, { ...a, most: listed }, signal)]);
  const different = [...new Map([...b.shares, ...a.shares])].map(([query, value]) => {
    const [x, y] = [a, b].map(({ records, of, shares, most }) =>
      shares.get(query) ?? { n: most.get(value.field) ?? 0, of: value.field === "pattern" ? records : of, isExact: !most.get(value.field) });
    return { ...value, x, y, gap: x.n / x.of - y.n / y.of, z: Math.abs(zOf(x, y)) };
  }).filter(({ z, x, y }) => z >= SURE && Math.max(x.n, y.n) >= LEAST).sort((one, other) => Math.abs(other.gap) - Math.abs(one.gap)).slice(0, DIFFERENCES_MAX);
  result.replaceChildren(h("p.note.lead", `${isHalved ? "The two halves of all time. " : ""}The newest ${plural(a.records, "record")} of A and ${grouped(b.records)} of B, for fields ${grouped(a.of)} and ${grouped(b.of)}. Listed is a z of ${SURE} or more, which chance gives once in 15,000.`),
    different.length ? grid("Differences", [
      ["Field", ({ field }) => visible(field)],
      ["Value", ({ field, value }) => h("span.mono", ...(field === "pattern" ? marked(value) : [visible(value.slice(0, 200)) || dash()]))],
      ["A", ({ x }) => shareText(x), ({ x }) => x.n / x.of, true],
      ["B", ({ y }) => shareText(y), ({ y }) => y.n / y.of, true],
      ["Change", ({ x, y, gap }) => h("span.change", changeBar(gap), y.n ? (x.n ? (gap > 0 ? "more" : "less") : "gone") : "new"), ({ gap }) => gap],
      ["z", ({ z }) => z.toFixed(0), ({ z }) => z, true],
      ["Actions", ({ field, value, query, x }) => button("Show", () => change({ q: add(q, query), view: "records", ...(x.n ? {} : asks[1]) }), { class: "quiet", "aria-label": `Show ${visible(field)} ${visible(value.slice(0, 60))}` }), null],
    ], different) : blank(a.records && b.records ? "No difference" : "Nothing to compare", a.records && b.records ? "No share differs by more than chance." : "One of the ranges has no record: choose others."));
}
