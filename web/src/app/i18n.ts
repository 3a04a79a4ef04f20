// The catalogue: every text of the console in English and German, next to each other.
// Each area declares its own entries in src/messages, so that a screen loads its own
// texts only.
import { signal } from "@preact/signals";

export type Language = "en" | "de";

/** A text in both languages. {name} is replaced by a value of that name; a pair of
 * forms is chosen by the value n: [one, other]. */
type Text = string | readonly [one: string, other: string];
export type Entry = readonly [en: Text, de: Text];

const stored = localStorage.getItem("waypost.language");

export const language = signal<Language>(
  stored === "en" || stored === "de" ? stored : navigator.language.toLowerCase().startsWith("de") ? "de" : "en",
);

export function setLanguage(next: Language): void {
  localStorage.setItem("waypost.language", next);
  language.value = next;
  document.documentElement.lang = next;
}

/** The locale of numbers and dates: the browser's own, if it is of the chosen language. */
export function locale(): string {
  const own = navigator.languages.find((l) => l.toLowerCase().startsWith(language.value));
  return own ?? (language.value === "de" ? "de-DE" : "en-GB");
}

export type Values = Record<string, string | number>;

/** catalogue returns a function that yields the text of a key in the current language. */
export function catalogue<K extends string>(entries: Record<K, Entry>): (key: K, values?: Values) => string {
  return (key, values) => {
    const text = entries[key][language.value === "de" ? 1 : 0];
    return fill(typeof text === "string" ? text : text[plural(values?.["n"])], values);
  };
}

function plural(n: string | number | undefined): 0 | 1 {
  return new Intl.PluralRules(language.value).select(Number(n)) === "one" ? 0 : 1;
}

function fill(text: string, values?: Values): string {
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
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
  return new Intl.RelativeTimeFormat(locale(), { numeric: "auto" }).format(Math.trunc(seconds / size), unit);
}

/** duration formats a span in seconds by its largest unit, such as "3 min". */
export function duration(seconds: number): string {
  const [unit, size] = steps.find(([u, s]) => u !== "year" && u !== "month" && seconds >= s) ?? ["second", 1];
  const n = seconds / size;
  return number(n, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: n < 10 ? 1 : 0 });
}

document.documentElement.lang = language.value;
