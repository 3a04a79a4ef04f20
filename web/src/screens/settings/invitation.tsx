import { useEffect, useState } from "preact/hooks";
import { ask, client } from "../../app/api";
import { useAct } from "../../app/load";
import { text as shared } from "../../messages/app";
import { text } from "../../messages/settings";
import { Trouble } from "../../ui/failure";
import { Field } from "../../ui/field";

const tokenOfAddress = () => decodeURIComponent(location.hash.slice(1));

/** Invitation sets the password of an account, with the token after the # of the address. */
export default function Invitation() {
  const [token, setToken] = useState(tokenOfAddress);
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [fault, setFault] = useState<"tooShort" | "different">();
  const [done, setDone] = useState(false);
  const act = useAct();
  useEffect(() => {
    const take = () => {
      const next = tokenOfAddress();
      if (!next) return;
      setToken(next);
      setDone(false);
      act.clear();
      history.replaceState(null, "", "/console/invitation"); // the token is worth an account
    };
    take();
    addEventListener("hashchange", take); // another invitation was opened in the same tab
    return () => removeEventListener("hashchange", take);
  }, []);
  const refused = act.failure && [401, 404, 410].includes(act.failure.status);
  return (
    <div class="card">
      <h1>{shared("setPassword")}</h1>
      {done ? (
        <>
          <p class="notice good" role="status">{shared("passwordSet")}</p>
          <a class="button primary" href="/console/sign-in">{shared("signIn")}</a>
        </>
      ) : !token ? <p class="notice warn">{text("noToken")}</p> : (
        <form
          noValidate
          onSubmit={(e) => {
            e.preventDefault();
            const wrong = [...password].length < 12 ? "tooShort" : password !== again ? "different" : undefined;
            setFault(wrong);
            if (wrong) return;
            void act.run(async () => {
              await ask(client.POST("/api/v1/invitation", { body: { token, password } }));
              setDone(true);
            });
          }}
        >
          <p>{text("invitationLead")}</p>
          <Field
            label={shared("newPassword")} type="password" autocomplete="new-password" required autofocus value={password} set={setPassword} hint={text("passwordRules")}
            fault={fault === "tooShort" ? text("tooShort") : act.failure?.fields["password"] ?? (act.failure?.status === 422 ? act.failure.message : undefined)}
          />
          <Field label={text("repeat")} type="password" autocomplete="new-password" required value={again} set={setAgain} fault={fault === "different" ? text("different") : undefined} />
          {refused ? <p class="notice bad" role="alert">{text("badToken")}</p> : act.failure?.status !== 422 && <Trouble failure={act.failure} />}
          <button class="primary" disabled={act.busy}>{shared("setPassword")}</button>
        </form>
      )}
    </div>
  );
}
