import { useLocation } from "preact-iso/router";
import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime } from "../../app/i18n";
import { useAct, useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { can, operator } from "../../app/session";
import { text as common } from "../../messages/app";
import { actText, text } from "../../messages/audit";
import { downloadCSV, type Cell } from "../../ui/csv";
import { Await, Trouble } from "../../ui/failure";
import { Check, Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { Moment } from "../../ui/time";

type Entry = Schemas["AuditEntry"];
type Page = Schemas["AuditPage"];

/** Audit shows administrators who did what, and when. */
export default function Audit() {
  if (can("admin")) return <Log />;
  return (
    <section class="empty">
      <h1>{common("audit")}</h1>
      <p>{text("admins")}</p>
    </section>
  );
}

function Log() {
  const { query, url, route } = useLocation();
  const all = operator.value && query["all"] === "true";
  const wanted = query["q"] ?? "";
  const ask1 = (cursor: string, signal?: AbortSignal) => ask(client.GET("/api/admin/audit", {
    params: { query: { limit: 100, ...(all ? { all } : {}), ...(cursor ? { cursor } : {}) } }, ...(signal ? { signal } : {}),
  }));
  const loaded = useLoad((signal) => ask1("", signal), [all]);
  const [more, setMore] = useState<{ of: Page; pages: Page[] }>();
  const act = useAct();
  const first = loaded.data;
  // Further pages belong to the first page that they follow.
  const pages = first ? [first, ...(more?.of === first ? more.pages : [])] : [];
  const entries = pages.flatMap((p) => p.entries);
  const shown = matching(entries, wanted);
  const next = pages.at(-1)?.next_cursor ?? "";
  const set = (change: Record<string, string | undefined>) => route(inQuery(url, change), true);
  useEffect(() => act.clear(), [all]);
  return (
    <>
      <div class="head">
        <h1>{common("audit")}</h1>
        {loaded.at && <span class="quiet small-text">{common("asOf", { time: dateTime(loaded.at, { timeStyle: "medium" }) })}</span>}
        <button type="button" disabled={loaded.loading} onClick={loaded.reload}>{text("reload")}</button>
        <button type="button" disabled={shown.length === 0} onClick={() => downloadCSV("audit", asTable(shown))}>{common("downloadCSV")}</button>
      </div>
      <div class="audit-filters">
        <Field type="search" label={text("search")} value={wanted} set={(q) => set({ q })} dir="auto" />
        {operator.value && <Check label={text("all")} checked={all} set={(on) => set({ all: on ? "true" : undefined })} />}
      </div>
      <Await of={loaded}>
        {() => entries.length === 0 ? <p class="empty">{text("empty")}</p> : (
          <>
            <p class="quiet" role="status">{shown.length === 0 ? text("nothing") : text("count", { n: shown.length, all: entries.length })}</p>
            {shown.length > 0 && <Entries entries={shown} withWorkspace={all} />}
            <Trouble failure={act.failure} />
            {next ? (
              <p>
                <button
                  type="button" disabled={act.busy}
                  onClick={() => void act.run(async () => {
                    const page = await ask1(next);
                    setMore({ of: first!, pages: [...pages.slice(1), page] });
                  })}
                >
                  {common("more")}
                </button>
              </p>
            ) : <p class="quiet">{text("end")}</p>}
          </>
        )}
      </Await>
    </>
  );
}

function Entries({ entries, withWorkspace }: { entries: readonly Entry[]; withWorkspace: boolean }) {
  return (
    <div class="card">
      <Table title={common("audit")} look="audit" heads={[text("when"), text("who"), text("act"), text("subject"), ...(withWorkspace ? [text("workspace")] : []), text("details")]}>
        {entries.map((e) => (
          <tr key={`${e.workspace} ${e.id}`}>
            <td class="when"><Moment at={e.at} /></td>
            <td dir="auto">{e.actor}</td>
            <td title={e.action}>{actText(e.action)}</td>
            <td dir="auto">{e.subject}</td>
            {withWorkspace && <td>{e.workspace}</td>}
            <td dir="auto" class="small-text">{detailOf(e.detail)}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}

/** detailOf lays out the arguments of an act in one line. */
function detailOf(detail: Entry["detail"]): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(detail ?? {})) {
    if (value === null || value === "" || value === false) continue;
    // The words of what was done stand alone, and say the step.
    if (name === "what" && typeof value === "string") parts.unshift(value);
    else if (name !== "step") parts.push(`${name.replaceAll("_", " ")}: ${valueOf(value)}`);
  }
  return parts.join(" · ");
}

function valueOf(value: unknown): string {
  if (typeof value === "string") return /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value) ? dateTime(value) : value;
  if (value === true) return common("yes");
  if (Array.isArray(value)) return value.map(valueOf).join(", ") || common("none");
  return JSON.stringify(value);
}

function matching(entries: readonly Entry[], wanted: string): readonly Entry[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return entries;
  return entries.filter((e) => {
    const hay = [e.actor, e.action, actText(e.action), e.subject, e.workspace, detailOf(e.detail)].join(" ").toLowerCase();
    return words.every((w) => hay.includes(w));
  });
}

function asTable(entries: readonly Entry[]): Cell[][] {
  return [
    ["id", "at", "workspace", "actor", "action", "subject", "detail"],
    ...entries.map((e) => [e.id, e.at, e.workspace, e.actor, e.action, e.subject, e.detail ? JSON.stringify(e.detail) : ""]),
  ];
}
