import assert from "node:assert/strict";
import { test } from "node:test";
import { fingerprint, shapeOf, type NewLink } from "./rows";
import { begun, refusals, run, unfinished, type Progress } from "./run";

const stored = new Map<string, string>();
Object.assign(globalThis, {
  localStorage: { getItem: (k: string) => stored.get(k) ?? null, setItem: (k: string, v: string) => stored.set(k, v), removeItem: (k: string) => stored.delete(k) },
  setTimeout: (f: () => void) => setImmediate(f), // no pause takes time
});

const failed = (type: string) => ({ status: 503, error: { type: `urn:waypost:problem:${type}`, title: "", status: 503, detail: "of the test" } });

/** Api creates links like the API, and keeps its answers under their keys. */
class Api {
  created: string[] = [];
  domains: (string | undefined)[] = [];
  sent: [string | undefined, number][] = [];
  kept = new Map<string, unknown>();
  /** For each request how many links are done, and why not the others; "lost": the answer does not arrive. */
  steps: [number, string?][] = [];

  constructor() {
    globalThis.fetch = (async (url: string, { headers, body }: { headers: Record<string, string>; body: string }) => {
      const { links } = JSON.parse(body) as { links: NewLink[] };
      const key = headers["Idempotency-Key"];
      this.domains.push(...links.map((l) => l.domain));
      this.sent.push([key?.replace(/^import-\w+-/, ""), links.length]);
      if (key && this.kept.has(key)) return Response.json(this.kept.get(key), { headers: { "Idempotency-Replayed": "true" } });
      const [done, why = ""] = this.steps.shift() ?? [links.length];
      if (why === "in-progress") return Response.json({ ...failed(why).error, status: 409 }, { status: 409 });
      const results = links.map((l, i) => {
        if (i >= done) return failed(why);
        if (l.original_url.includes("//localhost")) return { status: 422, error: { type: "urn:waypost:problem:invalid", title: "", status: 422, detail: "a local name" } };
        if (!url.includes("dry_run")) this.created.push(l.original_url);
        return { status: 201 };
      });
      if (key && results.some((r) => r.status === 201)) this.kept.set(key, { results });
      if (why === "lost") throw new TypeError("the connection broke");
      return Response.json({ results });
    }) as unknown as typeof fetch;
  }
}

/** send runs over a file, and returns how far it came and what was refused. */
async function send(text: string, dry: boolean, { from = begun(false, ""), stop = false, domain = "" } = {}) {
  const file = new File([text], "links");
  const job = { file, shape: await shapeOf(file), fingerprint: await fingerprint(file), dedupe: false, domain };
  const refused = refusals(from, job.shape);
  const ended = new AbortController();
  let progress: Progress = from;
  let error: unknown;
  try {
    await run(job, dry, from, refused, { progress: (p) => { progress = p; }, pause: (p) => { if (p && stop) ended.abort(); } }, ended.signal);
  } catch (e) {
    error = e;
  }
  return { job, progress, error, shown: refused.shown.map((r) => [r.row, r.field, r.reason]) };
}

const file = (n: number) => `original_url\n${Array.from({ length: n }, (_, i) => `https://example.com/${i}\n`).join("")}`;

test("rows for which the API has no time are sent again, and created once", async () => {
  const api = new Api();
  const text = `original_url\nhttp://localhost/\n${[1, 2, 3].map((i) => `https://example.com/${i}\n`).join("")}`;
  api.steps = [[3, "unavailable"]];
  const checked = await send(text, true);
  assert.deepEqual([checked.progress.created, checked.progress.refused, checked.shown], [3, 1, [[2, "", "a local name"]]]);
  // Without free keys an import stops, and can be continued.
  api.steps = [[0, "in-progress"], [1, "unavailable"], [2, "unavailable"], [1, "keys-exhausted"]];
  const stopped = await send(text, false);
  assert.match(String((stopped.error as { kind?: string }).kind), /keys-exhausted/);
  assert.equal(stopped.progress.row, 0);
  const last = await send(text, false);
  assert.equal(last.error, undefined);
  assert.deepEqual(api.sent, [[undefined, 4], [undefined, 1], ["0", 4], ["0", 4], ["0", 4], ["0-again1", 2], ["0", 4], ["0-again1", 2], ["0-again2", 1]]);
  assert.deepEqual(api.created, [1, 2, 3].map((i) => `https://example.com/${i}`));
  assert.equal(last.progress.refused, 1);
});

test("an import that was stopped goes on, and creates nothing twice", async () => {
  const api = new Api();
  api.steps = [[500], [500, "lost"]];
  const stopped = await send(file(1001), false, { stop: true });
  assert.equal((stopped.error as Error).name, "AbortError");
  const from = unfinished(stopped.job.fingerprint)!;
  assert.deepEqual([from.batches, from.row, from.created], [1, 501, 500]);
  const { progress, error } = await send(file(1001), false, { from });
  assert.equal(error, undefined);
  assert.deepEqual([progress.row, progress.created, progress.replayed], [1002, 501, 500]);
  assert.equal(new Set(api.created).size, 1001);
  assert.equal(api.created.length, 1001);
  assert.equal(unfinished(stopped.job.fingerprint), undefined);
});

test("a check finds a code that comes twice, however far apart", async () => {
  new Api();
  const { progress, shown } = await send(`custom_code,original_url\nabc,https://example.com/1\n${",https://example.com/x\n".repeat(600)}abc,https://example.com/2\n`, true);
  assert.deepEqual([progress.created, shown], [601, [[603, "custom_code", "an earlier row of the file has this code"]]]);
});

test("a check counts the links that would get new codes, and rows without a domain go to the chosen one", async () => {
  const api = new Api();
  const text = "custom_code,original_url,domain\nabcd,https://example.com/1,\n,https://example.com/2,\n,https://example.com/3,own.example\n,http://localhost/,\n";
  const { progress } = await send(text, true, { domain: "go.example" });
  assert.deepEqual([progress.created, progress.coded, progress.refused], [3, 2, 1]);
  assert.deepEqual(api.domains, ["go.example", "go.example", "own.example", "go.example"]);
  // The same rows for another domain are another request.
  await send(text, false, { domain: "go.example" });
  await send(text, false, { domain: "other.example" });
  assert.deepEqual(api.sent.slice(1), [["go.example-0", 4], ["other.example-0", 4]]);
});
