// Follows new records. What comes while a person reads or selects waits, and is counted.

import * as api from "./api.js";

/** Records that wait at most; older ones are shown by a query later. */
const WAITING_MAX = 5000;
/** Records that are shown at a time, four times a second. */
const SHOWN_MAX = 250;
const INTERVAL = 250;

/** @typedef {{mayShow: () => boolean, came: (lines: string[]) => void, show: (lines: string[]) => void, changed: () => void, failed: (error: Error) => void}} Uses */

const ROW_KEY = /"row_key":"([^"]*)"/;

/** The part of a line that orders records: the newest has the least. @param {string} line */
const rowKeyOf = (line) => ROW_KEY.exec(line)?.[1] ?? "";

/** Lines in the order of their records, oldest first: a commit has them by instances. @param {string[]} lines */
const ordered = (lines) => lines
  .map((line) => /** @type {[string, string]} */ ([rowKeyOf(line), line]))
  .sort(([one], [other]) => (one < other ? 1 : one > other ? -1 : 0))
  .map(([, line]) => line);

export class Tail {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    this.isOn = false;
    this.isPaused = false;
    /** @type {string[]} oldest first */
    this.waiting = [];
    /** @type {string[]} what is not counted in the bars yet: they are drawn four times a second */
    this.uncounted = [];
    /** @type {[number, number][]} times and numbers of the last seconds */
    this.recent = [];
    this.came = 0;
    this.left = 0;
    this.isSampled = false;
    this.timer = 0;
    this.abort = new AbortController();
  }

  reset() {
    this.waiting = [];
    this.uncounted = [];
    this.recent = [];
    this.came = 0;
    this.left = 0;
    this.isSampled = false;
  }

  /** Records a second. */
  get rate() {
    const since = performance.now() - 2000;
    this.recent = this.recent.filter(([time]) => time > since);
    return Math.round(this.recent.reduce((sum, [, n]) => sum + n, 0) / 2);
  }

  /** @param {string} q */
  async start(q) {
    this.stop();
    this.isOn = true;
    this.isPaused = false;
    this.reset();
    const abort = (this.abort = new AbortController());
    this.timer = window.setInterval(() => this.flush(), INTERVAL);
    this.uses.changed();
    try {
      await api.tail(q, abort.signal, () => this.uses.changed(), (lines) => this.take(lines));
    } catch (error) {
      if (abort.signal.aborted) return;
      this.stop();
      this.uses.failed(/** @type {Error} */ (error));
    }
  }

  stop() {
    this.abort.abort();
    clearInterval(this.timer);
    this.count();
    this.isOn = false;
    this.uses.changed();
  }

  pause() {
    this.isPaused = !this.isPaused;
    this.flush();
    this.uses.changed();
  }

  /** @param {string[]} lines */
  take(lines) {
    this.came += lines.length;
    this.uncounted = this.uncounted.concat(lines);
    this.recent.push([performance.now(), lines.length]);
    this.waiting = this.waiting.concat(lines);
    if (this.waiting.length > WAITING_MAX * 2) {
      this.left += this.waiting.length - WAITING_MAX;
      this.waiting.splice(0, this.waiting.length - WAITING_MAX);
    }
  }

  /** Counts what came, also what is not shown. */
  count() {
    const { uncounted } = this;
    this.uncounted = [];
    if (uncounted.length) this.uses.came(uncounted);
  }

  /** Shows what waits, if nobody reads; of too many, an even sample. @param {boolean} [isAsked] */
  flush(isAsked = false) {
    this.count();
    if (this.waiting.length && (isAsked || (!this.isPaused && this.uses.mayShow()))) {
      const waiting = ordered(this.waiting);
      this.waiting = [];
      const most = isAsked ? WAITING_MAX : SHOWN_MAX;
      this.isSampled = waiting.length > most || this.left > 0;
      const each = waiting.length / most;
      const shown = each > 1 ? Array.from({ length: most }, (_, i) => waiting[Math.floor((i + 1) * each) - 1]) : waiting;
      this.left += waiting.length - shown.length;
      this.uses.show(shown);
    }
    this.uses.changed();
  }
}
