import { answer, ask, client } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { text } from "../../messages/link";
import { download } from "../../ui/csv";
import { Dialog } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import type { Place } from "./change";

/** QRCode shows the QR code of a link, and saves it as a file. */
export function QRCode({ at, url, close }: { at: Place; url: string; close: () => void }) {
  const act = useAct();
  const path = { code: at.code };
  const drawn = useLoad(async (signal) => (await ask(client.GET("/api/v1/urls/{code}/qr", { params: { path, query: { domain: at.domain } }, parseAs: "text", signal }))) as unknown as string, [at.code, at.domain]);
  const save = (format: "svg" | "png") => act.run(async () => {
    const got = await answer(client.GET("/api/v1/urls/{code}/qr", { params: { path, query: { domain: at.domain, format, size: 1024 } }, parseAs: "blob" }));
    download(`${at.code}.${format}`, got.data as unknown as Blob);
  });
  return (
    <Dialog title={text("qrOf", { url })} close={close}>
      <Await of={drawn}>
        {(svg) => <img class="qr" width="256" height="256" alt={text("qrOf", { url })} src={`data:image/svg+xml,${encodeURIComponent(svg)}`} />}
      </Await>
      <Trouble failure={act.failure} />
      <footer>
        <button type="button" disabled={act.busy} onClick={() => void save("svg")}>{text("saveAs", { format: "SVG" })}</button>
        <button type="button" disabled={act.busy} onClick={() => void save("png")}>{text("saveAs", { format: "PNG" })}</button>
      </footer>
    </Dialog>
  );
}
