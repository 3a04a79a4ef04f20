import { useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useAct } from "../../app/load";
import { loadMe, me } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/settings";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Trouble } from "../../ui/failure";
import { Field } from "../../ui/field";
import { toast } from "../../ui/toast";

type Begun = Schemas["NewSecondFactor"];

type Asking = { is: "begin" } | { is: "confirm"; begun: Begun } | { is: "renew" } | { is: "off" } | { is: "codes"; codes: readonly string[] };

/** SecondFactor turns the codes of an authenticator app on and off. */
export function SecondFactor() {
  const [asking, setAsking] = useState<Asking>();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const act = useAct();
  const heading = useRef<HTMLHeadingElement>(null);
  const state = me.value?.second_factor;
  if (!state) return null;
  const open = (next: Asking | undefined) => {
    setAsking(next);
    setPassword("");
    setCode("");
    act.clear();
    // The button that opened the dialog may be gone.
    if (!next) setTimeout(() => document.activeElement === document.body && heading.current?.focus());
  };
  const by = password ? { current_password: password } : {};
  const submit = () => act.run(async () => {
    switch (asking?.is) {
      case "begin":
        return open({ is: "confirm", begun: await ask(client.POST("/api/v1/me/second-factor", { body: by })) });
      case "confirm":
      case "renew": {
        const given = { body: { code: code.trim() } };
        const { recovery_codes } = await ask(asking.is === "renew" ? client.POST("/api/v1/me/second-factor/recovery-codes", given) : client.PUT("/api/v1/me/second-factor", given));
        open({ is: "codes", codes: recovery_codes });
        return loadMe();
      }
      case "off":
        await ask(client.DELETE("/api/v1/me/second-factor", { body: { ...by, code: code.trim() } }));
        await loadMe();
        toast(text("factorOff"));
        return open(undefined);
      default:
        return open(undefined);
    }
  });
  const titles = { begin: text("turnOn"), confirm: text("turnOn"), renew: text("renewCodes"), off: text("turnOff"), codes: shared("done") };
  return (
    <section class="card" aria-labelledby="factor-title">
      <h2 id="factor-title" tabIndex={-1} ref={heading}>{text("factor")}</h2>
      <p>{state.on ? text("factorOn", { n: state.recovery_codes_left }) : text("factorOff")}</p>
      <div class="row">
        {!state.on && <button type="button" onClick={() => open({ is: "begin" })}>{text("turnOn")}</button>}
        {state.on && <button type="button" onClick={() => open({ is: "renew" })}>{text("renewCodes")}</button>}
        {state.on && <button type="button" class="danger" onClick={() => open({ is: "off" })}>{text("turnOff")}</button>}
      </div>
      {asking && (
        <Dialog key={asking.is} title={asking.is === "codes" ? text("recoveryTitle") : text("factor")} close={() => open(undefined)}>
          <form
            onSubmit={(e) => {
              e.preventDefault();
              void submit();
            }}
          >
            {asking.is === "confirm" && (
              <>
                <p>{text("scan")}</p>
                <img class="qr" alt={text("qr")} src={`data:image/svg+xml,${encodeURIComponent(asking.begun.qr_svg)}`} />
                <p class="hint">{text("secretText")}</p>
                <div class="row"><code class="secret">{asking.begun.secret}</code><Copy value={asking.begun.secret} label={text("secretText")} /></div>
              </>
            )}
            {asking.is === "codes" && (
              <>
                <p class="notice warn" tabIndex={-1} autofocus>{text("recoveryOnce")}</p>
                <ul class="secret mono">{asking.codes.map((c) => <li key={c}>{c}</li>)}</ul>
                <Copy value={asking.codes.join("\n")} label={text("recoveryTitle")} />
              </>
            )}
            {(asking.is === "begin" || asking.is === "off") && (
              <Field label={text("passwordIfAny")} type="password" autocomplete="current-password" autofocus value={password} set={setPassword} fault={act.failure?.fields["current_password"]} />
            )}
            {(asking.is === "confirm" || asking.is === "renew" || asking.is === "off") && (
              <Field label={textOf(asking.is === "confirm" ? "appCode" : "anyCode")} autocomplete="one-time-code" spellcheck={false} maxLength={40} required autofocus={asking.is !== "off"} value={code} set={setCode} fault={act.failure?.fields["code"]} />
            )}
            <Trouble failure={act.failure} />
            <footer>
              {asking.is !== "codes" && <button type="button" onClick={() => open(undefined)}>{shared("cancel")}</button>}
              <button class={asking.is === "off" ? "danger" : "primary"} disabled={act.busy}>{titles[asking.is]}</button>
            </footer>
          </form>
        </Dialog>
      )}
    </section>
  );
}
