// The overview of the workspace.

/** Each flow opens the page where it begins. */
export const opens = true;

const today = (page) => page.locator("dl.figures dd").first().textContent().then((t) => Number(t.replace(/\D/g, "")));

/** A click that was made a moment ago shows, without a reload of the page, also when
 * answers are slower than news. */
export async function showsAClick(c) {
  const title = `Overview ${c.unique()}`;
  const tag = c.unique().padEnd(64, "x");
  const link = await c.api("POST", "/api/v1/urls?wait=all&wait_timeout=10", { original_url: "https://example.com/overview", title, tags: [tag], expires_in_hours: 48 });
  await c.page.goto(`${c.base}/console/overview`);
  await c.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await c.page.waitForFunction(() => document.title === "Overview · Waypost");
  await c.page.getByText("Clicks today").waitFor();
  const before = await today(c.page);
  const click = await fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual", headers: { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" } });
  c.assert.equal(click.status, 302);
  await c.amid(link, "**/api/v1/stats?*", () => c.page.waitForFunction((n) => Number(document.querySelector("dl.figures dd").textContent.replace(/\D/g, "")) > n, before, { timeout: 20_000 }));
  await c.page.getByRole("region", { name: "Newest links" }).getByRole("link", { name: title }).waitFor();
  await c.page.getByRole("region", { name: "Expiring within a week" }).getByRole("listitem").filter({ hasText: title }).getByText("in 1 day", { exact: true }).waitFor(); // 47 hours
  c.assert.equal(await c.page.getByRole("link", { name: `${tag}, 1 link` }).getAttribute("href"), `/console/links?tag=${tag}`);
  const all = c.page.getByRole("link", { name: /^(The only link|All [\d,]+ links|10,000 links or more): Newest links$/ });
  await all.waitFor();
  await c.narrow();
  await c.page.getByText(/Every click before .* is counted/).waitFor();
  await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
}

/** The chart has a table, and the screen is accessible with both. Campaigns are shown where they are counted. */
export async function chartHasATable(c) {
  await c.page.route("**/api/v1/stats?*", async (route) => {
    const stats = await (await route.fetch()).json();
    stats.utm_campaign = [{ name: "spring", clicks: 3 }, { name: "none", clicks: 1 }];
    await route.fulfill({ json: stats });
  });
  await c.page.goto(`${c.base}/console/overview`);
  await c.page.getByRole("application", { name: /^Clicks over time/ }).locator("canvas").waitFor();
  await c.page.getByRole("region", { name: "utm_campaign" }).getByText("spring", { exact: true }).waitFor();
  c.assert.equal(await c.page.getByRole("region", { name: "utm_source" }).count(), 0);
  await c.axe();
  await c.narrow();
  await c.page.getByRole("button", { name: "Show as a table" }).click();
  const rows = c.page.getByRole("table", { name: "Clicks over time" }).getByRole("row");
  await rows.first().waitFor();
  c.assert.equal(await rows.count(), 31);
  await c.axe();
  await c.narrow();
}

/** What five people asked for in vain is listed, and one click fills in the form of a link. */
export async function makesALinkOfAnUnknownAddress(c) {
  const code = `${c.unique()}-old`;
  for (let n = 1; n <= 5; n++) {
    const headers = { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "X-Forwarded-For": `203.0.113.${n}` };
    c.assert.equal((await fetch(`${c.edges[0]}/${code}?secret`, { headers })).status, 404);
  }
  for (const end = Date.now() + 60_000; ; await new Promise((done) => setTimeout(done, 500))) {
    const { addresses } = await c.api("GET", "/api/v1/stats/unknown?limit=1000");
    if (addresses.some((a) => a.path === code && a.people === 5)) break;
    c.assert.ok(Date.now() < end, "it is listed");
  }
  await c.page.goto(`${c.base}/console/overview`);
  await c.page.getByRole("link", { name: "Unknown addresses" }).click();
  const row = c.page.getByRole("table", { name: "Unknown addresses" }).getByRole("row").filter({ hasText: `/${code}` });
  await row.waitFor();
  await c.page.waitForFunction(() => document.title === "Unknown addresses · Waypost");
  await c.axe();
  await c.narrow();
  await c.page.getByLabel("Time").selectOption("Today");
  await row.getByRole("cell", { name: "5", exact: true }).waitFor();
  await row.getByRole("link", { name: `Make a link of /${code}` }).click();
  const form = c.page.getByRole("dialog", { name: "Create a link" });
  await form.getByLabel("Target URL").fill("https://example.com/");
  c.assert.equal(await form.getByLabel("Custom code").inputValue(), code);
  c.assert.equal(new URL(c.page.url()).searchParams.has("code"), false);
  await form.getByRole("button", { name: "Create link" }).click();
  await c.page.getByRole("dialog", { name: "Your link is ready" }).getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  c.assert.equal((await fetch(`${c.edges[1]}/${code}`, { redirect: "manual" })).status, 302);
  const { addresses } = await c.api("GET", "/api/v1/stats/unknown?limit=1000");
  c.assert.ok(!addresses.some((a) => a.path === code), "a link is not listed");
  await c.api("DELETE", `/api/v1/urls/${code}`);
}

/** figure returns a number of the overview by its name. */
const figure = (c, name) => c.page.locator("dl.figures .figure").filter({ has: c.page.getByText(name, { exact: true }) }).locator("dd").first();

/** has waits until a number of the overview is this one. */
const has = (c, name, n) => figure(c, name).filter({ hasText: new RegExp(`^${n}$`) }).waitFor();

/** The numbers are those of the links with some tags, a domain and a creator, in a time, all of which the address has. */
export async function filtersByGroup(c) {
  const { page } = c;
  const [tag, other] = [c.unique(), c.unique()];
  const links = [];
  for (const tags of [[tag], [tag, other], [other]]) links.push(await c.api("POST", "/api/v1/urls?wait=all&wait_timeout=10", { original_url: "https://example.com/group", tags }));
  for (const [i, link] of links.entries()) for (let n = 0; n <= i; n++) await fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual" });
  await page.goto(`${c.base}/console/overview`);
  const tags = page.getByLabel("Links with all of these tags");
  await c.tab(tags);
  await page.keyboard.type(`${tag},`);
  await has(c, "Links", 2);
  await has(c, "Clicks in this time", 3);
  await page.keyboard.type(`${other},`);
  await has(c, "Links", 1);
  await has(c, "Clicks in this time", 2);
  // A name in the tables filters, and no longer does at the second click. The tables are of all links.
  const table = page.getByRole("table", { name: "Tags, domains and creators: Tags" });
  await page.getByLabel("Search names").fill(other.toUpperCase());
  const row = table.getByRole("row").filter({ hasText: other });
  await row.getByRole("cell", { name: "5", exact: true }).first().waitFor();
  await table.getByRole("row").filter({ hasText: tag }).filter({ hasNotText: other }).waitFor({ state: "detached" });
  c.assert.equal(await row.getByRole("button").getAttribute("aria-pressed"), "true");
  await row.getByRole("button").click();
  await has(c, "Links", 2);
  await row.getByRole("button").click();
  await has(c, "Links", 1);
  await page.getByLabel("Compare", { exact: true }).selectOption("Domains");
  await page.getByText("No link has such a name.").waitFor();
  await page.getByLabel("Search names").fill("");
  await page.getByRole("table", { name: "Tags, domains and creators: Domains" }).getByRole("button", { name: links[0].domain }).click();
  await page.getByRole("button", { name: "7 days" }).click();
  await page.getByLabel("Compare with").selectOption("same time a year ago");
  await page.getByText("There were no clicks in the same time a year ago.").waitFor();
  await c.axe();
  await c.narrow();
  const address = new URL(page.url()).searchParams;
  c.assert.deepEqual([address.get("tag"), address.get("domain"), address.get("span"), address.get("compare")], [`${tag},${other}`, links[0].domain, "7d", "year"]);
  // The filters have a name, under which they are found again.
  const view = c.unique();
  await page.getByText("Saved views").click();
  await page.getByLabel("Save these filters as").fill(view);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: `Rename: ${view}` }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(`${view} new`);
  await c.axe();
  await dialog.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("link", { name: `${view} new` }).waitFor();
  await c.axe();
  await c.narrow();
  await page.goto(`${c.base}/console/overview`);
  await page.getByText("Saved views").click();
  await page.getByRole("link", { name: `${view} new` }).click();
  await has(c, "Clicks in this time", 2);
  c.assert.deepEqual([...new URL(page.url()).searchParams].sort(), [...address].sort());
  await page.getByRole("button", { name: `Remove: ${view} new` }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("link", { name: `${view} new` }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: `Remove the tag ${tag}` }).click();
  await has(c, "Links", 2);
  await has(c, "Clicks in this time", 5);
  // A group that is too large says so, and shows no numbers of another one.
  await page.route("**/api/v1/stats?*", (route) => route.fulfill({
    status: 422, contentType: "application/problem+json", json: { type: "urn:waypost:problem:invalid", status: 422, detail: "the group has more than 50,000 links" },
  }));
  await page.getByLabel("Creator", { exact: true }).fill("nobody");
  await page.keyboard.press("Enter");
  await page.getByText("the group has more than 50,000 links").waitFor();
  c.assert.equal(await page.locator("dl.figures").count(), 0);
  for (const link of links) await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
}

/** Tags are compared in one chart, which the address keeps. */
export async function comparesTags(c) {
  const { page } = c;
  const tags = [c.unique(), `${c.unique()}, "two"`];
  const links = [];
  for (const tag of tags) links.push(await c.api("POST", "/api/v1/urls?wait=all&wait_timeout=10", { original_url: "https://example.com/lines", tags: [tag] }));
  for (const link of [links[0], ...links]) await fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual" });
  await page.goto(`${c.base}/console/overview`);
  for (const tag of tags) {
    await page.getByLabel("Search names").fill(tag);
    await page.getByRole("checkbox", { name: `Draw ${tag}` }).click();
  }
  // A name that the table does not list stays in the chart, also on a page that is opened anew.
  await page.reload();
  await page.getByRole("application", { name: /^Clicks by day: Tags/ }).locator("canvas").waitFor();
  await c.axe();
  await c.narrow();
  const chart = page.getByRole("figure").filter({ has: page.getByRole("button", { name: "Draw none" }) });
  c.assert.deepEqual((await chart.locator(".legend li").allTextContents()).slice(0, 2).map((t) => t.trim()), tags);
  await chart.getByRole("button", { name: "Show as a table" }).click();
  const today = chart.getByRole("table", { name: "Clicks by day: Tags" }).getByRole("row").last();
  await today.getByRole("cell").nth(1).filter({ hasText: /^1$/ }).waitFor();
  c.assert.deepEqual(await today.getByRole("cell").allTextContents(), ["2", "1"]);
  await chart.getByRole("button", { name: "Draw none" }).click();
  await chart.waitFor({ state: "detached" });
  c.assert.equal(new URL(page.url()).searchParams.has("lines"), false);
  // A time is compared with another one, and begins at a moment where asked.
  await page.goto(`${c.base}/console/overview?tag=${tags[0]}`);
  await page.getByText("Public pages").click();
  await page.getByText(`all links with the tag ${tags[0]},`).waitFor();
  await page.getByLabel("Title of a new page").fill(`${tags[0]} page`);
  await page.getByRole("button", { name: "Publish" }).click();
  const dialog = page.getByRole("dialog", { name: "The page is public" });
  const shown = await fetch(await dialog.getByLabel("Address of the page", { exact: true }).textContent());
  c.assert.ok((await shown.text()).includes(`${tags[0]} page`), "the page has its title");
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: `Withdraw: ${tags[0]} page` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Withdraw" }).click();
  await page.getByRole("button", { name: `Withdraw: ${tags[0]} page` }).waitFor({ state: "detached" });
  await page.getByLabel("Compare with").selectOption("other time");
  const [first, last] = [page.getByLabel("Other time, first day"), page.getByLabel("Other time, last day")];
  const day = await first.inputValue();
  await last.fill(day);
  await page.waitForURL((at) => at.searchParams.get("compare_to") === day);
  await page.getByText("There were no clicks in the other time.").waitFor();
  await c.axe();
  await c.narrow();
  await page.getByRole("button", { name: "Since a moment" }).click();
  await last.waitFor({ state: "detached" });
  const from = page.getByLabel("From", { exact: true });
  c.assert.match(await from.inputValue(), /T00:00$/);
  const hour = await page.evaluate("new Date(Date.now() - 3_600_000 - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 16)");
  await from.fill(hour);
  await page.waitForURL((at) => Math.abs(Date.now() - Date.parse(at.searchParams.get("since"))) < 3_720_000);
  await has(c, "Clicks in this time", 2);
  c.assert.equal(await page.getByLabel("Step").count(), 0);
  await c.narrow();
  await page.getByRole("button", { name: "Since a moment" }).click();
  await page.waitForURL((at) => at.searchParams.get("from") === hour.slice(0, 10) && !at.searchParams.has("since"));
  for (const link of links) await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
}

/** A name of a breakdown shows its days, and two breakdowns are crossed once single clicks are kept. */
export async function crossesBreakdowns(c) {
  const { page } = c;
  const tag = c.unique();
  const link = await c.api("POST", "/api/v1/urls?wait=all&wait_timeout=10", { original_url: "https://example.com/crossed", tags: [tag] });
  const click = () => fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual", headers: { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" } });
  await click();
  await page.route("**/api/v1/stats?*", async (route) => {
    const stats = await (await route.fetch()).json();
    await route.fulfill({ json: { ...stats, counted_at: "2026-03-01T09:15:00Z", rebuilding: true } });
  });
  await page.goto(`${c.base}/console/overview?tag=${tag}`);
  await page.getByText(/Counted at 1 Mar 2026, .*\. It is being counted again\./).waitFor();
  const devices = page.getByRole("region", { name: "Devices" });
  await devices.getByRole("button", { name: /^Desktop 1/ }).click();
  await devices.getByRole("status").getByText("1 click", { exact: true }).waitFor();
  c.assert.match(page.url(), /by=devices&name=desktop/);
  await page.getByLabel("Rows", { exact: true }).selectOption("Devices");
  await page.getByLabel("Columns", { exact: true }).selectOption("Systems");
  const crossed = page.getByRole("region", { name: "Two at once" });
  await crossed.getByRole("alert").getByText(/no single clicks of these links and days are kept/).waitFor();
  await c.axe();
  const { settings } = await c.api("GET", "/api/v1/workspace");
  await c.api("PATCH", "/api/v1/workspace", { settings: { events: "all" } });
  try {
    for (let n = 0; n < 5; n++) await click();
    await figure(c, "Clicks in this time").getByText("6", { exact: true }).waitFor();
    await crossed.getByRole("button", { name: "Try again" }).click();
    const table = crossed.getByRole("table", { name: "Devices, Systems" });
    await table.getByRole("row", { name: /^Desktop 5 5/ }).waitFor();
    await crossed.getByText("5 of 6 clicks were kept one by one. The others are not here.").waitFor();
    await c.axe();
    await c.narrow();
  } finally {
    await c.api("PATCH", "/api/v1/workspace", { settings: { events: settings.events } });
  }
  await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
}

/** A link's page is public under the address that is shown once, until it is withdrawn. */
export async function publishesALink(c) {
  const { page } = c;
  const title = c.unique();
  const link = await c.api("POST", "/api/v1/urls?wait=all&wait_timeout=10", { original_url: "https://example.com/public" });
  await page.goto(`${c.base}/console/links/${link.short_code}`);
  await page.getByText("Public pages").click();
  await page.getByLabel("Title of a new page").fill(title);
  await page.getByRole("combobox", { name: "Time", exact: true }).selectOption("Last 7 days");
  await page.getByRole("button", { name: "Publish" }).click();
  const dialog = page.getByRole("dialog", { name: "The page is public" });
  const address = await dialog.getByLabel("Address of the page", { exact: true }).textContent();
  await c.axe();
  await dialog.getByRole("button", { name: "Copy: Address of the page" }).click();
  c.assert.equal(await page.evaluate("navigator.clipboard.readText()"), address);
  const shown = await fetch(address);
  c.assert.equal(shown.status, 200);
  c.assert.ok((await shown.text()).includes(title));
  await dialog.getByRole("button", { name: "Done" }).click();
  await c.axe();
  await c.narrow();
  await page.getByRole("button", { name: `Withdraw: ${title}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Withdraw" }).click();
  await page.getByRole("button", { name: `Withdraw: ${title}` }).waitFor({ state: "detached" });
  c.assert.equal((await fetch(address)).status, 404);
  await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
}
