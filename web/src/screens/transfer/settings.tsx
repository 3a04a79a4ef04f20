import { number } from "../../app/i18n";
import { text as ofLink, textOf as linkText } from "../../messages/link";
import { text, textOf } from "../../messages/transfer";
import { Check, Choice, Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { importable } from "../link/fields";
import { leftOut, notationsOf, twice, type Decisions, type Import } from "./mapping";

/** Fields that only imports have, or that are named otherwise elsewhere. */
const others = [
  "custom_code", "short_url", "short_code", "custom_short_urls", "aliases", "domain", "created_at", "created_by", "inactive", "click_count",
  "has_password", "password_hash",
] as const;

/** nameOf names a field. The API's name is for fields of single sources. */
function nameOf(field: string): string {
  const other = others.find((o) => o === field);
  if (other === "domain") return ofLink("domain");
  if (other) return textOf(other);
  const known = importable.find((f) => f === field) as Exclude<(typeof importable)[number], "custom_code" | "domain"> | undefined;
  return known ? linkText(known) : field;
}

const separators = [",", ";", "|", " "] as const;
const notations = ["iso", "dmy", "mdy", "ymd", "words", "unix", "unix_ms"] as const;

/** Mapping shows the first rows of a file, and lets the user decide what becomes of them. */
export function Mapping({ of: i, value: d, set, domains }: { of: Import; value: Decisions; set: (d: Decisions) => void; domains: readonly string[] }) {
  const { columns, tags = ",", dates = "" } = d.mapping;
  const fields = Object.values(columns);
  const map = (change: Partial<Import["mapping"]>) => set({ ...d, mapping: { ...d.mapping, ...change } });
  const left = leftOut(i, d.mapping);
  const fit = notationsOf(i.notations);
  const options = [["", text("leave")], ...[...new Set(["original_url", ...others, ...importable, ...fields, ...Object.values(i.suggested.columns)])]
    .filter(Boolean).map((f) => [f, nameOf(f)] as const)] as const;
  return (
    <>
      <p>{text("readAs", { format: i.format, encoding: i.encoding, n: i.rows })}</p>
      <div class="cards">
        <Choice
          label={text("into")} hint={text("intoHint")} value={d.domain} set={(domain) => set({ ...d, domain })}
          options={[["", text("sharedDomain", { domain: domains[0] ?? "" })], ...[...new Set([...domains, d.domain])].filter(Boolean).map((h) => [h, h] as const)]}
        />
        <Field label={text("zone")} hint={text("zoneHint")} value={d.time_zone} set={(time_zone) => set({ ...d, time_zone })} required maxLength={64} offers={Intl.supportedValuesOf("timeZone")} />
        {fit.length > 0 && (
          <Choice
            label={text("dates")} value={dates} set={(dates) => map({ dates })}
            options={[...(dates ? [] : [["", text("choose")] as const]), ...notations.filter((n) => fit.includes(n) || n === dates).map((n) => [n, textOf(`dates_${n}`)] as const)]}
          />
        )}
        {["tags", "custom_short_urls", "aliases"].some((f) => fields.includes(f)) && (
          <Choice label={text("between")} value={tags} set={(tags) => map({ tags })} options={[...new Set([...separators, tags])].map((s) => [s, s === " " ? text("blank") : s] as const)} />
        )}
      </div>
      <div>
        <Check label={text("keepCodes")} checked={d.keep_codes} set={(keep_codes) => set({ ...d, keep_codes })} />
        <p class="hint">{text("keepCodesHint")}</p>
        <Check label={text("dedupe")} checked={d.dedupe} set={(dedupe) => set({ ...d, dedupe })} />
        <p class="hint">{text("dedupeHint")}</p>
      </div>
      {left.length > 0 && <p class="notice warn" dir="auto">{text("leftOut", { names: left.join(", ") })}</p>}
      {i.notes.map((n) => <p key={n} class="notice"><span lang="en">{n}</span></p>)}
      {twice(d.mapping).map((f) => <p key={f} class="notice bad" role="alert">{text("twice", { name: nameOf(f) })}</p>)}
      <Table title={text("sample")} look="sample" heads={[[text("line")], text("becomes"), ...(i.columns.length ? i.columns : [text("content")])]}>
        {i.columns.length > 0 && (
          <tr>
            <td />
            <th scope="row">{text("field")}</th>
            {i.columns.map((c) => (
              <td key={c}>
                <select aria-label={text("fieldOf", { name: c })} value={columns[c] ?? ""} onChange={(e) => map({ columns: { ...columns, [c]: e.currentTarget.value } })}>
                  {options.map(([f, name]) => <option key={f} value={f}>{name}</option>)}
                </select>
              </td>
            ))}
          </tr>
        )}
        {i.sample?.map((r) => (
          <tr key={r.line}>
            <td class="num">{number(r.line)}</td>
            <td class="short" dir="auto">{r.link ? <><code>{r.link.custom_code || text("newCode")}</code> → {r.link.original_url}</> : <span class="fault" lang="en">{r.refused}</span>}</td>
            {r.cells.map((cell, at) => (
              <td key={at} dir="auto" class={left.includes(i.columns[at] ?? "") ? "short quiet" : "short"} colSpan={r.cells.length === 1 ? Math.max(1, i.columns.length) : 1}>{cell}</td>
            ))}
          </tr>
        ))}
      </Table>
    </>
  );
}
