import assert from "node:assert/strict";
import { test } from "node:test";
import { lookOf, rowsOf } from "./look";

test("ten lines look different, and as the one of the time before", () => {
  const looks = ["before" as const, ...Array.from({ length: 10 }, (_, i) => i + 1)].map((kind) => lookOf(kind).join());
  assert.equal(new Set(looks).size, 11);
  assert.deepEqual([lookOf("main"), lookOf("second")], [lookOf(1), lookOf(2)]);
});

test("names that are too many for a row go on in the next", () => {
  assert.deepEqual(rowsOf([40, 50, 30, 200, 10], 100), [[0, 0], [40, 0], [0, 1], [0, 2], [0, 3]]);
});
