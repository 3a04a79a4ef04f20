import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";

/** The attributes of an input that fields have. */
interface Input {
  type?: "text" | "email" | "password" | "url" | "search" | "number" | "date" | "datetime-local" | "color";
  name?: string;
  autocomplete?: AutoFill;
  autofocus?: boolean;
  required?: boolean;
  readonly?: boolean;
  disabled?: boolean;
  placeholder?: string;
  inputMode?: "text" | "numeric" | "url" | "email";
  spellcheck?: boolean;
  maxLength?: number;
  min?: string | number;
  max?: string | number;
  dir?: "auto" | "ltr";
  onChange?: (e: { currentTarget: HTMLInputElement }) => void;
}

/** The ends of what can be typed, because longer years are no times of the API. */
const ends: Partial<Record<string, string>> = { date: "9999-12-31", "datetime-local": "9999-12-31T23:59" };

/** Field is a labelled input. Fault says why its value was refused; offers are values that
 * exist. */
export function Field({ label, value, set, fault, hint, offers, children, ...input }: Input & {
  label: string; value: string; set: (value: string) => void; fault?: string | undefined; hint?: ComponentChildren; offers?: readonly string[]; children?: ComponentChildren;
}) {
  const id = useId();
  const about = fault ? `${id}-fault` : hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="row">
        <input max={ends[input.type ?? ""]} {...(input as object)} id={id} value={value} onInput={(e) => set(e.currentTarget.value)} aria-invalid={fault ? true : undefined} aria-describedby={about} list={offers && `${id}-offers`} />
        {offers && <datalist id={`${id}-offers`}>{offers.map((v) => <option key={v} value={v} />)}</datalist>}
        {children}
      </div>
      {fault ? <p id={`${id}-fault`} class="fault" role="alert">{fault}</p> : hint && <p id={`${id}-hint`} class="hint">{hint}</p>}
    </div>
  );
}

/** local writes a moment as an input of the type datetime-local has it. */
export function local(at: string | null | undefined): string {
  if (!at) return "";
  const d = new Date(at);
  return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** moment reads what such an input has. A moment that was not changed keeps its seconds. What
 * is no time is left to the API, which says so. */
export function moment(typed: string, was?: string | null): string | null {
  if (!typed) return null;
  const at = new Date(typed);
  return was && local(was) === typed ? was : isNaN(at.getTime()) ? typed : at.toISOString();
}

/** Area is a labelled input of several lines. */
export function Area({ label, value, set, fault, mono }: { label: string; value: string; set: (value: string) => void; fault?: string | undefined; mono?: boolean }) {
  return (
    <label class="field">
      <span>{label}</span>
      <textarea class={mono ? "mono" : ""} value={value} dir={mono ? "ltr" : "auto"} spellcheck={!mono} aria-invalid={fault ? true : undefined} onInput={(e) => set(e.currentTarget.value)} />
      {fault && <span class="fault" role="alert">{fault}</span>}
    </label>
  );
}

/** Choice is a labelled list of which one is chosen. */
export function Choice<T extends string>({ label, value, set, options, hint }: {
  label: string; value: T; set: (value: T) => void; options: readonly (readonly [value: T, label: string])[]; hint?: string;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(e) => set(e.currentTarget.value as T)} aria-describedby={hint ? `${id}-hint` : undefined}>
        {options.map(([v, l]) => <option key={v} value={v}>{l}</option>)}
      </select>
      {hint && <p id={`${id}-hint`} class="hint">{hint}</p>}
    </div>
  );
}

/** Picker is a list whose choice takes effect by a button, because arrow keys choose each
 * option that they pass. */
export function Picker<T extends string>({ label, value, options, action, take }: {
  label: string; value: T; options: readonly (readonly [value: T, label: string])[]; action: string; take: (chosen: T) => void;
}) {
  const [chosen, setChosen] = useState(value);
  useEffect(() => setChosen(value), [value]);
  return (
    <form
      class="row"
      onSubmit={(e) => {
        e.preventDefault();
        e.currentTarget.querySelector("select")!.focus(); // the button goes away
        take(chosen);
      }}
    >
      <select aria-label={label} value={chosen} onChange={(e) => setChosen(e.currentTarget.value as T)}>
        {options.map(([v, l]) => <option key={v} value={v}>{l}</option>)}
      </select>
      {chosen !== value && <button class="small" aria-label={`${action}: ${label}`}>{action}</button>}
    </form>
  );
}

/** Check is a labelled checkbox. */
export function Check({ label, checked, set, disabled }: { label: ComponentChildren; checked: boolean; set: (on: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} disabled={disabled} onChange={(e) => set(e.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}
