// The state of the page is its address: what a person copies is what another person sees.

/**
 * @typedef {object} State
 * @property {string} q the query
 * @property {string} since an age, a time, `today`, `yesterday`, or nothing
 * @property {string} until a time, `today`, or nothing
 * @property {string} view one of the views
 * @property {string[]} cols fields that are columns
 * @property {boolean} wrap whether lines wrap
 * @property {boolean} utc whether times are UTC
 * @property {string} chart how the rows of a query are drawn: `lines` or `bars`
 * @property {boolean} log whether numbers are drawn by their size in powers of ten
 * @property {string} key the opened record: TABLE/PARTITION/ROW
 * @property {string} since2 the other range of a comparison
 * @property {string} until2
 */

/** @typedef {Partial<State>} Change */

export const VIEWS = /** @type {[string, string][]} */ ([
  ["records", "Records"], ["patterns", "Patterns"], ["compare", "Compare"], ["days", "Days"], ["sources", "Sources"], ["hosts", "Hosts"],
]);

const TEXTS = /** @type {const} */ (["q", "since", "until", "key", "since2", "until2"]);

const FLAGS = /** @type {const} */ (["wrap", "utc", "log"]);

/** @returns {State} */
export function read() {
  const params = new URLSearchParams(location.search);
  const text = (/** @type {string} */ name) => params.get(name) ?? "";
  const view = text("view");
  return {
    q: text("q"), since: text("since"), until: text("until"), key: text("key"), since2: text("since2"), until2: text("until2"),
    view: VIEWS.some(([name]) => name === view) ? view : "records",
    cols: text("cols").split(",").filter(Boolean).map(decodeURIComponent),
    wrap: params.has("wrap"), utc: params.has("utc"), log: params.has("log"), chart: text("chart") === "bars" ? "bars" : "lines",
  };
}

/** Whether the address says which columns there are. */
export const hasColumns = () => new URLSearchParams(location.search).has("cols");

/** The address of a state. @param {State} state */
export function address(state) {
  const params = new URLSearchParams();
  for (const name of TEXTS) if (state[name]) params.set(name, state[name]);
  if (state.view !== "records") params.set("view", state.view);
  if (state.cols.length) params.set("cols", state.cols.map(encodeURIComponent).join(","));
  for (const name of FLAGS) if (state[name]) params.set(name, "1");
  if (state.chart !== "lines") params.set("chart", state.chart);
  const query = params.toString().replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%2C", ",");
  return query ? "/?" + query : "/";
}

/** Writes the address. @param {State} state @param {boolean} replace */
export function write(state, replace) {
  const url = address(state);
  if (url !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", url);
}

/** A list that the browser keeps for this person. @param {string} name @returns {string[]} */
export function kept(name) {
  try {
    const list = JSON.parse(localStorage.getItem("daytable." + name) ?? "[]");
    return Array.isArray(list) ? list.map(String) : [];
  } catch {
    return [];
  }
}

/** @param {string} name @param {string[]} list */
export function keep(name, list) {
  try {
    localStorage.setItem("daytable." + name, JSON.stringify(list));
  } catch {
    // A browser that keeps nothing has no history.
  }
}
