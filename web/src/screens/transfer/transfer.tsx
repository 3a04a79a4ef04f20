import { useRoute } from "preact-iso/router";
import { useState } from "preact/hooks";
import { ask, client, workspaceSlug } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { can, me } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text } from "../../messages/transfer";
import { download } from "../../ui/csv";
import { Trouble } from "../../ui/failure";
import { Check, Choice } from "../../ui/field";
import { Begin, Imports } from "./begin";
import { One } from "./one";

/** Transfer imports links from files, and exports them. */
export default function Transfer() {
  const { id } = useRoute().params;
  const domains = useLoad(async (signal) => {
    const all = await ask(client.GET("/api/v1/domains", { signal }));
    return all.domains.filter((d) => d.state !== "pending").sort((a, b) => Number(b.shared) - Number(a.shared)).map((d) => d.host);
  }, []);
  const trouble = <Trouble failure={domains.failure} retry={domains.reload} />;
  if (id) return <>{trouble}<One key={id} id={id} domains={domains.data ?? []} /></>;
  return (
    <>
      <h1>{shared("importExport")}</h1>
      {trouble}
      {can("links:write") ? <><Begin /><Imports /></> : <p class="notice">{text("readonly")}</p>}
      <Export domains={domains.data ?? []} />
    </>
  );
}

async function allTags(signal: AbortSignal): Promise<string[]> {
  const all: string[] = [];
  for (let after = ""; ;) {
    const page = await ask(client.GET("/api/v1/tags", { params: { query: { limit: 1000, ...(after ? { after } : {}) } }, signal }));
    all.push(...page.tags.map((t) => t.tag));
    after = page.next_after;
    if (!after) return all;
  }
}

function Export({ domains }: { domains: readonly string[] }) {
  const [format, setFormat] = useState<"csv" | "jsonl">("csv");
  const [tag, setTag] = useState("");
  const [domain, setDomain] = useState("");
  const [raw, setRaw] = useState(false);
  const [bom, setBOM] = useState(false);
  const tags = useLoad(allTags, []);
  const query = new URLSearchParams({ format });
  if (tag) query.append("tag", tag);
  if (domain) query.set("domain", domain);
  if (raw && format === "csv") query.set("raw", "true");
  if (bom && format === "csv") query.set("bom", "true");
  return (
    <section class="card" aria-labelledby="export-title">
      <h2 id="export-title">{text("export")}</h2>
      <p class="quiet">{text("exportLead")}</p>
      <Trouble failure={tags.failure} retry={tags.reload} />
      <div class="cards">
        <Choice label={text("format")} value={format} set={setFormat} options={[["csv", text("csv")], ["jsonl", text("jsonl")]]} />
        <Choice label={text("tag")} value={tag} set={setTag} options={[["", shared("all")], ...(tags.data ?? []).map((t) => [t, t] as const)]} />
        <Choice label={text("domain")} value={domain} set={setDomain} options={[["", shared("all")], ...domains.map((d) => [d, d] as const)]} />
      </div>
      {format === "csv" && (
        <div>
          <Check label={text("rawCells")} checked={raw} set={setRaw} />
          <p class="hint">{text("rawHint")}</p>
          <Check label={text("bom")} checked={bom} set={setBOM} />
        </div>
      )}
      <div class="row"><Download query={query} /></div>
    </section>
  );
}

/** Download is a plain link, because the browser writes a download to the disk as it comes.
 * A link cannot name one of several workspaces, so for their users the page asks. */
function Download({ query }: { query: URLSearchParams }) {
  const act = useAct();
  const path = `/api/v1/urls/export?${query}`;
  if ((me.value?.workspaces.length ?? 0) < 2) return <a class="button primary" href={path} download target="_self">{text("download")}</a>;
  const load = () => act.run(async () => {
    const file = await ask(client.GET("/api/v1/urls/export", { params: { query: Object.fromEntries(query) as object }, parseAs: "blob" }));
    download(`waypost-${workspaceSlug.value}.${query.get("format")}`, file as unknown as Blob);
  });
  return (
    <>
      <button type="button" class="primary" disabled={act.busy} onClick={() => void load()}>{text("download")}</button>
      <Trouble failure={act.failure} />
    </>
  );
}
