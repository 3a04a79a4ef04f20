import type { ComponentChildren } from "preact";
import { Failure } from "../app/api";
import { dateTime, duration } from "../app/i18n";
import type { Loaded } from "../app/load";
import { text } from "../messages/app";
import { toast } from "./toast";

/** words says in the user's language why a request had no success. The detail of an answer is
 * English: other languages have their own words for each kind of problem, and quote it only
 * where it says which of many rules was broken. */
export function words(f: Failure): string {
  const detail = f.message;
  switch (true) {
    case f.kind === "unreachable":
      return text("failUnreachable");
    case f.kind === "counting":
      return text("failCounting");
    case f.status === 401:
      return f.kind === "unauthorized" ? text("failSession") : text("failCode", { detail });
    case f.status === 403:
      return detail.startsWith("current_password") ? text("failPassword") : text("failForbidden", { detail });
    case f.status === 404:
      return text("failNotFound", { detail });
    case f.status === 410:
      return text("failGone", { detail });
    case f.status === 412:
      return text("failChanged");
    case f.status === 409:
      return text("failConflict", { detail });
    case f.status === 429:
      return text("failTooMany", { wait: duration(f.retryAfter || 1) });
    case f.kind === "keys-exhausted":
      return text("failExhausted", { detail });
    case f.status === 503 || f.status === 502 || f.status === 504:
      return text("failUnavailable", { detail });
    case f.status >= 400 && f.status < 500:
      return text("failInvalid", { detail });
    default:
      return text("failFault");
  }
}

/** toastFailure says briefly why something had no success. */
export function toastFailure(e: unknown): void {
  toast(e instanceof Failure ? words(e) : String(e), { bad: true });
}

/** Trouble shows why a request had no success, and offers another try. */
export function Trouble({ failure, retry }: { failure: Failure | undefined; retry?: () => void }) {
  if (!failure) return null;
  return (
    <div class="notice bad" role="alert">
      <p>{words(failure)}</p>
      {retry && <button type="button" onClick={retry}>{text("retry")}</button>}
    </div>
  );
}

/** Await shows loaded data; before that, that it loads; and when a reload failed, how old
 * the data is. */
export function Await<T>({ of, children }: { of: Omit<Loaded<T>, "set">; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.failure && (
        <div class="notice bad" role="alert">
          <p>
            {words(of.failure)} {of.data !== undefined && of.at && text("stale", { time: dateTime(of.at, { timeStyle: "medium" }) })}
          </p>
          <button type="button" onClick={of.reload}>{text("retry")}</button>
        </div>
      )}
      {of.slow && <p class="notice" role="status">{text("slow")}</p>}
      {of.data === undefined && of.loading && !of.slow && <p class="quiet waits" role="status">{text("loading")}</p>}
      {of.data !== undefined && children(of.data)}
    </>
  );
}
