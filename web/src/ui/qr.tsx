import { useId, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../app/api";
import { useAct, useLoad, useSettled } from "../app/load";
import { can } from "../app/session";
import { text } from "../messages/links";
import { AliasForm } from "./alias";
import { Await, Trouble } from "./failure";
import { Choice, Field } from "./field";
import { download } from "./csv";

interface Look {
  size: number;
  mm: number;
  margin: number;
  level: "L" | "M" | "Q" | "H";
  dark: string;
  light: string;
}

type Named = Pick<Schemas["Alias"], "short_code" | "short_url" | "domain">;

/** drawn asks for the picture. The request carries the workspace, which an address in an
 * img could not. */
function drawn(link: Named, look: Look, format: "svg" | "png" | "pdf", signal?: AbortSignal): Promise<Blob> {
  return ask(client.GET("/api/v1/urls/{code}/qr", {
    params: {
      path: { code: link.short_code },
      query: { domain: link.domain, format, size: look.size, ...(look.mm ? { millimetres: look.mm } : {}), margin: look.margin, level: look.level, dark: look.dark.slice(1), light: look.light.slice(1) },
    },
    parseAs: "blob", ...(signal ? { signal } : {}),
  })) as unknown as Promise<Blob>;
}

/** QR shows the QR code of an address of a link, with its size and colours, and stores it. An
 * alias for scans tells them from other clicks. */
export function QR({ link: own, made }: { link: Named & Pick<Schemas["Link"], "aliases">; made?: (now: Schemas["Link"], response: Response) => void }) {
  const [aliases, setAliases] = useState(own.aliases ?? []);
  const [chosen, setChosen] = useState(own.short_url);
  const [adding, setAdding] = useState(false);
  const addresses: readonly Named[] = [own, ...aliases];
  const link = addresses.find((a) => a.short_url === chosen) ?? own;
  const [size, setSize] = useState("512");
  const [mm, setMM] = useState("");
  const [margin, setMargin] = useState("4");
  const [level, setLevel] = useState<Look["level"]>("M");
  const [dark, setDark] = useState("#000000");
  const [light, setLight] = useState("#ffffff");
  const within = (typed: string, least: number, most: number, other: number) => (typed ? Math.min(most, Math.max(least, Math.round(Number(typed)) || 0)) : other);
  const look: Look = { size: within(size, 64, 2048, 512), mm: within(mm, 10, 180, 0), margin: within(margin, 0, 16, 4), level, dark, light };
  const settled = useSettled(look);
  const act = useAct();
  // A data URL: the content security policy allows no other made-up address.
  const picture = useLoad(
    async (signal) => `data:image/svg+xml,${encodeURIComponent(await (await drawn(link, settled, "svg", signal)).text())}`,
    [link.short_code, link.domain, JSON.stringify(settled)],
  );
  const add = (now: Schemas["Link"], alias: Named, response: Response) => {
    setAliases(now.aliases ?? []);
    setChosen(alias.short_url);
    setAdding(false);
    made?.(now, response);
  };
  const keep = (format: "svg" | "png" | "pdf") => void act.run(async () => download(`${link.short_code}.${format}`, await drawn(link, look, format)));
  return (
    <div class="qr-code">
      <div class="qr-picture">
        <Await of={picture}>{(src) => <img src={src} width="200" height="200" alt={text("qrOf", { url: link.short_url })} />}</Await>
      </div>
      <div class="qr-look">
        {aliases.length > 0 && <Choice label={text("qrAddress")} value={chosen} set={setChosen} options={addresses.map((a) => [a.short_url, a.short_url.replace(/^\w+:\/\//, "")] as const)} />}
        {adding
          ? <AliasForm link={own} code={`${own.short_code}-qr`} made={add} />
          : can("links:write") && aliases.length < 16 && (
            <>
              <div><button type="button" class="small" onClick={() => setAdding(true)}>{text("qrAlias")}</button></div>
              <p class="hint">{text("qrAliasHint")}</p>
            </>
          )}
        <Field label={text("qrSize")} type="number" min={64} max={2048} inputMode="numeric" value={size} set={setSize} />
        <Field label={text("qrMM")} type="number" min={10} max={180} inputMode="numeric" value={mm} set={setMM} />
        <Field label={text("qrMargin")} type="number" min={0} max={16} inputMode="numeric" value={margin} set={setMargin} />
        <Choice label={text("qrLevel")} value={level} set={setLevel} options={[["L", "L: 7 %"], ["M", "M: 15 %"], ["Q", "Q: 25 %"], ["H", "H: 30 %"]]} />
        <div class="row">
          <Colour label={text("qrDark")} value={dark} set={setDark} />
          <Colour label={text("qrLight")} value={light} set={setLight} />
        </div>
        <div class="row">
          {(["svg", "png", "pdf"] as const).map((format) => (
            <button key={format} type="button" class="small" disabled={act.busy} onClick={() => keep(format)}>
              {text("download", { format: format.toUpperCase() })}
            </button>
          ))}
        </div>
        <Trouble failure={act.failure} />
      </div>
    </div>
  );
}

function Colour({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  const id = useId();
  return (
    <span class="check">
      <input type="color" id={id} value={value} onInput={(e) => set(e.currentTarget.value)} />
      <label for={id}>{label}</label>
    </span>
  );
}
