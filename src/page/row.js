// A row of the list: its cells, what its fields say behind the message, and its further lines where it is open.

import { dash, h, isBlank, plural, textOf, visible } from "./dom.js";
import { levelClass } from "./histogram.js";
import { fieldsOf, instanceOf } from "./rows.js";
import { quoted } from "./telling.js";
import { inRow } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {import("./dom.js").Child} Child */
/**
 * @typedef {object} RowUse how a row is shown
 * @property {boolean} utc
 * @property {import("./time.js").DateForm} dates
 * @property {boolean} isWrapped
 * @property {boolean} isOpen whether its further lines are shown
 * @property {boolean} isSelected
 * @property {string[]} cells the columns that a person chose
 * @property {[string, unknown][]} fields those behind the message
 * @property {RegExp|undefined} marks what is searched for
 * @property {() => void} open shows the record
 * @property {() => void} toggle shows the further lines, or hides them
 */

/** Characters of a line, and of all fields behind it, that a row shows. */
const LINE_CUT = { nowrap: 600, wrap: 6000 };
/** Characters of further lines that an open row shows. */
const OPEN_CUT = 20000;

/** A text within a length. @param {string} text @param {number} most */
const cutTo = (text, most) => (text.length > most ? text.slice(0, most) + " \u2026" : text);

/** The message without the lines after its first, those lines, and the fields that have several lines. @param {Row} row */
export function linesIn(row) {
  const message = textOf(row.message ?? row.line).trimEnd();
  const end = message.indexOf("\n");
  const texts = fieldsOf(row).filter(([, value]) => typeof value === "string" && value.trimEnd().includes("\n"));
  return { first: (end < 0 ? message : message.slice(0, end)).trimEnd(), rest: end < 0 ? "" : message.slice(end + 1), texts };
}

/** The lines of a text. @param {string} text */
const linesOfText = (text) => text.trimEnd().split("\n").length;

/** Of further lines the one that says most: the first that is not indented and does not only announce others, such as the exception of a trace. @param {string} rest */
const headline = (rest) => /^\S.*[^:\s]\s*$/m.exec(rest)?.[0].trimEnd() ?? "";

/** @param {number} at @param {Row} row @param {RowUse} use */
export function rowElement(at, row, use) {
  const { isWrapped, isOpen, marks } = use;
  const text = (/** @type {string} */ text) => (marks ? visible(text).split(marks).map((part, i) => (i % 2 ? h("mark", part) : part)) : [visible(text)]);
  const cell = (/** @type {unknown} */ value, kind = "") => {
    const whole = textOf(value);
    return h("div", { role: "gridcell", class: "cell " + kind, dir: "auto", title: kind ? undefined : visible(whole.slice(0, 2000)) }, isBlank(value) ? dash(value) : visible(whole.slice(0, 200)));
  };
  return h("div", {
    role: "row", id: "row-" + at, class: `row ${levelClass(row.level)}${isOpen ? " open" : ""}`, "aria-rowindex": at + 2, "aria-selected": use.isSelected, onclick: use.open,
  }, h("div", { role: "gridcell", class: "cell time", title: row.time }, inRow(row.time, use.utc, use.dates)), cell(row.level, "level"), cell(instanceOf(row), "instance"), ...use.cells.map((name) => cell(row[name])),
    h("div", { role: "gridcell", class: "cell message", dir: "auto" }, ...(isWrapped ? wrapped() : oneLine())));

  function wrapped() {
    return [h("bdi", ...text(cutTo(textOf(row.message ?? row.line), LINE_CUT.wrap))), ...fields(LINE_CUT.wrap)];
  }

  /** @returns {Child[]} */
  function oneLine() {
    const { first, rest, texts } = linesIn(row);
    const shown = cutTo(first, LINE_CUT.nowrap);
    // Text from right to left turns nothing beside it around.
    const begin = h("bdi", ...text(shown));
    if (!rest && !texts.length) return [begin, ...fields(LINE_CUT.nowrap - shown.length)];
    const further = (rest ? linesOfText(rest) : 0) + texts.reduce((sum, [, value]) => sum + linesOfText(textOf(value)), 0);
    const toggle = h("button", { class: "further", "aria-expanded": isOpen, title: `${isOpen ? "Hide" : "Show"} the further lines (o)`, onclick: (/** @type {Event} */ event) => {
      event.stopPropagation();
      use.toggle();
    } }, `${isOpen ? "\u25be" : "\u25b8"} ${plural(further, "line")}`);
    const blocks = [...(rest ? [text(cutTo(rest.trimEnd(), OPEN_CUT))] : []), ...texts.map(([name, value]) => [h("i", visible(name) + "=\n"), ...text(cutTo(textOf(value).trimEnd(), OPEN_CUT))])];
    return [begin, toggle, isOpen ? "" : h("bdi.headline", ...text(cutTo(headline(rest || textOf(texts[0]?.[1])), LINE_CUT.nowrap))),
      ...fields(LINE_CUT.nowrap - shown.length), ...(isOpen ? blocks.map((block) => h("div.stack", { dir: "auto" }, ...block)) : [])];
  }

  /** @param {number} room characters */
  function fields(room) {
    const all = [];
    for (const [name, value] of use.fields) {
      const shown = quoted(value);
      // Further lines have a place of their own.
      if (!isWrapped && shown.includes("\n")) continue;
      room -= name.length + shown.length + 2;
      if (room < 0 && all.length) break;
      all.push(" ", h("bdi.pair", h("i", visible(name) + "="), ...text(cutTo(shown, 200))));
    }
    return all;
  }
}
