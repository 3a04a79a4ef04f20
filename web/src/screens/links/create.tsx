import { useLocation } from "preact-iso/router";
import { useEffect, useRef, useState } from "preact/hooks";
import { answer, ask, asFailure, client, Failure, type Schemas } from "../../app/api";
import { number } from "../../app/i18n";
import { useAct, useStored } from "../../app/load";
import { linkPath } from "../../app/paths";
import { operator } from "../../app/session";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Trouble, words } from "../../ui/failure";
import { Check, Choice, Field, moment } from "../../ui/field";
import { QR } from "../../ui/qr";
import { longTexts } from "../link/fields";
import { LimitFields, limitsOf, unlimited, type Limits } from "../link/limits";
import { text as common } from "../../messages/app";
import { textOf as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/links";
import { useTags } from "./filters";
import type { Link } from "./list";

type LongTexts = Record<(typeof longTexts)[number], string>;
type Status = "302" | "301" | "307" | "308";

interface Draft extends Limits, LongTexts {
  target: string;
  code: string;
  title: string;
  tags: string;
  domain: string;
  expires: string;
  status: Status;
  forwardQuery: boolean;
  forwardPath: boolean;
  dedupe: boolean;
}

const blank: Draft = {
  target: "", code: "", title: "", tags: "", domain: "", expires: "", status: "302", forwardQuery: false, forwardPath: false, dedupe: false, ...unlimited,
  ...(Object.fromEntries(longTexts.map((name) => [name, ""])) as LongTexts),
};

/** Made is a link that was created, and the request that did so. */
export interface Made {
  link: Link;
  /** Whether the link was there before. */
  found: boolean;
  body: Schemas["NewLink"];
  key: string;
  /** When the request was sent, by performance.now(). */
  sent: number;
}

function bodyOf(d: Draft, password: string): Schemas["NewLink"] {
  const tags = [...new Set(d.tags.split(",").map((t) => t.trim()).filter(Boolean))];
  return {
    original_url: d.target.trim(),
    ...(d.code.trim() ? { custom_code: d.code.trim() } : {}),
    ...(d.title.trim() ? { title: d.title.trim() } : {}),
    ...(tags.length ? { tags } : {}),
    ...(d.domain ? { domain: d.domain } : {}),
    ...(d.expires ? { expires_at: moment(d.expires)! } : {}),
    ...Object.fromEntries(longTexts.filter((name) => d[name].trim()).map((name) => [name, d[name]])),
    ...(d.status === "302" ? {} : { redirect_status: Number(d.status) as Link["redirect_status"] }),
    ...(d.forwardQuery ? { forward_query: true } : {}),
    ...(d.forwardPath ? { forward_path: true } : {}),
    ...(d.dedupe ? { dedupe: true } : {}),
    ...limitsOf(d), ...(password ? { password } : {}),
  };
}

/** newKey names a request, so that it can be sent again without a second effect. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");
}

const hiddenFields = [...longTexts, "max_clicks", "exhausted_url", "password"];
const shownFields = ["original_url", "custom_code", "title", "tags", "expires_at", ...hiddenFields];

/** CreateForm asks for a link and creates it. Its text survives closing and reloading. */
export function CreateForm({ domains, pasted, made, focus }: {
  domains: readonly Schemas["Domain"][]; pasted?: string; made: (made: Made) => void; focus?: boolean;
}) {
  const [kept, setDraft, discard] = useStored<Draft>("create", blank);
  const served = domains.filter((d) => d.state === "approved" || d.state === "proved");
  // What was typed may be of another workspace, which has other domains.
  const draft = served.length === 0 || served.some((d) => d.host === kept.domain) ? kept : { ...kept, domain: "" };
  const [password, setPassword] = useState(""); // which is not kept in the tab
  const act = useAct();
  const form = useRef<HTMLFormElement>(null);
  const request = useRef({ body: "", key: "" });
  useEffect(() => {
    if (pasted) setDraft({ ...draft, target: pasted });
  }, [pasted]);
  const set = <K extends keyof Draft>(name: K) => (value: Draft[K]) => setDraft({ ...draft, [name]: value });
  const cut = draft.tags.lastIndexOf(",") + 1; // before the last tag
  const before = draft.tags.slice(0, cut);
  const tags = useTags(draft.tags.slice(cut).trim());
  const fields = act.failure?.fields ?? {};
  const taken = act.failure?.status === 409 && !!draft.code;
  const fault = (name: string) => Object.entries(fields).find(([at]) => at === name || at.startsWith(`${name}[`))?.[1];
  const elsewhere = act.failure && !taken && !shownFields.some(fault);
  useEffect(() => {
    if (act.failure) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [act.failure]);
  const submit = () => act.run(async () => {
    const body = bodyOf(draft, password);
    const written = JSON.stringify(body);
    if (request.current.body !== written) request.current = { body: written, key: newKey() };
    const sent = performance.now();
    const { key } = request.current;
    const { data, response } = await answer(client.POST("/api/v1/urls", { params: { header: { "Idempotency-Key": key } }, body }));
    request.current = { body: "", key: "" };
    discard();
    made({ link: data, found: response.status === 200, body, key, sent });
  });
  const unlike = JSON.stringify(draft) !== JSON.stringify(blank);
  return (
    <form
      ref={form} noValidate class="create"
      onSubmit={(e) => {
        e.preventDefault();
        // What is half typed has no value, and would be left out.
        const half = ([...e.currentTarget.elements] as HTMLInputElement[]).find((x) => x.validity?.badInput);
        if (half) half.reportValidity();
        else void submit();
      }}
    >
      <Field
        label={text("targetLabel")} type="text" inputMode="url" autocomplete="off" spellcheck={false} dir="ltr" placeholder="https://"
        autofocus={focus} value={draft.target} set={set("target")} fault={fault("original_url")}
      />
      <div class="pair">
        <Field
          label={text("code")} autocomplete="off" spellcheck={false} dir="ltr" value={draft.code} set={set("code")}
          fault={taken ? (/taken/.test(act.failure!.message) ? text("taken") : words(act.failure!)) : fault("custom_code")} hint={text("codeHint")}
        />
        <Field label={text("title")} autocomplete="off" dir="auto" value={draft.title} set={set("title")} fault={fault("title")} />
      </div>
      {taken && <Others code={draft.code.trim()} domain={draft.domain} use={set("code")} />}
      <div class="pair">
        <Field
          label={text("tags")} autocomplete="off" dir="auto" offers={tags.map((tag) => (before ? `${before} ${tag}` : tag))}
          value={draft.tags} set={set("tags")} fault={fault("tags")} hint={text("tagsHint")}
        />
        <Field label={text("expires")} type="datetime-local" value={draft.expires} set={set("expires")} fault={fault("expires_at")} hint={text("expiresHint")} />
      </div>
      {served.length > 1 && (
        <Choice label={text("domain")} value={draft.domain} set={set("domain")} options={served.map((d, i) => [i === 0 ? "" : d.host, d.host] as const)} />
      )}
      <details open={hiddenFields.some(fault) || undefined}>
        <summary>{text("more")}</summary>
        <div class="stack">
          {longTexts.map((name) => <Field key={name} label={ofLink(name)} autocomplete="off" dir="auto" value={draft[name]} set={set(name)} fault={fault(name)} />)}
          <LimitFields of={draft} change={(part) => setDraft({ ...draft, ...part })} fault={fields} password={password} setPassword={setPassword} />
          <Choice<Status>
            label={text("redirect")} value={draft.status} set={set("status")}
            options={[["302", text("redirect302")], ["301", text("redirect301")], ["307", text("redirect307")], ["308", text("redirect308")]]}
          />
          <Check label={text("forwardQuery")} checked={draft.forwardQuery} set={set("forwardQuery")} />
          <Check label={text("forwardPath")} checked={draft.forwardPath} set={set("forwardPath")} />
          <Check label={text("dedupe")} checked={draft.dedupe} set={set("dedupe")} />
        </div>
      </details>
      {elsewhere && <Trouble failure={act.failure} />}
      <footer>
        {unlike && <button type="button" class="plain" onClick={() => { discard(); act.clear(); }}>{text("discard")}</button>}
        <button class="primary" disabled={act.busy}>{act.busy ? text("creating") : text("createAction")}</button>
      </footer>
    </form>
  );
}

/** Others offers codes in place of one that is taken. The server says which are free. */
function Others({ code, domain, use }: { code: string; domain: string; use: (code: string) => void }) {
  const [free, setFree] = useState("");
  useEffect(() => {
    const tries = [2, 3, 4, new Date().getFullYear(), Math.floor(1000 + Math.random() * 9000)].map((n) => `${code.slice(0, 27)}-${n}`);
    const abort = new AbortController();
    setFree("");
    ask(client.POST("/api/v1/urls/bulk", {
      params: { query: { dry_run: "true" } }, signal: abort.signal,
      body: { links: tries.map((custom_code) => ({ original_url: "https://example.com/", custom_code, ...(domain ? { domain } : {}) })) },
    })).then((all) => setFree(tries.find((_, i) => all.results[i]?.status === 201) ?? ""), () => undefined); // another can be typed
    return () => abort.abort();
  }, [code, domain]);
  return (
    <div class="row">
      {free && <button type="button" class="small" onClick={() => use(free)}>{text("use", { code: free })}</button>}
      <button type="button" class="small" onClick={() => use("")}>{text("generated")}</button>
    </div>
  );
}

/** CreateDialog creates a link, and then shows it. */
export function CreateDialog({ domains, shared, pasted, made, setMade, close }: {
  domains: readonly Schemas["Domain"][]; shared: string; pasted?: string; made: Made | undefined; setMade: (made: Made | undefined) => void; close: () => void;
}) {
  return (
    <Dialog title={made ? textOf(made.found ? "found" : "ready") : text("create")} close={close}>
      {made
        ? <Ready made={made} shared={shared} another={() => setMade(undefined)} close={close} />
        : <CreateForm domains={domains} made={setMade} focus {...(pasted ? { pasted } : {})} />}
    </Dialog>
  );
}

function Ready({ made, shared, another, close }: { made: Made; shared: string; another: () => void; close: () => void }) {
  const { link } = made;
  const { route } = useLocation();
  const first = useRef<HTMLDivElement>(null);
  useEffect(() => first.current?.querySelector("button")?.focus(), []);
  return (
    <div class="stack ready">
      <div class="row" ref={first}>
        <a class="strong mono grow" href={link.short_url} target="_blank" rel="noopener">{link.short_url}</a>
        <Copy value={link.short_url} label={link.short_url} />
      </div>
      {link.title && <p dir="auto">{link.title}</p>}
      <p class="quiet small-text" dir="ltr">→ {link.original_url}</p>
      {link.warnings?.map((w) => <div key={w.code} class="notice warn" role="alert"><p>{text("warnLooks", { detail: w.message })}</p></div>)}
      <Receipt made={made} />
      <QR link={link} />
      <footer>
        <button type="button" onClick={another}>{text("another")}</button>
        <button
          type="button"
          onClick={() => {
            close();
            route(linkPath(link, shared));
          }}
        >
          {text("open")}
        </button>
        <button type="button" class="primary" onClick={close}>{common("done")}</button>
      </footer>
    </div>
  );
}

interface Applied {
  /** How many edges have the link; 0: some do not. */
  edges: number;
  behind: readonly string[];
  seconds: number;
}

/** Receipt says which edges have a new link. It sends the request again that created the
 * link, which creates nothing more and is answered when the edges have the link. */
function Receipt({ made }: { made: Made }) {
  const [applied, setApplied] = useState<Applied | Failure>();
  const [turn, setTurn] = useState(0);
  const regions = useRegions();
  useEffect(() => {
    const abort = new AbortController();
    setApplied(undefined);
    answer(client.POST("/api/v1/urls", {
      params: { header: { "Idempotency-Key": made.key }, query: { wait: "all", wait_timeout: 5 } }, body: made.body, signal: abort.signal,
    })).then(({ response }) => {
      const said = response.headers.get("Waypost-Applied") ?? "";
      setApplied({
        edges: Number(said.match(/^all; edges=(\d+)/)?.[1] ?? 0), behind: [...said.matchAll(/(?:behind|silent)=([^;]+)/g)].flatMap((m) => m[1]!.split(",")),
        seconds: (performance.now() - made.sent) / 1000,
      });
    }, (e: unknown) => abort.signal.aborted || setApplied(asFailure(e)));
    return () => abort.abort();
  }, [made, turn]);
  const done = applied && !(applied instanceof Failure) ? applied : undefined;
  const time = done ? number(done.seconds, { style: "unit", unit: "second", unitDisplay: "short", maximumFractionDigits: 1 }) : "";
  const onAll = done && done.edges > 0;
  return (
    <div class="stack">
      <p role="status" class={onAll ? "good" : "quiet"}>
        {!applied ? text("waiting")
          : onAll ? `✓ ${text("onAll", { n: done.edges, time })}`
            : done?.behind.length ? text("behind", { names: done.behind.join(", ") }) : text("unchecked")}
        {applied && !onAll && <> <button type="button" class="small" onClick={() => setTurn(turn + 1)}>{text("checkAgain")}</button></>}
      </p>
      {done && regions.size > 0 && (onAll || done.behind.length > 0) && (
        <p class="row">
          {[...regions].map(([region, nodes]) => {
            const late = nodes.some((n) => done.behind.includes(n));
            return <span key={region} class={late ? "tag warn" : "tag good"}>{textOf(late ? "regionBehind" : "regionHas", { region })}</span>;
          })}
        </p>
      )}
    </div>
  );
}

/** useRegions returns the live edges of each region, for operators. */
function useRegions(): ReadonlyMap<string, readonly string[]> {
  const [regions, setRegions] = useState<ReadonlyMap<string, readonly string[]>>(new Map());
  useEffect(() => {
    if (!operator.value) return;
    const abort = new AbortController();
    ask(client.GET("/api/admin/edges", { signal: abort.signal })).then(({ edges }) => {
      const live = edges.filter((e) => e.state === "alive" && e.role === "edge");
      setRegions(new Map(live.map((e) => [e.region, live.filter((o) => o.region === e.region).map((o) => o.node)])));
    }, () => undefined); // the receipt says the rest
    return () => abort.abort();
  }, []);
  return regions;
}
