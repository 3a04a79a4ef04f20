import { useState } from "preact/hooks";
import { Failure } from "../../app/api";
import { useAct, useStored } from "../../app/load";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/link";
import { Dialog } from "../../ui/dialog";
import { Trouble } from "../../ui/failure";
import { Check, Choice, Field, local, moment } from "../../ui/field";
import { Table } from "../../ui/table";
import { changeLink, draftName, fieldLabel, getLink, inWords, rounded, same, type Change, type FieldName, type Link, type Place, type State } from "./change";
import { longTexts, texts } from "./fields";
import { LimitFields, unlimited, type Limits } from "./limits";
import { Tags } from "./tags";

/** What is typed. Moments and metadata are texts, as long as they are being typed. */
interface Form extends Limits, Record<(typeof texts)[number], string> {
  original_url: string;
  tags: string[];
  active: boolean;
  valid_from: string;
  expires_at: string;
  expired_url: string;
  redirect_status: Link["redirect_status"];
  forward_query: boolean;
  forward_path: boolean;
  metadata: string;
}

/** What is kept in the tab while it is not saved. */
interface Draft {
  /** The state that was opened, or the newest that the user has seen. */
  base: State;
  form: Form;
  /** Fields that someone else has changed meanwhile, with the value that the user has. */
  theirs: { name: keyof Form; theirs: unknown; kept: boolean }[];
}

const names = ["original_url", ...texts, "tags", "active", "valid_from", "expires_at", "expired_url", "redirect_status", "forward_query", "forward_path", "metadata", "max_clicks", "max_clicks_mode", "exhausted_url", "confirm"] as const satisfies readonly FieldName[];

function formOf(link: Link): Form {
  return {
    ...(Object.fromEntries(texts.map((name) => [name, link[name]])) as Record<(typeof texts)[number], string>),
    original_url: link.original_url, tags: link.tags, active: link.active,
    valid_from: local(link.valid_from), expires_at: local(link.expires_at), expired_url: link.expired_url ?? "",
    redirect_status: link.redirect_status, forward_query: link.forward_query, forward_path: link.forward_path, metadata: link.metadata ? JSON.stringify(link.metadata, null, 2) : "",
    max_clicks: String(link.max_clicks ?? ""), max_clicks_mode: link.max_clicks_mode ?? "eventual", exhausted_url: link.exhausted_url ?? "", confirm: link.confirm ?? false,
  };
}

/** changes returns the fields whose text differs from that of a link. It throws a Failure for
 * metadata that is no JSON object. */
function changes(typed: Form, link: Link): Change {
  const was = formOf(link);
  const form = typed.max_clicks ? typed : { ...typed, ...unlimited, confirm: typed.confirm };
  const change: Record<string, unknown> = {};
  for (const name of names) {
    if (same(form[name], was[name])) continue;
    change[name] = name === "expires_at" || name === "valid_from" ? moment(form[name], link[name]) : name === "metadata" ? metadata(form.metadata) : name === "max_clicks" ? Number(form[name]) || null : name === "expired_url" || name === "exhausted_url" ? form[name] || null : form[name];
  }
  if (change["max_clicks"] === null) change["max_clicks_mode"] = null;
  return change as Change;
}

function metadata(typed: string): unknown {
  if (!typed.trim()) return null;
  let value: unknown;
  try {
    value = JSON.parse(typed);
  } catch {
    value = undefined;
  }
  const object = typeof value === "object" && value !== null && !Array.isArray(value);
  if (object && !rounded(value)) return value;
  const fault = object ? text("rounded") : text("metadataFault");
  throw new Failure(422, "invalid", fault, { metadata: fault });
}

/** merge takes what someone else has changed into a draft. What the user has typed stays. */
function merge(draft: Draft, newer: State): Draft {
  const [was, is] = [formOf(draft.base.link), formOf(newer.link)];
  const form: Record<string, unknown> = { ...draft.form };
  const theirs: Draft["theirs"] = [];
  for (const name of names) {
    if (same(was[name], is[name])) continue;
    const kept = !same(draft.form[name], was[name]) && !same(draft.form[name], is[name]);
    if (!kept) form[name] = is[name];
    theirs.push({ name, theirs: newer.link[name], kept });
  }
  return { base: newer, form: form as unknown as Form, theirs };
}

/** Edit is the dialog that changes a link. Closing it keeps the draft; Cancel drops it. */
export function Edit({ at, state, saved, close }: { at: Place; state: State; saved: (before: Link, change: Change, now: State & { applied: string }) => void; close: () => void }) {
  const [kept, keep, drop] = useStored<Draft | null>(draftName(state.link), null);
  // Neither is kept in the tab.
  const [password, setPassword] = useState("");
  const [open, setOpen] = useState(false);
  const [resumed] = useState(kept !== null);
  const draft = kept ?? { base: state, form: formOf(state.link), theirs: [] };
  const { form } = draft;
  const act = useAct();
  const fault = act.failure?.fields ?? {};
  const set = <K extends keyof Form>(name: K) => (value: Form[K]) => keep({ ...draft, form: { ...form, [name]: value } });
  const conflict = act.failure?.status === 412 || draft.theirs.length > 0;

  const save = () => act.run(async () => {
    for (let { base } = draft; ;) {
      const change = { ...changes(form, base.link), ...(open ? { password: null } : password ? { password } : {}) };
      const none = Object.keys(change).length === 0;
      try {
        const now = none ? undefined : await changeLink(at, change, base.etag);
        drop();
        close();
        if (now) saved(base.link, change, now);
        return;
      } catch (e) {
        if (!(e instanceof Failure) || e.status !== 412) throw e;
        const merged = merge(draft, await getLink(at));
        if (merged.theirs.length) return keep(merged);
        base = merged.base; // what was changed is not in the form, such as rules
      }
    }
  });
  const takeTheirs = (name: keyof Form) => keep({
    ...draft, form: { ...form, [name]: formOf(draft.base.link)[name] }, theirs: draft.theirs.map((t) => (t.name === name ? { ...t, kept: false } : t)),
  });

  return (
    <Dialog title={text("editTitle", { code: at.code })} close={close} wide>
      <form
        class="edit"
        onSubmit={(e) => {
          e.preventDefault();
          void save();
        }}
      >
        {resumed && !conflict && <p class="notice">{text("resumed")}</p>}
        {conflict && draft.theirs.length > 0 && (
          <div class="notice warn" role="alert">
            <p>{text("conflict")}</p>
            <Table title={text("versions")} box="full" heads={[text("field"), text("theirs"), text("yours")]}>
              {draft.theirs.map((t) => (
                <tr key={t.name}>
                  <th scope="row">{fieldLabel(t.name)}</th>
                  <td dir="auto">{inWords(t.name, t.theirs)}</td>
                  <td dir="auto">
                    {t.kept ? (
                      <>
                        {inWords(t.name, form[t.name])}{" "}
                        <button type="button" class="small" aria-label={text("takeTheirsOf", { field: fieldLabel(t.name) })} onClick={() => takeTheirs(t.name)}>{text("takeTheirs")}</button>
                      </>
                    ) : <span class="quiet">{text("taken")}</span>}
                  </td>
                </tr>
              ))}
            </Table>
          </div>
        )}
        <Field label={textOf("original_url")} value={form.original_url} set={set("original_url")} fault={fault["original_url"]} required inputMode="url" dir="ltr" spellcheck={false} autocomplete="off" />
        <Field label={textOf("title")} value={form.title} set={set("title")} fault={fault["title"]} dir="auto" autocomplete="off" />
        {longTexts.map((name) => <Area key={name} label={textOf(name)} value={form[name]} set={set(name)} fault={fault[name]} />)}
        <Tags label={textOf("tags")} tags={form.tags} set={set("tags")} fault={fault["tags"]} />
        <div class="form-row">
          {(["valid_from", "expires_at"] as const).map((name) => (
            <Field key={name} label={textOf(name)} type="datetime-local" value={form[name]} set={set(name)} fault={fault[name]} hint={textOf(`hint_${name}`)}>
              {form[name] && <button type="button" class="small" aria-label={textOf(`un_${name}`)} onClick={() => set(name)("")}>✕</button>}
            </Field>
          ))}
          <Field label={textOf("expired_url")} value={form.expired_url} set={set("expired_url")} fault={fault["expired_url"]} hint={text("expiredHint")} inputMode="url" dir="ltr" spellcheck={false} autocomplete="off" />
        </div>
        <Check label={text("activeHint")} checked={form.active} set={set("active")} />
        <details open={["metadata", "redirect_status", "max_clicks", "exhausted_url", "password"].some((f) => fault[f]) || undefined}>
          <summary>{text("redirectOptions")}</summary>
          <div class="edit">
            <LimitFields of={form} change={(part) => keep({ ...draft, form: { ...form, ...part } })} fault={fault} password={password} setPassword={setPassword} kept={state.link.has_password} />
            {state.link.has_password && <Check label={text("noPassword")} checked={open} set={setOpen} />}
            <Choice
              label={textOf("redirect_status")} value={String(form.redirect_status) as "302"} hint={textOf("statusHint")}
              set={(v: string) => set("redirect_status")(Number(v) as Link["redirect_status"])}
              options={([301, 302, 307, 308] as const).map((s) => [String(s) as "302", textOf(`status${s}`)])}
            />
            <Check label={textOf("forward_query")} checked={form.forward_query} set={set("forward_query")} />
            <Check label={textOf("forward_path")} checked={form.forward_path} set={set("forward_path")} />
            <Area label={text("metadataLabel")} value={form.metadata} set={set("metadata")} fault={fault["metadata"]} mono />
          </div>
        </details>
        {act.failure && act.failure.status !== 412 && <Trouble failure={act.failure} />}
        <footer>
          <button
            type="button"
            onClick={() => {
              drop();
              close();
            }}
          >
            {shared("cancel")}
          </button>
          <button class="primary" disabled={act.busy}>{conflict ? text("saveYours") : shared("save")}</button>
        </footer>
      </form>
    </Dialog>
  );
}

function Area({ label, value, set, fault, mono }: { label: string; value: string; set: (value: string) => void; fault?: string | undefined; mono?: boolean }) {
  return (
    <label class="field">
      <span>{label}</span>
      <textarea class={mono ? "mono" : ""} value={value} dir={mono ? "ltr" : "auto"} spellcheck={!mono} aria-invalid={fault ? true : undefined} onInput={(e) => set(e.currentTarget.value)} />
      {fault && <span class="fault" role="alert">{fault}</span>}
    </label>
  );
}
