import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { text as shared } from "../../messages/app";

/** Once shows a secret that is never shown again. */
export function Once({ title, warning, label, secret, close }: { title: string; warning: string; label: string; secret: string; close: () => void }) {
  return (
    <Dialog title={title} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          close();
        }}
      >
        <p class="notice warn">{warning}</p>
        <div class="row">
          <code class="secret" aria-label={label}>{secret}</code>
          <Copy value={secret} label={label} />
        </div>
        <footer><button class="primary">{shared("done")}</button></footer>
      </form>
    </Dialog>
  );
}
