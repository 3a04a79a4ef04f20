import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/link";
import { Await, Trouble } from "../../ui/failure";
import { Moment } from "../../ui/time";
import { fieldLabel, inWords, same, type Change, type Link, type Place } from "./change";

type Event = Schemas["LinkEvent"];

/** History lists the changes of a link, the newest first, and brings former states back. */
export function History({ at, link, restore }: { at: Place; link: Link; restore: (change: Change) => Promise<void> }) {
  const [older, setOlder] = useState<{ events: readonly Event[]; cursor: string }>();
  const act = useAct();
  const page = (cursor?: string, signal?: AbortSignal) => ask(client.GET("/api/v1/urls/{code}/history", { params: { path: { code: at.code }, query: { domain: at.domain, limit: 20, cursor } }, signal: signal ?? null }));
  const first = useLoad((signal) => page(undefined, signal), [at.code, at.domain, link.updated_at]);
  // Older pages do not follow the newest one any more once it has changed.
  useEffect(() => setOlder(undefined), [first.data]);
  return (
    <section class="card" aria-labelledby="history-title">
      <h2 id="history-title">{text("history")}</h2>
      <Await of={first}>
        {({ changes: newest, next_cursor }) => {
          const events = [...newest, ...(older?.events ?? [])];
          const cursor = older ? older.cursor : next_cursor;
          return (
            <>
              <ol class="history">
                {events.map((event, i) => (
                  <Entry
                    key={event.id} event={event} busy={act.busy}
                    back={can("links:write") && event.what !== "deleted" && event.what !== "expired" ? stateAfter(events, i, link) : {}}
                    restore={(change) => void act.run(() => restore(change))}
                  />
                ))}
              </ol>
              <Trouble failure={act.failure} />
              {cursor && (
                <button
                  type="button" disabled={act.busy}
                  onClick={() => void act.run(async () => {
                    const next = await page(cursor);
                    setOlder({ events: [...(older?.events ?? []), ...next.changes], cursor: next.next_cursor });
                  })}
                >
                  {shared("more")}
                </button>
              )}
            </>
          );
        }}
      </Await>
    </section>
  );
}

/** stateAfter returns the change that brings back the state that a link had after an event:
 * all later changes, undone. It is empty when the link is in that state. A former password
 * is not known to anybody, and aliases stay as they are. */
function stateAfter(events: readonly Event[], index: number, link: Link): Change {
  const values: Record<string, unknown> = {};
  for (const event of events.slice(0, index)) {
    for (const field of event.fields) if (field.name !== "password" && field.name !== "aliases") values[field.name] = field.before;
  }
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => !same(value, link[name as keyof Link]))) as Change;
}

function Entry({ event, back, busy, restore }: { event: Event; back: Change; busy: boolean; restore: (change: Change) => void }) {
  const what = textOf(`what_${event.what}`);
  const by = event.by;
  const row = by?.kind === "stated" && /^import:\w+:(\d+)$/.exec(by.name)?.[1];
  return (
    <li>
      <div class="row">
        <p>
          <strong>{what}</strong>{" "}
          {row ? <span class="quiet">{text("byImport", { row })} </span> : by && <><span class="quiet">{by.kind === "stated" ? text("byStated") : text("by")}</span> <span dir="auto">{by.name || textOf(`by_${by.kind}`)}</span>{by.kind !== "user" && by.kind !== "stated" && by.name && <span class="quiet"> ({textOf(`by_${by.kind}`)})</span>}{" "}</>}
          <span class="quiet"><Moment at={event.at} /></span>
        </p>
        <span class="grow" />
        {Object.keys(back).length > 0 && <button type="button" class="small" disabled={busy} onClick={() => restore(back)}>{text("bringBack")}</button>}
      </div>
      {event.fields.length > 0 && (
        <dl class="facts">
          {event.fields.map((f) => (
            <>
              <dt>{fieldLabel(f.name)}</dt>
              <dd>
                <span class="offscreen">{text("beforeWord")} </span><del dir="auto">{inWords(f.name, f.before)}</del> <span aria-hidden="true">→</span>
                <span class="offscreen"> {text("afterWord")} </span> <ins dir="auto">{inWords(f.name, f.after)}</ins>
              </dd>
            </>
          ))}
        </dl>
      )}
    </li>
  );
}
