import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { text } from "../messages/app";
import { Dialog } from "../ui/dialog";
import { Trouble } from "../ui/failure";
import { Field } from "../ui/field";
import { Failure, sessionEnded } from "./api";
import { useAct } from "./load";
import { me, notKept, signIn } from "./session";
import { setTitle } from "./shell";

/** SignInScreen signs a user in by password, or by the one-time token after the # of the address. */
export function SignInScreen() {
  const { path, route } = useLocation();
  const [token, setToken] = useState(() => (path === "/console/sign-in" ? decodeURIComponent(location.hash.slice(1)) : ""));
  const [used, setUsed] = useState(false);
  const [needsCode, setNeedsCode] = useState(false);
  const act = useAct();
  const done = () => {
    if (path === "/console/sign-in" && !notKept.value) route("/console/links", true);
  };
  useEffect(() => setTitle(text("signIn")), []);
  const begun = useRef(false);
  const follow = (code?: string) =>
    act.run(async () => {
      try {
        await signIn({ sign_in_token: token, ...(code ? { code } : {}) });
        if (notKept.value) setToken(""); // it is used up
        done();
      } catch (e) {
        if (!(e instanceof Failure) || e.status !== 401) throw e;
        if (e.kind === "second-factor-required") {
          setNeedsCode(true);
          if (code) throw e; // it is wrong
          return;
        }
        setUsed(true);
        setToken("");
      }
    });
  useEffect(() => {
    if (!token || begun.current) return;
    begun.current = true;
    history.replaceState(null, "", "/console/sign-in"); // the token is worth a session
    void follow();
  }, []);
  return (
    <main class="center">
      <div class="card">
        <h1>{text("welcome")}</h1>
        <Insecure />
        {used && <p class="notice bad" role="alert">{text("linkUsed")}</p>}
        {token && !needsCode && <p role="status">{text("signingIn")}</p>}
        {token && needsCode ? <CodeForm act={act} submit={(code) => void follow(code)} /> : token ? <Trouble failure={act.failure} retry={() => void follow()} /> : <PasswordForm done={done} />}
      </div>
    </main>
  );
}

/** Insecure says why no one can sign in at this address: browsers keep the session's cookie
 * over https and on localhost only, or not at all. */
function Insecure() {
  const failed = notKept.value;
  if (isSecureContext && !failed) return null;
  return <p key={failed} class={failed ? "notice bad" : "notice warn"} role={failed ? "alert" : undefined}>{isSecureContext ? text("notKept") : text("insecure")}</p>;
}

function CodeForm({ act, submit }: { act: ReturnType<typeof useAct>; submit: (code: string) => void }) {
  const [code, setCode] = useState("");
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        submit(code);
      }}
    >
      <Field label={text("code")} value={code} set={setCode} autocomplete="one-time-code" inputMode="text" required autofocus />
      <Trouble failure={act.failure} />
      <button class="primary" disabled={act.busy}>{text("signIn")}</button>
    </form>
  );
}

/** PasswordForm asks for address and password, and for a code when the account needs one. */
function PasswordForm({ done, address = "" }: { done: () => void; address?: string }) {
  const [email, setEmail] = useState(address);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [withCode, setWithCode] = useState(false);
  const act = useAct();
  const needsCode = act.failure?.kind === "second-factor-required";
  useEffect(() => {
    if (needsCode) setWithCode(true);
  }, [needsCode]);
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        void act.run(async () => {
          await signIn({ email, password, ...(withCode && code ? { code: code.trim() } : {}) });
          done();
        });
      }}
    >
      <Field label={text("email")} type="email" name="email" autocomplete="username" required value={email} set={setEmail} fault={act.failure?.fields["email"]} />
      <Field label={text("password")} type="password" name="password" autocomplete="current-password" required value={password} set={setPassword} />
      {withCode && <Field label={text("code")} name="code" autocomplete="one-time-code" required autofocus value={code} set={setCode} />}
      {act.failure && !(needsCode && !code) && (act.failure.kind === "unauthorized"
        ? <p class="notice bad" role="alert">{text("failSignIn", { detail: act.failure.message })}</p>
        : <Trouble failure={act.failure} />)}
      <button class="primary" disabled={act.busy}>{text("signIn")}</button>
    </form>
  );
}

/** SignInAgain asks a user whose session has ended to sign in, over the screen, which keeps
 * what was typed. */
export function SignInAgain() {
  return (
    <Dialog title={text("signIn")} close={() => { sessionEnded.value = false; }}>
      <p>{text("sessionEnded")}</p>
      <PasswordForm done={() => undefined} address={me.value?.user?.email ?? ""} />
    </Dialog>
  );
}
