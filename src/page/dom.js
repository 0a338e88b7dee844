// Elements from text. Nothing of a log ever becomes markup: strings become text nodes.

import { stringify } from "./json.js";
import { compareNumbers, grouped, isNumber } from "./number.js";

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * The tag of a selector: `p` of `p.note`.
 * @template {string} S @typedef {S extends `${infer T}.${string}` ? T : S} TagOf
 */

/**
 * An element from `tag.class.class`, properties, attributes (`aria-*`, `role`, …), listeners (`onclick`) and children.
 * @template {string} S
 * @param {S} selector
 * @param {Record<string, any>|Child|Child[]} [props] the properties, or the first child
 * @param {(Child|Child[])[]} children
 * @returns {TagOf<S> extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[TagOf<S>] : never}
 */
export function h(selector, props, ...children) {
  const [tag, ...classes] = selector.split(".");
  const element = /** @type {any} */ (document.createElement(tag));
  if (classes.length) element.className = classes.join(" ");
  if (tag === "button") element.type = "button";
  if (!props || Object.getPrototypeOf(props) !== Object.prototype) children.unshift(/** @type {Child} */ (props));
  else {
    for (const [name, value] of Object.entries(props)) {
      if (value === undefined || value === null) continue;
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name in element && !/-|^(role|list)$/.test(name)) element[name] = value;
      else element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child || child === 0));
  return element;
}

/** The element of the page with this id. @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * A button.
 * @param {string} text @param {(event: MouseEvent) => void} onclick @param {Record<string, any>} [props]
 */
export const button = (text, onclick, props) => h("button", { onclick, ...props }, text);

/**
 * A small button with a sign, and its name for those who cannot see it.
 * @param {string} sign @param {string} name @param {() => void} onclick
 */
export const sign = (sign, name, onclick) => button(sign, onclick, { class: "quiet", "aria-label": name, title: name });

/** A bar behind a value. @param {number} share */
export function bar(share) {
  const element = h("i.share");
  element.style.width = share * 100 + "%";
  return element;
}

/** What stands for no value. A value may be a hyphen, so this is longer and pale. @param {unknown} [value] */
export const dash = (value) => h("span.dash", { title: isEmpty(value) ? "No value" : String(value) }, "\u2013");

/** Whether there is no value, or an empty one. @param {unknown} value */
export const isEmpty = (value) => value === undefined || value === null || value === "";

/** Whether a value says nothing among others of its column: there is none, or no number where one was to be. @param {unknown} value */
export const isBlank = (value) => isEmpty(value) || value === "NaN";

/** Which of two values of a column comes first: by number, else by text; nothing is last in both orders. @param {unknown} a @param {unknown} b @param {boolean} isDown */
function inOrder(a, b, isDown) {
  if (isBlank(a) || isBlank(b)) return Number(isBlank(a)) - Number(isBlank(b));
  return (isNumber(a) && isNumber(b) ? compareNumbers(a, b) : textOf(a).localeCompare(textOf(b))) * (isDown ? -1 : 1);
}

/**
 * A column of a table: its head, the cell of a row, by what it is sorted (by the text of its cells without this, not at all if null), and whether it
 * is right-aligned.
 * @template T @typedef {[string, (row: T) => Child|Child[], (((row: T) => unknown)|null)?, boolean?]} Column
 */

/**
 * A table that scrolls. A click on a head sorts by its column, down and then up.
 * @template T @param {string} name @param {Column<T>[]} columns @param {T[]} rows @param {number} [most] rows that are shown
 */
export function grid(name, columns, rows, most = rows.length) {
  let [by, isDown] = [-1, true];
  const heads = h("tr");
  const body = h("tbody");
  const kind = (/** @type {number} */ at) => (columns[at][3] ? "number" : "");
  const draw = () => {
    heads.replaceChildren(...columns.map(([head, , key], at) => h("th", { scope: "col", class: kind(at), "aria-sort": at !== by ? undefined : isDown ? "descending" : "ascending" },
      key === null ? head : button(visible(head) + (at !== by ? "" : isDown ? " \u2193" : " \u2191"), () => {
        [by, isDown] = [at, by === at ? !isDown : true];
        draw();
      }))));
    const [, cell, key] = columns[by] ?? columns[0];
    const keys = new Map(by < 0 ? [] : rows.map((row) => [row, key ? key(row) : h("i", cell(row)).textContent]));
    const sorted = by < 0 ? rows : rows.toSorted((a, b) => inOrder(keys.get(a), keys.get(b), isDown));
    body.replaceChildren(...sorted.slice(0, most).map((row) => h("tr", ...columns.map(([, cell], at) => h("td", { class: kind(at), dir: "auto" }, cell(row))))));
  };
  draw();
  return h("div.scroll", { tabIndex: 0, role: "region", "aria-label": name }, h("table.rows", h("thead", heads), body));
}

/** The path of a file: where there is little room, its folders are shortened, and not its name. @param {string} path */
export function pathCell(path) {
  const at = path.lastIndexOf("/") + 1;
  return h("span.path", { title: visible(path) }, h("span", visible(path.slice(0, at))), h("b", visible(path.slice(at))));
}

/** Control characters and characters that turn the direction of text around. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text that can be shown: each unseen character is replaced by a visible one. @param {string} text */
export function visible(text) {
  return text.replace(UNSEEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "\u2421" : "\ufffd";
  });
}

/** A value of a field as text. @param {unknown} value */
export const textOf = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : stringify(value));

/** Bytes as people read them. @param {number|null|undefined} n */
export function size(n) {
  if (n === null || n === undefined) return "–";
  let unit = 0;
  while (n >= 1024 && unit < 4) [n, unit] = [n / 1024, unit + 1];
  return (unit ? n.toFixed(n < 10 ? 1 : 0) : n) + ["\u00a0B", "\u00a0KiB", "\u00a0MiB", "\u00a0GiB", "\u00a0TiB"][unit];
}

/** A share of 1 in per cent. @param {number} share */
export const percent = (share) => (share > 0 && share < 0.001 ? "<0.1%" : (share * 100).toFixed(share < 0.1 ? 1 : 0) + "%");

/** A number with its noun. @param {number} n @param {string} noun @param {string} [nouns] */
export const plural = (n, noun, nouns = noun + "s") => `${grouped(n)} ${n === 1 ? noun : nouns}`;

/** A function that gives the colours of page.css to a canvas. @param {HTMLElement} place */
export function colours(place) {
  const probe = place.appendChild(h("i", { hidden: true }));
  const style = getComputedStyle(probe);
  return (/** @type {string} */ name) => {
    probe.style.color = `var(--${name})`;
    return style.color;
  };
}

let toasts = 0;

/** Says something for a few seconds. @param {string} text */
export function toast(text) {
  const mine = ++toasts;
  byId("toast").textContent = text;
  setTimeout(() => mine === toasts && (byId("toast").textContent = ""), 4000);
}

/** Copies text. @param {string} text @param {string} name */
export async function copy(text, name) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { value: text, class: "unseen" });
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast(`${name} copied`);
}

/** A dialog that ends with Escape, or a click outside. @param {string} title @param {Child[]} children */
export function dialog(title, ...children) {
  document.querySelector("dialog[open]")?.remove();
  const heading = h("h2", { id: "dialog-title" }, title);
  const close = button("\u2715", () => box.close(), { "aria-label": "Close", class: "quiet close" });
  const box = h("dialog", { "aria-labelledby": "dialog-title" }, h("div.dialog-head", heading, close), ...children);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => event.target === box && box.close());
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * A state of a view that has nothing to show, and what to do.
 * @param {string} title @param {string} text @param {Child[]} actions
 */
export const blank = (title, text, ...actions) =>
  h("div.blank", h("h2", title), h("p", text), h("div.actions", ...actions));
