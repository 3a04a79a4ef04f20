import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "./csv";

test("what a spreadsheet could take for a formula has an apostrophe before it", () => {
  assert.equal(csv([["=HYPERLINK(1)", "'=1", " +1", "＝1", -1, "a=b"]]), "'=HYPERLINK(1),''=1,' +1,'＝1,-1,a=b\r\n");
});

test("commas, quotes and line ends are quoted", () => {
  assert.equal(csv([['Zoë, "the" second', "a\nb", "", true]]), '"Zoë, ""the"" second","a\nb",,true\r\n');
});
