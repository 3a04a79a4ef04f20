import assert from "node:assert/strict";
import { test } from "node:test";
import type { Link } from "./change";
import { changes, formOf, newLink } from "./linkform";

const full: Partial<Link> = {
  original_url: "https://example.com/", title: "Title", description: "two\nlines", notes: "for us", tags: ["a", "b"], active: false,
  valid_from: "2098-01-02T03:04:05Z", expires_at: "2099-01-02T03:04:05Z", expired_url: "https://example.com/over", redirect_status: 307,
  forward_query: true, forward_path: true, metadata: { a: [1] }, max_clicks: 3, max_clicks_mode: "exact", exhausted_url: "https://example.com/out", confirm: true,
};

test("one request for a new link has every field that can be changed", () => {
  const typed = formOf(full);
  const moments = { valid_from: "2098-01-02T03:04:00.000Z", expires_at: "2099-01-02T03:04:00.000Z" };
  const request: object = newLink(typed);
  for (const [name, value] of Object.entries({ ...full, ...moments })) {
    if (name in moments) assert.equal(new Date(request[name as keyof object]).getUTCMinutes(), 4); // typed in the zone of the machine
    else assert.deepEqual(request[name as keyof object], value, name);
  }
  assert.deepEqual(newLink({ ...formOf(), original_url: " https://example.com/ " }), { original_url: "https://example.com/" });
});

test("a link that is not changed stays as it is", () => {
  assert.deepEqual(changes(formOf(full), full), {});
});

test("an emptied field is null in a change, and is not in a request for a link", () => {
  const typed = { ...formOf(full), max_clicks: "", expires_at: "", expired_url: "", metadata: " " };
  assert.deepEqual(changes(typed, full), { max_clicks: null, max_clicks_mode: null, expires_at: null, expired_url: null, metadata: null, exhausted_url: null });
  assert.ok(Object.values(newLink({ ...formOf(), metadata: " " })).every((v) => v !== null));
});

test("a number of clicks that is none is left to the API", () => {
  assert.equal(newLink({ ...formOf(), max_clicks: "0" }).max_clicks, 0);
});
