import { useEffect, useRef, useState } from "preact/hooks";
import { ask, client, Failure, workspaceSlug, type Schemas } from "../../app/api";
import { bytes, duration, number } from "../../app/i18n";
import { useAct, useLoad } from "../../app/load";
import { can, me } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/transfer";
import { Trouble, words } from "../../ui/failure";
import { download } from "../../ui/csv";
import { Check, Choice, Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { kinds as columns } from "../link/fields";
import { fingerprint, largest, shapeOf, type Batch, type Shape } from "./rows";
import { begun, refusals, run, unfinished, type Job, type Pause, type Progress, type Refusals } from "./run";

/** Transfer imports links from files, and exports them. */
export default function Transfer() {
  const domains = useLoad(async (signal) => {
    const all = await ask(client.GET("/api/v1/domains", { signal }));
    return all.domains.filter((d) => d.state !== "pending").sort((a, b) => Number(b.shared) - Number(a.shared)).map((d) => d.host);
  }, []);
  return (
    <>
      <h1>{shared("importExport")}</h1>
      <Trouble failure={domains.failure} retry={domains.reload} />
      {can("links:write") ? <Import domains={domains.data ?? []} /> : <p class="notice">{text("readonly")}</p>}
      <Export domains={domains.data ?? []} />
    </>
  );
}

/** What the import shows. */
type Step =
  | { is: "choose"; why?: string }
  | { is: "reading" }
  | { is: "preview"; stopped?: Progress | undefined }
  | { is: "running"; dry: boolean; progress: Progress; first: number; since: number; read: number }
  | { is: "checked" | "ended"; progress: Progress; refused: Refusals; broken: Batch["broken"]; stopped: boolean; failure: Failure | undefined };

function Import({ domains }: { domains: readonly string[] }) {
  const [step, setStep] = useState<Step>({ is: "choose" });
  const [job, setJob] = useState<Job>();
  const [dedupe, setDedupe] = useState(false);
  const [chosen, setDomain] = useState("");
  const domain = chosen || (domains[0] ?? "");
  const [sure, setSure] = useState(false);
  const [format, setFormat] = useState<"" | Schemas["RedirectFile"]["format"]>("");
  const [site, setSite] = useState("");
  const [notes, setNotes] = useState<readonly string[]>([]);
  const [pause, setPause] = useState<Pause>();
  const abort = useRef<AbortController | undefined>(undefined);
  const box = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (step.is !== "running") return;
    const stay = (e: Event) => e.preventDefault();
    addEventListener("beforeunload", stay);
    return () => {
      removeEventListener("beforeunload", stay);
      if (!abort.current) return; // the run has ended
      abort.current.abort();
      if (!step.dry) toast(text("left"));
    };
  }, [step.is]);
  // The buttons of a step vanish with it, so the focus goes to the heading.
  const settled = useRef(step.is);
  useEffect(() => {
    if (settled.current !== step.is && !box.current?.contains(document.activeElement)) heading.current?.focus();
    settled.current = step.is;
  }, [step.is]);

  const choose = async (chosen: File | undefined) => {
    if (!chosen) return;
    let file = chosen;
    if (file.size > largest) return setStep({ is: "choose", why: text("tooLarge", { size: bytes(file.size) }) });
    setStep({ is: "reading" });
    try {
      if (format) {
        const read = await ask(client.POST("/api/v1/redirects", { body: { format, ...(site && { site }), text: await file.text() } }));
        file = new File([read.links], file.name);
        setNotes(read.notes);
      }
      const shape = await shapeOf(file, me.value?.workspace?.time_zone);
      if (shape.fault) return setStep({ is: "choose", why: `${file.name}: ${shape.fault}` });
      const sum = await fingerprint(file);
      const stopped = unfinished(sum);
      if (stopped) {
        setDedupe(stopped.dedupe);
        setDomain(stopped.domain);
      }
      setSure(false);
      setJob({ file, shape, fingerprint: sum, dedupe: false, domain: "" });
      setStep({ is: "preview", stopped });
    } catch (e) {
      setStep({ is: "choose", why: e instanceof Failure ? words(e) : text("unreadable") });
    }
  };

  const start = async (dry: boolean, from = begun(dedupe, domain), refused = refusals(from, job!.shape)) => {
    const control = new AbortController();
    abort.current = control;
    let running: Extract<Step, { is: "running" }> = { is: "running", dry, progress: from, first: from.row, since: Date.now(), read: 0 };
    setStep(running);
    const watch = {
      pause: setPause,
      progress: (progress: Progress, read: number) => {
        running = { ...running, progress, read };
        if (!control.signal.aborted) setStep(running);
      },
    };
    const end = (stopped: boolean, broken?: Batch["broken"], failure?: Failure) => {
      abort.current = undefined;
      setPause(undefined);
      setStep({ is: dry ? "checked" : "ended", progress: running.progress, refused, broken, stopped, failure });
    };
    try {
      end(false, await run({ ...job!, dedupe, domain }, dry, from, refused, watch, control.signal));
    } catch (e) {
      const failure = e instanceof Failure ? e : undefined;
      if (!failure && !control.signal.aborted) console.error(e);
      end(true, undefined, failure ?? (control.signal.aborted ? undefined : new Failure(0, "unreadable", text("unreadable"))));
    }
  };
  const again = () => {
    setJob(undefined);
    setNotes([]);
    setStep({ is: "choose" });
  };
  const other = <button type="button" onClick={again}>{text("other")}</button>;

  return (
    <section class="card" aria-labelledby="import-title" ref={box}>
      <h2 id="import-title" tabIndex={-1} ref={heading}>{text("import")}</h2>
      {step.is === "choose" && (
        <>
          <p class="quiet">{text("importLead")}</p>
          {step.why && <p class="notice bad" role="alert">{step.why}</p>}
          <Choice label={text("fileHolds")} value={format} set={setFormat} options={formats()} />
          {format && <Field type="url" label={text("site")} hint={text("siteHint")} value={site} set={setSite} />}
          <Drop any={format !== ""} choose={(f) => void choose(f)} />
          <details><summary>{text("columnsHelp")}</summary><p class="hint">{text("columnsHelpText", { names: Object.keys(columns).slice(1).join(", ") })}</p></details>
        </>
      )}
      {step.is === "reading" && <p role="status">{text("reading")}</p>}
      {step.is === "preview" && job && (
        <>
          <Preview job={job} />
          {notes.map((n) => <p key={n} class="notice">{n}</p>)}
          {step.stopped ? (
            <div class="notice warn">
              <p>{text("unfinished", { row: step.stopped.row })}</p>
              <button type="button" class="primary" onClick={() => void start(false, step.stopped)}>{text("continueAt", { row: step.stopped.row + 1 })}</button>
              <button type="button" onClick={() => setStep({ is: "preview" })}>{text("fromStart")}</button>
              {other}
            </div>
          ) : (
            <>
              <Choice label={text("into")} hint={text("intoHint")} value={domain} set={setDomain} options={domains.map((d) => [d, d] as const)} />
              <div>
                <Check label={text("dedupe")} checked={dedupe} set={setDedupe} />
                <p class="hint">{text("dedupeHint")}</p>
              </div>
              <div class="row">
                <button type="button" class="primary" disabled={job.shape.preview.last === 0} onClick={() => void start(true)}>{text("tryIt")}</button>
                {other}
              </div>
            </>
          )}
        </>
      )}
      {step.is === "running" && job && <Running step={step} size={job.file.size} pause={pause} stop={() => abort.current?.abort()} />}
      {step.is === "checked" && job && (
        <>
          <p role="status">{step.stopped ? textOf(step.failure ? "dryFailed" : "dryStopped", { row: step.progress.row }) : text("dryDone")}</p>
          <Why failure={step.failure} />
          <Figures progress={step.progress} dry />
          {step.broken && (
            <div class="notice warn" role="alert">
              <p>{text("brokenAt", { row: step.broken.row, reason: step.broken.reason })} {text("brokenChoice")}</p>
            </div>
          )}
          {step.progress.refused === 0 && !step.broken && !step.stopped && <p class="notice good">{text("allFit")}</p>}
          <Refused of={step.refused} total={step.progress.refused} format={job.shape.format} />
          {!step.stopped && step.progress.coded > 0 && (
            <div class="notice warn">
              <p>
                {text("newCodes", { n: step.progress.coded, domain })}
                {job.shape.columns.some((c) => c.name === "short_code") && <> {text("keepCodes")} <code>waypost links import {job.file.name} --keep-codes --domain {domain}</code></>}
              </p>
              <Check label={text("sure")} checked={sure} set={setSure} />
            </div>
          )}
          <div class="row">
            {step.stopped ? <button type="button" class="primary" onClick={() => void start(true)}>{text("tryIt")}</button> : (
              <button
                type="button" class="primary" disabled={step.progress.created + step.progress.found === 0 || (step.progress.coded > 0 && !sure)}
                onClick={() => void start(false)}
              >
                {step.broken ? text("importBefore", { row: step.broken.row })
                  : text("importRows", { n: step.progress.created + step.progress.found })}
              </button>
            )}
            {other}
          </div>
        </>
      )}
      {step.is === "ended" && job && (
        <>
          <p class={step.stopped ? "notice warn" : "notice good"} role="status">
            {!step.stopped ? text("importDone") : textOf(step.failure ? "importFailed" : "importStopped", { row: step.progress.row })}
          </p>
          <Why failure={step.failure} />
          <Figures progress={step.progress} />
          {step.progress.replayed > 0 && <p class="hint">{text("replayedHint")}</p>}
          {step.broken && <p class="notice warn">{text("brokenAt", { row: step.broken.row, reason: step.broken.reason })}</p>}
          <Refused of={step.refused} total={step.progress.refused} format={job.shape.format} />
          <div class="row">
            {step.stopped && (
              <button type="button" class="primary" onClick={() => void start(false, step.progress, step.refused)}>{text("continueAt", { row: step.progress.row + 1 })}</button>
            )}
            <a class="button" href="/console/links">{text("toLinks")}</a>
            {other}
          </div>
        </>
      )}
    </section>
  );
}

const formats = () => [
  ["", text("formatTable")], ["netlify", "_redirects: Netlify (301)"], ["cloudflare-pages", "_redirects: Cloudflare Pages (302)"],
  ["cloudflare-bulk", "CSV: Cloudflare Bulk Redirects"], ["nginx", "nginx: map, rewrite"], ["apache", "Apache: Redirect, RedirectMatch"],
] as const;

/** Why says why a run could not go on. */
function Why({ failure }: { failure: Failure | undefined }) {
  return failure?.kind === "unreadable" ? <p class="notice bad" role="alert">{failure.message}</p> : <Trouble failure={failure} />;
}

/** Drop takes a file that is dropped on it, or chosen. */
function Drop({ any, choose }: { any: boolean; choose: (file: File | undefined) => void }) {
  const [over, setOver] = useState(false);
  return (
    <label
      class={over ? "drop over" : "drop"}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        choose(e.dataTransfer?.files[0]);
      }}
    >
      <strong>{text("drop")}</strong>
      <span class="hint">{any ? text("dropSite") : text("dropHint")}</span>
      <input type="file" accept={any ? undefined : ".csv,.tsv,.jsonl,.ndjson,.txt,text/csv,application/jsonl"} onChange={(e) => choose(e.currentTarget.files?.[0])} />
    </label>
  );
}

function Preview({ job: { file, shape } }: { job: Job }) {
  const named = (wanted: (c: Shape["columns"][number]) => boolean) => shape.columns.filter(wanted).map((c) => c.name).join(", ");
  const ignored = named((c) => c.field === "ignored");
  const rows = shape.preview.rows.slice(0, 5);
  const fields = [...new Set(shape.columns.map((c) => c.field))].filter((f) => f && f !== "ignored") as (keyof (typeof rows)[0]["link"])[];
  return (
    <>
      <h3 dir="auto">{text("preview", { name: file.name })} <span class="quiet">({bytes(file.size)})</span></h3>
      <p>
        {text("recognised", { names: fields.join(", ") })} {ignored && text("ignored", { names: ignored })}
      </p>
      {shape.preview.bad.slice(0, 3).map((b) => <p key={b.row} class="notice bad">{text("row")} {number(b.row)}: {b.field} {b.reason}</p>)}
      {shape.preview.last === 0 ? <p class="notice warn">{text("noRows")}</p> : (
        <Table title={text("preview", { name: file.name })} heads={[[text("row")], ...fields]}>
          {rows.map(({ row, link }) => (
            <tr key={row}>
              <td class="num">{number(row)}</td>
              {fields.map((f) => <td key={f} dir="auto" class="short">{shown(link[f])}</td>)}
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function shown(value: unknown): string {
  if (value === undefined) return "";
  const all = Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value);
  return all.length > 120 ? `${all.slice(0, 120)} …` : all;
}

function Running({ step, size, pause, stop }: { step: Extract<Step, { is: "running" }>; size: number; pause: Pause | undefined; stop: () => void }) {
  const seconds = Math.max(0.5, (Date.now() - step.since) / 1000);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const left = pause ? Math.ceil((pause.until - now) / 1000) : 0;
  return (
    <>
      <h3>{textOf(step.dry ? "trying" : "importing")}</h3>
      <progress class="full" max={size} value={step.read} aria-label={text("progressLabel")} />
      <p class="quiet">{text("progress", { row: step.progress.row, rate: Math.round((step.progress.row - step.first) / seconds) })}</p>
      <div role="status">
        {pause && <p class="notice warn">{left > 0 ? text("paused", { why: words(pause.why), wait: duration(left) }) : text("waiting")}</p>}
      </div>
      <Figures progress={step.progress} dry={step.dry} />
      <div class="row"><button type="button" onClick={stop}>{text("stop")}</button></div>
    </>
  );
}

function Figures({ progress: p, dry }: { progress: Progress; dry?: boolean }) {
  return (
    <dl class="figures">
      <div class="figure"><dt>{textOf(dry ? "wouldCreate" : "created")}</dt><dd>{number(p.created)}</dd></div>
      {p.found > 0 && <div class="figure"><dt>{text("found")}</dt><dd>{number(p.found)}</dd></div>}
      {p.replayed > 0 && <div class="figure"><dt>{text("replayed")}</dt><dd>{number(p.replayed)}</dd></div>}
      <div class="figure"><dt>{text("refused")}</dt><dd>{number(p.refused)}</dd></div>
    </dl>
  );
}

/** Refused lists the first rows that are refused, and offers all of them as a file. */
function Refused({ of: { shown: all, lines, after }, total, format }: { of: Refusals; total: number; format: string }) {
  const [file, setFile] = useState<string>();
  useEffect(() => {
    const url = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
    setFile(url);
    return () => URL.revokeObjectURL(url);
  }, []);
  const rest = after > 0 && <p class="hint">{text("refusedBefore", { row: after })}</p>;
  if (all.length === 0) return <>{rest}</>;
  const named = all.some((r) => r.field);
  return (
    <>
      <div class="head">
        <h3 class="grow">{text("refusedRows")}</h3>
        {!after && total > all.length && <span class="quiet">{text("refusedShown", { n: all.length, total })}</span>}
        {file && <a class="button small" href={file} download={`refused.${format}`}>{text("refusedFile")}</a>}
      </div>
      {rest}
      <Table title={text("refusedRows")} box="refused" heads={[[text("row")], ...(named ? [text("field")] : []), text("reason"), text("target")]}>
        {all.map((r) => (
          <tr key={r.row}>
            <td class="num">{number(r.row)}</td>
            {named && <td>{r.field && <code>{r.field}</code>}</td>}
            <td>{r.reason}</td>
            <td dir="auto" class="short">{shown(r.url)}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

async function allTags(signal: AbortSignal): Promise<string[]> {
  const all: string[] = [];
  for (let after = ""; ;) {
    const page = await ask(client.GET("/api/v1/tags", { params: { query: { limit: 1000, ...(after ? { after } : {}) } }, signal }));
    all.push(...page.tags.map((t) => t.tag));
    after = page.next_after;
    if (!after) return all;
  }
}

function Export({ domains }: { domains: readonly string[] }) {
  const [format, setFormat] = useState<"csv" | "jsonl">("csv");
  const [tag, setTag] = useState("");
  const [domain, setDomain] = useState("");
  const [raw, setRaw] = useState(false);
  const [bom, setBOM] = useState(false);
  const tags = useLoad(allTags, []);
  const query = new URLSearchParams({ format });
  if (tag) query.append("tag", tag);
  if (domain) query.set("domain", domain);
  if (raw && format === "csv") query.set("raw", "true");
  if (bom && format === "csv") query.set("bom", "true");
  return (
    <section class="card" aria-labelledby="export-title">
      <h2 id="export-title">{text("export")}</h2>
      <p class="quiet">{text("exportLead")}</p>
      <Trouble failure={tags.failure} retry={tags.reload} />
      <div class="cards">
        <Choice label={text("format")} value={format} set={setFormat} options={[["csv", text("csv")], ["jsonl", text("jsonl")]]} />
        <Choice label={text("tag")} value={tag} set={setTag} options={[["", shared("all")], ...(tags.data ?? []).map((t) => [t, t] as const)]} />
        <Choice label={text("domain")} value={domain} set={setDomain} options={[["", shared("all")], ...domains.map((d) => [d, d] as const)]} />
      </div>
      {format === "csv" && (
        <div>
          <Check label={text("rawCells")} checked={raw} set={setRaw} />
          <p class="hint">{text("rawHint")}</p>
          <Check label={text("bom")} checked={bom} set={setBOM} />
        </div>
      )}
      <div class="row"><Download query={query} /></div>
    </section>
  );
}

/** Download is a plain link, because the browser writes a download to the disk as it comes.
 * A link cannot name one of several workspaces, so for their users the page asks. */
function Download({ query }: { query: URLSearchParams }) {
  const act = useAct();
  const path = `/api/v1/urls/export?${query}`;
  if ((me.value?.workspaces.length ?? 0) < 2) return <a class="button primary" href={path} download target="_self">{text("download")}</a>;
  const load = () => act.run(async () => {
    const file = await ask(client.GET("/api/v1/urls/export", { params: { query: Object.fromEntries(query) as object }, parseAs: "blob" }));
    download(`waypost-${workspaceSlug.value}.${query.get("format")}`, file as unknown as Blob);
  });
  return (
    <>
      <button type="button" class="primary" disabled={act.busy} onClick={() => void load()}>{text("download")}</button>
      <Trouble failure={act.failure} />
    </>
  );
}
