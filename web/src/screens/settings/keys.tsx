import { useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { can, type Scope } from "../../app/session";
import { text, textOf } from "../../messages/settings";
import { Confirm, focusBehind } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import { Check, Choice, Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { Ago, Moment } from "../../ui/time";
import { toast } from "../../ui/toast";
import { Once } from "./once";
import { everyPage } from "./pages";

type Key = Schemas["APIKey"];

const scopes = () => [
  ["links:read", text("scopeRead")], ["links:write", text("scopeWrite")], ["analytics:read", text("scopeStats")], ["admin", text("scopeAdmin")],
] as const;

async function allKeys(signal: AbortSignal): Promise<Key[]> {
  const pages = await everyPage((cursor) => ask(client.GET("/api/v1/keys", { params: { query: { limit: 1000, cursor } }, signal })));
  return pages.flatMap((p) => p.keys);
}

/** Keys lists, makes, replaces and revokes API keys: all of the workspace for administrators, their own for others. */
export function Keys() {
  const keys = useLoad(allKeys, []);
  const [once, setOnce] = useState<Key>();
  const [asked, setAsked] = useState<{ what: "rotate" | "revoke"; of: Key }>();
  const [grace, setGrace] = useState("86400");
  const heading = useRef<HTMLHeadingElement>(null);
  const made = (k: Key) => {
    setOnce(k);
    keys.reload();
  };
  const confirm = async () => {
    const { what, of: k } = asked!;
    const path = { id: k.id };
    if (what === "revoke") await ask(client.DELETE("/api/v1/keys/{id}", { params: { path } }));
    else made(await ask(client.POST("/api/v1/keys/{id}/rotate", { params: { path, query: { grace: Number(grace) } } })));
    setAsked(undefined);
    if (what === "revoke") {
      toast(text("revoked", { name: k.name }));
      focusBehind(heading);
      keys.reload();
    }
  };
  return (
    <>
      <Create made={made} />
      <section class="card" aria-labelledby="keys-title">
        <h2 id="keys-title" tabIndex={-1} ref={heading}>{textOf("keys")}</h2>
        <p class="quiet">{text("keysLead")}</p>
        <Await of={keys}>{(list) => list.length === 0 ? <p class="quiet">{text("noKeys")}</p> : (
          <Table title={textOf("keys")} look="roomy" heads={[text("key"), text("scopes"), text("owner"), text("lastUsed"), text("ends"), null]}>
            {list.map((k) => {
              const expired = k.expires_at !== null && Date.parse(k.expires_at) < Date.now();
              return (
                <tr key={k.id}>
                  <td><b dir="auto">{k.name}</b><br /><code>{k.prefix}…</code>{k.description && <><br /><span class="quiet small-text" dir="auto">{k.description}</span></>}</td>
                  <td>{k.scopes.map((s) => <span key={s} class="tag">{s}</span>)}</td>
                  <td>{k.owner_email || text("nobody")}</td>
                  <td><Ago at={k.last_used_at} /></td>
                  <td>{expired ? <span class="tag bad">{text("expired")}</span> : <Moment at={k.expires_at} />}</td>
                  <td>
                    <div class="row" role="group" aria-label={text("actionsOf", { name: k.name })}>
                      {!expired && <button type="button" class="small" onClick={() => setAsked({ what: "rotate", of: k })}>{textOf("rotate")}</button>}
                      <button type="button" class="small danger" onClick={() => setAsked({ what: "revoke", of: k })}>{textOf("revoke")}</button>
                    </div>
                  </td>
                </tr>
              );
            })}
          </Table>
        )}</Await>
      </section>
      {asked && (
        <Confirm
          title={textOf(asked.what === "revoke" ? "revokeTitle" : "rotateTitle", { name: asked.of.name })} action={textOf(asked.what)}
          run={confirm} close={() => setAsked(undefined)}
        >
          <p>{textOf(asked.what === "revoke" ? "revokeText" : "rotateText")}</p>
          {asked.what === "rotate" && (
            <Choice label={text("grace")} value={grace} set={setGrace} options={[["0", text("graceNone")], ["3600", text("graceHour")], ["86400", text("graceDay")], ["604800", text("graceWeek")]]} />
          )}
        </Confirm>
      )}
      {once?.key && <Once title={text("newKey", { name: once.name })} warning={text("keyOnce")} label={text("keyText")} secret={once.key} close={() => setOnce(undefined)} />}
    </>
  );
}

function Create({ made }: { made: (k: Key) => void }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [chosen, setChosen] = useState<readonly Scope[]>(["links:read"]);
  const [valid, setValid] = useState("7776000");
  const [none, setNone] = useState(false);
  const act = useAct();
  return (
    <form
      class="card" aria-labelledby="create-key-title"
      onSubmit={(e) => {
        e.preventDefault();
        setNone(chosen.length === 0);
        if (chosen.length === 0) return;
        void act.run(async () => {
          made(await ask(client.POST("/api/v1/keys", {
            body: { name, scopes: [...chosen], ...(description ? { description } : {}), ...(valid ? { expires_in_seconds: Number(valid) } : {}) },
          })));
          setName("");
          setDescription("");
        });
      }}
    >
      <h2 id="create-key-title">{text("createKey")}</h2>
      <div class="form-row">
        <Field label={text("name")} required maxLength={100} autocomplete="off" dir="auto" value={name} set={setName} fault={act.failure?.fields["name"]} />
        <Field label={text("description")} maxLength={500} autocomplete="off" dir="auto" value={description} set={setDescription} fault={act.failure?.fields["description"]} />
        <Choice label={text("expires")} value={valid} set={setValid} options={[["2592000", text("month")], ["7776000", text("quarter")], ["31536000", text("year")], ["", text("forever")]]} />
      </div>
      <fieldset>
        <legend>{text("scopes")}</legend>
        {scopes().filter(([s]) => can(s)).map(([s, l]) => (
          <Check key={s} label={<>{l} <code class="quiet">{s}</code></>} checked={chosen.includes(s)} set={(on) => setChosen(on ? [...chosen, s] : chosen.filter((c) => c !== s))} />
        ))}
        {none && chosen.length === 0 && <p class="fault" role="alert">{text("chooseScope")}</p>}
      </fieldset>
      <Trouble failure={act.failure} />
      <div class="row"><button class="primary" disabled={act.busy}>{text("createKey")}</button></div>
    </form>
  );
}
