import assert from "node:assert/strict";
import { test } from "node:test";
import { codesOf, leftOut, notationsOf, twice, type Import } from "./mapping";

const counts = { created: 86, found: 1, refused: 2, left: 0, new_codes: 0, removed: 0, kept: 0, refusals: [] };
const of = (columns: Record<string, string>, more: Partial<Import> = {}) =>
  codesOf({ columns: Object.keys(columns), mapping: { columns }, keep_codes: true, ...more } as Import);

test("links get new codes unless a column is a code", () => {
  assert.deepEqual(of({ url: "original_url", bitlink: "" }), { why: "noCodes", n: undefined });
  assert.deepEqual(of({ url: "original_url", bitlink: "" }, { checked: counts }), { why: "noCodes", n: 86 });
  for (const field of ["custom_code", "short_code", "short_url", "custom_short_urls"]) assert.equal(of({ url: "original_url", bitlink: field }, { checked: counts }), undefined);
});

test("links get new codes when the user wants it so, or when theirs cannot be had", () => {
  assert.deepEqual(of({ code: "short_code" }, { keep_codes: false }), { why: "newCodes", n: undefined });
  assert.deepEqual(of({ code: "short_code" }, { keep_codes: false, checked: counts }), { why: "newCodes", n: 86 });
  assert.deepEqual(of({ bitlink: "short_url" }, { checked: { ...counts, new_codes: 3 } }), { why: "newCodes", n: 3 });
});

test("a file without columns has codes if its first rows have", () => {
  const row = (link: object) => ({ line: 1, cells: [""], link }) as unknown as NonNullable<Import["sample"]>[0];
  assert.deepEqual(of({}, { sample: [row({ original_url: "a" })] }), { why: "noCodes", n: undefined });
  assert.equal(of({}, { sample: [row({ original_url: "a" }), row({ original_url: "b", custom_code: "b" })] }), undefined);
});

test("columns without a field are left out, and a field has one column", () => {
  const mapping = { columns: { url: "original_url", a: "title", b: "", c: "title", d: "" } };
  assert.deepEqual(leftOut({ columns: ["a", "b", "c", "d"], left_out: ["b", "ip"] } as Import, mapping), ["b", "d", "ip"]);
  assert.deepEqual(twice(mapping), ["title"]);
});

test("a notation fits all columns of dates", () => {
  assert.deepEqual(notationsOf({ from: ["dmy", "mdy"], until: ["mdy"] }), ["mdy"]);
  assert.deepEqual(notationsOf({}), []);
});
