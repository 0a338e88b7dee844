// What is on the screen, for others and for other tools: a link, a command, Grafana, a file.

import * as api from "./api.js";
import { button, copy, dialog, h } from "./dom.js";
import { shell, split, terms } from "./query.js";
import { address, keep, kept } from "./state.js";
import { instant, rfc } from "./time.js";

/** @typedef {import("./state.js").State} State */

/** What everything is exported as: the name, what the API calls it, and the end of the file's name. */
const FORMATS = [["NDJSON", "", "ndjson"], ["CSV", "spreadsheet", "csv"], ["Parquet", "parquet", "parquet"]];

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

/** @param {State} state @param {[number, number]} range what the range is at present @param {string} block the query as one of the configuration */
export function openShare(state, range, block) {
  const absolute = { ...fixed(state, range[1]), since: state.since ? rfc(range[0]) : "" };
  const link = location.origin + address(absolute);
  const line = (/** @type {string} */ name, /** @type {string} */ text) =>
    h("div.share-line", h("h3", name), h("code", { tabIndex: 0 }, text), button("Copy", () => copy(text, name), { "aria-label": `Copy: ${name}` }));
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
    state.q ? line("Saved query", block) : "",
    h("div.share-line", h("h3", "Grafana"), base, open),
    h("p.note", "Explore gets the words, instance, level, table and source of the query."),
    h("div.share-line", h("h3", "Export"), ...FORMATS.map(([name, format, end]) => h("a.button", { href: api.exportUrl(ask, format), download: "daytable." + end }, name))),
    h("p.note", "An export has all that matches."));
}
