import { useRef, useState } from "preact/hooks";
import { ask, client, type Schemas } from "../../app/api";
import { dateTime } from "../../app/i18n";
import { useAct, useLoad } from "../../app/load";
import { loadMe, me, operator } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/settings";
import { Confirm, focusBehind } from "../../ui/dialog";
import { Await, Trouble } from "../../ui/failure";
import { Choice, Field, Picker } from "../../ui/field";
import { Table } from "../../ui/table";
import { Moment } from "../../ui/time";
import { toast } from "../../ui/toast";
import { Once } from "./once";
import { everyPage } from "./pages";

type Member = Schemas["Member"];
type Role = Member["role"];

const roles = () => [["viewer", textOf("viewer")], ["member", textOf("member")], ["admin", textOf("admin")]] as const;

/** managed reports whether the user may change the account of a member. */
const managed = (m: Member) => !m.shared || operator.value;

async function allMembers(signal: AbortSignal): Promise<Member[]> {
  const pages = await everyPage((cursor) => ask(client.GET("/api/v1/users", { params: { query: { limit: 1000, cursor } }, signal })));
  return pages.flatMap((p) => p.users);
}

/** Members lists and changes who signs in to the workspace. */
export function Members() {
  const members = useLoad(allMembers, []);
  const [once, setOnce] = useState<Member>();
  const [asked, setAsked] = useState<{ what: "disable" | "remove" | "invite"; of: Member }>();
  const inline = useAct();
  const heading = useRef<HTMLHeadingElement>(null);
  const invited = (m: Member) => {
    members.reload();
    if (m.invitation) setOnce(m);
  };
  const change = (m: Member, body: Schemas["MemberChange"]) => ask(client.PATCH("/api/v1/users/{id}", { params: { path: { id: m.id } }, body }));
  const confirm = async () => {
    const { what, of: m } = asked!;
    if (what === "disable") await change(m, { disabled: true });
    else if (what === "remove") await ask(client.DELETE("/api/v1/users/{id}", { params: { path: { id: m.id } } }));
    else invited(await ask(client.POST("/api/v1/users/{id}/invitation", { params: { path: { id: m.id } } })));
    setAsked(undefined);
    if (what === "remove") {
      toast(text("removed", { name: m.name }));
      focusBehind(heading);
    }
    members.reload();
  };
  const texts = { disable: ["disableTitle", "disableText", "disable"], remove: ["removeTitle", "removeText", ""], invite: ["newInvitationTitle", "newInvitationText", "newInvitation"] } as const;
  return (
    <>
      <Invite invited={invited} />
      <section class="card" aria-labelledby="members-title">
        <h2 id="members-title" tabIndex={-1} ref={heading}>{textOf("members")}</h2>
        <Trouble failure={inline.failure} />
        <Await of={members}>{(list) => list.length === 0 ? <p class="quiet">{text("noMembers")}</p> : (
          <Table title={textOf("members")} look="roomy" heads={[text("name"), text("role"), text("state"), text("joined"), null]}>
            {list.map((m) => (
              <tr key={m.id}>
                <td><b dir="auto">{m.name}</b> {m.id === me.value?.user?.id && <span class="tag">{text("you")}</span>}<br /><span class="quiet small-text">{m.email}</span></td>
                <td>
                  <Picker
                    label={text("roleOf", { name: m.name })} value={m.role} options={roles()} action={shared("save")}
                    take={(role) => void inline.run(async () => {
                      await change(m, { role });
                      toast(text("roleChanged", { name: m.name, role: textOf(role) }));
                      if (m.id === me.value?.user?.id) await loadMe();
                      members.reload();
                    })}
                  />
                </td>
                <td>
                  {m.disabled ? <span class="tag bad">{text("disabled")}</span>
                    : m.has_password ? <span class="tag good">{text("active")}</span>
                      : <span class="tag warn">{textOf(m.invited_until ? "invited" : "uninvited")}</span>}
                  {m.shared && <><br /><span class="quiet small-text">{text("sharedAccount")}</span></>}
                </td>
                <td><Moment at={m.created_at} /></td>
                <td>
                  <div class="row" role="group" aria-label={text("actionsOf", { name: m.name })}>
                    {managed(m) && <button type="button" class="small" onClick={() => setAsked({ what: "invite", of: m })}>{text("newInvitation")}</button>}
                    {managed(m) && (m.disabled
                      ? <button type="button" class="small" disabled={inline.busy} onClick={() => void inline.run(() => change(m, { disabled: false }).then(members.reload))}>{text("enable")}</button>
                      : <button type="button" class="small" onClick={() => setAsked({ what: "disable", of: m })}>{textOf("disable")}</button>)}
                    <button type="button" class="small danger" onClick={() => setAsked({ what: "remove", of: m })}>{shared("remove")}</button>
                  </div>
                </td>
              </tr>
            ))}
          </Table>
        )}</Await>
      </section>
      {asked && (
        <Confirm
          title={textOf(texts[asked.what][0], { name: asked.of.name })} action={texts[asked.what][2] ? textOf(texts[asked.what][2] as "disable") : shared("remove")}
          run={confirm} close={() => setAsked(undefined)}
        >
          <p>{textOf(texts[asked.what][1], { name: asked.of.name })}</p>
        </Confirm>
      )}
      {once?.invitation && (
        <Once
          title={text("invitationFor", { name: once.name })} warning={text("invitationOnce", { time: dateTime(once.invitation.expires_at) })} label={text("invitationLink")}
          secret={`${location.origin}/console/invitation#${once.invitation.token}`} close={() => setOnce(undefined)}
        />
      )}
    </>
  );
}

function Invite({ invited }: { invited: (m: Member) => void }) {
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const act = useAct();
  return (
    <form
      class="card" aria-labelledby="invite-title"
      onSubmit={(e) => {
        e.preventDefault();
        void act.run(async () => {
          invited(await ask(client.POST("/api/v1/users", { body: { email, role, ...(name ? { name } : {}) } })));
          setEmail("");
          setName("");
        });
      }}
    >
      <h2 id="invite-title">{text("inviteTitle")}</h2>
      <div class="form-row">
        <Field label={shared("email")} type="email" required autocomplete="off" maxLength={254} value={email} set={setEmail} fault={act.failure?.fields["email"]} />
        <Field label={text("nameOptional")} autocomplete="off" maxLength={100} dir="auto" value={name} set={setName} fault={act.failure?.fields["name"]} />
        <Choice label={text("role")} value={role} set={setRole} options={roles()} hint={text("roleHint")} />
      </div>
      <Trouble failure={act.failure} />
      <div class="row"><button class="primary" disabled={act.busy}>{text("invite")}</button></div>
    </form>
  );
}
