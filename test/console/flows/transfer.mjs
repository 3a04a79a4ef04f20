// Import and export of links.

/** Each flow opens the page where it begins. */
export const opens = true;

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = ["keepsPrintedCodes", "mendsRefusedRows", "sendsFiles", "importsWhatAnExportHolds"];

const open = async (c) => {
  await c.page.goto(`${c.base}/console/import`);
  await c.page.getByRole("heading", { level: 1, name: "Import and export" }).waitFor();
};
const figure = (c, name) => c.page.locator("dl.figures > div").filter({ hasText: name }).locator("dd").textContent().then((t) => Number(t.replace(/\D/g, "")));
const button = (c, name) => c.page.getByRole("button", { name });
const content = async (download) => (await (await download.createReadStream()).toArray()).join("");

/** choose chooses a file, and waits until its rows are read. */
async function choose(c, name, text) {
  await c.page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
  await mapped(c);
}
const mapped = (c) => c.page.getByRole("heading", { name: "What becomes of the file" }).waitFor();

/** check checks all rows, after which nothing has been created. */
async function check(c) {
  await button(c, "Check all rows").click();
  await c.page.getByRole("heading", { name: "All rows are checked. Nothing has been created yet." }).waitFor();
}

/** refused waits for a row that is refused. */
const refused = (c, name) => c.page.getByRole("table", { name: "Rows that are refused" }).getByRole("row", { name }).first().waitFor();

/** finish imports what was checked. */
async function finish(c, links) {
  await button(c, links).click();
  await state(c, "Done");
}
const state = (c, name) => c.page.locator("h1 + [role=status]").getByText(name, { exact: true }).waitFor({ timeout: 60_000 });

/** sure ticks that links may get new codes. */
const sure = (c) => c.page.getByLabel("That is what I want").check();

/** newCodes gives up the codes of the file, because links of this installation have them. */
async function newCodes(c) {
  await c.page.getByLabel("Keep the codes of the file").uncheck();
  await button(c, "Show with these changes").click();
  await c.page.getByText("All links get NEW codes: printed addresses will be dead.").waitFor();
}

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
  await mapped(c);
  await c.page.getByText("9,147 rows").waitFor();
  await check(c);
  c.assert.equal(await figure(c, "would be created") + await figure(c, "Rows refused"), 9147);
  await c.axe();
  await c.narrow();
  c.assert.equal(await imported(), before);
  await sure(c);
  await finish(c, /^Import [\d,]+ links$/);
  await c.page.goto(`${c.base}/console/links?search=github.com/ferronweb`);
  await c.page.getByText("github.com/ferronweb/ferron").first().waitFor();
}

/** A file of Bitly has its codes in a column that nothing knows. The console says that printed addresses would be dead, and
 * imports only once that is ticked, or once the column is chosen; then the codes are kept. The import is undone. */
export async function keepsPrintedCodes(c) {
  const tag = c.unique();
  await open(c);
  await choose(c, `${tag}.csv`, `\ufefflong_url,Title,tags,expires,Printed as,notes by Ann\r\nhttps://example.com/a?${tag},"He said ""go""",${tag};spring,01/02/2099,bit.ly/${tag}A,x\r\n` +
    `https://example.com/b,"two\r\nlines",${tag},,https://bit.ly/${tag}B,\r\nhttp://localhost/,'=1+1,${tag},,,\r\n`);
  await c.axe();
  await c.narrow();
  await c.page.getByText("Left out: Printed as, notes by Ann.").waitFor();
  await c.page.getByText("No column is a code, so that all links get NEW codes: printed addresses will be dead.").waitFor();
  c.assert.ok(await button(c, "Check all rows").isDisabled(), "the notation of dates must be chosen");
  await c.page.getByLabel("Dates are written as").selectOption({ label: "31.12.2030 or 31/12/2030" });
  await check(c);
  c.assert.deepEqual([await figure(c, "would be created"), await figure(c, "Rows refused")], [2, 1]);
  await refused(c, /^5 .*local name/);
  await c.page.getByText("2 links get NEW codes: their printed addresses will be dead.").waitFor();
  c.assert.ok(await button(c, "Import 2 links").isDisabled());
  await sure(c);
  c.assert.ok(await button(c, "Import 2 links").isEnabled());
  await c.axe();
  const column = c.page.getByLabel("Field of the column Printed as");
  await c.tab(column);
  await column.selectOption({ label: "Short address" });
  await button(c, "Show with these changes").click();
  await c.page.getByRole("cell", { name: `${tag}A → https://example.com/a` }).waitFor();
  await c.page.getByText("Links keep the codes of the file").waitFor();
  await check(c);
  c.assert.equal(await c.page.getByLabel("That is what I want").count(), 0);
  await finish(c, "Import 2 links");
  await c.axe();
  await c.narrow();
  const links = (await found(c, tag)).toSorted((a, b) => (a.short_code < b.short_code ? -1 : 1));
  c.assert.deepEqual(links.map((l) => [l.short_code, l.title, l.tags.toSorted(), l.expires_at ?? null]), [
    [`${tag}A`, 'He said "go"', ["spring", tag].sort(), "2099-02-02T00:00:00Z"], [`${tag}B`, "two\r\nlines", [tag], null],
  ]);
  await c.page.getByText(/^It can be undone for 7 days\.$/).waitFor();
  await button(c, "Undo the import").click();
  await c.page.getByRole("dialog").getByRole("button", { name: "Undo the import" }).click();
  await state(c, "Undone");
  c.assert.equal(await figure(c, "Links deleted"), 2);
  c.assert.deepEqual(await found(c, tag), []);
  await open(c);
  await c.page.getByRole("table", { name: "Imports of the last week" }).getByRole("row", { name: new RegExp(`${tag}\\.csv Undone 3 2 1`) }).waitFor();
}

/** The refused rows are a file that is mended and imported. */
export async function mendsRefusedRows(c) {
  const tag = c.unique();
  await open(c);
  await choose(c, "links.csv", `url,title,tags,expires_at\nhttps://example.com/,fine,${tag},2099-12-31\nhttp://localhost/,mended,${tag},2099-12-31\n`);
  const { host } = (await c.api("GET", "/api/v1/domains")).domains.find((d) => d.shared);
  await c.page.getByLabel("Domain for rows without one").selectOption(host);
  await check(c);
  const [download] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download, to mend and import" }).click()]);
  c.assert.equal(download.suggestedFilename(), "refused.csv");
  await sure(c);
  await finish(c, "Import 1 link");
  await c.page.getByRole("link", { name: "Download, to mend and import" }).waitFor();
  await open(c);
  await choose(c, "refused.csv", (await content(download)).replace("http://localhost/", "https://example.com/mended"));
  await check(c);
  await sure(c);
  await finish(c, "Import 1 link");
  const mended = (await found(c, tag)).find((l) => l.title === "mended");
  c.assert.deepEqual([mended.original_url, mended.expires_at], ["https://example.com/mended", "2100-01-01T00:00:00Z"]);
}

/** A file is sent while its user looks at other screens, also over a broken connection, and can be chosen once more after a
 * reload. An unreadable file says why, and all imports are in the list. */
export async function sendsFiles(c) {
  const name = `${c.unique()}.csv`;
  const leaves = () => c.page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
  const file = { name, mimeType: "text/csv", buffer: Buffer.from("original_url\nhttps://example.com/\n") };
  const inList = (what) => c.page.getByRole("table", { name: "Imports of the last week" }).getByRole("row", { name: new RegExp(`${name.replace(".", "\\.")} ${what}`) });
  const parts = "**/api/v1/imports/*/parts/*";
  await open(c);
  await c.page.route(parts, (route) => route.abort("connectionreset"));
  await c.page.locator("input[type=file]").setInputFiles(file);
  await state(c, "Sending the file");
  await c.page.getByText("The server cannot be reached.").waitFor();
  await c.axe();
  c.assert.equal(await leaves(), false);
  await c.page.getByRole("navigation").getByRole("link", { name: "Import and export" }).click();
  await inList("Sending the file").waitFor();
  await c.page.unroute(parts);
  await inList("Ready 1 0 0").waitFor();
  c.assert.equal(await leaves(), true);
  // An import that somebody else began, whose file is not complete.
  const { id } = await c.api("POST", "/api/v1/imports", { name: "begun.csv" });
  await c.page.goto(`${c.base}/console/import/${id}`);
  await c.page.getByText("The file is not complete. Choose the same file again to send the rest.").waitFor();
  await c.page.locator("input[type=file]").setInputFiles({ ...file, buffer: Buffer.from([0x75, 0x72, 0x6c, 0x0a, 0x68, 0xfc, 0x0a]) });
  await state(c, "Not readable");
  await c.page.getByText("UTF-8").first().waitFor();
  await button(c, "Remove the import").click();
  await c.page.getByRole("dialog").getByRole("button", { name: "Remove the import" }).click();
  await inList("Ready").waitFor();
  c.assert.equal((await c.api("GET", "/api/v1/imports")).imports.filter((i) => i.id === id).length, 0);
}

/** An import that runs shows how far it is and how long it takes, and is stopped and resumed. */
export async function stopsAndResumes(c) {
  const tag = c.unique();
  await open(c);
  await choose(c, "long.csv", `original_url,tags\n${Array.from({ length: 40 }, (_, n) => `https://example.com/${n},${tag}`).join("\n")}\n`);
  await check(c);
  await sure(c);
  // The control plane is faster than a person, so the answers are those of an import that has done a quarter of its rows.
  let now = "running";
  const asked = [];
  await c.page.route(/\/api\/v1\/imports\/[^/]+(\/(run|stop))?$/, async (route) => {
    const request = route.request();
    const act = /(run|stop)$/.exec(request.url())?.[0];
    if (act) {
      asked.push(`${act} ${request.postData() ?? ""}`.trim());
      now = act === "run" ? "running" : "stopped";
    }
    const real = await (await route.fetch({ url: request.url().replace(/\/(run|stop)$/, ""), method: "GET", postData: "" })).json();
    const counts = { ...real.counts, created: 10, left: 30 };
    await route.fulfill({ json: { ...real, state: now, counts, ...(now === "running" && { rows_per_second: 15, seconds_left: 120 }) } });
  });
  await button(c, "Import 40 links").click();
  await state(c, "Importing");
  await c.page.getByText("10 of 40 · 15 a second · 2 mins left").waitFor();
  await c.axe();
  await button(c, "Stop").click();
  await c.page.getByText("Stopped: 30 rows are left. What was created stays.").waitFor();
  await c.axe();
  await button(c, "Resume").click();
  await state(c, "Importing");
  c.assert.deepEqual(asked, ['run {"dry_run":false}', "stop", 'run {"dry_run":false}']);
  c.assert.deepEqual(await found(c, tag), [], "the requests did not reach the control plane");
}

/** The export is a plain download of what was chosen. */
export async function exports(c) {
  const tag = c.unique();
  const link = await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/export", title: "=1+1", tags: [tag] });
  await open(c);
  await c.page.getByLabel("Tag").selectOption(tag);
  const [download] = await Promise.all([c.page.waitForEvent("download"), c.page.getByRole("link", { name: "Download" }).click()]);
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
  await newCodes(c);
  await check(c);
  c.assert.deepEqual([await figure(c, "would be created"), await figure(c, "Rows refused")], [1, 2]);
  await refused(c, /^3 /);
  await refused(c, /^4 /);
  await sure(c);
  await finish(c, "Import 1 link");
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
    await choose(c, `links.${format}`, await content(download));
    await newCodes(c);
    await check(c);
    await refused(c, /the link has a password, which the file does not hold/);
    await sure(c);
    await finish(c, /^Import \d links?$/);
    const links = await found(c, tag);
    c.assert.equal(links.filter((l) => l.original_url.endsWith("/secret")).length, 1);
    const all = links.filter((l) => l.max_clicks).map(parts);
    c.assert.equal(all.length, made);
    all.forEach((l) => c.assert.deepEqual(l, want));
  }
}
