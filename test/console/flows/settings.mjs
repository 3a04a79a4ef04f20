// Settings of the workspace and of the account, and invitations.

/** Each flow opens the page where it begins. */
export const opens = true;

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = ["viewerSignsIn", "partsSayWhyTheyAreEmpty"];

import { createHmac } from "node:crypto";

const open = async (c, part, page = c.page) => {
  await page.goto(`${c.base}/console/settings/${part}`);
  await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
};
const dialog = (page) => page.getByRole("dialog");

/** saves presses the button of a form, and waits until that is done. */
async function saves(page) {
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".toast", { hasText: "Saved" }).getByRole("button", { name: "Close" }).click();
  await page.locator(".toast").waitFor({ state: "detached" });
}

/** The name of the workspace is changed, and shown at once. Its templates of utm parameters
 * write the targets of links. */
export async function renamesTheWorkspace(c) {
  const { name } = await c.api("GET", "/api/v1/workspace");
  await open(c, "workspace");
  await saves(c.page); // without a change, which the API would refuse
  const field = c.page.getByLabel("Name", { exact: true });
  await field.fill(`${name} ${c.unique()}`);
  await c.page.getByLabel("Time zone of days").fill("Europe/Paris");
  await saves(c.page);
  const changed = await c.api("GET", "/api/v1/workspace");
  c.assert.deepEqual([changed.name, changed.settings.time_zone], [await field.inputValue(), "Europe/Paris"]);
  const tag = c.unique();
  await c.page.getByLabel("Count clicks by the UTM parameters").check();
  await c.page.getByRole("button", { name: "Add a template" }).click();
  await c.page.getByLabel("For links with the tag").fill(tag);
  await c.page.getByLabel(/^A parameter in each line/).fill("utm_source = mail, app\nutm_campaign");
  await saves(c.page);
  const { settings } = await c.api("GET", "/api/v1/workspace");
  c.assert.deepEqual([settings.utm, settings.utm_templates], [true, [{ tag, parameters: [{ name: "utm_source", values: ["mail", "app"] }, { name: "utm_campaign" }] }]]);
  await c.axe();
  await c.narrow();
  await c.page.goto(`${c.base}/console/links?create`);
  const form = dialog(c.page);
  await form.getByLabel("Target URL").fill("https://example.com/?a=1#top");
  await form.getByLabel("Tags").fill(`${tag},`);
  await form.getByText("UTM parameters").click();
  await form.getByRole("combobox", { name: "utm_source" }).selectOption("app"); // a text field until the templates are there
  await form.getByLabel("utm_campaign").fill("summer 26");
  await form.getByText("https://example.com/?a=1&utm_source=app&utm_campaign=summer%2026#top", { exact: true }).waitFor();
  await c.axe();
  await c.narrow();
  await form.getByRole("button", { name: "Create link" }).click();
  await form.getByRole("status").filter({ hasText: /On all \d edges after/ }).waitFor();
  const [made] = (await c.api("GET", `/api/v1/urls?tag=${tag}`)).urls;
  c.assert.equal(made.original_url, "https://example.com/?a=1&utm_source=app&utm_campaign=summer%2026#top");
  await c.api("PATCH", "/api/v1/workspace", { name, settings: { time_zone: "UTC", utm: false, utm_templates: [] } });
}

/** An API key is shown once, works, and is refused after it was revoked. */
export async function keyWorksUntilRevoked(c) {
  const name = c.unique();
  await open(c, "keys");
  await c.page.getByLabel("Name", { exact: true }).fill(name);
  await c.page.getByRole("button", { name: "Create a key" }).click();
  await dialog(c.page).getByText("It is not shown again").waitFor();
  const key = await dialog(c.page).getByLabel("API key", { exact: true }).textContent();
  await c.axe();
  await dialog(c.page).getByRole("button", { name: "Done" }).click();
  c.assert.equal(await c.page.getByText(key).count(), 0);
  const status = async () => (await fetch(`${c.base}/api/v1/urls?limit=1`, { headers: { "X-Api-Key": key } })).status;
  c.assert.equal(await status(), 200);
  await c.axe();
  await c.narrow();
  const row = c.page.getByRole("row").filter({ hasText: name });
  await row.getByRole("button", { name: "Replace" }).click();
  await dialog(c.page).getByRole("button", { name: "Replace" }).click();
  await dialog(c.page).getByText("It is not shown again").waitFor();
  const second = await dialog(c.page).getByLabel("API key", { exact: true }).textContent();
  c.assert.notEqual(second, key);
  c.assert.equal(await status(), 200, "the old key works for another day");
  await dialog(c.page).getByRole("button", { name: "Done" }).click();
  await row.nth(1).waitFor();
  for (let left = 2; left > 0; left--) {
    await row.first().getByRole("button", { name: "Revoke" }).click();
    await dialog(c.page).getByRole("button", { name: "Revoke" }).click();
    await row.nth(left - 1).waitFor({ state: "detached" });
  }
  c.assert.equal(await status(), 401);
}

const accept = async (page, password, again = password) => {
  await page.getByLabel("New password").fill(password);
  await page.getByLabel("Repeat the password").fill(again);
  await page.getByRole("button", { name: "Set your password" }).click();
};

const signIn = async (c, page, email, password) => {
  await page.goto(`${c.base}/console/sign-in`);
  await page.getByLabel("Email address").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/console/links");
};

/** another runs a step in a browser of its own, without the session of c.page. */
async function another(c, step) {
  const context = await c.page.context().browser().newContext({ viewport: { width: 1280, height: 900 }, locale: "en-GB" });
  try {
    await step(await context.newPage());
  } finally {
    await context.close();
  }
}

/** A person is invited and sets a password in another browser; the invitation works once. */
export async function invitesAPerson(c) {
  const name = c.unique();
  const email = `${name}@example.com`;
  await open(c, "members");
  await c.page.getByLabel("Email address").fill(email);
  await c.page.getByLabel("Name (optional)").fill(name);
  await c.page.getByLabel("Role", { exact: true }).selectOption("viewer");
  await c.page.getByRole("button", { name: "Invite" }).click();
  const link = await dialog(c.page).getByLabel("Link of the invitation").first().textContent();
  c.assert.ok(link.startsWith(`${c.base}/console/invitation#`), link);
  await dialog(c.page).getByRole("button", { name: "Done" }).click();
  const row = c.page.getByRole("row").filter({ hasText: email });
  await row.getByText("invited").waitFor();
  await c.axe();
  await c.narrow();
  await another(c, async (page) => {
    await page.goto(link);
    await page.getByText("At least 12 characters").waitFor();
    await accept(page, "short");
    await page.getByText("fewer than 12 characters").waitFor();
    await accept(page, "password1234");
    await page.getByText(/common/).waitFor();
    await accept(page, "correct horse battery", "correct horse");
    await page.getByText("The two passwords differ").waitFor();
    await accept(page, `correct horse ${name}`);
    await page.getByText("The password is set").waitFor();
    c.assert.equal(new URL(page.url()).hash, "");
    await page.goto(link);
    await accept(page, `another horse ${name}`);
    await page.getByText("has already been used, or has expired").waitFor();
  });
  await open(c, "members");
  await row.getByText("active").waitFor();
  // An arrow key chooses a role, and the button beneath takes it.
  const role = row.getByRole("combobox", { name: `Role of ${name}` });
  c.assert.ok(await role.evaluate((box) => {
    const width = box.offsetWidth;
    box.style.width = "max-content";
    return width >= box.offsetWidth;
  }), "the longest role is cut");
  const save = row.getByRole("button", { name: `Save: Role of ${name}` });
  let sent = 0;
  c.page.on("request", (r) => { sent += r.method() === "PATCH"; });
  await role.focus();
  for (const [key, chosen] of [["ArrowDown", "member"], ["ArrowDown", "admin"], ["ArrowUp", "member"]]) {
    await c.page.keyboard.press(key);
    await save.waitFor();
    c.assert.equal(await role.inputValue(), chosen);
    await c.focused(role);
  }
  c.assert.equal(sent, 0, "an arrow key changes the role");
  await save.click();
  await c.page.getByText(`${name} is now: Member.`).waitFor();
  await save.waitFor({ state: "detached" });
  await c.focused(role);
  await row.getByRole("button", { name: "Remove" }).click();
  await dialog(c.page).getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
  await c.focused(c.page.getByRole("heading", { name: "Members" }));
}

/** A viewer signs in, is shown and allowed what viewers may, ends another session, and
 * changes the password. */
export async function viewerSignsIn(c) {
  const name = c.unique();
  const email = `${name}@example.com`;
  const password = `correct horse ${name}`;
  const user = await c.api("POST", "/api/v1/users", { email, name, role: "viewer" });
  await c.api("POST", "/api/v1/invitation", { token: user.invitation.token, password });
  await another(c, async (page) => {
    await signIn(c, page, email, password);
    await open(c, "members", page);
    await page.getByText("Administrators of the workspace manage this part").waitFor();
    c.assert.equal(await page.getByRole("link", { name: "Members" }).count(), 0);
    c.assert.equal(await page.evaluate(async () => (await fetch("/api/v1/users")).status), 403);
    await page.goto(`${c.base}/console/import`);
    await page.getByText("Your role may not create links").waitFor();
    // Everybody makes keys of their own, which do no more than they may.
    await open(c, "keys", page);
    await page.getByLabel("Name", { exact: true }).fill(name);
    c.assert.equal(await page.getByRole("checkbox", { name: "links:write" }).count(), 0);
    await page.getByRole("button", { name: "Create a key" }).click();
    const key = await dialog(page).getByLabel("API key", { exact: true }).textContent();
    await dialog(page).getByRole("button", { name: "Done" }).click();
    const asked = (method) => fetch(`${c.base}/api/v1/urls`, { method, headers: { "X-Api-Key": key, "Content-Type": "application/json" }, body: method === "POST" ? '{"original_url": "https://example.com/"}' : undefined });
    c.assert.deepEqual([(await asked("GET")).status, (await asked("POST")).status], [200, 403]);
    await another(c, async (second) => {
      await signIn(c, second, email, password);
      await open(c, "account", page);
      const sessions = page.getByRole("table", { name: "Sessions" }).getByRole("row");
      await sessions.nth(2).waitFor();
      await page.getByRole("button", { name: /^End the session of/ }).click();
      await page.getByText("The session has ended.").waitFor();
      await sessions.nth(2).waitFor({ state: "detached" });
      await second.reload();
      await second.getByRole("heading", { name: "Sign in to Waypost" }).waitFor();
    });
    const change = page.getByRole("form", { name: "Change the password" });
    await change.getByLabel("Current password").fill("wrong password 123");
    await change.getByLabel("New password").fill(`${password} 2`);
    await change.getByRole("button").click();
    await change.getByRole("alert").waitFor();
    await change.getByLabel("Current password").fill(password);
    await change.getByRole("button").click();
    await page.getByText("The password is changed").waitFor();
  });
  await c.api("DELETE", `/api/v1/users/${user.id}`);
}

/** totp is the code of an authenticator app, some steps of 30 seconds from now. */
function totp(secret, steps = 0) {
  const bits = [...secret].map((l) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(l).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => Number.parseInt(b, 2)));
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const sum = createHmac("sha1", key).update(time).digest();
  return String((sum.readUInt32BE(sum.at(-1) & 15) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

/** A second factor is turned on with an app, asked for at the next sign-in, and turned off. */
export async function secondFactor(c) {
  const name = c.unique();
  const email = `${name}@example.com`;
  const password = `correct horse ${name}`;
  const user = await c.api("POST", "/api/v1/users", { email, name, role: "viewer" });
  await c.api("POST", "/api/v1/invitation", { token: user.invitation.token, password });
  await another(c, async (page) => {
    await signIn(c, page, email, password);
    await open(c, "account", page);
    await page.getByRole("button", { name: "Turn on" }).click();
    await dialog(page).getByLabel("Current password, if the account has one").fill(password);
    await dialog(page).getByRole("button", { name: "Turn on" }).click();
    await dialog(page).getByRole("img", { name: "QR code of the secret" }).waitFor();
    await c.focused(dialog(page).getByLabel("Code of the app"));
    const secret = await dialog(page).locator("code.secret").textContent();
    await dialog(page).getByLabel("Code of the app").fill("000000");
    await dialog(page).getByRole("button", { name: "Turn on" }).click();
    await dialog(page).getByRole("alert").waitFor();
    await dialog(page).getByLabel("Code of the app").fill(totp(secret));
    await dialog(page).getByRole("button", { name: "Turn on" }).click();
    await c.focused(dialog(page).getByText("Keep these codes"));
    const [recovery] = await dialog(page).getByRole("listitem").allTextContents();
    await dialog(page).getByRole("button", { name: "Done" }).click();
    await page.getByText("On. 10 recovery codes are left.").waitFor();
    const title = page.getByRole("heading", { name: "Second factor" });
    await c.focused(title);
    await another(c, async (second) => {
      await second.goto(`${c.base}/console/sign-in`);
      await second.getByLabel("Email address").fill(email);
      await second.getByLabel("Password").fill(password);
      await second.getByRole("button", { name: "Sign in" }).click();
      await second.getByLabel("Code of your second factor").fill(totp(secret, 1)); // no code is taken twice
      await second.getByRole("button", { name: "Sign in" }).click();
      await second.waitForURL("**/console/links");
    });
    await page.getByRole("button", { name: "Turn off" }).click();
    await dialog(page).getByLabel("Current password, if the account has one").fill(password);
    await dialog(page).getByLabel("Code of the app, or a recovery code").fill(recovery);
    await dialog(page).getByRole("button", { name: "Turn off" }).click();
    await page.getByText("Off: the password alone").first().waitFor();
    await dialog(page).waitFor({ state: "detached" });
    await c.focused(title);
  });
  await c.api("DELETE", `/api/v1/users/${user.id}`);
}

/** A domain that is added shows its TXT record, leads where it is told, and is removed. */
export async function domainShowsItsRecord(c) {
  const slug = c.unique();
  const email = `${slug}@example.com`;
  const password = `correct horse ${slug}`;
  const host = `${slug}.example.org`;
  // Operators need no proof, so the domain is that of another workspace.
  const workspace = await c.api("POST", "/api/admin/workspaces", { slug });
  const user = await c.api("POST", `/api/admin/workspaces/${workspace.id}/users`, { email, role: "admin" });
  await c.api("POST", "/api/v1/invitation", { token: user.invitation.token, password });
  await another(c, async (page) => {
    await signIn(c, page, email, password);
    await open(c, "domains", page);
    await page.getByLabel("Host name").fill("localhost");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Host name").fill(host);
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("heading", { name: host, exact: true }).waitFor();
    await page.getByText("not proved yet").waitFor();
    await page.getByText(`_waypost.${host}`).waitFor();
    await page.getByText(/^waypost-[0-9a-f]{32}$/).waitFor();
    await page.getByText(`Targets of ${host}`).click();
    await saves(page);
    await page.getByLabel("Target of the root").fill("https://example.com/home");
    await page.getByLabel("Target during maintenance").fill("https://example.com/back-soon");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved").waitFor();
    await page.getByText("in maintenance", { exact: true }).waitFor();
    // What a colleague has ended meanwhile is not begun again by another change.
    await page.evaluate(async (name) => {
      const { domains } = await (await fetch("/api/v1/domains")).json();
      const { id } = domains.find((d) => d.host === name);
      const answer = await fetch(`/api/v1/domains/${id}`, {
        method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ maintenance_url: "" }),
      });
      if (!answer.ok) throw new Error(await answer.text());
    }, host);
    await page.getByLabel("Target of the root").fill("https://example.com/elsewhere");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("in maintenance", { exact: true }).waitFor({ state: "detached" });
    c.assert.equal(await page.getByLabel("Target during maintenance").inputValue(), "");
    await page.getByRole("button", { name: `Remove: ${host}` }).click();
    c.assert.ok(await dialog(page).getByRole("button", { name: "Remove" }).isDisabled());
    await dialog(page).getByLabel(`Type ${host} to confirm`).fill(host);
    await dialog(page).getByRole("button", { name: "Remove" }).click();
    await page.getByRole("heading", { name: host, exact: true }).waitFor({ state: "detached" });
  });
  await c.api("DELETE", `/api/admin/workspaces/${workspace.id}`);
  await open(c, "domains");
  await c.page.getByText("served", { exact: true }).first().waitFor();
  const { domains } = await c.api("GET", "/api/v1/domains");
  const names = await c.page.getByRole("button", { name: /^Remove: / }).evaluateAll((all) => all.map((b) => b.getAttribute("aria-label").slice(8)));
  c.assert.deepEqual(names, domains.filter((d) => d.id !== 1).map((d) => d.host), "the domain of the base URL stays");
  await c.axe();
  await c.narrow();
}

/** Without a session the account part says why it is empty; other addresses say that there is no such part. */
export async function partsSayWhyTheyAreEmpty(c) {
  const { credential } = await (await c.context.request.get(`${c.base}/api/v1/me`)).json();
  await open(c, "account");
  await c.page.getByText(credential === "none" ? "takes requests without a sign-in" : "Change the password").first().waitFor();
  await c.axe();
  await c.narrow();
  await open(c, "nothing");
  await c.page.getByText("The settings have no such part.").waitFor();
}
