// The query line: completion of fields, values and pipes, history, and errors at their place.

import * as api from "./api.js";
import { button, byId, h, visible } from "./dom.js";
import { short } from "./number.js";
import { nameOf, PIPES, place, quote } from "./query.js";
import { keep, kept } from "./state.js";

/** @typedef {{text: string, note: string, insert: string}} Choice */
/** @typedef {{ask: () => api.Ask, run: (q: string) => void}} Uses */

const HISTORY_MAX = 50;
const CHOICES_MAX = 12;
/** How long typing pauses before values are asked for. */
const TYPING_PAUSE = 120;

export class QueryBar {
  /** @param {Uses} uses */
  constructor(uses) {
    this.uses = uses;
    /** @type {HTMLInputElement} */
    this.input = byId("q");
    /** @type {HTMLElement} */
    this.list = byId("completions");
    /** @type {Choice[]} */
    this.choices = [];
    this.chosen = -1;
    this.from = 0;
    this.abort = new AbortController();
    /** @type {{range: string, names: Promise<string[]>}|undefined} */
    this.names = undefined;
    this.timer = 0;
    /** The query that the answer is of; the line may have what is being written. */
    this.asked = "";
    byId("ask").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.submit();
    });
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("focus", () => this.input.value || this.history());
    this.input.addEventListener("blur", () => setTimeout(() => this.hide(), 150));
    this.input.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows the query that is asked. What is being written stays when the question is still the same. @param {string} q */
  set(q) {
    if (q === this.asked) return;
    this.asked = q;
    if (this.input.value.trim() !== q) this.input.value = q;
  }

  submit() {
    this.hide();
    clearTimeout(this.timer);
    this.abort.abort();
    const q = this.input.value.trim();
    if (q) keep("history", [q, ...kept("history").filter((old) => old !== q)].slice(0, HISTORY_MAX));
    this.uses.run(q);
  }

  /** Shows an error, at its place if it has one. @param {string} [text] @param {{from: number, to: number}} [at] */
  fault(text, at) {
    this.input.setAttribute("aria-invalid", text ? "true" : "false");
    this.say(text, at);
    if (at && document.activeElement === this.input && this.input.value === this.asked) this.input.setSelectionRange(at.from, at.to);
  }

  /** Shows what is to be said about the query, its place, and the query that was probably meant. @param {string} [text] @param {{from: number, to: number}} [at] @param {string} [instead] */
  say(text, at, instead) {
    const box = byId("fault");
    box.hidden = !text;
    if (!text) return box.replaceChildren();
    const q = this.asked;
    const end = at && Math.max(at.to, at.from + 1);
    box.replaceChildren(at ? h("code", visible(q.slice(Math.max(0, at.from - 60), at.from)), h("mark", visible(q.slice(at.from, end)) || "\u00a0"), visible(q.slice(end, at.from + 60))) : "", h("span", text), instead ? button("Ask " + visible(instead), () => this.uses.run(instead), { class: "quiet" }) : "", h("a", { href: "/page/language.html", target: "_blank" }, "The language"));
  }

  typed() {
    this.fault();
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.complete(), TYPING_PAUSE);
  }

  history() {
    this.from = 0;
    this.show(kept("history").map((q) => ({ text: q, note: "", insert: q })), this.input.value.length);
  }

  /** Asks for what fits at the cursor. An answer that comes late is not shown. */
  async complete() {
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    const { value } = this.input;
    const cursor = this.input.selectionStart ?? value.length;
    const at = place(value, cursor);
    if (at.kind === "field" && !at.word) return this.hide();
    const word = at.word.toLowerCase();
    /** @type {Choice[]} */
    let choices = [];
    const ask = { ...this.uses.ask(), q: "" };
    try {
      if (at.kind === "pipe") {
        choices = PIPES.filter(([pipe]) => pipe.startsWith(word)).map(([pipe, note]) => ({ text: pipe, note, insert: pipe }));
      } else if (at.kind === "value") {
        const values = await api.values(ask, at.field, abort.signal);
        choices = values.filter(({ value }) => value.toLowerCase().includes(word)).map(({ value, n }) => ({ text: value, note: short(n), insert: /^[\p{L}\p{N}_.-]+$/u.test(value) ? value + " " : quote(value) + " " }));
      } else {
        const range = ask.since + " " + ask.until;
        if (this.names?.range !== range) this.names = { range, names: api.fieldNames(ask).then((fields) => fields.map(({ name }) => name)) };
        const names = await this.names.names;
        choices = names.filter((name) => name.toLowerCase().includes(word)).sort((a, b) => Number(b.toLowerCase().startsWith(word)) - Number(a.toLowerCase().startsWith(word))).map((name) => ({ text: name, note: "field", insert: nameOf(name) + ":" }));
      }
    } catch {
      this.names = undefined;
    }
    if (abort.signal.aborted || document.activeElement !== this.input || this.input.value !== value) return;
    this.from = at.from;
    this.show(choices, cursor);
  }

  /** @param {Choice[]} choices @param {number} cursor */
  show(choices, cursor) {
    this.choices = choices.slice(0, CHOICES_MAX);
    this.chosen = -1;
    if (!this.choices.length) return this.hide();
    this.list.replaceChildren(...this.choices.map((choice, at) => h("li", {
      id: "choice-" + at, role: "option", "aria-selected": "false",
      onpointerdown: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.take(at, cursor);
      },
    }, h("span", { dir: "auto" }, visible(choice.text.slice(0, 200))), h("small", choice.note))));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
  }

  hide() {
    this.list.hidden = true;
    this.chosen = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} at @param {number} [cursor] */
  take(at, cursor = this.input.selectionStart ?? this.input.value.length) {
    const { insert } = this.choices[at];
    const { value } = this.input;
    this.input.value = value.slice(0, this.from) + insert + value.slice(cursor).replace(/^ /, insert.endsWith(" ") ? "" : " ");
    const end = this.from + insert.length;
    this.input.focus();
    this.input.setSelectionRange(end, end);
    this.hide();
    if (insert.endsWith(":")) this.typed();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const isOpen = !this.list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) return void (this.input.value ? this.complete() : this.history());
      const n = this.choices.length;
      this.chosen = (this.chosen + (event.key === "ArrowDown" ? 1 : -1) + n + (this.chosen < 0 && event.key === "ArrowUp" ? 1 : 0)) % n;
      [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.chosen)));
      this.list.children[this.chosen].scrollIntoView({ block: "nearest" });
      this.input.setAttribute("aria-activedescendant", "choice-" + this.chosen);
    } else if (event.key === "Escape") {
      if (isOpen) this.hide();
      else this.input.blur();
      event.stopPropagation();
    } else if ((event.key === "Tab" || event.key === "Enter") && isOpen && (this.chosen >= 0 || event.key === "Tab")) {
      event.preventDefault();
      this.take(Math.max(0, this.chosen));
    }
  }
}
