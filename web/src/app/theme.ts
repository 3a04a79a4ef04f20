import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const stored = localStorage.getItem("waypost.theme");

/** The colours: those of the system, or the user's choice. */
export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "auto");

export function setTheme(next: Theme): void {
  localStorage.setItem("waypost.theme", next);
  theme.value = next;
  apply();
}

function apply(): void {
  if (theme.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
}

apply();
