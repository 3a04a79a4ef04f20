import type { Schemas } from "./api";

/** linkPath returns the console's path of a link. Links of the default domain need no host. */
export function linkPath(link: Pick<Schemas["Link"], "short_code"> & { domain?: string }, shared = ""): string {
  const domain = link.domain && link.domain !== shared ? `?domain=${encodeURIComponent(link.domain)}` : "";
  return `/console/links/${encodeURIComponent(link.short_code)}${domain}`;
}

/** isPattern reports whether a code is a pattern, which leads from many addresses. */
export const isPattern = (code: string) => /[*{]/.test(code);

/** searchOf returns the filters of the API that find what is typed. A short URL of one of the
 * domains is found by its code, because searches know the URLs of targets only. */
export function searchOf(typed: string, domains: readonly Pick<Schemas["Domain"], "host">[]): { search: string; domain?: string } {
  const url = /^https?:\/\//i.test(typed) ? typed : `https://${typed}`;
  if (URL.canParse(url)) {
    const { host, hostname, pathname } = new URL(url);
    const domain = domains.find((d) => d.host === host || d.host === hostname)?.host;
    const code = /[\w-]+/.exec(pathname)?.[0];
    if (domain && code) return { search: code, domain };
  }
  return { search: typed };
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
