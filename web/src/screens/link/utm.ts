// The utm parameters of a target: read from it and written into it, so that nothing of them
// is kept but the target.
import type { Schemas } from "../../app/api";

export type Template = Schemas["UTMTemplate"];
type Parameter = Schemas["UTMParameter"];

/** The parameters that are counted. */
export const counted = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"] as const;

/** templateFor returns the template of the first tag that has one, or else the one without a tag. */
export function templateFor(templates: readonly Template[], tags: readonly string[]): Template {
  return [...tags, undefined].map((tag) => templates.find((t) => (t.tag || undefined) === tag)).find(Boolean) ?? { parameters: counted.map((name) => ({ name })) };
}

/** cut takes a target apart: what stands before its query, the parts of that, its fragment. */
function cut(target: string): [before: string, parts: string[], fragment: string] {
  const [, before = "", query, fragment = ""] = /^([^?#]*)(?:\?([^#]*))?(#.*)?$/s.exec(target) ?? [];
  return [before, query ? query.split("&") : [], fragment];
}

/** valueOf returns the value of a parameter in a target; "" without it. */
export function valueOf(target: string, name: string): string {
  return new URLSearchParams(cut(target)[1].join("&")).get(name) ?? "";
}

/** withValue returns a target with another value of a parameter. The parameters of the template
 * stand at the end, in its order, and all else stays byte for byte. */
export function withValue(target: string, { parameters }: Template, name: string, value: string): string {
  const [before, parts, fragment] = cut(target);
  const own = (part: string) => parameters.some((p) => new URLSearchParams(part).has(p.name));
  const written = parameters.flatMap((p) => {
    const v = p.name === name ? value : valueOf(target, p.name);
    return v ? [`${p.name}=${encodeURIComponent(v)}`] : [];
  });
  const query = [...parts.filter((part) => !own(part)), ...written].join("&");
  return before + (query && `?${query}`) + fragment;
}

/** linesOf writes parameters as they are typed: a line for each, with its values. */
export function linesOf(parameters: readonly Parameter[]): string {
  return parameters.map((p) => (p.values?.length ? `${p.name} = ${p.values.join(", ")}` : p.name)).join("\n");
}

/** parametersOf reads such lines. */
export function parametersOf(lines: string): Parameter[] {
  return lines.split("\n").filter((line) => line.trim()).map((line) => {
    const [name = "", ...rest] = line.split("=");
    const values = rest.join("=").split(",").map((v) => v.trim()).filter(Boolean);
    return { name: name.trim(), ...(values.length ? { values } : {}) };
  });
}
