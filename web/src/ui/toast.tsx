import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { text } from "../messages/app";

interface Toast {
  id: number;
  message: string;
  bad: boolean;
  undo?: () => void;
}

const toasts = signal<readonly Toast[]>([]);
let last = 0;

/** toast tells briefly that something was done, and offers to undo it. */
export function toast(message: string, options: { undo?: () => void; bad?: boolean } = {}): void {
  toasts.value = [...toasts.value.slice(-3), { id: ++last, message, bad: options.bad ?? false, ...(options.undo ? { undo: options.undo } : {}) }];
}

function drop(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

function One({ toast: t }: { toast: Toast }) {
  // What can be undone stays long enough to be reached by keyboard.
  useEffect(() => {
    const timer = setTimeout(() => drop(t.id), t.undo || t.bad ? 15_000 : 5000);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={t.bad ? "toast bad" : "toast"}>
      <span>{t.message}</span>
      {t.undo && (
        <button
          type="button"
          onClick={() => {
            drop(t.id);
            t.undo!();
          }}
        >
          {text("undo")}
        </button>
      )}
      <button type="button" class="plain icon" aria-label={text("close")} onClick={() => drop(t.id)}>✕</button>
    </div>
  );
}

/** Toasts is the place where messages appear. */
export function Toasts() {
  return <div class="toasts" role="status" aria-live="polite">{toasts.value.map((t) => <One key={t.id} toast={t} />)}</div>;
}
