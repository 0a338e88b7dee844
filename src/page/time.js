// Times: RFC 3339 in UTC with up to seven digits in the API, the zone of the browser or UTC on the screen.

export const UNITS = /** @type {Record<string, number>} */ ({ s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The milliseconds of an age such as `2h` or `1d12h`, or NaN. @param {string} text */
export function age(text) {
  if (!/^(\d+[smhdw])+$/.test(text)) return NaN;
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/(\d+)([smhdw])/g)) sum += Number(n) * UNITS[unit];
  return sum;
}

/** Words for the begin of a day, with the days since. */
const DAY_WORDS = new Map([["today", 0], ["yesterday", 1]]);

/** A time for the API: the begin of a day that a word means, by the clocks of the page. Other texts stay. @param {string} text @param {number} now @param {boolean} utc */
export function dayBegin(text, now, utc) {
  const days = DAY_WORDS.get(text);
  if (days === undefined) return text;
  let begin = stepStart(now, UNITS.d, utc);
  for (let day = 0; day < days; day++) begin = stepStart(begin - 1, UNITS.d, utc);
  return rfc(begin);
}

/** @param {string} text */
export const isDayWord = (text) => DAY_WORDS.has(text);

/** Milliseconds since 1970 of an age or a time, or NaN. @param {string} text @param {number} now */
export function instant(text, now) {
  const ago = age(text);
  if (!Number.isNaN(ago)) return now - ago;
  return Date.parse(/^\d{4}-\d\d-\d\d$/.test(text) ? text + "T00:00:00Z" : text);
}

/** RFC 3339 in UTC, without needless digits. @param {number} ms */
export const rfc = (ms) => new Date(ms).toISOString().replace(/\.000Z$/, "Z");

/**
 * The first time after one of the API, a tick of 100 ns later: times before it include the given one.
 * @param {string} time
 */
export function tickAfter(time) {
  const [, whole, digits = ""] = /^(.*?)(?:\.(\d+))?Z$/.exec(time) ?? [];
  if (whole === undefined) return time;
  const ticks = Number(digits.padEnd(7, "0").slice(0, 7)) + 1;
  if (ticks === 1e7) return rfc(Date.parse(whole + "Z") + 1000);
  return `${whole}.${String(ticks).padStart(7, "0")}Z`;
}

/** The name of the browser's zone for the API, or else how far its clocks are ahead of UTC now. */
export function zone() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (name && name !== "Etc/Unknown") return name;
  const minutes = -new Date().getTimezoneOffset();
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** The milliseconds by which clocks are ahead of UTC. @param {number} ms @param {boolean} utc */
const ahead = (ms, utc) => (utc ? 0 : -new Date(ms).getTimezoneOffset() * 6e4);

/**
 * The begin of the step that contains a time, as the API counts them: a day begins at midnight by the clocks, a week on a
 * Monday, a shorter step where the clocks show a multiple of it.
 * @param {number} ms @param {number} step @param {boolean} utc
 */
export function stepStart(ms, step, utc) {
  // 1970 began on a Thursday.
  const monday = step % UNITS.w === 0 ? 3 * UNITS.d : 0;
  const now = ahead(ms, utc);
  const shown = ms + now;
  const floor = shown - ((((shown + monday) % step) + step) % step);
  const start = floor - now;
  if (step >= UNITS.d && !utc) {
    const date = new Date(floor);
    return new Date(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()).getTime();
  }
  if (ahead(start, utc) === now) return start;
  // Clocks were changed within the step: its begin is by the clocks of before, if they had shown it already.
  let [before, change] = [start, ms];
  while (change - before > 1) {
    const middle = Math.floor((before + change) / 2);
    if (ahead(middle, utc) === now) change = middle;
    else before = middle;
  }
  const old = ahead(before, utc);
  return change + old > floor ? floor - old : change;
}

/** The begin of the step after one that begins then. @param {number} start @param {number} step @param {boolean} utc */
export function stepAfter(start, step, utc) {
  let [probe, next] = [start + step, start];
  for (; next <= start; probe += UNITS.m * 15) next = stepStart(probe, step, utc);
  return next;
}

/** The begins of the steps of a range: the first contains its begin. @param {number} from @param {number} to @param {number} step @param {boolean} utc */
export function stepsOf(from, to, step, utc) {
  const starts = [stepStart(from, step, utc)];
  for (;;) {
    const next = stepAfter(starts[starts.length - 1], step, utc);
    // A time that is none ends it, too.
    if (!(next < to)) return starts;
    starts.push(next);
  }
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, "0");

/** The parts of a time in UTC, or in the zone of the browser. @param {number} ms @param {boolean} utc */
function dateParts(ms, utc) {
  const date = new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 6e4);
  return { year: date.getUTCFullYear(), month: date.getUTCMonth(), day: date.getUTCDate(), h: date.getUTCHours(), m: date.getUTCMinutes(), s: date.getUTCSeconds() };
}

/** `14:03:07`. @param {number} ms @param {boolean} utc */
export function clock(ms, utc) {
  const { h, m, s } = dateParts(ms, utc);
  return `${two(h)}:${two(m)}:${two(s)}`;
}

/** `Nov 21`. @param {number} ms @param {boolean} utc */
export function day(ms, utc) {
  const { month, day } = dateParts(ms, utc);
  return `${MONTHS[month]} ${two(day)}`;
}

/** `2026-11-21`. @param {number} ms @param {boolean} utc */
function date(ms, utc) {
  const { year, month, day } = dateParts(ms, utc);
  return `${year}-${two(month + 1)}-${two(day)}`;
}

/** `2026-11-21 14:03:07`. @param {number} ms @param {boolean} utc */
export const full = (ms, utc) => `${date(ms, utc)} ${clock(ms, utc)}`;

/** What a time has before its clock: nothing, its day, or its day with the year. @typedef {"" | "day" | "year"} DateForm */

/** The form of dates that tells the times of a range apart. @param {number} from @param {number} to @param {boolean} utc @returns {DateForm} */
export function dateForm(from, to, utc) {
  if (date(from, utc).slice(0, 4) !== date(to - 1, utc).slice(0, 4)) return "year";
  return to - from > UNITS.d || day(from, utc) !== day(to - 1, utc) ? "day" : "";
}

/** A record's time in a row: the date only where dates matter, and digits of a second only if it has some. @param {string} time @param {boolean} utc @param {DateForm} form */
export function inRow(time, utc, form) {
  const ms = Date.parse(time);
  if (Number.isNaN(ms)) return time;
  const [, digits] = /\.(\d+)/.exec(time) ?? [];
  const before = { "": "", day: day(ms, utc) + " ", year: date(ms, utc) + " " }[form];
  return before + clock(ms, utc) + (digits ? "." + digits.padEnd(3, "0").slice(0, 3) : "");
}

/** The label of an instant on an axis with this step, whose range has dates of this form. @param {number} ms @param {number} step @param {boolean} utc @param {DateForm} form */
export function onAxis(ms, step, utc, form) {
  const named = form === "year" ? date : day;
  if (step >= UNITS.d) return named(ms, utc);
  const { h, m } = dateParts(ms, utc);
  if (h === 0 && m === 0 && step >= UNITS.m) return named(ms, utc);
  const text = clock(ms, utc);
  return step >= UNITS.m ? text.slice(0, 5) : step < UNITS.s ? `${text}.${String(ms % 1000).padStart(3, "0")}` : text;
}

const STEPS = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

/** A round step that divides a range into at most so many. @param {number} range @param {number} most */
export const stepFor = (range, most) => STEPS.find((step) => range / step <= most) ?? Math.ceil(range / most / UNITS.w) * UNITS.w;

/** A length of time for the API and for people: `90s`, `1h`. @param {number} ms */
export function length(ms) {
  for (const unit of ["d", "h", "m", "s"]) if (ms >= UNITS[unit] && ms % UNITS[unit] === 0) return ms / UNITS[unit] + unit;
  return ms + "ms";
}

/** A length of time, rounded for people. @param {number} ms */
export function roughly(ms) {
  for (const unit of ["d", "h", "m", "s"]) if (ms >= UNITS[unit]) return +(ms / UNITS[unit]).toFixed(1) + " " + unit;
  return Math.round(ms) + " ms";
}

/** A range for people. @param {string} since @param {string} until @param {boolean} utc */
export function rangeText(since, until, utc) {
  const show = (/** @type {string} */ text) => {
    const ms = Date.parse(text);
    return Number.isNaN(ms) ? text : full(instant(text, 0), utc).replace(/:00$/, "");
  };
  if (!since && !until) return "All time";
  if (isDayWord(since) && (!until || since === "yesterday" && until === "today")) return since[0].toUpperCase() + since.slice(1) + (until || since === "today" ? "" : " and today");
  if (!until) return Number.isNaN(age(since)) ? `Since ${show(since)}` : `Last ${ageWords(since)}`;
  if (!since) return `Until ${show(until)}`;
  const [from, to] = [show(since), show(until)];
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}

/** `24h` as `24 hours`. @param {string} text */
export function ageWords(text) {
  const match = /^(\d+)([smhdw])$/.exec(text);
  if (!match) return text;
  const noun = { s: "second", m: "minute", h: "hour", d: "day", w: "week" }[match[2]];
  return match[1] === "1" ? `${noun}` : `${match[1]} ${noun}s`;
}
