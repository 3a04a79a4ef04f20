import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { number, percent } from "../app/i18n";
import { text } from "../messages/chart";
import { downloadCSV } from "./csv";
import { WorldMap } from "./map";
import { Table } from "./table";

export interface Count {
  name: string;
  clicks: number;
}

/** The name under which a breakdown adds up all names that it does not list. */
const rest = "other";
const few = 8;

/** Breakdown lists names with their shares. A click on a name chooses it; the series of the
 * chosen name is the child. */
export function Breakdown({ title, names, label = (name) => name, chosen, choose, file, map, hint, children }: {
  title: string;
  /** In the order of clicks. */
  names: readonly Count[];
  /** Writes a name in words, such as a country for its code. */
  label?: (name: string) => string;
  chosen?: string | undefined;
  /** Chooses a name, or none. Names cannot be chosen without it. */
  choose?: ((name: string | undefined) => void) | undefined;
  /** Name of the CSV file, without its ending. */
  file: string;
  /** Whether names are countries, which a map can show. */
  map?: boolean;
  hint?: string | false;
  children?: ComponentChildren;
}) {
  const [most, setMost] = useState(few);
  const [asMap, setAsMap] = useState(false);
  const all = names.reduce((sum, n) => sum + n.clicks, 0);
  const top = names[0]?.clicks ?? 0;
  const words = (name: string) => (name === rest ? text("other") : label(name));
  const shown = asMap ? names : names.slice(0, Math.max(most, names.findIndex((n) => n.name === chosen) + 1));
  const counts = new Map(names.map((n) => [n.name, n.clicks]));
  const pick = (n: Count, content: ComponentChildren) => (choose && n.name !== rest ? (
    <button
      type="button" class={asMap ? "plain small" : "bar"} aria-pressed={chosen === n.name}
      onClick={() => choose(chosen === n.name ? undefined : n.name)}
    >
      {content}
    </button>
  ) : <span class={asMap ? "" : "bar"}>{content}</span>);
  const wide = asMap || children ? "card breakdown wide" : "card breakdown";
  return (
    <section class={wide} aria-label={title}>
      <div class="head">
        <h3 class="grow">{title}</h3>
        {map && names.length > 0 && <button type="button" class="small" aria-pressed={asMap} onClick={() => setAsMap(!asMap)}>{text("map")}</button>}
        {names.length > 0 && (
          <button
            type="button" class="small" aria-label={text("csvOf", { title })}
            onClick={() => downloadCSV(file, [["name", "clicks"], ...names.map((n) => [n.name, n.clicks])])}
          >
            {text("csv")}
          </button>
        )}
      </div>
      {names.length === 0 && <p class="quiet">{text("nothing")}</p>}
      {hint && <p class="hint">{hint}</p>}
      <div class="sides">
        {asMap && <WorldMap counts={counts} label={(code, n) => `${label(code)}: ${text("clicksOf", { n })}`} />}
        {asMap ? (
          <Table title={`${title}, ${text("clicks")}`} box="tall" heads={[text("name"), [text("clicks")], [text("share")]]}>
            {shown.map((n) => (
              <tr key={n.name}>
                <th scope="row">{pick(n, <span dir="auto">{words(n.name)}</span>)}</th>
                <td class="num">{number(n.clicks)}</td><td class="num">{percent(n.clicks / all)}</td>
              </tr>
            ))}
          </Table>
        ) : (
          <div>
            <ul class="bars">
              {shown.map((n) => (
                <li key={n.name}>
                  {pick(n, (
                    <>
                      <span class="fill" style={{ width: `${(100 * n.clicks) / Math.max(1, top)}%` }} aria-hidden="true" />
                      <span class="clip" dir="auto">{words(n.name)}</span>
                      <span class="count">{number(n.clicks)}<span class="offscreen"> {text("clicks")},</span> <span class="quiet">{percent(n.clicks / all)}</span></span>
                    </>
                  ))}
                </li>
              ))}
            </ul>
            {names.length > shown.length && (
              <button type="button" class="small plain" onClick={() => setMost(shown.length + 50)}>{text("moreNames", { n: Math.min(50, names.length - shown.length) })}</button>
            )}
          </div>
        )}
        {children}
      </div>
    </section>
  );
}
