import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Failure } from "../app/api";
import { useAct } from "../app/load";
import { text } from "../messages/app";
import { Trouble } from "./failure";

/** Dialog is a modal dialog. The browser keeps the focus inside, and returns it at the end.
 * Escape closes it. */
export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const before = useRef(document.activeElement);
  useLayoutEffect(() => {
    const dialog = ref.current!;
    if (!dialog.open) dialog.showModal();
    return () => {
      dialog.close();
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref} class={wide ? "wide" : ""} aria-labelledby="dialog-title"
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
    >
      <header>
        <h2 id="dialog-title">{title}</h2>
        <button type="button" class="plain icon" aria-label={text("close")} onClick={close}>✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** focusBehind focuses an element once the dialog over it has returned the focus, because
 * the button that opened the dialog goes away, too. */
export function focusBehind(element: { current: HTMLElement | null }): void {
  setTimeout(() => element.current?.focus());
}

/** Confirm asks before something is done that is hard to undo, and then does it. With name,
 * that name has to be typed. Children may depend on why a try had no success. */
export function Confirm({ title, children, action, name, mild, run, close }: {
  title: string; children: ComponentChildren | ((failure: Failure | undefined) => ComponentChildren); action: string; name?: string | undefined;
  /** Whether what is done is easy to undo. */
  mild?: boolean;
  run: () => Promise<unknown>; close: () => void;
}) {
  const [typed, setTyped] = useState("");
  const act = useAct();
  return (
    <Dialog title={title} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act.run(run);
        }}
      >
        {typeof children === "function" ? children(act.failure) : children}
        {name !== undefined && (
          <label class="field">
            <span>{text("confirmName", { name })}</span>
            <input value={typed} onInput={(e) => setTyped(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
          </label>
        )}
        <Trouble failure={act.failure} />
        <footer>
          <button type="button" onClick={close}>{text("cancel")}</button>
          <button class={mild ? "primary" : "danger"} disabled={act.busy || (name !== undefined && typed !== name)}>{action}</button>
        </footer>
      </form>
    </Dialog>
  );
}
