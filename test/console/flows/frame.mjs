// The frame around all screens: signing in and out, sessions that end, a server that is
// slow or away, shortcuts, the palette, languages and themes.

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = [
  "saysThatTheBrowserKeepsNoCookies", "aWrongCodeOfALinkIsSaid", "saysThatTheServerIsSlowOrRefuses",
  "saysThatNewsNoLongerArrive",
];

/** a fresh browser without a session. Requests without a cookie are the operator's in a
 * development system, so flows of signing in go to its page. */
async function stranger(c) {
  const context = await c.newContext();
  const page = await context.newPage();
  await page.goto(`${c.base}/console/sign-in`);
  return { context, page };
}

export async function refusesAWrongPasswordInWordsAndKeepsTheAddress(c) {
  const { context, page } = await stranger(c);
  await page.getByLabel("Email address").fill(c.user.email);
  await page.getByLabel("Password").fill("wrong wrong wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  c.assert.equal(await page.getByLabel("Email address").inputValue(), c.user.email);
  await c.signIn(page);
  await context.close();
}

export async function saysThatNoSessionIsKeptWithoutHTTPS(c) {
  const { context, page } = await stranger(c);
  const said = page.getByText(/^Browsers keep you signed in over https or on localhost only/);
  await page.getByLabel("Email address").waitFor();
  c.assert.equal(await said.count(), 0, "localhost is as good as https");
  await page.goto(`${c.named}/console`);
  await said.waitFor(); // before anything is typed
  await page.getByLabel("Email address").fill(c.user.email);
  await page.getByLabel("Password").fill(c.user.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").and(said).waitFor();
  // The token of a link, whose session the browser does not keep either.
  await page.route("**/api/v1/session", (route) => route.fulfill({ status: 201, json: {} }));
  await page.goto("about:blank");
  await page.goto(`${c.named}/console/sign-in#wp_once_of_the_test`);
  await page.getByRole("alert").and(said).waitFor();
  c.assert.equal(await page.getByText("Signing in …").count(), 0);
  await c.axe(page);
  await context.close();
}

export async function saysThatTheBrowserKeepsNoCookies(c) {
  const { context, page } = await stranger(c);
  await page.route("**/api/v1/me", (route) => route.fulfill({
    status: 401, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:waypost:problem:unauthorized", title: "", status: 401, detail: "no cookie" }),
  }));
  await page.getByLabel("Email address").fill(c.user.email);
  await page.getByLabel("Password").fill(c.user.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("The browser has not kept the session.").waitFor();
  c.assert.equal(await page.getByLabel("Email address").inputValue(), c.user.email);
  await context.close();
}

/** A link asks for a code of the second factor, and says when it is wrong. */
export async function aWrongCodeOfALinkIsSaid(c) {
  const { context, page } = await stranger(c);
  const detail = "code is wrong, or was used before";
  await page.route("**/api/v1/session", (route) => route.fulfill({
    status: 401, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:waypost:problem:second-factor-required", title: "", status: 401, detail }),
  }));
  await page.goto("about:blank");
  await page.goto(`${c.base}/console/sign-in#wp_once_of_the_test`);
  const code = page.getByLabel("Code of your second factor");
  await code.waitFor();
  c.assert.equal(await page.getByRole("alert").count(), 0, "the missing code is no fault");
  await code.fill("123456");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText(detail, { exact: true }).waitFor();
  c.assert.equal(await code.inputValue(), "123456");
  await c.axe(page);
  await context.close();
}

/** Another workspace is chosen by keyboard: arrow keys pass options, the header stays. */
export async function choosesAWorkspace(c) {
  const slug = c.unique();
  const user = { email: `${slug}@example.com`, password: `correct horse ${slug}` };
  const { id } = await c.api("POST", "/api/v1/users", { ...user, role: "viewer" });
  const workspace = await c.api("POST", "/api/admin/workspaces", { slug });
  await c.api("POST", `/api/admin/workspaces/${workspace.id}/users`, { email: user.email, role: "viewer" });
  // Operators manage accounts that workspaces share.
  await c.page.goto(`${c.base}/console/settings/members`);
  await c.page.getByRole("row").filter({ hasText: user.email }).getByRole("button", { name: "New invitation" }).waitFor();
  const context = await c.newContext();
  const page = await context.newPage();
  await c.signIn(page, user);
  const list = page.getByRole("combobox", { name: "Workspace" });
  const take = page.getByRole("button", { name: "Switch: Workspace" });
  const present = () => page.evaluate(() => localStorage.getItem("waypost.workspace"));
  const first = await list.inputValue();
  c.assert.notEqual(first, slug);
  await list.focus();
  await page.keyboard.press("ArrowDown");
  c.assert.equal(await list.inputValue(), slug);
  await c.focused(list);
  c.assert.notEqual(await present(), slug, "an arrow key switches");
  await page.setViewportSize({ width: 320, height: 800 });
  c.assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 320), "the header is too wide");
  await c.axe(page);
  await page.keyboard.press("Tab");
  await c.focused(take);
  await page.keyboard.press("Enter");
  await page.waitForFunction((to) => localStorage.getItem("waypost.workspace") === to, slug);
  await take.waitFor({ state: "detached" });
  await c.focused(list);
  await page.getByRole("heading", { name: "Create your first link" }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  await context.close();
  await c.api("DELETE", `/api/admin/workspaces/${workspace.id}`);
  await c.api("DELETE", `/api/v1/users/${id}`);
}

export async function rootLeadsBrowsersToTheConsole(c) {
  await c.page.goto(c.base + "/");
  await c.page.getByRole("heading", { level: 1, name: "Links" }).waitFor();
  c.assert.equal(new URL(c.page.url()).pathname, "/console/links");
  await c.page.waitForFunction(() => document.title === "Links · Waypost");
}

export async function anEndedSessionIsSaidAndContinuesWhereItWas(c) {
  const context = await c.newContext();
  const page = await context.newPage();
  await c.signIn(page);
  await page.goto(`${c.base}/console/settings/account`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  // Another page of the same browser ends the session.
  const other = await context.newPage();
  await other.goto(`${c.base}/console/links`);
  await other.evaluate(async () => {
    const all = await (await fetch("/api/v1/me/sessions")).json();
    const own = all.sessions.find((s) => s.current);
    await fetch(`/api/v1/me/sessions/${own.id}`, { method: "DELETE" });
  });
  await other.close();
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.waitFor(); // the live stream says so, without a click
  c.assert.equal(await dialog.getByLabel("Email address").inputValue(), c.user.email);
  await dialog.getByLabel("Password").fill(c.user.password);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  c.assert.equal(new URL(page.url()).pathname, "/console/settings/account");
  await context.close();
}

export async function signsOut(c) {
  const context = await c.newContext();
  const page = await context.newPage();
  await c.signIn(page);
  await page.locator("details.account summary").click();
  await page.route("**/api/v1/session", (route) => route.abort());
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("The server cannot be reached.").waitFor();
  await page.unroute("**/api/v1/session");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Waypost" }).waitFor();
  c.assert.equal((await context.cookies()).filter((k) => k.name.includes("session")).length, 0);
  await context.close();
}

export async function saysThatTheServerIsAway(c) {
  const { page } = c;
  await page.route("**/api/v1/urls?*", (route) => route.abort());
  await page.reload();
  await page.getByText("The server cannot be reached.").first().waitFor();
  await page.unroute("**/api/v1/urls?*");
  await page.getByRole("button", { name: "Try again" }).first().click();
  await page.getByText("The server cannot be reached.").first().waitFor({ state: "detached" });
}

export async function saysThatTheServerIsSlowOrRefuses(c) {
  const { page } = c;
  let answer;
  const released = new Promise((done) => { answer = done; });
  await page.route("**/api/v1/urls?*", async (route) => {
    await released;
    await route.fulfill({
      status: 429, headers: { "Retry-After": "7", "Content-Type": "application/problem+json" },
      body: JSON.stringify({ type: "urn:waypost:problem:rate-limited", title: "", status: 429, detail: "too many" }),
    });
  });
  await page.reload();
  await page.getByText("The server is taking longer than usual.").first().waitFor();
  answer();
  await page.getByText("Too many requests. Try again in 7 sec").first().waitFor();
  await page.unroute("**/api/v1/urls?*");
}

export async function saysThatNewsNoLongerArrive(c) {
  const { page, context } = c;
  await page.getByText("Live", { exact: true }).waitFor();
  await page.close();
  const page2 = await context.newPage();
  await page2.route("**/api/v1/live", (route) => route.abort());
  await page2.goto(`${c.base}/console/links`);
  await page2.getByText("Not live: what you see may be out of date").waitFor();
  await page2.close();
}

export async function pagesShareOneStream(c) {
  const { page, context } = c;
  await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/first" });
  await page.reload();
  await page.getByRole("row").nth(1).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  const streams = [];
  context.on("request", (r) => new URL(r.url()).pathname === "/api/v1/live" && streams.push(r));
  const others = [await context.newPage(), await context.newPage()];
  for (const p of others) {
    await p.goto(`${c.base}/console/links`);
    await p.getByRole("row").nth(1).waitFor();
  }
  const news = async (pages) => {
    await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/news", title: c.unique() });
    for (const p of pages) await p.getByRole("button", { name: /new links?: Show/ }).click();
  };
  await news([page, ...others]);
  c.assert.equal(streams.length, 0, "a page has a stream of its own");
  // When the page with the stream goes, one of the others takes over.
  const next = context.waitForEvent("request", (r) => new URL(r.url()).pathname === "/api/v1/live");
  await page.close();
  await (await next).response();
  await news(others);
  c.assert.equal(streams.length, 1);
  for (const p of others) await p.close();
}

export async function worksByKeyboardAlone(c) {
  const { page } = c;
  await page.keyboard.press("Tab");
  await page.getByRole("link", { name: "Skip to the content" }).waitFor();
  c.assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  c.assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  for (const [keys, path] of [["go", "/console/overview"], ["gs", "/console/settings"], ["gi", "/console/import"], ["gl", "/console/links"]]) {
    await page.keyboard.press(keys[0]);
    await page.keyboard.press(keys[1]);
    await page.waitForURL((u) => u.pathname === path);
    await page.getByRole("heading", { level: 1 }).waitFor();
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await c.axe();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("Control+k");
  const box = page.getByRole("combobox", { name: /Type a command/ });
  await box.waitFor();
  await c.axe();
  // Escape closes it, also with something typed.
  await box.fill("Overv");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("Control+k");
  await box.fill("Overv");
  await page.keyboard.press("Enter");
  await page.waitForURL((u) => u.pathname === "/console/overview");
}

export async function paletteFindsLinksAndShortcutsCanBeSwitchedOff(c) {
  const { page } = c;
  const title = `Palette ${c.unique()}`;
  const link = await c.api("POST", "/api/v1/urls", { original_url: "https://example.com/palette", title });
  await page.keyboard.press("Control+k");
  const box = page.getByRole("combobox", { name: /Type a command/ });
  const option = page.getByRole("option", { name: title });
  await box.fill(title);
  await option.waitFor();
  // What was found before is not opened by what is typed now.
  await page.route("**/api/v1/urls?*", (route) => route.abort());
  await box.fill(c.unique());
  await page.keyboard.press("Enter");
  const status = page.getByRole("dialog").getByRole("status");
  await status.getByText("The server cannot be reached.").waitFor();
  c.assert.equal(await option.count(), 0);
  await page.unroute("**/api/v1/urls?*");
  await box.fill(c.unique());
  await status.getByText("Searching for links …").waitFor();
  await status.getByText("Nothing found").waitFor();
  await box.fill(title);
  await option.waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL((u) => u.pathname === `/console/links/${link.short_code}`);
  await page.locator("details.account summary").click();
  await page.getByLabel("Keyboard shortcuts").uncheck();
  await page.locator("h1").click();
  await page.keyboard.press("?");
  c.assert.equal(await page.getByRole("dialog").count(), 0);
  await page.locator("details.account summary").click();
  await page.getByLabel("Keyboard shortcuts").check();
}

export async function speaksGermanAndKeepsTheTheme(c) {
  const context = await c.newContext({ locale: "de-DE" });
  const page = await context.newPage();
  await page.goto(`${c.base}/console/sign-in`);
  await page.getByRole("heading", { name: "Bei Waypost anmelden" }).waitFor();
  c.assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
  await page.getByLabel("E-Mail-Adresse").fill(c.user.email);
  await page.getByLabel("Passwort").fill("falsch falsch falsch");
  await page.getByRole("button", { name: "Anmelden" }).click();
  await page.getByRole("alert").getByText("Adresse oder Passwort ist falsch.", { exact: true }).waitFor();
  await page.getByLabel("Passwort").fill(c.user.password);
  await page.getByRole("button", { name: "Anmelden" }).click();
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Übersicht" }).waitFor();
  // Reasons of the API are said in German; failure.test.ts has one for each kind of problem.
  for (const [status, kind, said] of [
    [403, "forbidden", "Das ist hier nicht erlaubt. Es fehlt ein Recht, oder es ist gesperrt."],
    [503, "keys-exhausted", "Hier ist kein erzeugter Code mehr frei. Eigene Codes gehen noch."],
  ]) {
    await page.route("**/api/v1/urls?*", (route) => route.fulfill({
      status, contentType: "application/problem+json", body: JSON.stringify({ type: `urn:waypost:problem:${kind}`, title: "", status, detail: "in English" }),
    }));
    await page.goto(`${c.base}/console/links`);
    await page.getByRole("alert").getByText(said, { exact: true }).waitFor();
    await page.unrouteAll();
  }
  await page.locator("details.account summary").click();
  await page.getByLabel("Farbschema").selectOption("dark");
  await page.getByLabel("Sprache").selectOption("en");
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Overview" }).waitFor();
  await page.reload();
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Overview" }).waitFor();
  c.assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await context.close();
}

export async function signInPageIsAccessible(c) {
  const { context, page } = await stranger(c);
  await page.getByRole("heading", { name: "Sign in to Waypost" }).waitFor();
  await context.close();
  await c.page.goto(`${c.base}/console/sign-in`);
  await c.page.getByRole("heading", { name: "Sign in to Waypost" }).waitFor();
  await c.axe();
  await c.narrow();
}

export async function unknownPagesLeadBack(c) {
  await c.page.goto(`${c.base}/console/nothing`);
  await c.page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await c.page.waitForFunction(() => document.title === "There is no such page · Waypost");
  await c.page.getByRole("link", { name: "Go to the links" }).click();
  await c.page.getByRole("heading", { level: 1, name: "Links" }).waitFor();
}
