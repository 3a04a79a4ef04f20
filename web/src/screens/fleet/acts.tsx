import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime, duration } from "../../app/i18n";
import { useAct } from "../../app/load";
import { text as common } from "../../messages/app";
import { text, textOf } from "../../messages/fleet";
import { Command } from "../../ui/command";
import { Copy } from "../../ui/copy";
import { Confirm, Dialog } from "../../ui/dialog";
import { Trouble } from "../../ui/failure";
import { Choice, Field } from "../../ui/field";
import { toast } from "../../ui/toast";
import type { Act } from "./health";

export type Order = Schemas["EdgeOrder"];

/** place places an order to an edge. */
async function place(act: Act, node: string): Promise<Order> {
  const params = { path: { node } };
  if (act === "verify") return await ask(client.POST("/api/admin/edges/{node}/verifications", { params }));
  if (act === "accept") return await ask(client.POST("/api/admin/edges/{node}/acceptances", { params, body: {} }));
  return await ask(client.POST("/api/admin/edges/{node}/drains", { params, body: act === "undrain" ? { undo: true } : {} }));
}

/** ActDialog asks before something is done to an edge. */
export function ActDialog({ act: what, node, ordered, close }: {
  act: Exclude<Act, "enrol">; node: string; ordered: (order: Order) => void; close: () => void;
}) {
  const order = async () => {
    ordered(await place(what, node));
    close();
  };
  if (what === "revoke") {
    return (
      <Confirm
        close={close} title={text("revokeTitle", { node })} action={textOf("revoke")} name={node}
        run={async () => {
          await ask(client.DELETE("/api/admin/edge-credentials/{node}", { params: { path: { node } } }));
          toast(text("revokeDone", { node }));
          close();
        }}
      >
        <p>{text("revokeText")}</p>
      </Confirm>
    );
  }
  if (what === "gone") {
    return (
      <Confirm
        close={close} title={text("lostTitle", { node })} action={textOf("lost")} name={node}
        run={async () => {
          await ask(client.DELETE("/api/admin/edges/{node}", { params: { path: { node } } }));
          toast(text("lostDone", { node }));
          close();
        }}
      >
        <p>{text("lostText")}</p>
      </Confirm>
    );
  }
  return (
    <Confirm title={textOf(`${what}Title`, { node })} action={textOf(what)} run={order} close={close}>
      <p>{textOf(`${what}Text`)}</p>
    </Confirm>
  );
}

/** Outcome follows an order until the edge has answered. */
export function Outcome({ order: first }: { order: Order }) {
  const [order, setOrder] = useState(first);
  const [late, setLate] = useState(false);
  useEffect(() => {
    setOrder(first);
    setLate(false);
    const abort = new AbortController();
    void (async () => {
      while (!abort.signal.aborted) {
        await new Promise((done) => setTimeout(done, 700));
        const now = await ask(client.GET("/api/admin/edges/{node}/orders/{id}", { params: { path: { node: first.node, id: first.id } }, signal: abort.signal })).catch(() => undefined);
        if (abort.signal.aborted) return;
        if (now) setOrder(now);
        if (now?.done_at) return;
        if (Date.now() > new Date(first.until).getTime() + 5000) return setLate(true);
      }
    })();
    return () => abort.abort();
  }, [first]);
  const [kind, words] = outcomeOf(order, late);
  return (
    <section class="card">
      <h2>{text("order")}</h2>
      <p class={`notice ${kind}`} role="status" dir="auto">{words}</p>
    </section>
  );
}

function outcomeOf(order: Order, late: boolean): [kind: string, words: string] {
  const { node, outcome: o } = order;
  const until = dateTime(order.until);
  if (!o) return late ? ["bad", text("orderLate", { time: until })] : ["", text("orderWaits", { what: textOf(order.what), time: until })];
  if (o.error) return ["bad", text("orderError", { why: o.error })];
  switch (order.what) {
    case "accept":
      return ["good", text("outcomeAccepted", { node, what: o.accepted })];
    case "drain":
      return ["good", text("outcomeDrain", { node })];
    case "undrain":
      return ["good", text("outcomeUndrain", { node })];
  }
  if (o.damage) return ["bad", text("outcomeDamaged", { node, why: o.damage })];
  return ["good", text("outcomeSound", { node, n: o.records, time: duration(o.seconds) })];
}

/** Enrol makes a token with which an edge enrols, and shows it once. */
export function Enrol({ regions, region: firstRegion, node: firstNode, role: firstRole, close }: {
  regions: readonly string[]; region: string; node: string; role: "edge" | "relay"; close: () => void;
}) {
  const [region, setRegion] = useState(firstRegion);
  const [role, setRole] = useState(firstRole);
  const [node, setNode] = useState(firstNode);
  const [label, setLabel] = useState("");
  const [expires, setExpires] = useState("3600");
  const [made, setMade] = useState<Schemas["Enrolment"]>();
  const act = useAct();
  if (made) return <Made enrolment={made} close={close} />;
  const fault = act.failure?.fields;
  return (
    <Dialog title={textOf("enrol")} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act.run(async () => setMade(await ask(client.POST("/api/admin/edge-enrolments", {
            body: { region: region.trim(), role, ...(node.trim() ? { node: node.trim() } : {}), ...(label ? { label } : {}), expires_in_seconds: Number(expires) },
          }))));
        }}
      >
        <p>{text("enrolText")}</p>
        <Field label={text("region")} value={region} set={setRegion} required autofocus maxLength={32} autocomplete="off" spellcheck={false} fault={fault?.["region"]} hint={text("regionHint")} />
        {regions.length > 0 && (
          <div class="row">
            {regions.map((r) => <button key={r} type="button" class="small" aria-pressed={r === region} onClick={() => setRegion(r)}><bdi>{r}</bdi></button>)}
          </div>
        )}
        <Choice label={text("role")} value={role} set={setRole} options={[["edge", textOf("roleEdge")], ["relay", textOf("roleRelay")]]} />
        <Field label={text("nodeName")} value={node} set={setNode} maxLength={64} autocomplete="off" spellcheck={false} fault={fault?.["node"]} hint={text("nodeHint")} />
        <Field label={text("label")} value={label} set={setLabel} maxLength={100} autocomplete="off" dir="auto" fault={fault?.["label"]} />
        <Choice label={text("expires")} value={expires} set={setExpires} options={["600", "3600", "28800", "86400"].map((s) => [s, duration(Number(s))])} />
        <Trouble failure={act.failure} />
        <footer>
          <button type="button" onClick={close}>{common("cancel")}</button>
          <button class="primary" disabled={act.busy}>{text("makeToken")}</button>
        </footer>
      </form>
    </Dialog>
  );
}

function Made({ enrolment: e, close }: { enrolment: Schemas["Enrolment"]; close: () => void }) {
  const command = `WAYPOST_ENROL_TOKEN=${e.token} waypost edge --control-urls ${location.origin} \\\n  --region ${e.region} --node ${e.node || "NAME"}${e.role === "relay" ? " --relay-addr HOST:PORT" : ""} --data-dir /var/lib/waypost/edge`;
  return (
    <Dialog title={text("token")} close={close} wide>
      <div class="stack">
        <p class="notice warn">{text("tokenOnce", { time: dateTime(e.expires_at) })}</p>
        <div class="row"><code class="grow">{e.token}</code><Copy value={e.token} label={text("token")} /></div>
        <Command label={text("command")} command={command} />
        <p class="quiet">{text("credentialKept")}</p>
        <footer><button type="button" class="primary" onClick={close}>{common("done")}</button></footer>
      </div>
    </Dialog>
  );
}
