import assert from "node:assert/strict";
import { test } from "node:test";
import { batches, fingerprint, refusedHeader, refusedRow, shapeOf } from "./rows";

/** read returns the links and the refused rows of a file. */
async function read(text: string | Uint8Array<ArrayBuffer>, zone = "UTC") {
  const file = new File([text], "links");
  const shape = await shapeOf(file, zone);
  const all = [];
  for await (const batch of batches(file, shape)) all.push(batch);
  return {
    shape, all, links: all.flatMap((b) => b.rows.map((r) => r.link)), bad: all.flatMap((b) => b.bad.map((f) => [f.row, f.field, f.reason])),
    broken: all.at(-1)?.broken, refused: refusedHeader(shape) + all.flatMap((b) => b.bad.map((f) => refusedRow(shape, f))).join(""),
  };
}

test("columns are found by the names of other shorteners, and others refuse the file", async () => {
  const { shape, links } = await read("\ufeffurl,Title,keyword,clicks,\nhttps://example.com/,A title,abc,7,\n");
  assert.deepEqual(shape.columns.map((c) => c.field), ["original_url", "title", "custom_code", "ignored", "ignored"]);
  assert.deepEqual(links, [{ original_url: "https://example.com/", title: "A title", custom_code: "abc" }]);
  for (const text of ["long_url,bitlink,title,tags,created\nhttps://a,bit.ly/x,,,\n", "url,id\na,1\n", "url,short_url\na,b\n"]) {
    assert.match((await read(text)).shape.fault!, /Unknown columns: (bitlink, created|id|short_url)\. .*custom_code/);
  }
  assert.deepEqual((await read('{"original_url":"a","bitlink":"b"}\n')).bad, [[1, "bitlink", "unknown"]]);
  assert.match((await read("title,notes\na,b\n")).shape.fault!, /original_url/);
  assert.notEqual((await read("")).shape.fault, undefined);
});

test("lines of redirects that no link can say are refused with their reason", async () => {
  const { links, bad } = await read('{"original_url":"https://example.com/","custom_code":"a/*"}\n\n{"refused":"it has a condition"}\n');
  assert.deepEqual(links, [{ original_url: "https://example.com/", custom_code: "a/*" }]);
  assert.deepEqual(bad, [[3, "", "it has a condition"]]);
});

test("cells become values of their fields", async () => {
  const { links, bad } = await read([
    "original_url;tags;redirect_status;active;forward_query;expires_at;metadata",
    'https://example.com/1;"a, b,"" c""";301;false;TRUE;2030-01-02;{"n":1}'.replace("{\"n\":1}", '"{""n"":1}"'),
    "https://example.com/2;;;true;;2030-01-02T03:04:05+01:00;null",
  ].join("\n"));
  assert.deepEqual(bad, []);
  assert.deepEqual(links, [
    {
      original_url: "https://example.com/1", tags: ["a", "b", " c"], redirect_status: 301, active: false, forward_query: true,
      expires_at: "2030-01-03T00:00:00.000Z", metadata: { n: 1 },
    },
    { original_url: "https://example.com/2", expires_at: "2030-01-02T03:04:05+01:00" },
  ]);
});

test("a row that is refused names its field and the reason", async () => {
  const { bad, links } = await read([
    "original_url,tags,redirect_status,expires_at,metadata", 'a,"x\ny",,,', "a,,many,,", "a,,,tomorrow,", 'a,,,,"{""a"":[{""b"":9007199254740993}]}"', "a,b", "fine,,,,",
  ].join("\n"));
  assert.deepEqual(bad.map(([row, field]) => [row, field]), [[2, "tags"], [3, "redirect_status"], [4, "expires_at"], [5, "metadata"], [6, ""]]);
  assert.match(String(bad[2]![2]), /not a time/);
  assert.match(String(bad[3]![2]), /2⁵³/);
  assert.match(String(bad[4]![2]), /2 cells instead of 5/);
  assert.deepEqual(links, [{ original_url: "fine" }]);
});

test("JSON lines keep their types, and null is left out", async () => {
  const { links, bad } = await read('{"original_url":"https://example.com/","tags":["a"],"expires_at":null,"active":true}\n\n{"original_url":5}\n{"original_url": "https://exa\n');
  assert.deepEqual(links, [{ original_url: "https://example.com/", tags: ["a"] }]);
  assert.deepEqual(bad.map(([row, field]) => [row, field]), [[3, "original_url"], [4, ""]]);
});

test("a link that had a password is not made without one", async () => {
  const { links, bad } = await read("original_url,has_password,password\na,true,\nb,true,secret\nc,false,\n");
  assert.deepEqual(bad.map(([row, field]) => [row, field]), [[2, "has_password"]]);
  assert.deepEqual(links, [{ original_url: "b", password: "secret" }, { original_url: "c" }]);
});

test("a file has the same batches each time, and stops where it breaks", async () => {
  const text = `original_url\n${Array.from({ length: 1201 }, (_, i) => `https://example.com/${i}`).join("\n")}\n`;
  const { all } = await read(text);
  assert.deepEqual(all.map((b) => [b.number, b.rows.length, b.last]), [[0, 500, 501], [1, 500, 1001], [2, 201, 1202]]);
  const { broken, links } = await read('original_url\na\n"b\nc\n');
  assert.equal(broken!.row, 3);
  assert.deepEqual(links, [{ original_url: "a" }]);
});

test("a file is known by its content", async () => {
  const [a, same, other] = await Promise.all(["a", "a", "b"].map((text) => fingerprint(new Blob([text]))));
  assert.equal(a, same);
  assert.notEqual(a, other);
});

test("a file of Shlink has bars between tags, and other files have commas", async () => {
  const { shape, links } = await read("createdAt,shortCode,shortUrl,longUrl,tags,visits,expires_at\n2026-01-01T00:00:00Z,abc,https://s.example/abc,https://example.com/,x|b c,12,2099-12-31\n");
  assert.deepEqual(shape.columns.filter((c) => c.field === "ignored").map((c) => c.name), ["createdAt", "shortUrl", "visits"]);
  assert.deepEqual(links, [{ custom_code: "abc", original_url: "https://example.com/", tags: ["x", "b c"], expires_at: "2100-01-01T00:00:00.000Z" }]);
  assert.deepEqual((await read("shortCode,longUrl,tags\nabc,https://example.com/,a|b\n")).links[0]!.tags, ["a|b"]);
});

test("a batch has no more passwords than the API takes at once", async () => {
  const { all } = await read(`original_url,password,has_password\n${Array.from({ length: 12 }, (_, i) => `https://example.com/${i},secret,true\n`).join("")}`);
  assert.deepEqual(all.map((b) => b.rows.length), [10, 2]);
});

test("a day begins and ends in the time zone of the workspace, also where clocks change", async () => {
  const { links, bad } = await read([
    "original_url,expires_at,valid_from", "a,2027-12-31,2027-07-01", "b,2026-10-25,2026-03-29", "c,2026-10-25T12:00:00Z,", "d,2027-02-30,", "e,9999-12-31,",
  ].join("\n"), "Europe/Berlin");
  assert.deepEqual(links.map((l) => [l.expires_at, l.valid_from]), [
    ["2027-12-31T23:00:00.000Z", "2027-06-30T22:00:00.000Z"], ["2026-10-25T23:00:00.000Z", "2026-03-28T23:00:00.000Z"],
    ["2026-10-25T12:00:00Z", undefined], ["9999-12-30T23:00:00.000Z", undefined],
  ]);
  assert.deepEqual(bad.map(([row, field]) => [row, field]), [[5, "expires_at"]]);
  // In Cairo midnight is skipped on 30 April 2027.
  assert.equal((await read("url,valid_from\na,2027-04-30\n", "Africa/Cairo")).links[0]!.valid_from, "2027-04-29T22:00:00.000Z");
});

test("refused rows keep their columns, so that they can be mended and imported", async () => {
  const { refused, bad, links } = await read('original_url;tags;title;expires_at\na;x;\'=1+1;tomorrow\nb;c"d;;\ne;f;;;g\nh;"i,""j;k""";;\n');
  assert.deepEqual(links, [{ original_url: "h", tags: ["i", "j;k"] }]);
  assert.equal(bad.length, 3);
  const again = await read(refused.replace("tomorrow", "2030-01-01"));
  assert.deepEqual(again.shape.columns.map((c) => c.name), ["original_url", "tags", "title", "expires_at", "refused"]);
  assert.deepEqual(again.links[0], { original_url: "a", tags: ["x"], title: "=1+1", expires_at: "2030-01-02T00:00:00.000Z" });
  assert.match(refused, /;"Row 2: expires_at not a time/);
  assert.deepEqual((await read(again.refused)).shape.columns.length, 5);
  const lines = await read('{"original_url":"a","expires_at":"tomorrow"}\n');
  assert.deepEqual((await read(lines.refused.replace("tomorrow", "2030-01-01T00:00:00Z"))).links, [{ original_url: "a", expires_at: "2030-01-01T00:00:00Z" }]);
});

test("files are read as spreadsheets write them, or refused with the reason", async () => {
  const want = [{ original_url: "a", title: "b" }, { original_url: "c", title: "d" }];
  for (const text of [
    "sep=;\r\nurl;title\r\na;b\r\nc;d\r\n", '"sep=|"\nurl|title\na|b\nc|d', "url,title\ra,b\rc,d\r", "url\ttitle\na\tb\nc\td\n",
    "url,title,,\na,b,,\nc,d\n,,,\n",
  ]) {
    const { links, bad, shape } = await read(text);
    assert.deepEqual([shape.fault, bad, links], [undefined, [], want], text);
  }
  assert.deepEqual((await read("url,title,tags\na,b,x;y\n")).links[0]!.tags, ["x", "y"]);
  assert.deepEqual((await read("url,title,\na,b,c\n")).bad.length, 1);
  const utf16 = new Uint8Array(new Uint16Array([0xfeff, ...[..."url,title\na,b\n"].map((c) => c.charCodeAt(0))]).buffer);
  assert.match((await read(utf16)).shape.fault!, /not in UTF-8/);
  const latin = Uint8Array.from([..."url,title\na,M\xfcnchen\n"].map((c) => c.charCodeAt(0)));
  assert.match(String((await read(latin)).bad[0]![2]), /not in UTF-8/);
});
