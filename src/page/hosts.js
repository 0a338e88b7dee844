// The hosts that forward their records here: what each of them lacks here, and what it lost.

import * as api from "./api.js";
import { blank, button, grid, h, plural, size, visible } from "./dom.js";
import { grouped } from "./number.js";
import { add, term } from "./query.js";
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

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showHosts(place, signal, { state, change }) {
  const hosts = await api.hosts(signal);
  if (!hosts.length) return place.replaceChildren(blank("No hosts", "A host forwards its records here after `daytable hosts invite NAME` on this one, and the command that it prints on the other."));
  const behind = hosts.reduce((sum, host) => sum + (host.behind_records ?? 0), 0);
  place.replaceChildren(
    h("p.note.lead", `${plural(hosts.length, "host")}. ${behind ? `${plural(behind, "record")} of them ${behind === 1 ? "is" : "are"} not here yet.` : "Everything that they had when they were heard of last is here."}`),
    grid("Hosts", ["Host", "Heard of", "Records", "Not here yet", "Losses", "Version"], hosts.map((host) => [
      button(visible(host.host), () => change({ q: add(state().q, term("log_host", host.host)), view: "records" }), { class: "cell", title: "Only its records" }),
      host.revoked ? h("span.bad", "revoked") : host.silent_seconds === null || host.silent_seconds === undefined ? "not yet" : `${roughly(host.silent_seconds * 1000)} ago`,
      grouped(host.records), lacking(host), lost(host), visible(host.version || "–"),
    ]), [2]));
}
