import type { Link } from "./list";

const columns = [
  "short_code", "original_url", "title", "description", "tags", "redirect_status", "forward_query", "forward_path", "expires_at", "click_count",
  "created_at", "domain", "active", "metadata",
] as const;

/** csvOf writes links as the export of the API does, so that an import takes them. */
export function csvOf(links: readonly Link[], shared: string): string {
  const rows = links.map((l) => [
    l.short_code, l.original_url, l.title, l.description, l.tags.map(quoted).join(","), l.redirect_status, l.forward_query, l.forward_path, l.expires_at ?? "",
    l.click_count, l.created_at, l.domain === shared ? "" : l.domain, l.active, l.metadata ? JSON.stringify(l.metadata) : "",
  ].map((cell) => quoted(safe(String(cell)))));
  return [columns.join(","), ...rows.map((r) => r.join(","))].join("\n") + "\n";
}

function quoted(cell: string): string {
  return /[",\r\n]|^\s/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** safe puts an apostrophe before a cell that a spreadsheet could take for a formula. */
function safe(cell: string): string {
  return /^'*(?:[\t\r\n]|[ \u00a0\u3000]*[=+\-@＝＋－＠])/.test(cell) ? `'${cell}` : cell;
}
