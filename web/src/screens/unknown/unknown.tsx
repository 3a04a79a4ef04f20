import { useLocation } from "preact-iso/router";
import { ask, client } from "../../app/api";
import { number } from "../../app/i18n";
import { useLoad } from "../../app/load";
import { inQuery } from "../../app/paths";
import { can, me } from "../../app/session";
import { text as common } from "../../messages/app";
import { text } from "../../messages/overview";
import { Await } from "../../ui/failure";
import { Choice } from "../../ui/field";
import { Table } from "../../ui/table";

/** The days of UTC that can be chosen, today included. */
const spans = ["1", "7", "30"] as const;

/** Unknown lists the addresses of a domain that visitors asked for and that name no link. */
export default function Unknown() {
  const { url, query, route } = useLocation();
  const { domain = "", days = "7" } = query as Readonly<Record<string, string>>;
  const list = useLoad(async (signal) => {
    const all = (await ask(client.GET("/api/v1/domains", { signal }))).domains;
    // Those of a shared domain are for the default workspace only.
    const domains = all.filter((d) => (d.shared ? me.value?.workspace?.slug === "default" : d.state === "approved" || d.state === "proved"));
    const of = domains.find((d) => d.host === domain) ?? domains[0];
    const from = new Date(Date.now() - (Number(days) - 1) * 86_400_000).toISOString().slice(0, 10);
    const addresses = of ? (await ask(client.GET("/api/v1/stats/unknown", { params: { query: { domain: of.host, from, limit: 1000 } }, signal }))).addresses : [];
    return { domains, of, addresses };
  }, [domain, days]);
  return (
    <>
      <h1>{common("unknownAddresses")}</h1>
      <p class="quiet">{text("unknownHint")}</p>
      <Await of={list}>{({ domains, of, addresses }) => (
        <>
          <div class="row">
            <Choice label={text("domain")} value={of?.host ?? ""} set={(host) => route(inQuery(url, { domain: host }))} options={domains.map((d) => [d.host, d.host] as const)} />
            <Choice label={text("days")} value={days} set={(n) => route(inQuery(url, { days: n }))} options={spans.map((n) => [n, text("lastDays", { n: Number(n) })] as const)} />
          </div>
          {addresses.length === 0 ? <p role="status">{text("unknownNone")}</p> : (
            <Table title={common("unknownAddresses")} heads={[text("address"), [text("people")], [text("byBots")], text("lastDay"), null]}>
              {addresses.map(({ path, pattern, people, bots, days }) => (
                <tr key={path + pattern}>
                  <td dir="auto">/{path} {pattern && <span class="tag">{text("byPattern")}</span>}</td>
                  <td class="num">{number(people)}</td>
                  <td class="num">{number(bots)}</td>
                  <td>{days.at(-1)?.day}</td>
                  <td>
                    {can("links:write") && (
                      <a aria-label={text("makeLinkOf", { path })} href={inQuery("/console/links?create=1", { code: path, of: of?.shared ? "" : of?.host })}>{text("makeLink")}</a>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </>
      )}</Await>
    </>
  );
}
