import { ask, client } from "../../app/api";
import { useLoad } from "../../app/load";
import { text } from "../../messages/link";
import { Choice, Field } from "../../ui/field";
import { templateFor, valueOf, withValue } from "./utm";

/** Builder appends utm parameters to a target, as the workspace's template for the tags of
 * the link says, and shows the address. */
export function Builder({ target, tags, set }: { target: string; tags: readonly string[]; set: (target: string) => void }) {
  const { data } = useLoad((signal) => ask(client.GET("/api/v1/workspace", { signal })), []);
  const template = templateFor(data?.settings.utm_templates ?? [], tags);
  return (
    <details>
      <summary>{text("utm")}</summary>
      <div class="edit">
        <div class="form-row">
          {target && template.parameters.map(({ name, values }) => {
            const value = valueOf(target, name);
            const write = (typed: string) => set(withValue(target, template, name, typed));
            return values?.length
              ? <Choice key={name} label={name} value={value} set={write} options={[...new Set(["", ...values, value])].map((v) => [v, v || "–"] as const)} />
              : <Field key={name} label={name} value={value} set={write} autocomplete="off" dir="auto" />;
          })}
        </div>
        <p class="hint">{text("utmTarget")} <output class="mono" dir="ltr">{target || "–"}</output></p>
      </div>
    </details>
  );
}
