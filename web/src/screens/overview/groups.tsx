import { useLocation } from "preact-iso/router";
import { useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime, number, percent } from "../../app/i18n";
import { useRenewal } from "../../app/live";
import { useLoad, useSettled } from "../../app/load";
import { inQuery } from "../../app/paths";
import { text as shared } from "../../messages/app";
import { text as inChart } from "../../messages/chart";
import { text as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/overview";
import { Chart } from "../../ui/chart";
import { downloadCSV } from "../../ui/csv";
import { Await } from "../../ui/failure";
import { Choice, Field } from "../../ui/field";
import { Sparkline } from "../../ui/sparkline";
import { Table } from "../../ui/table";
import { chosenSpan } from "../link/span";
import { chosenIn, daysFrom, daysOf, kinds, linesOf, lineToggled, mostLines, toggled, type Kind } from "./group";

const few = 10;
const most = 1000; // that an answer may have

/** Groups compares the clicks of all tags, domains or creators, and those of up to ten of
 * them in a chart. A click on a name filters by it. */
export function Groups() {
  const { url, query, route } = useLocation();
  const kind = (Object.keys(kinds) as Kind[]).find((k) => k === query["groups"]) ?? "tags";
  const [typed, setTyped] = useState("");
  const [limit, setLimit] = useState(few);
  const search = useSettled(typed.trim());
  const days = daysOf(chosenSpan(query).range);
  const lines = linesOf(query);
  const loaded = useLoad(async (signal) => {
    // The operations of the three kinds are alike; the other type of an answer is CSV.
    const find = (text: string, limit: number) => ask(client.GET(`/api/v1/stats/${kind}` as "/api/v1/stats/tags", { params: { query: { ...days, limit, ...(text ? { search: text } : {}) } }, signal })) as Promise<Schemas["GroupTable"]>;
    const table = await find(search, limit);
    const away = lines.filter((name) => !table.groups.some((g) => g.name === name));
    return { table, kind, drawn: [table, ...await Promise.all(away.map((name) => find(name, most)))].flatMap((t) => t.groups) };
  }, [kind, search, limit, days.from, days.to, query["lines"]]);
  useRenewal(loaded.reload);
  const title = text("groups");
  return (
    <section class="card" aria-label={title}>
      <div class="head">
        <h2 class="grow">{title}</h2>
        {loaded.data && (
          <button
            type="button" class="small" aria-label={inChart("csvOf", { title })}
            onClick={() => downloadCSV(`clicks-${kind}`, [
              ["name", "links", "clicks", "people", "share", "clicks_before"],
              ...loaded.data!.table.groups.map((g) => [g.name, g.links, g.clicks, g.people, g.share, g.clicks_before]),
            ])}
          >
            {inChart("csv")}
          </button>
        )}
      </div>
      <div class="form-row">
        <Choice
          label={text("groupsBy")} value={kind} set={(k) => route(inQuery(url, { groups: k === "tags" ? undefined : k, lines: undefined }), true)}
          options={(Object.keys(kinds) as Kind[]).map((k) => [k, textOf(k)] as const)}
        />
        <Field label={text("groupsSearch")} type="search" value={typed} set={setTyped} autocomplete="off" dir="auto" />
      </div>
      <Await of={loaded}>
        {({ table: { groups, found, from, to, complete_until, behind, ...kept }, kind: of, drawn }) => (
          <>
            <p class="hint">{text("groupsHint", { from: utcDay(from), to: utcDay(to, -1) })}{counted(kept)}</p>
            {lines.length > 0 && of === kind && (
              <Chart
                title={`${text("linesOf")}: ${textOf(of)}`} unit={text("clicks")} step="day" timeZone="UTC" file={`clicks-${of}-by-day`}
                times={daysFrom(from, (Date.parse(to) - Date.parse(from)) / 86_400_000)}
                series={lines.map((name, i) => ({ label: name, kind: i + 1, values: drawn.find((g) => g.name === name)?.series ?? [] }))}
                completeUntil={complete_until} incomplete={behind.length > 0 ? text("behind", { names: behind.join(", ") }) : ofLink("growsDayUTC")}
              >
                <button type="button" class="small" onClick={() => route(inQuery(url, { lines: undefined }), true)}>{text("linesNone")}</button>
              </Chart>
            )}
            {groups.length === 0 ? <p class="quiet" role="status">{text("groupsNone")}</p> : (
              <Table title={`${title}: ${textOf(of)}`} heads={[inChart("name"), [shared("links")], [text("clicks")], [text("people")], [inChart("share")], [text("change")], text("byDay"), text("line")]}>
                {groups.map((g) => (
                  <tr key={g.name}>
                    <th scope="row">
                      {g.name ? (
                        <button type="button" class="plain small" dir="auto" aria-pressed={chosenIn(query, of, g.name)} onClick={() => route(inQuery(url, toggled(query, of, g.name)))}>{g.name}</button>
                      ) : shared("none")}
                    </th>
                    <td class="num">{number(g.links)}</td><td class="num">{number(g.clicks)}</td><td class="num">{number(g.people)}</td>
                    <td class="num">{percent(g.share)}</td>
                    <td class="num">{g.change === null ? "–" : number(g.change, { style: "percent", signDisplay: "exceptZero", maximumFractionDigits: 0 })}</td>
                    <td><Sparkline counts={g.series} label={g.series.map((n) => number(n)).join(", ")} /></td>
                    <td>
                      {g.name && (
                        <input
                          type="checkbox" aria-label={text("lineOf", { name: g.name })} checked={lines.includes(g.name)}
                          disabled={lines.length >= mostLines && !lines.includes(g.name)} onChange={() => route(inQuery(url, { lines: lineToggled(lines, g.name) }), true)}
                        />
                      )}
                    </td>
                  </tr>
                ))}
              </Table>
            )}
            {groups.length < Math.min(found, most) && (
              <button type="button" class="small plain" onClick={() => setLimit(most)}>{inChart("moreNames", { n: Math.min(found, most) - groups.length })}</button>
            )}
            {found > most && groups.length === most && <p class="hint">{text("groupsMany", { n: found })}</p>}
          </>
        )}
      </Await>
    </section>
  );
}

/** counted says when an answer that is kept was counted. */
export function counted({ counted_at, rebuilding }: Pick<Schemas["GroupTable"], "counted_at" | "rebuilding">): string {
  if (!counted_at) return "";
  return ` ${text("counted", { time: dateTime(counted_at, { dateStyle: "medium", timeStyle: "medium" }) })}${rebuilding ? ` ${text("rebuilding")}` : ""}`;
}

/** utcDay writes a day of UTC, some milliseconds after a moment. */
function utcDay(at: string, later = 0): string {
  return dateTime(new Date(Date.parse(at) + later), { dateStyle: "medium", timeZone: "UTC" });
}
