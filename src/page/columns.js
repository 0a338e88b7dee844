// The columns of the list: their heads, their widths, and those that a person chose for the records of a source.

import { h, sign, visible } from "./dom.js";
import { columnWords, toggled } from "./fields.js";
import { keep, kept } from "./state.js";

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change, replace?: boolean) => void}} Uses */
/** @typedef {{name: string, head: string, width: string, isChosen: boolean}} ListColumn */

/** Sources whose columns are kept, and columns whose width is. */
const KEPT_MAX = 200;
/** Characters of a column that nobody resized, at least and at most. */
const CHARS = { least: 6, most: 32 };
/** Pixels of a column at least, at most, and that an arrow changes. */
const WIDTH = { least: 32, most: 1200, step: 16 };

/** Columns that were chosen, by source; that of records of several sources is empty. @returns {Map<string, string[]>} */
function keptColumns() {
  return new Map(kept("columns").flatMap((text) => {
    try {
      const [source, ...columns] = JSON.parse(text).map(String);
      return [[source, columns]];
    } catch {
      return [];
    }
  }));
}

/** The columns that were chosen for a source; undefined if none ever were. @param {string} source */
export const recall = (source) => keptColumns().get(source);

/** @param {string} source @param {string[]} columns */
export function remember(source, columns) {
  const others = [...keptColumns()].filter(([other]) => other !== source);
  keep("columns", [[source, columns], ...others].slice(0, KEPT_MAX).map(([source, columns]) => JSON.stringify([source, ...columns])));
}

/** Widths that were chosen, in pixels, by column. */
const keptWidths = () => new Map(kept("widths").map((text) => /** @type {[string, number]} */ ([text.replace(/^\d+ /, ""), parseInt(text, 10)])));

export class Columns {
  /** @param {HTMLElement} scroller @param {HTMLElement} heads @param {Uses} uses */
  constructor(scroller, heads, uses) {
    this.scroller = scroller;
    this.heads = heads;
    this.uses = uses;
    this.widths = keptWidths();
    /** @type {ListColumn[]} */
    this.columns = [];
  }

  /** Shows the heads. On a narrow screen, a row is two lines, and the chosen columns stand in the second. @param {import("./time.js").DateForm} dates @param {boolean} isNarrow @param {(name: string) => number} chars those of the longest value */
  layout(dates, isNarrow, chars) {
    const { cols } = this.uses.state();
    const widthOf = (/** @type {string} */ name, /** @type {number} */ head, /** @type {number} */ most) => Math.min(most, Math.max(head, chars(name) + 1)) + "ch";
    this.columns = [
      { name: "time", head: "Time", width: { "": 12.5, day: 19.5, year: 23.5 }[dates] + "ch", isChosen: false }, { name: "level", head: "Level", width: "8ch", isChosen: false }, { name: "instance", head: "Instance", width: widthOf("instance", 10, 16), isChosen: false },
      ...(isNarrow ? [] : cols.map((name) => ({ name, head: visible(name), width: widthOf(name, Math.max(CHARS.least, name.length + 4), CHARS.most), isChosen: true }))),
    ];
    this.scroller.classList.toggle("two-lines", isNarrow);
    this.size();
    this.heads.replaceChildren(...this.columns.map((column) => this.head(column)), h("div", { role: "columnheader", class: "cell" }, "Message"));
    this.scroller.setAttribute("aria-colcount", String(this.columns.length + 1));
  }

  size() {
    const width = (/** @type {ListColumn} */ { name, width }) => (this.widths.has(name) ? this.widths.get(name) + "px" : width);
    this.scroller.style.setProperty("--columns", this.columns.map(width).join(" ") + " minmax(20rem, 1fr)");
  }

  /** @param {ListColumn} column */
  head({ name, head, isChosen }) {
    const { state, change } = this.uses;
    const edge = h("span.edge", { role: "separator", tabIndex: 0, "aria-orientation": "vertical", "aria-label": `Width of ${head}`, "aria-valuemin": String(WIDTH.least), "aria-valuemax": String(WIDTH.most), title: "Drag, or arrows; a double click for the first width" });
    const cell = h("div", { role: "columnheader", class: "cell", dir: "auto" }, h("span.head", head), isChosen ? sign("\u2715", columnWords(head, true), () => change({ cols: toggled(state().cols, name) })) : "", edge);
    const set = (/** @type {number} */ width) => {
      const round = Math.round(Math.min(WIDTH.most, Math.max(WIDTH.least, width)));
      this.widths.delete(name);
      this.widths.set(name, round);
      edge.setAttribute("aria-valuenow", String(round));
      this.size();
    };
    const save = () => keep("widths", [...this.widths].slice(-KEPT_MAX).map(([name, width]) => `${width} ${name}`));
    edge.setAttribute("aria-valuenow", String(this.widths.get(name) ?? Math.round(parseFloat(this.columns.find((column) => column.name === name)?.width ?? "8") * 7.2)));
    edge.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      edge.setPointerCapture(event.pointerId);
      const [from, width] = [event.clientX, cell.getBoundingClientRect().width];
      const move = (/** @type {PointerEvent} */ event) => set(width + event.clientX - from);
      edge.addEventListener("pointermove", move);
      edge.addEventListener("lostpointercapture", () => {
        edge.removeEventListener("pointermove", move);
        save();
      }, { once: true });
    });
    edge.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -WIDTH.step, ArrowRight: WIDTH.step }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      set(cell.getBoundingClientRect().width + by);
      save();
    });
    edge.addEventListener("dblclick", () => {
      this.widths.delete(name);
      this.size();
      save();
    });
    return cell;
  }
}
