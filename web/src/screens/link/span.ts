// The span of time of the statistics: in the address bar, in days of the browser's zone.

/** The browser's time zone, by its name in the IANA database. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export const spans = ["24h", "7d", "30d", "90d", "365d"] as const;
export type Span = (typeof spans)[number] | "own";

/** What statistics are asked for. Moments without an end are open up to now. */
export interface Range {
  from?: string | undefined;
  /** A moment from which hours, or days of 24 hours, are counted, instead of from. */
  since?: string | undefined;
  to?: string | undefined;
  interval: "hour" | "day" | "week" | "month";
  tz: string;
}

export interface Chosen {
  span: Span;
  range: Range;
  /** The time that it is compared with, and how the API is asked for it. */
  compare: "previous" | "year" | "own";
  against: { compare?: "previous" | "year"; compare_from?: string | undefined; compare_to?: string | undefined };
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

/** instant reads a moment as the address has it. */
function instant(text: string | undefined): Date | undefined {
  const at = new Date(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text ?? "") ? text! : NaN);
  return isNaN(at.getTime()) ? undefined : at;
}

/** comparedWith reads the time to compare with. It is a moment where the time itself is since one. */
function comparedWith(query: Readonly<Record<string, string>>, { since, interval }: Range): Pick<Chosen, "compare" | "against"> {
  const from = query["compare_from"];
  const to = query["compare_to"];
  if (!(since ? instant(from) : parse(from))) {
    const compare = query["compare"] === "year" ? "year" : "previous";
    return { compare, against: { compare } };
  }
  return { compare: "own", against: { compare_from: from, compare_to: !since && interval !== "hour" && parse(to) && to! >= from! ? to : undefined } };
}

/** typed returns the change of the address after one of four fields was changed: the first
 * two have the time, the others the time to compare with. The first of each is a moment
 * where ofMoments is set. A year that is still being typed is one of long ago. */
export function typed(field: number, [from, to, other, until]: readonly string[], ofMoments: boolean): Record<string, string | undefined> | undefined {
  const start = (text: string) => (ofMoments ? new Date(text).toISOString() : text);
  if (field > 1) return other! > "2000" && (!until || other! <= until) ? { compare_from: start(other!), compare_to: until || undefined } : undefined;
  if (!(from! > "2000" && to! > "2000" && from!.slice(0, 10) <= to!)) return undefined;
  return { span: undefined, to, [ofMoments ? "since" : "from"]: start(from!) };
}

/** startBefore returns the beginning of the time of the same length before, or of the same
 * moment a week before. */
export function startBefore({ range: { since }, days: [from, to] }: Chosen): string {
  if (since) return new Date(Date.parse(since) - 7 * 86_400_000).toISOString();
  const [first, last] = [parse(from)!, parse(to)!];
  return day(plus(first, -1 - Math.round((last.getTime() - first.getTime()) / 86_400_000)));
}

/** chosenSpan reads the span from the query of the address; 30 days without one. */
export function chosenSpan(query: Readonly<Record<string, string>>, now = new Date()): Chosen {
  const time = timeOf(query, now);
  return { ...time, ...comparedWith(query, time.range) };
}

function timeOf(query: Readonly<Record<string, string>>, now: Date): Pick<Chosen, "span" | "days" | "range"> {
  const today = plus(now, 0);
  const long = query["interval"] === "week" || query["interval"] === "month" ? query["interval"] : "day";
  const from = parse(query["from"]);
  const to = parse(query["to"]) ?? today;
  const since = instant(query["since"]);
  if (since) {
    const end = parse(query["to"]) ? plus(to, 1) : now;
    return {
      span: "own", days: [day(since), day(to)],
      range: { since: query["since"], ...(parse(query["to"]) ? { to: day(to) } : {}), interval: end.getTime() - since.getTime() <= 72 * 3_600_000 ? "hour" : "day", tz: zone },
    };
  }
  if (from && from <= to) {
    const days = Math.round((to.getTime() - from.getTime()) / 86_400_000) + 1;
    const interval = days <= 2 ? "hour" : long;
    return {
      span: "own", days: [day(from), day(to)],
      range: { from: day(from), to: day(to), interval, tz: zone },
    };
  }
  if (query["span"] === "24h") {
    const first = new Date(now);
    first.setMinutes(0, 0, 0);
    first.setTime(first.getTime() - 23 * 3_600_000);
    return {
      span: "24h", days: [day(first), day(today)],
      range: { from: first.toISOString(), interval: "hour", tz: zone },
    };
  }
  const span = spans.find((s) => s === query["span"]) ?? "30d";
  const days = parseInt(span, 10);
  const first = plus(today, 1 - days);
  return {
    span, days: [day(first), day(today)],
    range: { from: day(first), interval: long, tz: zone },
  };
}
