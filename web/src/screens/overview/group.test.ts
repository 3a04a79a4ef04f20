import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenIn, crossedIn, daysFrom, daysOf, groupOf, linesOf, lineToggled, tagList, tagsOf, toggled, viewOf } from "./group";

test("a list of tags is read as it was written", () => {
  for (const tags of [[], ["spring"], ["spring", "mail"], ["a, b", 'say "hi"', "c"], ['"', ","]]) assert.deepEqual(tagsOf(tagList(tags)), tags);
  assert.equal(tagList(["a, b", "c"]), '"a, b",c');
  assert.deepEqual(tagsOf(" spring , mail,,"), ["spring", "mail"]);
  assert.deepEqual(tagsOf(undefined), []);
});

test("the address bar names a group", () => {
  assert.deepEqual(groupOf({ tag: "a,b", domain: "go.example.com", span: "7d" }), { tag: ["a,b"], domain: "go.example.com" });
  assert.deepEqual(groupOf({ tag: "", created_by: "Ann" }), { created_by: "Ann" });
});

test("tags are added to each other, and a domain takes the place of another", () => {
  assert.deepEqual(toggled({ tag: "a" }, "tags", "b"), { tag: "a,b" });
  assert.deepEqual(toggled({ tag: "a,b" }, "tags", "a"), { tag: "b" });
  assert.deepEqual(toggled({ domain: "a.example" }, "domains", "b.example"), { domain: "b.example" });
  assert.deepEqual(toggled({ created_by: "Ann" }, "creators", "Ann"), { created_by: undefined });
  assert.equal(chosenIn({ tag: "ab" }, "tags", "a"), false);
});

test("a view keeps filters and the time, and nothing else", () => {
  assert.equal(viewOf({ span: "7d", tag: "a,b", create: "1", domain: "" }), "tag=a%2Cb&span=7d");
});

test("a chart has up to ten names, in the order of their choice", () => {
  assert.equal(lineToggled(linesOf({ lines: "b" }), "a, c"), 'b,"a, c"');
  assert.equal(lineToggled(["b", "a"], "b"), "a");
  assert.deepEqual(linesOf({ lines: "0,1,2,3,4,5,6,7,8,9,10" }).length, 10);
  assert.deepEqual(linesOf({}), []);
});

test("days of UTC have 24 hours, also where clocks change", () => {
  assert.deepEqual(daysFrom("2026-03-28T00:00:00Z", 3), ["2026-03-28T00:00:00.000Z", "2026-03-29T00:00:00.000Z", "2026-03-30T00:00:00.000Z"]);
});

test("two different breakdowns are crossed, in whole days", () => {
  assert.deepEqual(crossedIn({ rows: "devices", columns: "os" }), ["devices", "os"]);
  for (const query of [{ rows: "devices" }, { rows: "os", columns: "os" }, { rows: "os", columns: "rules" }]) assert.equal(crossedIn(query), undefined);
  assert.deepEqual(daysOf({ since: "2026-03-01T09:15:00.000Z", interval: "hour", tz: "UTC" }), { from: "2026-03-01" });
  assert.deepEqual(daysOf({ from: "2026-03-01", to: "2026-03-02", interval: "hour", tz: "UTC" }), { from: "2026-03-01", to: "2026-03-02" });
});
