import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../app/api";
import { words } from "./failure";

const said = (status: number, kind: string, detail = "of the test", retryAfter = 0) => words(new Failure(status, kind, detail, {}, retryAfter));

test("each kind of problem has its words, with the detail where that helps", () => {
  for (const [status, kind, text] of [
    [0, "unreachable", "The server cannot be reached. Check your connection. Nothing you typed is lost."],
    [401, "unauthorized", "Your session has ended."],
    [401, "second-factor-required", "of the test"],
    [403, "forbidden", "You may not do this: of the test"],
    [404, "not-found", "Not found: of the test"],
    [409, "conflict", "Not done, because of the test"],
    [410, "gone", "No longer available: of the test"],
    [412, "changed", "Someone else has changed this in the meantime. Reload to see the change."],
    [422, "invalid", "Check your input: of the test"],
    [500, "internal", "Something went wrong on the server. Try again."],
    [503, "keys-exhausted", "The service cannot do this at the moment: of the test"],
    [503, "unavailable", "The service cannot do this at the moment: of the test"],
  ] as const) {
    assert.equal(said(status, kind), text, `${status} ${kind}`);
  }
});

test("a wrong password is named, and so is the time until another try", () => {
  assert.equal(said(403, "forbidden", "current_password is wrong"), "The current password is wrong.");
  assert.equal(said(429, "rate-limited", "", 120), "Too many requests. Try again in 2 min.");
});
