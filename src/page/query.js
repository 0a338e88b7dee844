// The text of a query: where it is, what it filters, and how a value is added to it. No request, no element.

import { stringify } from "./json.js";

/** The places of strings, so that a `|` within one is no pipe. */
const TOKEN = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|[|()]|[^\s"'`|()]+|\s+/g;

/** Splits the filter from the pipes. @param {string} q @returns {[string, string]} */
export function split(q) {
  let depth = 0;
  for (const { 0: token, index } of q.matchAll(TOKEN)) {
    if (token === "(") depth++;
    else if (token === ")") depth--;
    else if (token === "|" && depth <= 0) return [q.slice(0, index).trim(), q.slice(index)];
  }
  return [q.trim(), ""];
}

/** Whether the answer has rows of its own, and not records. @param {string} q */
export const hasPipes = (q) => /^\|\s*(?!(?:fields|keep|limit|head|offset|skip|filter|where|sort|order|extract|format|rename|mv|copy|cp|delete|rm|drop|math|eval)\b)/.test(split(q)[1]);

/** @param {string} text */
export const quote = (text) => JSON.stringify(text);

/** A field's name in a query. @param {string} name */
export const nameOf = (name) => (/^[\p{L}_@][\p{L}\p{N}_.@/-]*$/u.test(name) && !/^(and|or|not|in)$/i.test(name) ? name : quote(name));

/** The filter of a value; without a value, that the field is there. @param {string} field @param {unknown} value */
export function term(field, value) {
  if (value === undefined) return `${nameOf(field)}:*`;
  if (value === null || value === "") return `-${nameOf(field)}:*`;
  const text = typeof value === "string" ? value : stringify(value);
  return `${nameOf(field)}:=${/^[\p{L}\p{N}_][\p{L}\p{N}_.-]*$/u.test(text) ? text : quote(text)}`;
}

/** The filter of a group. @param {import("./api.js").GroupFilter|undefined} group @param {string} name @param {any} value */
export function groupTerm(group, name, value) {
  const { field = name, test = "", size = 0 } = group ?? {};
  const tests = { step: () => `range[${value}, ${+value + size})`, network: () => `ipv4_range(${value}/${size})`, pattern: () => `pattern(${quote(value)})` };
  if (test === "name") return term(value, undefined);
  const of = value === null || value === "" ? undefined : /** @type {Record<string, () => string>} */ (tests)[test];
  return of ? `${nameOf(field)}:${of()}` : term(field, value);
}

/** @param {string} filter */
const negated = (filter) => (filter.startsWith("-") ? filter.slice(1) : "-" + filter);

/** The fields that the filter of a query names, but those of which it has one whole value. @param {string} q */
export const named = (q) => [...split(q)[0].matchAll(/(?:^|[\s(!-])([\p{L}_@][\p{L}\p{N}_.@/-]*)(?::(?!=)|\s*(?:[<>~]|!=))/gu)].map(([, name]) => name);

/** The words between spaces, with quoted text whole. @param {string} filter */
function filterWords(filter) {
  /** @type {{text: string, depth: number}[]} */
  const all = [];
  let [word, depth] = ["", 0];
  for (const [token] of (filter + " ").matchAll(TOKEN)) {
    if (/^\s/.test(token)) {
      if (word && depth === 0) [all[all.length] = { text: word, depth }, (word = "")];
      else if (word) word += token;
    } else {
      word += token;
      depth += token === "(" ? 1 : token === ")" ? -1 : 0;
    }
  }
  return word ? [...all, { text: word.trim(), depth }] : all;
}

/**
 * The query with one filter more. A filter that is there goes; its opposite is replaced.
 * @param {string} q @param {string} filter @param {boolean} [out] whether to exclude
 */
export function add(q, filter, out = false) {
  const wanted = out ? negated(filter) : filter;
  let [before, pipes] = split(q);
  if (before === "*") before = "";
  const parts = filterWords(before).map((word) => word.text);
  if (parts.some((part) => /^or$/i.test(part))) before = `(${before}) ${wanted}`;
  else if (parts.includes(wanted)) before = parts.filter((part) => part !== wanted).join(" ");
  else before = [...parts.filter((part) => part !== negated(wanted)), wanted].join(" ");
  return pipes ? `${before || "*"} ${pipes}` : before;
}

/** Whether the query has this filter. @param {string} q @param {string} filter */
export const has = (q, filter) => filterWords(split(q)[0]).some((word) => word.text === filter);

/** The words and phrases that a line contains if it matches. @param {string} q @returns {string[]} */
export function terms(q) {
  return filterWords(split(q)[0]).flatMap(({ text }) => {
    const bare = text.replace(/^(_msg|message|line):/, "");
    if (/^(and|or|not)$/i.test(text) || /^[-!]/.test(text)) return [];
    if (/^["'`]/.test(bare)) return [bare.slice(1, -1).replace(/\\(.)/g, "$1")];
    const word = /^(?:i\()?\*?([\p{L}\p{N}_.]+)\*?\)?$/u.exec(bare)?.[1];
    return word && !bare.includes(":") ? [word] : [];
  }).filter((word) => word.length > 1);
}

export const PIPES = /** @type {[string, string][]} */ ([
  ["stats by (level) count() records", "numbers by group"], ["top 10 by (instance)", "most frequent values"],
  ["stats by (_time:5m) count() records", "numbers by time"], ["uniq by (instance)", "distinct values"],
  ["sort by (records desc)", "another order"], ["limit 100", "at most so many"], ["offset 100", "leave out the first"],
  ["fields time, message", "these fields only"], ["filter records:>10", "of these rows, some"],
  ["extract \"<a> <b>\" from message", "fields of a text"], ["facets", "frequent values of each field"],
  ["field_names", "names of fields"], ["field_values instance", "values of a field"], ["math a + b as c", "calculate"],
  ["join by (a) (level:error | stats by (a) count() errors)", "columns of another query"], ["sessions by (user) pause 30m", "begin and end"],
  ["gaps over 10m by (instance)", "silence"], ["pivot level", "values as columns"], ["pattern(message) as p", "text without its numbers"],
]);

/** @typedef {{kind: "pipe"|"field"|"value", field: string, word: string, from: number}} Place what is completed at the cursor */

/** What can be completed before the cursor. @param {string} q @param {number} cursor @returns {Place} */
export function place(q, cursor) {
  const before = q.slice(0, cursor);
  const pipe = /\|\s*([a-z_]*)$/.exec(before);
  if (pipe) return { kind: "pipe", field: "", word: pipe[1], from: cursor - pipe[1].length };
  const value = /(?:^|[\s(!-])("(?:[^"\\]|\\.)*"|[\p{L}_@][\p{L}\p{N}_.@/-]*):(?:=|!=|>=|<=|>|<|in\((?:[^()]*,\s*)?)?("?[^\s"|()]*)$/u.exec(before);
  if (value) {
    const field = value[1].startsWith('"') ? JSON.parse(value[1]) : value[1];
    return { kind: "value", field, word: value[2].replace(/^"/, ""), from: cursor - value[2].length };
  }
  const word = /[\p{L}\p{N}_.@/-]*$/u.exec(before)?.[0] ?? "";
  const bare = word.replace(/^-/, "");
  return { kind: "field", field: "", word: bare, from: cursor - bare.length };
}

/** A word of the shell. @param {string} text */
export const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
