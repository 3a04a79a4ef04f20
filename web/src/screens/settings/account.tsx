import { useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { useAct, useLoad } from "../../app/load";
import { loadMe, me } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text } from "../../messages/settings";
import { Await, Trouble } from "../../ui/failure";
import { Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { Ago, Moment } from "../../ui/time";
import { toast } from "../../ui/toast";
import { SecondFactor } from "./factor";

/** Account is of the user who has signed in. */
export function Account() {
  const user = me.value?.user;
  if (me.value?.credential !== "session" || !user) return <p class="notice">{text("noAccount")}</p>;
  return (
    <>
      <Profile user={user} />
      <Password />
      <SecondFactor />
      <Sessions />
    </>
  );
}

function Profile({ user }: { user: Schemas["User"] }) {
  const [name, setName] = useState(user.name);
  const act = useAct();
  return (
    <form
      class="card" aria-labelledby="profile-title"
      onSubmit={(e) => {
        e.preventDefault();
        void act.run(async () => {
          await ask(client.PATCH("/api/v1/me", { body: { name } }));
          await loadMe();
          toast(text("saved"));
        });
      }}
    >
      <h2 id="profile-title">{text("profile")}</h2>
      <p class="quiet">{user.email}</p>
      <Field label={text("name")} required maxLength={100} autocomplete="name" dir="auto" value={name} set={setName} fault={act.failure?.fields["name"]} />
      <Trouble failure={act.failure} />
      <div class="row"><button disabled={act.busy}>{shared("save")}</button></div>
    </form>
  );
}

function Password() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [short, setShort] = useState(false);
  const act = useAct();
  return (
    <form
      class="card" aria-labelledby="password-title"
      onSubmit={(e) => {
        e.preventDefault();
        setShort([...next].length < 12);
        if ([...next].length < 12) return;
        void act.run(async () => {
          await ask(client.PATCH("/api/v1/me", { body: { password: next, ...(current ? { current_password: current } : {}) } }));
          setCurrent("");
          setNext("");
          toast(text("passwordChanged"));
        });
      }}
    >
      <h2 id="password-title">{text("changePassword")}</h2>
      <input type="text" name="username" autocomplete="username" value={me.value?.user?.email} hidden readOnly />
      <div class="form-row">
        <Field label={text("currentPassword")} type="password" autocomplete="current-password" value={current} set={setCurrent} fault={act.failure?.fields["current_password"]} />
        <Field
          label={shared("newPassword")} type="password" autocomplete="new-password" required value={next} set={setNext} hint={<>{text("passwordRules")} {text("otherSessionsEnd")}</>}
          fault={short ? text("tooShort") : act.failure?.fields["password"]}
        />
      </div>
      <Trouble failure={act.failure} />
      <div class="row"><button disabled={act.busy}>{text("changePassword")}</button></div>
    </form>
  );
}

function Sessions() {
  const sessions = useLoad((signal) => ask(client.GET("/api/v1/me/sessions", { signal })), []);
  const act = useAct();
  const heading = useRef<HTMLHeadingElement>(null);
  const end = (work: () => Promise<unknown>, done: string) => act.run(async () => {
    await work();
    toast(done);
    heading.current?.focus(); // the button is gone
    sessions.reload();
  });
  return (
    <section class="card" aria-labelledby="sessions-title">
      <div class="head">
        <h2 id="sessions-title" class="grow" tabIndex={-1} ref={heading}>{text("sessions")}</h2>
        {(sessions.data?.sessions.length ?? 0) > 1 && (
          <button type="button" class="danger" disabled={act.busy} onClick={() => void end(() => ask(client.DELETE("/api/v1/me/sessions")), text("othersEnded"))}>{text("endOthers")}</button>
        )}
      </div>
      <Trouble failure={act.failure} />
      <Await of={sessions}>{(list) => (
        <Table title={text("sessions")} look="roomy" heads={[text("program"), text("address"), text("began"), text("lastUsed"), null]}>
          {list.sessions.map((s) => (
            <tr key={s.id}>
              <td dir="auto">{program(s.user_agent)} {s.current && <span class="tag good">{text("thisSession")}</span>}</td>
              <td>{s.address || shared("unknown")}</td>
              <td><Moment at={s.created_at} /></td>
              <td><Ago at={s.last_used_at} /></td>
              <td>
                {!s.current && (
                  <button
                    type="button" class="small danger" disabled={act.busy} aria-label={text("endSession", { name: program(s.user_agent) })}
                    onClick={() => void end(() => ask(client.DELETE("/api/v1/me/sessions/{id}", { params: { path: { id: s.id } } })), text("sessionEnded"))}
                  >
                    {text("end")}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}</Await>
    </section>
  );
}

/** program names a browser and its system, or the program as it named itself. */
function program(agent: string): string {
  const browser = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]].find(([sign]) => agent.includes(sign!))?.[1];
  const system = ["iPhone", "iPad", "Android", "Windows", "Mac OS X", "CrOS", "Linux"].find((s) => agent.includes(s));
  return browser ? [browser, system].filter(Boolean).join(", ") : agent || shared("unknown");
}
