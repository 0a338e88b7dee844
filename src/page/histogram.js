// Records by time and level, with a brush: drag, or arrows with Shift, to choose a range.

import { button, byId, colours, h, plural } from "./dom.js";
import { grouped, short } from "./number.js";
import { term } from "./query.js";
import { dateForm, full, length, onAxis, stepAfter, stepFor, stepsOf, stepStart } from "./time.js";

/** Levels from the bottom of a bar to its top, with their colours. */
export const LEVELS = ["fatal", "alert", "critical", "error", "warn", "notice", "info", "debug", "trace", ""];

/** The colour of a level's bar. @param {string} level */
export const barOf = (level) => (level === "alert" || level === "fatal" ? "critical" : level || "none");

/** The class of a level in page.css. @param {string|null|undefined} level */
export const levelClass = (level) => "level-" + (level || "none");

/** @typedef {{time: number, level: string, n: number}} Hit */
/** @typedef {{onrange: (from: number, to: number) => void, onfilter: (filter: string) => void, has: (filter: string) => boolean, isLog: () => boolean, onlog: () => void}} Uses */

/** The filter of records that say that something failed. */
const ERRORS = "level:>=error";

const HEIGHT = 64;
const AXIS = 16;

/** Empties a canvas of this size. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function paint(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  return context;
}

/**
 * Draws an axis of time at this height, and leaves the colour of its text.
 * @param {CanvasRenderingContext2D} context @param {(name: string) => string} colour @param {number} from @param {number} to
 * @param {number} width @param {number} height @param {boolean} utc
 */
export function axis(context, colour, from, to, width, height, utc) {
  context.fillStyle = colour("line");
  context.fillRect(0, height, width, 1);
  context.fillStyle = colour("muted");
  const [step, form] = [stepFor(to - from || 1, Math.max(2, Math.floor(width / 110))), dateForm(from, to, utc)];
  for (const time of stepsOf(from, to, step, utc)) {
    if (time < from) continue;
    const [text, x] = [onAxis(time, step, utc, form), ((time - from) / (to - from)) * width];
    context.fillRect(x, height, 1, 3);
    if (x + context.measureText(text).width + 4 < width) context.fillText(text, x + 3, height + 4);
  }
}

/** A round step of numbers: 1, 2 or 5 of a power of ten. @param {number} rough */
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return (/** @type {number[]} */ ([1, 2, 5, 10]).find((n) => n * power >= rough) ?? 10) * power;
}

/**
 * The scale of numbers that are drawn upwards: their heights, and the lines of an axis. On a logarithmic scale numbers of 0 and less have no place,
 * but a bar may begin there.
 * @param {number[]} numbers @param {boolean} isLog @param {number} room the height of the greatest @param {number} [unit] the least step of the axis
 */
export function scaleOf(numbers, isLog, room, unit = 0) {
  const [least, most] = numbers.reduce(([least, most], n) => [Math.min(least, n), Math.max(most, n)], [0, 0]);
  if (!isLog) {
    const span = most - least || 1;
    const step = Math.max(unit, roundStep(span / (room > 100 ? 4 : 2)));
    const from = Math.ceil(least / step);
    const ticks = Array.from({ length: Math.max(0, Math.floor(most / step) - from + 1) }, (_, at) => Number(((from + at) * step).toPrecision(12)));
    return axisOf(ticks, (n) => ((n - least) / span) * room, () => true, 0);
  }
  const positive = numbers.reduce((low, n) => (n > 0 ? Math.min(low, n) : low), Infinity);
  const low = Math.floor(Math.log10(positive === Infinity ? 1 : positive));
  // A number that is a power of ten itself is above the ground.
  const ground = positive === 10 ** low ? low - 0.3 : low;
  const top = Math.max(Math.log10(most || 1), ground + 1e-9, low + 0.3);
  const each = Math.max(1, Math.ceil((top - low) / (room > 100 ? 5 : 3)));
  const ticks = Array.from({ length: Math.floor((top - low) / each) + 1 }, (_, at) => Number((10 ** (low + at * each)).toPrecision(12)));
  return axisOf(ticks, (n) => (n > 0 ? Math.max(0, ((Math.log10(n) - ground) / (top - ground)) * room) : 0), (n) => n > 0, numbers.filter((n) => n <= 0).length);
}

/** @param {number[]} ticks @param {(n: number) => number} height @param {(n: number) => boolean} has @param {number} left */
const axisOf = (ticks, height, has, left) => ({
  ticks, height, has, left,
  /**
   * Draws the lines of the axis with their numbers.
   * @param {CanvasRenderingContext2D} context @param {(name: string) => string} colour @param {number} width @param {number} bottom @param {(n: number) => string} text
   */
  lines(context, colour, width, bottom, text) {
    for (const tick of ticks) {
      const y = Math.round(bottom - height(tick));
      const words = text(tick);
      context.fillStyle = colour("line");
      context.fillRect(0, y, width, 1);
      if (tick === 0 && y >= bottom) continue;
      // The number stands on its line, or below it where there is no room, and bars do not show through.
      const top = y < 12 ? y + 1 : y - 12;
      context.fillStyle = colour("panel");
      context.globalAlpha = 0.8;
      context.fillRect(0, top, context.measureText(words).width + 5, 12);
      context.globalAlpha = 1;
      context.fillStyle = colour("muted");
      context.fillText(words, 2, top + 1);
    }
  },
});

export class Histogram {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    this.canvas = h("canvas", {
      tabIndex: 0, role: "slider", "aria-label": "Records by time", "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0",
      title: "Drag to choose a range. Arrows move, Shift with arrows chooses, Enter zooms.",
    });
    this.tip = h("div.tip", { hidden: true });
    this.legend = h("div.legend", { role: "group", "aria-label": "Levels" });
    this.plot = h("div.plot", this.canvas, this.tip);
    this.choices = h("div.choices", { role: "group", "aria-label": "Histogram" });
    byId("hits").replaceChildren(this.plot, h("div.under", this.legend, this.choices));
    this.colour = colours(this.plot);
    /** @type {Map<number, Map<string, number>>} */
    this.bars = new Map();
    /** Begins of the bars. */
    this.starts = [0];
    /** The end of the last bar. */
    this.end = 1;
    this.step = 1;
    this.cursor = -1;
    this.anchor = -1;
    this.utc = false;
    this.isBusy = true;
    this.shape = "";
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.draw()).observe(this.plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** The step for a range on this screen. @param {number} from @param {number} to */
  stepOf(from, to) {
    return stepFor(to - from, Math.max(20, Math.min(160, Math.floor(this.plot.clientWidth / 7))));
  }

  /** @param {number} from @param {number} to @param {number} step @param {boolean} utc */
  begin(from, to, step, utc) {
    [this.step, this.utc, this.starts] = [step, utc, stepsOf(from, to, step, utc)];
    this.end = stepAfter(this.starts[this.columns - 1], step, utc);
    this.isBusy = true;
    this.plot.classList.add("busy");
  }

  /** @param {Hit[]} hits */
  show(hits) {
    this.bars.clear();
    this.isBusy = false;
    this.plot.classList.remove("busy");
    this.add(hits);
  }

  /** Adds hits to the bars, for records that are followed. @param {Hit[]} hits */
  add(hits) {
    for (const { time, level, n } of hits) {
      const at = stepStart(time, this.step, this.utc);
      const bar = this.bars.get(at) ?? new Map();
      bar.set(level, (bar.get(level) ?? 0) + n);
      this.bars.set(at, bar);
    }
    this.describe();
    this.draw();
  }

  /** Has bars until a time, for records that are followed. @param {number} time */
  reach(time) {
    while (this.end <= time) {
      this.starts.push(this.end);
      this.end = stepAfter(this.end, this.step, this.utc);
    }
  }

  get total() {
    let sum = 0;
    for (const bar of this.bars.values()) for (const n of bar.values()) sum += n;
    return sum;
  }

  /** Draws anew what depends on the state. */
  renew() {
    this.describe();
    this.draw();
  }

  describe() {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const bar of this.bars.values()) for (const [level, n] of bar) sums.set(level, (sums.get(level) ?? 0) + n);
    const known = LEVELS.filter((level) => sums.has(level));
    const { uses } = this;
    const some = known.some((level) => level && LEVELS.indexOf(level) <= LEVELS.indexOf("error"));
    // What a person is about to click stays while records are followed.
    const shape = JSON.stringify([known, known.map((level) => uses.has(term("level", level))), some, uses.has(ERRORS), uses.isLog()]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.legend.replaceChildren(...known.map((level) => {
        const filter = term("level", level);
        return h("button", {
          type: "button", class: levelClass(level), "aria-pressed": uses.has(filter),
          title: level ? `Only ${level}` : "Only records without a level", onclick: () => uses.onfilter(filter),
        }, h("i"), level || "no level", h("b"));
      }));
      this.choices.replaceChildren(
        some || uses.has(ERRORS) ? button("Errors only", () => uses.onfilter(ERRORS), { class: "quiet", "aria-pressed": uses.has(ERRORS), title: "Only records of the level error and above" }) : "",
        button("Log", () => uses.onlog(), { class: "quiet", "aria-pressed": uses.isLog(), title: "A step of the axis is a power of ten" }));
    }
    [...this.legend.querySelectorAll("b")].forEach((place, at) => {
      const n = sums.get(known[at]) ?? 0;
      place.textContent = short(n);
      place.title = plural(n, "record");
    });
    this.canvas.setAttribute("aria-valuemax", String(this.columns - 1));
    this.say();
  }

  get columns() {
    return this.starts.length;
  }

  get from() {
    return this.starts[0];
  }

  /** The end of a bar. @param {number} column */
  endOf(column) {
    return this.starts[column + 1] ?? this.end;
  }

  /** The place of a time. @param {number} time @param {number} width */
  x(time, width) {
    return ((time - this.from) / (this.end - this.from)) * width;
  }

  /** What a bar is, in words. @param {number} column */
  words(column) {
    const time = this.starts[column];
    const bar = this.bars.get(time);
    const sum = bar ? [...bar.values()].reduce((a, b) => a + b, 0) : 0;
    const levels = bar ? LEVELS.filter((level) => level && bar.get(level)).map((level) => `${level} ${grouped(bar.get(level) ?? 0)}`) : [];
    return `${full(time, this.utc)} + ${length(this.step)}: ${plural(sum, "record")}${levels.length ? " (" + levels.join(", ") + ")" : ""}`;
  }

  say() {
    const { cursor, anchor } = this;
    const text = cursor < 0 ? `${plural(this.total, "record")} from ${full(this.from, this.utc)} to ${full(this.end, this.utc)}`
      : anchor >= 0 && anchor !== cursor ? `from ${full(this.starts[Math.min(anchor, cursor)], this.utc)} to ${full(this.endOf(Math.max(anchor, cursor)), this.utc)}`
      : this.words(cursor);
    this.canvas.setAttribute("aria-valuenow", String(Math.max(0, cursor)));
    this.canvas.setAttribute("aria-valuetext", text);
    this.tip.hidden = cursor < 0;
    this.tip.textContent = text;
    if (cursor < 0) return;
    const x = this.x((this.starts[cursor] + this.endOf(cursor)) / 2, this.plot.clientWidth);
    this.tip.style.left = Math.min(Math.max(x - this.tip.offsetWidth / 2, 0), Math.max(0, this.plot.clientWidth - this.tip.offsetWidth)) + "px";
  }

  /** @param {PointerEvent} event */
  column(event) {
    const { left, width } = this.canvas.getBoundingClientRect();
    const time = this.from + ((event.clientX - left) / width) * (this.end - this.from);
    const after = this.starts.findIndex((start) => start > time);
    return after < 0 ? this.columns - 1 : Math.max(0, after - 1);
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button !== 0) return;
    this.anchor = this.cursor = this.column(event);
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener("pointerup", () => this.choose(), { once: true });
  }

  /** @param {PointerEvent} event */
  hover(event) {
    this.cursor = this.column(event);
    this.say();
    this.draw();
  }

  leave() {
    if (this.anchor >= 0 && document.activeElement === this.canvas) return;
    this.cursor = this.anchor = -1;
    this.say();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (move !== undefined) {
      const cursor = this.cursor < 0 ? (move === 1 || move < -1 ? 0 : this.columns - 1) : Math.min(this.columns - 1, Math.max(0, this.cursor + move));
      this.anchor = event.shiftKey ? (this.anchor < 0 ? Math.max(0, this.cursor) : this.anchor) : -1;
      this.cursor = cursor;
      this.say();
      this.draw();
    } else if (event.key === "Enter" && this.cursor >= 0) {
      if (this.anchor < 0) this.anchor = this.cursor;
      this.choose();
    } else if (event.key === "Escape") {
      this.cursor = this.anchor = -1;
      this.say();
      this.draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  choose() {
    const [low, high] = [Math.min(this.anchor, this.cursor), Math.max(this.anchor, this.cursor)];
    this.cursor = this.anchor = -1;
    this.say();
    this.draw();
    if (low >= 0) this.uses.onrange(this.starts[low], this.endOf(high));
  }

  draw() {
    const width = this.plot.clientWidth;
    // Until the first range is known there is none to draw.
    if (!width || this.end === 1) return;
    const { colour } = this;
    const context = paint(this.canvas, width, HEIGHT + AXIS);
    const sums = [...this.bars.values()].map((bar) => [...bar.values()].reduce((a, b) => a + b, 0));
    // A bar of many has room for the least number of errors.
    const scale = scaleOf([...sums, 1], this.uses.isLog(), HEIGHT - 4, 1);
    if (this.cursor >= 0) {
      const [a, b] = this.anchor < 0 ? [this.cursor, this.cursor] : [Math.min(this.anchor, this.cursor), Math.max(this.anchor, this.cursor)];
      context.fillStyle = colour("brush");
      const x = this.x(this.starts[a], width);
      context.fillRect(x, 0, this.x(this.endOf(b), width) - x, HEIGHT);
    }
    for (let column = 0; column < this.columns; column++) {
      const bar = this.bars.get(this.starts[column]);
      if (!bar) continue;
      const x = this.x(this.starts[column], width);
      const wide = this.x(this.endOf(column), width) - x;
      let [y, sum] = [HEIGHT, 0];
      for (const level of LEVELS) {
        const n = bar.get(level);
        if (!n) continue;
        sum += n;
        // A single error among a million records is still a line of one pixel.
        const tall = Math.max(1, HEIGHT - scale.height(sum) < y ? y - HEIGHT + scale.height(sum) : 0);
        context.fillStyle = colour("bar-" + barOf(level));
        context.fillRect(x + (wide > 4 ? 0.5 : 0), y - tall, Math.max(1, wide - (wide > 4 ? 1 : 0)), tall);
        y -= tall;
      }
    }
    axis(context, colour, this.from, this.end, width, HEIGHT, this.utc);
    if (this.bars.size) scale.lines(context, colour, width, HEIGHT, short);
  }
}
