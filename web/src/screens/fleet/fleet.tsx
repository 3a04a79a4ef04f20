import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso/router";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, client } from "../../app/api";
import { ago, bytes, dateTime, duration, number } from "../../app/i18n";
import { live, useNews } from "../../app/live";
import { useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { operator } from "../../app/session";
import { text as common } from "../../messages/app";
import { text, textOf } from "../../messages/fleet";
import { Await } from "../../ui/failure";
import { Ago, Moment } from "../../ui/time";
import { ActDialog, Enrol, Outcome, type Order } from "./acts";
import { findings, stateOf, type Act, type ControlPlane, type Edge, type Finding, type Fleet as All } from "./health";
import { RegionMap, regionId } from "./map";

const acts: readonly Act[] = ["verify", "accept", "drain", "undrain", "revoke", "gone", "enrol"];
const silence = 7000; // milliseconds without news, which comes every 2 s

/** Fleet shows operators the state of all edges, what is wrong, and what to do. */
export default function Fleet() {
  if (operator.value) return <Edges />;
  return (
    <section class="empty">
      <h1>{common("fleet")}</h1>
      <p>{text("operators")}</p>
    </section>
  );
}

function Edges() {
  const { query, url, route } = useLocation();
  const loaded = useLoad((signal) => ask(client.GET("/api/admin/edges", { signal })), []);
  const [order, setOrder] = useState<Order>();
  useNews("edges", (data) => loaded.set(data as All, false));
  const now = useClock();
  // Without live news the list is asked for, so that one failure does not hide the fleet.
  const lost = live.value === "lost";
  const latest = useRef(loaded);
  latest.current = loaded;
  useEffect(() => {
    if (!lost) return;
    // A slow request is waited for.
    const timer = setInterval(() => latest.current.loading || latest.current.reload(), 3000);
    return () => clearInterval(timer);
  }, [lost]);

  const node = query["edge"];
  const title = useRef<HTMLHeadingElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) title.current?.focus();
    first.current = false;
  }, [node]);

  const edges: readonly Edge[] = loaded.data?.edges ?? [];
  const regions = [...new Set(edges.map((e) => e.region))].sort();
  const one = edges.find((e) => e.node === node);
  const act = acts.find((a) => a === query["act"]);
  const close = () => {
    route(inQuery(url, { act: undefined, ...(one ? {} : { edge: undefined }) }), true);
    // A dialog that was opened by the address has no place to return to.
    setTimeout(() => document.activeElement === document.body && title.current?.focus());
  };
  const stale = loaded.at !== undefined && now - loaded.at.getTime() > silence;
  const all = loaded.data ? findings(loaded.data) : [];
  return (
    <>
      <div class="head">
        <h1 ref={title} tabIndex={-1}>{node ? <bdi>{node}</bdi> : common("fleet")}</h1>
        {loaded.at && <span class="quiet small-text">{common("asOf", { time: dateTime(loaded.at, { timeStyle: "medium" }) })}</span>}
        {node ? <a class="button" href="/console/fleet">{text("back")}</a> : <a class="button primary" href={inQuery(url, { act: "enrol" })}>{textOf("enrol")}</a>}
      </div>
      {stale && (
        <div class="notice bad" role="alert">
          <p>{text("away", { time: dateTime(loaded.at!, { timeStyle: "medium" }) })} {text("awayRemedy")}</p>
          <button type="button" onClick={loaded.reload}>{common("retry")}</button>
        </div>
      )}
      <Await of={stale ? { ...loaded, failure: undefined, slow: false } : loaded}>
        {() => (
          <div class={stale ? "fleet old" : "fleet"}>
            {node === undefined ? <Overview edges={edges} controls={loaded.data?.control_planes ?? []} regions={regions} all={all} stale={stale} />
              : one ? <Details edge={one} all={all.filter((f) => f.node === node)} />
              : <p class="empty">{text("noSuchEdge", { node })}</p>}
          </div>
        )}
      </Await>
      {order && order.node === node && <Outcome order={order} />}
      {act === "enrol" && loaded.data && <Enrol regions={regions} region={one?.region ?? ""} node={one?.node ?? ""} role={one?.role === "relay" ? "relay" : "edge"} close={close} />}
      {act && act !== "enrol" && one && (
        <ActDialog key={act} act={act} node={one.node} ordered={setOrder} close={close} />
      )}
    </>
  );
}

/** useClock returns the time, each second anew while the page is visible. */
function useClock(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(now, Date.now());
}

function Overview({ edges, controls, regions, all, stale }: { edges: readonly Edge[]; controls: readonly ControlPlane[]; regions: readonly string[]; all: readonly Finding[]; stale: boolean }) {
  if (edges.length === 0) {
    return (
      <div class="empty">
        <p>{text("empty")}</p>
        <a class="button primary" href="/console/fleet?act=enrol">{textOf("enrol")}</a>
      </div>
    );
  }
  const wrong = all.filter((f) => f.level !== "note");
  const ill = (e: Edge) => wrong.filter((f) => f.node === e.node);
  const spots = regions.map((region) => {
    const here = edges.filter((e) => e.region === region);
    const faults = here.flatMap(ill);
    return {
      region, count: here.length, well: here.filter((e) => ill(e).length === 0).length,
      kind: faults.some((f) => f.level === "bad") ? "bad" as const : faults.length ? "warn" as const : "good" as const,
    };
  });
  return (
    <>
      <div class="fleet-top">
        <section class="stack" aria-labelledby="fleet-health">
          <div role="status" class={stale ? "notice" : wrong.length ? "" : "notice good"}>
            <h2 id="fleet-health">{stale ? text("notKnown") : wrong.length ? text("someWrong", { n: wrong.length }) : text("allWell", { n: edges.length })}</h2>
          </div>
          <Findings of={all} />
        </section>
        <RegionMap spots={spots} />
      </div>
      <EdgeTable edges={edges} regions={regions} />
      <ControlTable of={controls} />
    </>
  );
}

function ControlTable({ of }: { of: readonly ControlPlane[] }) {
  return (
    <section class="card">
      <h2 id="fleet-controls">{text("controls")}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-labelledby="fleet-controls">
        <table class="data">
          <thead>
            <tr>
              <th scope="col">{text("node")}</th><th scope="col">{text("region")}</th><th scope="col">{text("state")}</th>
              <th scope="col">{text("lastSeen")}</th><th scope="col">{text("version")}</th>
            </tr>
          </thead>
          <tbody>
            {of.map((p) => (
              <tr key={p.node}>
                <th scope="row"><bdi>{p.node}</bdi></th><td><bdi>{p.region}</bdi></td>
                <td><span class={`tag ${p.state === "alive" ? "good" : p.state === "silent" ? "bad" : ""}`}>{controlState(p)}</span></td>
                <td><Ago at={p.last_seen} /></td><td>{p.version}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function controlState({ state }: ControlPlane): string {
  return state === "alive" ? text("runs") : state === "silent" ? text("stateSilent") : state === "stopped" ? text("stopped") : common("unknown");
}

function Findings({ of, inDetails }: { of: readonly Finding[]; inDetails?: boolean }) {
  if (of.length === 0) return null;
  return (
    <ul class="stack" aria-label={text("wrong")}>
      {of.map((f) => (
        <li key={f.what.replace(/\d/g, "")} class={`notice ${f.level === "note" ? "" : f.level}`}>
          <div class="grow stack">
            <p dir="auto">
              <strong>{textOf(f.level === "bad" ? "fault" : f.level === "warn" ? "warning" : "note")}:</strong> <span lang={f.lang}>{f.what}</span>
              {f.since && <span class="quiet"> {text("since", { time: dateTime(f.since) })} (<Ago at={f.since} />)</span>}
            </p>
            <p class="small-text" lang={f.lang}>{f.remedy}</p>
            <div class="row">
              {f.node && !inDetails && <a class="button small" href={edgePath(f.node)}>{text("look", { node: f.node })}</a>}
              {f.act && <a class="button small" href={actPath(f.act, f.node)}>{textOf(f.act === "gone" ? "lost" : f.act)}</a>}
            </div>
          </div>
        </li>
      ))}
    </ul>
  );
}

function edgePath(node: string): string {
  return `/console/fleet?edge=${encodeURIComponent(node)}`;
}

function actPath(act: Act, node?: string): string {
  return inQuery("/console/fleet", { edge: node, act });
}

function EdgeTable({ edges, regions }: { edges: readonly Edge[]; regions: readonly string[] }) {
  return (
    <section class="card">
      <h2 id="fleet-list">{text("list")}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-labelledby="fleet-list">
        <table class="data">
          <caption class="offscreen">{text("list")}</caption>
          <thead>
            <tr>
              <th scope="col">{text("edge")}</th><th scope="col">{text("state")}</th><th scope="col">{text("lag")}</th><th scope="col">{text("age")}</th>
              <th scope="col">{text("clicks")}</th><th scope="col">{text("until")}</th><th scope="col">{text("requests")}</th><th scope="col">{text("diskFree")}</th>
              <th scope="col">{text("verified")}</th><th scope="col">{text("credential")}</th><th scope="col">{text("version")}</th>
            </tr>
          </thead>
          {regions.map((region) => (
            <tbody key={region}>
              <tr class="group"><th scope="rowgroup" colSpan={11} id={regionId(region)} tabIndex={-1}><bdi>{region}</bdi></th></tr>
              {edges.filter((e) => e.region === region).map((e) => (
                <tr key={e.node}>
                  <th scope="row"><a href={edgePath(e.node)}><bdi>{e.node}</bdi></a></th>
                  <td><State edge={e} /></td>
                  <td class="wraps">{lagOf(e)}</td>
                  <td>{ageOf(e)}</td>
                  <td>{clicksOf(e)}</td>
                  <td>{e.clicks_until ? dateTime(e.clicks_until, timeOf(e.clicks_until)) : common("unknown")}</td>
                  <td>{requestsOf(e)}</td>
                  <td>{sizeOf(e.disk_free_bytes)}</td>
                  <td class="wraps">{verifiedOf(e)}</td>
                  <td>{credentialOf(e)}</td>
                  <td>{e.version || common("unknown")}</td>
                </tr>
              ))}
            </tbody>
          ))}
        </table>
      </div>
    </section>
  );
}

function State({ edge }: { edge: Edge }) {
  const [label, kind] = stateOf(edge);
  return <span class={`tag ${kind}`}>{label}</span>;
}

/** timeOf formats a moment of the last day by its time alone. */
function timeOf(at: string): Intl.DateTimeFormatOptions {
  return Date.now() - new Date(at).getTime() < 86_400_000 ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
}

function lagOf(e: Edge): string {
  if (e.lag_changes === null || e.lag_seconds === null) return common("unknown");
  return e.lag_changes === 0 ? text("noLag") : text("lagValue", { n: e.lag_changes, age: duration(e.lag_seconds) });
}

function ageOf(e: Edge): string {
  return e.age_seconds === null ? common("unknown") : duration(e.age_seconds);
}

function clicksOf(e: Edge): string {
  return e.clicks_pending === null ? common("unknown") : number(e.clicks_pending);
}

function requestsOf(e: Edge): string {
  return e.requests_per_second === null ? common("unknown") : number(e.requests_per_second, { maximumFractionDigits: e.requests_per_second < 10 ? 1 : 0 });
}

function sizeOf(n: number | null): string {
  return n === null ? common("unknown") : bytes(n);
}

function positionOf(e: Edge): string {
  if (!e.position) return common("unknown");
  const seq = number(e.position.seq);
  return e.position.epoch === 1 ? seq : text("positionEpoch", { seq, epoch: e.position.epoch });
}

function verifiedOf(e: Edge): string {
  const v = e.verified;
  if (!v) return common("never");
  const time = ago(v.at);
  if (v.error) return text("failed", { time });
  return textOf(v.damage ? "damaged" : "sound", { time });
}

function credentialOf(e: Edge): string {
  return e.credential === null ? common("unknown") : textOf(e.credential === "own" ? "own" : e.credential === "shared" ? "sharedShort" : "revokedShort");
}

function Details({ edge: e, all }: { edge: Edge; all: readonly Finding[] }) {
  const facts: [label: string, value: ComponentChildren][] = [
    [text("state"), <State edge={e} />],
    [text("region"), <bdi>{e.region}</bdi>],
    [text("role"), e.role === "" ? common("unknown") : textOf(e.role === "relay" ? "roleRelay" : "roleEdge")],
    [text("lag"), lagOf(e)],
    [text("age"), ageOf(e)],
    [text("position"), positionOf(e)],
    [text("clicks"), clicksOf(e)],
    [text("until"), e.clicks_until ? dateTime(e.clicks_until, { dateStyle: "medium", timeStyle: "medium" }) : common("unknown")],
    [text("requests"), requestsOf(e)],
    [text("diskFree"), sizeOf(e.disk_free_bytes)],
    [text("diskUsed"), sizeOf(e.disk_used_bytes)],
    [text("verified"), verifiedOf(e)],
    [text("credential"), credentialOf(e)],
    [text("version"), e.version || common("unknown")],
    [text("started"), e.started_at ? <Moment at={e.started_at} /> : common("unknown")],
    [text("lastSeen"), dateTime(e.last_seen, { dateStyle: "medium", timeStyle: "medium" })],
    [text("via"), textOf(e.via === "report" ? "viaReport" : e.via === "gossip" ? "viaGossip" : "viaRecord")],
    [text("addr"), e.addr ? <code>{e.addr}</code> : common("unknown")],
    [text("adminAddr"), e.admin_addr ? <code>{e.admin_addr}</code> : common("unknown")],
  ];
  if (e.held_why) facts.splice(1, 0, [text("why"), <span dir="auto">{e.held_why}</span>]);
  const alive = e.state === "alive";
  const acts: [act: Act, label: string, danger: boolean][] = [];
  if (alive) acts.push(["verify", textOf("verify"), false]);
  if (alive && (e.held || e.replica === "held")) acts.push(["accept", textOf("accept"), false]);
  if (alive) acts.push(e.draining ? ["undrain", textOf("undrain"), false] : ["drain", textOf("drain"), false]);
  acts.push(["enrol", text("enrolAgain"), false]);
  if (e.credential === "own") acts.push(["revoke", textOf("revoke"), true]);
  if (!alive) acts.push(["gone", textOf("lost"), true]);
  return (
    <>
      <Findings of={all} inDetails />
      <section class="card" aria-label={text("acts")}>
        <div class="row">
          {acts.map(([act, label, danger]) => <a key={act} class={danger ? "button danger" : "button"} href={actPath(act, e.node)}>{label}</a>)}
        </div>
      </section>
      <section class="card" aria-label={text("state")}>
        <dl class="facts">
          {facts.map(([label, value]) => [<dt key={label}>{label}</dt>, <dd key={`${label} value`}>{value}</dd>])}
        </dl>
      </section>
    </>
  );
}
