// A line chart, shared by screens. Its numbers are also a table, words for a cursor that
// arrow keys move, and a CSV file.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { dateTime, number } from "../app/i18n";
import { theme } from "../app/theme";
import { text as shared } from "../messages/app";
import { text } from "../messages/chart";
import { download, downloadCSV, fileName, semicolons, setSemicolons } from "./csv";
import { lookOf, rowsOf, type Kind } from "./look";
import { Table } from "./table";

export interface Series {
  label: string;
  /** One value for each label; null where none is known. */
  values: readonly (number | null)[];
  kind: Kind;
}

export interface ChartProps {
  /** Names the chart for screen readers, its table and its file. */
  title: string;
  /** Beginnings of the steps, growing, as the API writes them. */
  times: readonly string[];
  series: readonly Series[];
  /** Length of a step, by which moments are written. */
  step: "second" | "minute" | "hour" | "day" | "week" | "month";
  /** What is counted, such as "clicks"; the heading of the axis for screen readers. */
  unit: string;
  /** A zone of the IANA database. Default: the browser's. */
  timeZone?: string | undefined;
  /** From this moment on values may still grow; null: all may. These steps are shaded,
   * and said in words. */
  completeUntil: string | null;
  /** Why they may still grow. */
  incomplete?: string | undefined;
  /** Moments with a text, such as changes of a link. */
  marks?: readonly { t: string; text: string }[] | undefined;
  /** Name of the files, without their endings; no files without it. */
  file?: string;
  /** Height in pixels. */
  height?: number;
  /** Buttons next to those of the chart. */
  children?: ComponentChildren;
}

/** swatch is the style of a line in a legend. */
function swatch(kind: Kind) {
  const [token, dashed] = lookOf(kind);
  return { borderTop: `${kind === "before" ? 2 : 3}px ${dashed ? "dashed" : "solid"} var(${token})` };
}

/** ofDays reports whether steps begin with a day. */
const ofDays = (step: ChartProps["step"]) => step === "day" || step === "week" || step === "month";

/** seconds returns a moment in seconds since 1970. */
export function seconds(at: string): number {
  return Date.parse(at) / 1000;
}

/** Chart draws series of numbers over time. */
export function Chart(props: ChartProps) {
  const { title, times, series, step, timeZone, completeUntil, file } = props;
  const [asTable, setAsTable] = useState(false);
  const labels = times.map(seconds);
  const open = firstOpen(labels, completeUntil ? seconds(completeUntil) : 0);
  const zone = timeZone ? { timeZone } : {};
  const name = (i: number) => dateTime(new Date(labels[i]! * 1000), {
    ...(ofDays(step) ? { dateStyle: "medium" } : step === "second" ? { dateStyle: "short", timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" }), ...zone,
  });
  const hasOpen = open < labels.length;
  const figure = useRef<HTMLElement>(null);
  const notes = (i: number) => (props.marks ?? []).filter((m) => stepOf(labels, seconds(m.t)) === i).map((m) => m.text).join("; ");
  return (
    <figure class="chart" ref={figure}>
      <div class="row">
        <ul class="legend">
          {series.map((s) => <li key={s.kind + s.label}><span class="swatch" style={swatch(s.kind)} aria-hidden="true" /> <span dir="auto">{s.label}</span></li>)}
          {hasOpen && props.incomplete && <li><span class="swatch open" aria-hidden="true" /> {props.incomplete}</li>}
        </ul>
        <span class="grow" />
        {props.children}
        <button type="button" class="small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>{shared("table")}</button>
        {file && (
          <>
            {!asTable && <button type="button" class="small" aria-label={text("pngOf", { title })} onClick={() => picture(figure.current, title, series, file)}>PNG</button>}
            <button
              type="button" class="small" aria-label={text("csvOf", { title })}
              onClick={() => downloadCSV(file, [
                ["t", ...series.map((s) => s.label), ...(props.marks?.length ? [text("changes")] : [])],
                ...times.map((t, i) => [t, ...series.map((s) => s.values[i] ?? ""), ...(props.marks?.length ? [notes(i)] : [])]),
              ])}
            >
              {text("csv")}
            </button>
            <label class="small-text"><input type="checkbox" checked={semicolons.value} onChange={(e) => setSemicolons(e.currentTarget.checked)} /> {text("semicolons")}</label>
          </>
        )}
      </div>
      {asTable ? (
        <Table title={title} box="tall" heads={[timeZone === "UTC" ? text("timeUTC") : text("time"), ...series.map((s) => [s.label] as const)]}>
          {labels.map((t, i) => (
            <tr key={t}>
              <th scope="row">{name(i)}{i >= open && <span class="hint"> · {text("open")}</span>}{notes(i) && <span class="hint" dir="auto"> · {notes(i)}</span>}</th>
              {series.map((s) => <td key={s.kind + s.label} class="num">{said(s.values[i])}</td>)}
            </tr>
          ))}
        </Table>
      ) : <Plot {...props} labels={labels} open={open} name={name} notes={notes} />}
    </figure>
  );
}

/** stepOf returns the index of the step that holds a moment. */
function stepOf(labels: readonly number[], t: number): number {
  const next = labels.findIndex((l) => l > t);
  return (next < 0 ? labels.length : next) - 1;
}

/** picture saves a chart as a PNG, with its title and its series. */
function picture(figure: HTMLElement | null, title: string, series: readonly Series[], file: string): void {
  const plot = figure?.querySelector("canvas");
  if (!plot) return;
  const unit = devicePixelRatio;
  const canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d")!;
  const style = getComputedStyle(figure!);
  const font = `${13 * unit}px ${style.fontFamily}`;
  ctx.font = font;
  const widths = series.map((s) => ctx.measureText(s.label).width + 40 * unit);
  const places = rowsOf(widths, plot.width - 8 * unit).map(([x, row]) => [x + 8 * unit, (38 + 20 * row) * unit] as const);
  const top = (places.at(-1)?.[1] ?? 0) + 10 * unit;
  canvas.width = plot.width;
  canvas.height = plot.height + top;
  ctx.font = font; // a new size has dropped it
  ctx.fillStyle = getComputedStyle(document.body).backgroundColor;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = style.color;
  ctx.fillText(title, 8 * unit, 18 * unit);
  for (const [i, s] of series.entries()) {
    const [x, y] = places[i]!;
    ctx.fillStyle = getComputedStyle(figure!.querySelectorAll(".swatch")[i]!).borderTopColor;
    // Two parts are a dashed line.
    for (const left of lookOf(s.kind)[1] ? [0, 8] : [0, 4, 8]) ctx.fillRect(x + left * unit, y - 7 * unit, 6 * unit, 3 * unit);
    ctx.fillStyle = style.color;
    ctx.fillText(s.label, x + 20 * unit, y);
  }
  ctx.drawImage(plot, 0, top);
  canvas.toBlob((blob) => blob && download(`${fileName(file)}.png`, blob));
}

/** firstOpen returns the index of the first step that holds, or follows, a moment. */
function firstOpen(labels: readonly number[], from: number): number {
  if (labels.length === 0) return 0;
  const next = labels.findIndex((t) => t > from);
  if (next > 0) return next - 1;
  if (next === 0) return 0;
  const length = labels.length > 1 ? labels.at(-1)! - labels.at(-2)! : 86_400;
  return from < labels.at(-1)! + length ? labels.length - 1 : labels.length;
}

function said(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : number(value, { maximumFractionDigits: 2 });
}

/** Plot is the drawing, with its cursor. */
function Plot({ title, series, step, unit, timeZone, height = 220, marks = [], labels, open, name, notes }: ChartProps & { labels: readonly number[]; open: number; name: (i: number) => string; notes: (i: number) => string }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [at, setAt] = useState<number>();
  const [fails, setFails] = useState(false);
  const dark = useDark();
  const now = useRef({ labels, series, open, marks });
  now.current = { labels, series, open, marks };
  const data = () => [labels, ...series.map((s) => s.values)] as unknown as uPlot.AlignedData;

  useEffect(() => {
    let gone = false;
    let observer: ResizeObserver | undefined;
    import("uplot").then(({ default: UPlot }) => {
      const box = host.current;
      if (gone || !box) return;
      plot.current = new UPlot(options(UPlot, box, now.current.series.map((s) => s.kind), step, timeZone, height, () => now.current, setAt), data(), box);
      observer = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height }));
      observer.observe(box);
    }, () => setFails(true));
    return () => {
      gone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [dark, theme.value, step, timeZone, height, series.map((s) => s.kind).join()]);
  // The arrays are new with each rendering, their numbers seldom are.
  useEffect(() => plot.current?.setData(data()), [`${labels.join()}|${series.map((s) => s.values.join()).join("|")}|${open}|${marks.map((m) => m.t + m.text).join()}`]);

  const move = (to: number | undefined) => {
    const u = plot.current;
    if (!u || labels.length === 0) return;
    if (to === undefined) {
      u.setCursor({ left: -10, top: -10 });
      setAt(undefined);
      return;
    }
    const i = Math.max(0, Math.min(labels.length - 1, to));
    const value = series[0]?.values[i];
    u.setCursor({ left: u.valToPos(labels[i]!, "x"), top: value === null || value === undefined ? 0 : u.valToPos(value, "y") }, false);
    setAt(i);
  };
  const shown = at !== undefined && at < labels.length ? at : undefined;
  if (fails) return <p class="notice">{text("fails")}</p>;
  return (
    <>
      <div
        ref={host} class="plot" tabIndex={0} role="application" aria-label={text("keys", { title: `${title}, ${unit}` })} style={{ minHeight: `${height}px` }}
        onKeyDown={(e) => {
          const here = shown ?? labels.length;
          const to = ({ ArrowLeft: here - 1, ArrowRight: shown === undefined ? 0 : here + 1, PageUp: here - 7, PageDown: here + 7, Home: 0, End: labels.length - 1 } as Record<string, number>)[e.key];
          if (e.key === "Escape" && shown !== undefined) move(undefined);
          else if (to !== undefined && !e.ctrlKey && !e.metaKey && !e.altKey) move(to);
          else return;
          e.preventDefault();
        }}
        onBlur={() => move(undefined)}
      />
      <p class="readout" aria-live="polite" dir="auto">
        {shown === undefined
          ? <span class="quiet">{text("keysHint")}</span>
          : <>{text("moment", { time: name(shown), values: series.map((s) => text("value", { label: s.label, n: said(s.values[shown]) })).join(", ") })}{shown >= open && ` (${text("open")})`}{notes(shown) && ` · ${notes(shown)}`}</>}
      </p>
    </>
  );
}

/** options describes the drawing for uPlot. Colours are read from the tokens of the moment. */
function options(
  UPlot: typeof uPlot, box: HTMLElement, kinds: readonly Kind[], step: ChartProps["step"], timeZone: string | undefined, height: number,
  now: () => { labels: readonly number[]; series: readonly Series[]; open: number; marks: readonly { t: string; text: string }[] }, point: (i: number | undefined) => void,
): uPlot.Options {
  const probe = box.appendChild(document.createElement("span"));
  const token = (property: string) => {
    probe.style.color = `var(${property})`;
    return getComputedStyle(probe).color;
  };
  const [line, quiet, shade] = [token("--line"), token("--quiet"), token("--chart-open")];
  const looks = kinds.map(lookOf);
  const strokes = looks.map(([name]) => token(name));
  const font = `12px ${getComputedStyle(box).fontFamily}`;
  probe.remove();
  const zone = timeZone ? { timeZone } : {};
  const local = (t: number) => (timeZone ? UPlot.tzDate(new Date(t * 1000), timeZone) : new Date(t * 1000));
  const axis = { stroke: quiet, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width: box.clientWidth, height,
    padding: [8, 24, 0, 0],
    tzDate: local,
    legend: { show: false },
    cursor: { drag: { x: false, y: false, setScale: false }, y: false, points: { size: 8 } },
    scales: {
      x: { range: (_, min, max) => (min === max ? [min - 3600, max + 3600] : [min, max]) },
      y: { range: (_, _min, max) => [0, Math.max(max || 0, 4) * 1.05] },
    },
    axes: [
      {
        ...axis, grid: { show: false }, size: 28,
        incrs: ofDays(step) ? [1, 2, 3, 7, 14, 30, 61, 91, 182, 365].map((n) => n * 86_400) : [5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800],
        values: (_, splits, _i, _space, incr) => splits.map((t) => {
          const day = incr >= 86_400 || (local(t).getHours() === 0 && local(t).getMinutes() === 0 && local(t).getSeconds() === 0);
          return dateTime(new Date(t * 1000), { ...(day ? { day: "numeric", month: "short" } : { timeStyle: incr < 60 ? "medium" : "short" }), ...zone });
        }),
      },
      { ...axis, size: 52, values: (_, splits) => splits.map((n) => (Number.isInteger(n) || n < 1 ? number(n, { notation: n >= 10_000 ? "compact" : "standard" }) : "")) },
    ],
    series: [
      {},
      ...kinds.map((kind, i): uPlot.Series => ({
        stroke: strokes[i]!, width: kind === "before" ? 1 : 2, ...(looks[i]![1] ? { dash: [4, 4] } : {}),
        points: { show: (u) => u.data[0].length < 2 },
      })),
    ],
    hooks: {
      drawClear: [(u) => {
        const { labels, open } = now();
        if (open >= labels.length) return;
        // The line that leads to the first of these steps may change, too.
        const left = open > 0 ? u.valToPos(labels[open - 1]!, "x", true) : u.bbox.left;
        u.ctx.save();
        u.ctx.fillStyle = shade;
        u.ctx.fillRect(left, u.bbox.top, u.bbox.left + u.bbox.width - left, u.bbox.height);
        u.ctx.restore();
      }],
      draw: [(u) => {
        u.ctx.save();
        u.ctx.fillStyle = u.ctx.strokeStyle = quiet;
        u.ctx.setLineDash([4, 4]);
        for (const m of now().marks) {
          // Steps hold a mark from their beginning to their end, and the last one has no end here.
          const x = Math.min(u.valToPos(seconds(m.t), "x", true), u.bbox.left + u.bbox.width);
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
          u.ctx.textAlign = x > u.bbox.left + u.bbox.width / 2 ? "right" : "left";
          u.ctx.fillText(m.text, x + (u.ctx.textAlign === "right" ? -4 : 4), u.bbox.top + 12 * devicePixelRatio);
        }
        u.ctx.restore();
      }],
      setCursor: [(u) => point(u.cursor.left !== undefined && u.cursor.left >= 0 ? (u.cursor.idx ?? undefined) : undefined)],
    },
  };
}

/** useDark returns whether the system's colours are dark, now and after a change. */
function useDark(): boolean {
  const query = "(prefers-color-scheme: dark)";
  const [dark, setDark] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const tell = () => setDark(list.matches);
    list.addEventListener("change", tell);
    return () => list.removeEventListener("change", tell);
  }, []);
  return dark;
}
