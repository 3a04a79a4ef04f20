import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { differing, useAct, useLoad } from "../../app/load";
import { can, loadMe } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/settings";
import { Await, Trouble } from "../../ui/failure";
import { Area, Check, Choice, Field } from "../../ui/field";
import { toast } from "../../ui/toast";
import { same } from "../link/change";
import { counted, linesOf, parametersOf } from "../link/utm";

/** Workspace shows and changes the settings of the workspace. */
export function Workspace() {
  const workspace = useLoad((signal) => ask(client.GET("/api/v1/workspace", { signal })), []);
  return <Await of={workspace}>{(w) => <Form of={w} saved={workspace.set} />}</Await>;
}

function Form({ of: w, saved }: { of: Schemas["Workspace"]; saved: (w: Schemas["Workspace"]) => void }) {
  const [name, setName] = useState(w.name);
  const [dedupe, setDedupe] = useState(w.settings.dedupe);
  const [events, setEvents] = useState(w.settings.events);
  const [time_zone, setZone] = useState(w.settings.time_zone);
  const [sample, setSample] = useState(String(w.settings.events_sample));
  const [utm, setUTM] = useState(w.settings.utm);
  const typed = w.settings.utm_templates.map((t) => ({ tag: t.tag ?? "", lines: linesOf(t.parameters) }));
  const [templates, setTemplates] = useState(typed);
  const act = useAct();
  const fixed = !can("admin");
  useEffect(() => setName(w.name), [w.name]);
  return (
    <form
      class="card" aria-label={textOf("workspace")}
      onSubmit={(e) => {
        e.preventDefault();
        void act.run(async () => {
          const { settings } = w;
          const events_sample = events === "sampled" ? Number(sample) : settings.events_sample;
          const utm_templates = same(templates, typed) ? settings.utm_templates : templates.map((t) => ({ tag: t.tag, parameters: parametersOf(t.lines) }));
          const body = differing({ name, settings: differing({ dedupe, events, events_sample, time_zone, utm, utm_templates }, settings) }, { name: w.name, settings: undefined });
          if (body) saved(await ask(client.PATCH("/api/v1/workspace", { body })));
          toast(text("saved"));
          await loadMe(); // the frame shows the name
        });
      }}
    >
      {fixed && <p class="notice">{text("adminsChange")}</p>}
      <Field label={text("name")} value={name} set={setName} required maxLength={100} disabled={fixed} dir="auto" fault={act.failure?.fields["name"]} />
      <p>{text("slug")}: <code>{w.slug}</code></p>
      <Field label={text("timeZone")} hint={text("timeZoneHint")} value={time_zone} set={setZone} required maxLength={64} disabled={fixed} offers={Intl.supportedValuesOf("timeZone")} />
      <Check label={text("dedupe")} checked={dedupe} set={setDedupe} disabled={fixed} />
      {fixed ? <p>{text("events")}: {textOf(events === "all" ? "eventsAll" : events === "sampled" ? "eventsSampled" : "eventsOff")}</p> : (
        <div class="form-row">
          <Choice label={text("events")} value={events} set={setEvents} hint={text("eventsHint")} options={[["off", textOf("eventsOff")], ["sampled", textOf("eventsSampled")], ["all", textOf("eventsAll")]]} />
          {events === "sampled" && <Field label={text("sample")} type="number" min={1} max={1_000_000} required value={sample} set={setSample} fault={act.failure?.fields["settings.events_sample"]} />}
        </div>
      )}
      <Check label={text("utm")} checked={utm} set={setUTM} disabled={fixed} />
      {!fixed && (
        <fieldset>
          <legend>{text("templates")}</legend>
          <p class="hint">{text("templatesHint")}</p>
          {templates.map((t, i) => {
            const set = (change: Partial<typeof t>) => setTemplates(templates.map((o, j) => (i === j ? { ...t, ...change } : o)));
            return (
              <div key={i} class="form-row">
                <Field label={text("templateTag")} value={t.tag} set={(tag) => set({ tag })} dir="auto" autocomplete="off" maxLength={64}>
                  <button
                    type="button" class="small" aria-label={text("templateRemove", { tag: t.tag || "–" })}
                    onClick={(e) => {
                      e.currentTarget.closest("fieldset")!.querySelector<HTMLElement>(".add")!.focus();
                      setTemplates(templates.filter((o) => o !== t));
                    }}
                  >
                    ✕
                  </button>
                </Field>
                <Area label={text("templateLines")} value={t.lines} set={(lines) => set({ lines })} mono />
              </div>
            );
          })}
          <div class="row"><button type="button" class="add" onClick={() => setTemplates([...templates, { tag: "", lines: counted.join("\n") }])}>{text("templateAdd")}</button></div>
        </fieldset>
      )}
      <Trouble failure={act.failure} />
      {!fixed && <div class="row"><button class="primary" disabled={act.busy}>{shared("save")}</button></div>}
    </form>
  );
}
