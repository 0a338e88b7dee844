// Tests of the modules of the page that need no browser:  node modules.mjs FOLDER_OF_THE_PAGE
// With `steps FROM TO`, prints the begins of steps in the zone of TZ instead, for a comparison with the daemon's.

import assert from "node:assert";

const load = (name) => import(`${process.argv[2]}/${name}`);
const { Digits, parseJson, stringify } = await load("json.js");
const { compareNumbers, grouped, short } = await load("number.js");
const { dateForm, dayBegin, inRow, onAxis, rangeText, stepsOf } = await load("time.js");
const { linesOf, stacks } = await load("table.js");
const { scaleOf } = await load("histogram.js");
const { isSaid, quoted, Telling } = await load("telling.js");
const { linesIn } = await load("row.js");
const { groupTerm, named, term } = await load("query.js");

const TESTS = {
  json_keeps_every_digit() {
    const kept = '{"a":9007199254740993,"b":[1,2.5,1e300,-0.0,0.1,1.0,-9223372036854775808],"c":"\\"\\\\","d":{"__proto__":1,"e":null,"t":true,"f":false},"g":{},"h":[]}';
    assert.equal(stringify(parseJson(kept)), kept);
    assert.equal(parseJson('"\\u00e9\\n"'), "é\n");
    assert.equal(stringify(parseJson('[9007199254740993,{"a":{}}]'), "  "), '[\n  9007199254740993,\n  {\n    "a": {}\n  }\n]');
    assert.equal(parseJson("12"), 12);
    assert.equal(parseJson(JSON.stringify("x".repeat(2e6) + "\\\"")).length, 2e6 + 2);
    for (const good of [' [ 1 , "x" , { } ] ', '["\\\\\\"",2]', '{"a":{"b":[{"c":1}]}}']) assert.deepEqual(parseJson(good), JSON.parse(good));
  },

  what_is_no_json_is_refused() {
    for (const bad of ["", "{", "[1,]", '{"a"}', '"x', "01x", '{"a":1,}', "nul", "1 2", '["\\"]', "{a:1}", "-", '"\\q"']) assert.throws(() => parseJson(bad), SyntaxError, bad);
  },

  numbers_are_in_their_exact_order() {
    const ascending = [
      "-1e300", "-9223372036854775808", "-9007199254740993", "-9007199254740992", "-1", "-0.5", "0", "1e-300", "0.1", "0.10000000000000001", "1", "1.5", "999",
      "9007199254740992", "9007199254740993", "9007199254740994.5", "9223372036854775807", "1e300",
    ];
    for (const [i, a] of ascending.entries()) {
      for (const [j, b] of ascending.entries()) assert.equal(Math.sign(compareNumbers(new Digits(a), b)), Math.sign(i - j), `${a} ${b}`);
    }
  },

  shown_numbers_have_all_their_digits() {
    const shown = [
      [0, "0"], [999, "999"], [1000, "1,000"], [-1234567.25, "-1,234,567.25"], [0.1, "0.1"], [-0.5, "-0.5"], [1e21, "1e+21"], [100000, "100,000"],
      [new Digits("9007199254740993"), "9,007,199,254,740,993"], [new Digits("-9223372036854775808"), "-9,223,372,036,854,775,808"], [new Digits("1e300"), "1e300"], [new Digits("1.0"), "1.0"],
    ];
    for (const [value, text] of shown) assert.equal(grouped(value), text);
  },

  a_shortened_number_is_off_by_half_a_per_cent_at_most() {
    for (const [n, text] of [[0, "0"], [1, "1"], [999, "999"], [1000, "1k"], [1500, "1.5k"], [12345, "12.3k"], [100000, "100k"], [120000, "120k"], [999999, "1M"], [1e6, "1M"], [12345678, "12.3M"], [1.2e9, "1.2G"]]) assert.equal(short(n), text);
    const units = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
    for (let n = 1; n < 2 ** 53; n = Math.ceil(n * 1.0137)) {
      const [, digits, unit] = /^([\d.]+)(\D?)$/.exec(short(n));
      assert.ok(Math.abs(digits * units[unit] - n) <= n * 0.0051, `${n} is shown as ${short(n)}`);
      assert.ok(short(n).length <= 5, short(n));
    }
  },

  a_filter_of_a_value_has_its_digits() {
    const { id, low, part } = parseJson('{"id":9007199254740993,"low":-9007199254740993,"part":1.0}');
    assert.equal(term("id", id), "id:=9007199254740993");
    assert.equal(term("id", low), 'id:="-9007199254740993"');
    assert.equal(term("id", part), "id:=1.0");
  },

  groups_of_a_table_have_filters() {
    assert.equal(groupTerm({ column: "s", field: "s", test: "step", size: 100 }, "s", 400), "s:range[400, 500)");
    assert.equal(groupTerm({ column: "c", field: "c", test: "network", size: 24 }, "c", "10.0.0.0"), "c:ipv4_range(10.0.0.0/24)");
    assert.equal(groupTerm({ column: "pattern(message)", field: "message", test: "pattern", size: null }, "pattern(message)", 'a "<_>"'), 'message:pattern("a \\"<_>\\"")');
    assert.equal(groupTerm({ column: "d", field: "b", test: "value", size: null }, "d", "x"), "b:=x");
    assert.equal(groupTerm({ column: "s", field: "s", test: "step", size: 100 }, "s", null), "-s:*");
    assert.equal(groupTerm({ column: "name", field: "name", test: "name", size: null }, "name", "user.id"), "user.id:*");
    assert.equal(groupTerm(undefined, "x", "v"), "x:=v");
  },

  fields_that_a_query_names_but_for_whole_values() {
    assert.deepEqual(named('-user.id:x path:~"y" rt > 5 a:=b | stats by (z:1)'), ["user.id", "path", "rt"]);
    assert.deepEqual(named('"a:b" c'), []);
  },

  fields_behind_a_message_tell_records_apart() {
    const record = (n) => ({ source: "a", message: `done ${n}`, level: "info", instance: "web-1", service: "shop", host: "web-1", n, id: `${n}`.repeat(12).slice(0, 16), status: n % 3, empty: "", none: null, ratio: "NaN" });
    const rows = Array.from({ length: 50 }, (_, n) => record(n + 10));
    const telling = new Telling({ get length() { return rows.length; }, get: (at) => rows[at] });
    const names = (at, columns = []) => telling.fields(at, columns).map(([name]) => name);
    // What differs, and keys; not what the message or a column says, nor what all of many records have.
    assert.deepEqual(names(0), ["status", "id"]);
    assert.deepEqual(names(9, ["id"]), ["status"]);
    // One record that has something else shows it.
    rows.push({ ...record(70), service: "cart" });
    assert.deepEqual(names(50), ["status", "id", "service"]);
    rows.pop();
    // A single record has its fields in their order.
    telling.reset();
    rows.splice(1);
    assert.deepEqual(names(0), ["service", "id", "status"]);
    // Of a few, what is always the same stands last; once there are more, more is known.
    rows.push(...Array.from({ length: 10 }, (_, n) => record(n + 60)));
    assert.deepEqual(names(0), ["status", "id", "service"]);
    rows.push(...Array.from({ length: 40 }, (_, n) => record(n + 70)));
    assert.deepEqual(names(0), ["status", "id"]);
    // All rows have one order, also where their fields come in others.
    const turned = Array.from({ length: 40 }, (_, n) => (n % 2 ? { message: "x", one: n, two: n * 7 } : { message: "x", two: n * 7, one: n }));
    const other = new Telling({ length: 40, get: (at) => turned[at] });
    for (const at of [1, 2, 39]) assert.deepEqual(other.fields(at, []).map(([name]) => name), ["two", "one"]);
    assert.ok(isSaid("42", { message: "took 42 ms" }) && isSaid("ms", { message: "took 42ms, or 3 ms" }));
    assert.ok(!isSaid("42", { message: "took 142 ms" }) && !isSaid("42", { message: "" }));
    assert.deepEqual(["a b", 'a"b', "a=b", "plain", 5, true].map(quoted), ['"a b"', '"a\\"b"', '"a=b"', "plain", "5", "true"]);
  },

  further_lines_are_those_of_the_message_and_of_fields() {
    assert.deepEqual(linesIn({ message: "one" }), { first: "one", rest: "", texts: [] });
    assert.deepEqual(linesIn({ message: "one\n" }), { first: "one", rest: "", texts: [] });
    assert.deepEqual(linesIn({ message: "one\r\n\tat two\nthree\n" }), { first: "one", rest: "\tat two\nthree", texts: [] });
    assert.deepEqual(linesIn({ message: "one", stack: "a\nb", path: "/\n" }), { first: "one", rest: "", texts: [["stack", "a\nb"]] });
  },

  times_are_those_of_the_day_that_is_meant() {
    const now = Date.parse("2026-11-28T00:30:00Z");
    assert.equal(dayBegin("today", now, true), "2026-11-28T00:00:00Z");
    assert.equal(dayBegin("yesterday", now, true), "2026-11-27T00:00:00Z");
    for (const text of ["2h", "", "2026-11-28T00:30:00Z", "toString"]) assert.equal(dayBegin(text, now, true), text);
    assert.deepEqual([["today", ""], ["yesterday", "today"], ["yesterday", ""], ["24h", ""], ["", ""]].map(([since, until]) => rangeText(since, until, true)), ["Today", "Yesterday", "Yesterday and today", "Last 24 hours", "All time"]);
    const at = (text) => Date.parse(`2026-11-${text}:00Z`);
    assert.deepEqual([dateForm(at("27T23:59"), at("28T00:01"), true), dateForm(at("20T00:00"), at("28T00:01"), true)], ["day", "day"]);
    assert.deepEqual([dateForm(at("27T00:00"), at("28T00:00"), true), dateForm(at("27T12:00"), at("27T12:00"), true)], ["", ""]);
    // Of two years, a day says too little.
    assert.deepEqual([dateForm(at("27T00:00") - 400 * 864e5, at("28T00:00"), true), inRow("2005-07-11T08:00:00Z", true, "year")], ["year", "2005-07-11 08:00:00"]);
    assert.deepEqual([onAxis(at("27T08:00") + 250, 250, true, ""), onAxis(at("27T08:00"), 1000, true, "")], ["08:00:00.250", "08:00:00"]);
    assert.deepEqual([inRow("2026-11-27T08:00:00Z", true, ""), inRow("2026-11-27T08:00:00.12Z", true, "day"), inRow("2026-11-27T08:00:00.1234567Z", true, "")], ["08:00:00", "Nov 27 08:00:00.120", "08:00:00.123"]);
  },

  axes_have_round_numbers_and_logarithms_show_few_beside_many() {
    assert.deepEqual(scaleOf([3, 97], false, 160).ticks, [0, 50]);
    assert.deepEqual(scaleOf([-30, 80], false, 160).ticks, [0, 50]);
    assert.deepEqual(scaleOf([0, 1], false, 60, 1).ticks, [0, 1]);
    assert.deepEqual(scaleOf([], false, 60).ticks, [0]);
    const log = scaleOf([1, 1e6], true, 60, 1);
    assert.deepEqual([log.ticks, log.left], [[1, 100, 1e4, 1e6], 0]);
    assert.equal(Math.round(log.height(1e6)), 60);
    assert.ok(log.height(1) > 0 && log.height(10) > log.height(1) + 5);
    const some = scaleOf([0, -5, 0.02, 3], true, 160);
    assert.deepEqual([some.left, some.has(0), some.has(-5), some.has(0.02)], [2, false, false, true]);
    for (const numbers of [[1e300, -1e300], [5e-324], [NaN], [0]]) for (const isLog of [false, true]) assert.ok(scaleOf(numbers, isLog, 160).ticks.length < 20);
    const parts = (...points) => ({ parts: [points] });
    assert.deepEqual(stacks([parts([1, 5], [2, 1]), parts([1, 2], [2, -4]), parts([2, -1])]).map(({ tops }) => tops), [
      [[0, 1, 0, 5], [1, 1, 5, 7]], [[0, 2, 0, 1], [1, 2, 0, -4], [2, 2, -4, -5]],
    ]);
  },

  a_chart_has_a_line_for_each_group_and_function_with_gaps() {
    const hour = 36e5;
    const at = (n) => new Date(1.8e12 + n * hour).toISOString();
    const rows = [
      { _time: at(0), status: 200, n: 5, a: new Digits("1e300") }, { _time: at(1), status: 200, n: 6, a: null }, { _time: at(4), status: 200, n: 7, a: 2 },
      { _time: at(0), status: 500, n: 1, a: 1 }, { _time: at(1), status: 500, n: 1, a: "NaN" }, { _time: at(2), status: 500, n: 1, a: 1 },
    ];
    const lines = linesOf(rows, "_time", ["status"], ["n", "a"], hour);
    const shape = Object.fromEntries(lines.map(({ name, parts }) => [name, parts.map((part) => part.map(([, y]) => y))]));
    assert.deepEqual(shape, { "200 n": [[5, 6], [7]], "500 n": [[1, 1, 1]], "200 a": [[1e300], [2]], "500 a": [[1], [1]] });
    assert.deepEqual(linesOf(rows, "_time", ["status"], ["n"], hour).map(({ name }) => name), ["200", "500"]);
    assert.deepEqual(linesOf(rows.slice(0, 3), "_time", [], ["n"], hour).map(({ name }) => name), ["n"]);
  },
};

if (process.argv[3] === "steps") {
  const [from, to] = process.argv.slice(4).map(Number);
  const hours = [0.25, 1, 2, 3, 6, 12, 24, 48, 168];
  console.log(JSON.stringify(hours.map((step) => [step * 3600, stepsOf(from, to, step * 36e5, false).map((ms) => ms / 1000)])));
} else {
  for (const [name, test] of Object.entries(TESTS)) {
    test();
    console.log("ok", name);
  }
}
