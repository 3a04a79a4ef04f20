// The overview of the workspace.

/** Each flow opens the page where it begins. */
export const opens = true;

const today = (page) => page.locator("dl.figures dd").first().textContent().then((t) => Number(t.replace(/\D/g, "")));

/** A click that was made a moment ago shows, without a reload of the page, also when
 * answers are slower than news. */
export async function showsAClick(c) {
  const title = `Overview ${c.unique()}`;
  const tag = c.unique();
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
  await c.page.getByRole("application", { name: /^Clicks by day/ }).locator("canvas").waitFor();
  await c.page.getByRole("region", { name: "utm_campaign" }).getByText("spring", { exact: true }).waitFor();
  c.assert.equal(await c.page.getByRole("region", { name: "utm_source" }).count(), 0);
  await c.axe();
  await c.narrow();
  await c.page.getByRole("button", { name: "Show as a table" }).click();
  const rows = c.page.getByRole("table", { name: "Clicks by day" }).getByRole("row");
  await rows.first().waitFor();
  c.assert.equal(await rows.count(), 31);
  await c.axe();
  await c.narrow();
}
