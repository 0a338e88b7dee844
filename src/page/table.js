// Rows of a query with pipes: a table, and a chart where there are groups of time and a number.

import { bar, blank, button, colours, grid, h, plural, textOf, visible } from "./dom.js";
import { axis, paint } from "./histogram.js";
import { Digits } from "./json.js";
import { approximately, compareNumbers, grouped, isNumber } from "./number.js";
import { full } from "./time.js";

/** @typedef {import("./api.js").Row} Row */

/** Rows that are shown. */
const ROWS_MAX = 1000;
/** Lines of a chart. */
const LINES = 12;
const CHART_HEIGHT = 160;

/** @param {string} name */
const isTime = (name) => name === "_time" || name === "time";

/** Whether a value is no number that could be drawn, but may stand among numbers. @param {unknown} value */
const hasNoNumber = (value) => value === undefined || value === null || value === "NaN" || value === "Infinity" || value === "-Infinity";

/**
 * Shows rows, sorted by the column that a person chooses.
 * @param {HTMLElement} place @param {import("./api.js").Result} result @param {boolean} utc @param {(name: string, value: unknown) => void} filter
 */
export function showTable(place, { rows, groups, step_seconds }, utc, filter) {
  if (!rows.length) return place.replaceChildren(blank("No rows", "Nothing in this range matches the query before its first pipe."));
  const columns = [...new Set(rows.slice(0, ROWS_MAX).flatMap(Object.keys))];
  const isValue = (/** @type {string} */ name) => !groups.includes(name) && !isTime(name) && rows.every((row) => hasNoNumber(row[name]) || isNumber(row[name]));
  const values = columns.filter((name) => isValue(name) && rows.some((row) => !hasNoNumber(row[name])));
  const most = new Map(values.map((name) => [name, rows.reduce((most, row) => Math.max(most, approximately(row[name]) || 0), 0)]));
  let [by, down] = ["", true];
  const box = h("div");
  const draw = () => {
    const sorted = by ? rows.toSorted((a, b) => compare(a[by], b[by]) * (down ? -1 : 1)) : rows;
    box.replaceChildren(grid("Rows", columns.map((name) => button(visible(name) + (name !== by ? "" : down ? " \u2193" : " \u2191"), () => {
      [by, down] = [name, by === name ? !down : true];
      draw();
    })), sorted.slice(0, ROWS_MAX).map((row) => columns.map((name) => {
      const value = row[name];
      if (values.includes(name)) return h("span", bar(Math.max(0, approximately(value) || 0) / (most.get(name) || 1)), h("span", shown(value)));
      if (isTime(name) && typeof value === "string") return full(Date.parse(value), utc);
      return button(visible(textOf(value).slice(0, 500)) || "\u00a0", () => filter(name, value), { class: "cell", title: "Only this value" });
    })), values.map((name) => columns.indexOf(name))));
  };
  draw();
  const time = groups.find(isTime);
  place.replaceChildren(
    time && values.length ? chart(linesOf(rows, time, groups.filter((name) => name !== time), values, approximately(step_seconds) * 1000), utc) : "", box,
    rows.length > ROWS_MAX ? h("p.note", `The first ${ROWS_MAX} of ${plural(rows.length, "row")}. Share has an export of all.`) : "");
}

/** A number in groups of three; a text as it is. @param {unknown} value */
const shown = (value) => (typeof value === "number" || value instanceof Digits ? grouped(value) : textOf(value));

/** @param {unknown} a @param {unknown} b */
const compare = (a, b) => (isNumber(a) && isNumber(b) ? compareNumbers(a, b) : textOf(a).localeCompare(textOf(b)));

/** @typedef {[number, number]} Point a time and a value */
/** @typedef {{name: string, parts: Point[][], sum: number}} Line points that belong together, with gaps between the parts */

/**
 * A line for each group and each function. Where a step has no value, the line has a gap.
 * @param {Row[]} rows @param {string} time @param {string[]} groups @param {string[]} values @param {number} step milliseconds, or NaN
 * @returns {Line[]}
 */
export function linesOf(rows, time, groups, values, step) {
  /** @type {Map<string, Point[]>} */
  const lines = new Map();
  for (const value of values) {
    for (const row of rows) {
      if (hasNoNumber(row[value]) || hasNoNumber(row[time])) continue;
      const names = groups.map((field) => textOf(row[field]) || "(none)");
      const key = JSON.stringify([...names, value]);
      const line = lines.get(key) ?? [];
      line.push([Date.parse(row[time]), approximately(row[value])]);
      lines.set(key, line);
    }
  }
  return [...lines].map(([key, line]) => {
    /** @type {string[]} */
    const names = JSON.parse(key);
    const name = (values.length > 1 || names.length === 1 ? names : names.slice(0, -1)).join(" ");
    /** @type {Point[][]} */
    const parts = [];
    for (const point of line.sort((a, b) => a[0] - b[0])) {
      const last = parts.at(-1)?.at(-1);
      // Steps of the calendar differ in length, but not by half of it.
      if (last && point[0] - last[0] < step * 1.5) parts.at(-1)?.push(point);
      else parts.push([point]);
    }
    return { name, parts, sum: line.reduce((sum, [, y]) => sum + Math.abs(y), 0) };
  }).sort((a, b) => b.sum - a.sum);
}

/** @param {Line[]} lines @param {boolean} utc */
function chart(lines, utc) {
  const shown = lines.slice(0, LINES);
  const points = shown.flatMap(({ parts }) => parts.flat());
  const [from, to] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
  const [least, most] = [Math.min(0, ...points.map(([, y]) => y)), Math.max(0, ...points.map(([, y]) => y))];
  const gaps = shown.reduce((sum, { parts }) => sum + parts.length - 1, 0);
  const words = `${shown[0].name} over time, ${plural(lines.length, "line")}, ${plural(gaps, "gap")}; the table below has the numbers`;
  const canvas = h("canvas", { role: "img", "aria-label": words });
  const legend = h("div.legend", ...shown.map(({ name }, at) => h("span", { class: "line-" + (at % 6) }, h("i"), visible(name.slice(0, 60)))), lines.length > LINES ? h("span", `and ${lines.length - LINES} more`) : "");
  const plot = h("div.plot.chart", canvas);
  const colour = colours(plot);
  const draw = () => {
    const width = plot.clientWidth;
    if (!width) return;
    const context = paint(canvas, width, CHART_HEIGHT + 16);
    const x = (/** @type {number} */ ms) => (to > from ? ((ms - from) / (to - from)) * (width - 4) + 2 : width / 2);
    const y = (/** @type {number} */ n) => CHART_HEIGHT - 2 - ((n - least) / (most - least || 1)) * (CHART_HEIGHT - 16);
    axis(context, colour, from, Math.max(to, from + 1), width, CHART_HEIGHT, utc);
    context.fillText(grouped(most), 2, 0);
    if (least < 0) {
      context.fillText(grouped(least), 2, CHART_HEIGHT - 14);
      context.fillRect(0, y(0), width, 1);
    }
    context.lineWidth = 1.5;
    shown.forEach(({ parts }, at) => {
      context.fillStyle = context.strokeStyle = colour("line-" + (at % 6));
      context.setLineDash(at < 6 ? [] : [4, 3]);
      for (const part of parts) {
        context.beginPath();
        // A step between gaps is a dot.
        if (part.length === 1) context.arc(x(part[0][0]), y(part[0][1]), 2, 0, 2 * Math.PI);
        else part.forEach(([ms, n], i) => context[i ? "lineTo" : "moveTo"](x(ms), y(n)));
        context[part.length === 1 ? "fill" : "stroke"]();
      }
    });
  };
  new ResizeObserver(draw).observe(plot);
  return h("div.chart-box", plot, legend);
}
