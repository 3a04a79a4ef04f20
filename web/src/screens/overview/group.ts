// The group of links that statistics are of: in the address bar, as the API names it.
import { quoted } from "../../ui/csv";
import type { Range } from "../link/span";

type Query = Readonly<Record<string, string>>;

/** The kinds of groups, as the API lists them, with the parameter that chooses one. */
export const kinds = { tags: "tag", domains: "domain", creators: "created_by" } as const;
export type Kind = keyof typeof kinds;

/** The parameters of the address bar that a saved view keeps. */
const saved = ["tag", "domain", "created_by", "span", "from", "to", "since", "interval", "compare", "compare_from", "compare_to", "groups", "lines", "by", "name", "rows", "columns"];

/** How many groups one chart has at most. */
export const mostLines = 10;

/** tagsOf reads a list of tags with commas between them. A tag that has a comma is quoted. */
export function tagsOf(list = ""): string[] {
  return [...list.matchAll(/"((?:[^"]|"")*)"|[^,]+/g)].map(([whole, inner]) => inner?.replaceAll('""', '"') ?? whole.trim()).filter(Boolean);
}

/** tagList writes a list of tags with commas between them. */
export const tagList = (tags: readonly string[]) => tags.map(quoted).join(",");

/** The API's parameters for a group of links, and for whole days in UTC. */
export interface Group { tag?: string[]; domain?: string; created_by?: string }
export interface Days { from: string; to?: string }

/** The breakdowns that can be crossed, two at once. */
export const crossable = ["devices", "countries", "cities", "browsers", "os", "referrers"] as const;

/** crossedIn returns the two breakdowns that the address bar crosses. */
export function crossedIn(query: Query): [rows: (typeof crossable)[number], columns: (typeof crossable)[number]] | undefined {
  const [rows, columns] = ["rows", "columns"].map((name) => crossable.find((d) => d === query[name]));
  return rows && columns && rows !== columns ? [rows, columns] : undefined;
}

/** daysOf returns the days of a span of time. */
export function daysOf({ from, since, to }: Range): Days {
  return { from: (from ?? since)!.slice(0, 10), ...(to ? { to } : {}) };
}

/** groupOf returns the group of links in the address bar. */
export function groupOf(query: Query): Group {
  const of = Object.values(kinds).filter((name) => query[name]).map((name) => [name, query[name]!]);
  return Object.fromEntries(of.map(([name, value]) => [name, name === "tag" ? [value] : value]));
}

/** chosenIn reports whether the group in the address bar is of a name. */
export function chosenIn(query: Query, kind: Kind, name: string): boolean {
  return kind === "tags" ? tagsOf(query["tag"]).includes(name) : query[kinds[kind]] === name;
}

/** toggled returns the change of the address that chooses a name, or removes a chosen one. A
 * link has several tags, but one domain and one creator. */
export function toggled(query: Query, kind: Kind, name: string): Record<string, string | undefined> {
  const on = !chosenIn(query, kind, name);
  if (kind !== "tags") return { [kinds[kind]]: on ? name : undefined };
  const tags = tagsOf(query["tag"]);
  return { tag: tagList(on ? [...tags, name] : tags.filter((t) => t !== name)) };
}

/** linesOf returns the names in the address bar that one chart compares. */
export const linesOf = (query: Query) => tagsOf(query["lines"]).slice(0, mostLines);

/** lineToggled returns the names with one more, or without a chosen one. */
export function lineToggled(lines: readonly string[], name: string): string {
  return tagList(lines.includes(name) ? lines.filter((l) => l !== name) : [...lines, name]);
}

/** daysFrom returns the beginnings of days of UTC. */
export function daysFrom(from: string, days: number): string[] {
  return Array.from({ length: days }, (_, i) => new Date(Date.parse(from) + i * 86_400_000).toISOString());
}

/** viewOf returns the part of the address that a saved view keeps. */
export function viewOf(query: Query): string {
  return String(new URLSearchParams(saved.filter((name) => query[name]).map((name) => [name, query[name]!])));
}
