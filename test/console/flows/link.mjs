// Flows of the screen of one link.

/** Each flow opens the page where it begins. */
export const opens = true;

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = [
  "sureness", "aLateAnswerUndoesNoChange", "whatIsNoLongerAvailableIsSaid",
  "anExpiredLinkIsShownAndGetsMoreTime",
];

const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1";
const desktop = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const bot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/** create makes a link that all edges have. */
function create(c, fields = {}) {
  return c.api("POST", "/api/v1/urls?wait=all", { original_url: `https://example.com/${c.unique()}`, ...fields });
}

/** expires makes a link that all edges have, and waits until it has expired. */
async function expires(c, fields) {
  const at = Date.now() + 1500;
  const link = await create(c, { ...fields, expires_at: new Date(at).toISOString() });
  await c.page.waitForFunction((time) => Date.now() > time, at);
  return link;
}

/** open shows the screen of a link. */
async function open(c, link, query = "") {
  await c.page.goto(`${c.base}/console/links/${link.short_code}${query}`);
  await c.page.getByRole("heading", { level: 1, name: link.title || link.short_code }).waitFor();
}

/** click follows a link on an edge, without going to its target. */
async function click(c, link, userAgent, referrer) {
  const answer = await c.page.request.get(new URL(link.short_code, c.edges[0]).href, {
    maxRedirects: 0, headers: { "user-agent": userAgent, ...(referrer ? { referer: referrer } : {}) },
  });
  c.assert.equal(answer.status(), 302);
}

/** saved presses a button and returns the name and the text of the file that it saves. */
async function saved(c, button) {
  const [file] = await Promise.all([c.page.waitForEvent("download"), button.click()]);
  const chunks = [];
  for await (const chunk of await file.createReadStream()) chunks.push(chunk);
  return { name: file.suggestedFilename(), text: Buffer.concat(chunks).toString() };
}

const toast = (c, text) => c.page.locator(".toast", { hasText: text });

export async function editWithUndo(c) {
  const title = c.unique();
  const link = await create(c, { title, tags: ["spring"] });
  await open(c, link);
  const { keyboard } = c.page;
  await c.tab(c.page.getByRole("button", { name: "Edit", exact: true }));
  await keyboard.press("Enter");
  const dialog = c.page.getByRole("dialog");
  await c.tab(dialog.getByRole("textbox", { name: "Title" }));
  await keyboard.press("End");
  await keyboard.type(" new");
  await c.tab(dialog.getByRole("button", { name: "Remove the tag spring" }));
  await keyboard.press("Enter");
  await dialog.getByLabel("Tags").and(c.page.locator(":focus")).waitFor();
  await keyboard.type("summer,");
  await c.tab(dialog.getByLabel("Expires"));
  await dialog.getByLabel("Expires").fill("2099-01-02T03:04");
  await dialog.getByLabel("Works from").fill("2020-01-02T03:04");
  await c.tab(dialog.getByLabel("Target after expiry"));
  await keyboard.type("https://example.com/over");
  await dialog.getByText("More: notes, limits, password, redirect").click();
  await dialog.getByLabel("Redirect", { exact: true }).selectOption("307");
  await dialog.getByLabel("Metadata").fill("{nothing");
  await c.axe();
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("This is not a JSON object").first().waitFor();
  await dialog.getByLabel("Metadata").fill('{"campaign": [9007199254740993]}');
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("Whole numbers beyond 2⁵³ lose digits").first().waitFor();
  // What was typed is found again, also at another address of the link.
  await open(c, link, `?edit&domain=${link.domain}`);
  await dialog.getByText("You typed this earlier").waitFor();
  await dialog.getByText("More: notes, limits, password, redirect").click();
  await dialog.getByLabel("Metadata").fill('{"campaign": 7}');
  await c.narrow();
  await c.tab(dialog.getByRole("button", { name: "Save" }));
  await keyboard.press("Enter");
  await toast(c, "On every edge").waitFor();
  await c.page.getByRole("heading", { level: 1, name: `${title} new` }).waitFor();
  const now = await c.api("GET", `/api/v1/urls/${link.short_code}`);
  c.assert.deepEqual([now.tags, now.redirect_status, now.metadata, now.expires_at?.slice(0, 4)], [["summer"], 307, { campaign: 7 }, "2099"]);
  c.assert.deepEqual([now.valid_from, now.expired_url], ["2020-01-02T02:04:00Z", "https://example.com/over"]);
  await toast(c, "Saved").getByRole("button", { name: "Undo" }).click();
  await toast(c, "Undone").waitFor();
  const then = await c.api("GET", `/api/v1/urls/${link.short_code}`);
  c.assert.deepEqual([then.title, then.tags, then.redirect_status, then.metadata, then.expires_at], [title, ["spring"], 302, null, null]);
  c.assert.deepEqual([then.valid_from, then.expired_url], [undefined, undefined]);
  await c.page.getByRole("button", { name: "Switch off" }).click();
  await c.page.getByRole("button", { name: "Switch on" }).waitFor();
  c.assert.equal((await c.api("GET", `/api/v1/urls/${link.short_code}`)).active, false);
}

export async function conflict(c) {
  const title = c.unique();
  const link = await create(c, { title });
  await open(c, link, "?edit");
  const dialog = c.page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Title" }).fill(`${title} mine`);
  await c.api("PATCH", `/api/v1/urls/${link.short_code}`, { title: `${title} theirs`, description: "their description" });
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("Someone changed this link while you were typing").waitFor();
  const versions = dialog.getByRole("table", { name: "Both versions" });
  await versions.getByRole("row", { name: `Title ${title} theirs ${title} mine` }).waitFor();
  await c.axe();
  await c.narrow();
  c.assert.equal(await dialog.getByRole("textbox", { name: "Title" }).inputValue(), `${title} mine`, "what was typed is lost");
  c.assert.equal(await dialog.getByLabel("Description").inputValue(), "their description");
  c.assert.equal((await c.api("GET", `/api/v1/urls/${link.short_code}`)).title, `${title} theirs`, "saved without a question");
  await dialog.getByRole("button", { name: "Save what the form shows" }).click();
  await toast(c, "Saved").waitFor();
  const now = await c.api("GET", `/api/v1/urls/${link.short_code}`);
  c.assert.deepEqual([now.title, now.description], [`${title} mine`, "their description"]);

  // What the form does not have is nobody's conflict.
  await c.page.getByRole("button", { name: "Edit", exact: true }).click();
  await dialog.getByRole("textbox", { name: "Title" }).fill(title);
  await c.api("PATCH", `/api/v1/urls/${link.short_code}`, { rules: [{ name: "theirs", status: 410 }] });
  await dialog.getByRole("button", { name: "Save" }).click();
  await c.page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
  c.assert.equal((await c.api("GET", `/api/v1/urls/${link.short_code}`)).rules.length, 1);
}

/** A limit of clicks and a password are given with the link or later, kept by the edges, and taken away. */
export async function limitsAndPassword(c) {
  const { page } = c;
  const title = c.unique();
  await page.goto(`${c.base}/console/links?create`);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Target URL").fill(`https://example.com/${title}`);
  await dialog.getByLabel("Title").fill(title);
  await dialog.getByText("More: notes").click();
  await dialog.getByLabel("Maximum clicks").fill("1");
  await dialog.getByLabel("How strictly").selectOption("exact");
  await dialog.getByLabel("Target after the last click").fill("http://localhost/");
  await c.axe();
  await c.narrow();
  await dialog.getByRole("button", { name: "Create link" }).click();
  await dialog.getByLabel("Target after the last click").and(page.locator("[aria-invalid]:focus")).waitFor();
  await dialog.getByLabel("Target after the last click").fill("https://example.com/over");
  await dialog.getByRole("button", { name: "Create link" }).click();
  await dialog.getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  const [link] = (await c.api("GET", `/api/v1/urls?search=${title}`)).urls;
  c.assert.deepEqual([link.max_clicks, link.max_clicks_mode, link.exhausted_url, link.confirm, link.has_password], [1, "exact", "https://example.com/over", true, undefined]);
  const address = new URL(link.short_code, c.edges[0]);
  const visitor = await page.context().newPage();
  const asks = await visitor.goto(address.href);
  c.assert.equal(asks.status(), 200);
  await visitor.getByRole("button", { name: "Open the link" }).waitFor();
  await visitor.close();
  const again = async () => {
    const posted = await fetch(address, {
      method: "POST", redirect: "manual", headers: { "User-Agent": desktop, Origin: address.origin }, body: new URLSearchParams({ confirm: "1" }),
    });
    const to = posted.headers.get("Location");
    return to?.startsWith("/") ? fetch(new URL(to, address), { redirect: "manual" }) : posted; // once the edge knows that no click is left
  };
  let next = await again();
  c.assert.deepEqual([next.status, next.headers.get("Location")], [303, `https://example.com/${title}`]);
  next = await again();
  for (const end = Date.now() + 10_000; next.status === 503 && Date.now() < end;) next = await again(); // until the click is known to be spent
  c.assert.equal(next.headers.get("Location"), "https://example.com/over");

  const change = async (fill) => {
    await open(c, link, "?edit");
    await dialog.getByText("More: notes").click();
    await fill();
    await dialog.getByRole("button", { name: "Save" }).click();
    await toast(c, "On every edge").waitFor();
    return c.api("GET", `/api/v1/urls/${link.short_code}`);
  };
  const asked = await change(async () => {
    await dialog.getByLabel("Maximum clicks").fill("");
    await dialog.getByLabel("Password").fill("open sesame");
    await c.axe();
    await c.narrow();
  });
  c.assert.deepEqual([asked.max_clicks, asked.max_clicks_mode, asked.exhausted_url, asked.confirm, asked.has_password], [undefined, undefined, undefined, undefined, true]);
  // A former password is not known, so undoing leaves the present one.
  await toast(c, "Saved").getByRole("button", { name: "Undo" }).click();
  await toast(c, "Undone").waitFor();
  const undone = await c.api("GET", `/api/v1/urls/${link.short_code}`);
  c.assert.deepEqual([undone.max_clicks, undone.max_clicks_mode, undone.has_password], [1, "exact", true]);
  const free = await change(async () => {
    await dialog.getByText("Empty: the password stays.").waitFor();
    await dialog.getByLabel("Stop asking for a password").check();
  });
  c.assert.deepEqual([free.max_clicks, free.has_password], [1, undefined]);
}

export async function failuresLoseNothing(c) {
  await c.page.route("**/api/v1/live", (route) => route.abort()); // news would load again before the button does
  const title = c.unique();
  const link = await create(c, { title });
  await open(c, link, "?edit");
  const dialog = c.page.getByRole("dialog");
  const field = dialog.getByRole("textbox", { name: "Title" });
  await field.fill(`${title} typed`);
  let answer = (route) => route.abort();
  const change = (url) => url.pathname.endsWith(link.short_code);
  await c.page.route(change, (route) => (route.request().method() === "PATCH" ? answer(route) : route.fallback()));
  const fails = async (next, words) => {
    answer = next;
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText(words).waitFor();
    c.assert.equal(await field.inputValue(), `${title} typed`);
  };
  const problem = (status, type, headers = {}) => (route) => route.fulfill({ status, headers, contentType: "application/problem+json", body: JSON.stringify({ type: `urn:waypost:problem:${type}`, title: "", status, detail: "of the test" }) });
  await fails((route) => route.abort(), "The server cannot be reached");
  await fails(problem(429, "too-many-requests", { "Retry-After": "120" }), "Too many requests. Try again in 2 min");
  await fails(problem(403, "forbidden"), "You may not do this: of the test");
  await fails(problem(500, "internal"), "Something went wrong on the server");
  await c.axe();
  await c.page.unroute(change);
  await dialog.getByRole("button", { name: "Save" }).click();
  await c.page.getByRole("heading", { level: 1, name: `${title} typed` }).waitFor();

  c.assert.match(await c.page.title(), /typed · Waypost$/);
  await c.page.route(/\/stats\?/, (route) => problem(503, "unavailable")(route));
  await c.page.getByRole("button", { name: "90 days" }).click();
  await c.page.getByText(/The service cannot do this at the moment: of the test.* this is as of/).waitFor();
  await c.page.unroute(/\/stats\?/);
  await c.page.getByRole("button", { name: "Try again" }).click();
  await c.page.getByText("90 days before").first().waitFor();
}

/** An answer that was asked for before a change does not bring the former state back. */
export async function aLateAnswerUndoesNoChange(c) {
  const { page } = c;
  const title = c.unique();
  const link = await create(c, { title });
  await open(c, link, "?edit");
  let answer;
  const answered = new Promise((done) => { answer = done; });
  await page.route((url) => url.pathname === `/api/v1/urls/${link.short_code}`, async (route) => {
    if (route.request().method() !== "GET") return route.fallback();
    const response = await route.fetch();
    await answered;
    return route.fulfill({ response }).catch(() => undefined); // the page does not want it any more
  });
  const asked = page.waitForRequest((r) => r.method() === "GET" && new URL(r.url()).pathname.endsWith(link.short_code));
  await click(c, link, desktop);
  await asked;
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Title" }).fill(`${title} new`);
  await dialog.getByRole("button", { name: "Save" }).click();
  const heading = page.getByRole("heading", { level: 1 });
  await heading.and(page.getByText(`${title} new`, { exact: true })).waitFor();
  await heading.evaluate((h) => {
    globalThis.seen = new Set();
    new MutationObserver(() => globalThis.seen.add(document.querySelector("h1").textContent)).observe(h, { characterData: true, childList: true, subtree: true });
  });
  answer();
  await page.getByRole("region", { name: "History" }).getByRole("listitem").nth(1).waitFor();
  await click(c, link, desktop);
  await page.locator(".figure", { hasText: /^All-time clicks/ }).locator("dd").getByText("2", { exact: true }).waitFor();
  c.assert.deepEqual(await page.evaluate(() => [...globalThis.seen]), []);
}

export async function statistics(c) {
  const link = await create(c, { title: c.unique() });
  await open(c, link, "?span=7d");
  await c.page.getByText("This link has no clicks yet").waitFor();
  await c.axe();
  // The clicks arrive without a reload, also when answers are slower than news.
  const figure = (name) => c.page.locator(".figure", { hasText: new RegExp(`^${name}`) }).locator("dd");
  await c.amid(await create(c), /\/stats\?/, async () => {
    await click(c, link, phone, "https://news.example.org/story");
    await click(c, link, phone, "https://news.example.org/story");
    await click(c, link, desktop);
    await click(c, link, bot);
    await figure("All-time clicks").getByText("4", { exact: true }).waitFor();
  });
  c.assert.equal(await figure("Of these, by bots").textContent(), "1");
  c.assert.equal(await figure("Visitors").textContent(), "2");
  await c.page.getByRole("region", { name: "Countries" }).getByText(/^No country is known/).waitFor();
  c.assert.equal(await c.page.getByRole("region", { name: "utm_source" }).count(), 0);

  const chart = c.page.getByRole("application", { name: /^Clicks over time/ });
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await c.page.keyboard.press("End");
  await c.page.getByText(/: Clicks 4, Bots 1, 7 days before 0 \(may still grow\)$/).waitFor();
  await c.page.keyboard.press("ArrowLeft");
  await c.page.getByText(/: Clicks 0, Bots 0, 7 days before 0$/).waitFor();

  const file = await saved(c, c.page.getByRole("button", { name: "Download CSV: Clicks over time" }));
  const lines = file.text.trim().split("\r\n");
  c.assert.equal(lines[0], "t,Clicks,Bots,7 days before");
  c.assert.equal(lines.length, 8);
  c.assert.match(lines[7], /^\d{4}-\d\d-\d\dT00:00:00\+0[12]:00,4,1,0$/, "the day of the browser's zone");

  await c.page.getByRole("button", { name: "Show as a table" }).click();
  const table = c.page.getByRole("table", { name: "Clicks over time" });
  c.assert.equal(await table.getByRole("row").count(), 8);
  c.assert.match(await table.getByRole("row").last().textContent(), /may still grow410$/);

  const devices = c.page.getByRole("region", { name: "Devices" });
  await devices.getByRole("button", { name: /^Phone 2/ }).click();
  await devices.getByRole("status").getByText("2 clicks", { exact: true }).waitFor();
  await devices.getByRole("application", { name: /Devices: Phone by day/ }).locator("canvas").waitFor();
  c.assert.match(c.page.url(), /by=devices&name=mobile/);
  await c.axe();
  await c.narrow();
  await devices.getByRole("button", { name: "Close the days" }).click();
  const name = devices.getByRole("button", { name: /^Phone 2/ });
  c.assert.ok(await name.evaluate((button) => button === document.activeElement), "the focus is lost");
  await name.press("Enter");
  const own = await saved(c, devices.getByRole("button", { name: "Download CSV: Devices: Phone by day" }));
  c.assert.match(own.text, /^t,Phone\r\n/);
  c.assert.match(own.text, /T00:00:00Z,2\r\n/);
  await c.page.getByRole("region", { name: "Referrers" }).getByRole("button", { name: /^news\.example\.org 2/ }).waitFor();
  await c.page.getByRole("button", { name: "24 hours" }).click();
  await c.page.getByText("There were no clicks in the 24 hours before").waitFor();
  c.assert.match(c.page.url(), /span=24h/);
  c.assert.equal(await table.getByRole("row").count(), 25);
}

/** sureness shows answers that a small system does not have: countries, an edge that is
 * behind, and names that were too many to keep. */
export async function sureness(c) {
  const link = await create(c, { title: c.unique() });
  await click(c, link, phone);
  const day = 86_400_000;
  const today = Math.floor(Date.now() / day) * day;
  const at = (days) => new Date(today + days * day).toISOString();
  await c.page.route(/\/stats\?/, async (route) => {
    const query = new URL(route.request().url()).searchParams;
    const stats = await (await route.fetch()).json();
    stats.series = [-3, -2, -1, 0].map((d) => ({ t: at(d), clicks: 15, bot_clicks: 0 }));
    stats.annotations = [{ t: at(-0.7), changes: ["target", "state"], by: { kind: "user", id: 7, name: "Ada" } }];
    if (query.has("compare")) {
      stats.compared.series = [-7, -6, -5, -4].map((d) => ({ t: at(d), clicks: 10, bot_clicks: 0 }));
      stats.compared.change = { steps: 2, clicks: 30, before: 20, share: 0.5 };
    }
    Object.assign(stats, { total_clicks: 60, to: at(1), complete_until: at(-0.5), behind: ["eu-1"] });
    stats.countries = [{ name: "DE", clicks: 40 }, { name: "FR", clicks: 15 }, { name: "unknown", clicks: 3 }, { name: "other", clicks: 2 }];
    stats.utm_source = [{ name: "mail", clicks: 50 }, { name: "none", clicks: 10 }];
    stats.referrers = [{ name: "=HYPERLINK(\"http://x\")", clicks: 60 }];
    if (query.get("by")) {
      stats.named = { by: query.get("by"), name: query.get("name"), clicks: 40, at_least: true, series: [-1, 0].map((d) => ({ t: at(d), clicks: 20, at_least: d === 0 })) };
    }
    await route.fulfill({ json: stats });
  });
  await open(c, link);
  await c.page.getByText("50% more than in the 30 days before (20).").waitFor();
  await c.page.getByText(/may still grow: eu-1 may bring clicks from/).waitFor();
  const chart = c.page.locator("figure.chart").first();
  const picture = await saved(c, chart.getByRole("button", { name: "Download PNG: Clicks over time" }));
  c.assert.match(picture.name, /\.png$/);
  c.assert.match(picture.text, /PNG/);
  await chart.getByRole("button", { name: "Table" }).click();
  await chart.getByRole("row", { name: /Target, Switched on or off \(Ada\)/ }).waitFor();
  await c.page.getByLabel("Compare with").selectOption("year");
  await c.page.getByText("50% more than in the same time a year ago (20).").waitFor();
  await c.page.getByLabel("Step").selectOption("week");
  await c.page.waitForURL(/interval=week/);
  await chart.getByLabel("semicolons (Excel)").check();
  const forExcel = await saved(c, chart.getByRole("button", { name: "Download CSV: Clicks over time" }));
  c.assert.match(forExcel.text, /^\ufefft;Clicks;Bots;same time a year ago;Changes\r\n/);
  await chart.getByLabel("semicolons (Excel)").uncheck();
  const countries = c.page.getByRole("region", { name: "Countries", exact: true });
  await countries.getByRole("button", { name: "Map" }).click();
  await countries.getByRole("img", { name: /^Map of the world/ }).locator("path").first().waitFor();
  await countries.getByRole("table", { name: "Countries" }).getByRole("row", { name: "Germany 40 67%" }).waitFor();
  c.assert.equal(await countries.getByRole("button", { name: "others" }).count(), 0, "others can be chosen");
  await countries.getByRole("button", { name: "Germany" }).click();
  await countries.getByText(/^At least 40 clicks\. On some days/).waitFor();
  await c.axe();
  await c.narrow();
  const sources = c.page.getByRole("region", { name: "utm_source" });
  await sources.getByRole("button", { name: /^none 10/ }).waitFor();
  await sources.getByRole("button", { name: /^mail 50/ }).click();
  await sources.getByText(/^At least 40 clicks/).waitFor();
  const file = await saved(c, c.page.getByRole("button", { name: "Download CSV: Referrers" }));
  c.assert.equal(file.text, 'name,clicks\r\n"\'=HYPERLINK(""http://x"")",60\r\n');
}

export async function historyBringsBack(c) {
  const title = c.unique();
  const link = await create(c, { title });
  await c.api("PATCH", `/api/v1/urls/${link.short_code}`, { title: `${title} second`, tags: ["two"], password: "open sesame" });
  await c.api("PATCH", `/api/v1/urls/${link.short_code}`, { title: `${title} third` });
  await open(c, { ...link, title: `${title} third` });
  const history = c.page.getByRole("region", { name: "History" });
  const entries = history.getByRole("listitem");
  await entries.nth(2).waitFor();
  c.assert.match(await entries.nth(0).textContent(), /^Changed by .*second.*→.*third/);
  c.assert.equal(await entries.nth(0).getByRole("button").count(), 0, "the present state can be brought back");
  await c.axe();
  await c.narrow();
  await entries.nth(2).getByRole("button", { name: "Bring this state back" }).click();
  await toast(c, "The former state is back").waitFor();
  await c.page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
  await entries.nth(3).waitFor();
  const now = await c.api("GET", `/api/v1/urls/${link.short_code}`);
  c.assert.deepEqual([now.title, now.tags], [title, []]);
}

export async function deleteAndUndo(c) {
  const link = await create(c, { title: c.unique() });
  await open(c, link);
  await c.page.getByRole("button", { name: "Delete" }).click();
  await c.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  const gone = c.page.getByRole("heading", { level: 1, name: `The link ${link.short_code} was deleted` });
  await gone.waitFor();
  await c.axe();
  await c.narrow();
  await toast(c, "The link is deleted").getByRole("button", { name: "Undo" }).click();
  await c.page.getByRole("heading", { level: 1, name: link.title }).waitFor();
  await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
  await c.page.reload();
  await gone.waitFor();
  await c.page.getByRole("button", { name: "Restore the link" }).click();
  await c.page.getByRole("heading", { level: 1, name: link.title }).waitFor();
  const missing = c.unique().slice(0, 20);
  await c.page.goto(`${c.base}/console/links/${missing}`);
  await c.page.getByRole("heading", { level: 1, name: `There is no link ${missing}` }).waitFor();
  await c.axe();
}

/** A link that has expired shows its state, its statistics and its history, and gets more time. */
export async function anExpiredLinkIsShownAndGetsMoreTime(c) {
  const title = c.unique();
  const link = await expires(c, { title });
  await open(c, link);
  await c.page.getByText(/^Expired .*ago$/).waitFor();
  await c.page.getByRole("region", { name: "Statistics" }).getByText("This link has no clicks yet").waitFor();
  await c.page.getByRole("region", { name: "History" }).getByRole("listitem").first().waitFor();
  c.assert.equal(await c.page.getByRole("button", { name: "QR code" }).count(), 0, "the API draws none");
  await c.axe();
  await c.narrow();
  await c.page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = c.page.getByRole("dialog");
  await dialog.getByLabel("Expires").fill("2099-01-02T03:04");
  await dialog.getByRole("button", { name: "Save" }).click();
  await toast(c, "On every edge").waitFor();
  await c.page.getByText("On", { exact: true }).waitFor();
  await click(c, link, desktop);
  // Several links are changed by way of their present tags, also when one has expired.
  const tag = c.unique();
  const other = await expires(c, { title: `${title} other` });
  await c.page.goto(`${c.base}/console/links?search=${title}`);
  await c.page.getByRole("checkbox", { name: `Select ${other.title}` }).check();
  await c.page.getByRole("button", { name: "Add tag" }).click();
  await dialog.getByLabel("Tag").fill(tag);
  await dialog.getByRole("button", { name: "Add tag" }).click();
  await c.page.getByText("1 link tagged").waitFor();
}

/** A link whose time is over cannot be restored, and what the API says of it is said. */
export async function whatIsNoLongerAvailableIsSaid(c) {
  const link = await expires(c, { title: c.unique() });
  await open(c, link);
  await c.page.getByRole("button", { name: "Delete" }).click();
  await c.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await c.page.getByRole("heading", { level: 1, name: `The link ${link.short_code} was deleted` }).waitFor();
  await toast(c, "The link is deleted").waitFor();
  c.assert.equal(await c.page.getByRole("button", { name: "Undo" }).count(), 0);
  const restore = c.page.getByRole("button", { name: "Restore the link" });
  await restore.click();
  await c.page.getByRole("alert").getByText("No longer available: the link has expired, and cannot be restored", { exact: true }).waitFor();
  await restore.waitFor({ state: "detached" });
  await c.page.getByRole("heading", { level: 1 }).and(c.page.locator(":focus")).waitFor();
  await c.axe();
  await c.page.route(/\/api\/v1\/urls\/gone1\?/, (route) => route.fulfill({
    status: 410, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:waypost:problem:gone", title: "", status: 410, detail: "the link has expired" }),
  }));
  await c.page.goto(`${c.base}/console/links/gone1`);
  await c.page.getByRole("heading", { level: 1, name: "The link gone1 is no longer available" }).waitFor();
  await c.page.getByText("No longer available: the link has expired", { exact: true }).waitFor();
  c.assert.equal(await restore.count(), 0);
  await c.axe();
}

export async function markupIsText(c) {
  const attack = `<img src=x onerror="document.body.dataset.broken=1"> ${c.unique()}`;
  const link = await create(c, { title: attack, description: attack, tags: ["<b>tag"] });
  await click(c, link, `${desktop} <script>`, "https://news.example.org/<img src=x onerror=alert(1)>");
  await open(c, link);
  await c.page.getByRole("region", { name: "Referrers" }).getByRole("button", { name: /^news\.example\.org/ }).waitFor();
  c.assert.equal(await c.page.locator('main img, [data-broken], main b').count(), 0);
  await c.page.getByRole("button", { name: "QR code" }).click();
  const code = c.page.getByRole("img", { name: `QR code of ${link.short_url}` });
  await code.waitFor();
  c.assert.ok(await code.evaluate((img) => img.decode().then(() => img.naturalWidth > 0)));
  await c.axe();
  const picture = await saved(c, c.page.getByRole("button", { name: "Download SVG" }));
  c.assert.match(picture.text, /<svg/);
}

/** An alias for scans is made where the QR code is drawn, which then carries it. Its clicks are counted apart, and
 * another alias is added and removed. */
export async function aliasesAndScans(c) {
  const { page } = c;
  const link = await create(c);
  await open(c, link);
  await page.getByRole("button", { name: "QR code" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Make an alias for scans" }).click();
  c.assert.equal(await dialog.getByLabel("Code of the alias").inputValue(), `${link.short_code}-qr`);
  await dialog.getByLabel("What it is for").fill("box");
  await dialog.getByLabel("Printed on").fill("2026-03-31");
  await dialog.getByLabel("Batch").fill("B 7");
  await dialog.getByRole("button", { name: "Add an alias" }).click();
  await toast(c, "The alias leads to the link. On every edge").waitFor();
  const scanned = `${link.short_url}-qr`;
  const code = dialog.getByRole("img", { name: `QR code of ${scanned}`, exact: true });
  await code.waitFor();
  c.assert.ok(await code.evaluate((img) => img.decode().then(() => img.naturalWidth > 0)));
  await c.axe();
  c.assert.equal((await saved(c, dialog.getByRole("button", { name: "Download SVG" }))).name, `${link.short_code}-qr.svg`);
  await dialog.getByLabel("Address in the QR code").selectOption({ value: link.short_url });
  await dialog.getByRole("img", { name: `QR code of ${link.short_url}`, exact: true }).waitFor();
  await page.keyboard.press("Escape");

  const card = page.getByRole("region", { name: "Aliases" });
  await click(c, link, desktop);
  await click(c, { short_code: `${link.short_code}-qr` }, phone);
  await click(c, { short_code: `${link.short_code}-qr` }, desktop);
  await card.getByRole("row", { name: scanned }).getByRole("cell", { name: "2", exact: true }).waitFor();
  await card.getByRole("row", { name: "the link’s own" }).getByRole("cell", { name: "1", exact: true }).waitFor();
  await card.getByRole("row", { name: scanned }).getByText("box, printed on 31 Mar 2026, batch B 7").waitFor();
  await page.getByRole("region", { name: "Addresses" }).getByRole("button", { name: `${link.domain}/${link.short_code}-qr, printed on 31 Mar 2026, batch B 7` }).waitFor();

  await card.getByRole("button", { name: "Add an alias" }).click();
  await dialog.getByLabel("Code of the alias").fill("x");
  await dialog.getByRole("button", { name: "Add an alias" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Code of the alias").fill(`${link.short_code}-2`);
  await c.axe();
  await dialog.getByRole("button", { name: "Add an alias" }).click();
  const second = card.getByRole("button", { name: `Remove ${link.short_url}-2` });
  await second.waitFor();
  await c.narrow();
  await second.click();
  await dialog.getByText("stays retired").waitFor();
  await dialog.getByRole("button", { name: "Remove", exact: true }).click();
  await toast(c, "The alias is removed.").waitFor();
  c.assert.deepEqual((await c.api("GET", `/api/v1/urls/${link.short_code}`)).aliases.map((a) => [a.short_code, a.title, a.printed_on, a.batch]), [[`${link.short_code}-qr`, "box", "2026-03-31", "B 7"]]);
}

/** An address is tried while a pattern and its target are typed, and the saved pattern has no QR code. */
export async function aPatternIsTriedWhileItIsTyped(c) {
  const { page } = c;
  const host = `${c.unique()}.example.org`;
  const domain = await c.api("POST", "/api/v1/domains", { host });
  await page.goto(`${c.base}/console/links?create=1&code=${encodeURIComponent("jira/{ticket}")}&of=${host}`);
  const dialog = page.getByRole("dialog");
  const answer = dialog.getByRole("status");
  await dialog.getByLabel("Target URL").fill("https://example.com/browse/{ticket}?from={query.from}");
  await dialog.getByLabel("Try an address").fill("jira/A-1?from=mail");
  await answer.filter({ hasText: "jira/{ticket} {ticket} = A-1 → https://example.com/browse/A-1?from=mail" }).waitFor();
  await dialog.getByLabel("Custom code").fill("jira/*");
  await answer.filter({ hasText: "ticket" }).waitFor(); // the target has a name that the pattern lacks
  await dialog.getByLabel("Target URL").fill("https://example.com/browse/{path}");
  await answer.filter({ hasText: "jira/* {path} = A-1 → https://example.com/browse/A-1" }).waitFor();
  await dialog.getByLabel("Try an address").fill("docs/A-1");
  await answer.filter({ hasText: "It leads nowhere." }).waitFor();
  await c.axe();
  await c.narrow();
  await dialog.getByRole("button", { name: "Create link" }).click();
  await dialog.getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  c.assert.equal(await dialog.getByRole("img").count(), 0, "the API draws none");
  await dialog.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { level: 1, name: "jira/*" }).waitFor();
  c.assert.deepEqual([await page.getByRole("button", { name: "QR code" }).count(), await page.getByRole("region", { name: "Aliases" }).count()], [0, 0]);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await dialog.getByLabel("Target URL").fill("https://example.com/b/{path}");
  await dialog.getByLabel("Try an address").fill("jira/x/y");
  await answer.filter({ hasText: "{path} = x/y → https://example.com/b/x/y" }).waitFor();
  await c.axe();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await c.api("DELETE", `/api/v1/urls/${encodeURIComponent("jira/*")}?domain=${host}`);
  await c.api("DELETE", `/api/v1/domains/${domain.id}`);
}
