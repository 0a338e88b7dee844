// Tests of the modules of the page that need no browser:  node modules.mjs FOLDER_OF_THE_PAGE
// With `steps FROM TO`, prints the begins of steps in the zone of TZ instead, for a comparison with the daemon's.

import assert from "node:assert";

const load = (name) => import(`${process.argv[2]}/${name}`);
const { Digits, parseJson, stringify } = await load("json.js");
const { compareNumbers, grouped, short } = await load("number.js");
const { stepsOf } = await load("time.js");
const { linesOf } = await load("table.js");
const { term } = await load("query.js");

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
