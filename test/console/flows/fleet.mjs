// Flows of the screens for operators: fleet, key ranges, audit log.

/** Each flow opens the page where it begins. */
export const opens = true;

/** Edges that are killed or drained disturb other flows. */
export const alone = ["fleetDrainsAnEdge", "fleetNamesAKilledEdge"];

/** make test-long has these: variations of other flows, answers that are made up, and waits. */
export const long = [
  "fleetSaysWhatIsWrong", "auditPagesFollowOneAnother", "rangesSayThatKeysAreHeld", "fleetDrainsAnEdge",
];

/** The edges are listed by region, and the page says in words that all is well. */
export async function fleetShowsLiveEdges(c) {
  const { edges } = await c.api("GET", "/api/admin/edges");
  await c.page.goto(`${c.base}/console/fleet`);
  await c.page.getByRole("heading", { name: `All ${edges.length} edges serve the newest state.` }).waitFor();
  for (const edge of edges) {
    await c.page.getByRole("link", { name: `${edge.region} 1/1 edges without a finding` }).waitFor();
    const row = c.page.getByRole("row", { name: new RegExp(edge.node) });
    await row.getByText("serving", { exact: true }).waitFor();
    c.assert.ok((await row.innerText()).includes(edge.version), edge.version);
  }
  // A region of the map leads to its part of the list, also by keyboard.
  await c.page.getByRole("link", { name: new RegExp(`^${edges[0].region} `) }).focus();
  await c.page.keyboard.press("Enter");
  await c.page.locator("th:focus").filter({ hasText: edges[0].region }).waitFor();
  // The state arrives without a request of the page.
  const asOf = c.page.getByText(/^As of /);
  const first = await asOf.innerText();
  await c.page.waitForFunction((t) => ![...document.querySelectorAll(".head span")].some((s) => s.textContent === t), first);
  await c.axe();
  await c.narrow();
}

/** An edge that is killed is named, with what to do, and so is its return. */
export async function fleetNamesAKilledEdge(c) {
  const { node, region, pid } = c.dev.edges.at(-1);
  await c.page.goto(`${c.base}/console/fleet`);
  const well = c.page.getByRole("heading", { name: /edges serve the newest state/ });
  await well.waitFor();
  process.kill(c.dev.pid, "SIGSTOP"); // it would start the edge again at once
  try {
    process.kill(pid, "SIGKILL");
    const fault = c.page.getByRole("listitem").filter({ hasText: `${node} in ${region} cannot be reached: it is silent` });
    await fault.waitFor();
    await c.page.getByRole("heading", { name: "1 finding needs attention." }).waitFor();
    c.assert.match(await fault.innerText(), /since .*waypost edges gone/s);
    await c.page.getByRole("row", { name: new RegExp(node) }).getByText("silent", { exact: true }).waitFor();
  } finally {
    process.kill(c.dev.pid, "SIGCONT");
  }
  await well.waitFor();
}

/** Each thing that is wrong is said in words, with what to do. */
export async function fleetSaysWhatIsWrong(c) {
  const { edges: [real] } = await c.api("GET", "/api/admin/edges");
  const now = Date.now();
  const before = (seconds) => new Date(now - seconds * 1000).toISOString();
  const edge = (node, region, more) => ({ ...real, state: "alive", via: "report", credential: "own", last_seen: before(0), node, region, conditions: [], ...more });
  const wrong = (name, severity, what, of = "") => [{ name, severity, of, since: before(600), what, do: `Mend ${name}.`, page: "" }];
  await c.page.route("**/api/v1/live", (route) => route.abort());
  await c.page.route("**/api/admin/edges", (route) => route.fulfill({ json: { edges: [
    edge("eu-1", "eu-west-1", { replica: "held", held: "mass-delete", conditions: wrong("EdgeHeld", "critical", "holds back a change: mass-delete") }),
    edge("ap-1", "ap-southeast-2", { replica: "degraded", conditions: wrong("ReplicaDiskLow", "critical", "has almost no room on its disk") }),
    edge("br-1", "sa-east-1", { state: "silent", via: "record", since: before(4000), conditions: wrong("EdgeDown", "critical", "cannot be reached: it is silent") }),
    edge("x-1", "moon", {}),
    edge("de-1", "de-fra", { credential: "shared" }),
  ], control_planes: [
    { node: "one", region: "eu-west-1", state: "alive", version: "1", started_at: before(9000), last_seen: before(0), answers: true,
      conditions: wrong("KGSPoolLow", "warning", "has fewer than 1,000,000 keys", "eu-west-1") },
    { node: "two", region: "eu-west-1", state: "silent", version: "1", started_at: before(9000), last_seen: before(60), answers: false,
      conditions: wrong("ControlPlaneDown", "critical", "cannot be reached") },
  ] } }));
  await c.page.goto(`${c.base}/console/fleet`);
  await c.page.getByRole("heading", { name: "5 findings need attention." }).waitFor();
  const found = await c.page.getByRole("list", { name: "What is wrong" }).innerText();
  for (const words of [
    /eu-1 in eu-west-1 holds back a change: mass-delete\. since/, /Mend EdgeHeld\./, /ap-1 in ap-southeast-2 has almost no room on its disk/,
    /br-1 in sa-east-1 cannot be reached: it is silent/, /eu-west-1 has fewer than 1,000,000 keys/, /two cannot be reached/,
    /1 edge has the token that all edges may share/,
  ]) c.assert.match(found, words);
  await c.page.getByRole("row", { name: /^two / }).getByText("silent", { exact: true }).waitFor();
  await c.page.getByRole("heading", { name: "Regions without a known place" }).waitFor();
  await c.axe();
  await c.narrow();
  await c.page.getByRole("link", { name: "Accept the held change" }).click();
  await c.page.getByRole("dialog", { name: "Let eu-1 take what it holds back" }).waitFor();
  await c.page.keyboard.press("Escape");
  await c.page.getByRole("heading", { level: 1, name: "eu-1" }).and(c.page.locator(":focus")).waitFor();
  await c.axe();
}

/** The page turns grey and says since when, when nothing arrives. */
export async function fleetSaysWhenItIsOld(c) {
  await c.page.goto(`${c.base}/console/fleet`);
  await c.page.getByRole("heading", { name: /edges serve the newest state/ }).waitFor();
  await c.page.clock.install();
  await c.page.route("**/api/**", (route) => route.abort());
  await c.page.clock.fastForward(15_000);
  await c.page.getByRole("alert").filter({ hasText: /Nothing has arrived from the control plane since/ }).waitFor();
  c.assert.equal(await c.page.getByRole("heading", { name: /serve the newest state/ }).count(), 0);
  await c.axe();
  await c.page.getByRole("row", { name: /serving/ }).first().waitFor();
}

/** A verification shows its outcome. */
export async function fleetVerifiesAnEdge(c) {
  const { node } = c.dev.edges[0];
  await c.page.goto(`${c.base}/console/fleet`);
  await c.page.getByRole("link", { name: node, exact: true }).click();
  await c.page.getByRole("heading", { level: 1, name: node }).waitFor();
  await c.axe();
  await c.narrow();
  await c.page.getByRole("link", { name: "Verify", exact: true }).click();
  const dialog = c.page.getByRole("dialog", { name: `Verify ${node}` });
  await dialog.getByRole("button", { name: "Verify" }).click();
  await dialog.waitFor({ state: "detached" });
  await c.page.getByText(new RegExp(`${node} is sound: [\\d,]+ records?`)).waitFor();
  await c.page.getByText(/^sound, /).waitFor();
}

/** An edge is drained and takes visitors again. */
export async function fleetDrainsAnEdge(c) {
  const { node } = c.dev.edges[0];
  await c.page.goto(`${c.base}/console/fleet?edge=${node}`);
  await c.page.getByRole("link", { name: "Drain", exact: true }).click();
  await c.page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  try {
    await c.page.getByText(`${node} sends new visitors elsewhere.`).waitFor();
  } finally {
    await c.page.getByRole("link", { name: "End the drain" }).first().click();
    await c.page.getByRole("dialog").getByRole("button", { name: "End the drain" }).click();
  }
  await c.page.getByText(`${node} takes visitors again.`).waitFor();
  await c.page.getByRole("link", { name: "Drain", exact: true }).waitFor();
}

/** A dangerous act needs the name of the edge. */
export async function fleetAsksForTheName(c) {
  const { node } = c.dev.edges[0];
  await c.page.goto(`${c.base}/console/fleet?edge=${node}&act=revoke`);
  const dialog = c.page.getByRole("dialog", { name: `Revoke the credential of ${node}` });
  const button = dialog.getByRole("button", { name: "Revoke the credential" });
  c.assert.ok(await button.isDisabled());
  await dialog.getByLabel(`Type ${node} to confirm`).fill(node);
  c.assert.ok(await button.isEnabled());
  await c.axe();
  await c.page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await c.page.getByRole("heading", { level: 1, name: node }).and(c.page.locator(":focus")).waitFor();
}

/** An enrolment token is shown once, with its command, and stands in the audit log. */
export async function enrolmentIsShownOnceAndAudited(c) {
  const label = c.unique();
  await c.page.goto(`${c.base}/console/fleet`);
  await c.page.getByRole("link", { name: "Enrol an edge" }).first().click();
  const dialog = c.page.getByRole("dialog");
  await c.axe();
  await dialog.getByLabel("Region").fill("eu-west-1");
  await dialog.getByLabel("Label for the audit log (optional)").fill(label);
  await dialog.getByLabel("Valid for").selectOption("600");
  await dialog.getByRole("button", { name: "Make the token" }).click();
  const token = (await dialog.locator("code").first().innerText()).trim();
  c.assert.match(token, /^wp_enrl_/);
  c.assert.match(await dialog.locator("pre").innerText(), new RegExp(`WAYPOST_ENROL_TOKEN=${token} waypost edge --control-urls http`));
  await c.axe();
  await c.narrow();
  await dialog.getByRole("button", { name: "Done" }).click();
  c.assert.equal(await c.page.getByText(token).count(), 0);

  await c.page.goto(`${c.base}/console/audit`);
  await c.page.getByLabel("Search the loaded entries").pressSequentially(label);
  await c.page.getByText(/^1 of /).waitFor();
  c.assert.ok(new URL(c.page.url()).searchParams.get("q") === label, "the search is in the address");
  const row = c.page.getByRole("row", { name: /Made a token with which an edge enrols/ });
  c.assert.match(await row.innerText(), /region: eu-west-1/);
  c.assert.ok(!(await c.page.content()).includes(token));
  const saved = c.page.waitForEvent("download");
  await c.page.getByRole("button", { name: "Download CSV" }).click();
  const stream = await (await saved).createReadStream();
  let csv = "";
  for await (const part of stream) csv += part;
  c.assert.match(csv, /^id,at,workspace,actor,action,subject,detail\r\n/);
  c.assert.match(csv, new RegExp(`edges\\.enrol,.*${label}`));
  await c.page.getByLabel("All workspaces").check();
  await c.page.getByRole("columnheader", { name: "Workspace" }).waitFor();
  c.assert.equal(new URL(c.page.url()).searchParams.get("all"), "true");
  await c.axe();
  await c.narrow();
}

/** Pages of the audit log follow one another, and all that are loaded are downloaded. */
export async function auditPagesFollowOneAnother(c) {
  const entry = (id, actor) => ({ id, at: "2031-05-06T07:08:09Z", actor, action: "moon.land", subject: "moon", detail: null, workspace: "default" });
  await c.page.route("**/api/admin/audit?**", (route) => route.fulfill({
    json: route.request().url().includes("cursor=next") ? { entries: [entry(1, "Zoë, \"the\" second")], next_cursor: "" } : { entries: [entry(2, "=HYPERLINK(1)")], next_cursor: "next" },
  }));
  await c.page.goto(`${c.base}/console/audit`);
  await c.page.getByRole("cell", { name: "moon.land" }).waitFor(); // an unknown act stays as it is
  await c.page.getByRole("button", { name: "Show more" }).click();
  await c.page.getByText("There are no older entries.").waitFor();
  const saved = c.page.waitForEvent("download");
  await c.page.getByRole("button", { name: "Download CSV" }).click();
  let csv = "";
  for await (const part of await (await saved).createReadStream()) csv += part;
  c.assert.equal(csv.split("\r\n")[1], "2,2031-05-06T07:08:09Z,default,'=HYPERLINK(1),moon.land,moon,");
  c.assert.equal(csv.split("\r\n")[2], "1,2031-05-06T07:08:09Z,default,\"Zoë, \"\"the\"\" second\",moon.land,moon,");
}

/** Key ranges show the supply of both regions, the plan with its command, and a code taken apart. */
export async function rangesShowSupplyPlanAndCode(c) {
  const link = await c.api("POST", "/api/v1/urls", { original_url: `https://example.com/${c.unique()}` });
  try {
    const { regions } = await c.api("GET", "/api/admin/ranges");
    await c.page.goto(`${c.base}/console/ranges`);
    const supply = c.page.getByRole("group", { name: "Supply of the regions" });
    for (const { region } of regions) await supply.getByRole("row", { name: new RegExp(region) }).waitFor();
    await c.page.getByText(/prefixes are free/).first().waitFor();
    await c.page.getByText(/^Move (range|the part)/).first().waitFor();
    await c.page.getByText(/waypost ranges apply plan\.json/).first().waitFor();
    const saved = c.page.waitForEvent("download");
    await c.page.getByRole("button", { name: "Download plan.json" }).click();
    let plan = "";
    for await (const part of await (await saved).createReadStream()) plan += part;
    c.assert.ok(JSON.parse(plan).fingerprint);
    await c.page.getByLabel("Code", { exact: true }).fill(link.short_code);
    await c.page.getByRole("button", { name: "Take a code apart" }).click();
    await c.page.getByText("Issued: a link or a reserved key has it.").waitFor();
    await c.axe();
    await c.narrow();
  } finally {
    await c.api("DELETE", `/api/v1/urls/${link.short_code}`);
  }
}

/** Keys that are held back are said loudly, with the command that goes on. */
export async function rangesSayThatKeysAreHeld(c) {
  await c.page.route("**/api/admin/ranges", async (route) => {
    const answer = await route.fetch();
    const space = await answer.json();
    await route.fulfill({ response: answer, json: {
      ...space, held: "no control plane remembers", held_since: "2031-05-06T07:08:09Z", resume_gap: 1_400_000,
      free_prefixes: 0, regions: [{ region: "moon", unissued: 500_000, rate_per_minute: 800, minutes_left: 625 }],
      ranges: [{ id: 4711, region: "moon", prefix: "x", lo: 0, hi: 5000, next: 1000, returned: 0, generation: 1, state: "retired", rate_per_minute: 0, minutes_left: null, leases: [], created_at: "2031-05-06T07:08:09Z" }],
    } });
  });
  await c.page.goto(`${c.base}/console/ranges`);
  const alert = c.page.getByRole("alert").filter({ hasText: "No key is issued." });
  await alert.getByText("waypost ranges resume", { exact: true }).waitFor();
  c.assert.match(await alert.innerText(), /1,400,000 counters further/);
  await c.page.getByText("moon runs out of keys in 10 hours, and no prefix is free.").waitFor();
  await c.page.getByLabel("Show retired ranges").check();
  await c.page.getByRole("row", { name: "4711 x moon retired 100% 0 0 a minute nothing is left none" }).waitFor();
  await c.axe();
  await c.narrow();
}

/** A viewer sees none of these screens. */
export async function viewersSeeNoOperation(c) {
  const email = `${c.unique()}@example.com`;
  const password = "a long password of a viewer";
  const user = await c.api("POST", "/api/v1/users", { email, role: "viewer", password });
  const context = await c.page.context().browser().newContext({ locale: "en-GB" });
  try {
    const page = await context.newPage();
    await page.goto(`${c.base}/console/sign-in`);
    await page.getByLabel("Email address").fill(email);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Links", exact: true }).waitFor();
    for (const name of ["Fleet", "Key ranges", "Audit log"]) c.assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Type a command/ }).fill("Audit log");
    await page.getByText("Nothing found").waitFor();
    for (const path of ["fleet", "ranges"]) {
      await page.goto(`${c.base}/console/${path}`);
      await page.getByText("This screen is for operators: administrators of the default workspace.").waitFor();
    }
    await page.goto(`${c.base}/console/audit`);
    await page.getByText("The audit log is for administrators of the workspace.").waitFor();
  } finally {
    await context.close();
    await c.api("DELETE", `/api/v1/users/${user.user?.id ?? user.id}`);
  }
}
