// The hosts that forward their records here: what each of them lacks here, and what it lost.

import * as api from "./api.js";
import { blank, button, copy, dash, grid, h, isEmpty, plural, sign, size, visible } from "./dom.js";
import { stringify } from "./json.js";
import { grouped } from "./number.js";
import { add, term } from "./query.js";
import { pair, pairs, section } from "./record.js";
import { roughly } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void}} Uses */

/** Records that are not here yet. @param {Row} host */
const lacking = (host) => (host.behind_records ? `${plural(host.behind_records, "record")}, ${size(host.behind_bytes)}, the oldest of ${roughly(host.behind_seconds * 1000)} ago` : "nothing");

/** @param {Row} host */
function lost(host) {
  const reasons = Object.entries(host.lost ?? {}).map(([reason, n]) => `${visible(reason)} ${grouped(n)}`);
  if (host.expired) reasons.push(`too late for their day ${grouped(host.expired)}`);
  return reasons.length ? h("span.bad", reasons.join(", ")) : "none";
}

/** The members of a host, as those of a record. @param {Row} host @param {AbortSignal} signal @param {Uses} uses @param {() => void} close */
function hostView(host, signal, { state, change }, close) {
  const panel = h("aside.record", { "aria-label": "Host" },
    h("div.record-head", h("h2", visible(host.host)), sign("\u2715", "Close the host (Escape)", close)),
    h("div.acts", button("Only its records", () => change({ q: add(state().q, term("log_host", host.host)), view: "records" }), { class: "primary" })),
    section("Fields", [String(Object.keys(host).length), ["Copy as JSON", () => copy(stringify(host, "  "), "Host")]], pairs(Object.entries(host).map(([name, value]) => pair(visible(name), value)))));
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(), { signal });
  return panel;
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showHosts(place, signal, uses) {
  const hosts = await api.hosts(signal);
  if (!hosts.length) return place.replaceChildren(blank("No hosts", "A host forwards its records here after `daytable hosts invite NAME` on this one, and the command that it prints on the other."));
  const behind = hosts.reduce((sum, host) => sum + (host.behind_records ?? 0), 0);
  const heard = (/** @type {Row} */ { revoked, silent_seconds }) => (revoked ? h("span.bad", "revoked") : isEmpty(silent_seconds) ? "not yet" : `${roughly(silent_seconds * 1000)} ago`);
  const side = h("div");
  const open = (/** @type {Row} */ host) => {
    const row = /** @type {HTMLElement|null} */ (document.activeElement);
    side.replaceChildren(hostView(host, signal, uses, () => {
      side.replaceChildren();
      row?.focus();
    }));
  };
  place.replaceChildren(h("div.split", h("div",
    h("p.note.lead", `${plural(hosts.length, "host")}. ${behind ? `${plural(behind, "record")} of them ${behind === 1 ? "is" : "are"} not here yet.` : "Everything that they had when they were heard of last is here."}`),
    grid("Hosts", [
      ["Host", (host) => button(visible(host.host), () => open(host), { class: "cell", title: "All that is known of it" }), (host) => host.host],
      ["Heard of", heard, (host) => host.silent_seconds],
      ["Records", (host) => grouped(host.records), (host) => host.records, true],
      ["Not here yet", lacking, (host) => host.behind_records],
      ["Losses", lost],
      ["Version", (host) => (host.version ? visible(host.version) : dash())],
    ], hosts)), side));
}
