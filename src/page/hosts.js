// The hosts that forward their records here: what each of them lacks here, and what it lost.

import * as api from "./api.js";
import { blank, button, copy, dash, grid, h, isEmpty, plural, sign, size, visible } from "./dom.js";
import { LEVELS } from "./histogram.js";
import { stringify } from "./json.js";
import { grouped } from "./number.js";
import { add, term } from "./query.js";
import { pair, pairs, section } from "./record.js";
import { full, rfc, roughly, stepAfter, stepsOf, stepStart, UNITS, zone } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void}} Uses */

/** Records that are not here yet. @param {Row} host */
const lacking = (host) => (host.behind_records ? `${plural(host.behind_records, "record")}, ${size(host.behind_bytes)}, the oldest of ${roughly(host.behind_seconds * 1000)} ago${host.backlog_records ? "; the newest are here" : ""}` : "nothing");

/** @param {Row} host */
function lost(host) {
  const reasons = Object.entries(host.lost ?? {}).map(([reason, n]) => `${visible(reason)} ${grouped(n)}`);
  for (const [reason, n] of Object.entries(host.lost_bytes ?? {})) reasons.push(`${visible(reason)} ${size(n)}`);
  if (host.expired) reasons.push(`too late for their day ${grouped(host.expired)}`);
  return reasons.length ? h("span.bad", reasons.join(", ")) : "none";
}

/** Levels of records that say that something failed. */
const FAILED_LEVELS = LEVELS.slice(0, LEVELS.indexOf("error") + 1);
/** Pixels of the highest column. */
const STRIP_HEIGHT = 44;

/** The records of a host in the last day, by hour; an hour is a way to its records. @param {HTMLElement} place @param {Row} host @param {AbortSignal} signal @param {Uses} uses */
async function showStrip(place, host, signal, { state, change }) {
  const { utc, q } = state();
  const starts = stepsOf(Date.now() - UNITS.d, Date.now(), UNITS.h, utc);
  const only = term("log_host", host.host);
  const hits = await api.hits({ q: only, since: rfc(starts[0]), until: "", step: "1h", zone: utc ? "" : zone() }, signal);
  const hours = new Map(starts.map((start) => [start, { records: 0, errors: 0 }]));
  for (const { time, level, n } of hits) {
    const hour = hours.get(stepStart(time, UNITS.h, utc));
    if (!hour) continue;
    hour.records += n;
    if (FAILED_LEVELS.includes(level)) hour.errors += n;
  }
  const most = [...hours.values()].reduce((most, { records }) => Math.max(most, records), 0);
  if (!most) return place.replaceChildren(h("p.note", "No record of the last 24 hours."));
  place.replaceChildren(h("ol", ...[...hours].map(([start, { records, errors }]) => {
    const text = `${full(start, utc).slice(0, 16)}: ${plural(records, "record")}${errors ? `, ${plural(errors, "error")}` : ""}`;
    const column = h("i", { class: errors ? "level-error" : "level-info" });
    column.style.height = (records ? Math.max(2, (records / most) * STRIP_HEIGHT) : 0) + "px";
    return h("li", h("button", { title: text, "aria-label": text, onclick: () => change({ q: add(q, only), view: "records", since: rfc(start), until: rfc(stepAfter(start, UNITS.h, utc)) }) },
      column, h("span", full(start, utc).slice(11, 13))));
  })));
}

/** The members of a host, as those of a record. @param {Row} host @param {AbortSignal} signal @param {Uses} uses @param {() => void} close */
function hostView(host, signal, uses, close) {
  const { state, change } = uses;
  const strip = h("div.strip", h("p.note", "Reading \u2026"));
  showStrip(strip, host, signal, uses).catch((/** @type {Error} */ error) => signal.aborted || strip.replaceChildren(h("p.note.bad", error.message)));
  const panel = h("aside.record", { "aria-label": "Host" },
    h("div.record-head", h("h2", visible(host.host)), sign("\u2715", "Close the host (Escape)", close)),
    h("div.acts", button("Only its records", () => change({ q: add(state().q, term("log_host", host.host)), view: "records" }), { class: "primary" })),
    section("Records by hour", ["the last day"], strip),
    section("Fields", [String(Object.keys(host).length), ["Copy as JSON", () => copy(stringify(host, "  "), "Host")]], pairs(Object.entries(host).map(([name, value]) => pair(visible(name), value)))));
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(), { signal });
  return panel;
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showHosts(place, signal, uses) {
  const hosts = await api.hosts(signal);
  if (!hosts.length) return place.replaceChildren(blank("No hosts", "`daytable hosts invite NAME` prints what a host runs to forward its records here."));
  const behind = hosts.reduce((sum, host) => sum + (host.behind_records ?? 0), 0);
  const heard = (/** @type {Row} */ { revoked, silent, silent_seconds }) => (revoked ? h("span.bad", "revoked") : isEmpty(silent_seconds) ? "not yet" : silent ? h("span.bad", `silent for ${roughly(silent_seconds * 1000)}`) : `${roughly(silent_seconds * 1000)} ago`);
  const silent = hosts.filter(({ silent }) => silent).length;
  const side = h("div");
  const open = (/** @type {Row} */ host) => {
    const row = /** @type {HTMLElement|null} */ (document.activeElement);
    side.replaceChildren(hostView(host, signal, uses, () => {
      side.replaceChildren();
      row?.focus();
    }));
  };
  place.replaceChildren(h("div.split", h("div",
    h("p.note.lead", `${plural(hosts.length, "host")}${silent ? `, ${silent} silent` : ""}. ${behind ? `${plural(behind, "record")} of them ${behind === 1 ? "is" : "are"} not here yet.` : "Everything that they had when they were heard of last is here."}`),
    grid("Hosts", [
      ["Host", (host) => button(visible(host.host), () => open(host), { class: "cell", title: "All that is known of it" }), (host) => host.host],
      ["Heard of", heard, (host) => host.silent_seconds],
      ["Records", (host) => grouped(host.records), (host) => host.records, true],
      ["Not here yet", lacking, (host) => host.behind_records],
      ["Losses", lost],
      ["Version", (host) => (host.version ? visible(host.version) : dash())],
    ], hosts)), side));
}
