// Links as they are typed: one form for those that are made and those that are changed.
import { Failure, type Schemas } from "../../app/api";
import { text } from "../../messages/link";
import { local, moment } from "../../ui/field";
import { rounded, same, type Change, type FieldName, type Link } from "./change";
import { longTexts, texts } from "./fields";

/** Limits are what is typed of who may follow a link, and how often. */
export interface Limits {
  max_clicks: string;
  max_clicks_mode: NonNullable<Schemas["Link"]["max_clicks_mode"]>;
  exhausted_url: string;
  confirm: boolean;
}

const unlimited: Limits = { max_clicks: "", max_clicks_mode: "eventual", exhausted_url: "", confirm: false };

/** What is typed of a link. Moments and metadata are texts, as long as they are being typed. */
export interface Form extends Limits, Record<(typeof texts)[number], string> {
  original_url: string;
  tags: string[];
  active: boolean;
  valid_from: string;
  expires_at: string;
  expired_url: string;
  redirect_status: Link["redirect_status"];
  forward_query: boolean;
  forward_path: boolean;
  metadata: string;
}

/** The fields that a form shows only when they are asked for. */
export const hidden = [...longTexts, "active", "redirect_status", "forward_query", "forward_path", "metadata", "max_clicks", "max_clicks_mode", "exhausted_url", "confirm"] as const satisfies readonly FieldName[];
export const names = ["original_url", "title", "tags", "valid_from", "expires_at", "expired_url", ...hidden] as const satisfies readonly FieldName[];

/** formOf writes a link as it is typed; without one, what a new link has. */
export function formOf(link: Partial<Link> = {}): Form {
  return {
    ...(Object.fromEntries(texts.map((name) => [name, link[name] ?? ""])) as Record<(typeof texts)[number], string>),
    original_url: link.original_url ?? "", tags: link.tags ?? [], active: link.active ?? true,
    valid_from: local(link.valid_from), expires_at: local(link.expires_at), expired_url: link.expired_url ?? "",
    redirect_status: link.redirect_status ?? 302, forward_query: link.forward_query ?? false, forward_path: link.forward_path ?? false,
    metadata: link.metadata ? JSON.stringify(link.metadata, null, 2) : "",
    max_clicks: String(link.max_clicks ?? ""), max_clicks_mode: link.max_clicks_mode ?? "eventual", exhausted_url: link.exhausted_url ?? "", confirm: link.confirm ?? false,
  };
}

/** changes returns the fields whose text differs from that of a link. It throws a Failure for
 * metadata that is no JSON object. */
export function changes(typed: Form, link: Partial<Link> = {}): Change {
  const was = formOf(link);
  const form = typed.max_clicks ? typed : { ...typed, ...unlimited, confirm: typed.confirm };
  const change: Record<string, unknown> = {};
  for (const name of names) {
    if (same(form[name], was[name])) continue;
    change[name] = name === "expires_at" || name === "valid_from" ? moment(form[name], link[name])
      : name === "metadata" ? metadata(form.metadata)
        : name === "max_clicks" ? (form[name] ? Number(form[name]) : null)
          : name === "expired_url" || name === "exhausted_url" ? form[name] || null
            : name === "original_url" ? form[name].trim() : form[name];
  }
  if (change["max_clicks"] === null) change["max_clicks_mode"] = null;
  return change as Change;
}

/** newLink returns the whole request for a link: it is never without one of its fields, such
 * as the time from which on it works. */
export function newLink(typed: Form): Schemas["NewLink"] {
  const given = Object.entries(changes(typed)).filter(([, value]) => value !== null);
  return { original_url: "", ...(Object.fromEntries(given) as Partial<Schemas["NewLink"]>) };
}

function metadata(typed: string): unknown {
  if (!typed.trim()) return null;
  let value: unknown;
  try {
    value = JSON.parse(typed);
  } catch {
    value = undefined;
  }
  const object = typeof value === "object" && value !== null && !Array.isArray(value);
  if (object && !rounded(value)) return value;
  const fault = object ? text("rounded") : text("metadataFault");
  throw new Failure(422, "invalid", fault, { metadata: fault });
}
