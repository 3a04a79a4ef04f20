import { useState } from "preact/hooks";
import { dateTime, number } from "../../app/i18n";
import { text as shared } from "../../messages/app";
import { text } from "../../messages/overview";

export interface Day {
  t: string;
  clicks: number;
  bot_clicks: number;
}

const height = 160;

/** dayName names the day at which a step of a series begins, whatever zone the browser is in. */
function dayName(t: string, options: Intl.DateTimeFormatOptions): string {
  return dateTime(`${t.slice(0, 10)}T00:00:00Z`, { ...options, timeZone: "UTC" });
}

/** Columns draws the clicks of each day, and shows them as a table on demand. */
export function Columns({ days }: { days: readonly Day[] }) {
  const [asTable, setAsTable] = useState(false);
  const most = Math.max(1, ...days.map((d) => d.clicks));
  const width = 100 / Math.max(1, days.length);
  const best = days.find((d) => d.clicks === most);
  const long: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short" };
  const label = best ? text("chartLabel", { most, day: dayName(best.t, { dateStyle: "long" }) }) : text("chartNone");
  const last = days.at(-1);
  const bar = (n: number) => (n / most) * height;
  return (
    <section class="card" aria-labelledby="days-title">
      <div class="head">
        <h2 id="days-title" class="grow">{text("chart")}</h2>
        <button type="button" class="small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>{shared("table")}</button>
      </div>
      {asTable ? (
        <div class="scroll days" tabIndex={0} role="group" aria-label={text("chart")}>
          <table>
            <caption class="offscreen">{text("chart")}</caption>
            <thead><tr><th scope="col">{text("day")}</th><th scope="col" class="num">{text("clicks")}</th><th scope="col" class="num">{text("byBots")}</th></tr></thead>
            <tbody>
              {days.toReversed().map((d) => (
                <tr key={d.t}><td>{dayName(d.t, long)}</td><td class="num">{number(d.clicks)}</td><td class="num">{number(d.bot_clicks)}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <figure class="columns">
          <div class="columns-axis" aria-hidden="true"><span>{number(most)}</span><span>0</span></div>
          <svg width="100%" height={height} role="img" aria-label={label}>
            {days.map((d, i) => (
              <g key={d.t}>
                <title>{`${dayName(d.t, long)}: ${number(d.clicks)}`}</title>
                <rect x={`${i * width}%`} y="0" width={`${width}%`} height={height} fill="transparent" />
                <rect x={`${(i + 0.1) * width}%`} y={height - bar(d.clicks)} width={`${0.8 * width}%`} height={bar(d.clicks - d.bot_clicks)} fill="var(--chart-1)" />
                <rect x={`${(i + 0.1) * width}%`} y={height - bar(d.bot_clicks)} width={`${0.8 * width}%`} height={bar(d.bot_clicks)} fill="var(--chart-4)" />
              </g>
            ))}
            <line x1="0" x2="100%" y1={height - 0.5} y2={height - 0.5} stroke="var(--strong-line)" />
          </svg>
          <figcaption>
            <span>{days[0] && dayName(days[0].t, { day: "numeric", month: "short" })}</span>
            <span class="key"><i class="one" />{text("people")} <i class="four" />{text("byBots")}</span>
            <span>{last && dayName(last.t, { day: "numeric", month: "short" })}</span>
          </figcaption>
        </figure>
      )}
    </section>
  );
}
