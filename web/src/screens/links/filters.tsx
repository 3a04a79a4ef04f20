import { useLocation } from "preact-iso/router";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useShortcuts } from "../../app/keys";
import { inQuery, searchOf } from "../../app/paths";
import { Choice, Field } from "../../ui/field";
import { text } from "../../messages/links";
import type { Query } from "./list";
import type { Sort } from "./table";

/** The names in the address bar that choose and order links. */
const names = ["search", "tag", "domain", "state", "from", "to"] as const;

export type State = "" | "active" | "off" | "expired" | "expiring";

const sorts: readonly Sort[] = ["-created", "created", "-clicks", "clicks"];
const week = 7 * 86_400_000; // milliseconds

type Asked = Readonly<Record<string, string>>;

/** sortOf returns the order that the address bar names. */
export function sortOf(asked: Asked): Sort {
  return sorts.find((s) => s === asked["sort"]) ?? "-created";
}

/** filtered reports whether the address bar names any filter. */
export function filtered(asked: Asked): boolean {
  return names.some((name) => asked[name]);
}

/** keyOf returns a text that differs when the list does. */
export function keyOf(asked: Asked, domains: readonly Schemas["Domain"][]): string {
  return JSON.stringify([...names.map((name) => asked[name] ?? ""), sortOf(asked), searchOf(asked["search"] ?? "", domains)]);
}

/** queryOf returns the API's parameters for the filters in the address bar. */
export function queryOf(asked: Asked, domains: readonly Schemas["Domain"][]): Query {
  const query: Query = { sort: sortOf(asked) };
  if (asked["search"]) Object.assign(query, searchOf(asked["search"], domains));
  if (asked["tag"]) query.tag = [asked["tag"]];
  if (asked["domain"]) query.domain = asked["domain"];
  const from = day(asked["from"], 0);
  const to = day(asked["to"], 1);
  if (from) query.created_after = from;
  if (to) query.created_before = to;
  switch (asked["state"] as State) {
    case "active":
      return { ...query, active: "true", expired: "false" };
    case "off":
      return { ...query, active: "false" };
    case "expired":
      return { ...query, expired: "true" };
    case "expiring":
      return { ...query, expired: "false", expires_before: new Date(Date.now() + week).toISOString() };
  }
  return query;
}

/** day returns the start of a day of the browser's time zone, some days later. */
function day(date: string | undefined, later: number): string | undefined {
  const at = new Date(`${date}T00:00`);
  if (!date || isNaN(at.getTime())) return undefined;
  at.setDate(at.getDate() + later);
  return at.toISOString();
}

/** unfiltered returns an address without filters. */
export function unfiltered(url: string): string {
  return inQuery(url, Object.fromEntries(names.map((name) => [name, undefined])));
}

/** Filters are the fields above the list. They live in the address bar. */
export function Filters({ domains }: { domains: readonly Schemas["Domain"][] }) {
  const { url, query, route } = useLocation();
  const asked = query as Asked;
  const go = (change: Record<string, string | undefined>, replace = false) => {
    const to = inQuery(url, change);
    if (to !== url) route(to, replace);
  };
  const set = (name: string) => (value: string) => go({ [name]: value });
  // While a year is being typed, the value has one of long ago.
  const date = (name: string) => (value: string) => (!value || value >= "2000") && go({ [name]: value }, true);
  const [more] = useState(["domain", "from", "to"].some((name) => asked[name]));
  return (
    <search class="link-filters">
      <Search />
      <Choice<State>
        label={text("state")} value={(asked["state"] ?? "") as State} set={set("state")}
        options={[["", text("anyState")], ["active", text("active")], ["off", text("inactive")], ["expired", text("isExpired")], ["expiring", text("expiring")]]}
      />
      <Offered label={text("tag")} value={asked["tag"] ?? ""} set={set("tag")} use={useTags} />
      <Choice<Sort>
        label={text("sort")} value={sortOf(asked)} set={(sort) => go({ sort: sort === "-created" ? undefined : sort })}
        options={[["-created", text("newest")], ["created", text("oldest")], ["-clicks", text("mostClicks")], ["clicks", text("fewestClicks")]]}
      />
      <details class="more-filters" open={more}>
        <summary>{text("filters")}</summary>
        <div class="row">
          {domains.length > 1 && (
            <Choice
              label={text("domain")} value={asked["domain"] ?? ""} set={set("domain")}
              options={[["", text("anyDomain")], ...domains.map((d) => [d.host, d.host] as const)]}
            />
          )}
          <Field label={text("from")} type="date" value={asked["from"] ?? ""} set={date("from")} />
          <Field label={text("to")} type="date" value={asked["to"] ?? ""} set={date("to")} />
        </div>
      </details>
    </search>
  );
}

const pause = 120; // milliseconds without a key before the search is sent

/** Search is the field in which somebody types. */
function Search() {
  const { url, query, route } = useLocation();
  const asked = (query as Asked)["search"] ?? "";
  const [typed, setTyped] = useState(asked);
  const sent = useRef(asked);
  const input = useRef<HTMLInputElement>(null);
  const latest = useRef(url);
  latest.current = url;
  const id = useId();
  useShortcuts([{ keys: "/", label: text("keySearch"), run: () => input.current?.focus() }]);
  // The address changes by other ways, too: back, or a button that clears the filters.
  useEffect(() => {
    if (asked === sent.current) return;
    sent.current = asked;
    setTyped(asked);
  }, [asked]);
  useEffect(() => {
    const search = typed.trim();
    if (search === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = search;
      route(inQuery(latest.current, { search }), true);
    }, pause);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <div class="field search">
      <label for={id}>{text("searchLabel")}</label>
      <input
        id={id} ref={input} type="search" data-search placeholder={text("searchHint")} value={typed} autocomplete="off" spellcheck={false} dir="auto"
        aria-keyshortcuts="/" onInput={(e) => setTyped(e.currentTarget.value)}
      />
    </div>
  );
}

/** useOffers returns what is there for a text that is being typed. */
function useOffers(typed: string, find: (typed: string, signal: AbortSignal) => Promise<readonly string[]>): readonly string[] {
  const [offers, setOffers] = useState<readonly string[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      find(typed, abort.signal).then(setOffers, () => undefined); // the text is taken without
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed]);
  return offers;
}

/** useTags returns tags that begin with a text. */
export function useTags(prefix: string): readonly string[] {
  return useOffers(prefix, async (typed, signal) => (
    (await ask(client.GET("/api/v1/tags", { params: { query: { limit: 20, ...(typed ? { prefix: typed } : {}) } }, signal }))).tags.map((t) => t.tag)
  ));
}

/** useCreators returns creators whose names have a text. */
export function useCreators(part: string): readonly string[] {
  return useOffers(part, async (search, signal) => (
    search ? ((await ask(client.GET("/api/v1/stats/creators", { params: { query: { search, limit: 20 } }, signal }))) as Schemas["GroupTable"]).groups.map((g) => g.name) : []
  ));
}

/** Offered is a field for one name, with those that exist as suggestions. */
export function Offered({ label, value, set, use }: { label: string; value: string; set: (name: string) => void; use: (typed: string) => readonly string[] }) {
  const [typed, setTyped] = useState(value);
  const offers = use(typed);
  useEffect(() => setTyped(value), [value]);
  return (
    <Field
      label={label} type="search" offers={offers} value={typed} autocomplete="off" dir="auto"
      set={(name) => {
        setTyped(name);
        if (name === "" || offers.includes(name)) set(name);
      }}
      onChange={(e) => set(e.currentTarget.value.trim())}
    />
  );
}
