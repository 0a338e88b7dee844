// Numbers: how they are shown, and which is greater. A number is never shown as another one.

import { Digits } from "./json.js";

/** A number as text: its sign, its digits, its fraction, its exponent. */
const NUMERAL_PARTS = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d{1,4}))?$/i;

/** A value as the text of a number, or nothing if it is none. @param {unknown} value */
function numeral(value) {
  const text = typeof value === "number" || value instanceof Digits ? String(value) : value;
  return typeof text === "string" && NUMERAL_PARTS.test(text) ? text : undefined;
}

/** A value as a number of JavaScript, for lengths and places on the screen; NaN if it is none. @param {unknown} value */
export const approximately = (value) => Number(numeral(value) ?? NaN);

/** @param {unknown} value */
export const isNumber = (value) => numeral(value) !== undefined;

/** A number with all its digits, in groups of three. @param {unknown} value */
export function grouped(value) {
  const text = numeral(value) ?? String(value);
  const [, sign, whole, fraction, exponent] = NUMERAL_PARTS.exec(text) ?? [];
  if (whole === undefined) return text;
  return sign + whole.replace(/\B(?=(?:\d{3})+$)/g, ",") + (fraction ? "." + fraction : "") + (exponent ? "e" + exponent : "");
}

/** Which of two numbers is greater: below zero, zero or above zero, also where JavaScript has one number for both. @param {unknown} a @param {unknown} b */
export function compareNumbers(a, b) {
  const [x, y] = [numeral(a) ?? "", numeral(b) ?? ""];
  const [less, more] = [Number(x), Number(y)];
  if (less !== more || x === y) return less - more || 0;
  const [one, other] = [scaled(x), scaled(y)];
  const least = one.exponent < other.exponent ? one.exponent : other.exponent;
  const whole = (/** @type {{digits: bigint, exponent: number}} */ { digits, exponent }) => digits * 10n ** BigInt(exponent - least);
  const [m, n] = [whole(one), whole(other)];
  return m < n ? -1 : m > n ? 1 : 0;
}

/** A number as a whole number and a power of ten. @param {string} text */
function scaled(text) {
  const [, sign, whole, fraction = "", exponent = "0"] = NUMERAL_PARTS.exec(text) ?? [];
  return { digits: BigInt(whole + fraction) * (sign ? -1n : 1n), exponent: Number(exponent) - fraction.length };
}

const SHORT_UNITS = /** @type {[number, string][]} */ ([[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]);

/** `12345` as `12.3k`: three digits, rounded. A number below a thousand is whole. @param {number} n */
export function short(n) {
  const rounded = Number(n.toPrecision(3));
  const [unit, sign] = SHORT_UNITS.find(([unit]) => rounded >= unit) ?? [1, ""];
  return unit === 1 ? grouped(n) : rounded / unit + sign;
}
