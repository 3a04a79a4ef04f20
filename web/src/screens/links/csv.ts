import { csv, quoted } from "../../ui/csv";
import { exported } from "../link/fields";
import type { Link } from "./list";

/** csvOf writes links as the export of the API does, so that an import takes them. */
export function csvOf(links: readonly Link[], shared: string): string {
  return csv([exported, ...links.map((l) => exported.map((name) => cellOf(l, name, shared)))], "\n");
}

function cellOf(l: Link, name: (typeof exported)[number], shared: string) {
  switch (name) {
    case "tags": return l.tags.map(quoted).join(",");
    case "domain": return l.domain === shared ? "" : l.domain;
    case "metadata": return l.metadata ? JSON.stringify(l.metadata) : "";
    case "rules": return l.rules?.length ? JSON.stringify(l.rules) : "";
    case "aliases": return l.aliases?.length ? JSON.stringify(l.aliases.map((a) => ({ short_code: a.short_code, ...(a.domain === shared ? {} : { domain: a.domain }), ...(a.title ? { title: a.title } : {}) }))) : "";
    case "confirm": case "has_password": return l[name] ?? false; // absent while it is false
    default: return l[name] ?? "";
  }
}
