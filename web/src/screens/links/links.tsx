import { useLocation } from "preact-iso/router";
import { useCallback, useEffect, useReducer, useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { typing, useShortcuts } from "../../app/keys";
import { useNews } from "../../app/live";
import { useAct, useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { can } from "../../app/session";
import { Await, Trouble } from "../../ui/failure";
import { download } from "../../ui/csv";
import { text as common } from "../../messages/app";
import { text, textOf } from "../../messages/links";
import { Bulk, Failed, refocus, useChanges } from "./bulk";
import { CreateDialog, CreateForm, type Made } from "./create";
import { filtered, Filters, keyOf, queryOf, sortOf, unfiltered } from "./filters";
import { useLinks, type Link, type LinkList } from "./list";
import { LinkTable, sparkKey } from "./table";

const none: readonly Schemas["Domain"][] = [];

/** Links is the list of all links, the console's first screen. */
export default function Links() {
  const { url, query, route } = useLocation();
  const asked = query as Readonly<Record<string, string>>;
  const domains = useLoad((signal) => ask(client.GET("/api/v1/domains", { signal })), []).data?.domains ?? none;
  const shared = domains.find((d) => d.shared)?.host ?? "";
  const key = keyOf(asked, domains);
  const list = useLinks(key, () => queryOf(asked, domains));
  const [selected, select, clear] = useSelection(key);
  const [sparks, shown, renew] = useSparks(list);
  const [made, setMade] = useState<Made>();
  const [pasted, setPasted] = useState("");
  const row = useRef(-1);
  const changes = useChanges(list, clear, row);
  const write = can("links:write");
  const creating = (asked["create"] !== undefined || made !== undefined) && write;
  const open = () => route(inQuery(url, { create: "1" }));
  const { empty } = list;
  const searched = useRef(false); // whose fields stay when the last filter goes
  searched.current ||= filtered(asked);
  const first = empty && !searched.current;
  useShortcuts(write ? [{ keys: "c", label: common("create"), run: open }] : []);
  usePaste((target) => {
    if (!write) return;
    setPasted(target);
    open();
  });
  useNews("workspace", renew);
  const show = () => {
    list.reload();
    scrollTo(0, 0);
  };
  const created = (next: Made | undefined) => {
    setMade(next);
    setPasted("");
    if (next) show();
  };
  return (
    <>
      <div class="head">
        <h1>{common("links")}</h1>
        {!first && <Export query={() => queryOf(asked, domains)} />}
        {write && <button type="button" class="primary" onClick={open}>{common("create")} <kbd class="wide-only" aria-hidden="true">c</kbd></button>}
      </div>
      {!first && <Filters domains={domains} />}
      <Failed of={changes} row={row} />
      <div class="row list-state">
        <p role="status" class="quiet">{list.rows.length > 0 && textOf(list.next ? "shownSome" : "shownAll", { n: list.rows.length })}</p>
        {filtered(asked) && !empty && <button type="button" class="small" onClick={() => route(unfiltered(url))}>{text("clear")}</button>}
        {list.newer > 0 && <button type="button" class="small" onClick={show}>{text("newLinks", { n: list.newer })}: {text("show")}</button>}
      </div>
      <Pending list={list} version={list.version} />
      {empty && (filtered(asked)
        ? (
          <section class="empty">
            <h2>{text("nothing")}</h2>
            <p>{text("nothingHint")}</p>
            <button type="button" onClick={() => route(unfiltered(url))}>{text("clear")}</button>
          </section>
        )
        : (
          <section class="card first-link">
            <h2>{text("noLinks")}</h2>
            <p class="quiet">{text("noLinksHint")}</p>
            {write && !creating && <CreateForm domains={domains} made={created} />}
          </section>
        ))}
      {list.rows.length > 0 && (
        <LinkTable
          list={list} version={list.version} selected={selected} select={select} sort={sortOf(asked)} setSort={(sort) => route(inQuery(url, { sort: sort === "-created" ? undefined : sort }))}
          sparks={sparks} shown={shown} at={row} url={url} shared={shared}
        />
      )}
      <Bulk of={changes} list={list} version={list.version} selected={selected} clear={clear} row={row} shared={shared} />
      {creating && (
        <CreateDialog
          domains={domains} shared={shared} pasted={pasted} made={made} setMade={created}
          close={() => {
            setMade(undefined);
            setPasted("");
            if (asked["create"] !== undefined) route(inQuery(url, { create: undefined }), true);
            refocus(row.current);
          }}
        />
      )}
    </>
  );
}

/** Pending says that links are on their way, or why they are not. */
export function Pending({ list }: { list: LinkList; version: number }) {
  const { failure, loading, slow, at, rows, empty } = list;
  return <Await of={{ failure, loading, slow, at, data: empty || rows.length > 0 || undefined, reload: () => list.retry() }}>{() => null}</Await>;
}

/** useSelection keeps which links are selected, until the list is another. */
export function useSelection(key: string): [ReadonlyMap<string, Link>, (links: readonly Link[], on: boolean) => void, () => void] {
  const [selected, setSelected] = useState<ReadonlyMap<string, Link>>(new Map());
  useEffect(() => setSelected(new Map()), [key]);
  return [
    selected,
    (links, on) => setSelected((now) => {
      const next = new Map(now);
      for (const l of links) {
        if (on) next.set(l.id, l);
        else next.delete(l.id);
      }
      return next;
    }),
    () => setSelected(new Map()),
  ];
}

/** usePaste takes a URL that is pasted outside a field. */
function usePaste(take: (target: string) => void): void {
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const pasted = (e: ClipboardEvent) => {
      if (typing(e) || document.querySelector("dialog[open]")) return;
      const target = e.clipboardData?.getData("text/plain").trim() ?? "";
      if (!/^https?:\/\/\S+$/i.test(target) || !URL.canParse(target)) return;
      e.preventDefault();
      latest.current(target);
    };
    addEventListener("paste", pasted);
    return () => removeEventListener("paste", pasted);
  }, []);
}

const days = 14;
const settle = 150; // milliseconds without scrolling

/** useSparks loads the daily clicks of the links in the window, and with the news their
 * clicks of all time. */
function useSparks(list: LinkList): [ReadonlyMap<string, readonly number[]>, (first: number, last: number) => void, () => void] {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const state = useRef({ counts: new Map<string, readonly number[]>(), first: 0, last: 0, timer: 0, busy: false }).current;
  const load = useCallback(async (all: boolean) => {
    const wanted = list.rows.slice(state.first, state.last + 1).map((r) => sparkKey(r.link)).filter((key) => all || !state.counts.has(key)).slice(0, 100);
    if (wanted.length === 0 || state.busy) return;
    state.busy = true;
    try {
      const tz = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const got = await ask(client.GET("/api/v1/stats/links", { params: { query: { link: wanted, days, tz } } }));
      for (const key of wanted) if (!state.counts.has(key)) state.counts.set(key, []); // a link that is not there
      for (const l of got.links) state.counts.set(`${l.domain}/${l.short_code}`, l.clicks);
      draw(undefined);
    } catch {
      // The list is of use without; the next news tries again.
    } finally {
      state.busy = false;
    }
  }, [list]);
  useEffect(() => () => clearTimeout(state.timer), []);
  return [
    state.counts,
    (first, last) => {
      const fresh = list.rows.slice(first, last + 1).some((r) => !state.counts.has(sparkKey(r.link)));
      state.first = first;
      state.last = last;
      if (!fresh) return;
      clearTimeout(state.timer);
      state.timer = window.setTimeout(() => void load(false), settle);
    },
    () => {
      void list.refresh(state.first, state.last);
      void load(true);
    },
  ];
}

/** Export stores all links that the filters find. */
function Export({ query }: { query: () => ReturnType<typeof queryOf> }) {
  const act = useAct();
  return (
    <>
      <button
        type="button" disabled={act.busy}
        onClick={() => void act.run(async () => {
          const { sort: _, ...filters } = query();
          const data = await ask(client.GET("/api/v1/urls/export", { params: { query: { ...filters, format: "csv" } }, parseAs: "blob" }));
          download("links.csv", data as unknown as Blob);
        })}
      >
        {text("exportFound")}
      </button>
      <Trouble failure={act.failure} />
    </>
  );
}
