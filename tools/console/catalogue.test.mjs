import assert from "node:assert/strict";
import test from "node:test";
import { inLanguage, inPlace } from "./catalogue.mjs";

test("inLanguage chooses and checks", () => {
  const entries = { b: ["As of {time}", "Stand {time}"], a: [["one link", "{n} links"], ["ein Link", "{n} Links"]] };
  assert.equal(JSON.stringify(inLanguage(entries, 0)), '{"a":["one link","{n} links"],"b":"As of {time}"}');
  assert.equal(JSON.stringify(inLanguage(entries, 1)), '{"a":["ein Link","{n} Links"],"b":"Stand {time}"}');
  inLanguage({ a: ["Not found: {detail}", "Nicht gefunden"] }, 1);
  for (const [fault, texts] of Object.entries({
    "has 1 languages": ["one"],
    "has the placeholders": ["{n} links", "{m} Links"],
    "neither a text nor a pair": [["a", "b", "c"], ["a", "b", "c"]],
    "is neither": [1, 2],
  })) {
    assert.throws(() => inLanguage({ a: texts }, 0), new RegExp(fault));
  }
});

test("inPlace writes texts and leaves other calls", () => {
  const area = () => ({ a: "As of {time}", b: ["one", "{n}"], c: "Save" });
  const first = 'import { textOf, text as shared } from "../messages/app"; ';
  const code = 'x(shared("c"), shared("a", { time }), shared("b"), other.shared("c"), textOf("c"), text("c"))';
  const want = 'x(("Save"), fillText("As of {time}", { time }), fillText(["one","{n}"]), other.shared("c"), textOf("c"), text("c"))';
  assert.equal(inPlace(first + code, area), first + want);
  assert.throws(() => inPlace('import { text } from "./messages/app"; text("d")', area), /no text d/);
  assert.throws(() => inPlace('import { text } from "./messages/app"; text(on ? "a" : "c")', area), /without a key/);
});
