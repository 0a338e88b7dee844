// Which fields of a record are shown behind its message: what differs between records first, and nothing that the message says. No element, no request.

import { isBlank, textOf } from "./dom.js";
import { fieldsOf, instanceOf } from "./rows.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{length: number, get: (at: number) => Row}} Records */

/** Rows that are looked at for the fields of a source, and how many of its own are enough. */
const LOOKED_AT = 300;
const ENOUGH = 100;
/** Rows from which on the places stay. */
const SURE_ROWS = 30;
/** Rows below which nothing is known about what differs. */
const FEW = 4;
/** Fields of a row that are looked at, and characters of a value that a message is searched for. */
const LOOKED_FIELDS = 100;
const SEARCHED_MAX = 200;
/** Characters from which on a value without a space that no other record has is a key. */
const KEY_CHARS = 12;

/** The places of a field behind the message. */
const PLACES = { differs: 0, isRare: 1, isLong: 2, isKey: 3, isSame: 4, isSaid: 9 };

/** @typedef {{n: number, said: number, chars: number, spaces: number, values: Set<string>}} Seen */

export class Telling {
  /** @param {Records} records */
  constructor(records) {
    this.records = records;
    /** @type {Map<string, {places: Map<string, number>, same: Map<string, string>, seen: number, of: number}>} places of fields, by source, and the values that all of many rows have, with the rows that were seen, and those that there were */
    this.known = new Map();
    /** @type {string[]} */
    this.asked = [];
  }

  /** @param {string[]} [asked] names of fields that the query has: they stand first */
  reset(asked = []) {
    this.known.clear();
    this.asked = asked;
  }

  /** The fields behind the message of a row, but for those that columns show. @param {number} at @param {string[]} columns @returns {[string, unknown][]} */
  fields(at, columns) {
    const row = this.records.get(at);
    const source = textOf(row.source);
    let known = this.known.get(source);
    // Few rows say little: more of them are looked at once there are.
    if (!known || (known.seen < SURE_ROWS && this.records.length >= 2 * known.of)) this.known.set(source, (known = this.look(source, at)));
    const { places, same } = known;
    const place = (/** @type {string} */ name) => (this.asked.includes(name) ? -1 : (places.get(name) ?? PLACES.differs));
    const isTelling = (/** @type {string} */ name, /** @type {unknown} */ value) => !isBlank(value) && (same.get(name) !== textOf(value) || this.asked.includes(name));
    return fieldsOf(row).filter(([name, value]) => isTelling(name, value) && !columns.includes(name) && place(name) < PLACES.isSaid).sort(([a], [b]) => place(a) - place(b));
  }

  /** Looks at rows of a source, from one on. @param {string} source @param {number} at */
  look(source, at) {
    /** @type {Map<string, Seen>} */
    const seen = new Map();
    let n = 0;
    // Rows are drawn from below: the last ones have others above them.
    at = Math.max(0, Math.min(at, this.records.length - LOOKED_AT));
    for (const end = Math.min(this.records.length, at + LOOKED_AT); at < end && n < ENOUGH; at++) {
      const row = this.records.get(at);
      if (textOf(row.source) !== source) continue;
      n += 1;
      for (const [name, value] of fieldsOf(row).slice(0, LOOKED_FIELDS)) {
        if (isBlank(value)) continue;
        const text = textOf(value);
        const field = seen.get(name) ?? { n: 0, said: 0, chars: 0, spaces: 0, values: new Set() };
        field.n += 1;
        field.said += Number(isSaid(text, row));
        field.chars += text.length;
        field.spaces += Number(/\s/.test(text));
        field.values.add(text);
        seen.set(name, field);
      }
    }
    const constant = n < SURE_ROWS ? [] : [...seen].filter(([, field]) => field.values.size === 1 && field.n === n);
    const same = new Map(constant.map(([name, { values: [value] }]) => [name, value]));
    // Of equal places, the field that came first stands first, so all rows have one order.
    return { places: new Map([...seen].map(([name, field], at) => [name, placeOf(field, n) + at / 1000])), same, seen: n, of: this.records.length };
  }
}

/** Where a field stands. @param {Seen} field @param {number} rows */
export function placeOf({ n, said, chars, spaces, values }, rows) {
  if (said > n * 0.9) return PLACES.isSaid;
  if (n < FEW) return PLACES.differs;
  if (values.size === 1 && n === rows) return PLACES.isSame;
  if (values.size === n && !spaces && chars / n >= KEY_CHARS) return PLACES.isKey;
  if (chars / n > 80) return PLACES.isLong;
  // What all have stands at much the same place in each row.
  return n < rows * 0.9 ? PLACES.isRare : PLACES.differs;
}

/** Whether the row says a value already: its message has it as a word, or a column is it. @param {string} text @param {Row} row */
export function isSaid(text, row) {
  if (text === row.level || text === instanceOf(row)) return true;
  if (text.length > SEARCHED_MAX) return false;
  const message = textOf(row.message);
  const isPart = (/** @type {string|undefined} */ char) => char !== undefined && /[\p{L}\p{N}_]/u.test(char);
  for (let at = message.indexOf(text); at >= 0; at = message.indexOf(text, at + 1)) {
    const isWhole = !(isPart(text[0]) && isPart(message[at - 1])) && !(isPart(text.at(-1)) && isPart(message[at + text.length]));
    if (isWhole) return true;
  }
  return false;
}

/** The value of a field as it stands behind its name: in quotes if its borders would not be seen. @param {unknown} value */
export function quoted(value) {
  const text = textOf(value);
  return typeof value === "string" && /[\s"=]/.test(text) ? `"${text.replace(/[\\"]/g, "\\$&")}"` : text;
}
