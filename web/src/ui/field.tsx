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
        <input {...(input as object)} id={id} value={value} onInput={(e) => set(e.currentTarget.value)} aria-invalid={fault ? true : undefined} aria-describedby={about} list={offers && `${id}-offers`} />
        {offers && <datalist id={`${id}-offers`}>{offers.map((v) => <option key={v} value={v} />)}</datalist>}
        {children}
      </div>
      {fault ? <p id={`${id}-fault`} class="fault" role="alert">{fault}</p> : hint && <p id={`${id}-hint`} class="hint">{hint}</p>}
    </div>
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
