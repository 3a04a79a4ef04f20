import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { inQuery, linkPath } from "../../app/paths";
import { useShortcuts } from "../../app/keys";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { QR } from "../../ui/qr";
import { Sparkline } from "../../ui/sparkline";
import { Ago, Moment } from "../../ui/time";
import { ago, number } from "../../app/i18n";
import { text, textOf } from "../../messages/links";
import { nameOf, placeOf, shortOf, type Link, type LinkList } from "./list";

export type Sort = "-created" | "created" | "-clicks" | "clicks";

const spare = 5; // rows above and below the window
const rowRem = 4.25; // heights in rem, as in style.css
const cardRem = 11;
const cardsBelow = 52; // width of the table in rem

/** What is shown of a list: the rows in the window and whether they are cards. */
interface View {
  first: number;
  last: number;
  height: number;
  cards: boolean;
}

/** useView follows the scrolling of the page. */
function useView(count: number): [View, { current: HTMLTableSectionElement | null }] {
  const body = useRef<HTMLTableSectionElement>(null);
  const [view, setView] = useState<View>({ first: 0, last: 20, height: rowRem * 16, cards: false });
  useLayoutEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const box = body.current?.getBoundingClientRect();
      if (!box) return;
      const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
      const cards = box.width < cardsBelow * rem;
      const height = (cards ? cardRem : rowRem) * rem;
      const first = Math.max(0, Math.floor(-box.top / height));
      const last = Math.min(count - 1, Math.ceil((innerHeight - box.top) / height));
      setView((v) => (v.first === first && v.last === last && v.height === height && v.cards === cards ? v : { first, last, height, cards }));
    };
    const soon = () => {
      frame ||= requestAnimationFrame(look);
    };
    look();
    addEventListener("scroll", soon, { passive: true });
    const size = new ResizeObserver(soon);
    size.observe(body.current!);
    size.observe(document.documentElement);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      size.disconnect();
    };
  }, [count]);
  return [view, body];
}

export interface TableProps {
  list: LinkList;
  version: number;
  /** Deleted links: other columns, and no way to the link. */
  bin?: boolean;
  selected: ReadonlyMap<string, Link>;
  select: (links: readonly Link[], on: boolean) => void;
  sort?: Sort;
  setSort?: (sort: Sort) => void;
  sparks?: ReadonlyMap<string, readonly number[]>;
  /** Told which rows are in the window. */
  shown?: (first: number, last: number) => void;
  /** The row in which the focus is or was; -1: none. */
  at: { current: number };
  /** The address with the filters, for links of tags. */
  url?: string;
  /** The host of the default domain. */
  shared: string;
  /** What can be done with one row. */
  action?: (link: Link) => ComponentChildren;
}

/** LinkTable shows a list of any length: only rows in the window exist in the page. */
export function LinkTable(p: TableProps) {
  const { list, selected, bin = false } = p;
  const rows = list.rows;
  const [view, body] = useView(rows.length);
  const [at, setAt] = useState(-1);
  const [drawn, setDrawn] = useState<Link>(); // whose QR code is shown
  const wanted = useRef(-1); // the row that gets the focus once it is drawn
  const anchor = useRef(-1); // of a selection with Shift
  p.at.current = Math.min(at, rows.length - 1);
  const last = Math.min(view.last + spare, rows.length - 1);
  useEffect(() => {
    p.shown?.(view.first, Math.min(view.last, rows.length - 1));
    if (view.last > rows.length - 60) list.more();
  });
  useEffect(() => {
    if (at < 0 || wanted.current !== at) return; // an effect of an earlier drawing does not know the row yet
    wanted.current = -1;
    const row = body.current?.querySelector<HTMLElement>(`[data-at="${at}"]`);
    row?.querySelector<HTMLElement>("[data-main]")?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  });
  const move = (step: number) => {
    const from = at < 0 ? view.first - Math.max(0, step) : at;
    const next = Math.max(0, Math.min(rows.length - 1, from + step));
    if (rows.length === 0) return;
    if (next === at) {
      body.current?.querySelector<HTMLElement>(`[data-at="${at}"] [data-main]`)?.focus();
      return;
    }
    wanted.current = next;
    setAt(next);
  };
  const select = useRef(p.select);
  select.current = p.select;
  const pick = useCallback((i: number, on: boolean, range: boolean) => {
    if (list.former) return;
    const from = range && anchor.current >= 0 ? anchor.current : i;
    anchor.current = i;
    select.current(list.rows.slice(Math.min(from, i), Math.max(from, i) + 1).map((r) => r.link), on);
  }, [list]);
  useShortcuts([
    { keys: "j", label: text("keyNext"), run: () => move(1) },
    { keys: "k", label: text("keyPrevious"), run: () => move(-1) },
    {
      keys: "x", label: text("keySelect"),
      run: () => {
        const row = rows[at];
        if (row) pick(at, !selected.has(row.link.id), false);
      },
    },
    ...(bin ? [] : [{ keys: "q", label: text("keyQR"), run: () => setDrawn(rows[Math.max(0, at)]?.link) }]),
  ]);
  const indices: number[] = [];
  for (let i = Math.max(0, view.first - spare); i <= last; i++) indices.push(i);
  // The row with the focus stays, or the focus would be lost.
  if (at >= 0 && at < rows.length && (at < (indices[0] ?? 0) || at > last)) indices.push(at);
  const all = rows.length > 0 && rows.every((r) => selected.has(r.link.id));
  const header = (by: "created" | "clicks", label: string, num = false) => {
    if (!p.setSort) return <th role="columnheader" class={num ? "num" : ""}>{label}</th>;
    const down = p.sort === `-${by}`;
    const up = p.sort === by;
    return (
      <th role="columnheader" class={num ? "num" : ""} aria-sort={down ? "descending" : up ? "ascending" : undefined}>
        <button type="button" class="plain small" onClick={() => p.setSort!(down ? by : `-${by}`)}>{label}<span aria-hidden="true">{down ? "↓" : up ? "↑" : ""}</span></button>
      </th>
    );
  };
  const table = (
    <table
      role="table" class={`links${view.cards ? " as-cards" : ""}${bin ? " of-bin" : ""}`} aria-label={textOf(bin ? "captionBin" : "caption")}
      aria-rowcount={list.next ? -1 : rows.length + 1} aria-busy={list.loading}
    >
      <thead role="rowgroup">
        <tr role="row" aria-rowindex={1}>
          <th role="columnheader">
            <label class="pick">
              <input
                type="checkbox" aria-label={text("selectAll")} checked={all} disabled={list.former} ref={(el) => { if (el) el.indeterminate = !all && selected.size > 0; }}
                onChange={(e) => p.select(rows.map((r) => r.link), e.currentTarget.checked)}
              />
            </label>
          </th>
          <th role="columnheader">{text("name")}</th>
          <th role="columnheader">{text("target")}</th>
          {!bin && <th role="columnheader">{text("tags")}</th>}
          {header("clicks", text("clicks"), true)}
          {bin
            ? <><th role="columnheader">{text("deleted")}</th><th role="columnheader">{text("restorable")}</th><th role="columnheader"><span class="offscreen">{text("restore")}</span></th></>
            : <><th role="columnheader">{text("lastDays")}</th>{header("created", text("created"))}</>}
        </tr>
      </thead>
      <tbody
        role="rowgroup" ref={body} style={{ height: `${rows.length * view.height}px` }}
        onFocusIn={(e) => {
          const row = (e.target as HTMLElement).closest<HTMLElement>("[data-at]");
          if (row) setAt(Number(row.dataset["at"]));
        }}
      >
        {indices.map((i) => {
          const { link } = rows[i]!;
          return (
            <Row
              key={link.id} i={i} link={link} top={i * view.height} height={view.height} cards={view.cards} bin={bin} former={list.former} on={selected.has(link.id)} at={i === at}
              counts={p.sparks?.get(sparkKey(link))} url={p.url ?? ""} shared={p.shared} pick={pick} {...(p.action ? { action: p.action } : {})}
            />
          );
        })}
      </tbody>
    </table>
  );
  return <>{table}{drawn && <Dialog title={nameOf(drawn)} close={() => setDrawn(undefined)}><QR link={drawn} /></Dialog>}</>;
}

/** Row is a row of the table. It is drawn again only when one of its properties differs. */
function Row(p: {
  i: number; link: Link; top: number; height: number; cards: boolean; bin: boolean; former: boolean; on: boolean; at: boolean; counts: readonly number[] | undefined;
  url: string; shared: string; pick: (i: number, on: boolean, range: boolean) => void; action?: (link: Link) => ComponentChildren;
}) {
  const { i, link, bin, on } = p;
  return (
    <tr
      role="row" aria-rowindex={i + 2} data-at={i} class={`${on ? "on" : ""}${p.at ? " at" : ""}`}
      style={{ top: `${p.top}px`, height: `${p.height}px` }}
    >
      <td role="cell">
        <label class="pick">
          <input
            type="checkbox" aria-label={text("select", { name: nameOf(link) })} checked={on} disabled={p.former} data-main={bin ? true : undefined}
            onClick={(e) => p.pick(i, e.currentTarget.checked, e.shiftKey)}
          />
        </label>
      </td>
      <td role="cell" class="name">
        <div class="line">
          {bin
            ? <span class="clip strong" dir="auto">{nameOf(link)}</span>
            : <a class="clip strong" dir="auto" data-main href={linkPath(link, p.shared)}>{nameOf(link)}</a>}
          {!bin && <Badges link={link} />}
        </div>
        <div class="line"><span class="clip quiet small-text" title={link.short_url}>{placeOf(link)}</span>{!bin && <Copy value={link.short_url} label={shortOf(link)} />}</div>
      </td>
      <td role="cell" class="small-text" title={link.original_url}>
        {/^https?:/i.test(link.original_url)
          ? <a class="quiet" href={link.original_url} target="_blank" rel="noopener noreferrer" dir="ltr">{link.original_url.replace(/^https?:\/\//i, "")}</a>
          : <div class="clip">{link.original_url}</div>}
      </td>
      {!bin && <td role="cell" class="line tags">{<Tags link={link} url={p.url} />}</td>}
      <td role="cell" class="num"><span class="offscreen">{text("clicks")}: </span>{number(link.click_count)}{p.cards && <span class="quiet small-text" aria-hidden="true"> {text("clicks")}</span>}</td>
      {bin
        ? (
          <>
            <td role="cell" class="quiet small-text clip"><span class="card-label">{text("deleted")} </span><Ago at={link.deleted_at} /></td>
            <td role="cell" class="quiet small-text clip"><span class="card-label">{text("restorable")} </span><Moment at={link.restorable_until} /></td>
            <td role="cell">{p.action?.(link)}</td>
          </>
        )
        : (
          <>
            <td role="cell" class="spark"><Spark counts={p.counts} /></td>
            <td role="cell" class="quiet small-text"><Ago at={link.created_at} /></td>
          </>
        )}
    </tr>
  );
}

/** sparkKey names a link as the request for sparklines does. */
export function sparkKey(link: Link): string {
  return `${link.domain}/${link.short_code}`;
}

function Spark({ counts }: { counts: readonly number[] | undefined }) {
  if (!counts?.length) return null;
  return <Sparkline counts={counts} label={text("spark", { n: counts.reduce((a, b) => a + b, 0), today: counts.at(-1) ?? 0 })} />;
}

const soon = 7 * 86_400_000; // milliseconds

function Badges({ link }: { link: Link }) {
  const left = link.expires_at ? new Date(link.expires_at).getTime() - Date.now() : Infinity;
  return (
    <>
      {!link.active && <span class="tag bad">{text("off")}</span>}
      {left <= 0 && <span class="tag bad">{text("expired")}</span>}
      {left > 0 && left < soon && <span class="tag warn">{text("expiresSoon", { when: ago(link.expires_at!) })}</span>}
    </>
  );
}

function Tags({ link, url }: { link: Link; url: string }) {
  const most = 2;
  return (
    <>
      {link.tags.slice(0, most).map((tag) => (
        <a key={tag} class="tag" href={inQuery(url, { tag })} aria-label={text("withTag", { tag })}><span class="clip" dir="auto">{tag}</span></a>
      ))}
      {link.tags.length > most && <span class="quiet small-text" title={link.tags.slice(most).join(", ")}>{text("moreTags", { n: link.tags.length - most })}</span>}
    </>
  );
}
