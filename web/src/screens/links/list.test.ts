import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf, type Link } from "./list";

test("the code of a link stands before its host", () => {
  const link = { short_code: "spring-sale", short_url: "https://go.example.com:25001/spring-sale", title: "Spring" } as Link;
  assert.equal(placeOf(link), "spring-sale · go.example.com:25001");
  assert.equal(placeOf({ ...link, title: "" }), "go.example.com:25001");
});
