// Import and export of links.

/** Each flow opens the page where it begins. */
export const opens = true;

const open = async (c) => {
  await c.page.goto(`${c.base}/console/import`);
  await c.page.getByRole("heading", { level: 1, name: "Import and export" }).waitFor();
};
const choose = (c, name, text) => c.page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
const figure = (c, name) => c.page.locator("dl.figures > div").filter({ hasText: name }).locator("dd").textContent().then((t) => Number(t.replace(/\D/g, "")));
const button = (c, name) => c.page.getByRole("button", { name });
/** sure ticks that links may get new codes. */
const sure = (c) => c.page.getByLabel("That is what I want").check();

/** found lists the links with a tag, however many there are. */
async function found(c, tag) {
  const links = [];
  for (let cursor = ""; ;) {
    const page = await c.api("GET", `/api/v1/urls?tag=${tag}&limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    links.push(...page.urls);
    cursor = page.next_cursor;
    if (!cursor) return links;
  }
}

/** A file of 9,147 real links is checked, and nothing is created; then it is imported, and the links are found. */
export async function importsRealLinks(c) {
  await open(c);
  await c.axe();
  await c.narrow();
  const imported = async () => (await c.api("GET", "/api/v1/urls?limit=1000&search=github.com/ferronweb")).urls.length;
  const before = await imported();
  await c.page.locator("input[type=file]").setInputFiles(`${c.root}/testdata/links.csv`);
  await c.page.getByText("Recognised columns: original_url.").waitFor();
  await c.axe();
  await c.narrow();
  await button(c, "Check all rows").click();
  await c.page.getByText("The check has ended. Nothing has been created yet.").waitFor();
  c.assert.equal(await figure(c, "would be created") + await figure(c, "Rows refused"), 9147);
  await c.axe();
  await c.narrow();
  c.assert.equal(await imported(), before);
  await sure(c);
  await button(c, /^Import [\d,]+ rows$/).click();
  await c.page.getByText("The import has ended.").waitFor({ timeout: 60_000 });
  await c.page.goto(`${c.base}/console/links?search=github.com/ferronweb`);
  await c.page.getByText("github.com/ferronweb/ferron").first().waitFor();
}

/** A file with unknown columns is refused. A checked file is imported into the chosen domain once it is ticked that its
 * links get new codes; its links are in the list, and refused rows are a file that is mended and imported. */
export async function imports(c) {
  const tag = c.unique();
  const title = `He said "go", ${tag}`;
  await open(c);
  await choose(c, "bitly.csv", "long_url,bitlink\nhttps://example.com/a,bit.ly/abc\n");
  await c.page.getByText("bitly.csv: Unknown columns: bitlink.").waitFor();
  await choose(c, "links.csv", `\ufeffurl,Title,tags,expires_at,\r\nhttps://example.com/a?${tag},"He said ""go"", ${tag}","${tag}, spring, "" x""",,\r\n` +
    `https://example.com/b,"two\r\nlines","${tag};'=1",,\r\nhttp://localhost/,'=1+1,${tag},,\r\nhttps://example.com/c,late,${tag},tomorrow,\r\n` +
    `https://example.com/d,lines,"${tag}\nmore",,\r\n`);
  const { host } = (await c.api("GET", "/api/v1/domains")).domains.find((d) => d.shared);
  await c.page.getByLabel("Domain for rows without one").selectOption(host);
  await button(c, "Check all rows").click();
  await c.page.getByText("The check has ended.").waitFor();
  c.assert.deepEqual([await figure(c, "would be created"), await figure(c, "Rows refused")], [2, 3]);
  const refused = c.page.getByRole("table", { name: "Rows that are refused" });
  await refused.getByRole("row", { name: /^4 .*local name/ }).waitFor();
  await refused.getByRole("row", { name: /^5 expires_at not a time/ }).waitFor();
  await refused.getByRole("row", { name: /^6 tags tags are not separated by commas or semicolons/ }).waitFor();
  const [download] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download, to mend and import" }).click()]);
  c.assert.equal(download.suggestedFilename(), "refused.csv");
  await c.page.getByText(`2 links get NEW codes in ${host}`).waitFor();
  c.assert.ok(await button(c, "Import 2 rows").isDisabled());
  await sure(c);
  await c.axe();
  await button(c, "Import 2 rows").click();
  await c.page.getByText("The import has ended.").waitFor();
  await c.axe();
  await c.narrow();
  const links = await found(c, tag);
  c.assert.deepEqual(links.map((l) => l.title).sort(), [title, "two\r\nlines"].sort());
  c.assert.deepEqual(links.find((l) => l.title === title).tags.toSorted(), [tag, "spring", "x"].sort());
  c.assert.deepEqual(links.find((l) => l.title === "two\r\nlines").tags.toSorted(), [tag, "'=1"].sort());
  await open(c);
  await choose(c, "refused.csv", (await (await download.createReadStream()).toArray()).join("").replace("tomorrow", "2099-12-31"));
  await button(c, "Check all rows").click();
  await sure(c);
  await button(c, "Import 1 row").click();
  await c.page.getByText("The import has ended.").waitFor();
  c.assert.equal((await found(c, tag)).find((l) => l.title === "late").expires_at, "2100-01-01T00:00:00Z");
}

/** An import that was stopped goes on where it was, and creates nothing twice; an API that
 * asks to wait is waited for. */
export async function resumes(c) {
  const tag = c.unique();
  // Three batches of 500 rows, with few links.
  const rows = Array.from({ length: 1001 }, (_, i) => `https://example.com/${tag}/${i},${tag},${i % 25 === 0}`);
  const csv = `original_url,tags,active\n${rows.join("\n").replaceAll(",false", ",never")}\n`;
  await open(c);
  await choose(c, "long.csv", csv);
  // A check that is refused says so, and can be made again.
  await c.page.route("**/api/v1/urls/bulk*", (route) => route.fulfill({ status: 403, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:waypost:problem:forbidden", title: "", status: 403, detail: "not with this role" }) }));
  await button(c, "Check all rows").click();
  await c.page.getByText("You may not do this: not with this role").waitFor();
  await c.page.unroute("**/api/v1/urls/bulk*");
  await button(c, "Check all rows").click();
  await c.page.getByText("The check has ended.").waitFor();
  // The second batch reaches the API, but its answer is lost, and the third is refused for a while.
  let batch = 0;
  await c.page.route("**/api/v1/urls/bulk*", async (route) => {
    batch++;
    if (batch === 2) {
      await route.fetch();
      return route.abort("connectionreset");
    }
    if (batch === 3) return route.fulfill({ status: 503, headers: { "Retry-After": "60" }, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:waypost:problem:unavailable", title: "", status: 503, detail: "the database is away" }) });
    return route.continue();
  });
  await sure(c);
  await button(c, "Import 41 rows").click();
  await c.page.getByText(/Paused: The service cannot do this at the moment/).waitFor();
  await button(c, "Stop").click();
  await c.page.getByText("Stopped at row 501. What was created stays.").waitFor();
  await c.page.getByRole("link", { name: "Download, to mend and import" }).waitFor();
  await c.page.unroute("**/api/v1/urls/bulk*");
  await open(c);
  await choose(c, "renamed.csv", csv);
  await c.page.getByText("An import of this file stopped at row 501.").waitFor();
  await c.axe();
  await button(c, "Continue at row 502").click();
  await c.page.getByText("The import has ended.").waitFor();
  await c.page.getByText("Refused rows up to row 501 are not in this list.").waitFor();
  const links = await found(c, tag);
  c.assert.equal(links.length, 41);
  c.assert.equal(new Set(links.map((l) => l.original_url)).size, 41);
}

/** An import that its user leaves says that it has stopped. */
export async function leavingAnImportStopsIt(c) {
  await open(c);
  await choose(c, "left.csv", "original_url\nhttps://example.com/\n");
  await button(c, "Check all rows").click();
  await c.page.getByText("Every row can be imported.").waitFor();
  await sure(c);
  await c.page.route("**/api/v1/urls/bulk*", (route) => route.abort("connectionreset"));
  await button(c, "Import 1 row").click();
  await c.page.getByText(/^Paused: /).waitFor();
  const leaves = () => c.page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
  c.assert.equal(await leaves(), false);
  await c.page.getByRole("navigation").getByRole("link", { name: "Links" }).click();
  await c.page.getByText("The import has stopped. Choose the file again to continue.").waitFor();
  c.assert.equal(await leaves(), true);
}

/** The export is a plain download of what was chosen. */
export async function exports(c) {
  const tag = c.unique();
  const link = await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/export", title: "=1+1", tags: [tag] });
  await open(c);
  await c.page.getByLabel("Tag").selectOption(tag);
  const [download] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download" }).click()]);
  const content = async (d) => (await (await d.createReadStream()).toArray()).join("");
  const lines = (await content(download)).trim().split("\n");
  c.assert.equal(lines.length, 2);
  c.assert.ok(lines[1].startsWith(`${link.short_code},https://example.com/export,'=1+1,`), lines[1]);
  await c.page.getByLabel("For Excel").check();
  const [marked] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download" }).click()]);
  c.assert.equal((await content(marked)).trimEnd(), "\ufeff" + lines.join("\n"));
  // What was exported as JSON lines can be imported.
  await c.page.getByLabel("Format").selectOption("jsonl");
  const [jsonl] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download" }).click()]);
  await choose(c, "links.jsonl", `${await content(jsonl)}\n{"original_url": 5}\n{"original_url": "https://exa\n`);
  await button(c, "Check all rows").click();
  await c.page.getByRole("row", { name: /^3 original_url a value of another kind/ }).waitFor();
  await c.page.getByRole("row", { name: /^4 not a JSON object/ }).waitFor();
  await sure(c);
  await button(c, "Import 1 row").click();
  await c.page.getByText("The import has ended.").waitFor();
  const links = await found(c, tag);
  c.assert.deepEqual(links.map((l) => l.title), ["=1+1", "=1+1"]);
}

/** An export holds all that a link is, and an import takes all of it, but never makes a link public that had a password. */
export async function importsWhatAnExportHolds(c) {
  const tag = c.unique();
  await c.api("POST", "/api/v1/urls", {
    original_url: "https://example.com/all", tags: [tag], valid_from: "2026-01-01T00:00:00Z", expires_at: "2099-01-01T00:00:00Z",
    expired_url: "https://example.com/over", max_clicks: 7, exhausted_url: "https://example.com/sold-out", rules: [{ name: "gone", status: 410 }],
  });
  await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/secret", tags: [tag], password: "correct horse" });
  const parts = (l) => [l.valid_from, l.expires_at, l.expired_url, l.max_clicks, l.exhausted_url, l.rules.map((r) => [r.name, r.status])];
  const [want] = (await found(c, tag)).filter((l) => l.max_clicks).map(parts);
  for (const [format, made] of [["csv", 2], ["jsonl", 4]]) {
    await open(c);
    await c.page.getByLabel("Tag").selectOption(tag);
    await c.page.getByLabel("Format").selectOption(format);
    const [download] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download" }).click()]);
    await choose(c, `links.${format}`, (await (await download.createReadStream()).toArray()).join(""));
    await button(c, "Check all rows").click();
    await c.page.getByRole("row", { name: /has_password the link has a password, which no export holds/ }).waitFor();
    await sure(c);
    await button(c, /^Import \d rows?$/).click();
    await c.page.getByText("The import has ended.").waitFor();
    const links = await found(c, tag);
    c.assert.equal(links.filter((l) => l.original_url.endsWith("/secret")).length, 1);
    const all = links.filter((l) => l.max_clicks).map(parts);
    c.assert.equal(all.length, made);
    all.forEach((l) => c.assert.deepEqual(l, want));
  }
}
