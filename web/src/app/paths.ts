import type { Schemas } from "./api";

/** linkPath returns the console's path of a link. Links of the default domain need no host. */
export function linkPath(link: Pick<Schemas["Link"], "short_code"> & { domain?: string }, shared = ""): string {
  const domain = link.domain && link.domain !== shared ? `?domain=${encodeURIComponent(link.domain)}` : "";
  return `/console/links/${encodeURIComponent(link.short_code)}${domain}`;
}

/** inQuery returns a path with other values in its query; undefined and "" remove one. */
export function inQuery(url: string, change: Record<string, string | undefined>): string {
  const u = new URL(url, location.origin);
  for (const [name, value] of Object.entries(change)) {
    if (value) u.searchParams.set(name, value);
    else u.searchParams.delete(name);
  }
  return u.pathname + u.search;
}
