// The fields beside the list: top values with their shares, one click from a filter.

import * as api from "./api.js";
import { bar, blank, button, byId, h, percent, plural, sign, textOf, visible } from "./dom.js";
import { grouped, short } from "./number.js";
import { add, has, term } from "./query.js";

/** @typedef {import("./api.js").Facet} Facet */
/** @typedef {import("./state.js").State} State */
/** @typedef {{state: () => State, change: (change: import("./state.js").Change) => void}} Uses */

/** Fields that are shown without a search. */
const FIELDS_MAX = 40;
/** Fields that are open at first. */
const OPEN_AT_FIRST = ["level", "instance"];

/** Keys have as many values as there are records. */
const UNIQUE = ["row_key", "time", "_time", "message", "_msg", "line"];

export class Fields {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    this.search = h("input", { type: "search", placeholder: "Find a field", "aria-label": "Find a field", oninput: () => this.draw() });
    this.list = h("div.facets");
    byId("fields").replaceChildren(h("div.facet-search", this.search), this.list);
    /** @type {Facet[]} */
    this.facets = [];
    /** @type {Set<string>} */
    this.open = new Set(OPEN_AT_FIRST);
  }

  /** @param {api.Ask} ask @param {AbortSignal} signal */
  async load(ask, signal) {
    if (this.facets.length) this.list.classList.add("busy");
    else this.list.replaceChildren(h("p.note", "Reading …"));
    try {
      const facets = await api.facets(ask, signal, 10);
      const rank = (/** @type {Facet} */ facet) => (OPEN_AT_FIRST.indexOf(facet.field) + 1 || 99) - facet.records * 1e-9;
      this.facets = facets.filter((facet) => !UNIQUE.includes(facet.field)).sort((a, b) => rank(a) - rank(b));
      this.draw();
    } catch (error) {
      if (signal.aborted) return;
      this.list.replaceChildren(blank("No fields", /** @type {Error} */ (error).message, button("Try again", () => this.load(ask, signal))));
    } finally {
      if (!signal.aborted) this.list.classList.remove("busy");
    }
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.facets.filter((facet) => facet.field.toLowerCase().includes(wanted));
    const rest = found.length - FIELDS_MAX;
    this.list.replaceChildren(
      ...found.slice(0, FIELDS_MAX).map((facet) => this.facet(facet)),
      rest > 0 ? h("p.note", `${plural(rest, "more field")}: search above.`) : "",
      found.length ? "" : h("p.note", this.facets.length ? "No field has this in its name." : "No fields here."),
      this.facets.some(({ records }) => records >= api.SAMPLE) ? h("p.note", `Of the newest ${grouped(api.SAMPLE)} records.`) : "",
    );
  }

  /** @param {Facet} facet */
  facet(facet) {
    const { state, change } = this.uses;
    const name = visible(facet.field);
    const isColumn = state().cols.includes(facet.field);
    const column = sign(isColumn ? "\u2212" : "+", columnWords(name, isColumn), () => {
      change({ cols: toggled(state().cols, facet.field) });
      this.draw();
    });
    const details = h("details", { open: this.open.has(facet.field), ontoggle: () => this.open[details.open ? "add" : "delete"](facet.field) },
      h("summary", { title: name }, h("span.name", { dir: "auto" }, name), h("span.many", { title: grouped(facet.distinct) }, short(facet.distinct))),
      h("ul", ...facet.values.map(({ value, n }) => this.value(facet, textOf(value), n))));
    return h("div.facet", details, column);
  }

  /** @param {Facet} facet @param {string} value @param {number} n */
  value(facet, value, n) {
    const { state, change } = this.uses;
    const [filter, name] = [term(facet.field, value), visible(facet.field)];
    const shown = visible(value === "" ? "(empty)" : value.slice(0, 200));
    const share = facet.records ? n / facet.records : 0;
    const only = h("button", {
      type: "button", class: "only", "aria-pressed": has(state().q, filter), title: shown,
      onclick: () => change({ q: add(state().q, filter) }),
    }, bar(share), h("span.value", { dir: "auto" }, shown), h("span.many", { title: plural(n, "record") }, percent(share)), h("span.unseen", `only ${name}`));
    const not = sign("\u2260", `Without ${name} ${shown}`, () => change({ q: add(state().q, filter, true) }));
    return h("li", only, not);
  }
}

/** The columns with one more, or without it. @param {string[]} cols @param {string} name */
export const toggled = (cols, name) => (cols.includes(name) ? cols.filter((col) => col !== name) : [...cols, name]);

/** @param {string} name @param {boolean} isColumn */
export const columnWords = (name, isColumn) => (isColumn ? `Remove the column ${name}` : `Show ${name} as a column`);
