import type { ComponentChildren } from "preact";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime, number, percent } from "../../app/i18n";
import { useRenewal } from "../../app/live";
import { useLoad } from "../../app/load";
import { linkPath } from "../../app/paths";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text as inChart } from "../../messages/chart";
import { text, textOf } from "../../messages/overview";
import { Breakdown } from "../../ui/breakdown";
import { Chart } from "../../ui/chart";
import { Await } from "../../ui/failure";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { day, plus, zone } from "../link/span";
import { counted } from "../link/utm";

type Stats = Schemas["WorkspaceStats"];

const week = 7 * 86_400_000;

/** Overview shows how the links of the workspace do. */
export default function Overview() {
  const clicks = useLoad(async (signal) => {
    const now = new Date();
    const tz = zone;
    const [month, hours] = await Promise.all([
      ask(client.GET("/api/v1/stats", { params: { query: { tz, top: 10 } }, signal })),
      ask(client.GET("/api/v1/stats", { params: { query: { tz, top: 1, interval: "hour", from: day(plus(now, -7)), to: day(now) } }, signal })),
    ]);
    // The other type of an answer is CSV, which was not asked for.
    return { month: month as Stats, hours: hours as Stats, now };
  }, []);
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
  useRenewal(() => {
    clicks.reload();
    links.reload();
  });
  return (
    <>
      <h1>{shared("overview")}</h1>
      {can("analytics:read") ? (
        <Await of={clicks}>{({ month, hours, now }) => (
          <>
            <Figures month={month} hours={hours} now={now} />
            <Complete of={hours} />
            <Days of={month} />
            <Top month={month} />
            <Campaigns month={month} />
          </>
        )}</Await>
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

/** Days shows the clicks of each day. */
function Days({ of: { series, complete_until } }: { of: Stats }) {
  return (
    <section class="card" aria-labelledby="days-title">
      <h2 id="days-title">{text("chart")}</h2>
      <Chart
        title={text("chart")} unit={text("clicks")} times={series.map((d) => d.t)} step="day" file="clicks"
        series={[
          { label: text("clicks"), kind: "main", values: series.map((d) => d.clicks) },
          { label: text("byBots"), kind: "second", values: series.map((d) => d.bot_clicks) },
        ]}
        completeUntil={complete_until} incomplete={inChart("open")}
      />
    </section>
  );
}

/** Figures compares whole hours, so that a running hour makes no day look worse. */
function Figures({ month, hours, now }: { month: Stats; hours: Stats; now: Date }) {
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
        <div class="figure"><dt>{text("month")}</dt><dd>{number(month.clicks)}</dd>{month.bot_clicks > 0 && <dd class="note">{text("bots", { n: month.bot_clicks })}</dd>}</div>
        <div class="figure"><dt>{text("visitors")}</dt><dd>{number(month.unique_visitors - month.unique_bots)}</dd></div>
        <div class="figure"><dt>{text("total")}</dt><dd>{number(month.total_clicks)}</dd></div>
      </dl>
      {hour === 0 ? <p class="quiet">{text("firstHour")}</p> : (
        <p class="quiet">
          {text("until", { time })}: <b>{number(sofar)}</b>. {text("lastWeek", { weekday: dateTime(now, { weekday: "long" }), time })}: <b>{number(then)}</b>{change && ` (${change})`}.
        </p>
      )}
    </section>
  );
}

function Complete({ of: { complete_until, behind } }: { of: Stats }) {
  return (
    <p class={behind.length > 0 ? "notice warn" : "quiet small-text"}>
      {complete_until ? text("complete", { time: dateTime(complete_until, { dateStyle: "medium", timeStyle: "medium" }) }) : text("unknownComplete")}
      {behind.length > 0 && ` ${text("behind", { names: behind.join(", ") })}`}
    </p>
  );
}

function Top({ month }: { month: Stats }) {
  return (
    <section class="card" aria-labelledby="top-title">
      <h2 id="top-title">{text("top")}</h2>
      {month.top.length === 0 ? <p class="quiet">{text("topNone")}</p> : (
        <Table title={text("top")} heads={[text("link"), [text("clicks")], [text("byBots")]]}>
          {month.top.map((l) => (
            <tr key={l.domain + l.short_code}>
              <td><a href={linkPath(l)} dir="auto">{l.title || l.short_code}</a> <span class="quiet small-text short" dir="ltr">{l.original_url}</span></td>
              <td class="num">{number(l.clicks)}</td>
              <td class="num">{number(l.bot_clicks)}</td>
            </tr>
          ))}
        </Table>
      )}
      {!month.top_exact && month.top.length > 0 && <p class="hint">{text("topUnsure")}</p>}
    </section>
  );
}

/** Campaigns shows the clicks of each value of the utm parameters that links were followed with. */
function Campaigns({ month }: { month: Stats }) {
  const some = counted.filter((by) => month[by].some((n) => n.name !== "none"));
  return some.length > 0 && (
    <>
      <h2>{text("utm")}</h2>
      <div class="cards breakdowns">
        {some.map((by) => <Breakdown key={by} title={by} names={month[by]} label={(name) => (name === "none" ? shared("none") : name)} file={by} />)}
      </div>
    </>
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
