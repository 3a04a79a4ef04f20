import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenSpan, day, plus, startBefore, typed } from "./span";

const now = new Date(2026, 2, 10, 15, 42, 7);
const span = (query: Record<string, string>) => chosenSpan(query, now);

test("thirty days end today", () => {
  for (const query of [{}, { span: "nonsense" }, { from: "2026-02-30" }, { from: "2026-03-11", to: "2026-03-10" }]) {
    const { span: name, days, compare, range } = span(query as Record<string, string>);
    assert.equal(name, "30d");
    assert.deepEqual(days, ["2026-02-09", "2026-03-10"]);
    assert.equal(range.from, "2026-02-09");
    assert.deepEqual([compare, range.interval], ["previous", "day"]);
  }
  assert.deepEqual(span({ span: "7d" }).days, ["2026-03-04", "2026-03-10"]);
});

test("a day is the hours up to this one", () => {
  const { range } = span({ span: "24h", interval: "week" });
  assert.equal(range.interval, "hour");
  assert.equal(range.from, new Date(2026, 2, 9, 16).toISOString());
});

test("an own span goes by the hour when it is short", () => {
  const own = span({ from: "2026-03-01", to: "2026-03-02" });
  assert.equal(own.span, "own");
  assert.deepEqual([own.range.from, own.range.to, own.range.interval], ["2026-03-01", "2026-03-02", "hour"]);
  assert.equal(span({ from: "2026-03-01", to: "2026-03-03" }).range.interval, "day");
  assert.deepEqual(span({ from: "2026-03-09" }).days, ["2026-03-09", "2026-03-10"]);
});

test("longer spans go by weeks or months, and are compared with a year ago, where asked", () => {
  const year = span({ span: "365d", interval: "month", compare: "year" });
  assert.deepEqual([year.range.interval, year.compare], ["month", "year"]);
  assert.equal(span({ from: "2026-01-01", to: "2026-03-01", interval: "week" }).range.interval, "week");
});

test("a day of another year is a day later", () => {
  assert.equal(day(plus(new Date(2025, 11, 31, 23, 59), 1)), "2026-01-01");
});

test("hours or days are counted since a moment", () => {
  const since = "2026-03-08T09:15:00.000Z";
  const { span: name, range, against } = span({ since, span: "7d", interval: "week", compare_from: "2026-03-01" });
  assert.deepEqual([name, range.from, range.since, range.to, range.interval], ["own", undefined, since, undefined, "hour"]);
  assert.deepEqual(against, { compare: "previous" }, "a day is no moment");
  assert.deepEqual(span({ since: "2026-03-01T09:15:00.000Z", to: "2026-03-09" }).range, { ...range, since: "2026-03-01T09:15:00.000Z", to: "2026-03-09", interval: "day" });
  assert.equal(span({ since: "yesterday" }).span, "30d");
  assert.equal(startBefore(span({ since })), "2026-03-01T09:15:00.000Z");
  assert.equal(span({ since, compare_from: "2026-03-01T09:15:00.000Z" }).compare, "own");
});

test("a time is compared with another one", () => {
  const own = span({ from: "2026-03-01", to: "2026-03-09", compare: "year", compare_from: "2026-02-01", compare_to: "2026-02-28" });
  assert.deepEqual([own.compare, own.against], ["own", { compare_from: "2026-02-01", compare_to: "2026-02-28" }]);
  assert.deepEqual(span({ compare_from: "2026-02-01", compare_to: "2026-01-31" }).against, { compare_from: "2026-02-01", compare_to: undefined });
  assert.deepEqual(span({ span: "24h", compare_from: "2026-02-01", compare_to: "2026-02-28" }).against.compare_to, undefined, "as many hours");
  assert.equal(startBefore(own), "2026-02-20");
});

test("times change the address once they are whole", () => {
  assert.deepEqual(typed(0, ["2026-03-01", "2026-03-09", "", ""], false), { span: undefined, from: "2026-03-01", to: "2026-03-09" });
  assert.equal(typed(1, ["2026-03-01", "0002-03-09", "", ""], false), undefined);
  assert.equal(typed(0, ["2026-03-10", "2026-03-09", "", ""], false), undefined);
  assert.deepEqual(typed(0, ["2026-03-09T10:00", "2026-03-09", "", ""], true), { span: undefined, since: new Date(2026, 2, 9, 10).toISOString(), to: "2026-03-09" });
  assert.deepEqual(typed(2, ["2026-03-01", "2026-03-09", "2026-02-01", ""], false), { compare_from: "2026-02-01", compare_to: undefined });
  assert.equal(typed(3, ["2026-03-01", "2026-03-09", "2026-02-01", "2026-01-01"], false), undefined);
});
