import { useLocation } from "preact-iso/router";
import { useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text as inChart } from "../../messages/chart";
import { text } from "../../messages/overview";
import { Confirm } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import { Choice, Field } from "../../ui/field";
import { zone } from "../link/span";
import { Once } from "../settings/once";
import { viewOf } from "./group";

type View = Schemas["View"];

/** Views saves the filters of the address under a name, and lists those that are saved. With
 * a link or a tag, it publishes pages of the clicks, and lists them. */
export function Views({ link, tag }: { link?: Schemas["Link"]; tag?: string }) {
  const pages = link ?? tag;
  const { query } = useLocation();
  const [name, setName] = useState("");
  const [days, setDays] = useState("30");
  const [asked, setAsked] = useState<{ of: View; name?: string }>();
  const [path, setPath] = useState("");
  const act = useAct();
  const list = useLoad(async (signal) => {
    const { views } = await ask(client.GET("/api/v1/stats/views", { signal }));
    const host = link && (await ask(client.GET("/api/v1/domains", { signal }))).domains.find((d) => d.shared)?.host;
    return views.filter((v) => (link ? v.short_code === link.short_code && (v.domain || host) === link.domain : tag ? v.tag === tag : !v.public));
  }, [link?.id, tag]);
  const save = async () => {
    const made = await ask(client.POST("/api/v1/stats/views", {
      body: pages
        ? { name, public: true, ...(link ? { short_code: link.short_code, domain: link.domain } : { tag: tag! }), days: Number(days), tz: zone }
        : { name, query: viewOf(query) },
    }));
    setName("");
    setPath(made.path ?? "");
    list.reload();
  };
  const change = async () => {
    const at = { params: { path: { id: asked!.of.id } } };
    await ask(asked!.name === undefined ? client.DELETE("/api/v1/stats/views/{id}", at) : client.PATCH("/api/v1/stats/views/{id}", { ...at, body: { name: asked!.name } }));
    setAsked(undefined);
    list.reload();
  };
  const writes = can("links:write");
  const title = pages ? text("pages") : text("views");
  const away = pages ? text("withdraw") : shared("remove");
  return (
    <details class="card">
      <summary>{title}</summary>
      {pages && <p class="hint">{link ? text("pagesHint") : text("tagPagesHint", { tag: tag! })}</p>}
      <Await of={list}>
        {(views) => views.length > 0 && (
          <ul class="lines">
            {views.map((v) => (
              <li key={v.id}>
                {pages ? <span class="clip grow" dir="auto">{v.name}</span> : <a class="clip grow" dir="auto" href={`/console/overview?${v.query}`}>{v.name}</a>}
                {writes && (
                  <>
                    <button type="button" class="small" aria-label={`${text("rename")}: ${v.name}`} onClick={() => setAsked({ of: v, name: v.name })}>{text("rename")}</button>
                    <button type="button" class="small" aria-label={`${away}: ${v.name}`} onClick={() => setAsked({ of: v })}>{away}</button>
                  </>
                )}
              </li>
            ))}
          </ul>
        )}
      </Await>
      {writes && (
        <form
          class="form-row"
          onSubmit={(e) => {
            e.preventDefault();
            void act.run(save);
          }}
        >
          <Field label={pages ? text("pageName") : text("viewName")} value={name} set={setName} required maxLength={100} dir="auto" autocomplete="off" fault={act.failure?.fields["name"]}>
            <button disabled={act.busy}>{pages ? text("publish") : shared("save")}</button>
          </Field>
          {pages && <Choice label={text("days")} value={days} set={setDays} options={["7", "30", "90", "366"].map((n) => [n, text("lastDays", { n: Number(n) })] as const)} />}
        </form>
      )}
      <Trouble failure={act.failure} />
      {asked && (
        <Confirm mild={asked.name !== undefined} title={`${asked.name === undefined ? away : text("rename")}: ${asked.of.name}`} action={asked.name === undefined ? away : text("rename")} run={change} close={() => setAsked(undefined)}>
          {asked.name !== undefined && <Field label={inChart("name")} value={asked.name} set={(n) => setAsked({ of: asked.of, name: n })} required maxLength={100} dir="auto" />}
        </Confirm>
      )}
      {path && <Once title={text("published")} warning={text("pageOnce")} label={text("pageAddress")} secret={location.origin + path} close={() => setPath("")} />}
    </details>
  );
}
