// JSON with all digits: what a number of JavaScript cannot hold keeps its text. No element, no request.

const JSON_NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const JSON_SPACE = /[ \t\r\n]*/y;
const JSON_WORDS = /** @type {[string, unknown][]} */ ([["true", true], ["false", false], ["null", null]]);

/** A number that JavaScript would print otherwise than it came: 9007199254740993, 1e300, 1.0. */
export class Digits {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

/** The value of a text that is one value of JSON. @param {string} text @returns {any} */
export function parseJson(text) {
  let at = 0;
  /** @param {RegExp} what */
  const read = (what) => {
    what.lastIndex = at;
    const found = what.exec(text)?.[0] ?? "";
    at += found.length;
    return found;
  };
  /** @returns {never} */
  const fail = () => {
    throw new SyntaxError(`no JSON at character ${at}`);
  };
  const string = () => {
    const from = at;
    do {
      at = text.indexOf('"', at + 1);
      if (at < 0) [at] = [from, fail()];
    } while (isEscaped(text, at));
    const inner = text.slice(from + 1, at++);
    return inner.includes("\\") ? JSON.parse(text.slice(from, at)) : inner;
  };
  /** The items to a closing sign. @param {string} end @param {() => void} item */
  const items = (end, item) => {
    at++;
    read(JSON_SPACE);
    if (text[at] !== end) {
      for (;;) {
        item();
        read(JSON_SPACE);
        if (text[at] !== ",") break;
        at++;
        read(JSON_SPACE);
      }
    }
    if (text[at++] !== end) fail();
  };
  /** @returns {any} */
  const value = () => {
    read(JSON_SPACE);
    const first = text[at];
    if (first === '"') return string();
    if (first === "{") {
      /** @type {[string, unknown][]} */
      const members = [];
      items("}", () => {
        const name = text[at] === '"' ? string() : fail();
        read(JSON_SPACE);
        if (text[at++] !== ":") fail();
        members.push([name, value()]);
      });
      return Object.fromEntries(members);
    }
    if (first === "[") {
      /** @type {unknown[]} */
      const list = [];
      items("]", () => void list.push(value()));
      return list;
    }
    const word = JSON_WORDS.find(([word]) => text.startsWith(word, at));
    if (word) return [word[1], (at += word[0].length)][0];
    const number = read(JSON_NUMBER);
    if (!number) fail();
    return String(Number(number)) === number ? Number(number) : new Digits(number);
  };
  const whole = value();
  read(JSON_SPACE);
  if (at < text.length) fail();
  return whole;
}

/** Whether an odd number of backslashes stands before a place. @param {string} text @param {number} at */
function isEscaped(text, at) {
  let from = at;
  while (text[from - 1] === "\\") from--;
  return (at - from) % 2 === 1;
}

/** A value as JSON, with the digits that it came with. @param {unknown} value @param {string} [indent] of each level, in lines of their own @param {string} [before] what stands before a line @returns {string} */
export function stringify(value, indent = "", before = "") {
  if (value instanceof Digits) return value.text;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inner = before + indent;
  const name = (/** @type {string} */ name) => JSON.stringify(name) + (indent ? ": " : ":");
  const [open, items, end] = Array.isArray(value)
    ? ["[", value.map((item) => stringify(item, indent, inner)), "]"]
    : ["{", Object.entries(value).map(([key, item]) => name(key) + stringify(item, indent, inner)), "}"];
  if (!items.length || !indent) return open + items.join(",") + end;
  return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${before}${end}`;
}
