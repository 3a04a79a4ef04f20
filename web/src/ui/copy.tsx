import { useState } from "preact/hooks";
import { textOf } from "../messages/app";

/** copy puts a text on the clipboard. Without permission it selects nothing and reports false. */
export async function copy(value: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    // Pages without TLS have no clipboard, but the older command.
    const area = document.createElement("textarea");
    area.value = value;
    area.className = "offscreen";
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Copy is a button that copies a text, and says so. */
export function Copy({ value, label }: { value: string; label?: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button" class="small" aria-label={label ? `${textOf(done ? "copied" : "copy")}: ${label}` : undefined}
      onClick={async () => {
        if (!(await copy(value))) return;
        setDone(true);
        setTimeout(() => setDone(false), 2000);
      }}
    >
      <span aria-live="polite">{done ? textOf("copied") : textOf("copy")}</span>
    </button>
  );
}
