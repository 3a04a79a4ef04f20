import assert from "node:assert/strict";
import { test } from "node:test";
import { inWords, listOf, conditionForm, ruleForm, ruleOf } from "./ruleform";
import type { Rule } from "./change";

test("a rule that is not changed stays as it is", () => {
  for (const rule of [
    { to: "https://example.com/" },
    { id: 7, name: "gone", when: [{ agent: ["ios", "android"] }, { not: true, country: ["DE", "AT"] }], status: 410 },
    { when: [{ city: ["Washington, D.C.", "Bonn"] }], to: "https://example.com/capital" },
    { when: [{ week: { zone: "Europe/Berlin", hours: ["mon-fri 09:00-17:30", "sat,sun 10:00-14:00"] } }], status: 404 },
    { when: [{ query: { key: "utm_source", equals: "x" } }, { query: { key: "ref" } }, { query: { key: "e", empty: true } }], to: "a" },
    { when: [{ from: "2026-01-01T00:00:30Z", until: "2026-02-01T00:00:00Z" }], to: "a" },
    { name: "half", split: { by: "visitor", variants: [{ id: 1, name: "a", weight: 1, to: "x" }, { weight: 3, to: "y" }] } },
  ] as Rule[]) {
    assert.deepEqual(ruleOf(ruleForm(rule)), rule);
  }
});

test("values have commas between them, but a city may have one and a schedule several", () => {
  const list = (kind: string, values: string) => listOf({ ...conditionForm(), kind: kind as "city", values });
  assert.deepEqual(list("country", "de, at;ch\nfr it"), ["de", "at", "ch", "fr", "it"]);
  assert.deepEqual(list("city", "New York, Bonn"), ["New York", "Bonn"]);
  assert.deepEqual(list("week", "sat,sun 10:00-14:00, mon 09:00-10:00"), ["sat,sun 10:00-14:00", "mon 09:00-10:00"]);
  assert.deepEqual(list("agent", " , "), []);
});

test("a city with a comma stays one until it is typed again", () => {
  const form = ruleForm({ when: [{ city: ["Washington, D.C."] }], to: "a" });
  assert.deepEqual(ruleOf(form).when, [{ city: ["Washington, D.C."] }]);
  form.when[0]!.values = "Washington, Bonn";
  assert.deepEqual(ruleOf(form).when, [{ city: ["Washington", "Bonn"] }]);
});

test("what cannot be a time is left to the API", () => {
  const form = ruleForm({ when: [{ from: "2026-01-01T00:00:00Z" }], to: "a" });
  form.when[0]!.from = "12026-01-01T00:00";
  const [when] = ruleOf(form).when!;
  assert.ok(!Number.isNaN(Date.parse(when!.from!)) || when!.from === "12026-01-01T00:00");
  form.when[0]!.from = "later";
  assert.deepEqual(ruleOf(form).when, [{ from: "later" }]);
});

test("countries are written in capital letters", () => {
  const form = ruleForm({ when: [{ country: ["DE"] }], to: "a" });
  form.when[0]!.values = "at, d1";
  assert.deepEqual(ruleOf(form).when, [{ country: ["AT", "D1"] }]);
});

test("a condition is said in words", () => {
  assert.equal(inWords({ agent: ["ios", "android_browser"] }), "Device or program is iOS, Android Browser");
  assert.match(inWords({ not: true, query: { key: "ref", equals: "x" } }), /is not ref = x$/);
});
