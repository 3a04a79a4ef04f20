import { useEffect, useId, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../app/api";
import { useAct, useLoad } from "../app/load";
import { text } from "../messages/links";
import { Await, Trouble } from "./failure";
import { Field } from "./field";
import { download } from "./csv";

interface Look {
  size: number;
  dark: string;
  light: string;
}

type Named = Pick<Schemas["Link"], "short_code" | "short_url" | "domain">;

/** drawn asks for the picture. The request carries the workspace, which an address in an
 * img could not. */
function drawn(link: Named, look: Look, format: "svg" | "png", signal?: AbortSignal): Promise<Blob> {
  return ask(client.GET("/api/v1/urls/{code}/qr", {
    params: {
      path: { code: link.short_code },
      query: { domain: link.domain, format, size: look.size, dark: look.dark.slice(1), light: look.light.slice(1) },
    },
    parseAs: "blob", ...(signal ? { signal } : {}),
  })) as unknown as Promise<Blob>;
}

/** QR shows the QR code of a link's short URL, with its size and colours, and stores it. */
export function QR({ link }: { link: Named }) {
  const [size, setSize] = useState("512");
  const [dark, setDark] = useState("#000000");
  const [light, setLight] = useState("#ffffff");
  const look: Look = { size: Math.min(2048, Math.max(64, Math.round(Number(size)) || 512)), dark, light };
  const settled = useSettled(look);
  const act = useAct();
  // A data URL: the content security policy allows no other made-up address.
  const picture = useLoad(
    async (signal) => `data:image/svg+xml,${encodeURIComponent(await (await drawn(link, settled, "svg", signal)).text())}`,
    [link.short_code, link.domain, settled.size, settled.dark, settled.light],
  );
  const keep = (format: "svg" | "png") => void act.run(async () => download(`${link.short_code}.${format}`, await drawn(link, look, format)));
  return (
    <div class="qr-code">
      <div class="qr-picture">
        <Await of={picture}>{(src) => <img src={src} width="200" height="200" alt={text("qrOf", { url: link.short_url })} />}</Await>
      </div>
      <div class="qr-look">
        <Field label={text("qrSize")} type="number" min={64} max={2048} inputMode="numeric" value={size} set={setSize} />
        <div class="row">
          <Colour label={text("qrDark")} value={dark} set={setDark} />
          <Colour label={text("qrLight")} value={light} set={setLight} />
        </div>
        <div class="row">
          {(["svg", "png"] as const).map((format) => (
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

/** useSettled returns a look once it has not changed for a moment. */
function useSettled(look: Look): Look {
  const [settled, setSettled] = useState(look);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(look), 200);
    return () => clearTimeout(timer);
  }, [look.size, look.dark, look.light]);
  return settled;
}
