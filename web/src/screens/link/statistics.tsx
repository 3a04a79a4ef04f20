import { useLocation } from "preact-iso/router";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { country, dateTime, number, percent } from "../../app/i18n";
import { useRenewal } from "../../app/live";
import { useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { text as shared } from "../../messages/app";
import { text as inChart } from "../../messages/chart";
import { text, textOf } from "../../messages/link";
import { printOf } from "../../ui/alias";
import { Breakdown } from "../../ui/breakdown";
import { Chart, type Series } from "../../ui/chart";
import { downloadCSV } from "../../ui/csv";
import { Await } from "../../ui/failure";
import { local } from "../../ui/field";
import { Table } from "../../ui/table";
import { Moment } from "../../ui/time";
import { named, type Link, type Place } from "./change";
import { counted } from "./utm";
import { chosenSpan, plus, spans, startBefore, typed, zone, type Chosen, type Range } from "./span";

type Stats = Schemas["LinkStats"];

/** The statistics of a link, or of many. */
type Clicks = Pick<Stats, keyof Stats & keyof Schemas["WorkspaceStats"]> & Partial<Pick<Stats, "annotations" | "codes" | "rules" | "variants">>;

const dimensions = ["countries", "cities", "devices", "browsers", "os", "referrers", "codes", "rules", ...counted] as const;
type Dimension = (typeof dimensions)[number] | "variants";
type Rules = Pick<Link, "rules">;

/** Asks for statistics with the clicks of a name by day. */
type Ask = (range: Range, signal: AbortSignal, named: { by: Dimension; name: string }) => Promise<Clicks>;

/** askStats asks for the statistics of a link, and for the clicks of a name by day. */
export function askStats(at: Place, range: Range & Chosen["against"], signal: AbortSignal, named?: { by: Dimension; name: string }): Promise<Stats> {
  return ask(client.GET("/api/v1/urls/{code}/stats", { params: { path: { code: at.code }, query: { domain: at.domain, ...range, ...named } }, signal })) as Promise<Stats>; // a text only if CSV is asked for
}

/** Statistics shows the clicks of a link in a span of time. */
export function Statistics({ at, link, news }: { at: Place; link: Link; news: () => void }) {
  const { query } = useLocation();
  const chosen = chosenSpan(query);
  const key = JSON.stringify([chosen.range, chosen.against]);
  const loaded = useLoad(
    async (signal) => ({ stats: await askStats(at, { ...chosen.range, ...chosen.against }, signal), chosen }),
    [at.code, at.domain, key],
  );
  useRenewal(() => {
    loaded.reload();
    news();
  });
  return (
    <section class="card" aria-labelledby="statistics-title">
      <div class="head">
        <h2 id="statistics-title" class="grow">{text("statistics")}</h2>
        <Spans chosen={chosen} />
      </div>
      <Await of={loaded}>
        {({ stats, chosen: of }) => (
          <>
            <Figures stats={stats} of={of} link={link} />
            {stats.total_clicks === 0
              ? <div class="empty"><p>{text("noClicks")}</p><p>{text("noClicksHint")} <a href={link.short_url} target="_blank" rel="noreferrer noopener">{link.short_url}</a></p></div>
              : <>
                <Line stats={stats} of={of} code={at.code} />
                <Breakdowns ask={(...asked) => askStats(at, ...asked)} id={`${at.domain}/${at.code}`} file={at.code} link={link} stats={stats} range={of.range} />
              </>}
          </>
        )}
      </Await>
    </section>
  );
}

/** Spans chooses the span of time. */
export function Spans({ chosen }: { chosen: Chosen }) {
  const { url, query, route } = useLocation();
  const { range: { since, interval }, against, compare } = chosen;
  const moment = since !== undefined;
  const now = [moment ? local(since) : chosen.days[0], chosen.days[1], moment ? local(against.compare_from) : against.compare_from ?? "", against.compare_to ?? ""];
  const of = now.join();
  const [kept, keep] = useState({ of, fields: now });
  const fields = kept.of === of ? kept.fields : now; // what was typed, until the time is another one
  const go = (change: Record<string, string | undefined>) => route(inQuery(url, change), true);
  const input = (i: number, label: string, ofMoment: boolean) => (
    <label class={ofMoment ? "day moment" : "day"}>
      <span class="offscreen">{label}</span>
      <input
        type={ofMoment ? "datetime-local" : "date"} value={fields[i]} required={i < 3}
        min={i % 2 ? fields[i - 1]!.slice(0, 10) : undefined} max={i % 2 || ofMoment ? undefined : fields[i + 1] || undefined}
        onChange={(e) => {
          const next = fields.map((f, j) => (j === i ? e.currentTarget.value : f));
          keep({ of, fields: next });
          const change = typed(i, next, moment);
          if (change) go(change);
        }}
      />
    </label>
  );
  return (
    <div class="row spans" role="group" aria-label={text("span")}>
      {spans.map((s) => (
        <button key={s} type="button" class="small" aria-pressed={chosen.span === s} onClick={() => go({ span: s === "30d" ? undefined : s, from: undefined, to: undefined, since: undefined })}>
          {textOf(`span_${s}`)}
        </button>
      ))}
      <button
        type="button" class="small" aria-pressed={moment}
        onClick={() => go({
          span: undefined, compare_from: undefined, compare_to: undefined, to: chosen.span === "own" ? query["to"] : undefined,
          ...(moment ? { since: undefined, from: chosen.days[0] } : { since: plus(new Date(`${chosen.days[0]}T00:00`), 0).toISOString(), from: undefined }),
        })}
      >
        {text("sinceMoment")}
      </button>
      {input(0, text("from"), moment)}
      <span aria-hidden="true">–</span>
      {input(1, text("to"), false)}
      {interval !== "hour" && !moment && (
        <select class="small" aria-label={text("step")} value={interval} onChange={(e) => go({ interval: e.currentTarget.value === "day" ? undefined : e.currentTarget.value })}>
          {(["day", "week", "month"] as const).map((i) => <option key={i} value={i}>{textOf(`step_${i}`)}</option>)}
        </select>
      )}
      <select class="small" aria-label={text("compareWith")} value={compare} onChange={({ currentTarget: { value } }) => go({ compare: value === "year" ? value : undefined, compare_from: value === "own" ? startBefore(chosen) : undefined, compare_to: undefined })}>
        <option value="previous">{text("timeBefore")}</option>
        <option value="year">{text("yearAgo")}</option>
        <option value="own">{text("otherTime")}</option>
      </select>
      {compare === "own" && input(2, text("otherFrom"), moment)}
      {compare === "own" && !moment && interval !== "hour" && <><span aria-hidden="true">–</span>{input(3, text("otherTo"), false)}</>}
    </div>
  );
}

/** whyOpen says why the newest numbers may still grow. */
function whyOpen(stats: Clicks): string {
  if (!stats.complete_until) return text("growsUnknown");
  if (stats.behind.length) return text("growsBehind", { edges: stats.behind.join(", "), time: dateTime(stats.complete_until) });
  return stats.interval === "hour" ? text("growsHour") : text("growsDay");
}

/** otherTime names the time that statistics are compared with. */
function otherTime(of: Chosen): string {
  if (of.compare !== "previous") return of.compare === "year" ? text("yearAgo") : text("otherTime");
  if (of.range.interval === "week" || of.range.interval === "month") return text("timeBefore");
  return textOf(`before_${of.span}`);
}

/** compared says how many clicks there were, compared with another time. Steps that may
 * still grow are left out of both. */
export function compared(stats: Clicks, of: Chosen): string {
  const change = stats.compared?.change;
  if (!change?.steps) return "";
  const span = otherTime(of);
  if (change.share === null || change.share === undefined) return text("compareNone", { span });
  const values = { span, then: change.before, share: percent(Math.abs(change.share)) };
  const words = change.share === 0 ? text("compareSame", values) : textOf(change.share > 0 ? "compareMore" : "compareLess", values);
  return change.steps === stats.series.length ? words : `${words} ${textOf(stats.interval === "hour" ? "compareHour" : stats.interval === "day" ? "compareDay" : "compareStep")}`;
}

function Figures({ stats, of, link }: { stats: Stats; of: Chosen; link: Link }) {
  return (
    <>
      <dl class="figures">
        <div class="figure"><dt>{text("clicks")}</dt><dd>{number(stats.clicks)}</dd></div>
        <div class="figure"><dt>{text("ofBots")}</dt><dd>{number(stats.bot_clicks)}</dd></div>
        <div class="figure"><dt>{text("visitors")}</dt><dd>{number(stats.unique_visitors - stats.unique_bots)}</dd></div>
        <div class="figure"><dt>{text("visitorBots")}</dt><dd>{number(stats.unique_bots)}</dd></div>
        <div class="figure"><dt>{text("everClicks")}</dt><dd>{number(stats.total_clicks)}</dd></div>
      </dl>
      <p>{compared(stats, of)}</p>
      <p class="hint">
        {text("visitorsHint")} {text("zoneHint", { zone })} {stats.last_accessed_at ? <>{text("lastClick")} <Moment at={stats.last_accessed_at} />.</> : null}
        {" "}{text("created")} <Moment at={link.created_at} />.
      </p>
    </>
  );
}

/** Line is the chart of the clicks over time, next to those of the time they are compared with. */
export function Line({ stats, of, code }: { stats: Clicks; of: Chosen; code: string }) {
  const known = (n: number, t: string) => (Date.parse(t) > Date.now() ? null : n); // not 0 clicks tomorrow
  const series: Series[] = [
    { label: text("clicks"), kind: "main", values: stats.series.map((b) => known(b.clicks, b.t)) },
    { label: text("bots"), kind: "second", values: stats.series.map((b) => known(b.bot_clicks, b.t)) },
    // Where clocks change, one of both times has an hour more.
    { label: otherTime(of), kind: "before", values: stats.series.map((_, i) => stats.compared?.series[i]?.clicks ?? null) },
  ];
  return (
    <Chart
      title={text("clicksOver")} times={stats.series.map((b) => b.t)} series={series} step={stats.interval} unit={text("clicks")}
      completeUntil={stats.complete_until} incomplete={whyOpen(stats)} file={`${code}-${of.days.join("-")}`}
      marks={stats.annotations?.map((a) => ({ t: a.t, text: `${a.changes.map((c) => textOf(`change_${c}` as "change_target")).join(", ")}${a.by ? ` (${a.by.name})` : ""}` }))}
    />
  );
}

const isUTM = (by: Dimension) => by.startsWith("utm_");

/** titleOf names a breakdown. Parameters of addresses have the same name in all languages. */
export const titleOf = (by: Dimension) => (isUTM(by) ? by : textOf(by === "rules" ? "byRule" : by as "countries"));

/** labelOf writes a name of a breakdown in words. */
export function labelOf(by: Dimension, name: string, { rules = [] }: Rules = {}): string {
  if (by === "variants") {
    const [rule, id] = name.split("/");
    const variants = rules.flatMap((r) => r.split?.variants ?? []);
    return `${labelOf("rules", rule!, { rules })}: ${named("variant", variants.find((v) => v.id === Number(id)) ?? { id: Number(id) })}`;
  }
  if (by === "rules") return name === "none" ? text("noRule") : named("rule", rules.find((r) => r.id === Number(name)) ?? { id: Number(name) });
  if (name === "unknown") return shared("unknown");
  if (by === "countries") return country(name);
  if (isUTM(by) && name === "none") return shared("none");
  if (by === "referrers" && name === "direct") return text("direct");
  if (by === "devices" && (name === "desktop" || name === "mobile" || name === "tablet" || name === "bot")) return textOf(`device_${name}`);
  return name;
}

/** Breakdowns shows who clicks on a link, or on many. A click on a name shows its days. */
export function Breakdowns({ ask, id, file, link = {}, stats, range }: { ask: Ask; id: string; file: string; link?: Rules; stats: Clicks; range: Range }) {
  const { url, query, route } = useLocation();
  const by = query["by"];
  const name = query["name"];
  const choose = (d: Dimension) => (n: string | undefined) => route(inQuery(url, { by: n === undefined ? undefined : d, name: n }), true);
  const days = (d: Dimension) => d === by && name && <OneName key={name} ask={ask} id={id} file={`${file}-${d}-${name}`} link={link} by={d} name={name} range={range} />;
  const of = (d: (typeof dimensions)[number]) => stats[d] ?? [];
  return (
    <>
      <h2>{text("breakdowns")}</h2>
      <p class="hint">{text("breakdownDays", { from: utcDay(stats.breakdown_from), to: utcDay(new Date(Date.parse(stats.breakdown_to) - 1).toISOString()) })}</p>
      <div class="cards breakdowns">
        {dimensions.filter((d) => (d === "codes" ? of(d).length > 1 : d !== "rules" && !isUTM(d)) || d === "rules" && link.rules || d !== "codes" && of(d).some((r) => r.name !== "none")).map((d) => (
          <Breakdown
            key={d} title={titleOf(d)} names={of(d)} label={(n) => [labelOf(d, n, link), d === "codes" && printOf(stats.codes?.find((c) => c.name === n) ?? {})].filter(Boolean).join(", ")} file={`${file}-${d}`} map={d === "countries"}
            hint={d === "countries" && of(d).length > 0 && of(d).every((n) => n.name === "unknown") && text("noCountry")}
            chosen={d === by ? name : undefined} choose={choose(d)}
          >
            {days(d)}
          </Breakdown>
        ))}
        {stats.variants && stats.variants.length > 0 && (
          <Variants
            of={stats.variants} label={(n) => labelOf("variants", n, link)} file={`${file}-variants`}
            chosen={by === "variants" ? name : undefined} choose={choose("variants")}
          >
            {days("variants")}
          </Variants>
        )}
      </div>
    </>
  );
}

function utcDay(at: string): string {
  return dateTime(at, { dateStyle: "medium", timeZone: "UTC" });
}

/** Variants shows how a link's splits divide visitors. It says nothing of what they did then. */
function Variants({ of, label, file, chosen, choose, children }: {
  of: Stats["variants"]; label: (name: string) => string; file: string; chosen: string | undefined; choose: (name: string | undefined) => void; children: ComponentChildren;
}) {
  const title = textOf("variants");
  return (
    <section class="card breakdown wide" aria-label={title}>
      <div class="head">
        <h3 class="grow">{title}</h3>
        <button
          type="button" class="small" aria-label={inChart("csvOf", { title })}
          onClick={() => downloadCSV(file, [["rule", "name", "clicks", "share", "low", "high"], ...of.map((v) => [v.rule, v.name, v.clicks, v.share, ...v.interval])])}
        >
          {inChart("csv")}
        </button>
      </div>
      <p class="hint">{text("variantsHint")}</p>
      <div class="sides">
        <Table title={`${title}, ${text("clicks")}`} heads={[inChart("name"), [text("clicks")], [inChart("share")], [text("interval")]]}>
          {of.map((v) => {
            const name = `${v.rule}/${v.name}`;
            return (
              <tr key={name}>
                <th scope="row"><button type="button" class="plain small" dir="auto" aria-pressed={chosen === name} onClick={() => choose(chosen === name ? undefined : name)}>{label(name)}</button></th>
                <td class="num">{number(v.clicks)}</td><td class="num">{percent(v.share)}</td><td class="num">{v.interval.map(percent).join(" – ")}</td>
              </tr>
            );
          })}
        </Table>
        {children}
      </div>
    </section>
  );
}

/** OneName shows the days of one name of a breakdown. */
function OneName({ ask, id, file, link, by, name, range }: { ask: Ask; id: string; file: string; link: Rules; by: Dimension; name: string; range: Range }) {
  const { url, route } = useLocation();
  const loaded = useLoad((signal) => ask(range, signal, { by, name }), [id, by, name, JSON.stringify(range)]);
  useRenewal(loaded.reload);
  const label = labelOf(by, name, link);
  const title = text("nameByDay", { dimension: by === "rules" ? textOf(by) : titleOf(by), name: label });
  return (
    <div class="one">
      <div class="head">
        <h4 class="grow" dir="auto">{title}</h4>
        <button
          type="button" class="small"
          onClick={(e) => {
            // This button goes away; the focus returns to the name.
            (e.currentTarget.closest(".sides")?.querySelector<HTMLElement>("[aria-pressed=true]") ?? document.getElementById("content"))?.focus();
            route(inQuery(url, { by: undefined, name: undefined }), true);
          }}
        >
          {text("closeName")}
        </button>
      </div>
      <Await of={loaded}>
        {(stats) => stats.named && (
          <>
            <p role="status">
              {textOf(stats.named.at_least ? "namedAtLeast" : "namedClicks", { n: stats.named.clicks })}
              {stats.named.at_least && ` ${text("atLeastHint")}`}
            </p>
            <Chart
              title={title} times={stats.named.series.map((d) => d.t)} step="day" unit={text("clicks")} timeZone="UTC" height={180} file={file}
              series={[{ label, kind: "main", values: stats.named.series.map((d) => d.clicks) }]}
              completeUntil={stats.complete_until} incomplete={stats.behind.length || !stats.complete_until ? whyOpen(stats) : text("growsDayUTC")}
            />
          </>
        )}
      </Await>
    </div>
  );
}
