import { useEffect, useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { ago, dateTime } from "../../app/i18n";
import { differing, useAct, useLoad } from "../../app/load";
import { can, operator } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/settings";
import { Copy } from "../../ui/copy";
import { Confirm, focusBehind } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import { Check, Field } from "../../ui/field";
import { toast } from "../../ui/toast";

type Domain = Schemas["Domain"];

const baseDomain = 1; // the domain of the base URL, in every installation; it is never removed

/** Domains lists the hosts that links can have, and proves new ones. */
export function Domains() {
  const domains = useLoad((signal) => ask(client.GET("/api/v1/domains", { signal })), []);
  const [removing, setRemoving] = useState<Domain>();
  const [force, setForce] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const remove = async () => {
    await ask(client.DELETE("/api/v1/domains/{id}", { params: { path: { id: removing!.id }, query: force ? { force } : {} } }));
    toast(text("removed", { name: removing!.host }));
    setRemoving(undefined);
    focusBehind(heading);
    domains.reload();
  };
  return (
    <>
      {can("admin") && <Add added={domains.reload} />}
      <section class="card" aria-labelledby="domains-title">
        <h2 id="domains-title" tabIndex={-1} ref={heading}>{textOf("domains")}</h2>
        {!can("admin") && <p class="notice">{text("adminsChange")}</p>}
        <Await of={domains}>{(list) => (
          <div>
            {list.domains.map((d) => (
              <One
                key={d.id} domain={d} changed={domains.reload}
                remove={() => {
                  setForce(false);
                  setRemoving(d);
                }}
              />
            ))}
          </div>
        )}</Await>
      </section>
      {removing && (
        <Confirm
          title={text("removeDomainTitle", { host: removing.host })} action={shared("remove")} name={removing.host} run={remove} close={() => setRemoving(undefined)}
        >
          {(failure) => (
            <>
              <p>{text("removeDomainText")}</p>
              {failure?.status === 409 && <Check label={text("withLinks")} checked={force} set={setForce} />}
            </>
          )}
        </Confirm>
      )}
    </>
  );
}

function Add({ added }: { added: () => void }) {
  const [host, setHost] = useState("");
  const act = useAct();
  return (
    <form
      class="card" aria-labelledby="add-domain-title"
      onSubmit={(e) => {
        e.preventDefault();
        void act.run(async () => {
          await ask(client.POST("/api/v1/domains", { body: { host: host.trim() } }));
          setHost("");
          added();
        });
      }}
    >
      <h2 id="add-domain-title">{text("addDomain")}</h2>
      <Field label={text("host")} required maxLength={253} autocomplete="off" spellcheck={false} inputMode="url" hint={text("hostHint")} value={host} set={setHost} fault={act.failure?.fields["host"]}>
        <button class="primary" disabled={act.busy}>{text("add")}</button>
      </Field>
      <Trouble failure={act.failure} />
    </form>
  );
}

const colours = { approved: "good", proved: "good", pending: "warn", suspended: "bad" } as const;

/** Certificate says whether visitors reach the domain over TLS, as the edges report it. */
function Certificate({ of: c }: { of: Domain["certificate"] }) {
  return (
    <p class={c.state === "failed" ? "notice bad" : "quiet"}>
      {text("certificate")}: {textOf(`cert_${c.state}`, { until: c.until ? dateTime(c.until, { dateStyle: "medium" }) : shared("unknown") })} {c.error}
    </p>
  );
}

function One({ domain: d, changed, remove }: { domain: Domain; changed: () => void; remove: () => void }) {
  const act = useAct();
  // The default workspace, whose administrators are operators, changes shared domains.
  const mine = can("admin") && (!d.shared || operator.value);
  return (
    <div class="entry">
      <div class="head">
        <h3 class="grow">{d.host}</h3>
        <span class={`tag ${colours[d.state]}`}>{textOf(d.state)}</span>
        {d.maintenance_url && <span class="tag warn">{text("maintained")}</span>}
        {d.shared && <span class="tag">{text("sharedDomain")}</span>}
      </div>
      <Certificate of={d.certificate} />
      {d.proof && d.state !== "proved" && (
        <>
          <p>{text("proofLead")}</p>
          <dl class="facts" aria-label={text("record", { host: d.host })}>
            <dt>{text("recordType")}</dt><dd><code>TXT</code></dd>
            <dt>{text("recordName")}</dt><dd class="row"><code>{d.proof.record_name}</code> <Copy value={d.proof.record_name} label={text("recordName")} /></dd>
            <dt>{text("recordValue")}</dt><dd class="row"><code>{d.proof.record_value}</code> <Copy value={d.proof.record_value} label={text("recordValue")} /></dd>
          </dl>
          <p class="hint">{text("pointLead")} {d.proof.checked_at && text("checked", { ago: ago(d.proof.checked_at) })}</p>
        </>
      )}
      {d.proof?.unproved_since && (
        <p class="notice warn">
          {text("unproved", { time: dateTime(d.proof.unproved_since) })} {d.proof.suspended_at && text("suspends", { time: dateTime(d.proof.suspended_at) })} <code>{d.proof.record_name}</code> <code>{d.proof.record_value}</code>
        </p>
      )}
      {act.failure?.status === 422 ? <p class="notice warn" role="alert">{text("noRecord")}</p> : <Trouble failure={act.failure} />}
      {mine && (
        <>
          <Targets domain={d} changed={changed} />
          <div class="row">
            {d.proof && (
              <button
                type="button" disabled={act.busy} aria-label={`${text("verify")}: ${d.host}`}
                onClick={() => void act.run(async () => {
                  await ask(client.POST("/api/v1/domains/{id}/verify", { params: { path: { id: d.id } } }));
                  toast(text("verified", { host: d.host }));
                  changed();
                })}
              >
                {text("verify")}
              </button>
            )}
            {d.id !== baseDomain && <button type="button" class="danger" aria-label={`${shared("remove")}: ${d.host}`} onClick={remove}>{shared("remove")}</button>}
          </div>
        </>
      )}
    </div>
  );
}

function Targets({ domain: d, changed }: { domain: Domain; changed: () => void }) {
  const [root, setRoot] = useState(d.root_url);
  const [notFound, setNotFound] = useState(d.not_found_url);
  const [maintenance, setMaintenance] = useState(d.maintenance_url);
  const [exact, setExact] = useState(d.exact_paths);
  const [anyCase, setAnyCase] = useState(d.case === "insensitive");
  const act = useAct();
  const show = (now: Domain) => {
    setRoot(now.root_url);
    setNotFound(now.not_found_url);
    setMaintenance(now.maintenance_url);
    setExact(now.exact_paths);
    setAnyCase(now.case === "insensitive");
  };
  useEffect(() => show(d), [d.root_url, d.not_found_url, d.maintenance_url, d.exact_paths, d.case]);
  return (
    <details>
      <summary>{text("targets", { host: d.host })}</summary>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act.run(async () => {
            const wanted = { root_url: root, not_found_url: notFound, maintenance_url: maintenance, exact_paths: exact, case: anyCase ? "insensitive" : "sensitive" } as const;
            const body = differing(wanted, d);
            if (body) show(await ask(client.PATCH("/api/v1/domains/{id}", { params: { path: { id: d.id } }, body })));
            toast(text("saved"));
            changed();
          });
        }}
      >
        <div class="form-row">
          <Field label={text("root")} inputMode="url" spellcheck={false} hint={text("rootHint", { host: d.host })} value={root} set={setRoot} fault={act.failure?.fields["root_url"]} />
          <Field label={text("notFound")} inputMode="url" spellcheck={false} hint={text("notFoundHint")} value={notFound} set={setNotFound} fault={act.failure?.fields["not_found_url"]} />
          <Field label={text("maintenance")} inputMode="url" spellcheck={false} hint={text("maintenanceHint", { host: d.host })} value={maintenance} set={setMaintenance} fault={act.failure?.fields["maintenance_url"]} />
        </div>
        <Check label={text("exactPaths")} checked={exact} set={setExact} />
        <Check label={text("anyCase")} checked={anyCase} set={setAnyCase} />
        {d.case_switching && <p class="hint">{text("switching")}</p>}
        <Trouble failure={act.failure} />
        <div class="row"><button disabled={act.busy}>{shared("save")}</button></div>
      </form>
    </details>
  );
}
