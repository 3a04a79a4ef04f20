import { useLocation } from "preact-iso/router";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, client } from "../../app/api";
import { ago, bytes, duration, number } from "../../app/i18n";
import { differing, useAct, useLoad } from "../../app/load";
import { me } from "../../app/session";
import { text, textOf } from "../../messages/transfer";
import { download } from "../../ui/csv";
import { Confirm } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import { Check } from "../../ui/field";
import { Table } from "../../ui/table";
import { Begin, Drop, State } from "./begin";
import { codesOf, decided, notationsOf, type Decisions, type Import } from "./mapping";
import { Mapping } from "./settings";
import { forget, upload, uploads } from "./upload";

/** Whether an import changes without its user. */
const busy = ({ state }: Import) => ["uploading", "reading", "checking", "running", "undoing"].includes(state);

const second = 1000; // milliseconds between two looks at an import that is under way

/** One shows an import: its file, what becomes of it, and how far it is. */
export function One({ id, domains }: { id: string; domains: readonly string[] }) {
  const { route } = useLocation();
  const params = { path: { id } };
  const got = useLoad((signal) => ask(client.GET("/api/v1/imports/{id}", { params, signal })), []);
  const act = useAct();
  const [asks, setAsks] = useState<"undo" | "remove">();
  const i = got.data;
  const active = i !== undefined && busy(i);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(got.reload, second);
    return () => clearInterval(timer);
  }, [active]);
  // The buttons of a state vanish with it, so the focus goes to the heading.
  const box = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (i && !asks && !box.current?.contains(document.activeElement)) heading.current?.focus();
  }, [i?.state, asks]);

  // An answer to an act has no first rows, so the import is asked for again.
  const show = (next: Import) => {
    got.set(i?.sample ? { ...next, sample: next.sample ?? i.sample } : next);
    got.reload();
  };
  const run = (dry_run: boolean) => act.run(async () => show(await ask(client.POST("/api/v1/imports/{id}/run", { params, body: { dry_run } }))));
  const stop = () => act.run(async () => show(await ask(client.POST("/api/v1/imports/{id}/stop", { params }))));
  const change = (body: Partial<Decisions>) => act.run(async () => show(await ask(client.PATCH("/api/v1/imports/{id}", { params, body }))));
  const undo = async () => {
    show(await ask(client.POST("/api/v1/imports/{id}/undo", { params })));
    setAsks(undefined);
  };
  const remove = async () => {
    await ask(client.DELETE("/api/v1/imports/{id}", { params }));
    forget(id);
    route("/console/import");
  };
  return (
    <div class="stack" ref={box}>
      <p><a href="/console/import">{text("back")}</a></p>
      <Await of={got}>{(i) => (
        <>
          <div class="head">
            <h1 class="clip" dir="auto" tabIndex={-1} ref={heading}>{i.name}</h1>
            <span role="status"><State of={i.state} /></span>
          </div>
          {i.problem && <p class="notice bad" role="alert"><span lang="en">{i.problem}</span></p>}
          <Trouble failure={act.failure} />
          {i.state === "uploading" && <Uploading of={i} />}
          {i.state !== "uploading" && busy(i) && (
            <section class="card" aria-labelledby="progress-title">
              <h2 id="progress-title">{textOf(i.state)}</h2>
              <Progress of={i} />
              {(i.state === "checking" || i.state === "running") && <div class="row"><button type="button" disabled={act.busy} onClick={() => void stop()}>{text("stop")}</button></div>}
            </section>
          )}
          {i.state === "ready" && <Ready of={i} domains={domains} busy={act.busy} change={change} run={(dry) => void run(dry)} />}
          {["stopped", "done", "undone"].includes(i.state) && (
            <section class="card" aria-labelledby="result-title">
              <h2 id="result-title">{text("result")}</h2>
              <Figures of={i} />
              {i.state === "stopped" && <p>{text("stoppedAt", { n: i.counts.left })}</p>}
              <Refused of={i} />
              <div class="row">
                {i.state === "stopped" && <button type="button" class="primary" disabled={act.busy} onClick={() => void run(false)}>{text("resume")}</button>}
                {i.undo_until && <button type="button" onClick={() => setAsks("undo")}>{text("undo")}</button>}
                <a class="button" href="/console/links">{text("toLinks")}</a>
              </div>
              {i.undo_until && <p class="hint">{text("undoUntil", { time: duration((Date.parse(i.undo_until) - Date.now()) / 1000) })}</p>}
            </section>
          )}
          {i.state === "failed" && <Begin />}
          <p class="hint">
            {text("goes", { time: ago(i.goes_at) })} <button type="button" class="small" onClick={() => setAsks("remove")}>{text("forget")}</button>
          </p>
          {asks === "undo" && (
            <Confirm title={text("undo")} action={text("undo")} run={undo} close={() => setAsks(undefined)}><p>{text("undoText", { n: i.counts.created })}</p></Confirm>
          )}
          {asks === "remove" && (
            <Confirm title={text("forget")} action={text("forget")} run={remove} close={() => setAsks(undefined)}><p>{text("forgetText")}</p></Confirm>
          )}
        </>
      )}</Await>
    </div>
  );
}

/** Uploading shows how much of the file has arrived. Its file is not in the page after the
 * page was loaded again, so it can be chosen once more. */
function Uploading({ of: i }: { of: Import }) {
  const u = uploads.value[i.id];
  return (
    <section class="card" aria-labelledby="upload-title">
      <h2 id="upload-title">{textOf("uploading")}</h2>
      {u && !u.ended ? <progress class="full" max={u.size || 1} value={u.sent} aria-label={text("progressLabel")} /> : <Drop choose={(file) => void upload(i.id, file)} />}
      <p class="quiet">{u && !u.ended ? text("sent", { n: bytes(u.sent), all: bytes(u.size) }) : text("chooseAgain")}</p>
      {u?.failure?.kind === "unreadable" ? <p class="notice bad" role="alert">{text("unreadable")}</p> : <Trouble failure={u?.failure} />}
    </section>
  );
}

/** Progress shows how far an import is, and how long it takes. */
function Progress({ of: i }: { of: Import }) {
  const counts = i.state === "checking" ? i.checked : i.counts;
  const [done, all] = i.state === "undoing" ? [i.counts.removed + i.counts.kept, i.counts.created] : [i.rows - (counts?.left ?? i.rows), i.rows];
  const reading = i.state === "reading";
  return (
    <>
      <progress class="full" {...(reading ? {} : { max: all || 1, value: done })} aria-label={text("progressLabel")} />
      <p class="quiet">
        {reading ? text("rowsRead", { n: i.rows }) : text("rowsDone", { done, all })}
        {i.rows_per_second ? ` · ${text("perSecond", { n: Math.round(i.rows_per_second) })}` : ""}
        {i.seconds_left ? ` · ${text("timeLeft", { time: duration(i.seconds_left) })}` : ""}
      </p>
      {!reading && <Figures of={i} />}
    </>
  );
}

/** Ready shows what becomes of the file, which can be changed, checked and run. */
function Ready({ of: i, domains, busy, change, run }: {
  of: Import; domains: readonly string[]; busy: boolean; change: (body: Partial<Decisions>) => Promise<boolean>; run: (dry: boolean) => void;
}) {
  const [draft, setDraft] = useState<Decisions>();
  const [sure, setSure] = useState(false);
  const d = draft ?? decided(i);
  // An object is another one after each edit, also when its content is as before.
  const changed = differing(d, { ...decided(i), mapping: JSON.stringify(d.mapping) === JSON.stringify(i.mapping) ? d.mapping : i.mapping });
  const apply = async () => {
    if (!changed || !(await change(changed))) return !changed;
    setDraft(undefined);
    return true;
  };
  const codes = codesOf(i);
  const anyDate = !i.mapping.dates && notationsOf(i.notations).length > 0;
  const lost = codes !== undefined && codes.n !== 0;
  const checked = changed ? undefined : i.checked;
  const n = checked ? checked.created : 0;
  useEffect(() => setSure(false), [i.updated_at]);
  return (
    <>
      <form
        class="card" aria-labelledby="mapping-title"
        onSubmit={(e) => {
          e.preventDefault();
          void apply();
        }}
      >
        <h2 id="mapping-title">{text("mapping")}</h2>
        <Mapping of={i} value={d} set={setDraft} domains={domains} />
        {anyDate ? <p class="notice warn">{text("datesOpen")}</p> : i.open.map((o) => <p key={o} class="notice warn"><span lang="en">{o}</span></p>)}
        {i.rows === 0 && <p class="notice warn">{text("noRows")}</p>}
        <div class="row">
          <button
            type="button" class={checked ? "" : "primary"} disabled={busy || i.rows === 0 || (!changed && i.open.length > 0)}
            onClick={async () => {
              if (await apply()) run(true);
            }}
          >{text("check")}</button>
          {changed && <button disabled={busy}>{text("apply")}</button>}
        </div>
      </form>
      <section class="card" aria-labelledby="check-title">
        <h2 id="check-title">{checked ? text("checkedTitle") : text("codesTitle")}</h2>
        {checked && <Figures of={i} dry />}
        <p class={lost ? "notice bad" : "notice good"} role="status">
          {lost ? <strong>{codes.n ? text("newCodes", { n: codes.n }) : textOf(codes.why)}</strong> : text("keptCodes")}
        </p>
        {checked ? (
          <>
            <Refused of={i} />
            {lost && <Check label={text("sure")} checked={sure} set={setSure} />}
            <div class="row">
              <button type="button" class="primary" disabled={busy || n + checked.found === 0 || (lost && !sure)} onClick={() => run(false)}>{text("importRows", { n })}</button>
            </div>
          </>
        ) : <p class="quiet">{text("checkFirst")}</p>}
      </section>
    </>
  );
}

function Figures({ of: i, dry = i.state === "checking" }: { of: Import; dry?: boolean }) {
  const c = dry ? i.checked : i.counts;
  if (!c) return null;
  const all: [label: string, n: number, always?: boolean][] = [
    [textOf(dry ? "wouldCreate" : "created"), c.created, true], [text("found"), c.found], [text("refused"), c.refused, true],
    [text("removed"), c.removed], [text("kept"), c.kept],
  ];
  return (
    <dl class="figures">
      {all.map(([label, n, always]) => (always || n > 0) && <div key={label} class="figure"><dt>{label}</dt><dd>{number(n)}</dd></div>)}
    </dl>
  );
}

/** Refused shows the first rows that are refused, and offers all of them as a file. */
function Refused({ of: i }: { of: Import }) {
  const { refused: n, refusals } = (i.state === "ready" && i.checked) || i.counts;
  const act = useAct();
  if (n === 0) return null;
  const path = `/api/v1/imports/${encodeURIComponent(i.id)}/refused`;
  const name = `refused-${i.name}`;
  // A link cannot name one of several workspaces, so for their users the page asks.
  const load = () => act.run(async () => {
    const file = await ask(client.GET("/api/v1/imports/{id}/refused", { params: { path: { id: i.id } }, parseAs: "blob" }));
    download(name, file as unknown as Blob);
  });
  return (
    <>
      <div class="head">
        <h3 class="grow">{text("refusedRows")}</h3>
        {n > refusals.length && <span class="quiet">{text("refusedShown", { n: refusals.length, total: n })}</span>}
        {(me.value?.workspaces.length ?? 0) < 2 ? <a class="button small" href={path} download={name} target="_self">{text("refusedFile")}</a>
          : <button type="button" class="small" disabled={act.busy} onClick={() => void load()}>{text("refusedFile")}</button>}
      </div>
      <Trouble failure={act.failure} />
      <Table title={text("refusedRows")} box="refused" heads={[[text("line")], text("reason")]}>
        {refusals.map((r) => <tr key={r.line}><td class="num">{number(r.line)}</td><td dir="auto" lang="en">{r.reason}</td></tr>)}
      </Table>
    </>
  );
}
