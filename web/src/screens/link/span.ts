// The span of time of the statistics: in the address bar, in days of the browser's zone.

/** The browser's time zone, by its name in the IANA database. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export const spans = ["24h", "7d", "30d", "90d", "365d"] as const;
export type Span = (typeof spans)[number] | "own";

/** What statistics are asked for. Moments without an end are open up to now. */
export interface Range {
  from: string;
  to?: string | undefined;
  interval: "hour" | "day" | "week" | "month";
  tz: string;
}

export interface Chosen {
  span: Span;
  range: Range;
  /** The time that it is compared with. */
  compare: "previous" | "year";
  /** First and last day, for the fields of an own span. */
  days: readonly [from: string, to: string];
}

/** day writes a date of the browser's zone as YYYY-MM-DD. */
export function day(at: Date): string {
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`;
}

/** plus returns the beginning of a day, some days after that of a moment. */
export function plus(at: Date, days: number): Date {
  return new Date(at.getFullYear(), at.getMonth(), at.getDate() + days);
}

/** parse reads YYYY-MM-DD. */
function parse(text: string | undefined): Date | undefined {
  const m = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text ?? "");
  if (!m) return undefined;
  const at = new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]));
  return day(at) === text ? at : undefined;
}

/** chosenSpan reads the span from the query of the address; 30 days without one. */
export function chosenSpan(query: Readonly<Record<string, string>>, now = new Date()): Chosen {
  const today = plus(now, 0);
  const compare = query["compare"] === "year" ? "year" : "previous";
  const long = query["interval"] === "week" || query["interval"] === "month" ? query["interval"] : "day";
  const from = parse(query["from"]);
  const to = parse(query["to"]) ?? today;
  if (from && from <= to) {
    const days = Math.round((to.getTime() - from.getTime()) / 86_400_000) + 1;
    const interval = days <= 2 ? "hour" : long;
    return {
      span: "own", compare, days: [day(from), day(to)],
      range: { from: day(from), to: day(to), interval, tz: zone },
    };
  }
  if (query["span"] === "24h") {
    const first = new Date(now);
    first.setMinutes(0, 0, 0);
    first.setTime(first.getTime() - 23 * 3_600_000);
    return {
      span: "24h", compare, days: [day(first), day(today)],
      range: { from: first.toISOString(), interval: "hour", tz: zone },
    };
  }
  const span = spans.find((s) => s === query["span"]) ?? "30d";
  const days = parseInt(span, 10);
  const first = plus(today, 1 - days);
  return {
    span, compare, days: [day(first), day(today)],
    range: { from: day(first), interval: long, tz: zone },
  };
}
