import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf, parametersOf, templateFor, valueOf, withValue, type Template } from "./utm";

const mail: Template = { tag: "mail", parameters: [{ name: "utm_source", values: ["a", "b"] }, { name: "utm_id" }] };
const rest: Template = { parameters: [{ name: "utm_medium" }] };

test("the first tag with a template decides, then the template without a tag", () => {
  assert.equal(templateFor([rest, mail], ["x", "mail"]), mail);
  assert.equal(templateFor([mail, rest], ["x"]), rest);
  assert.deepEqual(templateFor([mail], []).parameters.map((p) => p.name), ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"]);
});

test("parameters are appended in the order of the template, and all else stays", () => {
  const target = "https://example.com/a%2Fb?x=1+2&&utm_campaign=kept&y#top?utm_source=no";
  const one = withValue(target, mail, "utm_id", "ä & b");
  assert.equal(one, "https://example.com/a%2Fb?x=1+2&&utm_campaign=kept&y&utm_id=%C3%A4%20%26%20b#top?utm_source=no");
  assert.equal(valueOf(one, "utm_id"), "ä & b");
  const two = withValue(one, mail, "utm_source", "a");
  assert.equal(two, "https://example.com/a%2Fb?x=1+2&&utm_campaign=kept&y&utm_source=a&utm_id=%C3%A4%20%26%20b#top?utm_source=no");
  assert.equal(withValue(withValue(two, mail, "utm_id", ""), mail, "utm_source", ""), target);
  assert.equal(withValue("https://example.com", mail, "utm_source", "b"), "https://example.com?utm_source=b");
  assert.equal(withValue("https://example.com/?utm_source=old", mail, "utm_source", ""), "https://example.com/");
});

test("a template is typed as lines", () => {
  for (const t of [mail, rest]) assert.deepEqual(parametersOf(linesOf(t.parameters)), t.parameters);
  assert.deepEqual(parametersOf(" utm_term=a=b , c,\n\n utm_id =\n"), [{ name: "utm_term", values: ["a=b", "c"] }, { name: "utm_id" }]);
});
