// What an import makes of a file, and what its user decides about that.
import type { Schemas } from "../../app/api";

export type Import = Schemas["Import"];

/** The fields that hold a code. */
const codes = ["custom_code", "short_code", "short_url", "custom_short_urls"];

/** Decisions are what the user decides about an import. */
export type Decisions = Required<Pick<Import, "mapping" | "domain" | "time_zone" | "keep_codes" | "dedupe">>;

/** decided returns what counts for an import. */
export function decided({ mapping, domain, time_zone, keep_codes, dedupe }: Import): Decisions {
  return { mapping, domain, time_zone, keep_codes, dedupe };
}

/** leftOut returns the columns that become no field, and columns that are never read. */
export function leftOut({ columns, left_out }: Import, mapping: Import["mapping"]): string[] {
  return [...columns.filter((c) => !mapping.columns[c]), ...left_out.filter((c) => !columns.includes(c))];
}

/** twice returns the fields that several columns become. */
export function twice(mapping: Import["mapping"]): string[] {
  const fields = Object.values(mapping.columns).filter(Boolean);
  return [...new Set(fields.filter((f, i) => fields.indexOf(f) !== i))];
}

/** notationsOf returns the notations that fit the dates of all columns. */
export function notationsOf(notations: Import["notations"]): string[] {
  const [first = [], ...others] = Object.values(notations);
  return first.filter((n) => others.every((o) => o.includes(n)));
}

/** codesOf returns why links get new codes, and how many do, which only a check shows; or
 * nothing if all codes are kept. */
export function codesOf({ columns, mapping, keep_codes, sample = [], checked }: Import): { why: "noCodes" | "newCodes"; n?: number | undefined } | undefined {
  const coded = columns.length > 0
    ? Object.values(mapping.columns).some((f) => codes.includes(f))
    : sample.length === 0 || sample.some((r) => r.link?.custom_code);
  if (!coded || !keep_codes) return { why: coded ? "newCodes" : "noCodes", n: checked?.created };
  return checked?.new_codes ? { why: "newCodes", n: checked.new_codes } : undefined;
}
