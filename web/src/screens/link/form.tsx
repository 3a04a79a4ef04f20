import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Failure } from "../../app/api";
import { text, textOf } from "../../messages/link";
import { Area, Check, Choice, Field } from "../../ui/field";
import { Builder } from "./builder";
import type { Link } from "./change";
import { longTexts } from "./fields";
import { LimitFields } from "./limits";
import { hidden, type Form } from "./linkform";
import { Tags } from "./tags";

/** useFaults finds why fields of a form were refused, also for an item of theirs, and puts
 * the focus on the first of them. */
export function useFaults(failure: Failure | undefined) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (failure) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [failure]);
  const fault = (name: string) => Object.entries(failure?.fields ?? {}).find(([at]) => at === name || at.startsWith(`${name}[`))?.[1];
  return { form, fault };
}

/** LinkFields are the fields by which a link is made and changed. */
export function LinkFields({ form, set, fault, focus, password, setPassword, kept, children, more }: {
  form: Form; set: (part: Partial<Form>) => void; fault: (name: string) => string | undefined; focus?: boolean | undefined;
  password: string; setPassword: (typed: string) => void;
  /** Whether the link has a password, which stays unless another is typed. */
  kept?: boolean | undefined;
  /** What stands behind the target, and at the end. */
  children?: ComponentChildren; more?: ComponentChildren;
}) {
  const [written] = useState(longTexts.some((name) => form[name]));
  const url = { inputMode: "url", dir: "ltr", spellcheck: false, autocomplete: "off" } as const;
  return (
    <>
      <Field label={text("targetLabel")} placeholder="https://" required autofocus={focus ?? false} value={form.original_url} set={(original_url) => set({ original_url })} fault={fault("original_url")} {...url} />
      <Builder target={form.original_url} tags={form.tags} set={(original_url) => set({ original_url })} />
      {children}
      <Field label={textOf("title")} value={form.title} set={(title) => set({ title })} fault={fault("title")} dir="auto" autocomplete="off" />
      <Tags label={textOf("tags")} tags={form.tags} set={(tags) => set({ tags })} fault={fault("tags")} />
      <div class="form-row">
        {(["valid_from", "expires_at"] as const).map((name) => (
          <Field key={name} label={textOf(name)} type="datetime-local" value={form[name]} set={(typed) => set({ [name]: typed })} fault={fault(name)} hint={textOf(`hint_${name}`)}>
            {form[name] && <button type="button" class="small" aria-label={textOf(`un_${name}`)} onClick={() => set({ [name]: "" })}>✕</button>}
          </Field>
        ))}
        {(form.expires_at || form.expired_url) && <Field label={textOf("expired_url")} value={form.expired_url} set={(expired_url) => set({ expired_url })} fault={fault("expired_url")} hint={text("expiredHint")} {...url} />}
      </div>
      <details open={written || [...hidden, "password", "rules"].some(fault) || undefined}>
        <summary>{text("redirectOptions")}</summary>
        <div class="edit">
          {longTexts.map((name) => <Area key={name} label={textOf(name)} value={form[name]} set={(typed) => set({ [name]: typed })} fault={fault(name)} />)}
          <Check label={text("activeHint")} checked={form.active} set={(active) => set({ active })} />
          <LimitFields of={form} change={set} fault={fault} password={password} setPassword={setPassword} kept={kept} />
          <Choice
            label={textOf("redirect_status")} value={String(form.redirect_status) as "302"} hint={textOf("statusHint")}
            set={(v: string) => set({ redirect_status: Number(v) as Link["redirect_status"] })}
            options={([302, 301, 307, 308] as const).map((s) => [String(s) as "302", textOf(`status${s}`)])}
          />
          <Check label={textOf("forward_query")} checked={form.forward_query} set={(forward_query) => set({ forward_query })} />
          <Check label={textOf("forward_path")} checked={form.forward_path} set={(forward_path) => set({ forward_path })} />
          <Area label={text("metadataLabel")} value={form.metadata} set={(typed) => set({ metadata: typed })} fault={fault("metadata")} mono />
          {more}
        </div>
      </details>
    </>
  );
}
