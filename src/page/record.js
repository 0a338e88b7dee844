// One record: its fields, its line as written, its place, and the records around it.

import * as api from "./api.js";
import { button, byId, copy, dash, h, isEmpty, plural, sign, size, textOf, toast, visible } from "./dom.js";
import { columnWords, toggled } from "./fields.js";
import { levelClass } from "./histogram.js";
import { stringify } from "./json.js";
import { grouped } from "./number.js";
import { add, shell, term } from "./query.js";
import { fieldsOf, instanceOf, keyOf } from "./rows.js";
import { address } from "./state.js";
import { full, inRow } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void, move: (by: number) => void, close: () => void, open: (row: Row) => void}} Uses */

/** Characters of a value that are shown at first. */
const VALUE_CUT = 4000;
/** Fields that are shown at first. */
const FIELDS = 200;
/** Records around one. */
const AROUND = 10;

/** Copies the line of a record as it was written. @param {Row} row */
export async function copyLine(row) {
  try {
    await copy(await api.written(keyOf(row)), "Line");
  } catch (error) {
    toast(`The line cannot be read: ${/** @type {Error} */ (error).message}`);
  }
}

export class RecordView {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    this.panel = byId("record");
    /** @type {Row|undefined} */
    this.row = undefined;
    this.around = h("div.around");
    this.abort = new AbortController();
  }

  hide() {
    this.panel.hidden = true;
    this.row = undefined;
    this.abort.abort();
  }

  /** @param {Row} row */
  show(row) {
    const { uses } = this;
    const { utc } = uses.state();
    if (this.row && keyOf(this.row) === keyOf(row) && !this.panel.hidden) return;
    const scroll = this.panel.scrollTop;
    this.row = row;
    this.abort.abort();
    const key = keyOf(row);
    const time = Date.parse(row.time);
    // Until the line is there, the begin of the message.
    const line = h("div", h("pre", { dir: "auto" }, visible(String(row.message ?? "").slice(0, VALUE_CUT))));
    const lineNote = h("span");
    this.around.replaceChildren(button("Show the records around it", () => this.context(), { title: "c" }));
    const fields = fieldsOf(row);
    const body = h("tbody", { role: "rowgroup" }, ...fields.slice(0, FIELDS).map(([name, value]) => this.field(name, value)));
    const rest = fields.slice(FIELDS);
    const link = location.origin + address({ ...uses.state(), q: "", since: "", until: "", key, cols: [], view: "records" });
    const ledger = h("dd", "…");
    this.panel.replaceChildren(
      h("div.record-head",
        h("h2", row.level ? h("span", { class: "chip " + levelClass(row.level) }, row.level) : "", h("time", { dateTime: row.time, title: row.time }, Number.isNaN(time) ? String(row.time) : full(time, utc) + inRow(row.time, utc, "").slice(8))),
        sign("\u2191", "Newer record (k)", () => uses.move(-1)), sign("\u2193", "Older record (j)", () => uses.move(1)), sign("\u2715", "Close the record (Escape)", uses.close)),
      section("Line", [lineNote, ["Copy", () => copyLine(row)]], line),
      section("Fields", [String(fields.length + 2), ["Copy as JSON", () => copy(stringify(row, "  "), "Record")]],
        pairs((/** @type {[string, unknown][]} */ ([["instance", instanceOf(row)], ["level", row.level]])).map(([name, value]) => this.field(name, value)), body),
        rest.length ? button(`Show ${plural(rest.length, "more field")}`, (event) => {
          body.append(...rest.map(([name, value]) => this.field(name, value)));
          /** @type {HTMLElement} */ (event.target).remove();
        }) : ""),
      section("Place", ["", ["Copy link", () => copy(link, "Link")], ["Copy command", () => copy(`daytable query --key ${shell(key)}`, "Command")]],
        h("dl", h("dt", "Source"), h("dd", { dir: "auto" }, row.source ? visible(textOf(row.source)) : dash()), h("dt", "Losses"), ledger,
          h("dt", "Table"), h("dd", row.table), h("dt", "Key"), h("dd.mono", h("a", { href: link }, key)))),
      section("Around it", [""], this.around));
    this.panel.hidden = false;
    this.panel.scrollTop = scroll;
    this.line(row, line, lineNote);
    this.ledger(row, ledger);
  }

  /** Shows the line as it was written, in the place of the message. @param {Row} row @param {HTMLElement} place @param {HTMLElement} note */
  async line(row, place, note) {
    try {
      const line = await api.written(keyOf(row));
      place.replaceChildren(long(line, "pre"));
      note.textContent = size(new Blob([line]).size);
    } catch (error) {
      place.replaceChildren(long(String(row.message ?? ""), "pre"));
      note.textContent = `only the message: ${/** @type {Error} */ (error).message}`;
    }
  }

  /** A row of the table of fields. @param {string} name @param {unknown} value */
  field(name, value) {
    const { state, change } = this.uses;
    const filter = term(name, value);
    const shown = visible(name);
    const act = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick) => button(text, onclick, { class: "quiet", "aria-label": title, title });
    const isColumn = () => state().cols.includes(name);
    const column = act(isColumn() ? "No column" : "Column", columnWords(shown, isColumn()), () => {
      change({ cols: toggled(state().cols, name) });
      column.textContent = isColumn() ? "No column" : "Column";
      column.ariaLabel = column.title = columnWords(shown, isColumn());
    });
    return pair(shown, value,
      act("Only", `Only this ${shown}`, () => change({ q: add(state().q, filter) })), act("Not", `Not this ${shown}`, () => change({ q: add(state().q, filter, true) })), column,
      isEmpty(value) ? "" : act("Any time", `This ${shown} at any time`, () => change({ q: filter, since: "all", until: "" })));
  }

  /** Loads the records around the shown one. @param {"source"|"instance"} [of] */
  async context(of = "source") {
    const { row } = this;
    if (!row) return;
    const abort = (this.abort = new AbortController());
    this.around.replaceChildren(h("p.note", "Reading …"));
    try {
      const rows = await api.around(keyOf(row), AROUND, abort.signal, of);
      const { utc } = this.uses.state();
      const [others, words] = /** @type {["source"|"instance", string]} */ (of === "source" ? ["instance", "Those of the whole instance"] : ["source", "Those of the same source"]);
      this.around.replaceChildren(button(words, () => this.context(others), { class: "quiet" }), h("ol", ...rows.map((other) => {
        const isThis = keyOf(other) === keyOf(row);
        return h("li", { "aria-current": isThis ? "true" : undefined }, h("button", { onclick: () => this.uses.open(other) },
          h("time", inRow(other.time, utc, "")), h("span", { class: levelClass(other.level), dir: "auto" }, visible(String(other.message).slice(0, 300)))));
      })));
      this.around.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (abort.signal.aborted) return;
      this.around.replaceChildren(h("p.note", /** @type {Error} */ (error).message, " "), button("Try again", () => this.context(of)));
    }
  }

  /** What the ledger knows of the record's source. @param {Row} row @param {HTMLElement} place */
  async ledger(row, place) {
    try {
      const source = (await api.sources()).find((source) => source.path === row.source || source.listener === row.source || source.listen === row.source);
      const losses = source ? lossesOf(source) : [];
      place.textContent = !source ? "none: a push is acknowledged once it is stored" : losses.map(([reason, n]) => `${reason} ${grouped(n)}`).join(", ") || `nothing lost of ${plural(source.records, "record")}`;
      place.className = losses.length ? "bad" : "";
    } catch {
      place.textContent = "not known at the moment";
    }
  }
}

/** Losses in a ledger: reasons with their numbers. @param {Row} source @returns {[string, number][]} */
export function lossesOf(source) {
  const names = { lost_records: "lost records", lost_bytes: "lost bytes", truncated_records: "cut records", invalid_utf8_records: "not UTF-8" };
  const own = Object.entries(names).flatMap(([member, name]) => (source[member] ? [/** @type {[string, number]} */ ([name, source[member]])] : []));
  return [...own, ...Object.entries(/** @type {Record<string, number>} */ (source.losses ?? {})).filter(([, n]) => n > 0)];
}

/** A table of names and values. @param {Node[]} rows @param {Node} [more] another body of it */
export const pairs = (rows, more) => h("table.pairs", { role: "table" }, h("tbody", { role: "rowgroup" }, ...rows), more);

/** A row of such a table: a name, its value beside it, and what may be done with it. @param {string} name @param {unknown} value @param {(Node|string)[]} acts */
export const pair = (name, value, ...acts) => h("tr", { role: "row" }, h("th", { role: "rowheader", scope: "row", dir: "auto" }, name),
  h("td", { role: "cell", dir: "auto" }, isEmpty(value) ? dash() : long(textOf(value), "span")), acts.length ? h("td.acts", { role: "cell" }, ...acts) : "");

/** A part of the panel: its name, a note, buttons. @param {string} name @param {[Node|string, ...[string, () => void][]]} head @param {(Node|string)[]} children */
export const section = (name, [note, ...acts], ...children) => h("section", { "aria-label": name },
  h("div.section-head", h("h3", name), h("span.note", note), ...acts.map(([text, act]) => button(text, act, { class: "quiet" }))), ...children);

/** Text that may be long: its begin, and a button for the rest. @param {string} text @param {"pre"|"span"} tag */
function long(text, tag) {
  const element = h(tag, { dir: "auto" }, visible(text.slice(0, VALUE_CUT)));
  if (text.length <= VALUE_CUT) return element;
  const more = button(`… ${size(text.length - VALUE_CUT)} more`, () => element.replaceChildren(visible(text)));
  element.append(more);
  return element;
}
