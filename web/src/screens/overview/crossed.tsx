import { useLocation } from "preact-iso/router";
import { ask, client, type Schemas } from "../../app/api";
import { number } from "../../app/i18n";
import { useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { text as inChart } from "../../messages/chart";
import { text, textOf } from "../../messages/overview";
import { downloadCSV } from "../../ui/csv";
import { Await } from "../../ui/failure";
import { Choice } from "../../ui/field";
import { Table } from "../../ui/table";
import { labelOf, titleOf } from "../link/statistics";
import { crossedIn, crossable, type Days, type Group } from "./group";

/** Crossed counts the clicks on a group by two breakdowns at once, when two are chosen. */
export function Crossed({ group, days }: { group: Group; days: Days }) {
  const { url, query, route } = useLocation();
  const crossed = crossedIn(query);
  const title = text("crossed");
  const choice = (name: "rows" | "columns", other: string | undefined) => (
    <Choice
      label={textOf(name)} value={query[name] ?? ""} set={(d) => route(inQuery(url, { [name]: d }), true)}
      options={[["", "–"], ...crossable.filter((d) => d !== other).map((d) => [d, titleOf(d)] as const)]}
    />
  );
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="hint">{text("crossedHint")} <a href="/console/settings">{text("crossedSetting")}</a></p>
      <div class="form-row">{choice("rows", query["columns"])}{choice("columns", query["rows"])}</div>
      {crossed && <Cells key={JSON.stringify([crossed, group, days])} group={group} days={days} crossed={crossed} />}
    </section>
  );
}

function Cells({ group, days, crossed: [rows, columns] }: { group: Group; days: Days; crossed: NonNullable<ReturnType<typeof crossedIn>> }) {
  const loaded = useLoad((signal) => ask(client.GET("/api/v1/stats/crossed", { params: { query: { ...group, ...days, rows, columns } }, signal })) as Promise<Schemas["Crossed"]>, []);
  const title = `${titleOf(rows)}, ${titleOf(columns)}`;
  const words = (by: typeof rows, name: string) => (name === "other" ? inChart("other") : labelOf(by, name));
  return (
    <Await of={loaded}>
      {(of) => (
        <>
          <div class="head">
            <p class="grow" role="status">{of.exact ? text("crossedAll", { n: of.kept }) : text("crossedSome", { n: of.kept, all: of.clicks })}</p>
            <button
              type="button" class="small" aria-label={inChart("csvOf", { title })}
              onClick={() => downloadCSV(`clicks-${rows}-${columns}`, [[rows, ...of.columns.map((c) => c.name)], ...of.rows.map((r) => [r.name, ...r.cells])])}
            >
              {inChart("csv")}
            </button>
          </div>
          <Table title={title} box="tall" heads={[titleOf(rows), [text("clicks")], ...of.columns.map((c) => [words(columns, c.name)] as const)]}>
            {of.rows.map((r) => (
              <tr key={r.name}>
                <th scope="row" dir="auto">{words(rows, r.name)}</th>
                <td class="num">{number(r.clicks)}</td>
                {r.cells.map((n, i) => <td key={i} class="num">{number(n)}</td>)}
              </tr>
            ))}
          </Table>
        </>
      )}
    </Await>
  );
}
