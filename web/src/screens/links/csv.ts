import { csv, quoted } from "../../ui/csv";
import type { Link } from "./list";

const columns = [
  "short_code", "original_url", "title", "description", "tags", "redirect_status", "forward_query", "forward_path", "expires_at", "click_count",
  "created_at", "domain", "active", "metadata", "valid_from", "expired_url", "rules", "max_clicks", "max_clicks_mode", "exhausted_url", "has_password",
] as const;

/** csvOf writes links as the export of the API does, so that an import takes them. */
export function csvOf(links: readonly Link[], shared: string): string {
  return csv([columns, ...links.map((l) => [
    l.short_code, l.original_url, l.title, l.description, l.tags.map(quoted).join(","), l.redirect_status, l.forward_query, l.forward_path, l.expires_at ?? "",
    l.click_count, l.created_at, l.domain === shared ? "" : l.domain, l.active, l.metadata ? JSON.stringify(l.metadata) : "",
    l.valid_from ?? "", l.expired_url ?? "", l.rules?.length ? JSON.stringify(l.rules) : "", l.max_clicks ?? "", l.max_clicks_mode ?? "",
    l.exhausted_url ?? "", l.has_password ?? false,
  ])], "\n");
}
