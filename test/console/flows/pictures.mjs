// The pictures in docs/images: each screen in light, dark and narrow, with links as people
// have them.

const day = 86_400_000;
const links = [
  ["spring-sale", "https://shop.example.com/sale/spring?utm_source=newsletter", "Spring sale", ["newsletter", "shop"], 41],
  ["menu-berlin", "https://cafe.example.org/berlin/menu.pdf", "Menu, Berlin", ["qr", "restaurants"], 27],
  ["annual-report", "https://example.com/investors/annual-report-2026.pdf", "Annual report 2026", ["press"], 12],
  ["conference", "https://conf.example.net/2026/tickets", "Conference: tickets until Friday", ["events"], 33, { expires_at: new Date(Date.now() + 5 * day).toISOString() }],
  ["careers", "https://example.com/careers?lang=de", "Careers", ["hr"], 6],
  ["manual-x200", "https://support.example.com/x200/manual", "Manual of the X200", ["qr", "packaging"], 19],
  ["press-kit", "https://example.com/press/kit.zip", "Press kit", ["press"], 3, { active: false }],
  ["feedback", "https://forms.example.com/feedback/2026-11", "Feedback on the workshop", ["events"], 9],
];
const rules = [
  { name: "iPhones in Germany", when: [{ agent: ["ios"] }, { country: ["DE", "AT"] }], to: "https://apps.example.com/de/shop" },
  {
    name: "New page", when: [{ not: true, agent: ["bot"] }],
    split: { variants: [{ name: "old", weight: 70, to: "https://shop.example.com/sale/spring" }, { name: "new", weight: 30, to: "https://shop.example.com/sale/spring-2" }] },
  },
];
const agents = [
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:143.0) Gecko/20100101 Firefox/143.0",
  "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
  "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];
const referrers = ["", "https://news.example.org/", "https://www.example.com/blog", "https://social.example.net/"];

export async function eachScreen(c) {
  const { page } = c;
  await c.api("POST", "/api/v1/urls/bulk?wait=all", {
    links: links.toReversed().map(([custom_code, original_url, title, tags, , more]) => ({ custom_code, original_url, title, tags, ...more })),
  });
  for (const [code, , , , clicks] of links) {
    for (let i = 0; i < clicks; i++) {
      const headers = { "User-Agent": agents[i % agents.length], ...(referrers[i % 4] ? { Referer: referrers[i % 4] } : {}) };
      await fetch(`${c.edges[i % 3 === 0 ? 1 : 0]}/${code}`, { redirect: "manual", headers });
    }
  }
  await c.api("PATCH", "/api/v1/urls/spring-sale", { title: "Spring sale, extended" });
  await c.api("PATCH", "/api/v1/urls/spring-sale?wait=all", { original_url: "https://shop.example.com/sale/spring?utm_source=newsletter&week=2" });
  const open = async (path, ready) => {
    await page.goto(c.base + path);
    await page.locator("main").getByText(ready).first().waitFor();
    await page.locator(".waits").first().waitFor({ state: "detached" });
  };
  await page.goto(`${c.base}/console/links`);
  await page.getByRole("row").filter({ hasText: "Spring sale, extended" }).getByRole("cell", { name: /^Clicks: 4\d/ }).waitFor();
  await c.shot("console-links");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Type a command/ }).fill("spring");
  await page.getByRole("option", { name: /Spring sale/ }).waitFor();
  await c.shot("console-palette");
  await open("/console/links", "Spring sale, extended");
  await page.keyboard.press("c");
  await page.getByLabel("Target URL").fill("https://example.com/autumn");
  await c.shot("console-create");
  await open("/console/links/spring-sale?span=24h", "Spring sale, extended");
  await page.locator(".uplot canvas").waitFor();
  await c.shot("console-link");
  await page.getByRole("button", { name: "QR code" }).click();
  await page.getByRole("dialog").getByRole("img", { name: /^QR code of/ }).waitFor();
  await c.shot("console-qr");
  await c.api("PATCH", "/api/v1/urls/spring-sale?wait=all", { rules });
  await open("/console/links/spring-sale?rules=on", "iPhones in Germany: fails at");
  await page.getByRole("heading", { name: "Rules", exact: true }).evaluate((h) => h.scrollIntoView());
  await c.shot("console-rules");
  await open("/console/bin", "Bin");
  await c.shot("console-bin");
  await open("/console/overview", "Spring sale, extended");
  await c.shot("console-overview");
  await open("/console/import", "Import and export");
  const rows = links.map(([code, target, title, tags]) => `${target},${title.replace(",", ":")},${tags.join(";")},bit.ly/my-${code}`);
  await page.locator("input[type=file]").setInputFiles({ name: "bitly.csv", mimeType: "text/csv", buffer: Buffer.from(`long_url,title,tags,bitlink\n${rows.join("\n")}\n`) });
  await page.getByText("Links keep the codes of the file").waitFor();
  await c.shot("console-import");
  for (const part of ["members", "keys", "domains", "account"]) {
    await open(`/console/settings/${part}`, "Settings");
    await c.shot(`console-${part}`);
  }
  await open("/console/fleet", "All 2 edges serve the newest state.");
  await c.shot("console-fleet");
  await open("/console/ranges", "eu-west-1");
  await c.shot("console-ranges");
  await open("/console/audit", "Audit log");
  await c.shot("console-audit");
  const { invitation } = await c.api("POST", "/api/v1/users", { email: "grace@console.example", name: "Grace", role: "member" });
  await open(`/console/invitation#${invitation.token}`, "Set your password");
  await c.shot("console-invitation");
  await open("/console/sign-in", "Sign in to Waypost");
  await c.shot("console-sign-in");
}
