// The range of time: ages, or two times, in the zone of the browser or in UTC.

import { button, byId, dialog, h } from "./dom.js";
import { age, ageWords, dayBegin, instant, isDayWord, rangeText, rfc } from "./time.js";

/** The days by name, each with the begin and the end that the address has. */
const DAYS = /** @type {[string, string, string][]} */ ([["Today", "today", ""], ["Yesterday", "yesterday", "today"]]);
const AGES = ["5m", "15m", "1h", "6h", "24h", "2d", "7d", "30d"];

/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void}} Uses */

/** @param {Uses} uses */
export function rangePicker(uses) {
  byId("range").addEventListener("click", () => openRange(uses));
}

/** @param {import("./state.js").State} state */
export function showRange(state) {
  byId("range").textContent = rangeText(state.since, state.until, state.utc);
  byId("range").title = state.utc ? "Times are UTC (t)" : `Times are ${Intl.DateTimeFormat().resolvedOptions().timeZone} (t)`;
}

/** @param {Uses} uses */
function openRange({ state, change }) {
  const now = state();
  const set = (/** @type {string} */ since, until = "") => {
    box.close();
    change({ since, until });
  };
  const field = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ hint) =>
    h("input", { name, value, placeholder: hint, autocomplete: "off", spellcheck: false });
  const since = field("since", local(now.since, now.utc), "2026-11-21 08:00, or 2h");
  const until = field("until", local(now.until, now.utc), "now");
  const fault = h("p.bad", { role: "alert" });
  const zone = h("select", { name: "zone", onchange: () => change({ utc: zone.value === "utc" }) },
    h("option", { value: "", selected: !now.utc }, Intl.DateTimeFormat().resolvedOptions().timeZone || "This browser's zone"), h("option", { value: "utc", selected: now.utc }, "UTC"));
  const form = h("form.pairs-form",
    h("label", "From", since), h("label", "To", until), h("label", "Zone", zone), fault,
    h("div.actions", h("button", { type: "submit", class: "primary" }, "Apply")));
  const moment = (/** @type {string} */ text) => instant(dayBegin(text, Date.now(), state().utc), Date.now());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [a, b] = [parse(since.value, state().utc), parse(until.value, state().utc)];
    if (a === undefined || b === undefined) fault.textContent = `${a === undefined ? "From" : "To"} is not a time: write 2026-11-21, 2026-11-21 08:00, yesterday or an age such as 2h.`;
    else if (a && b && moment(a) >= moment(b)) fault.textContent = "From must be before To.";
    else set(a, b);
  });
  const box = dialog("Time range",
    h("div.chips", { role: "group", "aria-label": "Ages" }, ...AGES.map((text) => button(`Last ${ageWords(text)}`, () => set(text), { "aria-pressed": now.since === text && !now.until })), ...DAYS.map(([name, from, to]) => button(name, () => set(from, to), { "aria-pressed": now.since === from && now.until === to })), button("All time", () => set("all"))),
    form);
}

/** A time for the form. @param {string} text @param {boolean} utc */
function local(text, utc) {
  const ms = Date.parse(text);
  if (!text || text === "all" || Number.isNaN(ms)) return text === "all" ? "" : text;
  const shifted = utc ? ms : ms - new Date(ms).getTimezoneOffset() * 6e4;
  return new Date(shifted).toISOString().replace("T", " ").replace(/(:00)?\.000Z$|Z$/, "");
}

/** A time of the form for the API; `undefined` if it is none. @param {string} text @param {boolean} utc */
export function parse(text, utc) {
  text = text.trim();
  if (!text || text === "now") return "";
  if (isDayWord(text) || !Number.isNaN(age(text))) return text;
  if (/^\d+$/.test(text) && text.length >= 10) return rfc(Number(text) * (text.length < 13 ? 1000 : 1));
  if (/[zZ]$|[+-]\d\d:?\d\d$/.test(text) && text.includes(":")) {
    const ms = Date.parse(text.replace(" ", "T"));
    return Number.isNaN(ms) ? undefined : rfc(ms);
  }
  const match = /^(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?)?$/.exec(text);
  if (!match) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0));
  const millis = Math.round(Number(match[7] ?? 0) * 1000);
  const ms = utc ? Date.UTC(year, month - 1, day, hour, minute, second, millis) : new Date(year, month - 1, day, hour, minute, second, millis).getTime();
  return Number.isNaN(ms) ? undefined : rfc(ms);
}
