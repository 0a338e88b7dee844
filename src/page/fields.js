// The fields beside the list: all names, and where they are few their values with their shares, one click from a filter.

import * as api from "./api.js";
import { bar, blank, button, byId, h, percent, plural, sign, textOf, visible } from "./dom.js";
import { grouped, short } from "./number.js";
import { add, has, term } from "./query.js";

/** @typedef {{field: string, records: number, distinct: number|undefined, values: {value: unknown, n: number}[], note?: string}} Field a field; one with many or long values has none of them, and no note about them, until it is opened */
/** @typedef {import("./state.js").State} State */
/** @typedef {{state: () => State, change: (change: import("./state.js").Change) => void}} Uses */

/** Fields that are shown without a search. */
const FIELDS_MAX = 40;
/** Values of a field that are shown. */
const VALUES_MAX = 10;
/** Fields that are open at first. */
const OPEN_AT_FIRST = ["level", "instance"];

/** Keys have as many values as there are records. */
const UNIQUE = ["row_key", "time", "_time", "_arrived", "message", "_msg", "line"];

export class Fields {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    this.search = h("input", { type: "search", placeholder: "Find a field", "aria-label": "Find a field", oninput: () => this.draw() });
    this.list = h("div.facets");
    byId("fields").replaceChildren(h("div.facet-search", this.search), this.list);
    /** @type {Field[]} */
    this.fields = [];
    /** Whether the names are there, and the values are not yet. */
    this.isReading = false;
    /** Records that were looked at. */
    this.sample = 0;
    this.ask = { q: "", since: "", until: "" };
    /** @type {AbortSignal|undefined} */
    this.signal = undefined;
    /** @type {Set<string>} */
    this.open = new Set(OPEN_AT_FIRST);
  }

  /** Shows the names of all fields as soon as they are known, and then their values. @param {api.Ask} ask @param {AbortSignal} signal */
  async load(ask, signal) {
    [this.ask, this.signal] = [ask, signal];
    const isFirst = !this.fields.length;
    if (isFirst) this.list.replaceChildren(h("p.note", "Reading …"));
    else this.list.classList.add("busy");
    try {
      const names = await api.fieldNames(ask, signal);
      // The name that each record has tells how many there are.
      const sample = names.reduce((most, { records }) => Math.max(most, records), 0);
      this.isReading = isFirst;
      if (isFirst) this.set(sample, names, []);
      const facets = await api.facets(ask, signal, VALUES_MAX);
      this.isReading = false;
      // Records may have come since the names were read. A record has at most one value of a field.
      const most = facets.reduce((most, { values }) => Math.max(most, values.reduce((sum, { n }) => sum + n, 0)), sample);
      this.set(most, names, facets);
    } catch (error) {
      if (signal.aborted) return;
      this.list.replaceChildren(blank("No fields", /** @type {Error} */ (error).message, button("Try again", () => this.load(ask, signal))));
    } finally {
      if (!signal.aborted) this.list.classList.remove("busy");
    }
  }

  /** @param {number} sample @param {{name: string, records: number}[]} names @param {api.Facet[]} facets */
  set(sample, names, facets) {
    const known = new Map(facets.map((facet) => [facet.field, facet]));
    const rank = (/** @type {Field} */ { field, records, distinct }) => (OPEN_AT_FIRST.indexOf(field) + 1 || 99) + Number(distinct === undefined) - records * 1e-9;
    this.sample = sample;
    this.fields = names.filter(({ name }) => !UNIQUE.includes(name)).map(({ name, records }) => known.get(name) ?? { field: name, records, distinct: undefined, values: [] }).sort((a, b) => rank(a) - rank(b));
    this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.fields.filter(({ field }) => field.toLowerCase().includes(wanted));
    const rest = found.length - FIELDS_MAX;
    this.list.replaceChildren(
      ...found.slice(0, FIELDS_MAX).map((field) => this.field(field)),
      rest > 0 ? h("p.note", `${plural(rest, "more field")}: search above.`) : "",
      found.length ? "" : h("p.note", this.fields.length ? "No field has this in its name." : "No fields here."),
      this.fields.length ? h("p.note", this.sample >= api.SAMPLE ? `Shares are of the newest ${plural(this.sample, "record")}.` : `Shares are of ${plural(this.sample, "record")}.`) : "",
    );
  }

  /** @param {Field} field */
  field(field) {
    const { state, change } = this.uses;
    const name = visible(field.field);
    const isColumn = state().cols.includes(field.field);
    const column = sign(isColumn ? "\u2212" : "+", columnWords(name, isColumn), () => {
      change({ cols: toggled(state().cols, field.field) });
      this.draw();
    });
    const isFew = field.distinct !== undefined;
    const items = h("ul");
    this.fill(items, field);
    const details = h("details", { open: this.open.has(field.field), ontoggle: () => {
      this.open[details.open ? "add" : "delete"](field.field);
      if (details.open && !isFew && !field.note && !this.isReading) this.many(field, items);
    } },
      h("summary", { title: name }, h("span.name", { dir: "auto" }, name), h("span.many", isFew ? { title: grouped(field.distinct) } : { title: "More than 1,000 values, or long ones" }, isFew ? short(field.distinct ?? 0) : this.isReading ? "" : "many")), items);
    return h("div.facet", details, column);
  }

  /** @param {HTMLElement} items @param {Field} field */
  fill(items, field) {
    items.replaceChildren(...field.values.map(({ value, n }) => this.value(field, textOf(value), n)), field.note ? h("li", h("p.note", field.note)) : "");
  }

  /** Asks for the most frequent values of a field that has many. @param {Field} field @param {HTMLElement} items */
  async many(field, items) {
    items.replaceChildren(h("li", h("p.note", "Reading …")));
    try {
      const values = await api.values(this.ask, field.field, this.signal, VALUES_MAX);
      field.values = values.filter(({ n }) => n > 1);
      field.note = field.values.length ? "The most frequent of many." : "Each value is there once.";
      this.fill(items, field);
    } catch (error) {
      if (!this.signal?.aborted) items.replaceChildren(h("li", h("p.note", /** @type {Error} */ (error).message)));
    }
  }

  /** @param {Field} field @param {string} value @param {number} n */
  value({ field, records }, value, n) {
    const { state, change } = this.uses;
    const [filter, name] = [term(field, value), visible(field)];
    const shown = visible(value === "" ? "\u2013" : value.slice(0, 200));
    const share = this.sample ? n / this.sample : 0;
    const only = h("button", {
      type: "button", class: "only", "aria-pressed": has(state().q, filter), title: shown,
      onclick: () => change({ q: add(state().q, filter) }),
    }, bar(share), h("span.value", { dir: "auto" }, shown), h("span.many", { title: plural(n, "record") + (records < this.sample ? `, ${percent(n / records)} of those with this field` : "") }, percent(share)), h("span.unseen", `only ${name}`));
    const not = sign("\u2260", `Without ${name} ${shown}`, () => change({ q: add(state().q, filter, true) }));
    return h("li", only, not);
  }
}

/** The columns with one more, or without it. @param {string[]} cols @param {string} name */
export const toggled = (cols, name) => (cols.includes(name) ? cols.filter((col) => col !== name) : [...cols, name]);

/** @param {string} name @param {boolean} isColumn */
export const columnWords = (name, isColumn) => (isColumn ? `Remove the column ${name}` : `Show ${name} as a column`);
