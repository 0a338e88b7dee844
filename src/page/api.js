// The only requests of the page: /api/* and its own session.

import { parseJson } from "./json.js";
import { instant } from "./time.js";

/** @typedef {{q: string, since: string, until: string}} Ask what is asked: a query and a range */
/** @typedef {Record<string, any>} Row a record, or a row of a result */

/** An answer that is not what was asked for. */
export class ApiError extends Error {
  /** @param {number} status 0 without an answer @param {string} message @param {{from: number, to: number}} [at] the place in the query, in characters */
  constructor(status, message, at) {
    super(message);
    this.status = status;
    this.at = at;
  }
}

/** @param {string} path @param {Record<string, string|number|undefined>} params */
function target(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== "") query.set(name, String(value));
  return `/api/${path}?${query}`;
}

/** A place in the query in characters. The answer counts bytes. @param {any} at @param {string} q */
function placeIn(at, q) {
  if (typeof at?.from !== "number") return undefined;
  const bytes = new TextEncoder().encode(q);
  const chars = (/** @type {number} */ byte) => new TextDecoder().decode(bytes.slice(0, byte)).length;
  return { from: chars(at.from), to: chars(at.to ?? at.from) };
}

/** The error in an answer. @param {number} status @param {any} answer @param {string} q */
const errorOf = (status, answer, q) => new ApiError(status, String(answer?.error ?? `the answer has status ${status}`), placeIn(answer?.at, q));

/** @typedef {{message: string, at: {from: number, to: number}|undefined, instead: string|undefined}} Warning what looks wrong in a query that is answered, and the one that was probably meant */

/** Is told of the warnings of a query. @type {{warn: (warnings: Warning[]) => void}} */
export const listener = { warn: () => {} };

/** @param {Response} response @param {string} q @returns {Warning[]} */
const warningsOf = (response, q) => JSON.parse(response.headers.get("daytable-warnings") ?? "[]").map((/** @type {any} */ { message, at, instead }) => ({ message, at: placeIn(at, q), instead }));

/** The longest address. A head has 16 KiB at most, so parameters that are longer are sent as a form. */
const URL_CHARS_MAX = 8000;

/** @param {string} url @param {AbortSignal} [signal] @param {string} [q] */
async function get(url, signal, q = "") {
  let response;
  try {
    const [path, query] = url.split("?");
    const form = url.length > URL_CHARS_MAX ? { method: "POST", body: new URLSearchParams(query) } : {};
    response = await fetch(form.body ? path : url, { ...form, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the daemon does not answer");
  }
  if (!response.ok) throw errorOf(response.status, await response.json().catch(() => null), q);
  return response;
}

/**
 * Hands out the lines of an answer, chunk by chunk, and gives false if `take` had enough.
 * @param {Response} response @param {(lines: string[]) => boolean|void} take
 */
async function lines(response, take) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (rest + (value ?? "")).split("\n");
    rest = done ? "" : /** @type {string} */ (parts.pop());
    if (take(parts.filter(Boolean)) === false) return void reader.cancel();
    if (done) return;
  }
}

/** An answer's last line may be an error. @param {string[]} part @param {string} q */
function withoutError(part, q) {
  const last = part.at(-1);
  if (last?.startsWith('{"error":')) {
    const parsed = parseJson(last);
    if (parsed.table === undefined) throw Object.assign(errorOf(500, parsed, q), { partial: part.splice(-1) });
  }
  return part;
}

/**
 * Records, newest first, as lines of JSON.
 * @param {Ask & {limit?: number}} ask @param {AbortSignal} signal @param {(lines: string[]) => void} take
 */
export async function query({ q, since, until, limit }, signal, take) {
  const response = await get(target("query", { q, since, until, limit }), signal, q);
  listener.warn(warningsOf(response, q));
  /** @type {unknown} */
  let failed;
  await lines(response, (part) => {
    try {
      withoutError(part, q);
    } catch (error) {
      failed = error;
    }
    take(part);
  });
  if (failed) throw failed;
}

/** All of an answer of lines. @param {string} url @param {AbortSignal} [signal] @param {string} [q] */
async function rows(url, signal, q = "") {
  /** @type {Row[]} */
  const all = [];
  await lines(await get(url, signal, q), (part) => void all.push(...withoutError(part, q).map(parseJson)));
  return all;
}

/** One JSON document. @param {string} path @param {Ask & Record<string, string|number>} ask @param {AbortSignal} [signal] @returns {Promise<any>} */
const document = async (path, ask, signal) => parseJson(await (await get(target(path, ask), signal, ask.q)).text());

/** @typedef {{column: string, field: string, test: string, size: number}} GroupFilter how a value of a column finds the records of its group */
/** @typedef {{rows: Row[], groups: string[], source: string|null, filters: GroupFilter[], step_seconds: unknown}} Result rows, the columns by which they are groups, what these are made of, and the step of their time */

/** The rows of a query with pipes. @param {Ask & {limit: number}} ask @param {AbortSignal} signal @returns {Promise<Result>} */
export async function result(ask, signal) {
  const response = await get(target("stats", ask), signal, ask.q);
  listener.warn(warningsOf(response, ask.q));
  return /** @type {any} */ (parseJson(await response.text()));
}

/**
 * Counts by level and step. Days and hours begin by the clocks of a zone, or of UTC without one.
 * @param {Ask & {step: string, zone: string}} ask @param {AbortSignal} signal
 * @returns {Promise<{time: number, level: string, n: number}[]>}
 */
export const hits = async (ask, signal) =>
  (await document("hits", { ...ask, by: "level" }, signal)).hits.map((/** @type {Row} */ row) => ({ time: Date.parse(row.time), level: row.level ?? "", n: row.records }));

/** Fields and values are looked for in so many records, the newest: all of a large day would take a minute. */
export const SAMPLE = 20000;

/** @param {Ask} ask */
const sample = (ask) => ({ ...ask, q: `${ask.q || "*"} | limit ${SAMPLE}` });

/** @typedef {{field: string, records: number, distinct: number, values: {value: unknown, n: number}[]}} Facet a field with few values */

/** Fields of the sample with their most frequent values. @param {Ask} ask @param {AbortSignal} signal @param {number} limit @returns {Promise<Facet[]>} */
export const facets = (ask, signal, limit) => document("facets", { ...sample(ask), limit }, signal);

/** Names of fields, each with its records in the sample. @param {Ask} ask @param {AbortSignal} [signal] @returns {Promise<{name: string, records: number}[]>} */
export const fieldNames = (ask, signal) => document("fields", sample(ask), signal);

/** Values of a field, frequent ones first. @param {Ask} ask @param {string} field @param {AbortSignal} [signal] @param {number} [limit] @returns {Promise<{value: string, n: number}[]>} */
export const values = async (ask, field, signal, limit = 500) =>
  (await document("values", { ...sample(ask), field, limit }, signal)).map((/** @type {Row} */ row) => ({ value: String(row.value), n: row.records }));

/** The records around one, of the same source or instance. @param {string} key @param {number} count @param {AbortSignal} [signal] @param {"source"|"instance"} [of] */
export const around = (key, count, signal, of = "source") => rows(target("context", { key, before: count, after: count, of }), signal);

/** The record with a key as its source wrote it. @param {string} key */
export const written = async (key) => (await (await get(target("context", { key, before: 0, after: 0, format: "raw" }))).text()).replace(/\n$/, "");

/** The record with a key. @param {string} key */
export const record = async (key) => (await around(key, 1)).find((row) => key.endsWith(row.row_key));

/**
 * New records as they are committed, as lines of JSON, until the signal.
 * @param {string} q @param {AbortSignal} signal @param {() => void} begun @param {(lines: string[]) => void} take
 */
export async function tail(q, signal, begun, take) {
  const response = await get(target("tail", { q }), signal, q);
  begun();
  let isError = false;
  await lines(response, (part) => {
    /** @type {string[]} */
    const found = [];
    for (const line of part) {
      if (line.startsWith("event: error")) isError = true;
      else if (isError && line.startsWith("data: ")) throw errorOf(500, parseJson(line.slice(6)), q);
      else if (line.startsWith("data: ")) found.push(line.slice(6));
    }
    if (found.length) take(found);
  });
  throw new ApiError(0, "the daemon ended the connection");
}

/** @typedef {{pattern: string, records: number, level: string|null, first: string, last: string, example: string, query: string}} Pattern */

/** Lines with the changing parts taken out. @param {Ask} ask @param {AbortSignal} [signal] @returns {Promise<{patterns: Pattern[], records: number, others: number, is_whole: boolean}>} */
export const patterns = (ask, signal) => document("patterns", ask, signal);

/** The day-tables. @param {AbortSignal} [signal] */
export const tables = (signal) => rows(target("tables", {}), signal);

/** Files, listeners and the outbox, with what became of their records. @param {AbortSignal} [signal] */
export const sources = (signal) => rows(target("sources", {}), signal);

/** The hosts that forward here. @param {AbortSignal} [signal] */
export const hosts = (signal) => rows(target("hosts", {}), signal);

/** @typedef {{name: string, query: string, since: string|null, columns: string[], about: string|null}} SavedQuery a query of the configuration */

/** The queries of the configuration. @returns {Promise<SavedQuery[]>} */
export const savedQueries = async () => parseJson(await (await get("/api/queries")).text());

/** The alerts that last. @returns {Promise<import("./alerts.js").Alert[]>} */
export const alerts = async () => parseJson(await (await get("/api/alerts")).text()).alerts;

/** The state of the daemon, with its last verification. @param {AbortSignal} signal @returns {Promise<any>} */
export const status = async (signal) => parseJson(await (await get(target("status", {}), signal)).text());

/** Where everything that matches is to be had. @param {Ask} ask @param {string} format */
export const exportUrl = ({ q, since, until }, format) => target("export", { q, since, until, format });

/** Begins a session with the read token. @param {string} token */
export async function signIn(token) {
  const answer = await fetch("/page/session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
  if (!answer.ok) throw errorOf(answer.status, await answer.json().catch(() => null), "");
}

export const signOut = () => fetch("/page/session", { method: "DELETE" });

/** A range in milliseconds; without a begin or an end, what `all` says. @param {{since: string, until: string}} ask @param {[number, number]} all @returns {[number, number]} */
export function rangeOf({ since, until }, all) {
  const now = Date.now();
  return [since ? instant(since, now) : all[0], until ? instant(until, now) : Math.max(now, all[1])];
}
