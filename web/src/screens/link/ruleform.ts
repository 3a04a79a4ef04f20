// Rules as they are typed: texts, which become rules when they are saved.
import type { Schemas } from "../../app/api";
import { country, dateTime } from "../../app/i18n";
import { text, textOf } from "../../messages/rules";
import { local, moment } from "../../ui/field";
import type { Rule } from "./change";
import { zone } from "./span";

export type Condition = Schemas["Condition"];
export type Kind = (typeof kinds)[number];
export type Does = "to" | "split" | "404" | "410";

const lists = ["agent", "country", "city", "language", "address"] as const;
export const kinds = [...lists, "query", "time", "week"] as const;

/** The words of a condition on agents. */
export const agents = [
  "ios", "android", "mobile", "tablet", "desktop", "windows", "macos", "linux", "chromeos", "chrome", "firefox", "edge", "safari", "opera", "samsung", "android_browser", "bot", "preview",
] as const satisfies readonly NonNullable<Condition["agent"]>[number][];

/** A condition. What was typed stays when another kind is chosen. */
export interface ConditionForm {
  key: string;
  kind: Kind;
  not: boolean;
  /** The values, with commas between them. */
  values: string;
  /** The parameter, and its value. */
  name: string;
  test: "equals" | "any" | "empty";
  equals: string;
  from: string;
  until: string;
  zone: string;
  was: Condition;
}

export interface VariantForm {
  key: string;
  id?: number | undefined;
  name: string;
  weight: string;
  to: string;
}

export interface RuleForm {
  key: string;
  id?: number | undefined;
  name: string;
  when: ConditionForm[];
  does: Does;
  to: string;
  by: NonNullable<Schemas["Split"]["by"]>;
  variants: VariantForm[];
}

const key = () => `k${Math.random().toString(36).slice(2)}`;

/** conditionForm writes a condition as it is typed. */
export function conditionForm(c: Condition = { agent: [] }): ConditionForm {
  const kind = kinds.find((k) => (k === "time" ? c.from ?? c.until : c[k])) ?? "agent";
  const q = c.query;
  return {
    key: key(), kind, not: c.not ?? false, values: ((kind === "week" ? c.week?.hours : lists.map((l) => c[l]).find(Boolean)) ?? []).join(", "),
    name: q?.key ?? "", test: q?.empty ? "empty" : q && q.equals === undefined ? "any" : "equals", equals: q?.equals ?? "",
    from: local(c.from), until: local(c.until), zone: c.week?.zone ?? zone, was: c,
  };
}

export function variantForm(v: Partial<Schemas["Variant"]> = {}): VariantForm {
  return { key: key(), id: v.id, name: v.name ?? "", weight: String(v.weight ?? 50), to: v.to ?? "" };
}

/** ruleForm writes a rule as it is typed. */
export function ruleForm(r: Rule = { to: "" }): RuleForm {
  return {
    key: key(), id: r.id, name: r.name ?? "", when: (r.when ?? []).map(conditionForm), does: r.split ? "split" : r.status ? (String(r.status) as Does) : "to",
    to: r.to ?? "", by: r.split?.by ?? "visitor", variants: r.split?.variants.map(variantForm) ?? [variantForm(), variantForm()],
  };
}

/** listOf takes the values apart. Names of cities have spaces. In a schedule a comma stands
 * between days, too: only one behind a time ends an entry. */
export function listOf({ kind, values }: ConditionForm): string[] {
  return values.split(kind === "city" ? /[,;\n]/ : kind === "week" ? /[;\n]|(?<=\d)\s*,/ : /[,;\s]+/).map((v) => v.trim()).filter(Boolean);
}

function conditionOf(c: ConditionForm): Condition {
  const values = listOf(c);
  const not = c.not ? { not: true } : {};
  switch (c.kind) {
    case "query":
      return { ...not, query: { key: c.name, ...(c.test === "equals" ? { equals: c.equals } : c.test === "empty" ? { empty: true } : {}) } };
    case "time": {
      const [from, until] = [moment(c.from, c.was.from), moment(c.until, c.was.until)];
      return { ...not, ...(from && { from }), ...(until && { until }) };
    }
    case "week":
      return { ...not, week: { zone: c.zone.trim(), hours: values } };
    case "city": // a name may have a comma, as long as it is not typed again
      return { ...not, city: c.was.city?.join(", ") === c.values ? c.was.city : values };
    case "country":
      return { ...not, country: values.map((v) => v.toUpperCase()) };
    default:
      return { ...not, [c.kind]: values };
  }
}

/** ruleOf makes a rule of what was typed. */
export function ruleOf(r: RuleForm): Rule {
  const given = { ...(r.id && { id: r.id }), ...(r.name && { name: r.name }), ...(r.when.length && { when: r.when.map(conditionOf) }) };
  if (r.does === "to") return { ...given, to: r.to };
  if (r.does !== "split") return { ...given, status: Number(r.does) as 404 };
  return { ...given, split: { by: r.by, variants: r.variants.map((v) => ({ ...(v.id && { id: v.id }), ...(v.name && { name: v.name }), weight: Number(v.weight), to: v.to })) } };
}

/** agentName names a device, a system or a program. */
export function agentName(name: string): string {
  if (name === "mobile" || name === "tablet" || name === "desktop" || name === "preview") return textOf(name);
  return ({ ios: "iOS", macos: "macOS", chromeos: "ChromeOS", android_browser: "Android Browser", bot: "Bot" } as Record<string, string>)[name] ?? name[0]!.toUpperCase() + name.slice(1);
}

/** inWords writes a condition. */
export function inWords(of: Condition): string {
  const c = conditionForm(of);
  const list = listOf(c);
  const q = of.query;
  const what = c.kind === "query" ? `${q!.key}${c.test === "any" ? "" : ` = ${q!.equals ?? ""}`}`
    : c.kind === "time" ? [of.from, of.until].map((t) => (t ? dateTime(t) : "")).join(" – ")
    : c.kind === "week" ? `${list.join(", ")} (${c.zone})`
    : list.map(c.kind === "agent" ? agentName : c.kind === "country" ? country : String).join(", ");
  return `${textOf(c.kind)} ${c.not ? text("isNot") : text("is")} ${what}`.replace(/ $/, "");
}
