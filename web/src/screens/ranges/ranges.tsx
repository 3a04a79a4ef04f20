import { useLocation } from "preact-iso/router";
import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { ago, dateTime, duration, number, percent } from "../../app/i18n";
import { useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { operator } from "../../app/session";
import { text as common } from "../../messages/app";
import { text, textOf } from "../../messages/ranges";
import { Command } from "../../ui/command";
import { download } from "../../ui/csv";
import { Await } from "../../ui/failure";
import { Check, Field } from "../../ui/field";
import { Table } from "../../ui/table";

type Space = Schemas["KeySpace"];
type Supply = Schemas["Supply"];
type Plan = Schemas["RangePlan"];

/** Ranges shows operators the supply of keys, the plan that balances it, and codes taken apart. */
export default function Ranges() {
  if (operator.value) return <KeyRanges />;
  return (
    <section class="empty">
      <h1>{common("ranges")}</h1>
      <p>{text("operators")}</p>
    </section>
  );
}

function KeyRanges() {
  const space = useLoad((signal) => ask(client.GET("/api/admin/ranges", { signal })), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || space.reload(), 30_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <div class="head">
        <h1>{common("ranges")}</h1>
        {space.at && <span class="quiet small-text">{common("asOf", { time: dateTime(space.at, { timeStyle: "medium" }) })}</span>}
      </div>
      <Await of={space}>
        {(s) => (
          <>
            <Held space={s} />
            <Health space={s} />
            <section class="card">
              <h2>{textOf("supply")}</h2>
              <SupplyTable regions={s.regions} />
            </section>
            <PlanOf free={s.free_prefixes} />
            <List space={s} />
          </>
        )}
      </Await>
      <Decode />
    </>
  );
}

function Held({ space }: { space: Space }) {
  if (space.held === null) return null;
  const gap = space.resume_gap > 0 ? "" : " --gap N";
  return (
    <section class="notice bad" role="alert">
      <div class="grow stack">
        <h2>{text("held", { time: space.held_since ? dateTime(space.held_since) : common("unknown") })}</h2>
        <p dir="auto">{space.held}</p>
        <p>{text("heldDo")}</p>
        <p>{space.resume_gap > 0 ? text("heldGap", { n: space.resume_gap }) : text("heldNoGap")}</p>
        <Command label={text("tryFirst")} command={`waypost ranges resume${gap} --dry-run`} />
        <Command label={text("resume")} command={`waypost ranges resume${gap}`} />
      </div>
    </section>
  );
}

// The limits are those of deploy/alerts.yaml.
function Health({ space: s }: { space: Space }) {
  const found: { level: "bad" | "warn"; what: string; remedy: string; command?: string }[] = [];
  for (const r of s.regions) {
    const { region, unissued: n, minutes_left: left } = r;
    if (n < 100_000) {
      const command = s.free_prefixes ? `waypost ranges assign --region ${region}` : `waypost ranges move ID --to ${region} --remainder`;
      found.push({ level: "bad", what: text("critical", { region, n }), remedy: text("criticalDo"), command });
    } else if (s.free_prefixes === 0 && left !== null && left < 1440) {
      found.push({ level: "bad", what: text("soon", { region, time: ago(inMinutes(left)) }), remedy: text("soonDo") });
    } else if (n < 1_000_000) {
      found.push({ level: "warn", what: text("low", { region, n }), remedy: text("lowDo") });
    } else if (s.free_prefixes === 0 && left !== null && left < 30 * 1440 && n < s.prefix_size / 10) {
      found.push({ level: "warn", what: text("tenth", { region }), remedy: text("soonDo") });
    }
  }
  const free = s.free_prefixes ? text("freeOf", { free: s.free_prefixes, all: s.prefixes, size: s.prefix_size }) : text("noneFree");
  return (
    <div class="stack" role="status">
      {found.map((f) => (
        <div key={f.what} class={`notice ${f.level}`}>
          <div class="grow stack"><p><strong>{f.what}</strong></p>{f.command ? <Command label={f.remedy} command={f.command} /> : <p>{f.remedy}</p>}</div>
        </div>
      ))}
      {found.length === 0 && s.held === null && s.regions.length > 0 && <p class="notice good">{text("fine")}</p>}
      <p class="quiet">{free}</p>
    </div>
  );
}

function inMinutes(minutes: number): Date {
  return new Date(Date.now() + minutes * 60_000);
}

/** lastsOf says for how long keys last, and until when. */
function lastsOf(minutes: number | null, unissued: number): string {
  if (unissued === 0) return text("out");
  if (minutes === null) return text("notUsed");
  const years = minutes / (365.25 * 1440);
  if (years > 1000) return text("lastsLong");
  const day: Intl.DateTimeFormatOptions = years > 2 ? { year: "numeric" } : minutes > 2 * 1440 ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
  const span = years > 2 ? text("years", { n: number(years, { maximumFractionDigits: years < 10 ? 1 : 0 }) }) : duration(minutes * 60);
  return text("lastsUntil", { span, time: dateTime(inMinutes(minutes), day) });
}

function rateOf(perMinute: number): string {
  return text("perMinute", { n: number(perMinute, { maximumFractionDigits: perMinute < 10 ? 1 : 0 }) });
}

function SupplyTable({ regions, after }: { regions: readonly Supply[]; after?: readonly Supply[] }) {
  const label = textOf(after ? "planEffect" : "supply");
  return (
    <Table title={label} look="data" heads={[text("region"), [text("rate")], [text("unissued")], text("lasts"), ...(after ? [[text("unissuedThen")] as const, text("lastsThen")] : [])]}>
      {regions.map((r) => {
        const then = after?.find((a) => a.region === r.region);
        return (
          <tr key={r.region}>
            <th scope="row"><bdi>{r.region}</bdi></th>
            <td class="num">{rateOf(r.rate_per_minute)}</td>
            <td class="num">{number(r.unissued)}</td>
            <td>{lastsOf(r.minutes_left, r.unissued)}</td>
            {after && (
              <>
                <td class="num">{then ? number(then.unissued) : common("unknown")}</td>
                <td>{then ? lastsOf(then.minutes_left, then.unissued) : common("unknown")}</td>
              </>
            )}
          </tr>
        );
      })}
    </Table>
  );
}

function stepText(s: Schemas["RangeStep"]): string {
  const values = { range: String(s.range ?? ""), region: s.region ?? "", prefix: s.prefix ?? "", at: s.at ?? 0 };
  switch (s.action) {
    case "assign":
      return textOf(s.prefix ? "assign" : "assignAny", values);
    case "split":
      return textOf(s.at ? "split" : "splitMiddle", values);
    case "move":
      return textOf(s.remainder ? "moveRest" : s.at ? "moveAt" : "move", values);
    case "resume":
      return text("resumeStep");
    default:
      return textOf(s.action, values);
  }
}

function PlanOf({ free }: { free: number }) {
  const plan = useLoad((signal) => ask(client.GET("/api/admin/ranges/plan", { signal })), []);
  return (
    <section class="card">
      <div class="head">
        <h2 class="grow">{text("plan")}</h2>
        <button type="button" class="small" disabled={plan.loading} onClick={plan.reload}>{text("planAgain")}</button>
      </div>
      <Await of={plan}>{(p) => <Steps plan={p} free={free} />}</Await>
    </section>
  );
}

function Steps({ plan, free }: { plan: Plan; free: number }) {
  if (plan.steps.length === 0) return <p>{text("planNothing", { why: plan.reason || text("planNoWhy") })}</p>;
  return (
    <>
      {free > 0 && <p class="notice">{text("planNotNeeded", { n: free })}</p>}
      <p>{text("planSteps", { n: plan.steps.length })}</p>
      <ol class="steps">{plan.steps.map((s, i) => <li key={i}>{stepText(s)}</li>)}</ol>
      <SupplyTable regions={plan.before} after={plan.after} />
      <Command label={text("planCommand")} command={"waypost ranges plan --out plan.json\nwaypost ranges apply plan.json --dry-run\nwaypost ranges apply plan.json"} />
      <div class="row">
        <button type="button" onClick={() => download("plan.json", new Blob([`${JSON.stringify(plan, null, 2)}\n`], { type: "application/json" }))}>{text("planFile")}</button>
        <span class="hint">{text("planFileHint")}</span>
      </div>
      <p class="hint">{text("planAt", { time: dateTime(plan.made_at, { timeStyle: "medium" }) })}</p>
    </>
  );
}

function List({ space }: { space: Space }) {
  const { query, url, route } = useLocation();
  const withRetired = query["retired"] === "1";
  const retired = space.ranges.filter((r) => r.state === "retired").length;
  const shown = space.ranges.filter((r) => withRetired || r.state !== "retired");
  return (
    <section class="card">
      <div class="head">
        <h2 class="grow">{text("list")}</h2>
        {retired > 0 && <Check label={`${text("showRetired")} (${number(retired)})`} checked={withRetired} set={(on) => route(inQuery(url, { retired: on ? "1" : undefined }), true)} />}
      </div>
      {shown.length === 0 ? <p class="quiet">{text("noRanges")}</p> : (
        <Table title={text("list")} look="data" heads={[text("id"), text("prefix"), text("region"), text("state"), [text("used")], [text("unissued")], [text("rate")], text("lasts"), text("holders")]}>
          {shown.map((r) => {
            const unissued = r.state === "retired" ? 0 : r.hi - r.next + r.returned; // it issues none
            return (
              <tr key={r.id}>
                <th scope="row">{r.id}</th>
                <td class="mono">{r.prefix}</td>
                <td><bdi>{r.region}</bdi></td>
                <td><span class={`tag ${r.state === "live" ? "good" : r.state === "draining" ? "warn" : ""}`}>{textOf(r.state)}</span></td>
                <td class="num">{percent(r.hi > r.lo ? 1 - unissued / (r.hi - r.lo) : 1)}</td>
                <td class="num">{number(unissued)}</td>
                <td class="num">{rateOf(r.rate_per_minute)}</td>
                <td>{lastsOf(r.minutes_left, unissued)}</td>
                <td>{[...new Set(r.leases.map((l) => l.node))].join(", ") || common("none")}</td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}

function Decode() {
  const { query, url, route } = useLocation();
  const code = query["code"] ?? "";
  const [typed, setTyped] = useState(code);
  const found = useLoad(
    async (signal) => code ? await ask(client.GET("/api/admin/ranges/decode/{code}", { params: { path: { code } }, signal })) : undefined, [code],
  );
  const stateText = { issued: "issued", spent: "spent", burned: "burned", leased: "leased", unissued: "unissuedCode", unassigned: "unassigned" } as const;
  return (
    <section class="card">
      <h2>{text("decode")}</h2>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (typed.trim() === code) found.reload();
          else route(inQuery(url, { code: typed.trim() }), true);
        }}
      >
        <Field label={text("code")} value={typed} set={setTyped} required autocomplete="off" spellcheck={false} maxLength={32} hint={text("decodeHint")}>
          <button>{text("decode")}</button>
        </Field>
      </form>
      <div role="status">
        {code && (
          <Await of={found}>
            {(d) => d && (
              <dl class="facts">
                <dt>{text("code")}</dt><dd class="mono">{d.code}</dd>
                <dt>{text("decodeState")}</dt><dd>{textOf(stateText[d.state])}</dd>
                <dt>{text("prefix")}</dt><dd class="mono">{d.prefix}</dd>
                <dt>{text("counter")}</dt><dd>{number(d.counter)}</dd>
                <dt>{text("region")}</dt><dd>{d.region ?? common("none")}</dd>
                <dt>{text("id")}</dt><dd>{d.range?.id ?? common("none")}</dd>
                {d.lease && <><dt>{text("lease")}</dt><dd>{text("leaseOf", { node: d.lease.node, lo: d.lease.lo, hi: d.lease.hi })}</dd></>}
              </dl>
            )}
          </Await>
        )}
      </div>
    </section>
  );
}
