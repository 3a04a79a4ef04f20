import assert from "node:assert/strict";
import { test } from "node:test";
import { batches, fingerprint, shapeOf } from "./rows";

/** read returns the links and the refused rows of a file. */
async function read(text: string) {
  const file = new File([text], "links");
  const shape = await shapeOf(file);
  const all = [];
  for await (const batch of batches(file, shape)) all.push(batch);
  return {
    shape, all, links: all.flatMap((b) => b.rows.map((r) => r.link)), bad: all.flatMap((b) => b.bad.map((f) => [f.row, f.field, f.reason])),
    broken: all.at(-1)?.broken,
  };
}

test("columns are found by the names of other shorteners, and unknown ones are named", async () => {
  const { shape, links } = await read("\ufeffurl,Title,keyword,clicks,Colour\nhttps://example.com/,A title,abc,7,x\n");
  assert.deepEqual(shape.columns.map((c) => c.field), ["original_url", "title", "custom_code", "ignored", undefined]);
  assert.deepEqual(links, [{ original_url: "https://example.com/", title: "A title", custom_code: "abc" }]);
  assert.match((await read("name,address\na,b\n")).shape.fault!, /original_url/);
  assert.notEqual((await read("")).shape.fault, undefined);
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
      expires_at: "2030-01-02T00:00:00Z", metadata: { n: 1 },
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
  assert.deepEqual(links, [{ custom_code: "abc", original_url: "https://example.com/", tags: ["x", "b c"], expires_at: "2099-12-31T00:00:00Z" }]);
  assert.deepEqual((await read("shortCode,longUrl,tags\nabc,https://example.com/,a|b\n")).links[0]!.tags, ["a|b"]);
});

test("a batch has no more passwords than the API takes at once", async () => {
  const { all } = await read(`original_url,password,has_password\n${Array.from({ length: 12 }, (_, i) => `https://example.com/${i},secret,true\n`).join("")}`);
  assert.deepEqual(all.map((b) => b.rows.length), [10, 2]);
});
