import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenSpan, day, plus } from "./span";

const now = new Date(2026, 2, 10, 15, 42, 7);
const span = (query: Record<string, string>) => chosenSpan(query, now);

test("thirty days end today, and follow thirty others", () => {
  for (const query of [{}, { span: "nonsense" }, { from: "2026-02-30" }, { from: "2026-03-11", to: "2026-03-10" }]) {
    const { span: name, days, before, range } = span(query as Record<string, string>);
    assert.equal(name, "30d");
    assert.deepEqual(days, ["2026-02-09", "2026-03-10"]);
    assert.equal(range.from, "2026-02-09");
    assert.deepEqual([before.from, before.to], ["2026-01-10", "2026-02-08"]);
  }
  assert.deepEqual(span({ span: "7d" }).days, ["2026-03-04", "2026-03-10"]);
});

test("a day is the hours up to this one, and is compared with the 24 before them", () => {
  const { range, before } = span({ span: "24h" });
  assert.equal(range.interval, "hour");
  assert.equal(range.from, new Date(2026, 2, 9, 16).toISOString());
  assert.equal(before.to, range.from);
  assert.equal(Date.parse(before.to!) - Date.parse(before.from), 24 * 3_600_000);
});

test("an own span is compared with the days before it, by the hour when it is short", () => {
  const own = span({ from: "2026-03-01", to: "2026-03-02" });
  assert.equal(own.span, "own");
  assert.deepEqual([own.range.from, own.range.to, own.range.interval], ["2026-03-01", "2026-03-02", "hour"]);
  assert.deepEqual([own.before.from, own.before.to], ["2026-02-27", "2026-02-28"]);
  assert.equal(span({ from: "2026-03-01", to: "2026-03-03" }).range.interval, "day");
  assert.deepEqual(span({ from: "2026-03-09" }).days, ["2026-03-09", "2026-03-10"]);
});

test("a day of another year is a day later", () => {
  assert.equal(day(plus(new Date(2025, 11, 31, 23, 59), 1)), "2026-01-01");
});
