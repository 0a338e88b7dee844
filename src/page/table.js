// Rows of a query with pipes: a table, and a chart where there are groups of time and a number.

import { bar, button, colours, dash, grid, h, isBlank, isEmpty, plural, textOf, visible } from "./dom.js";
import { axis, barOf, levelClass, LEVELS, paint, scaleOf } from "./histogram.js";
import { Digits } from "./json.js";
import { approximately, grouped, isNumber } from "./number.js";
import { full } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change, replace?: boolean) => void, filter: (name: string, value: unknown) => void, zoom: (time: number, step: number) => void}} Uses */

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
 * Shows rows, of which there is one at least, sorted by the column that a person chooses. A cell of a group filters, and one of a time shows its step.
 * @param {HTMLElement} place @param {import("./api.js").Result} result @param {Uses} uses
 * @returns {() => void} draws the chart anew
 */
export function showTable(place, { rows, groups, filters, step_seconds }, uses) {
  const { utc } = uses.state();
  const columns = [...new Set(rows.slice(0, ROWS_MAX).flatMap(Object.keys))];
  const isValue = (/** @type {string} */ name) => !groups.includes(name) && !isTime(name) && rows.every((row) => hasNoNumber(row[name]) || isNumber(row[name]));
  const values = columns.filter((name) => isValue(name) && rows.some((row) => !hasNoNumber(row[name])));
  const most = new Map(values.map((name) => [name, rows.reduce((most, row) => Math.max(most, approximately(row[name]) || 0), 0)]));
  const step = approximately(step_seconds) * 1000;
  /** @param {string} name @param {unknown} value */
  const cell = (name, value) => {
    const isGroup = groups.includes(name);
    if (values.includes(name)) return isBlank(value) ? dash(value) : h("span", bar(Math.max(0, approximately(value) || 0) / (most.get(name) || 1)), h("span", shown(value)));
    if ((isTime(name) || name === "_arrived") && typeof value === "string") {
      const time = Date.parse(value);
      return isGroup && isTime(name) && step > 0 ? button(full(time, utc), () => uses.zoom(time, step), { class: "cell", title: "The records of this time" }) : full(time, utc);
    }
    const text = isEmpty(value) ? dash() : visible(textOf(value).slice(0, 500));
    return filters.some(({ column }) => column === name) || !groups.length ? h("button", { class: "cell", title: isEmpty(value) ? "Only records without a value" : "Only this value", onclick: () => uses.filter(name, value) }, text) : text;
  };
  const table = grid("Rows", columns.map((name) => /** @type {import("./dom.js").Column<Row>} */ ([name, (row) => cell(name, row[name]), (row) => row[name], values.includes(name)])), rows, ROWS_MAX);
  const time = groups.find(isTime);
  const lines = time && values.length ? linesOf(rows, time, groups.filter((name) => name !== time), values, step) : [];
  const box = h("div");
  const draw = () => box.replaceChildren(lines.length ? chart(lines, step, uses, draw) : "");
  draw();
  place.replaceChildren(box, table, rows.length > ROWS_MAX ? h("p.note.lead", `${plural(ROWS_MAX, "row")} of ${grouped(rows.length)}. Share has an export of all.`) : "");
  return draw;
}

/** A number in groups of three; a text as it is. @param {unknown} value */
const shown = (value) => (typeof value === "number" || value instanceof Digits ? grouped(value) : textOf(value));

/** @typedef {[number, number]} Point a time and a value */
/** @typedef {{name: string, level?: string, parts: Point[][], sum: number}} Line points that belong together, with gaps between the parts; and the level that all of them are of */

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
    const level = names[groups.indexOf("level")]?.replace("(none)", "");
    return { name, ...(LEVELS.includes(level) && names.length === 2 && values.length === 1 ? { level } : {}), parts, sum: line.reduce((sum, [, y]) => sum + Math.abs(y), 0) };
  }).sort((a, b) => b.sum - a.sum);
}

/**
 * @param {Line[]} lines @param {number} step milliseconds, or NaN @param {Uses} uses @param {() => void} again draws in another way
 */
function chart(lines, step, { state, change }, again) {
  const { utc, log, chart } = state();
  const shown = lines.slice(0, LINES);
  const hasLevels = shown.every(({ level }) => level !== undefined);
  const points = shown.flatMap(({ parts }) => parts.flat());
  const isBars = chart === "bars";
  const sums = stacks(shown);
  const ends = isBars ? sums.flatMap(({ tops }) => tops.flatMap(([, , low, high]) => [low, high])) : points.map(([, y]) => y);
  const [from, last] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
  // The bar of the last step has its width, too.
  const to = isBars ? last + (step > 0 ? step : 1) : last;
  const scale = scaleOf(ends, log, CHART_HEIGHT - 14);
  const gaps = shown.reduce((sum, { parts }) => sum + parts.length - 1, 0);
  const words = `${shown[0].name} over time, ${plural(lines.length, isBars ? "group" : "line")}, ${plural(gaps, "gap")}; the table below has the numbers`;
  const canvas = h("canvas", { role: "img", "aria-label": words });
  const choice = (/** @type {string} */ text, /** @type {boolean} */ isOn, /** @type {import("./state.js").Change} */ next, /** @type {string} */ title) => button(text, () => {
    change(next, true);
    again();
  }, { class: "quiet", "aria-pressed": isOn, title });
  const legend = h("div.legend", ...shown.map(({ name, level }, at) => h("span", { class: hasLevels ? levelClass(level) : "line-" + (at % 6) }, h("i"), visible(name.slice(0, 60)))), lines.length > LINES ? h("span", `and ${lines.length - LINES} more, which the table has`) : "",
    log && scale.left ? h("span", `${plural(scale.left, "value")} of 0 or less ${scale.left === 1 ? "is" : "are"} not drawn`) : "",
    h("div.choices", { role: "group", "aria-label": "Chart" }, choice("Lines", !isBars, { chart: "lines" }, "A line for each group"), choice("Bars", isBars, { chart: "bars" }, "Bars, one upon the other"),
      choice("Log", log, { log: !log }, "A step of the axis is a power of ten")));
  const plot = h("div.plot.chart", canvas);
  const colour = colours(plot);
  const draw = () => {
    const width = plot.clientWidth;
    if (!width) return;
    const context = paint(canvas, width, CHART_HEIGHT + 16);
    const x = (/** @type {number} */ ms) => (to > from ? ((ms - from) / (to - from)) * (width - 4) + 2 : width / 2);
    const y = (/** @type {number} */ n) => CHART_HEIGHT - scale.height(n);
    axis(context, colour, from, Math.max(to, from + 1), width, CHART_HEIGHT, utc);
    scale.lines(context, colour, width, CHART_HEIGHT, grouped);
    context.lineWidth = 1.5;
    shown.forEach(({ parts, level }, at) => {
      context.fillStyle = context.strokeStyle = colour(hasLevels ? "bar-" + barOf(level ?? "") : "line-" + (at % 6));
      if (isBars) {
        context.globalAlpha = at < 6 || hasLevels ? 0.85 : 0.5;
        for (const [line, time, low, high] of sums.flatMap(({ tops }) => tops)) {
          if (line !== at || !scale.has(high)) continue;
          const [left, right] = [x(time), x(time + (step > 0 ? step : 1))];
          const [top, bottom] = [Math.min(y(low), y(high)), Math.max(y(low), y(high))];
          context.fillRect(left + 0.5, top, Math.max(1, right - left - 1), Math.max(1, bottom - top));
        }
        context.globalAlpha = 1;
        return;
      }
      context.setLineDash(at < 6 || hasLevels ? [] : [4, 3]);
      for (const part of parts.flatMap((part) => drawable(part, scale.has))) {
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

/** The pieces of a part whose points can be drawn. @param {Point[]} part @param {(n: number) => boolean} has @returns {Point[][]} */
function drawable(part, has) {
  /** @type {Point[][]} */
  const pieces = [[]];
  for (const point of part) {
    if (has(point[1])) pieces.at(-1)?.push(point);
    else if (pieces.at(-1)?.length) pieces.push([]);
  }
  return pieces.filter((piece) => piece.length);
}

/** The bars of each time, one upon the other: the line, the time, and from where to where. Negative ones hang. @param {Line[]} lines */
export function stacks(lines) {
  /** @type {Map<number, {up: number, down: number, tops: [number, number, number, number][]}>} */
  const stacks = new Map();
  lines.forEach(({ parts }, at) => {
    for (const [time, n] of parts.flat()) {
      const stack = stacks.get(time) ?? { up: 0, down: 0, tops: [] };
      const low = n < 0 ? stack.down : stack.up;
      stack.tops.push([at, time, low, low + n]);
      stack[n < 0 ? "down" : "up"] = low + n;
      stacks.set(time, stack);
    }
  });
  return [...stacks.values()];
}
