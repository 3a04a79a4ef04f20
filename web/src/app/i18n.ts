// Texts, numbers and dates in the user's language. The console is built once for each
// language: the builder replaces a text in the catalogue (src/messages/, English and German
// next to each other) by that of the language, and writes it in the place of the call
// text("key"). What is looked up by a value, textOf(value), has its texts in messages/of/.

export type Language = "en" | "de";

/** The language of this build. */
declare const LANGUAGE: Language;

export const language: Language = LANGUAGE;

/** setLanguage stores the language and loads the console in it. */
export function setLanguage(next: Language): void {
  localStorage.setItem("waypost.language", next);
  location.reload();
}

/** A text; {name} is replaced by a value of that name. A pair of forms is chosen by the
 * value n. */
type Text = string | readonly [one: string, other: string];

/** The locale of numbers and dates: the browser's own, if it is of the chosen language. */
export function locale(): string {
  const own = navigator.languages.find((l) => l.toLowerCase().startsWith(language));
  return own ?? (language === "de" ? "de-DE" : "en-GB");
}

export type Values = Record<string, string | number>;

/** catalogue returns a function that yields the text of a key. */
export function catalogue<K extends string>(entries: Record<K, unknown>): (key: K, values?: Values) => string {
  return (key, values) => fill(entries[key] as Text, values);
}

/** fill puts values into a text. */
export function fill(text: Text, values: Values = {}): string {
  const form = typeof text === "string" ? text : text[new Intl.PluralRules(language).select(Number(values["n"])) === "one" ? 0 : 1];
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? number(value) : value;
  });
}

/** number formats a count by the locale. */
export function number(n: number, options?: Intl.NumberFormatOptions): string {
  return n.toLocaleString(locale(), options);
}

/** bytes formats a size, such as 1.5 GB. */
export function bytes(n: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) {
    n /= 1000;
    at++;
  }
  return number(n, { style: "unit", unit: units[at]!, unitDisplay: at ? "short" : "long", maximumFractionDigits: n < 10 && at ? 1 : 0 });
}

/** percent formats a share of 1. */
export function percent(share: number): string {
  return number(share, { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 });
}

/** dateTime formats a moment in the browser's time zone. */
export function dateTime(at: string | Date, options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" }): string {
  return new Date(at).toLocaleString(locale(), options);
}

const steps: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 86400], ["month", 30 * 86400], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1],
];

/** ago formats the distance of a moment from now, such as "3 minutes ago" or "in 2 days". */
export function ago(at: string | Date, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  const [unit, size] = steps.find(([, s]) => Math.abs(seconds) >= s) ?? ["second", 1];
  // Words such as "tomorrow" say which day, and not how long it takes.
  return new Intl.RelativeTimeFormat(locale(), { numeric: size < 86_400 ? "auto" : "always" }).format(Math.trunc(seconds / size), unit);
}

/** duration formats a span in seconds by its largest unit, such as "3 min". */
export function duration(seconds: number): string {
  const [unit, size] = steps.find(([u, s]) => u !== "year" && u !== "month" && seconds >= s) ?? ["second", 1];
  const n = seconds / size;
  return number(n, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: n < 10 ? 1 : 0 });
}

let regions: { locale: string; names: Intl.DisplayNames } | undefined;

/** country writes an ISO code in the user's language. */
export function country(code: string): string {
  if (!/^[A-Z]{2}$/.test(code)) return code;
  if (regions?.locale !== locale()) regions = { locale: locale(), names: new Intl.DisplayNames([locale()], { type: "region" }) };
  return regions.names.of(code) ?? code;
}
