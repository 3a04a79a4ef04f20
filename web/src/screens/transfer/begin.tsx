import { useLocation } from "preact-iso/router";
import { useEffect, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { bytes, number } from "../../app/i18n";
import { useAct, useLoad } from "../../app/load";
import { me } from "../../app/session";
import { text, textOf } from "../../messages/transfer";
import { Await, Trouble } from "../../ui/failure";
import { Check, Choice, Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { begin, largest } from "./upload";

const formats = [
  ["csv", "CSV"], ["jsonl", "JSON"], ["waypost", "Waypost"], ["bitly", "Bitly"], ["rebrandly", "Rebrandly"], ["dub", "Dub"], ["shortio", "Short.io"],
  ["shlink", "Shlink"], ["yourls", "YOURLS"], ["kutt", "Kutt"], ["sink", "Sink"], ["chhoto", "Chhoto URL"], ["golink", "golink"], ["firebase", "Firebase Dynamic Links"],
] as const;
const redirects = [
  ["netlify", "_redirects: Netlify (301)"], ["cloudflare-pages", "_redirects: Cloudflare Pages (302)"],
  ["cloudflare-bulk", "CSV: Cloudflare Bulk Redirects"], ["nginx", "nginx: map, rewrite"], ["apache", "Apache: Redirect, RedirectMatch"],
] as const;
const encodings = [["utf-8", "UTF-8"], ["utf-16le", "UTF-16 LE"], ["utf-16be", "UTF-16 BE"], ["windows-1252", "Windows-1252"]] as const;

type Encoding = NonNullable<Schemas["NewImport"]["encoding"]>;

/** Begin makes an import of a file, and shows it. */
export function Begin() {
  const { route } = useLocation();
  const [format, setFormat] = useState("auto");
  const [encoding, setEncoding] = useState<Encoding>("auto");
  const [site, setSite] = useState("");
  const [raw, setRaw] = useState(false);
  const act = useAct();
  const choose = (file: File) => void act.run(async () => {
    const { id } = await begin(file, { name: file.name.slice(0, 60), format, encoding, raw, ...(site && { site }), time_zone: me.value?.workspace?.time_zone ?? "UTC" });
    route(`/console/import/${id}`);
  });
  return (
    <section class="card" aria-labelledby="import-title">
      <h2 id="import-title">{text("import")}</h2>
      <p class="quiet">{text("importLead")}</p>
      <Drop choose={choose} />
      <Trouble failure={act.failure} />
      <details>
        <summary>{text("how")}</summary>
        <div class="stack">
          <div class="cards">
            <Choice label={text("fileHolds")} value={format} set={setFormat} options={[["auto", text("auto")], ["list", text("list")], ...formats, ...redirects]} />
            <Choice label={text("encoding")} value={encoding} set={setEncoding} options={[["auto", text("auto")], ...encodings]} />
          </div>
          {redirects.some(([f]) => f === format) && <Field type="url" label={text("site")} hint={text("siteHint")} value={site} set={setSite} />}
          <div>
            <Check label={text("raw")} checked={raw} set={setRaw} />
            <p class="hint">{text("rawCellsHint")}</p>
          </div>
        </div>
      </details>
    </section>
  );
}

/** Drop takes a file that is dropped on it, or chosen. */
export function Drop({ choose }: { choose: (file: File) => void }) {
  const [over, setOver] = useState(false);
  const [why, setWhy] = useState("");
  const check = (file: File | undefined) => {
    setWhy(file && file.size > largest ? text("tooLarge", { size: bytes(file.size) }) : "");
    if (file && file.size <= largest) choose(file);
  };
  return (
    <>
      <label
        class={over ? "drop over" : "drop"}
        onDragOver={(e) => {
          e.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => {
          e.preventDefault();
          setOver(false);
          check(e.dataTransfer?.files[0]);
        }}
      >
        <strong>{text("drop")}</strong>
        <span class="hint">{text("dropHint")}</span>
        <input
          type="file"
          onChange={(e) => {
            check(e.currentTarget.files?.[0]);
            e.currentTarget.value = ""; // so that the same file can be chosen again
          }}
        />
      </label>
      {why && <p class="notice bad" role="alert">{why}</p>}
    </>
  );
}

const pause = 5000; // milliseconds between two looks at all imports

/** Imports lists the imports of the last week, also those that others or the command began. */
export function Imports() {
  const list = useLoad((signal) => ask(client.GET("/api/v1/imports", { signal })), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || list.reload(), pause);
    return () => clearInterval(timer);
  }, []);
  return (
    <section class="card" aria-labelledby="imports-title">
      <h2 id="imports-title">{text("imports")}</h2>
      <p class="quiet">{text("importsLead")}</p>
      <Await of={list}>{({ imports }) => (imports.length === 0 ? <p>{text("noImports")}</p> : (
        <Table title={text("imports")} look="data" heads={[text("file"), text("state"), [text("rows")], [textOf("created")], [text("refused")], text("begun")]}>
          {imports.map((i) => (
            <tr key={i.id}>
              <th scope="row" class="short"><a href={`/console/import/${i.id}`} dir="auto">{i.name}</a></th>
              <td><State of={i.state} /></td>
              <td class="num">{number(i.rows)}</td>
              <td class="num">{number(i.counts.created)}</td>
              <td class="num">{number(i.counts.refused)}</td>
              <td><Ago at={i.created_at} /></td>
            </tr>
          ))}
        </Table>
      ))}</Await>
    </section>
  );
}

const looks: Partial<Record<Schemas["Import"]["state"], string>> = { done: "good", stopped: "warn", failed: "bad" };

/** State shows the state of an import. */
export function State({ of }: { of: Schemas["Import"]["state"] }) {
  return <span class={`tag ${looks[of] ?? ""}`}>{textOf(of)}</span>;
}
