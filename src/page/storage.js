// The life of the days, and what became of each source's records.

import * as api from "./api.js";
import { blank, button, dash, grid, h, isBlank, pathCell, plural, size, visible } from "./dom.js";
import { grouped } from "./number.js";
import { lossesOf } from "./record.js";
import { full, roughly } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {{state: () => import("./state.js").State, change: (change: import("./state.js").Change) => void}} Uses */

/** The configured table and the day of a day-table. @param {string} name @returns {[string, string]} */
function tableParts(name) {
  const [, table, date] = /^(.*?)(\d{8})$/.exec(name) ?? [];
  return date ? [table, `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`] : [name, ""];
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showDays(place, signal, { state, change }) {
  const tables = await api.tables(signal);
  if (!tables.length) return place.replaceChildren(blank("No days yet", "The first record makes the first day."));
  const { utc } = state();
  const time = (/** @type {string|null|undefined} */ text) => (text ? full(Date.parse(text), utc) : "\u2013");
  /** @type {Map<string, Row[]>} */
  const strips = new Map();
  for (const row of tables) {
    const [table] = tableParts(row.table);
    strips.set(table, [...(strips.get(table) ?? []), row]);
  }
  const most = tables.reduce((most, row) => Math.max(most, row.bytes ?? 0), 1);
  const sum = tables.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
  const open = (/** @type {Row} */ row) => {
    const day = tableParts(row.table)[1];
    if (day) change({ view: "records", since: day + "T00:00:00Z", until: new Date(Date.parse(day) + 864e5).toISOString().replace(".000", "") });
  };
  place.replaceChildren(
    h("p.note.lead", `${plural(tables.length, "day")} of ${plural(strips.size, "table")}, ${size(sum)}. A column is a day, as high as its bytes.`),
    ...[...strips].map(([table, rows]) => h("section.strip", { "aria-label": `Days of ${table}` }, h("h3", table), h("ol",
      ...rows.toSorted((a, b) => a.table.localeCompare(b.table)).flatMap((row, at, sorted) => {
        const month = tableParts(row.table)[1].slice(0, 7);
        const isNew = month && month !== tableParts(sorted[at - 1]?.table ?? "")[1].slice(0, 7);
        const bar = h("i");
        bar.style.height = (row.bytes ? Math.max(2, row.bytes / most * 44) : 0) + "px";
        const text = `${tableParts(row.table)[1] || row.table}: ${row.state}, ${row.rows === null || row.rows === undefined ? "" : plural(row.rows, "row") + ", "}${size(row.bytes)}${row.expires ? ", expires " + time(row.expires) : ""}`;
        return [isNew ? h("li", h("span", month)) : "", h("li", h("button", { class: "state-" + row.state, title: text, "aria-label": text, onclick: () => open(row) }, bar, h("span", (tableParts(row.table)[1] || row.table).slice(-2))))];
      })))),
    h("div.legend", ...["open", "sealed", "archived", "restored", "dropped"].map((name) => h("span", { class: "state-" + name }, h("i"), name))),
    grid("Day-tables", [
      ["Day-table", (row) => button(row.table, () => open(row), { class: "cell" })],
      ["State", (row) => h("span", { class: "chip state-" + row.state }, row.state)],
      ["Rows", (row) => (isBlank(row.rows) ? dash() : grouped(row.rows)), (row) => row.rows, true],
      ["Bytes", (row) => size(row.bytes), (row) => row.bytes, true],
      ["First", (row) => time(row.first_time), (row) => row.first_time],
      ["Last", (row) => time(row.last_time), (row) => row.last_time],
      ["Expires", (row) => time(row.expires), (row) => row.expires],
      ["Next", (row) => (row.error ? h("span.bad", visible(row.error)) : row.stays ? visible(row.stays) : row.next ? `${row.next}${row.next_at ? " " + time(row.next_at) : ""}` : dash())],
    ], tables.toReversed()));
  // The newest days are those that are looked for.
  for (const strip of place.querySelectorAll(".strip ol")) strip.scrollLeft = strip.scrollWidth;
}

/** @param {HTMLElement} place @param {AbortSignal} signal @param {Uses} uses */
export async function showSources(place, signal, { state }) {
  const when = (/** @type {string} */ text) => full(Date.parse(text), state().utc);
  const [all, { verify }] = await Promise.all([api.sources(signal), api.status(signal)]);
  const files = all.filter((row) => "path" in row);
  const ledgers = all.filter((row) => "listener" in row);
  const listeners = all.filter((row) => "listen" in row);
  const outboxes = all.filter((row) => "endpoint" in row);
  const bad = all.map((row) => /** @type {[Row, [string, number][]]} */ ([row, lossesOf(row)])).filter(([, losses]) => losses.length);
  if (!all.length) return place.replaceChildren(blank("No sources yet", "No file is followed, and no listener had a record: see `daytable check`. The sources of a lake are on its hosts."));
  const losses = (/** @type {Row} */ row) => {
    const list = lossesOf(row);
    return list.length ? h("span.bad", list.map(([reason, n]) => `${visible(reason)} ${grouped(n)}`).join(", ")) : "none";
  };
  /** @type {(head: string, of: (row: Row) => number) => import("./dom.js").Column<Row>} */
  const numbers = (head, of) => [head, (row) => grouped(of(row)), of, true];
  /** @type {import("./dom.js").Column<Row>[]} */
  const taken = [numbers("Records", (row) => row.records), ["Bytes", (row) => size(row.bytes), (row) => row.bytes, true]];
  /** @type {import("./dom.js").Column<Row>} */
  const lossesColumn = ["Losses", losses, (row) => lossesOf(row).reduce((sum, [, n]) => sum + n, 0)];
  const now = Date.now();
  place.replaceChildren(
    h("p", { class: bad.length ? "verdict bad" : "verdict good", role: "status" }, bad.length
      ? `Something was lost or changed in ${plural(bad.length, "source")}: see Losses. \u201cdaytable verify\u201d compares everything with its ledgers.`
      : `Nothing was lost of ${plural(all.length, "source")}: all that was read is stored.`),
    h("p", { class: verify.findings ? "lead bad" : "lead note" }, verify.last
      ? `Last verified ${when(verify.last)}: ${verify.findings ? plural(verify.findings, "finding") + ", which the log names" : "everything is whole"}.`
      : "Not verified yet by a daemon.", verify.next ? ` Next: ${when(verify.next)}.` : ""),
    files.length ? grid("Files and journals", [
      ["Source", (row) => pathCell(row.path), (row) => row.path],
      ["Block", (row) => row.block], ["Status", (row) => row.status],
      ["Not read yet", (row) => (isBlank(row.lag_bytes) ? (row.size === null ? "the file is gone" : dash()) : size(row.lag_bytes)), (row) => row.lag_bytes, true],
      ["Left out", skipped],
      ["Last record", (row) => (row.seen ? `${roughly(Math.max(0, now - Date.parse(row.seen)))} ago` : dash()), (row) => row.seen],
      ...taken, lossesColumn,
    ], files) : "",
    ledgers.length ? grid("Ledgers of listeners", [["Listener", (row) => visible(row.listener)], ["Kind", (row) => row.kind], ...taken, lossesColumn], ledgers) : "",
    listeners.length ? grid("Listeners since the start", [
      ["Listener", (row) => visible(row.listen)], ["Kind", (row) => row.kind], numbers("Connections", (row) => row.connections),
      numbers("Waiting", (row) => Math.max(0, row.received - row.committed)), numbers("Records", (row) => row.committed), taken[1], lossesColumn,
    ], listeners) : "",
    outboxes.length ? grid("Outbox", [
      ["Sends to", (row) => visible(row.endpoint)], ["State", (row) => row.state], numbers("Waiting", (row) => row.entities), taken[1],
      ["Oldest", (row) => `${grouped(row.age_seconds)} s`, (row) => row.age_seconds, true], numbers("Sent", (row) => row.sent),
    ], outboxes) : "");
}

/** What is not read of a source, and why. @param {Row} row */
function skipped(row) {
  const reasons = [["older_bytes", "older than ignore_older"], ["begun_bytes", "before read_from"], ["adopted_bytes", "read by the collector before"]]
    .flatMap(([member, reason]) => (row[member] ? [`${size(row[member])} ${reason}`] : []));
  if (row.own_records) reasons.push(`${plural(row.own_records, "record")} of daytable's own log`);
  return reasons.join(", ") || "nothing";
}
