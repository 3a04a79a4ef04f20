import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "../../ui/csv";
import { CsvReader, plainCell } from "./csv";

/** rows reads a text in pieces of each length, which must make no difference. */
function rows(text: string, separator = ",") {
  const read = (length: number) => {
    const reader = new CsvReader(separator);
    const all = [];
    for (let at = 0; at < text.length; at += length) all.push(...reader.read(text.slice(at, at + length), at + length >= text.length));
    return { rows: all, broken: reader.broken };
  };
  const whole = read(text.length || 1);
  for (const length of [1, 2, 3, 7]) assert.deepEqual(read(length), whole, `in pieces of ${length}`);
  return whole;
}

const cells = (text: string, separator?: string) => rows(text, separator).rows.map((r) => r.cells);

test("cells have quotes, line ends and separators", () => {
  assert.deepEqual(cells('a,b\n1,2\n'), [["a", "b"], ["1", "2"]]);
  assert.deepEqual(cells('a,b\r\n"1, 2","say ""hi"""\r\n'), [["a", "b"], ["1, 2", 'say "hi"']]);
  assert.deepEqual(cells('"two\r\nlines",x'), [["two\r\nlines", "x"]]);
  assert.deepEqual(cells("a;b\n1,5;2\n", ";"), [["a", "b"], ["1,5", "2"]]);
  assert.deepEqual(cells("a,"), [["a", ""]]);
});

test("empty lines count, and have no row", () => {
  assert.deepEqual(rows("a\n\n\nb\n").rows, [{ row: 1, cells: ["a"] }, { row: 4, cells: ["b"] }]);
  assert.deepEqual(rows('a;b\n;;\n""; \nc;d\n', ";").rows.map((r) => r.row), [1, 4]);
});

test("a stray quote spoils its row alone", () => {
  assert.deepEqual(rows('u,t\na,1\nb"2",1\nc,"x" y\nd,1\n').rows, [
    { row: 1, cells: ["u", "t"] }, { row: 2, cells: ["a", "1"] }, { row: 3, fault: "bareQuote", text: 'b"2",1' }, { row: 4, fault: "afterQuote", text: 'c,"x" y' }, { row: 5, cells: ["d", "1"] },
  ]);
});

test("a quote that is never closed breaks the file", () => {
  const { rows: before, broken } = rows('a\nb\n"c\nd\n');
  assert.deepEqual(before.map((r) => r.row), [1, 2]);
  assert.deepEqual(broken, { row: 3, why: "openQuote" });
});

test("between tabs a quotation mark spoils its row, and never joins rows", () => {
  assert.deepEqual(rows('u\tt\na\t"b\nc\td"\ne\tf\n', "\t").rows, [
    { row: 1, cells: ["u", "t"] }, { row: 2, fault: "tabQuote", text: 'a\t"b' }, { row: 3, fault: "tabQuote", text: 'c\td"' }, { row: 4, cells: ["e", "f"] },
  ]);
});

test("bytes that are no text spoil their row", () => {
  assert.deepEqual(rows("a\0\nb\ufffd\nc\n").rows, [{ row: 1, fault: "nul", text: "a\0" }, { row: 2, fault: "encoding", text: "b\ufffd" }, { row: 3, cells: ["c"] }]);
});

test("a cell that looks like a formula comes back as it was", () => {
  for (const cell of ["=1+1", "'=1+1", "@x", "-1", "\tx", "plain", "it's"]) {
    const [read] = cells(csv([[cell]]));
    assert.equal(plainCell(read![0]!), cell);
  }
  assert.equal(csv([["=1+1", 5, true]]), "'=1+1,5,true\r\n");
});
