// The page: its state, its views, its keys. Everything that is shown comes from /api/*.

import * as api from "./api.js";
import { watchAlerts } from "./alerts.js";
import { QueryBar } from "./bar.js";
import { showCompare } from "./compare.js";
import { Columns, recall, remember } from "./columns.js";
import { blank, button, byId, dialog, h, isBlank, plural, textOf, toast, visible } from "./dom.js";
import { Fields } from "./fields.js";
import { Histogram } from "./histogram.js";
import { showHosts } from "./hosts.js";
import { List } from "./list.js";
import { grouped } from "./number.js";
import { showPatterns } from "./patterns.js";
import { add, groupTerm, has, hasPipes, named, split, terms } from "./query.js";
import { rangePicker, showRange } from "./range.js";
import { copyLine, RecordView } from "./record.js";
import { linesIn, rowElement } from "./row.js";
import { keyOf, Rows } from "./rows.js";
import { openSaved, queryBlock } from "./saved.js";
import { openShare } from "./share.js";
import { hasColumns, read, VIEWS, write } from "./state.js";
import { showDays, showSources } from "./storage.js";
import { Tail } from "./tail.js";
import { showTable } from "./table.js";
import { Telling } from "./telling.js";
import { dateForm, dayBegin, isDayWord, length, rfc, stepAfter, stepStart, UNITS, zone } from "./time.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Change} Change */

/** Rows by which the source of a list is known. */
const SOURCE_ROWS = 100;
/** Heights of a row of one line, and of two on a narrow screen, as in page.css. */
const ROW_HEIGHT = { wide: 22, narrow: 42 };
/** Rows of a result that are read. */
const RESULT_MAX = 10000;
/** After this a reading is called slow. */
const SLOW = 1000;

let state = read();
/** @type {[number, number]} the first and the last record of all */
let extent = [Date.now() - 864e5, Date.now()];
let selected = -1;
let abort = new AbortController();
/** @type {RegExp|undefined} */
let marks;
let slow = 0;
/** Whether hosts forward here. */
let hasHosts = false;
/** @type {import("./api.js").SavedQuery[]} */
let saved = [];
/** @type {string|undefined} the source of the shown records; empty if there are several */
let source;
/** Whether the address says which columns there are, and not what was chosen for the source before. */
let areColumnsGiven = hasColumns();
/** @type {Set<string>} keys of records whose further lines are shown */
const opened = new Set();
/** Draws the chart of a result anew. */
let drawChart = () => {};
let took = 0;
/** When fields were read while records are followed. */
let fieldsRead = 0;
/** @type {Error|undefined} */
let fault;
/** @type {number|undefined} rows of a result */
let resultRows;

const scroller = h("div", { id: "grid", class: "grid", role: "grid", tabIndex: 0, "aria-label": "Records", "aria-readonly": "true" });
const heads = h("div.row.heads", { role: "row", "aria-rowindex": "1" });
const foot = h("div.foot");
scroller.append(h("div", { role: "rowgroup", class: "head-group" }, heads));
byId("list").append(scroller, foot);
const rows = new Rows(() => changed());
const list = new List(scroller, { length: () => rows.length, make: makeRow, nearEnd: () => rows.more() });
scroller.append(list.space);
const uses = { state: () => state, change };
const telling = new Telling(rows);
const columns = new Columns(scroller, heads, uses);
const histogram = new Histogram({
  onrange: (from, to) => change({ since: rfc(from), until: rfc(to), view: state.view === "compare" ? "compare" : "records" }),
  onfilter: (filter) => change({ q: add(state.q, filter) }),
  has: (filter) => has(state.q, filter),
  isLog: () => state.log,
  onlog: () => change({ log: !state.log }, true),
});
const fields = new Fields(uses);
const record = new RecordView({ ...uses, move, close: closeRecord, open: (row) => change({ key: keyOf(row) }) });
const queryBar = new QueryBar({ ask, run: (q) => (q === state.q ? run() : change({ q })) });
const tail = new Tail({
  mayShow: () => scroller.scrollTop < 4 && record.panel.hidden && !isSelecting(),
  came: countFollowed,
  show: follow,
  changed: showTail,
  failed: (error) => {
    if (isRefusal(error)) return refused(error);
    showTail(error);
  },
});
rangePicker(uses);

/** What is asked at present. @returns {api.Ask} */
function ask() {
  const begin = (/** @type {string} */ text) => dayBegin(text, Date.now(), state.utc);
  return { q: state.q, since: state.since === "all" ? "" : begin(state.since), until: begin(state.until) };
}

/** @returns {[number, number]} */
const range = () => api.rangeOf(ask(), extent);

/** @param {Error} error */
const isRefusal = (error) => error instanceof api.ApiError && (error.status === 401 || error.status === 403);

/** Whether something else is asked than before. @param {State} before */
const isOther = (before) => /** @type {const} */ (["q", "since", "until", "view", "since2", "until2"]).some((name) => before[name] !== state[name]);

/** Changes the state: what depends on it is asked or drawn again. @param {Change} next @param {boolean} [replace] */
function change(next, replace = false) {
  const before = state;
  state = { ...state, ...next };
  const isAsked = isOther(before);
  if (isAsked && next.key === undefined) state.key = "";
  write(state, replace);
  if (before.cols !== state.cols && isAsked) areColumnsGiven = true;
  else if (before.cols !== state.cols) remember(source ?? "", state.cols);
  if (isAsked) return run();
  showBar();
  if (before.log !== state.log) {
    histogram.renew();
    drawChart();
  }
  if (before.cols !== state.cols || before.wrap !== state.wrap || before.utc !== state.utc) layout();
  if (before.utc !== state.utc) {
    record.hide();
    // Days and hours begin at other times.
    if (isDayWord(state.since) || state.view !== "records" || resultRows !== undefined) return run();
    showHits({ ...ask(), q: split(state.q)[0] }, abort.signal);
  }
  showRecord();
}

function showBar() {
  queryBar.set(state.q);
  showRange({ ...state, since: state.since === "all" ? "" : state.since });
  document.title = state.q ? `${state.q.slice(0, 60)} · daytable` : "daytable";
  byId("views").replaceChildren(
    ...VIEWS.filter(([view]) => view !== "hosts" || hasHosts || state.view === view).map(([view, name]) => h("button", { "aria-current": state.view === view ? "page" : undefined, onclick: () => change({ view }) }, name)),
    ...(state.view === "records" ? [
      h("button", { class: "quiet narrow", "aria-pressed": document.body.classList.contains("with-fields"), onclick: toggleFields }, "Fields"),
      ...(saved.length ? [button("Saved", () => openSaved(saved, change), { class: "quiet", "aria-haspopup": "dialog", title: "Saved queries (s)" })] : []),
      h("button", { class: "quiet", "aria-pressed": state.wrap, title: "Wrap lines (w)", onclick: () => change({ wrap: !state.wrap }, true) }, "Wrap"),
    ] : []));
}

function toggleFields() {
  document.body.classList.toggle("with-fields");
  showBar();
}

/** Asks for everything that the view shows. */
function run() {
  abort.abort();
  abort = new AbortController();
  const { signal } = abort;
  rows.stop();
  const words = terms(state.q).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  marks = words.length ? new RegExp(`(${words.join("|")})`, "i") : undefined;
  fault = undefined;
  resultRows = undefined;
  selected = -1;
  clearTimeout(slow);
  showBar();
  queryBar.fault();
  record.hide();
  const isRecords = state.view === "records";
  byId("records").hidden = !isRecords;
  byId("other").hidden = isRecords;
  if (tail.isOn && (!isRecords || hasPipes(state.q))) tail.stop();
  slow = window.setTimeout(showStatus, SLOW);
  if (!isRecords) return void showView(signal);
  const asked = ask();
  const filtered = { ...asked, q: split(asked.q)[0] };
  const isResult = hasPipes(asked.q);
  byId("list").hidden = isResult;
  byId("table").hidden = !isResult;
  // The records come first; fields are read when nothing waits for the daemon.
  const shown = isResult ? showResult(asked, signal) : rows.begin(asked).then(() => {
    took = rows.took;
    if (signal.aborted) return;
    // The first rows were drawn when few were there.
    telling.reset(named(state.q));
    recallColumns();
    layout();
    showStatus();
  });
  showHits(filtered, signal);
  shown.then(() => {
    if (!signal.aborted && !rows.error && !fault) fields.load(filtered, signal);
  });
  if (isResult) return;
  telling.reset(named(state.q));
  opened.clear();
  layout();
  scroller.scrollTop = 0;
  if (tail.isOn) tail.start(filtered.q);
  showRecord();
}

/** @param {AbortSignal} signal */
async function showView(signal) {
  const place = byId("other");
  const began = performance.now();
  const name = VIEWS.find(([view]) => view === state.view)?.[1] ?? "";
  place.setAttribute("aria-label", name);
  if (place.dataset.view !== state.view) place.replaceChildren(h("p.note.lead", "Reading …"));
  place.dataset.view = state.view;
  place.classList.add("busy");
  showStatus();
  try {
    const show = new Map(Object.entries({ patterns: showPatterns, compare: showCompare, days: showDays, sources: showSources, hosts: showHosts })).get(state.view);
    await show?.(place, signal, { ...uses, ask, range, extent: () => extent });
    took = performance.now() - began;
  } catch (error) {
    if (!signal.aborted) failed(/** @type {Error} */ (error), place);
  }
  if (signal.aborted) return;
  place.classList.remove("busy");
  clearTimeout(slow);
  showStatus();
}

/**
 * The part of all time that has the records, if it is small: in a range of twenty years, a day is not seen.
 * @param {number[]} times @param {number} from @param {number} to @param {number} step @returns {[number, number]|undefined}
 */
function narrowed(times, from, to, step) {
  if (!times.length || tail.isOn) return undefined;
  const [first, last] = times.reduce(([least, most], time) => [Math.min(least, time), Math.max(most, time)], [Infinity, -Infinity]);
  const end = stepAfter(last, step, state.utc);
  return end - first < (to - from) / 4 ? [first, end] : undefined;
}

/** @param {api.Ask} asked @param {AbortSignal} signal */
async function showHits(asked, signal) {
  const [from, to] = range();
  const step = histogram.stepOf(from, to);
  histogram.begin(from, to, step, state.utc);
  try {
    const hitsOf = (/** @type {number} */ step, /** @type {Partial<api.Ask>} */ range = {}) => api.hits({ ...asked, ...range, step: length(step), zone: state.utc ? "" : zone() }, signal);
    let [shown, span, stepOfSpan] = [await hitsOf(step), /** @type {[number, number]} */ ([from, to]), step];
    // Bars of a month say little of an hour: each look shows where the next one has to be, in a quarter of the span at most.
    for (let near; state.since === "all" && (near = narrowed(shown.map(({ time }) => time), ...span, stepOfSpan)); ) {
      [span, stepOfSpan] = [near, histogram.stepOf(...near)];
      shown = await hitsOf(stepOfSpan, { since: rfc(near[0]), until: rfc(near[1]) });
    }
    histogram.begin(...span, stepOfSpan, state.utc);
    histogram.show(shown);
    showStatus();
  } catch (error) {
    if (!signal.aborted) histogram.show([]);
  }
}

/** @param {api.Ask} asked @param {AbortSignal} signal */
async function showResult(asked, signal) {
  const place = byId("table");
  const began = performance.now();
  place.classList.add("busy");
  try {
    const result = await api.result({ ...asked, limit: RESULT_MAX }, signal);
    if (signal.aborted) return;
    took = performance.now() - began;
    resultRows = result.rows.length;
    drawChart = () => {};
    if (!resultRows) place.replaceChildren(why.message ? nothing() : blank("No rows", "The pipes leave none of what matches."));
    else drawChart = showTable(place, result, {
      ...uses,
      filter(name, value) {
        const one = groupTerm(result.filters.find(({ column }) => column === name), name, value);
        const [first, pipes] = split(result.source ?? state.q);
        change({ q: pipes ? `${first} ${pipes} | filter ${one}` : add(split(state.q)[0], one) });
      },
      // Steps of a query are those of UTC.
      zoom: (time, step) => change({ q: split(state.q)[0], since: rfc(time), until: rfc(stepAfter(time, step, true)) }),
    });
  } catch (error) {
    if (signal.aborted) return;
    resultRows = 0;
    failed(/** @type {Error} */ (error), place);
  }
  place.classList.remove("busy");
  clearTimeout(slow);
  showStatus();
}

/** Shows why there is no answer, and what to do. @param {Error} error @param {HTMLElement} place */
function failed(error, place) {
  fault = error;
  const { status, at } = error instanceof api.ApiError ? error : { status: -1, at: undefined };
  if (isRefusal(error)) return refused(error);
  if (at || (status === 400 && state.q)) {
    // The line below the query says what is wrong, and where.
    queryBar.fault(error.message, at);
    place.replaceChildren(blank("The query cannot be understood", "", button("Edit the query", () => byId("q").focus(), { class: "primary" })));
  } else {
    const title = status === 0 ? "No connection" : status === 503 ? "The daemon is busy" : "The answer failed";
    const advice = status === 0 ? "The daemon does not answer: `systemctl status daytable`." : error.message;
    place.replaceChildren(blank(title, advice, button("Try again", run, { class: "primary" })));
  }
}

/** A way to the page of the query language, beside this one. @param {string} text */
const language = (text) => h("a.button", { href: "/page/language.html", target: "_blank" }, text);

/** Asks for leave to read. @param {Error} error */
function refused(error) {
  if (document.body.classList.contains("is-refused")) return;
  abort.abort();
  rows.stop();
  const isLink = location.pathname.startsWith("/open/");
  const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, "aria-label": "Token" });
  const wrong = h("p.bad", { role: "alert" });
  const form = h("form.sign-in", { onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await api.signIn(token.value);
      location.href = isLink ? "/" : location.href;
      location.reload();
    } catch (error) {
      wrong.textContent = /** @type {Error} */ (error).message;
    }
  } }, h("label", "Token of http.token_file", token), h("button", { type: "submit", class: "primary" }, "Read with the token"), wrong);
  const text = isLink ? "This link was used, or is older than five minutes." : /** @type {any} */ (error).status === 401 ? "This browser may not read yet." : "This browser may not read yet, and no token is configured.";
  const place = byId("main");
  place.replaceChildren(h("div.blank.refused", h("h2", isLink ? "The link no longer works" : "Not signed in"), h("p", text),
    h("p", "On the daemon\u2019s host, run this as root or as its user, and open the link that it prints:"), h("pre", "daytable open"), /** @type {any} */ (error).status === 401 ? form : ""));
  byId("status").textContent = "";
  document.body.classList.add("is-refused");
}

/** The columns of the list, and the height of its rows. */
function layout() {
  const isNarrow = innerWidth < 720;
  columns.layout(dateForm(...range(), state.utc), isNarrow, charsIn);
  scroller.classList.toggle("wrap", state.wrap);
  list.reset(state.wrap, opened.size > 0, isNarrow ? ROW_HEIGHT.narrow : ROW_HEIGHT.wide);
}

/** Characters of the longest value of a field among the first rows. @param {string} name */
const charsIn = (name) => Array.from({ length: Math.min(rows.length, SOURCE_ROWS) }, (_, at) => textOf(rows.get(at)[name]).length).reduce((a, b) => Math.max(a, b), 0);

/** Shows the columns that were chosen for the source of the records, when another source is shown than before. */
function recallColumns() {
  const looked = Array.from({ length: Math.min(rows.length, SOURCE_ROWS) }, (_, at) => rows.get(at));
  if (!looked.length) return;
  const first = textOf(looked[0].source);
  const next = looked.every((row) => textOf(row.source) === first) ? first : "";
  const isSame = next === source || areColumnsGiven;
  [source, areColumnsGiven] = [next, false];
  if (isSame) return;
  // Columns of another source, which no record here has, are left away.
  const cols = recall(source) ?? state.cols.filter((name) => looked.some((row) => !isBlank(row[name])));
  if (cols.join("\n") === state.cols.join("\n")) return;
  state = { ...state, cols };
  write(state, true);
  fields.draw();
}

/** A row of the list. @param {number} at */
function makeRow(at) {
  const row = rows.get(at);
  const isNarrow = innerWidth < 720;
  const { cols } = state;
  const others = telling.fields(at, cols);
  return rowElement(at, row, {
    utc: state.utc, dates: dateForm(...range(), state.utc), isWrapped: state.wrap, isOpen: opened.has(keyOf(row)), isSelected: at === selected, marks,
    cells: isNarrow ? [] : cols,
    fields: isNarrow ? [...cols.flatMap((name) => (isBlank(row[name]) ? [] : [/** @type {[string, unknown]} */ ([name, row[name]])])), ...others] : others,
    open: () => isSelecting() || openRecord(at),
    toggle: () => toggleLines(at),
  });
}

/** Shows the further lines of a row in its place, or hides them. @param {number} at */
function toggleLines(at) {
  const row = rows.get(at);
  const { rest, texts } = linesIn(row);
  if (state.wrap || (!rest && !texts.length)) return;
  const key = keyOf(row);
  if (!opened.delete(key)) opened.add(key);
  list.resize(at);
}

/** Whether a person selects text in the list. */
function isSelecting() {
  const selection = getSelection();
  return !!selection && !selection.isCollapsed && scroller.contains(selection.anchorNode);
}

/** The records of the list have changed. */
function changed() {
  if (rows.error && !rows.length) {
    const place = h("div.cover");
    foot.replaceChildren(place);
    failed(rows.error, place);
  } else if (!rows.length && rows.isWhole && !rows.isLoading) {
    foot.replaceChildren(h("div.cover", nothing()));
  } else {
    foot.replaceChildren(rows.error ? h("p.note.bad", `${rows.error.message} `, button("Try again", () => {
      rows.error = undefined;
      rows.more();
    })) : rows.isLoading && rows.length ? h("p.note", "Reading older records …") : "");
  }
  scroller.classList.toggle("busy", rows.isLoading && !rows.length);
  scroller.setAttribute("aria-rowcount", String(rows.isWhole ? rows.length + 1 : -1));
  if (!rows.isLoading) clearTimeout(slow);
  list.draw();
  showStatus();
}

/** Why the last question found nothing, and what was probably meant. @type {Partial<api.Warning>} */
let why = {};
api.listener.warn = (warnings) => {
  const said = warnings.find((warning) => warning.at);
  if (said) queryBar.say(said.message, said.at, said.instead);
  why = warnings.find((warning) => !warning.at) ?? {};
};

/** Nothing matches: why, and what to do. */
function nothing() {
  const [first, last] = extent;
  const [from, to] = range();
  const asked = split(state.q)[0];
  if (!last) return blank("Nothing is stored yet", "\u201cSources\u201d shows what is read.", button("Sources", () => change({ view: "sources" }), { class: "primary" }), button("Follow", () => byId("live").click()));
  if (asked && asked !== "*") {
    const { message, instead } = why;
    return blank("Nothing matches", `No record of this range matches the query${message ? `: ${message}` : ""}.`,
      instead ? button("Ask " + visible(instead), () => change({ q: instead }), { class: "primary" }) : "",
      state.since === "all" ? "" : button("Look at all time", () => change({ since: "all", until: "" }), instead ? {} : { class: "primary" }), button("Clear the query", () => change({ q: "" })));
  }
  const where = to <= first ? "The range is before the first record." : from > last ? "The range is after the last record." : "No record has a time in this range.";
  return blank("No records in this range", where, button("Show the last day with records", () => change(lastDay()), { class: "primary" }), button("All time", () => change({ since: "all", until: "" })));
}

/** The range of the newest record's day. @returns {Change} */
function lastDay() {
  const day = stepStart(extent[1], UNITS.d, state.utc);
  return { since: rfc(day), until: rfc(stepAfter(day, UNITS.d, state.utc)) };
}

function showStatus() {
  if (document.body.classList.contains("is-refused")) return;
  const status = byId("status");
  const isBusy = state.view === "records" ? rows.isLoading && !rows.length : byId("other").classList.contains("busy");
  if (isBusy || byId("table").classList.contains("busy")) {
    return status.replaceChildren("Reading … ", button("Stop", () => {
      abort.abort();
      rows.stop();
      rows.isWhole = true;
      for (const place of document.querySelectorAll(".busy")) place.classList.remove("busy");
      status.textContent = "Stopped";
    }, { class: "quiet" }));
  }
  const time = `${took < 10 ? took.toFixed(1) : Math.round(took)}\u00a0ms`;
  if (state.view !== "records") return void (status.textContent = fault ? "" : time);
  if (fault || rows.error) return void (status.textContent = "");
  const matching = histogram.isBusy ? "" : plural(histogram.total, "record");
  status.textContent = [resultRows === undefined ? matching : `${plural(resultRows, "row")} of ${matching}`, time].filter(Boolean).join(" · ");
}

// --- the record, and moving among records

/** @param {number} at */
function openRecord(at) {
  select(at);
  change({ key: keyOf(rows.get(at)) }, state.key !== "");
}

/** @param {number} at */
function select(at) {
  const old = selected;
  selected = at;
  list.redo(old);
  list.redo(at);
  scroller.setAttribute("aria-activedescendant", "row-" + at);
}

/** @param {number} by */
function move(by) {
  if (!rows.length) return;
  const at = Math.min(rows.length - 1, Math.max(0, selected + by));
  select(at);
  list.show(at, heads.offsetHeight);
  if (document.activeElement === document.body) scroller.focus({ preventScroll: true });
  if (!record.panel.hidden) change({ key: keyOf(rows.get(at)) }, true);
}

function closeRecord() {
  record.hide();
  change({ key: "" });
  scroller.focus({ preventScroll: true });
}

/** Shows the record of the address. */
async function showRecord() {
  if (!state.key || state.view !== "records") return record.hide();
  const at = rows.find(state.key);
  try {
    const row = at >= 0 ? rows.get(at) : await api.record(state.key);
    if (!row) return toast("This record is no longer there: its day was dropped.");
    if (at >= 0 && at !== selected) select(at);
    record.show(row);
  } catch (error) {
    if (isRefusal(/** @type {Error} */ (error))) return refused(/** @type {Error} */ (error));
    toast(/** @type {Error} */ (error).message);
  }
}

// --- following

const TIME_AND_LEVEL = /"time":"([^"]*)"(?:,"level":"([^"]*)")?/;

/** @param {string[]} lines */
function follow(lines) {
  rows.follow(lines);
  if (selected >= 0) selected += lines.length;
  list.forget();
}

/** Adds records to the bars and the total, also those that are not shown. @param {string[]} lines */
function countFollowed(lines) {
  histogram.reach(Date.now());
  // Reading each line as a whole would leave no time to draw. Within a text there is a backslash before each quote.
  /** @type {Map<string, {time: number, level: string, n: number}>} */
  const hits = new Map();
  for (const line of lines) {
    const [found, time, level = ""] = TIME_AND_LEVEL.exec(line) ?? [];
    if (found === undefined) continue;
    const hit = hits.get(found);
    if (hit) hit.n += 1;
    else hits.set(found, { time: Date.parse(time), level, n: 1 });
  }
  histogram.add([...hits.values()]);
  showStatus();
  // What the fields say grows old: they are read every five seconds.
  if (performance.now() - fieldsRead < 5e3 || document.hidden) return;
  fieldsRead = performance.now();
  fields.load({ ...ask(), q: split(state.q)[0] }, abort.signal);
}

/** @param {Error} [error] */
function showTail(error) {
  const live = byId("live");
  live.setAttribute("aria-pressed", String(tail.isOn));
  const notice = byId("notice");
  if (error) return notice.replaceChildren(h("p.bad", `Following has ended: ${error.message}. `, button("Follow again", () => tail.start(split(state.q)[0]))));
  if (!tail.isOn) return notice.replaceChildren();
  const waits = tail.waiting.length;
  const text = [
    tail.isPaused ? "Paused" : "Following",
    `${grouped(tail.rate)} records/s`,
    tail.isSampled ? `a sample is shown, ${grouped(tail.left)} of ${grouped(tail.came)} left out` : "",
  ].filter(Boolean).join(" · ");
  if (!notice.firstChild) {
    notice.replaceChildren(h("p.live", h("i"), h("span"), button("", () => showWaiting(), { class: "waiting primary" }), button("", () => tail.pause(), { class: "quiet pause", title: "p" })));
  }
  notice.querySelector("span").textContent = text;
  const waiting = notice.querySelector(".waiting");
  waiting.hidden = !waits;
  waiting.textContent = plural(waits, "new record");
  notice.querySelector(".pause").textContent = tail.isPaused ? "Go on" : "Pause";
}

function showWaiting() {
  record.hide();
  getSelection()?.removeAllRanges();
  scroller.scrollTop = 0;
  tail.flush(true);
}

function toggleLive() {
  if (tail.isOn) return tail.stop();
  if (state.view !== "records" || hasPipes(state.q)) change({ view: "records", q: split(state.q)[0] });
  tail.start(split(state.q)[0]);
}

// --- keys

const KEYS = /** @type {[string, string, () => void][]} */ ([
  ["/", "Write a query", () => byId("q").select()],
  ["j", "Older record", () => move(1)],
  ["k", "Newer record", () => move(-1)],
  ["Enter", "Open the record", () => selected >= 0 && openRecord(selected)],
  ["c", "Records around it", () => {
    if (record.panel.hidden && selected >= 0) openRecord(selected);
    setTimeout(() => record.context());
  }],
  ["y", "Copy the line", () => selected >= 0 && copyLine(rows.get(selected))],
  ["l", "Follow, and stop following", toggleLive],
  ["p", "Pause, and go on following", () => tail.isOn && tail.pause()],
  ["n", "Show what waits", () => tail.isOn && showWaiting()],
  ["r", "Ask again", () => run()],
  ["o", "Open the lines of a trace in its place", () => selected >= 0 && toggleLines(selected)],
  ["s", "Saved queries", () => saved.length && openSaved(saved, change)],
  ["w", "Wrap lines", () => change({ wrap: !state.wrap }, true)],
  ["t", "UTC, or the browser's zone", () => change({ utc: !state.utc }, true)],
  ["d", "Choose a range of time", () => byId("range").click()],
  ["e", "Share and export", () => byId("share").click()],
  ["g", "First row", () => move(-rows.length)],
  ["G", "Last row that was read", () => move(rows.length)],
  ["1 … 6", "Records, patterns, compare, days, sources, hosts", () => {}],
  ["?", "This help", () => byId("help").click()],
]);

document.addEventListener("keydown", (event) => {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || document.body.classList.contains("is-refused")) return;
  if (event.key === "Escape" && !record.panel.hidden) return closeRecord();
  if (event.key === "Escape" && document.body.classList.contains("with-fields")) return toggleFields();
  if (target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return;
  const inGrid = target === scroller || target === document.body;
  const key = inGrid && event.key === "ArrowDown" ? "j" : inGrid && event.key === "ArrowUp" ? "k" : event.key;
  if (key === "Enter" && !inGrid) return;
  const view = VIEWS[Number(key) - 1];
  const action = KEYS.find(([name]) => name === key)?.[2] ?? (view && (() => change({ view: view[0] })));
  if (!action) return;
  event.preventDefault();
  action();
});

byId("help").addEventListener("click", () => dialog("Keys and help",
  h("dl.keys", ...KEYS.flatMap(([key, text]) => [h("dt", h("kbd", key)), h("dd", text)])),
  h("div.help-head", h("h3", "Queries"), language("The whole language")),
  h("dl.keys", ...[["disk full", "both words"], ["\"disk full\"", "the phrase"], ["level:error", "a level"], ["status:>=500", "a number"], ["path:~\"^/api\"", "a regular expression"], ["-user:=bob", "not"], ["error | stats by (instance) count() n", "numbers"]].flatMap(([q, text]) => [h("dt", h("code", q)), h("dd", text)])),
  h("p", button("Sign out", async () => {
    await api.signOut();
    location.href = "/";
  }))));
byId("live").addEventListener("click", toggleLive);
byId("share").addEventListener("click", () => openShare({ ...state, ...ask() }, range(), queryBlock(state)));
addEventListener("popstate", () => {
  const before = state;
  state = read();
  areColumnsGiven = true;
  if (isOther(before)) return run();
  showBar();
  layout();
  histogram.renew();
  drawChart();
  showRecord();
});
matchMedia("(max-width: 719px)").addEventListener("change", layout);

// --- the start

/** Looks at what there is, and shows it. A page without a range shows the last day, or the last day with records. */
async function start() {
  const isLink = location.pathname !== "/";
  const isOpen = !state.since && !state.until;
  if (isOpen) state.since = "24h";
  // Most pages show today, which needs no look at the days.
  const isAtOnce = !isLink && state.since !== "all";
  if (isAtOnce) run();
  try {
    const times = (await api.tables()).flatMap((table) => (table.first_time ? [Date.parse(table.first_time), Date.parse(table.last_time)] : []));
    extent = times.length ? [Math.min(...times), Math.max(...times)] : [0, 0];
  } catch (error) {
    if (isRefusal(/** @type {Error} */ (error))) return refused(/** @type {Error} */ (error));
  }
  if (isLink) history.replaceState(null, "", "/");
  const isOld = isOpen && extent[1] > 0 && extent[1] < Date.now() - 864e5;
  if (isOld) state = { ...state, ...lastDay() };
  if (isOpen) write(state, true);
  if (!isAtOnce || isOld) run();
  else if (rows.isWhole && !rows.isLoading) changed();
  Promise.all([api.hosts().catch(() => []), api.savedQueries().catch(() => [])]).then(([hosts, queries]) => {
    hasHosts = hosts.length > 0;
    saved = queries;
    showBar();
  });
  watchAlerts({ utc: () => state.utc, show: (q, since) => change({ q, since, until: "", view: "records" }) });
}

start();
