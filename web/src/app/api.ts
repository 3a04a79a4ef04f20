// Requests to the API, typed by its OpenAPI document, and their failures.
import type { Client } from "openapi-fetch";
import { signal } from "@preact/signals";
import type { components, paths } from "../api/schema";
import { text } from "../messages/app";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

/** Whether the server has refused the session since the last sign-in. */
export const sessionEnded = signal(false);

/** The slug of the workspace to act in; "" for the only one. */
export const workspaceSlug = signal(localStorage.getItem("waypost.workspace") ?? "");

/** What a request may have; the types of the package openapi-fetch say what each operation takes. */
interface Options {
  params?: { path?: Record<string, unknown>; query?: Record<string, unknown>; header?: Record<string, string> };
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  parseAs?: "json" | "blob";
}

/** method returns the function that sends requests with an HTTP method. */
function method(name: string) {
  return async (path: string, { params, body, headers, signal, parseAs = "json" }: Options = {}): Promise<Answer<unknown>> => {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(params?.query ?? {})) {
      for (const one of [value].flat()) if (one !== undefined && one !== null) query.append(key, String(one));
    }
    const url = path.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(params?.path?.[key]))) + (query.size ? `?${query}` : "");
    const response = await fetch(url, {
      method: name, signal: signal ?? null,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": body instanceof ArrayBuffer ? "application/octet-stream" : "application/json" }),
        ...(workspaceSlug.value ? { "Waypost-Workspace": workspaceSlug.value } : {}), ...params?.header, ...headers,
      },
      ...(body === undefined ? {} : { body: body instanceof ArrayBuffer ? body : JSON.stringify(body) }),
    });
    if (response.ok && parseAs === "blob") return { data: await response.blob(), response };
    const text = await response.text();
    let json: unknown;
    try {
      json = text && JSON.parse(text);
    } catch {
      json = undefined; // an answer of something between, such as a proxy
    }
    return response.ok ? { data: json, response } : { error: json, response };
  };
}

/** Requests to the API, typed by its document: client.GET("/api/v1/urls/{code}", { params: { path: { code } } }). */
export const client = {
  GET: method("GET"), POST: method("POST"), PUT: method("PUT"), PATCH: method("PATCH"), DELETE: method("DELETE"),
} as unknown as Pick<Client<paths>, "GET" | "POST" | "PUT" | "PATCH" | "DELETE">;

/** Failure describes why a request had no success. */
export class Failure extends Error {
  constructor(
    /** HTTP status; 0 without an answer. */
    readonly status: number,
    /** Kind of the problem, such as not-found or unreachable. */
    readonly kind: string,
    detail: string,
    /** Faults of single fields, by the name of the field. */
    readonly fields: Readonly<Record<string, string>> = {},
    /** Seconds to wait before another try; 0: not said. */
    readonly retryAfter = 0,
  ) {
    super(detail);
  }
}

/** asFailure returns what was thrown as a Failure. Anything else is a fault of the console. */
export function asFailure(e: unknown): Failure {
  if (e instanceof Failure) return e;
  console.error(e);
  return new Failure(0, "fault", String(e));
}

/** The part of a field's location that names it: body.custom_code becomes custom_code. */
function fieldName(at: string): string {
  return at.replace(/^(body|query|path|header)\./, "");
}

/** inWords says the API's rule about a field in the user's language, if it is a usual one. */
function inWords(fault: string): string {
  const most = /^expected length <= (\d+)$/.exec(fault);
  return most ? text("tooLong", { n: Number(most[1]) }) : fault;
}

/** failureOf turns an error answer into a Failure. */
function failureOf(response: Response, body: unknown): Failure {
  const problem = (typeof body === "object" && body !== null ? body : {}) as Partial<Problem>;
  const fields: Record<string, string> = {};
  for (const e of problem.errors ?? []) fields[fieldName(e.location)] ??= inWords(e.message);
  // Rules are refused in words that begin with the place of the fault.
  const placed = /^([a-z_]+[\w.[\]]*): (.+)/.exec(problem.detail ?? "");
  if (placed) fields[placed[1]!] ??= placed[2]!;
  const kind = (problem.type ?? "").replace(/^urn:waypost:problem:/, "") || "http";
  return new Failure(response.status, kind, problem.detail ?? response.statusText, fields, Number(response.headers.get("Retry-After")) || 0);
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** answer waits for a request and returns its data and response. It throws a Failure. */
export async function answer<T>(call: Promise<Answer<T>>): Promise<{ data: T; response: Response }> {
  let got: Answer<T>;
  try {
    got = await call;
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new Failure(0, "unreachable", "");
  }
  if (got.response.ok && got.response.status !== 202) return { data: got.data as T, response: got.response };
  const failure = failureOf(got.response, got.error ?? got.data);
  if (failure.status === 401 && failure.kind === "unauthorized") sessionEnded.value = true;
  throw failure;
}

/** ask waits for a request and returns its data. It throws a Failure. */
export async function ask<T>(call: Promise<Answer<T>>): Promise<T> {
  return (await answer(call)).data;
}
