// Shortcuts: single keys and sequences such as "g l". They are off while text is typed
// and while a dialog is open, and can be switched off for good (WCAG 2.1.4).
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Shortcut {
  /** Such as "c", "?", "g l" or "Ctrl+k". */
  keys: string;
  label: string;
  run: () => void;
}

/** Whether shortcuts of single keys are on. Those with Ctrl always are. */
export const shortcutsOn = signal(localStorage.getItem("waypost.shortcuts") !== "off");

export function setShortcutsOn(on: boolean): void {
  localStorage.setItem("waypost.shortcuts", on ? "on" : "off");
  shortcutsOn.value = on;
}

/** The shortcuts of the moment, for the help and the palette. */
export const shortcuts = signal<readonly Shortcut[]>([]);

/** useShortcuts has shortcuts from the moment at which the component is shown. */
export function useShortcuts(list: readonly Shortcut[]): void {
  const latest = useRef(list);
  latest.current = list;
  useLayoutEffect(() => {
    const mine = latest.current.map((s, i) => ({ keys: s.keys, label: s.label, run: () => latest.current[i]?.run() }));
    shortcuts.value = [...shortcuts.value, ...mine];
    return () => {
      shortcuts.value = shortcuts.value.filter((s) => !mine.includes(s));
    };
  }, [list.map((s) => s.keys + s.label).join()]);
}

let pending = "";
let pendingUntil = 0;

/** typing reports whether an event belongs to a field in which text is typed. */
export function typing(e: Event): boolean {
  const at = e.composedPath()[0];
  if (!(at instanceof HTMLElement)) return false;
  return at.isContentEditable || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement ||
    (at instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit"].includes(at.type));
}

addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.isComposing || e.repeat) return;
  const withControl = e.ctrlKey || e.metaKey;
  if (!withControl && (!shortcutsOn.value || e.altKey || typing(e) || document.querySelector("dialog[open]"))) return;
  const key = withControl ? `Ctrl+${e.key.toLowerCase()}` : e.key;
  const sequence = pending && performance.now() < pendingUntil ? `${pending} ${key}` : key;
  // The newest component wins.
  const hit = shortcuts.value.findLast((s) => s.keys === sequence);
  pending = "";
  if (hit) {
    e.preventDefault();
    hit.run();
  } else if (shortcuts.value.some((s) => s.keys.startsWith(`${key} `))) {
    pending = key;
    pendingUntil = performance.now() + 1500;
  }
});
