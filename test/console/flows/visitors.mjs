// Pages of edges, as visitors of short links see them.

/** Each flow opens the page where it begins. */
export const opens = true;

/** make test-long has the edge with TLS. */
export const long = ["overTLS"];

import { once } from "node:events";
import { createServer } from "node:http";

/** A visitor gives a link's password by keyboard alone, and is asked again only when it has
 * changed. Over TLS the pass is for TLS alone. */
async function givesAPassword(c, edge) {
  const password = "open sesame";
  const there = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<h1>Arrived</h1>")).listen(0, "127.0.0.1");
  await once(there, "listening");
  const target = `http://target.example:${there.address().port}/${c.unique()}`;
  const link = await c.api("POST", "/api/v1/urls?wait=all", { original_url: target, password });
  const context = await c.newContext({ ignoreHTTPSErrors: true });
  try {
    const page = await context.newPage();
    const url = `${edge}/${link.short_code}`;
    await page.goto(url);
    await page.getByRole("heading", { level: 1, name: "Password required" }).waitFor();
    await c.axe(page);
    const field = page.getByLabel("Password", { exact: true });
    await c.tab(field);
    await page.keyboard.type("open cabbage");
    await c.tab(page.getByRole("button", { name: "Continue" }));
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("The password is wrong.").waitFor();
    c.assert.equal(await field.getAttribute("aria-invalid"), "true");
    await c.axe(page);
    await page.setViewportSize({ width: 320, height: 600 });
    c.assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 320), "the page scrolls sideways");
    await c.tab(field);
    await page.keyboard.type(password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Arrived" }).waitFor();
    c.assert.equal(page.url(), target);
    const [pass] = await context.cookies(url);
    c.assert.deepEqual([pass.path, pass.secure, pass.httpOnly, pass.sameSite], [`/${link.short_code}`, edge.startsWith("https:"), true, "Lax"]);
    const again = await context.request.get(url, { maxRedirects: 0 });
    c.assert.deepEqual([again.status(), again.headers().location], [302, target]);
    await c.api("PATCH", `/api/v1/urls/${link.short_code}?wait=all`, { password: "another" });
    await page.goto(url);
    await page.getByRole("heading", { level: 1, name: "Password required" }).waitFor();
  } finally {
    await context.close();
    there.close();
  }
}

export const withoutTLS = (c) => givesAPassword(c, c.edges[0]);

export const overTLS = (c) => givesAPassword(c, c.told);
