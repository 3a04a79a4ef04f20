import { textOf } from "../../messages/link";
import { Check, Choice, Field } from "../../ui/field";
import type { Limits } from "./linkform";

const modes = ["eventual", "exact"] as const;

/** LimitFields are the fields of a form for limits and a password. */
export function LimitFields({ of, change, fault, password, setPassword, kept }: {
  of: Limits; change: (part: Partial<Limits>) => void; fault: (name: string) => string | undefined;
  password: string; setPassword: (typed: string) => void;
  /** Whether the link has a password, which stays unless another is typed. */
  kept?: boolean | undefined;
}) {
  return (
    <div class="form-row">
      <Field label={textOf("max_clicks")} type="number" min={1} value={of.max_clicks} set={(max_clicks) => change({ max_clicks, confirm: max_clicks === "1" })} fault={fault("max_clicks")} />
      {of.max_clicks && (
        <>
          <Choice label={textOf("max_clicks_mode")} value={of.max_clicks_mode} set={(max_clicks_mode) => change({ max_clicks_mode })} options={modes.map((m) => [m, textOf(m)])} />
          <Field
            label={textOf("exhausted_url")} inputMode="url" dir="ltr" spellcheck={false} autocomplete="off"
            value={of.exhausted_url} set={(exhausted_url) => change({ exhausted_url })} fault={fault("exhausted_url")}
          />
        </>
      )}
      <Field
        label={textOf("password")} type="password" autocomplete="new-password" value={password} set={setPassword} fault={fault("password")}
        hint={textOf(kept ? "passwordKept" : "passwordHint")}
      />
      <Check label={textOf("confirm")} checked={of.confirm} set={(confirm) => change({ confirm })} />
    </div>
  );
}
