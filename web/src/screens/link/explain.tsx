import { useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useLoad, useSettled } from "../../app/load";
import { text, textOf } from "../../messages/rules";
import { Trouble, words } from "../../ui/failure";
import { Choice, Field, moment } from "../../ui/field";
import { named, type Link, type Place } from "./change";
import { inWords } from "./ruleform";

/** Words that the API has for usual agents, and what people call them. */
const devices = [
  ["", "–"], ["iphone", "iPhone"], ["ipad", "iPad"], ["android", "Android"], ["windows", "Windows"], ["mac", "Mac"], ["linux", "Linux"], ["chromeos", "ChromeOS"], ["bot", "Bot"], ["preview", textOf("preview")],
] as const;
type Device = (typeof devices)[number][0];

/** Explain says where a link leads a visitor, and why. */
export function Explain({ at, link, unsaved }: { at: Place; link: Link; unsaved: boolean }) {
  const [device, setDevice] = useState<Device>("iphone");
  const [typed, setTyped] = useState({ url: "", country: "", city: "", language: "", address: "", query: "", at: "" });
  const asked = useSettled({ ...typed, agent: device as string });
  const loaded = useLoad((signal) => {
    const query = Object.fromEntries(Object.entries({
      ...asked, country: asked.country.trim().toUpperCase(), at: moment(asked.at) ?? "",
    }).filter(([, value]) => value));
    return ask(client.GET("/api/v1/explain", { params: { query: { domain: at.domain, ...query, url: asked.url.trim() || at.code } }, signal }));
  }, [JSON.stringify(asked), link.updated_at]);
  const fault = loaded.failure?.fields ?? {};
  const field = (name: keyof typeof typed, label: string, example = "") => (
    <Field
      label={label} value={typed[name]} set={(value) => setTyped({ ...typed, [name]: value })} fault={fault[name]} placeholder={example} type={name === "at" ? "datetime-local" : "text"}
      spellcheck={false} autocomplete="off" dir="auto"
    />
  );
  return (
    <section class="stack explain" aria-labelledby="explain-title">
      <h3 id="explain-title">{text("explain")}</h3>
      <p class="hint">{text("explainHint")}</p>
      <div class="form-row">
        {field("url", text("path"), at.code)}
        <Choice label={text("agent")} value={device} set={setDevice} options={devices} />
        {field("country", textOf("country"), "DE")}
        {field("city", textOf("city"), "Berlin")}
        {field("language", text("acceptLanguage"), "de-AT, de")}
        {field("address", textOf("address"), "192.0.2.7")}
        {field("query", text("query"), "utm_source=mail")}
        {field("at", text("at"))}
      </div>
      {unsaved && <p class="notice warn">{text("unsaved")}</p>}
      <Trouble failure={loaded.failure} retry={loaded.reload} />
      <div role="status">{loaded.data && !loaded.failure && <Answer of={loaded.data} link={link} />}</div>
    </section>
  );
}

/** Try says where an address would lead if a pattern had a target, while both are typed. */
export function Try(typed: { code: string; target: string; domain: string }) {
  const [url, setURL] = useState("");
  const asked = useSettled({ ...typed, url: url.trim() });
  const loaded = useLoad(async (signal) => {
    const { url, code, target, domain } = asked;
    return url && target ? ask(client.GET("/api/v1/explain", { params: { query: { url, code, target, ...(domain ? { domain } : {}) } }, signal })) : undefined;
  }, [JSON.stringify(asked)]);
  const { data: found, failure } = loaded;
  return (
    <Field label={text("try")} hint={text("tryHint")} value={url} set={setURL} spellcheck={false} autocomplete="off" dir="ltr" placeholder={typed.code.replace(/[*{}]/g, "")}>
      <p role="status" dir="auto">
        {!url.trim() ? null : failure ? (failure.status === 404 ? text("nowhere") : words(failure)) : found && (
          <>
            <code>{found.short_code}</code> {found.held.map((h) => <span key={h.name} class="tag">{`{${h.name}} = ${h.value}`}</span>)}{" "}
            → <strong dir="ltr">{found.result.location || found.result.status}</strong>
          </>
        )}
      </p>
    </Field>
  );
}

function Answer({ of: { rules, result: r, short_code: code, match }, link }: { of: Schemas["Explanation"]; link: Link }) {
  const ruled = link.rules?.find((l) => l.id === r.rule);
  const variant = ruled?.split?.variants.find((v) => v.id === r.variant);
  return (
    <div class="notice good">
      <div class="stack">
        <p>
          <strong>{r.status}</strong> {r.location && <>→ <strong dir="ltr">{r.location}</strong></>}<br />
          {match && match !== "exact" && <span dir="auto"><code>{code}</code>: {textOf(`match_${match}`)} </span>}
          <span dir="auto">{r.maintenance ? text("maintenance") : r.gate ? textOf(`gate_${r.gate}`) : ruled ? text("byRule", { name: named("rule", ruled) }) : text("byNone")}</span>{" "}
          {variant && <span dir="auto">{text("byVariant", { name: named("variant", variant) })} {r.by_chance && text("byChance")}</span>} {r.not_found && text("notFound")}
        </p>
        {rules.length > 0 && (
          <ol class="steps">
            {rules.map((step) => {
              const failed = link.rules?.find((l) => l.id === step.id)?.when?.[step.failed ?? -1];
              return (
                <li key={step.id} class={step.outcome === "not_reached" ? "quiet" : ""} dir="auto">
                  {named("rule", step)}: {step.outcome === "matched" ? text("holds") : failed ? text("fails", { condition: inWords(failed) }) : text("notReached")}
                </li>
              );
            })}
          </ol>
        )}
      </div>
    </div>
  );
}
