import { useState } from "preact/hooks";
import { answer, ask, client, type Schemas } from "../app/api";
import { dateTime } from "../app/i18n";
import { useAct, useLoad } from "../app/load";
import { text } from "../messages/links";
import { Trouble } from "./failure";
import { Choice, Field } from "./field";

type Link = Schemas["Link"];

/** printOf names the print of an alias: its day and its batch, where they are known. */
export function printOf({ printed_on: day, batch }: { printed_on?: string; batch?: string }): string {
  const on = day && text("printedOn", { day: dateTime(`${day}T00:00`, { dateStyle: "medium" }) });
  return [on, batch && text("ofBatch", { batch })].filter(Boolean).join(", ");
}

/** AliasForm adds an alias to a link, and waits for the edges. */
export function AliasForm({ link, code = "", made }: {
  link: Pick<Link, "short_code" | "domain">; code?: string; made: (link: Link, alias: Schemas["Alias"], response: Response) => void;
}) {
  const [typed, setTyped] = useState({ short_code: code, domain: link.domain, title: "", printed_on: "", batch: "" });
  const domains = useLoad((signal) => ask(client.GET("/api/v1/domains", { signal })), []);
  const served = domains.data?.domains.filter((d) => d.state === "approved" || d.state === "proved") ?? [];
  const act = useAct();
  const set = (name: keyof typeof typed) => (value: string) => setTyped({ ...typed, [name]: value });
  const add = () => act.run(async () => {
    const { printed_on, batch, ...rest } = typed;
    const body = { ...rest, short_code: typed.short_code.trim(), ...(printed_on ? { printed_on } : {}), ...(batch ? { batch } : {}) };
    const { data, response } = await answer(client.POST("/api/v1/urls/{code}/aliases", {
      params: { path: { code: link.short_code }, query: { domain: link.domain, wait: "all" } }, body,
    }));
    const all = data.aliases ?? [];
    made(data, all.find((a) => a.short_code === body.short_code && a.domain === body.domain) ?? all.at(-1)!, response);
  });
  return (
    <form
      class="stack"
      onSubmit={(e) => {
        e.preventDefault();
        void add();
      }}
    >
      <div class="form-row">
        <Field label={text("alias")} required autocomplete="off" spellcheck={false} dir="ltr" value={typed.short_code} set={set("short_code")} />
        {served.length > 1 && <Choice label={text("domain")} value={typed.domain} set={set("domain")} options={served.map((d) => [d.host, d.host] as const)} />}
        <Field label={text("aliasTitle")} placeholder={text("aliasExample")} dir="auto" autocomplete="off" value={typed.title} set={set("title")} />
        <Field label={text("printed")} type="date" value={typed.printed_on} set={set("printed_on")} />
        <Field label={text("batch")} maxLength={100} dir="auto" autocomplete="off" value={typed.batch} set={set("batch")} />
      </div>
      <Trouble failure={act.failure} />
      <div><button class="primary" disabled={act.busy}>{text("addAlias")}</button></div>
    </form>
  );
}
