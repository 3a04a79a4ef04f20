import { useLocation } from "preact-iso/router";
import type { ComponentChildren } from "preact";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime, number, percent } from "../../app/i18n";
import { useRenewal } from "../../app/live";
import { useLoad } from "../../app/load";
import { inQuery, linkPath } from "../../app/paths";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/overview";
import { Await } from "../../ui/failure";
import { Choice } from "../../ui/field";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { chosenSpan, day, plus, zone, type Chosen } from "../link/span";
import { Breakdowns, compared, Line, Spans } from "../link/statistics";
import { Tags } from "../link/tags";
import { Offered, useCreators } from "../links/filters";
import { Crossed } from "./crossed";
import { daysOf, groupOf, tagList, tagsOf, type Group } from "./group";
import { counted, Groups } from "./groups";
import { Views } from "./views";

type Stats = Schemas["WorkspaceStats"];

const week = 7 * 86_400_000;

/** Overview shows how the links of the workspace do, or a group of them. */
export default function Overview() {
  const { query } = useLocation();
  const links = useLoad(async (signal) => {
    const soon = new Date(Date.now() + week).toISOString();
    const [workspace, newest, expiring, tags] = await Promise.all([
      ask(client.GET("/api/v1/workspace", { signal })),
      ask(client.GET("/api/v1/urls", { params: { query: { limit: 6 } }, signal })),
      ask(client.GET("/api/v1/urls", { params: { query: { limit: 10, expires_before: soon, expired: "false" } }, signal })),
      ask(client.GET("/api/v1/tags", { params: { query: { limit: 1000 } }, signal })),
    ]);
    return { all: workspace.links ?? 0, newest: newest.urls, expiring: expiring.urls, tags: tags.tags.sort((a, b) => b.links - a.links), cut: tags.next_after };
  }, []);
  useRenewal(links.reload);
  const group = groupOf(query);
  const withTags = tagsOf(query["tag"]);
  return (
    <>
      <h1>{shared("overview")}</h1>
      {can("analytics:read") ? (
        <>
          <Filters />
          <Views />
          {withTags.length === 1 && <Views key={withTags[0]} tag={withTags[0]!} />}
          <Clicks key={JSON.stringify(group)} group={group} />
          <Crossed group={group} days={daysOf(chosenSpan(query).range)} />
          <Groups />
        </>
      ) : <p class="notice">{text("noScope")}</p>}
      <Await of={links}>{({ all, newest, expiring, tags, cut }) => (
        <div class="cards">
          <Card id="expiring" title={text("expiring")} none={text("expiringNone")} items={expiring} more="/console/links?state=expiring">
            {(l) => <LinkRow key={l.id} link={l}><Ago at={l.expires_at} /></LinkRow>}
          </Card>
          <Card id="newest" title={text("newest")} none={<>{text("newestNone")} <a href="/console/links?create">{text("create")}</a> <a href="/console/import">{text("import")}</a></>} items={newest} more="/console/links" all={all === 10_000 ? text("linksMany") : text("linksAll", { n: all })}>
            {(l) => <LinkRow key={l.id} link={l}><Ago at={l.created_at} /></LinkRow>}
          </Card>
          <section class="card" aria-labelledby="tags-title">
            <h2 id="tags-title">{text("tags")}</h2>
            {tags.length === 0 ? <p class="quiet">{text("tagsNone")}</p> : (
              <ul class="row">
                {tags.slice(0, 30).map((t) => (
                  <li key={t.tag}>
                    <a class="tag" href={`/console/links?tag=${encodeURIComponent(t.tag)}`} aria-label={text("tagLinks", { tag: t.tag, n: t.links })}>
                      <span dir="auto" class="clip">{t.tag}</span> <b>{number(t.links)}</b>
                    </a>
                  </li>
                ))}
              </ul>
            )}
            {cut && <p class="hint">{text("tagsCut")}</p>}
          </section>
        </div>
      )}</Await>
    </>
  );
}

/** Filters chooses the links and the time that the numbers are of. */
function Filters() {
  const { url, query, route } = useLocation();
  const domains = useLoad((signal) => ask(client.GET("/api/v1/domains", { signal })), []).data?.domains ?? [];
  const go = (change: Record<string, string | undefined>) => {
    const to = inQuery(url, change);
    if (to !== url) route(to);
  };
  const set = (name: string) => (value: string) => go({ [name]: value });
  return (
    <search class="card" aria-label={text("filters")}>
      <div class="form-row">
        <Tags label={text("withTags")} tags={tagsOf(query["tag"])} set={(tags) => go({ tag: tagList(tags) })} />
        <Choice label={text("domain")} value={query["domain"] ?? ""} set={set("domain")} options={[["", text("anyDomain")], ...domains.map((d) => [d.host, d.host] as const)]} />
        <Offered label={text("creator")} value={query["created_by"] ?? ""} set={set("created_by")} use={useCreators} />
      </div>
      <Spans chosen={chosenSpan(query)} />
    </search>
  );
}

/** Clicks shows the numbers of the workspace, or of a group of its links. */
function Clicks({ group }: { group: Group }) {
  const { query } = useLocation();
  const chosen = chosenSpan(query);
  const clicks = useLoad(async (signal) => {
    const now = new Date();
    const [stats, hours] = await Promise.all([
      ask(client.GET("/api/v1/stats", { params: { query: { ...group, ...chosen.range, ...chosen.against, top: 10 } }, signal })),
      ask(client.GET("/api/v1/stats", { params: { query: { ...group, tz: zone, top: 1, interval: "hour", from: day(plus(now, -7)), to: day(now) } }, signal })),
    ]);
    // The other type of an answer is CSV, which was not asked for.
    return { stats: stats as Stats, hours: hours as Stats, now, of: chosen };
  }, [JSON.stringify([chosen.range, chosen.against])]);
  useRenewal(clicks.reload);
  return (
    <Await of={clicks}>{({ stats, hours, now, of }) => (
      <>
        <Figures stats={stats} hours={hours} now={now} of={of} />
        <Complete of={hours} kept={stats} />
        <section class="card" aria-label={text("chart")}>
          <Line stats={stats} of={of} code="clicks" />
        </section>
        <Top of={stats} />
        <Breakdowns ask={(range, signal, named) => ask(client.GET("/api/v1/stats", { params: { query: { ...group, ...range, ...named as { by: "os" }, top: 1 } }, signal })) as Promise<Stats>} id="" file="clicks" stats={stats} range={of.range} />
      </>
    )}</Await>
  );
}

/** Figures compares whole hours, so that a running hour makes no day look worse. */
function Figures({ stats, hours, now, of }: { stats: Stats; hours: Stats; now: Date; of: Chosen }) {
  const today = day(now);
  const before = day(plus(now, -7));
  const hour = now.getHours();
  let all = 0;
  let bots = 0;
  let then = 0;
  let sofar = 0;
  for (const b of hours.series) {
    const on = b.t.slice(0, 10);
    const whole = Number(b.t.slice(11, 13)) < hour;
    if (on === today) {
      all += b.clicks;
      bots += b.bot_clicks;
      if (whole) sofar += b.clicks;
    } else if (on === before && whole) then += b.clicks;
  }
  const time = dateTime(new Date(now.getFullYear(), now.getMonth(), now.getDate(), hour), { timeStyle: "short" });
  const change = sofar === then ? text("same") : then === 0 ? "" : textOf(sofar > then ? "more" : "fewer", { share: percent(Math.abs(sofar - then) / then) });
  return (
    <section class="card" aria-label={shared("overview")}>
      <dl class="figures">
        <div class="figure"><dt>{text("today")}</dt><dd>{number(all)}</dd>{bots > 0 && <dd class="note">{text("bots", { n: bots })}</dd>}</div>
        <div class="figure"><dt>{text("inTime")}</dt><dd>{number(stats.clicks)}</dd>{stats.bot_clicks > 0 && <dd class="note">{text("bots", { n: stats.bot_clicks })}</dd>}</div>
        <div class="figure"><dt>{text("visitors")}</dt><dd>{number(stats.unique_visitors - stats.unique_bots)}</dd></div>
        <div class="figure"><dt>{text("total")}</dt><dd>{number(stats.total_clicks)}</dd></div>
        {typeof stats.links === "number" && <div class="figure"><dt>{shared("links")}</dt><dd>{number(stats.links)}</dd></div>}
      </dl>
      <p>{compared(stats, of)}</p>
      {hour === 0 ? <p class="quiet">{text("firstHour")}</p> : (
        <p class="quiet">
          {text("until", { time })}: <b>{number(sofar)}</b>. {text("lastWeek", { weekday: dateTime(now, { weekday: "long" }), time })}: <b>{number(then)}</b>{change && ` (${change})`}.
        </p>
      )}
    </section>
  );
}

function Complete({ of: { complete_until, behind }, kept }: { of: Stats; kept: Stats }) {
  return (
    <p class={behind.length > 0 ? "notice warn" : "quiet small-text"}>
      {complete_until ? text("complete", { time: dateTime(complete_until, { dateStyle: "medium", timeStyle: "medium" }) }) : text("unknownComplete")}
      {behind.length > 0 && ` ${text("behind", { names: behind.join(", ") })}`}
      {counted(kept)}
    </p>
  );
}

function Top({ of }: { of: Stats }) {
  return (
    <section class="card" aria-labelledby="top-title">
      <h2 id="top-title">{text("top")}</h2>
      {of.top.length === 0 ? <p class="quiet">{text("topNone")}</p> : (
        <Table title={text("top")} heads={[text("link"), [text("clicks")], [text("byBots")]]}>
          {of.top.map((l) => (
            <tr key={l.domain + l.short_code}>
              <td><a href={linkPath(l)} dir="auto">{l.title || l.short_code}</a> <span class="quiet small-text short" dir="ltr">{l.original_url}</span></td>
              <td class="num">{number(l.clicks)}</td>
              <td class="num">{number(l.bot_clicks)}</td>
            </tr>
          ))}
        </Table>
      )}
      {!of.top_exact && of.top.length > 0 && <p class="hint">{text("topUnsure")}</p>}
    </section>
  );
}

function Card<T>({ id, title, none, items, more, all = text("allLinks"), children }: {
  id: string; title: string; none: ComponentChildren; items: readonly T[]; more: string; all?: string; children: (item: T) => ComponentChildren;
}) {
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <div class="head">
        <h2 id={`${id}-title`} class="grow">{title}</h2>
        {items.length > 0 && <a href={more} aria-label={`${all}: ${title}`}>{all}</a>}
      </div>
      {items.length === 0 ? <p class="quiet">{none}</p> : <ul class="lines">{items.map(children)}</ul>}
    </section>
  );
}

function LinkRow({ link, children }: { link: Schemas["Link"]; children: ComponentChildren }) {
  return (
    <li>
      <a class="clip grow" href={linkPath(link)} dir="auto" title={link.original_url}>{link.title || <>{link.short_code} <span class="quiet" dir="ltr">{link.original_url}</span></>}</a>
      <span class="quiet small-text">{children}</span>
    </li>
  );
}
