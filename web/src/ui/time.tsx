import { signal } from "@preact/signals";
import { ago, dateTime } from "../app/i18n";
import { text } from "../messages/app";

const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 10_000);

/** Ago shows how long ago a moment was, and the moment itself as a tooltip. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <>{text("never")}</>;
  return <time dateTime={at} title={dateTime(at)}>{ago(at, Math.max(now.value, Date.now()))}</time>;
}

/** Moment shows a moment in the browser's time zone. */
export function Moment({ at }: { at: string | null | undefined }) {
  if (!at) return <>{text("never")}</>;
  return <time dateTime={at} title={ago(at)}>{dateTime(at)}</time>;
}
