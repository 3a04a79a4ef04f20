import { Copy } from "./copy";

/** Command shows a command to copy. */
export function Command({ label, command }: { label: string; command: string }) {
  return (
    <div class="command">
      <p>{label}</p>
      <pre tabIndex={0} role="region" aria-label={label}><code>{command}</code></pre>
      <Copy value={command} label={label} />
    </div>
  );
}
