import { useLocation } from "preact-iso/router";
import { useEffect, useRef, useState } from "preact/hooks";
import { answer, ask, asFailure, client, Failure, type Schemas } from "../../app/api";
import { number } from "../../app/i18n";
import { useAct, useStored } from "../../app/load";
import { inQuery, isPattern, linkPath } from "../../app/paths";
import { operator } from "../../app/session";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { toastFailure, Trouble, words } from "../../ui/failure";
import { Check, Choice, Field } from "../../ui/field";
import { QR } from "../../ui/qr";
import { LinkFields, useFaults } from "../link/form";
import { formOf, names, newLink, type Form } from "../link/linkform";
import type { RuleForm } from "../link/ruleform";
import { text as common } from "../../messages/app";
import { textOf as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/links";
import type { Link } from "./list";

interface Draft {
  form: Form;
  code: string;
  domain: string;
  dedupe: boolean;
  rules: RuleForm[];
}

const blank: Draft = { form: formOf(), code: "", domain: "", dedupe: false, rules: [] };

const others = () => import("../others");

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

async function bodyOf(d: Draft, password: string): Promise<Schemas["NewLink"]> {
  return {
    ...newLink(d.form),
    ...(d.code.trim() ? { custom_code: d.code.trim() } : {}), ...(d.domain ? { domain: d.domain } : {}), ...(d.dedupe ? { dedupe: true } : {}),
    ...(password ? { password } : {}), ...(d.rules.length ? { rules: (await others()).toRules(d.rules)! } : {}),
  };
}

/** newKey names a request, so that it can be sent again without a second effect. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");
}

/** CreateForm asks for a link and creates it. Its text survives closing and reloading. */
export function CreateForm({ domains, pasted, made, focus }: {
  domains: readonly Schemas["Domain"][]; pasted?: string; made: (made: Made) => void; focus?: boolean;
}) {
  const { url, query, route } = useLocation();
  const [kept, setDraft, discard] = useStored<Draft>("create", blank);
  const served = domains.filter((d) => d.state === "approved" || d.state === "proved");
  // What was typed may be of another workspace, which has other domains.
  const draft = served.length === 0 || served.some((d) => d.host === kept.domain) ? kept : { ...kept, domain: "" };
  const [password, setPassword] = useState(""); // which is not kept in the tab
  const act = useAct();
  const { form, fault } = useFaults(act.failure);
  const request = useRef({ body: "", key: "" });
  useEffect(() => {
    if (pasted) setDraft({ ...draft, form: { ...draft.form, original_url: pasted } });
  }, [pasted]);
  // An unknown address fills in its code and domain.
  useEffect(() => {
    const { code, of = "" } = query as Readonly<Record<string, string>>;
    if (!code) return;
    setDraft({ ...draft, code, domain: of });
    route(inQuery(url, { code: undefined, of: undefined }), true);
  }, []);
  const set = <K extends keyof Draft>(name: K) => (value: Draft[K]) => setDraft({ ...draft, [name]: value });
  const taken = act.failure?.status === 409 && !!draft.code;
  const elsewhere = act.failure && !taken && !["custom_code", "password", ...names].some(fault);
  const submit = () => act.run(async () => {
    const body = await bodyOf(draft, password);
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
      <LinkFields
        form={draft.form} set={(part) => setDraft({ ...draft, form: { ...draft.form, ...part } })} fault={fault} focus={focus} password={password} setPassword={setPassword}
        more={<>
          <Check label={text("dedupe")} checked={draft.dedupe} set={set("dedupe")} />
          <Rules rules={draft.rules} set={set("rules")} fields={act.failure?.fields} clear={act.clear} />
        </>}
      >
        <Field
          label={text("code")} autocomplete="off" spellcheck={false} dir="ltr" value={draft.code} set={set("code")}
          fault={taken ? (/taken/.test(act.failure!.message) ? text("taken") : words(act.failure!)) : fault("custom_code")} hint={text("codeHint")}
        />
        {isPattern(draft.code) && <Try code={draft.code.trim()} target={draft.form.original_url} domain={draft.domain} />}
        {taken && <Others code={draft.code.trim()} domain={draft.domain} use={set("code")} />}
        {served.length > 1 && (
          <Choice label={text("domain")} value={draft.domain} set={set("domain")} options={served.map((d, i) => [i === 0 ? "" : d.host, d.host] as const)} />
        )}
      </LinkFields>
      {elsewhere && <Trouble failure={act.failure} />}
      <footer>
        {unlike && <button type="button" class="plain" onClick={() => { discard(); act.clear(); }}>{text("discard")}</button>}
        <button class="primary" disabled={act.busy}>{act.busy ? text("creating") : text("createAction")}</button>
      </footer>
    </form>
  );
}

/** Try tries addresses of a new pattern. Its code is loaded when it is shown. */
function Try(p: { code: string; target: string; domain: string }) {
  const [part, setPart] = useState<Awaited<ReturnType<typeof others>>>();
  useEffect(() => void others().then(setPart, toastFailure), []);
  return part ? <part.Try {...p} /> : null;
}

/** Rules are the rules of a new link. Their code is loaded when they are asked for. */
function Rules(p: { rules: RuleForm[]; set: (rules: RuleForm[]) => void; fields: Readonly<Record<string, string>> | undefined; clear: () => void }) {
  const [part, setPart] = useState<Awaited<ReturnType<typeof others>>>();
  const load = () => others().then(setPart, toastFailure);
  useEffect(() => {
    if (p.rules.length) void load();
  }, []);
  return part
    ? <fieldset><legend>{ofLink("rules")}</legend><part.RuleFields {...p} /></fieldset>
    : <div class="row"><button type="button" onClick={() => void load().then(() => setTimeout(() => document.querySelector<HTMLElement>(".add-rule")?.focus()))}>{ofLink("rules")}</button></div>;
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
      {!isPattern(link.short_code) && <QR link={link} />}
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
