// Rules of a link: made by keyboard, followed on an edge, explained and counted.

/** Each flow opens the page where it begins. */
export const opens = true;

const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1";
const desktop = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/** open shows a link, with its rules being edited on demand. */
async function open(c, link, query = "") {
  await c.page.goto(`${c.base}/console/links/${link.short_code}${query}`);
  await c.page.getByRole("heading", { level: 1, name: link.title }).waitFor();
}

const create = (c, fields = {}) => c.api("POST", "/api/v1/urls?wait=all", { original_url: "https://example.com/all", title: c.unique(), ...fields });

const toast = (c, text) => c.page.locator(".toast", { hasText: text });

/** follow returns where an edge leads a visitor. */
async function follow(c, link, userAgent) {
  const answer = await fetch(`${c.edges[0]}/${link.short_code}`, { redirect: "manual", headers: { "User-Agent": userAgent } });
  return answer.headers.get("Location");
}

export async function rulesAreMadeByKeyboardFollowedExplainedAndCounted(c) {
  const { page } = c;
  const { keyboard } = page;
  const link = await create(c);
  await open(c, link);
  await c.tab(page.getByRole("button", { name: "Rules" }));
  await keyboard.press("Enter");
  const form = page.getByRole("form", { name: "Edit rules" });
  const focused = (locator) => locator.and(page.locator(":focus")).waitFor();
  const press = async (name) => {
    await c.tab(form.getByRole("button", { name }).last());
    await keyboard.press("Enter");
  };
  const type = async (field, text) => {
    await c.tab(field);
    await keyboard.type(text);
  };

  await press("Add a rule");
  await focused(form.getByLabel("Name"));
  await keyboard.type("iPhones");
  await press("Add a condition");
  await focused(form.getByRole("combobox", { name: "Condition 1", exact: true }));
  await c.tab(form.getByRole("checkbox", { name: "iOS" }));
  await keyboard.press("Space");
  await type(form.getByLabel("Target"), "https://example.com/ios");

  await press("Add a rule");
  const second = form.getByRole("listitem").nth(1);
  await focused(second.getByLabel("Name"));
  await keyboard.type("Half");
  await type(second.getByLabel("Then"), "d"); // divide among variants
  await type(second.getByLabel("Name").nth(1), "A");
  await type(second.getByLabel("Target").first(), "https://example.com/a");
  await type(second.getByLabel("Name").nth(2), "B");
  await type(second.getByLabel("Weight").nth(1), "150");
  await second.getByText("75% of visitors").waitFor();
  await type(second.getByLabel("Target").last(), "https://example.com/b");
  await page.getByText("This answer is for the rules as they are saved").waitFor();
  await c.axe();
  await c.narrow();
  await press("Save");
  await toast(c, "On every edge").waitFor();
  await focused(page.getByRole("heading", { name: "Rules", exact: true }));

  c.assert.equal(await follow(c, link, phone), "https://example.com/ios");
  const other = await follow(c, link, desktop);
  c.assert.match(other, /^https:\/\/example\.com\/[ab]$/);
  const same = await c.api("GET", `/api/v1/explain?url=${link.short_code}&address=127.0.0.1&agent=${encodeURIComponent(desktop)}`);
  c.assert.equal(same.result.location, other);

  const answer = page.getByRole("region", { name: "Where does it lead?" });
  await answer.getByText("iPhones decides.").waitFor();
  await answer.getByText("https://example.com/ios").waitFor();
  await answer.getByLabel("Device").selectOption("Windows");
  await answer.getByText("iPhones: fails at: Device or program is iOS").waitFor();
  await answer.getByText("Half decides.").waitFor();
  await answer.getByText(/^[AB] is chosen\./).waitFor();

  const variant = other.at(-1).toUpperCase();
  const variants = page.getByRole("region", { name: "Variants" });
  await variants.getByRole("row", { name: `Half: ${variant} 1 100% 21% – 100%` }).waitFor();
  await page.getByRole("region", { name: "Deciding rules" }).getByRole("button", { name: /^iPhones 1/ }).waitFor();
  await variants.getByRole("button", { name: `Half: ${variant}` }).click();
  await variants.getByRole("application", { name: /Variants: Half: [AB] by day/ }).locator("canvas").waitFor();
  await variants.getByRole("status").filter({ hasText: /^1 click$/ }).waitFor();
  await c.axe();
  await c.narrow();
}

export async function faultsAreAtTheirFieldAndWhatWasTypedStays(c) {
  const { page } = c;
  const rules = [{ id: 1, name: "first", when: [{ country: ["DE"] }], to: "https://example.com/1" }, { id: 2, name: "second", to: "https://example.com/2" }];
  const link = await create(c, { rules });
  const stored = async () => (await c.api("GET", `/api/v1/urls/${link.short_code}`)).rules.map((r) => r.name);
  await open(c, link, "?rules=on");
  const form = page.getByRole("form", { name: "Edit rules" });
  const country = form.getByRole("textbox", { name: "Country" });
  await country.fill("at, d1");
  const down = form.getByRole("button", { name: "Move down: first" });
  await down.click();
  await form.getByText("first: place 2 of 2").waitFor({ state: "attached" });
  await form.getByRole("button", { name: "Move up: first" }).and(page.locator(":focus")).waitFor();
  await form.getByRole("button", { name: "Save" }).click();
  await country.and(page.locator("[aria-invalid]")).waitFor();
  await form.getByRole("listitem").nth(1).getByRole("alert").getByText("the code of a country in two capital letters").waitFor();
  await c.axe();

  // Neither a reload nor a change by someone else loses what was typed.
  await c.api("PATCH", `/api/v1/urls/${link.short_code}`, { rules: [{ id: 3, name: "theirs", status: 410 }] });
  await page.reload();
  c.assert.equal(await country.inputValue(), "at, d1");
  await country.fill("at");
  await form.getByText("Austria").waitFor();
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText("Someone changed the rules in the meantime").waitFor();
  await form.getByText("theirs: For every visitor → answer 410: gone").waitFor();
  c.assert.deepEqual(await stored(), ["theirs"]);
  await form.getByRole("button", { name: "Replace them with mine" }).click();
  await toast(c, "Saved").waitFor();
  c.assert.deepEqual(await stored(), ["second", "first"]);
  await toast(c, "Saved").getByRole("button", { name: "Undo" }).click();
  await toast(c, "Undone").waitFor();
  c.assert.deepEqual(await stored(), ["theirs"]);

  await page.getByRole("button", { name: "Edit rules" }).click();
  await form.getByRole("button", { name: "Remove: theirs" }).click();
  await form.getByRole("button", { name: "Add a rule" }).and(page.locator(":focus")).waitFor();
  await form.getByRole("button", { name: "Save" }).click();
  await toast(c, "Saved").waitFor();
  c.assert.equal((await c.api("GET", `/api/v1/urls/${link.short_code}`)).rules, undefined);
}
