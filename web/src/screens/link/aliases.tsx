import { useEffect, useRef, useState } from "preact/hooks";
import { answer, client, type Schemas } from "../../app/api";
import { number } from "../../app/i18n";
import { useLoad } from "../../app/load";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/link";
import { text as ofLinks } from "../../messages/links";
import { AliasForm, printOf } from "../../ui/alias";
import { Copy } from "../../ui/copy";
import { Confirm, Dialog, focusBehind } from "../../ui/dialog";
import { Trouble } from "../../ui/failure";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import type { Link } from "./change";
import type { Range } from "./span";
import { askStats } from "./statistics";

type Alias = Schemas["Alias"];

/** Aliases lists the addresses of a link with their clicks, and adds and removes aliases. */
export function Aliases({ link, range, saved }: { link: Link; range: Range; saved: (now: Link, response: Response, message?: string) => void }) {
  const { aliases = [] } = link;
  const [open, setOpen] = useState<"add" | Alias>();
  const title = useRef<HTMLHeadingElement>(null);
  const named = { code: link.short_code, domain: link.domain };
  const clicks = useLoad(
    async (signal) => (aliases.length ? new Map((await askStats(named, range, signal)).codes.map((c) => [c.name, c.clicks])) : undefined),
    [JSON.stringify([range, aliases.map((a) => a.short_url)]), link.click_count],
  );
  useEffect(() => setOpen(undefined), [aliases.length]);
  const done: typeof saved = (...now) => {
    saved(...now);
    focusBehind(title);
  };
  const writes = can("links:write");
  const count = (of: Link | Alias) => clicks.data && number(clicks.data.get(`${of.domain}/${of.short_code}`) ?? 0);
  return (
    <section class="card" aria-labelledby="aliases-title">
      <div class="head">
        <h2 id="aliases-title" class="grow" ref={title} tabIndex={-1}>{textOf("aliases")}</h2>
        {writes && aliases.length < 16 && <button type="button" onClick={() => setOpen("add")}>{ofLinks("addAlias")}</button>}
      </div>
      <p class="hint">{text("aliasesHint")}</p>
      <Trouble failure={clicks.failure} retry={clicks.reload} />
      {aliases.length > 0 && (
        <Table title={textOf("aliases")} heads={[text("address"), ofLinks("aliasTitle"), [text("clicks")], null]}>
          {[link, ...aliases].map((a) => (
            <tr key={a.short_url}>
              <th scope="row" class="mono">{a.short_url} <Copy value={a.short_url} label={a.short_url} /></th>
              <td dir="auto">{a === link ? text("ownAddress") : [a.title, printOf(a as Alias)].filter(Boolean).join(", ")} {a.blocked && <span class="tag bad">{text("aliasBlocked")}</span>} {a !== link && <Ago at={a.created_at} />}</td>
              <td class="num">{count(a)}</td>
              <td>{writes && a !== link && <button type="button" class="small danger" aria-label={text("removeAliasOf", { url: a.short_url })} onClick={() => setOpen(a as Alias)}>{shared("remove")}</button>}</td>
            </tr>
          ))}
        </Table>
      )}
      {open === "add" && (
        <Dialog title={ofLinks("addAlias")} close={() => setOpen(undefined)}>
          <AliasForm link={link} made={(data, _, response) => done(data, response)} />
        </Dialog>
      )}
      {open && open !== "add" && (
        <Confirm
          title={text("removeAlias")} action={shared("remove")} close={() => setOpen(undefined)}
          run={async () => {
            const { data, response } = await answer(client.DELETE("/api/v1/urls/{code}/aliases/{alias}", {
              params: { path: { code: link.short_code, alias: open.short_code }, query: { domain: link.domain, alias_domain: open.domain, wait: "all" } },
            }));
            done(data, response, text("aliasRemoved"));
          }}
        >
          <p>{text("removeAliasAsk", { url: open.short_url })}</p>
        </Confirm>
      )}
    </section>
  );
}
