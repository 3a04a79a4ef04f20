// Changes of a link: their requests, and what of it the edges have.
import { answer, client, type Schemas } from "../../app/api";
import { dateTime, number } from "../../app/i18n";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/link";

export type Link = Schemas["Link"];
export type Change = Schemas["LinkChange"];
export type Rule = Schemas["Rule"];
export type FieldName = Schemas["FieldChange"]["name"];

/** A link, in a state that its tag names. */
export interface State {
  link: Link;
  etag: string;
}

/** Where a link is: its code, and the host of its domain unless that is the default one. */
export interface Place {
  code: string;
  domain: string | undefined;
}

/** getLink loads a link, also an expired one. */
export async function getLink(at: Place, signal?: AbortSignal): Promise<State> {
  const got = await answer(client.GET("/api/v1/urls/{code}", { params: { path: { code: at.code }, query: { domain: at.domain, expired: true } }, signal: signal ?? null }));
  return { link: got.data, etag: got.response.headers.get("ETag") ?? "" };
}

/** changeLink changes a link, if it is still in the state of a tag, and waits for the edges. */
export async function changeLink(at: Place, change: Change, etag?: string): Promise<State & { applied: string }> {
  const got = await answer(client.PATCH("/api/v1/urls/{code}", {
    params: { path: { code: at.code }, query: { domain: at.domain, wait: "all" }, header: etag ? { "If-Match": etag } : {} }, body: change,
  }));
  return { link: got.data, etag: got.response.headers.get("ETag") ?? "", applied: applied(got.response) };
}

/** applied says in words what Waypost-Applied says of the edges. */
export function applied(response: Response): string {
  const header = response.headers.get("Waypost-Applied") ?? "";
  const edges = /^all; edges=(\d+)/.exec(header);
  if (edges) return text("onEdges", { n: Number(edges[1]) });
  if (header === "none") return text("noEdges");
  const names = (of: string) => new RegExp(`; ${of}=([^;]*)`).exec(header)?.[1]?.replaceAll(",", ", ");
  const behind = names("behind"), silent = names("silent");
  return [behind && text("notOnEdges", { edges: behind }), silent && text("silentEdges", { edges: silent })].filter(Boolean).join(" ");
}

/** former returns the change that gives fields of a change the values that they have in a link.
 * A former password is not known to anybody. */
export function former(change: Change, link: Link): Change {
  return Object.fromEntries((Object.keys(change) as FieldName[]).flatMap((name) => (name === "password" ? [] : [[name, link[name] ?? null]]))) as Change;
}

/** same reports whether two values of a field are equal. Objects are compared by their JSON,
 * and moments by what they mean. What is left out is null. */
export function same(a: unknown, b: unknown): boolean {
  if (typeof a === "string" && typeof b === "string" && a !== b) return /^\d{4}-\d\d-\d\dT/.test(a) && Date.parse(a) === Date.parse(b);
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

/** rounded reports whether JSON holds a whole number that has more digits than a browser keeps. */
export function rounded(value: unknown): boolean {
  return typeof value === "object" && value !== null ? Object.values(value).some(rounded) : Number.isInteger(value) && !Number.isSafeInteger(value);
}

/** named returns the name of a rule, or of a variant, or else its number. */
export function named(what: "rule" | "variant", of: { id?: number | undefined; name?: string | undefined }): string {
  return of.name || (of.id ? textOf(`${what}N`, { n: of.id }) : textOf(`${what}New`));
}

/** fieldLabel names a field of a link. */
export function fieldLabel(name: FieldName): string {
  return textOf(name);
}

/** inWords writes the value of a field. */
export function inWords(name: FieldName, value: unknown): string {
  if (value === true) return shared("yes");
  if (value === false) return shared("no");
  if (name === "valid_from" && value) return dateTime(String(value));
  if (name === "expires_at") return value ? dateTime(String(value)) : shared("never");
  if (value === null || value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) return shared("none");
  if (name === "max_clicks_mode") return textOf(value as "exact");
  if (Array.isArray(value)) return value.map((v: unknown) => (name === "rules" ? named("rule", v as Rule) : v)).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return typeof value === "number" && name !== "redirect_status" ? number(value) : String(value);
}

/** draftName returns the name under which what was typed of a link is kept. */
export function draftName(link: Link, part: "link" | "rules" = "link"): string {
  return `${part}.${link.domain}/${link.short_code}`;
}
