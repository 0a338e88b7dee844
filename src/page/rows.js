// The records of the list: lines of JSON as they arrived, parsed when they are shown.

import * as api from "./api.js";
import { parseJson } from "./json.js";
import { tickAfter } from "./time.js";

/** Records of the first request: more than a screen, and soon there. */
const FIRST_LIMIT = 100;
/** Records of a further request at least; each asks for as many as there are. */
const NEXT_LIMIT = 500;
const MOST = 20000;
/** Parsed records that are kept. */
const PARSED = 2000;
/** Followed records that are kept. */
export const HEAD_MAX = 20000;

/** @typedef {import("./api.js").Row} Row */

/** The three keys of a record as one text. @param {Row} row */
export const keyOf = (row) => `${row.table}/${row.partition_key}/${row.row_key}`;

/** Members of a record that are no fields. */
const PLACE = ["table", "partition_key", "row_key", "source", "line", "time", "message", "level", "instance"];

/** The fields of a record. @param {Row} row @returns {[string, unknown][]} */
export const fieldsOf = (row) => Object.entries(row).filter(([name]) => !PLACE.includes(name));

/** Who wrote a record. @param {Row} row @returns {string} */
export const instanceOf = (row) => row.instance ?? row.partition_key ?? "";

export class Rows {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {string[]} followed records, newest last */
    this.head = [];
    /** @type {string[]} newest first */
    this.lines = [];
    /** @type {Map<string, Row>} */
    this.parsed = new Map();
    this.ask = { q: "", since: "", until: "" };
    this.isWhole = true;
    this.isLoading = false;
    /** @type {Error|undefined} */
    this.error = undefined;
    this.took = 0;
    this.abort = new AbortController();
  }

  get length() {
    return this.head.length + this.lines.length;
  }

  /** @param {number} at */
  line(at) {
    const { head, lines } = this;
    return at < head.length ? head[head.length - 1 - at] : lines[at - head.length];
  }

  /** @param {number} at @returns {Row} */
  get(at) {
    const line = this.line(at);
    let row = this.parsed.get(line);
    if (!row) {
      if (this.parsed.size > PARSED) this.parsed.clear();
      row = /** @type {Row} */ (parseJson(line));
      this.parsed.set(line, row);
    }
    return row;
  }

  /** The place of a record. @param {string} key */
  find(key) {
    const end = `"${key.split("/")[2]}"`;
    for (let at = 0; at < this.length; at++) if (this.line(at).includes(end) && keyOf(this.get(at)) === key) return at;
    return -1;
  }

  /** Begins anew. @param {import("./api.js").Ask} ask */
  async begin(ask) {
    this.stop();
    this.ask = ask;
    [this.head, this.lines, this.error, this.isWhole] = [[], [], undefined, false];
    this.parsed.clear();
    const began = performance.now();
    await this.load(FIRST_LIMIT);
    this.took = performance.now() - began;
  }

  stop() {
    this.abort.abort();
    this.abort = new AbortController();
    this.isLoading = false;
  }

  /** Reads older records, unless there are none. */
  async more() {
    if (!this.isLoading && !this.isWhole && !this.error) await this.load(Math.min(MOST, Math.max(NEXT_LIMIT, this.lines.length)));
  }

  /** @param {number} limit */
  async load(limit) {
    const { abort } = this;
    const last = this.lines.length ? this.get(this.length - 1) : undefined;
    // The records of the last tick come again: those that are there already are left out.
    const known = new Set();
    for (let at = this.length - 1; last && at >= this.head.length && this.get(at).time === last.time; at--) known.add(keyOf(this.get(at)));
    const until = last?.time ? tickAfter(last.time) : this.ask.until;
    limit += known.size;
    let came = 0;
    this.isLoading = true;
    this.changed();
    try {
      await api.query({ ...this.ask, until, limit }, abort.signal, (lines) => {
        if (abort.signal.aborted) return;
        came += lines.length;
        for (const line of lines) {
          if (known.size === 0 || !known.delete(keyOf(parseJson(line)))) this.lines.push(line);
        }
        this.changed();
      });
      if (abort.signal.aborted) return;
      this.isWhole = came < limit;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = /** @type {Error} */ (error);
    }
    this.isLoading = false;
    this.changed();
  }

  /** Adds followed records, oldest first. @param {string[]} lines */
  follow(lines) {
    this.head.push(...lines);
    if (this.head.length > HEAD_MAX) this.head.splice(0, this.head.length - HEAD_MAX / 2);
    this.changed();
  }
}
