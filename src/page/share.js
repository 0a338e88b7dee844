// What is on the screen, for others and for other tools: a link, a command, Grafana, a file.

import * as api from "./api.js";
import { button, copy, dialog, h, plural, textOf, toast } from "./dom.js";
import { shell, split, terms } from "./query.js";
import { address, keep, kept } from "./state.js";
import { instant, rfc } from "./time.js";

/** @typedef {import("./state.js").State} State */

/** The state with absolute times, so that others see the same. @param {State} state @param {number} now @returns {State} */
export function fixed(state, now) {
  const time = (/** @type {string} */ text) => (text && !Number.isNaN(instant(text, now)) ? rfc(instant(text, now)) : "");
  return { ...state, since: time(state.since), until: state.until ? time(state.until) : rfc(now) };
}

/** The command that prints the same records. @param {State} state */
export function command({ q, since, until }) {
  return ["daytable query", q && shell(q), since && `--since ${shell(since)}`, until && `--until ${shell(until)}`].filter(Boolean).join(" ");
}

/**
 * Grafana's Explore with the built-in Loki data source: the words and the plain fields of the query.
 * @param {State} state @param {string} base
 */
export function grafana({ q, since, until }, base) {
  const labels = [...split(q)[0].matchAll(/(?:^|\s)(instance|level|table|source|service_name):="?([\w./-]+)"?(?=\s|$)/g)].map(([, name, value]) => `${name}=${JSON.stringify(value)}`);
  const words = terms(q).map((word) => ` |= ${JSON.stringify(word)}`);
  const expr = `{${labels.join(", ") || 'instance=~".+"'}}${words.join("")}`;
  const now = Date.now();
  const from = since ? String(instant(since, now)) : "now-24h";
  const panes = { a: { datasource: "loki", queries: [{ refId: "A", expr, datasource: { type: "loki" } }], range: { from, to: until ? String(instant(until, now)) : "now" } } };
  return `${base.replace(/\/+$/, "")}/explore?schemaVersion=1&orgId=1&panes=${encodeURIComponent(JSON.stringify(panes))}`;
}

/** @param {State} state @param {[number, number]} range what the range is at present */
export function openShare(state, range) {
  const absolute = { ...fixed(state, range[1]), since: state.since ? rfc(range[0]) : "" };
  const link = location.origin + address(absolute);
  const line = (/** @type {string} */ name, /** @type {string} */ text) =>
    h("div", { class: "share-line" }, h("h3", {}, name), h("code", { tabIndex: 0 }, text), button("Copy", () => copy(text, name), { "aria-label": `Copy: ${name}` }));
  const base = h("input", { type: "url", value: kept("grafana")[0] ?? "", placeholder: "https://grafana.example", "aria-label": "Address of Grafana" });
  const open = h("a", { target: "_blank", rel: "noopener noreferrer" }, "Open in Explore");
  const renew = () => {
    const isSet = /^https?:\/\/./.test(base.value);
    open.hidden = !isSet;
    if (isSet) open.href = grafana(absolute, base.value);
  };
  base.addEventListener("input", () => {
    keep("grafana", [base.value]);
    renew();
  });
  renew();
  const ask = { q: state.q, since: absolute.since, until: absolute.until };
  dialog("Share and export",
    line("Link", link), line("Command", command(absolute)),
    h("div", { class: "share-line" }, h("h3", {}, "Grafana"), base, open),
    h("p", { class: "note" }, "Explore gets the words, instance, level, table and source of the query. Other filters are LogQL there."),
    h("div", { class: "share-line" }, h("h3", {}, "Export"), h("a", { class: "button", href: api.exportUrl(ask), download: "daytable.ndjson" }, "NDJSON"), button("CSV", () => csv(ask))),
    h("p", { class: "note" }, "An export has everything that matches, not only what is on the screen."));
}

/** Saves everything that matches as CSV, with a column for each field. @param {api.Ask} ask */
async function csv(ask) {
  toast("Reading everything that matches \u2026");
  try {
    const rows = await api.all(ask);
    const columns = [...new Set(rows.flatMap(Object.keys))];
    // A spreadsheet takes a text that begins so for a formula.
    const cell = (/** @type {unknown} */ value) => {
      const text = typeof value === "string" ? value.replace(/^[=+@\t\r-]/, "'$&") : textOf(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((cells) => cells.map(cell).join(",") + "\r\n");
    const link = h("a", { href: URL.createObjectURL(new Blob(lines, { type: "text/csv" })), download: "daytable.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
    toast(`${plural(rows.length, "row")} saved`);
  } catch (error) {
    toast(/** @type {Error} */ (error).message);
  }
}
