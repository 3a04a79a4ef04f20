// The loaded part of a list of links: pages of 100 that follow one another by cursor.
import { useEffect, useReducer, useRef } from "preact/hooks";
import { ask, asFailure, client, type Failure, type Schemas } from "../../app/api";
import type { paths } from "../../api/schema";

export type Link = Schemas["Link"];
export type Query = NonNullable<paths["/api/v1/urls"]["get"]["parameters"]["query"]>;

/** A row knows the cursor of its page, by which the page is asked for again. */
interface Row {
  link: Link;
  page: string;
}

const pageSize = 100;
const patience = 1500; // milliseconds

/** LinkList holds the links of a query as far as they are loaded. */
export class LinkList {
  rows: Row[] = [];
  /** Whether the first page has arrived. */
  ready = false;
  /** Cursor of the next page; "" after the last. */
  next = "";
  loading = false;
  slow = false;
  failure: Failure | undefined;
  at: Date | undefined;
  /** How many links have been created since the first page was loaded. */
  newer = 0;
  /** Another number after each change, for components that get the list: signals draw
   * those again only whose properties differ. */
  version = 0;
  private readonly ids = new Set<string>();
  private query: Query = {};
  private of: Query | undefined; // the query of the rows
  private asked = ""; // the cursor of the newest request
  private abort = new AbortController();
  private newest = 0;
  private refreshing = false;
  private refreshAgain = false;

  constructor(private readonly draw: () => void) {}

  private changed(): void {
    this.version++;
    this.draw();
  }

  /** start loads the first page of a query. The rows of the former query stay until it arrives. */
  start(query: Query): void {
    this.query = query;
    this.abort.abort();
    this.abort = new AbortController();
    this.loading = false;
    this.load("");
  }

  /** Whether the rows are those of the former query. */
  get former(): boolean {
    return this.of !== this.query;
  }

  /** Whether the query finds nothing. A page without rows may have others behind it. */
  get empty(): boolean {
    return this.ready && this.rows.length === 0 && !this.next;
  }

  reload(): void {
    this.start(this.query);
  }

  /** more loads the next page, if there is one. */
  more(): void {
    if (!this.loading && !this.failure && this.ready && this.next) this.load(this.next);
  }

  /** fill loads on when no row is loaded, because only rows that are seen ask for more. */
  private fill(): void {
    if (this.rows.length === 0) this.more();
  }

  /** retry sends the request again that had no success. */
  retry(): void {
    this.load(this.asked);
  }

  stop(): void {
    this.abort.abort();
  }

  private ask(cursor: string, signal: AbortSignal) {
    return ask(client.GET("/api/v1/urls", { params: { query: { ...this.query, limit: pageSize, ...(cursor ? { cursor } : {}) } }, signal }));
  }

  private load(cursor: string): void {
    this.asked = cursor;
    const { signal } = this.abort;
    this.loading = true;
    this.failure = undefined;
    const timer = setTimeout(() => {
      this.slow = true;
      this.changed();
    }, patience);
    this.changed();
    this.ask(cursor, signal).then(
      (page) => {
        if (signal.aborted) return;
        const rows = page.urls.map((link) => ({ link, page: cursor }));
        if (cursor) {
          // A link that has moved in the order meanwhile can be on two pages.
          this.rows.push(...rows.filter((r) => !this.ids.has(r.link.id)));
        } else {
          this.rows = rows;
          this.ids.clear();
          this.newer = 0;
          this.ready = true;
          this.of = this.query;
        }
        for (const r of rows) this.ids.add(r.link.id);
        this.newest = Math.max(this.newest, ...rows.map((r) => Number(r.link.id)));
        this.next = page.next_cursor;
        this.at = new Date();
      },
      (e: unknown) => {
        if (signal.aborted) return;
        this.failure = asFailure(e);
        if (!this.former) return;
        this.rows = [];
        this.ready = false;
      },
    ).finally(() => {
      clearTimeout(timer);
      if (signal.aborted) return;
      this.loading = this.slow = false;
      this.changed();
      this.fill();
    });
  }

  /** refresh asks again for the pages of some rows, and counts the links that are new.
   * It moves no row, because a pointer may be over one. */
  async refresh(first: number, last: number): Promise<void> {
    if (this.refreshing) {
      this.refreshAgain = true;
      return;
    }
    this.refreshing = true;
    const { signal } = this.abort;
    try {
      do {
        this.refreshAgain = false;
        const cursors = new Set(["", ...this.rows.slice(first, last + 1).map((r) => r.page)]);
        for (const cursor of cursors) {
          const page = await this.ask(cursor, signal);
          if (signal.aborted) return;
          this.merge(page.urls);
          if (cursor === "") this.newer = this.ready ? page.urls.filter((l) => Number(l.id) > this.newest).length : 0;
        }
        this.changed();
        await new Promise((done) => setTimeout(done, 300));
      } while (this.refreshAgain && !signal.aborted);
    } catch {
      // The next news asks again, and the frame says when none arrives.
    } finally {
      this.refreshing = false;
    }
  }

  /** merge takes over newer states of links that are shown. */
  merge(links: readonly Link[]): void {
    const fresh = new Map(links.map((l) => [l.id, l]));
    this.rows = this.rows.map((r) => {
      const link = fresh.get(r.link.id);
      // An answer can be older than a change that was made here meanwhile.
      return link && Date.parse(link.updated_at) >= Date.parse(r.link.updated_at) ? { ...r, link } : r;
    });
    this.changed();
  }

  /** remove takes links out, and returns a function that puts some of them where they
   * stood. A list of another query is loaded again instead. */
  remove(ids: ReadonlySet<string>): (back: readonly Link[]) => void {
    const { of } = this;
    const removed: (readonly [index: number, row: Row])[] = [];
    this.rows = this.rows.filter((row, i) => {
      if (ids.has(row.link.id)) removed.push([i, row]);
      return !ids.has(row.link.id);
    });
    for (const id of ids) this.ids.delete(id);
    this.changed();
    this.fill();
    return (back) => {
      if (this.of !== of || this.former) return this.reload();
      const again = new Set(back.map((l) => l.id));
      for (const [i, row] of removed) {
        const { id } = row.link;
        if (!again.has(id) || this.ids.has(id)) continue;
        this.ids.add(id);
        this.rows.splice(i, 0, row);
      }
      this.changed();
    };
  }
}

/** useLinks loads the links of a query, which is made anew when the key changes. */
export function useLinks(key: string, query: () => Query): LinkList {
  const [, show] = useReducer((n: number) => n + 1, 0);
  const ref = useRef<LinkList | undefined>(undefined);
  const list = (ref.current ??= new LinkList(() => show(undefined)));
  useEffect(() => list.start(query()), [key]);
  useEffect(() => () => list.stop(), []);
  return list;
}

/** nameOf returns the name by which a person knows a link. */
export function nameOf(link: Link): string {
  return link.title || link.short_code;
}

/** placeOf names a link's code and then its host, so that the code remains where there is
 * room for a part; the host alone below a name that is the code. */
export function placeOf(link: Link): string {
  const host = shortOf(link).replace(/\/.*/, "");
  return link.title ? `${link.short_code} · ${host}` : host;
}

/** shortOf returns the short URL without its scheme, with the characters of its code. */
export function shortOf(link: Link): string {
  return decodeURI(link.short_url.replace(/^https?:\/\//, ""));
}
