import assert from "node:assert/strict";
import { test } from "node:test";
import { forget, upload, uploads } from "./upload";

Object.assign(globalThis, {
  setTimeout: (f: () => void) => setImmediate(f), // no pause takes time
  addEventListener: () => undefined, removeEventListener: () => undefined,
});

/** sendsTo uploads a file to an API that answers with these statuses, then with 204, and
 * returns the requests: the ends of their paths, with the bytes or text of their bodies. */
async function sendsTo(statuses: number[], file: File, sent?: () => void): Promise<string[]> {
  const asked: string[] = [];
  globalThis.fetch = (async (url: string, { body }: { body: ArrayBuffer | string }) => {
    asked.push(`${url.split("/").slice(5).join("/")} ${typeof body === "string" ? body : body.byteLength}`);
    sent?.();
    const status = statuses.shift() ?? 204;
    if (status === 0) throw new TypeError("the connection broke");
    return new Response(null, { status });
  }) as unknown as typeof fetch;
  await upload("x", file);
  return asked;
}

const part = 4 << 20;

test("a file goes up in parts, and is complete then", async () => {
  assert.deepEqual(await sendsTo([], new File([new Uint8Array(2 * part + 3)], "links.csv")), [`parts/1 ${part}`, `parts/2 ${part}`, "parts/3 3", 'read {"parts":3}']);
  assert.deepEqual(await sendsTo([], new File([], "empty")), ["parts/1 0", 'read {"parts":1}']);
  assert.deepEqual(uploads.value, {});
});

test("a part is sent again while that can help", async () => {
  assert.deepEqual(await sendsTo([0, 503, 429], new File(["a"], "a")), ["parts/1 1", "parts/1 1", "parts/1 1", "parts/1 1", 'read {"parts":1}']);
});

test("an upload that is refused says why, and sends nothing more", async () => {
  assert.deepEqual(await sendsTo([204, 409], new File([new Uint8Array(3 * part)], "a")), [`parts/1 ${part}`, `parts/2 ${part}`]);
  const { sent, size, ended, failure } = uploads.value["x"]!;
  assert.deepEqual([sent, size, ended, failure?.status], [part, 3 * part, true, 409]);
});

test("an upload ends with its import", async () => {
  assert.deepEqual(await sendsTo([], new File([new Uint8Array(3 * part)], "a"), () => forget("x")), [`parts/1 ${part}`]);
  assert.deepEqual(uploads.value, {});
});
