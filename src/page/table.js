// Rows of a query with pipes: a table, and a chart where there is a time and a number.

import { bar, blank, button, colours, grid, h, plural, textOf, visible } from "./dom.js";
import { axis, paint } from "./histogram.js";
import { full } from "./time.js";

/** @typedef {import("./api.js").Row} Row */

/** Rows that are shown. */
const ROWS_MAX = 1000;
/** Lines of a chart. */
const LINES = 12;

/** @param {unknown} value */
const number = (value) => (typeof value === "number" ? value : typeof value === "string" && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(value) ? Number(value) : NaN);

/** @param {string} name */
const isTime = (name) => name === "_time" || name === "time";

/**
 * Shows rows, sorted by the column that a person chooses.
 * @param {HTMLElement} place @param {Row[]} rows @param {boolean} utc @param {(name: string, value: unknown) => void} filter
 */
export function showTable(place, rows, utc, filter) {
  if (!rows.length) return place.replaceChildren(blank("No rows", "Nothing in this range matches the query before its first pipe."));
  const columns = [...new Set(rows.slice(0, ROWS_MAX).flatMap(Object.keys))];
  const isNumber = (/** @type {string} */ name) => !isTime(name) && rows.every((row) => row[name] === undefined || row[name] === null || !Number.isNaN(number(row[name])));
  const numbers = columns.map((name, at) => (isNumber(name) ? at : -1));
  const most = columns.map((name) => rows.reduce((most, row) => Math.max(most, number(row[name]) || 0), 0));
  let [by, down] = ["", true];
  const box = h("div");
  const draw = () => {
    const sorted = by ? rows.toSorted((a, b) => compare(a[by], b[by]) * (down ? -1 : 1)) : rows;
    box.replaceChildren(grid("Rows", columns.map((name) => button(visible(name) + (name !== by ? "" : down ? " \u2193" : " \u2191"), () => {
      [by, down] = [name, by === name ? !down : true];
      draw();
    })), sorted.slice(0, ROWS_MAX).map((row) => columns.map((name, at) => {
      const value = row[name];
      if (numbers[at] === at) return h("span", bar((number(value) || 0) / (most[at] || 1)), h("span", shown(value)));
      if (isTime(name)) return full(Date.parse(value), utc);
      return button(visible(textOf(value).slice(0, 500)) || "\u00a0", () => filter(name, value), { class: "cell", title: "Only this value" });
    })), numbers));
  };
  draw();
  const time = columns.find(isTime);
  const value = columns.find((_, at) => numbers[at] === at);
  place.replaceChildren(
    time && value && rows.length > 1 ? chart(rows, time, value, columns.filter((name, at) => name !== time && numbers[at] < 0), utc) : "", box,
    rows.length > ROWS_MAX ? h("p.note", `The first ${ROWS_MAX} of ${plural(rows.length, "row")}. Share has an export of all.`) : "");
}

/** @param {unknown} value */
function shown(value) {
  const n = number(value);
  return Number.isNaN(n) ? textOf(value) : n.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** @param {unknown} a @param {unknown} b */
function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? textOf(a).localeCompare(textOf(b)) : x - y;
}

/** A line a group over time. @param {Row[]} rows @param {string} time @param {string} value @param {string[]} by @param {boolean} utc */
function chart(rows, time, value, by, utc) {
  /** @type {Map<string, [number, number][]>} */
  const lines = new Map();
  for (const row of rows) {
    const name = by.map((field) => textOf(row[field]) || "(none)").join(" ") || value;
    const line = lines.get(name) ?? [];
    line.push([Date.parse(row[time]), number(row[value]) || 0]);
    lines.set(name, line);
  }
  const shown = [...lines].map(([name, line]) => ({ name, line: line.sort((a, b) => a[0] - b[0]), sum: line.reduce((sum, [, y]) => sum + y, 0) })).sort((a, b) => b.sum - a.sum).slice(0, LINES);
  const times = shown.flatMap(({ line }) => line.map(([x]) => x));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const most = Math.max(...shown.flatMap(({ line }) => line.map(([, y]) => y)), 1e-9);
  const canvas = h("canvas", { role: "img", "aria-label": `${value} over time, ${plural(shown.length, "line")}; the table below has the numbers` });
  const legend = h("div.legend", ...shown.map(({ name }, at) => h("span", { class: "line-" + (at % 6) }, h("i"), visible(name.slice(0, 60)))), lines.size > LINES ? h("span", `and ${lines.size - LINES} more`) : "");
  const plot = h("div.plot.chart", canvas);
  const colour = colours(plot);
  const draw = () => {
    const [width, height] = [plot.clientWidth, 160];
    if (!width) return;
    const context = paint(canvas, width, height + 16);
    const x = (/** @type {number} */ ms) => ((ms - from) / (to - from || 1)) * width;
    const y = (/** @type {number} */ n) => height - (n / most) * (height - 14);
    axis(context, colour, from, to, width, height, utc);
    context.fillText(most.toLocaleString("en-US", { maximumFractionDigits: 2 }), 2, 0);
    context.lineWidth = 1.5;
    shown.forEach(({ line }, at) => {
      context.strokeStyle = colour("line-" + (at % 6));
      context.setLineDash(at < 6 ? [] : [4, 3]);
      context.beginPath();
      line.forEach(([ms, n], i) => context[i ? "lineTo" : "moveTo"](x(ms), y(n)));
      context.stroke();
    });
  };
  new ResizeObserver(draw).observe(plot);
  return h("div.chart-box", plot, legend);
}
