import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "../../app/api";
import { country, percent } from "../../app/i18n";
import { useAct, useStored } from "../../app/load";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { textOf as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/rules";
import { Trouble } from "../../ui/failure";
import { Check, Choice, Field } from "../../ui/field";
import { changeLink, draftName, getLink, named, same, type Change, type Link, type Place, type Rule, type State } from "./change";
import { Explain } from "./explain";
import { agentName, agents, conditionForm, inWords, kinds, listOf, ruleForm, ruleOf, variantForm, type ConditionForm, type RuleForm, type VariantForm } from "./ruleform";

/** What is kept in the tab while it is not saved. */
interface Draft {
  base: State;
  rules: RuleForm[];
  /** Whether someone else has changed the rules, to those of the base. */
  conflict?: boolean;
}

/** Rules shows the rules of a link, changes them, and says where they lead a visitor. */
export function Rules({ at, state, editing, edit, saved }: {
  at: Place; state: State; editing: boolean; edit: (on: boolean) => void; saved: (before: Link, change: Change, now: State & { applied: string }) => void;
}) {
  const [kept, keep, drop] = useStored<Draft | null>(draftName(state.link, "rules"), null);
  const { rules = [] } = state.link;
  const writes = can("links:write");
  return (
    <section class="card" aria-labelledby="rules-title">
      <div class="head">
        <h2 id="rules-title" class="grow" tabIndex={-1}>{ofLink("rules")}</h2>
        {writes && !editing && <button type="button" onClick={() => edit(true)}>{text("edit")}</button>}
      </div>
      <p class="hint">{text("lead")}</p>
      <div class="sides">
        {editing && writes ? (
          <Editor
            at={at} state={state} kept={kept} keep={keep} saved={saved}
            close={() => {
              drop();
              edit(false);
              soon("#rules-title");
            }}
          />
        ) : rules.length ? <Listed rules={rules} /> : <p class="quiet">{shared("none")}</p>}
        <Explain at={at} link={state.link} unsaved={kept !== null && !same(toRules(kept.rules), state.link.rules)} />
      </div>
    </section>
  );
}

function Listed({ rules }: { rules: readonly Rule[] }) {
  return (
    <ol class="steps">
      {rules.map((r) => (
        <li key={r.id}>
          <strong dir="auto">{named("rule", r)}</strong>: {r.when?.map(inWords).join("; ") ?? text("always")} →{" "}
          {r.to ? <span dir="ltr">{r.to}</span> : r.split ? <Divided split={r.split} /> : textOf(String(r.status) as "404")}
        </li>
      ))}
    </ol>
  );
}

function Divided({ split: { variants } }: { split: NonNullable<Rule["split"]> }) {
  const all = variants.reduce((sum, v) => sum + v.weight, 0);
  return <ul>{variants.map((v) => <li key={v.id}>{percent(v.weight / all)} <span dir="auto">{named("variant", v)}</span>: <span dir="ltr">{v.to}</span></li>)}</ul>;
}

/** toRules makes rules of what was typed; null without any. */
export const toRules = (forms: readonly RuleForm[]) => (forms.length ? forms.map(ruleOf) : null);

/** soon focuses the first of some elements that is there once the page has changed. */
function soon(...selectors: string[]): void {
  setTimeout(() => selectors.map((s) => document.querySelector<HTMLElement>(s)).find(Boolean)?.focus());
}

const put = <T,>(list: readonly T[], i: number, change: Partial<T>): T[] => list.map((v, j) => (i === j ? { ...v, ...change } : v));
const without = <T,>(list: readonly T[], i: number): T[] => list.filter((_, j) => j !== i);

function Editor({ at, state, kept, keep, saved, close }: {
  at: Place; state: State; kept: Draft | null; keep: (draft: Draft) => void; close: () => void;
  saved: (before: Link, change: Change, now: State & { applied: string }) => void;
}) {
  const [first] = useState<Draft>(() => kept ?? { base: state, rules: state.link.rules?.map(ruleForm) ?? [] });
  const [resumed] = useState(kept !== null);
  const draft = kept ?? first;
  const { rules } = draft;
  const act = useAct();
  const save = () => act.run(async () => {
    const change = { rules: toRules(rules) } as Change;
    let { base } = draft;
    if (same(change.rules, base.link.rules)) return close();
    let now;
    try {
      now = await changeLink(at, change, base.etag);
    } catch (e) {
      if (!(e instanceof Failure) || e.status !== 412) throw e;
      const newer = await getLink(at);
      if (!same(newer.link.rules, base.link.rules)) return keep({ base: newer, rules, conflict: true });
      base = newer; // something else of the link was changed
      now = await changeLink(at, change, base.etag);
    }
    close();
    saved(base.link, change, now);
  });
  return (
    <form
      class="edit" aria-label={text("edit")}
      onSubmit={(e) => {
        e.preventDefault();
        void save();
      }}
    >
      {resumed && !draft.conflict && <p class="notice">{text("resumed")}</p>}
      {draft.conflict && (
        <div class="notice warn" role="alert">
          <p>{text("conflict")}</p>
          <Listed rules={draft.base.link.rules ?? []} />
          <button type="button" onClick={() => keep({ base: draft.base, rules: draft.base.link.rules?.map(ruleForm) ?? [] })}>{text("theirs")}</button>
        </div>
      )}
      <RuleFields rules={rules} set={(next) => keep({ ...draft, rules: next })} fields={act.failure?.fields} clear={act.clear} />
      <Trouble failure={act.failure} />
      <footer class="row">
        <button type="button" onClick={close}>{shared("cancel")}</button>
        <button class="primary" disabled={act.busy}>{draft.conflict ? text("keep") : shared("save")}</button>
      </footer>
    </form>
  );
}

/** RuleFields are the fields of rules that are being typed. */
export function RuleFields({ rules, set, fields = {}, clear }: {
  rules: RuleForm[]; set: (next: RuleForm[]) => void;
  /** Why places were refused; clear forgets it. */
  fields?: Readonly<Record<string, string>> | undefined; clear: () => void;
}) {
  const [told, tell] = useState("");
  /** Changes the list; the places that faults name are no longer those. */
  const arrange = (next: RuleForm[]) => {
    clear();
    set(next);
  };
  const move = (i: number, by: 1 | -1) => {
    const next = without(rules, i);
    next.splice(i + by, 0, rules[i]!);
    arrange(next);
    tell(text("place", { name: named("rule", rules[i]!), n: i + by + 1, all: rules.length }));
    const [same, other] = by < 0 ? ["up", "down"] : ["down", "up"];
    soon(`#${rules[i]!.key} .${same}:enabled`, `#${rules[i]!.key} .${other}`);
  };
  /** The fault of a place, or of a part of it. */
  const fault = (place: string) => {
    const found = Object.keys(fields).find((f) => f.startsWith(place) && !/^\w/.test(f.slice(place.length)));
    return found && fields[found];
  };
  return (
    <>
      <p class="offscreen" role="status">{told}</p>
      <ol class="rules">
        {rules.map((r, i) => {
          const name = named("rule", r);
          return (
            <li key={r.key} id={r.key} class="card">
              <div class="head">
                <h3 class="grow" dir="auto">{i + 1}. {name}</h3>
                <button type="button" class="icon up" disabled={i === 0} aria-label={text("up", { name })} onClick={() => move(i, -1)}>↑</button>
                <button type="button" class="icon down" disabled={i === rules.length - 1} aria-label={text("down", { name })} onClick={() => move(i, 1)}>↓</button>
                <Remove
                  name={name} next={`#${rules[i + 1]?.key} .down`}
                  run={() => arrange(without(rules, i))}
                />
              </div>
              <One rule={r} set={(change) => set(put(rules, i, change))} arrange={(change) => arrange(put(rules, i, change))} fault={(of) => fault(`rules[${i}]${of}`)} exact={fields[`rules[${i}]`]} />
            </li>
          );
        })}
      </ol>
      {rules.length < 16 && (
        <div class="row">
          <button
            type="button" class="add-rule"
            onClick={() => {
              const added = ruleForm();
              arrange([...rules, added]);
              soon(`#${added.key} input`);
            }}
          >
            {text("add")}
          </button>
        </div>
      )}
    </>
  );
}

/** Remove takes something out of a list, and puts the focus on what is next. */
function Remove({ name, next, run }: { name: string; next: string; run: () => void }) {
  return (
    <button
      type="button" class="icon" aria-label={text("removeOf", { name })}
      onClick={() => {
        run();
        soon(next, ".add-rule");
      }}
    >
      ✕
    </button>
  );
}

type Fault = (of: string) => string | undefined;

function One({ rule: r, set, arrange, fault, exact }: { rule: RuleForm; set: (change: Partial<RuleForm>) => void; arrange: (change: Partial<RuleForm>) => void; fault: Fault; exact: string | undefined }) {
  const add = `#${r.key} .add-when`;
  return (
    <>
      <Field label={text("name")} value={r.name} set={(name) => set({ name })} fault={fault(".name")} maxLength={64} dir="auto" autocomplete="off" />
      <fieldset>
        <legend>{r.when.length ? text("when") : text("always")}</legend>
        {r.when.map((c, j) => (
          <Condition
            key={c.key} of={c} label={text("condition", { n: j + 1 })} fault={fault(`.when[${j}]`)} set={(change) => set({ when: put(r.when, j, change) })}
            remove={<Remove name={text("condition", { n: j + 1 })} next={add} run={() => arrange({ when: without(r.when, j) })} />}
          />
        ))}
        {r.when.length < 8 && (
          <div class="row">
            <button
              type="button" class="small add-when"
              onClick={() => {
                const added = conditionForm();
                arrange({ when: [...r.when, added] });
                soon(`#${added.key} select`);
              }}
            >
              {text("addCondition")}
            </button>
          </div>
        )}
      </fieldset>
      <Choice label={text("then")} value={r.does} set={(does) => set({ does })} options={(["to", "split", "404", "410"] as const).map((d) => [d, textOf(d)])} />
      {r.does === "to" && <Target value={r.to} set={(to) => set({ to })} fault={fault(".to") ?? exact} />}
      {r.does === "split" && <Split rule={r} set={set} arrange={arrange} fault={fault} />}
    </>
  );
}

function Target({ value, set, fault }: { value: string; set: (to: string) => void; fault: string | undefined }) {
  return <Field label={text("target")} value={value} set={set} fault={fault} required inputMode="url" dir="ltr" spellcheck={false} autocomplete="off" placeholder="https://" />;
}

function Split({ rule: r, set, arrange, fault }: { rule: RuleForm; set: (change: Partial<RuleForm>) => void; arrange: (change: Partial<RuleForm>) => void; fault: Fault }) {
  const all = r.variants.reduce((sum, v) => sum + Number(v.weight), 0);
  const change = (k: number, of: Partial<VariantForm>) => set({ variants: put(r.variants, k, of) });
  const add = `#${r.key} .add-variant`;
  return (
    <>
      <Choice label={text("by")} value={r.by} set={(by) => set({ by })} options={(["visitor", "cookie", "none"] as const).map((b) => [b, textOf(b)])} />
      {r.variants.map((v, k) => {
        const name = named("variant", v);
        const of = `.split.variants[${k}]`;
        return (
          <fieldset key={v.key} id={v.key}>
            <legend dir="auto">{name}</legend>
            <div class="form-row">
              <Field label={text("name")} value={v.name} set={(n) => change(k, { name: n })} fault={fault(`${of}.name`)} maxLength={64} dir="auto" autocomplete="off" />
              <Field
                label={text("weight")} type="number" min={0} max={65535} required value={v.weight} set={(weight) => change(k, { weight })}
                fault={fault(`${of}.weight`)} hint={text("shares", { share: percent(all > 0 ? Number(v.weight) / all : 0) })}
              />
            </div>
            <Target value={v.to} set={(to) => change(k, { to })} fault={fault(`${of}.to`)} />
            {r.variants.length > 2 && <div class="row"><Remove name={name} next={add} run={() => arrange({ variants: without(r.variants, k) })} /></div>}
          </fieldset>
        );
      })}
      {fault(".split") && all === 0 && <p class="fault" role="alert">{fault(".split")}</p>}
      {r.variants.length < 8 && (
        <div class="row">
          <button
            type="button" class="small add-variant"
            onClick={() => {
              const added = variantForm();
              arrange({ variants: [...r.variants, added] });
              soon(`#${added.key} input`);
            }}
          >
            {text("addVariant")}
          </button>
        </div>
      )}
    </>
  );
}

const examples: Partial<Record<ConditionForm["kind"], string>> = { country: "DE, AT", city: "Berlin, New York", language: "de, pt-BR", address: "192.0.2.0/24, 10.0.*.1", week: "mon-fri 09:00-17:30, sat 10:00-14:00" };

function Condition({ of: c, label, fault, set, remove }: { of: ConditionForm; label: string; fault: string | undefined; set: (change: Partial<ConditionForm>) => void; remove: ComponentChildren }) {
  const values = listOf(c);
  return (
    <div id={c.key} class="condition" role="group" aria-label={label}>
      <div class="row">
        <select aria-label={label} value={c.kind} onChange={(e) => set({ kind: e.currentTarget.value as ConditionForm["kind"] })}>
          {kinds.map((k) => <option key={k} value={k}>{textOf(k)}</option>)}
        </select>
        <select aria-label={`${label}: ${text("is")}`} value={c.not ? "not" : ""} onChange={(e) => set({ not: e.currentTarget.value !== "" })}>
          <option value="">{text("is")}</option>
          <option value="not">{text("isNot")}</option>
        </select>
        {remove}
      </div>
      {c.kind === "agent" ? (
        <div class="row">
          {agents.map((a) => <Check key={a} label={agentName(a)} checked={values.includes(a)} set={(on) => set({ values: agents.filter((b) => (b === a ? on : values.includes(b))).join(", ") })} />)}
        </div>
      ) : c.kind === "query" ? (
        <div class="form-row">
          <Field label={text("key")} value={c.name} set={(name) => set({ name })} required maxLength={64} spellcheck={false} autocomplete="off" />
          <Choice label={text("test")} value={c.test} set={(test) => set({ test })} options={(["equals", "any", "empty"] as const).map((t) => [t, textOf(t)])} />
          {c.test === "equals" && <Field label={text("value")} value={c.equals} set={(equals) => set({ equals })} maxLength={256} spellcheck={false} autocomplete="off" />}
        </div>
      ) : c.kind === "time" ? (
        <div class="form-row">
          {(["from", "until"] as const).map((end) => <Field key={end} label={textOf(end)} type="datetime-local" value={c[end]} set={(at) => set({ [end]: at })} />)}
        </div>
      ) : (
        <div class="form-row">
          <Field
            label={c.kind === "week" ? text("hours") : textOf(c.kind)} value={c.values} set={(v) => set({ values: v })} placeholder={examples[c.kind]} required fault={fault}
            hint={c.kind === "country" && values.length ? values.map((v) => country(v.toUpperCase())).join(", ") : text("several")} spellcheck={false} autocomplete="off"
          />
          {c.kind === "week" && <Field label={text("zone")} value={c.zone} set={(zone) => set({ zone })} required spellcheck={false} autocomplete="off" />}
        </div>
      )}
      {fault && ["agent", "query", "time"].includes(c.kind) && <p class="fault" role="alert">{fault}</p>}
    </div>
  );
}
