// Runs flows in Chromium, for the console's test: CONSOLE_INPUT says where, each line of
// input names an area, which is a file in flows/, with what its flows may need to know, and
// each flow of it is a line of JSON on the output. One without a name ends the area.
import assert from "node:assert/strict";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const input = JSON.parse(process.env.CONSOLE_INPUT);
const { dev, user, root, seen, images, only, long } = input;
const require = createRequire(path.join(root, "web/package.json"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const base = dev.api;
const named = new URL(base);
named.hostname = "console.test";
const patience = 30_000; // milliseconds: the machine may be slow
const limit = 100_000; // milliseconds of a flow; a test that is silent for two minutes is ended

const view = { width: 1280, height: 900 };

let current; // the browser, once it has started

/** browser returns a browser, which is started again when it has died. */
async function browser() {
  if (current && !(await current).isConnected()) current = undefined;
  // The features are those that playwright switches off and that matter here, and one that
  // starts a process for each context. Flows reach the system by a name, too, over which
  // browsers trust plain HTTP as little as over the address of another machine.
  current ??= chromium.launch({
    executablePath: input.browser,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", `--host-resolver-rules=MAP ${named.hostname} 127.0.0.1,MAP target.example 127.0.0.1`, "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-features=PreloadTopChromeWebUI,HttpsUpgrades,MediaRouter," +
      "OptimizationHints,PaintHolding,ThirdPartyStoragePartitioning,LensOverlay,NetworkTimeServiceQuerying"],
  });
  return current;
}

/** newContext returns a browser of its own: cookies, storage, permissions. */
async function newContext(options = {}) {
  const context = await (await browser()).newContext({ viewport: view, locale: "en-GB", timezoneId: "Europe/Berlin", ...options });
  context.setDefaultTimeout(patience);
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  return context;
}

/** signIn signs a user in as a person does. */
async function signIn(page, who = user) {
  await page.goto(`${base}/console/sign-in`);
  await page.getByLabel("Email address").fill(who.email);
  await page.getByLabel("Password").fill(who.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1 }).filter({ hasText: "Links" }).waitFor();
}

/** api asks the API of the development system, as its operator. */
async function api(method, where, body) {
  const answer = await fetch(base + where, {
    method, headers: body === undefined ? {} : { "Content-Type": "application/json" }, ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
  return text === "" ? undefined : JSON.parse(text);
}

const darkened = new Set(); // screens; pages in make test-long
const looked = new Set(); // screens with the headings of their dialogs

let counter = 0;
const unique = () => `t${process.pid}${Date.now().toString(36)}${counter++}`;

/** helpers returns what a flow works with. */
function helpers(page, context, told) {
  return {
    page, context, told, base, named: named.origin, dev, user, root, api, assert, unique, newContext, signIn,
    edges: dev.edges.map((e) => e.url),
    /** axe fails on any violation of WCAG 2.2 AA that it finds, in light and for the first
     * state of a screen in dark. Only colours differ between the two, and so do their rules.
     * In make test it looks at the first state of each screen and of each dialog, and at five
     * rows of a table, which are alike. */
    async axe(on = page) {
      const all = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
      const schemes = [["light", all], ["dark", ["color-contrast", "link-in-text-block"]]];
      const screen = long ? on : new URL(on.url()).pathname.replace(/^(\/console\/\w+)\/.*/, "$1/one");
      const exclude = long ? [] : [["tbody tr:nth-child(n + 6)"]];
      const shown = `${new URL(on.url()).pathname.replace(/(links|fleet)\/.*/, "$1/one")} ${await on.locator("dialog[open] h2").allTextContents()}`;
      if (!long && looked.has(shown)) return;
      looked.add(shown);
      for (const [colorScheme, runOnly] of darkened.has(screen) ? schemes.slice(0, 1) : schemes) {
        await on.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        if (!(await on.evaluate("typeof axe"))?.includes("object")) await on.evaluate(axeSource);
        const { violations } = await on.evaluate(([where, o]) => globalThis.axe.run(where, o), [{ exclude }, { runOnly, resultTypes: ["violations"] }]);
        const found = violations.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join("\n  ")}`);
        assert.equal(found.length, 0, `${on.url()} in ${colorScheme}:\n${found.join("\n")}`);
      }
      darkened.add(screen);
      await on.emulateMedia({ colorScheme: null, reducedMotion: null });
    },
    /** amid runs a step while a link is clicked all the time, and while some answers take
     * longer than the pause between two renewals of a screen. */
    async amid(link, slow, step) {
      await page.route(slow, async (route) => {
        await new Promise((done) => setTimeout(done, 3200));
        await route.continue().catch(() => undefined); // unroute has let it pass
      });
      let over = false;
      const clicks = (async () => {
        for (; !over; await new Promise((done) => setTimeout(done, 300))) await fetch(new URL(link.short_code, dev.edges[0].url), { redirect: "manual" });
      })();
      try {
        await step();
      } finally {
        over = true;
        await clicks;
        await page.unroute(slow);
      }
    },
    /** focused waits until the focus is on an element. */
    focused: (locator) => locator.and(locator.page().locator(":focus")).waitFor(),
    /** tab presses Tab until the focus is on an element, as a person without a pointer does. */
    async tab(locator) {
      await locator.waitFor();
      const element = await locator.elementHandle();
      for (let presses = 0; presses < 200; presses++) {
        if (await element.evaluate((e) => e === document.activeElement)) return;
        await locator.page().keyboard.press("Tab");
      }
      assert.fail(`Tab does not reach ${await element.evaluate((e) => e.outerHTML.slice(0, 200))}`);
    },
    /** narrow fails when the page scrolls sideways at 320 pixels. */
    async narrow() {
      await page.setViewportSize({ width: 320, height: 800 });
      const wide = await page.evaluate(`(() => {
        const over = document.documentElement.scrollWidth - 320;
        if (over <= 0) return "";
        const all = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 321 && !e.closest(".scroll"));
        return over + " pixels too wide: " + all.slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join(" | ");
      })()`);
      await page.setViewportSize(view);
      assert.equal(wide, "", page.url());
    },
    /** shot takes pictures for docs/images, in light, dark and narrow. */
    async shot(name) {
      mkdirSync(images, { recursive: true });
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await page.screenshot({ path: path.join(images, `${name}.png`) });
      await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
      await page.screenshot({ path: path.join(images, `${name}-dark.png`) });
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await page.setViewportSize({ width: 320, height: 700 });
      await page.screenshot({ path: path.join(images, `${name}-narrow.png`) });
      await page.setViewportSize(view);
      await page.emulateMedia({ colorScheme: null, reducedMotion: null });
    },
  };
}

/** watch collects what no page may do: errors in scripts, breaches of the content security
 * policy, and requests to any other host. */
function watch(page, faults) {
  page.on("pageerror", (e) => faults.push(`script error: ${e.stack ?? e}`));
  page.on("console", (m) => {
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) faults.push(`console: ${m.text()}`);
  });
  page.on("request", (r) => {
    const to = new URL(r.url());
    if (["http:", "https:", "ws:", "wss:"].includes(to.protocol) && to.origin !== base) faults.push(`request to ${to.origin}`);
  });
}

/** Flows use no pointer: a click is the focus, which the Tab key must be able to reach, and
 * Enter or Space. Only what is no control, such as a heading, is clicked. */
function byKeyboard(locator) {
  const proto = Object.getPrototypeOf(locator);
  const click = proto.click;
  proto.click = async function (options) {
    await this.waitFor(options);
    const element = await this.elementHandle();
    const control = (await element.evaluateHandle((e) => e.closest("a[href], button, summary, input, select, textarea, label, [tabindex]"))).asElement();
    if (!control || (await control.evaluate((e) => e.matches("label, main, tr")))) return click.call(this, options);
    await this.page().waitForFunction((e) => !e.disabled || !e.isConnected, control);
    const reached = await control.evaluate((e) => {
      e.focus();
      return e.tabIndex >= 0 && document.activeElement === e;
    });
    assert.ok(reached, `no key reaches ${await control.evaluate((e) => e.outerHTML.slice(0, 200))}`);
    const key = await control.evaluate((e) => (e.matches("input[type=checkbox], input[type=radio]") ? "Space" : e.matches("input, select, textarea") ? "" : "Enter"));
    if (key) await this.page().keyboard.press(key);
  };
}

let cookies = []; // of the session, which flows share as long as none ends it
let patched = false;

/** signedIn returns a browser of its own in which the user has signed in. */
async function signedIn() {
  const context = await newContext();
  await context.addCookies(cookies);
  const me = await (await context.request.get(`${base}/api/v1/me`)).json();
  const page = await context.newPage();
  if (!patched) byKeyboard(page.locator("body"));
  patched = true;
  if (me.credential !== "session") {
    await signIn(page);
    cookies = await context.cookies();
  }
  return { context, page };
}

const running = new Set(); // the faults of each flow that runs

// A request that is answered when its page is closed fails in no flow's hands.
process.on("unhandledRejection", (e) => running.forEach((faults) => faults.push(`not waited for: ${e?.stack ?? e}`)));

/** within fails when a promise takes longer than a flow may. */
function within(promise) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`not done after ${limit / 1000} s`)), limit); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** runFlow runs a flow in a browser of its own, and returns why it failed, or "". */
async function runFlow(flow, opens, told, picture) {
  let context;
  let page;
  const faults = [];
  running.add(faults);
  try {
    ({ context, page } = await signedIn());
    watch(page, faults);
    await within((async () => {
      if (!opens) {
        await page.goto(`${base}/console/links`);
        await page.getByRole("heading", { level: 1 }).first().waitFor();
      }
      await flow(helpers(page, context, told));
    })());
    assert.deepEqual(faults, []);
    return "";
  } catch (e) {
    mkdirSync(seen, { recursive: true });
    await page?.screenshot({ path: picture, timeout: 5000 }).catch(() => undefined);
    return `${e.stack ?? e}\nseen: ${picture}\n${faults.join("\n")}`;
  } finally {
    running.delete(faults);
    for (const p of context?.pages() ?? []) await p.unrouteAll({ behavior: "ignoreErrors" }).catch(() => undefined);
    await within(context?.close()).catch(async () => (await current).close());
  }
}

/** run runs the flows of an area, two at a time, because most of their time is waiting. Those
 * that the area names in alone disturb others, or are disturbed, and have their own time. */
async function run(area, told) {
  const flows = await import(pathToFileURL(path.resolve("flows", `${area}.mjs`)).href);
  const all = Object.entries(flows).filter(([name, flow]) => typeof flow === "function" && (!only || name === only) && (long || !flows.long?.includes(name)));
  const one = async ([name, flow]) => {
    const began = performance.now();
    const error = await runFlow(flow, flows.opens, told, path.join(seen, `${area}-${name}.png`));
    console.log(JSON.stringify({ flow: name, error, seconds: (performance.now() - began) / 1000 }));
  };
  const alone = ([name]) => !!flows.alone?.includes(name);
  const together = all.filter((f) => !alone(f));
  const take = async () => {
    for (let f; (f = together.shift());) await one(f);
  };
  await Promise.all([take(), take()]);
  for (const f of all.filter(alone)) await one(f);
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  await run(...line.split(" "));
  console.log("{}");
}
// A browser that does not close ends with this process.
await Promise.race([(await current)?.close(), new Promise((done) => setTimeout(done, 10_000))]);
process.exit();
