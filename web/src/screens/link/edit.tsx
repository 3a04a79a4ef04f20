import { useState } from "preact/hooks";
import { Failure } from "../../app/api";
import { useAct, useStored } from "../../app/load";
import { isPattern } from "../../app/paths";
import { text as shared } from "../../messages/app";
import { text } from "../../messages/link";
import { Dialog } from "../../ui/dialog";
import { Trouble } from "../../ui/failure";
import { Check } from "../../ui/field";
import { Table } from "../../ui/table";
import { changeLink, draftName, fieldLabel, getLink, inWords, same, type Change, type Link, type Place, type State } from "./change";
import { Try } from "./explain";
import { LinkFields, useFaults } from "./form";
import { changes, formOf, names, type Form } from "./linkform";

/** What is kept in the tab while it is not saved. */
interface Draft {
  /** The state that was opened, or the newest that the user has seen. */
  base: State;
  form: Form;
  /** Fields that someone else has changed meanwhile, with the value that the user has. */
  theirs: { name: keyof Form; theirs: unknown; kept: boolean }[];
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
  const { form: element, fault } = useFaults(act.failure);
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
        class="edit" ref={element}
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
        <LinkFields
          form={form} set={(part) => keep({ ...draft, form: { ...form, ...part } })} fault={fault} password={password} setPassword={setPassword} kept={state.link.has_password}
          more={state.link.has_password && <Check label={text("noPassword")} checked={open} set={setOpen} />}
        >
          {isPattern(state.link.short_code) && <Try code={state.link.short_code} target={form.original_url} domain={state.link.domain} />}
        </LinkFields>
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
