// The list of links and the bin: finding, creating, changing, deleting and restoring.

/** These measure time: of the browser, or until a click shows. */
export const alone = ["aHundredThousandLinksScroll", "aNewLinkIsFollowedOnBothEdgesAndItsClicksAppear"];

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = [
  "aHundredThousandLinksScroll", "aListWithoutRowsLoadsOn", "aListThatFailedIsAskedForAgain",
  "theBinSaysWhyALinkIsNotRestored", "aTypedDateFilters", "longTitlesAreRefusedInWordsAndAnyScriptIsShown",
  "linksThatCannotBeChangedAreNamedWithTheReason",
];

/** rowOf returns the row of the table that holds a text. */
function rowOf(page, text) {
  return page.getByRole("row").filter({ hasText: text });
}

/** newLinks creates links whose titles begin with a word that no other link has. */
async function newLinks(c, n, more = {}) {
  const word = c.unique();
  const links = [];
  for (let i = 1; i <= n; i++) {
    links.push(await c.api("POST", "/api/v1/urls", { original_url: `https://example.com/${word}/${i}`, title: `${word} ${i}`, ...more }));
  }
  return { word, links };
}

/** find types into the search and waits until it shows a number of links. */
async function find(page, word, n) {
  await page.getByRole("searchbox", { name: "Search links" }).fill(word);
  await page.waitForURL((url) => url.searchParams.get("search") === word);
  await shows(page, n);
}

async function shows(page, n) {
  await page.getByRole("status").filter({ hasText: new RegExp(`^${n} links?$`) }).waitFor();
}

/** madeUp is a link that only the answers of a flow have. */
const madeUp = (i) => ({
  id: String(9e9 - i), short_code: `n${i}`, short_url: `http://localhost/n${i}`, domain: "localhost", original_url: `https://example.com/${i}`,
  redirect_status: 302, forward_query: false, forward_path: false, title: `Link ${i}`, description: "", tags: ["many"], metadata: null, created_by: "",
  active: true, click_count: i, last_accessed_at: null, created_at: "2026-01-01T00:00:00Z", updated_at: "2026-01-01T00:00:00Z", expires_at: null,
});

const dialogOf = (page, name) => page.getByRole("dialog", { name });

export async function aPastedURLBecomesALinkOnAllEdges(c) {
  const { page } = c;
  const target = `https://example.com/${c.unique()}`;
  await page.evaluate((text) => navigator.clipboard.writeText(text), target);
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("Control+v");
  const form = dialogOf(page, "Create a link");
  await form.waitFor();
  c.assert.equal(await form.getByLabel("Target URL").inputValue(), target);
  await c.axe();
  await c.narrow();
  await form.getByRole("button", { name: "Create link" }).click();
  const ready = dialogOf(page, "Your link is ready");
  await ready.getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  await ready.getByRole("img", { name: /^QR code of/ }).waitFor();
  const short = await ready.getByRole("link").first().textContent();
  await ready.getByRole("button", { name: /^Copy/ }).click();
  await ready.getByText("Copied").waitFor();
  c.assert.equal(await page.evaluate(() => navigator.clipboard.readText()), short);
  await c.axe();
  await c.narrow();
  await ready.getByRole("button", { name: "Done" }).click();
  await rowOf(page, new URL(short).pathname.slice(1)).waitFor();
}

export async function aNewLinkIsFollowedOnBothEdgesAndItsClicksAppear(c) {
  const { page } = c;
  const { keyboard } = page;
  const code = c.unique();
  await keyboard.press("c");
  const form = dialogOf(page, "Create a link");
  await c.tab(form.getByLabel("Target URL"));
  await keyboard.type(`https://example.com/${code}`);
  await c.tab(form.getByLabel("Custom code"));
  await keyboard.type(code);
  await c.tab(form.getByRole("button", { name: "Create link" }));
  await keyboard.press("Enter");
  const ready = dialogOf(page, "Your link is ready");
  await ready.getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  await c.tab(ready.getByRole("button", { name: "Done" }));
  await keyboard.press("Enter");
  const clicks = rowOf(page, code).getByRole("cell", { name: /^Clicks:/ });
  c.assert.match(await clicks.textContent(), /0$/);
  // A click shows within 3 seconds. A machine that tests other things, too, stalls at times, so
  // that it is the median of five, of which three are enough when these are in time.
  const took = [];
  const inTime = () => took.filter((t) => t <= 3000).length;
  while (took.length < 5 && inTime() < 3) {
    const answer = await fetch(`${c.edges[took.length % c.edges.length]}/${code}`, { redirect: "manual" });
    const began = performance.now();
    c.assert.equal(answer.status, 302);
    c.assert.equal(answer.headers.get("Location"), `https://example.com/${code}`);
    await clicks.filter({ hasText: new RegExp(`: ${took.length + 1}$`) }).waitFor();
    took.push(performance.now() - began);
  }
  c.assert.ok(inTime() >= 3, `clicks show after ${took.map(Math.round).join(", ")} ms`);
  await rowOf(page, code).getByRole("img", { name: `${took.length} in the last 14 days, ${took.length} today` }).waitFor();
}

export async function linksAreFoundFilteredAndOrderedInTheAddressBar(c) {
  const { page } = c;
  const tag = c.unique();
  const { word, links } = await newLinks(c, 3);
  await c.api("PATCH", `/api/v1/urls/${links[0].short_code}`, { tags: [tag], active: false });
  await page.keyboard.press("/");
  await page.keyboard.type(word.slice(0, -1), { delay: 20 });
  await shows(page, 3);
  await c.axe();
  await c.narrow();
  await page.getByRole("button", { name: "Created" }).click();
  await page.waitForURL(/sort=created/);
  await page.getByRole("columnheader", { name: "Created" }).and(page.locator("[aria-sort=ascending]")).waitFor();
  await page.getByRole("row").nth(1).filter({ hasText: `${word} 1` }).waitFor();
  await page.reload();
  await page.getByRole("row").nth(1).filter({ hasText: `${word} 1` }).waitFor();
  await shows(page, 3);
  c.assert.equal(await page.getByRole("searchbox", { name: "Search links" }).inputValue(), word.slice(0, -1));
  await page.getByRole("link", { name: `Show links with the tag ${tag}` }).click();
  await shows(page, 1);
  await page.getByLabel("State").selectOption("Active");
  await page.getByRole("heading", { name: "No link matches" }).waitFor();
  await c.axe();
  await c.narrow();
  await page.goBack();
  await shows(page, 1);
  await rowOf(page, tag).getByText("off", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.waitForURL((url) => !url.searchParams.has("search") && !url.searchParams.has("tag"));
}

/** A date that is typed is one step back, and its field stays. */
export async function aTypedDateFilters(c) {
  const { page } = c;
  const { word } = await newLinks(c, 1);
  await find(page, word, 1);
  const steps = await page.evaluate("history.length");
  await page.getByText("More filters").click();
  await page.getByLabel("Created until").focus();
  await page.keyboard.type("02022026");
  await page.waitForURL((url) => url.searchParams.get("to") === "2026-02-02");
  await page.getByRole("heading", { name: "No link matches" }).waitFor();
  await page.getByLabel("Created until").fill("");
  await shows(page, 1);
  await page.getByLabel("Created until").waitFor();
  c.assert.equal(await page.evaluate("history.length"), steps);
}

/** A short URL is found, whether it is pasted with its scheme or without. */
export async function aPastedShortURLIsFound(c) {
  const { page } = c;
  const { word, links: [link] } = await newLinks(c, 2);
  await page.reload(); // an empty list has no search
  const search = page.getByRole("searchbox", { name: "Search links" });
  for (const typed of [link.short_url, `${link.short_url}+`, link.short_url.replace("http://", "")]) {
    await search.fill(word);
    await shows(page, 2);
    await search.fill(typed);
    await shows(page, 1);
    await rowOf(page, `${word} 1`).waitFor();
  }
  c.assert.equal(new URL(page.url()).searchParams.get("search"), link.short_url.replace("http://", ""));
  await page.reload();
  await shows(page, 1);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Type a command/ }).fill(link.short_url);
  await page.getByRole("option", { name: `${word} 1` }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL((u) => u.pathname === `/console/links/${link.short_code}`);
}

export async function severalLinksAreTaggedSwitchedOffDeletedAndRestored(c) {
  const { page } = c;
  const tag = c.unique();
  const { word, links } = await newLinks(c, 3, { tags: ["kept"] });
  const bar = page.getByRole("region", { name: "Change the selected links" });
  const all = page.getByRole("checkbox", { name: "Select all loaded links" });
  const undo = async (what) => {
    await page.locator(".toast").filter({ hasText: what }).getByRole("button", { name: "Undo" }).click();
    await page.getByText("3 links are as they were").last().waitFor();
    await page.locator(".toast").getByRole("button", { name: "Close" }).first().click();
  };
  const stored = () => Promise.all(links.map((l) => c.api("GET", `/api/v1/urls/${l.short_code}`)));
  await find(page, word, 3);

  await all.check();
  await bar.getByText("3 selected").waitFor();
  await c.axe();
  await c.narrow();
  const [sheet] = await Promise.all([page.waitForEvent("download"), bar.getByRole("button", { name: "QR codes (PDF)" }).click()]);
  c.assert.match((await (await sheet.createReadStream()).toArray()).join(""), /^%PDF-[^]*\/MediaBox \[0 0 595\.28 841\.89\]/);
  // What is exported has the columns of the API's own export.
  const [download] = await Promise.all([page.waitForEvent("download"), bar.getByRole("button", { name: "Export" }).click()]);
  const exported = (await (await download.createReadStream()).toArray()).join("");
  const ofAPI = await (await fetch(`${c.base}/api/v1/urls/export?format=csv&search=${word}`)).text();
  c.assert.deepEqual(exported.trim().split("\n").toSorted(), ofAPI.trim().split("\n").toSorted());
  await bar.getByRole("button", { name: "Add tag" }).click();
  const dialog = dialogOf(page, "Add tag");
  await dialog.getByLabel("Tag").fill(tag);
  await c.axe();
  await dialog.getByRole("button", { name: "Add tag" }).click();
  await page.getByText("3 links tagged").waitFor();
  c.assert.deepEqual((await stored()).map((l) => l.tags), [["kept", tag], ["kept", tag], ["kept", tag]]);
  await undo("3 links tagged");
  c.assert.deepEqual((await stored()).map((l) => l.tags), [["kept"], ["kept"], ["kept"]]);

  await all.check();
  await bar.getByRole("button", { name: "Switch off" }).click();
  await page.getByText("3 links switched off").waitFor();
  c.assert.deepEqual((await stored()).map((l) => l.active), [false, false, false]);
  await undo("3 links switched off");
  c.assert.deepEqual((await stored()).map((l) => l.active), [true, true, true]);

  await all.check();
  await page.keyboard.press("#");
  const ask = dialogOf(page, "Delete 3 links?");
  await ask.waitFor();
  await c.axe();
  await c.narrow();
  c.assert.equal(await ask.getByText(/hold back/).count(), 0);
  await ask.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No link matches" }).waitFor();
  await page.getByRole("searchbox", { name: "Search links" }).and(page.locator(":focus")).waitFor();
  await undo("3 links deleted");
  await shows(page, 3);
  c.assert.equal((await stored()).length, 3);

  await all.check();
  await page.keyboard.press("Delete");
  await dialogOf(page, "Delete 3 links?").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No link matches" }).waitFor();
  await page.getByRole("link", { name: "Bin" }).click();
  await page.getByRole("button", { name: `Restore ${word} 1` }).click();
  await page.getByText("1 link restored").waitFor();
  await c.axe();
  await c.narrow();
  await page.getByRole("checkbox", { name: `Select ${word} 2` }).check();
  await page.getByRole("checkbox", { name: `Select ${word} 3` }).check();
  await bar.getByRole("button", { name: "Restore" }).click();
  await page.getByText("2 links restored").waitFor();
  c.assert.equal(await rowOf(page, word).count(), 0);
  c.assert.equal((await stored()).length, 3);
}

/** A page without links may have others behind it, and so may one whose links were deleted. */
export async function aListWithoutRowsLoadsOn(c) {
  const { page } = c;
  const pages = { start: [0, 0, "full"], full: [0, 100, "last"], last: [100, 101, ""] };
  await page.route(/\/api\/v1\/urls\?/, (route) => {
    const [from, to, next_cursor] = pages[new URL(route.request().url()).searchParams.get("cursor") ?? "start"];
    return route.fulfill({ json: { urls: Array.from({ length: to - from }, (_, i) => madeUp(from + i)), next_cursor } });
  });
  await page.route(/\/api\/v1\/urls\/n\d+\?/, (route) => route.fulfill({ status: 204 }));
  await page.route(/\/api\/v1\/stats\/links/, (route) => route.fulfill({ json: { from: "2026-01-01T00:00:00Z", days: 14, links: [] } }));
  await page.reload();
  await page.getByText("The first 100 links.").waitFor();
  await page.getByRole("checkbox", { name: "Select all loaded links" }).check();
  await page.keyboard.press("#");
  const ask = dialogOf(page, "Delete 100 links?");
  await ask.getByText(/Edges hold back a deletion of very many links/).waitFor();
  await ask.getByRole("button", { name: "Delete" }).click();
  await rowOf(page, "Link 100").waitFor();
  await shows(page, 1);
}

/** What is asked for while links are being changed is done after that, with the links as they are then. */
export async function changesTakeTheirTurns(c) {
  const { page } = c;
  const { word, links } = await newLinks(c, 2);
  const { word: other } = await newLinks(c, 1);
  const active = () => Promise.all(links.map(async (l) => (await c.api("GET", `/api/v1/urls/${l.short_code}`)).active));
  const select = (i) => page.getByRole("checkbox", { name: `Select ${word} ${i}` }).check();
  await find(page, word, 2);
  await select(1);
  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByText("1 link switched off").waitFor();
  let pass;
  const passing = new Promise((done) => { pass = done; });
  await page.route(`**/api/v1/urls/${links[1].short_code}*`, async (route) => {
    await passing;
    return route.continue();
  });
  await select(2);
  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByText("0 of 1 done").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  pass();
  const asItWas = page.getByText("1 link is as it was");
  await asItWas.waitFor();
  c.assert.deepEqual(await active(), [true, false]);

  // A change by someone else is known to the selection.
  await select(1);
  await select(2);
  await c.api("PATCH", `/api/v1/urls/${links[0].short_code}`, { active: false });
  await newLinks(c, 1); // which is news
  await rowOf(page, `${word} 1`).getByText("off", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Switch on" }).click();
  await page.getByText("2 links switched on").waitFor();
  c.assert.deepEqual(await active(), [true, true]);

  // A deletion is undone while another list is shown, into which the link does not get.
  await asItWas.waitFor({ state: "detached" });
  await select(1);
  await page.keyboard.press("#");
  await dialogOf(page, "Delete 1 link?").getByRole("button", { name: "Delete" }).click();
  const deleted = page.locator(".toast").filter({ hasText: "1 link deleted" });
  await deleted.waitFor();
  await find(page, other, 1);
  await rowOf(page, other).waitFor(); // the list before has one row as well
  await deleted.getByRole("button", { name: "Undo" }).click();
  await asItWas.waitFor();
  await shows(page, 1);
  c.assert.equal(await rowOf(page, word).count(), 0);
}

/** A list that fails can be asked for again, also when the one before had more pages. Its
 * links are no longer taken for those that were asked for. */
export async function aListThatFailedIsAskedForAgain(c) {
  const { page } = c;
  const { word } = await newLinks(c, 2);
  const many = c.unique();
  await c.api("POST", "/api/v1/urls/bulk", { links: Array.from({ length: 101 }, (_, i) => ({ original_url: `https://example.com/${i}`, title: many })) });
  await page.goto(`${c.base}/console/links?search=${many}`);
  await page.getByRole("status").filter({ hasText: "100" }).waitFor();
  let fail;
  const failing = new Promise((done) => { fail = done; });
  await page.route("**/api/v1/urls?*", async (route) => {
    await failing;
    return route.abort("connectionreset");
  });
  await page.getByRole("searchbox", { name: "Search links" }).fill(word);
  await page.getByRole("checkbox", { name: "Select all loaded links", disabled: true }).waitFor();
  await page.getByRole("checkbox", { name: `Select ${many}`, disabled: true }).first().waitFor();
  fail();
  const again = page.getByRole("button", { name: "Try again" });
  await again.waitFor();
  c.assert.equal(await page.getByRole("table").count(), 0);
  await page.unroute("**/api/v1/urls?*");
  await again.click();
  await shows(page, 2);
}

/** A time of which a part is missing is not left out of a new link. A link with a time from which
 * it works, and with rules, is made by one request, and works at no time before. */
export async function aTimeThatIsHalfTypedCreatesNoLink(c) {
  const { page } = c;
  const target = `https://example.com/${c.unique()}`;
  await page.goto(`${c.base}/console/links?create`);
  const form = dialogOf(page, "Create a link");
  await form.getByLabel("Target URL").fill(target);
  // A draft of another workspace has a domain that this one has not.
  await page.evaluate(() => {
    const key = "waypost.draft.create";
    sessionStorage.setItem(key, JSON.stringify({ ...JSON.parse(sessionStorage.getItem(key)), domain: "other.example" }));
  });
  await page.reload();
  await form.getByLabel("Expires").focus();
  await page.keyboard.type("31122099");
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByLabel("Expires").and(page.locator(":focus")).waitFor();
  // Years are not longer than those of the API, which says so.
  c.assert.equal(await form.getByLabel("Expires").getAttribute("max"), "9999-12-31T23:59");
  await form.getByLabel("Expires").fill("12099-12-31T12:00");
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByRole("alert").filter({ hasText: /time/ }).waitFor();
  await form.getByLabel("Expires").fill("2099-12-31T12:00");
  await form.getByLabel("Works from").fill("2098-12-31T12:00");
  await form.getByText("More: notes").click();
  await form.getByRole("button", { name: "Rules" }).click();
  await c.focused(form.getByRole("button", { name: "Add a rule" }));
  await page.keyboard.press("Enter");
  await form.getByRole("textbox", { name: "Name" }).fill("later");
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByRole("group", { name: "Rules" }).getByRole("alert").waitFor(); // the rule has no target
  await form.getByLabel("Then").selectOption("answer 410: gone");
  await c.axe();
  await c.narrow();
  let changed = 0;
  page.on("request", (r) => { changed += r.method() === "PATCH"; });
  await form.getByRole("button", { name: "Create link" }).click();
  await dialogOf(page, "Your link is ready").getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  const { urls: [link, ...more] } = await c.api("GET", `/api/v1/urls?search=${encodeURIComponent(target)}`);
  c.assert.deepEqual([more, changed, link.expires_at, link.valid_from, link.rules.map((r) => r.name)], [[], 0, "2099-12-31T11:00:00Z", "2098-12-31T11:00:00Z", ["later"]]);
  c.assert.equal((await fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual" })).status, 404);
}

/** The bin has links that have not expired, but they may expire while it is shown. */
export async function theBinSaysWhyALinkIsNotRestored(c) {
  const { page } = c;
  const { word, links } = await newLinks(c, 2);
  const until = Date.now() + 5000;
  await c.api("PATCH", `/api/v1/urls/${links[0].short_code}`, { expires_at: new Date(until).toISOString() });
  for (const l of links) await c.api("DELETE", `/api/v1/urls/${l.short_code}`);
  await page.getByRole("link", { name: "Bin" }).click();
  await page.getByRole("checkbox", { name: `Select ${word} 1` }).check();
  await page.getByRole("checkbox", { name: `Select ${word} 2` }).check();
  await page.waitForFunction((at) => Date.now() > at, until);
  await page.getByRole("region", { name: "Change the selected links" }).getByRole("button", { name: "Restore" }).click();
  await page.getByText("1 link restored").waitFor();
  await page.getByRole("alert").getByText(`${word} 1: No longer available: the link has expired, and cannot be restored`).waitFor();
}

export async function linksThatCannotBeChangedAreNamedWithTheReason(c) {
  const { page } = c;
  const { word, links } = await newLinks(c, 2);
  await find(page, word, 2);
  await page.getByRole("checkbox", { name: "Select all loaded links" }).check();
  await c.api("DELETE", `/api/v1/urls/${links[0].short_code}`);
  await page.getByRole("button", { name: "Switch off" }).click();
  const report = page.getByRole("alert").filter({ hasText: "1 link was not changed" });
  await report.getByText(`${word} 1: Not found`).waitFor();
  await page.getByText("1 link switched off").waitFor();
  await c.axe();
  await c.narrow();
  await report.getByRole("button", { name: "Dismiss" }).click();
  await report.waitFor({ state: "detached" });
}

export async function aTakenCodeKeepsWhatWasTypedAndOffersAnother(c) {
  const { page } = c;
  const code = c.unique();
  await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/", custom_code: code });
  await page.goto(`${c.base}/console/links?create`);
  const form = dialogOf(page, "Create a link");
  await form.getByLabel("Target URL").fill("https://example.com/mine");
  await form.getByLabel("Custom code").fill(code);
  await form.getByLabel("Title").fill("Typed with care");
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByText("This code is taken.").waitFor();
  await form.getByLabel("Custom code").and(page.locator(":focus")).waitFor();
  await form.getByRole("button", { name: `Use ${code}-2` }).waitFor();
  await c.axe();
  await c.narrow();
  // Escape and even a reload keep the draft.
  await page.keyboard.press("Escape");
  await form.waitFor({ state: "detached" });
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Links" }).waitFor();
  await page.keyboard.press("c");
  c.assert.equal(await form.getByLabel("Target URL").inputValue(), "https://example.com/mine");
  c.assert.equal(await form.getByLabel("Title").inputValue(), "Typed with care");
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByRole("button", { name: `Use ${code}-2` }).click();
  await form.getByRole("button", { name: "Create link" }).click();
  await dialogOf(page, "Your link is ready").getByRole("link", { name: new RegExp(`${code}-2$`) }).waitFor();
}

export async function linksAreChosenAndOpenedByKeyboard(c) {
  const { page } = c;
  const { word, links } = await newLinks(c, 3);
  await find(page, word, 3);
  await page.keyboard.press("Tab"); // out of the search, so that keys are shortcuts
  const focused = (name) => page.getByRole("link", { name }).and(page.locator(":focus")).waitFor();
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("j");
  await focused(`${word} 3`);
  await page.keyboard.press("j");
  await focused(`${word} 2`);
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  c.assert.ok(await page.getByRole("checkbox", { name: `Select ${word} 2` }).isChecked());
  await page.keyboard.press("k");
  await focused(`${word} 3`);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Type a command/ }).fill("qr");
  await page.keyboard.press("Enter");
  await dialogOf(page, `${word} 3`).getByRole("img", { name: `QR code of ${links[2].short_url}` }).waitFor();
  await page.keyboard.press("Escape");
  await focused(`${word} 3`);
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname === `/console/links/${links[2].short_code}`);
}

export async function longTitlesAreRefusedInWordsAndAnyScriptIsShown(c) {
  const { page } = c;
  const word = c.unique();
  const title = `${word} שלום עולם مرحبا 🎉 <b>bold</b>`;
  await page.keyboard.press("c");
  const form = dialogOf(page, "Create a link");
  await form.getByLabel("Target URL").fill("https://example.com/");
  await form.getByLabel("Title").fill("x".repeat(10_000));
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByText("Too long: at most 512 bytes.").waitFor();
  c.assert.equal((await form.getByLabel("Title").inputValue()).length, 10_000);
  await c.axe();
  await c.narrow();
  await form.getByLabel("Title").fill(title);
  await form.getByRole("button", { name: "Create link" }).click();
  await dialogOf(page, "Your link is ready").getByRole("button", { name: "Done" }).click();
  await page.getByRole("link", { name: title }).waitFor();
  await c.axe();
  await c.narrow();
}

export async function newLinksOfOthersAreOfferedWithoutMovingRows(c) {
  const { page } = c;
  await newLinks(c, 1);
  await page.reload();
  await page.getByRole("row").nth(1).waitFor();
  const first = await page.getByRole("row").nth(1).textContent();
  const { word } = await newLinks(c, 1);
  const offer = page.getByRole("button", { name: /new links?: Show/ });
  await offer.waitFor();
  c.assert.equal((await page.getByRole("row").nth(1).textContent()).slice(0, 20), first.slice(0, 20));
  await offer.click();
  await rowOf(page, word).waitFor();
}

/** recordTasks records the tasks of the page until the returned function is called, which
 * returns the milliseconds of the longest. It counts time of the processor, because other
 * programs may use the machine, too. */
async function recordTasks(page) {
  const client = await page.context().newCDPSession(page);
  let longest = 0;
  client.on("Tracing.dataCollected", ({ value }) => {
    for (const e of value) if (e.name.endsWith("RunTask")) longest = Math.max(longest, (e.tdur ?? 0) / 1000);
  });
  await client.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  return async () => {
    const complete = new Promise((done) => client.once("Tracing.tracingComplete", done));
    await client.send("Tracing.end");
    await complete;
    await client.detach();
    return longest;
  };
}

export async function aHundredThousandLinksScroll(c) {
  const { page } = c;
  const all = 100_000;
  const size = 2500; // more than a page of the server, so that the flow takes seconds
  await page.route(/\/api\/v1\/urls\?/, (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const urls = Array.from({ length: size }, (_, i) => madeUp(from + i));
    return route.fulfill({ json: { urls, next_cursor: from + size < all ? String(from + size) : "" } });
  });
  await page.route(/\/api\/v1\/stats\/links/, (route) => route.fulfill({ json: { from: "2026-01-01T00:00:00Z", days: 14, links: [] } }));
  await page.reload();
  await rowOf(page, "Link 0").first().waitFor();
  const stop = await recordTasks(page);
  await page.evaluate(() => {
    const down = () => {
      scrollTo(0, document.documentElement.scrollHeight);
      requestAnimationFrame(down);
    };
    down();
  });
  await page.getByText("Link 99999", { exact: true }).waitFor({ timeout: 60_000 });
  await shows(page, "100,000");
  const longest = await stop();
  c.assert.ok(longest > 0 && longest <= 100, `a task took ${longest} ms`);
  c.assert.ok(await page.getByRole("row").count() < 80, "only rows in the window exist");
  c.assert.equal(await page.getByRole("table").getAttribute("aria-rowcount"), "100001");
  // Edges would hold back the deletion of so many.
  await page.getByRole("checkbox", { name: "Select all loaded links" }).check();
  await page.keyboard.press("#");
  await dialogOf(page, "Delete 100,000 links?").getByText(/Edges hold back a deletion of very many links/).waitFor();
  await page.keyboard.press("Escape");
  await page.unrouteAll({ behavior: "ignoreErrors" });
}
