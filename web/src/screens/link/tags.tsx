import { useId, useState } from "preact/hooks";
import { text } from "../../messages/link";
import { useTags } from "../links/filters";

/** Tags edits a list of tags, and offers those that exist. Enter or a comma ends a tag; what
 * is not ended counts, too. */
export function Tags({ label, tags, set, fault }: { label: string; tags: readonly string[]; set: (tags: string[]) => void; fault?: string | undefined }) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const offers = useTags(typed.trim());
  const add = (value: string) => {
    const next = value.split(",").map((t) => t.normalize().trim()).filter((t, i, all) => t && !tags.includes(t) && all.indexOf(t) === i);
    if (next.length) set([...tags, ...next]);
    setTyped("");
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="row">
        {tags.map((tag) => (
          <span class="tag" key={tag}>
            <span dir="auto">{tag}</span>
            <button
              type="button" class="plain icon" aria-label={text("removeTag", { tag })}
              onClick={() => {
                set(tags.filter((t) => t !== tag));
                document.getElementById(id)?.focus();
              }}
            >
              ✕
            </button>
          </span>
        ))}
        <input
          id={id} value={typed} list={`${id}-offers`} dir="auto" autocomplete="off" aria-invalid={fault ? true : undefined} aria-describedby={`${id}-hint`}
          onInput={(e) => (e.currentTarget.value.includes(",") ? add(e.currentTarget.value) : setTyped(e.currentTarget.value))}
          onKeyDown={(e) => {
            if (e.key === "Enter" && typed.trim()) {
              e.preventDefault();
              add(typed);
            } else if (e.key === "Backspace" && !typed && tags.length) set(tags.slice(0, -1));
          }}
          onBlur={() => add(typed)}
        />
        <datalist id={`${id}-offers`}>{offers.map((v) => <option key={v} value={v} />)}</datalist>
      </div>
      <p class={fault ? "fault" : "hint"} id={`${id}-hint`}>{fault ?? text("tagsHint")}</p>
    </div>
  );
}
