import { Fragment } from "preact";
import { useLocation, useRoute } from "preact-iso/router";
import { useEffect, useRef, useState } from "preact/hooks";
import { answer, ask, client, Failure, type Schemas } from "../../app/api";
import { useShortcuts } from "../../app/keys";
import { useAct, useLoad } from "../../app/load";
import { inQuery, isPattern } from "../../app/paths";
import { can } from "../../app/session";
import { setTitle } from "../../app/shell";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/link";
import { Copy } from "../../ui/copy";
import { Confirm, Dialog } from "../../ui/dialog";
import { Await, toastFailure, Trouble, words } from "../../ui/failure";
import { QR } from "../../ui/qr";
import { Ago, Moment } from "../../ui/time";
import { toast } from "../../ui/toast";
import { Views } from "../overview/views";
import { Aliases } from "./aliases";
import { applied, changeLink, draftName, former, getLink, type Change, type Link as LinkData, type Place, type State } from "./change";
import { Edit } from "./edit";
import { longTexts } from "./fields";
import { History } from "./history";
import { Rules } from "./rules";
import { chosenSpan } from "./span";
import { Statistics } from "./statistics";

/** Link is the screen of one link: its state, its statistics and its history. */
export default function Link() {
  const { params } = useRoute();
  const { query } = useLocation();
  const at: Place = { code: params["code"] ?? "", domain: query["domain"] || undefined };
  return <One key={`${at.domain}/${at.code}`} at={at} />;
}

/** What the screen knows of a link that is not there: when it was deleted, and by whom, and
 * what the API says of one that is no longer available. */
type Missing = { deleted: Schemas["LinkEvent"] | undefined; gone: Failure | undefined };

function One({ at }: { at: Place }) {
  const loaded = useLoad(async (signal): Promise<State | Missing> => {
    try {
      return await getLink(at, signal);
    } catch (e) {
      if (!(e instanceof Failure) || (e.status !== 404 && e.status !== 410)) throw e;
      return { deleted: await deletion(at, signal), gone: e.status === 410 ? e : undefined };
    }
  }, [at.code, at.domain]);
  const { data } = loaded;
  useEffect(() => {
    if (data) setTitle(("link" in data && data.link.title) || at.code);
  }, [data]);

  /** Undoes a change, if nobody has changed the link since. */
  const undo = async (change: Change, etag: string) => {
    try {
      const now = await changeLink(at, change, etag);
      loaded.set(now);
      toast(`${text("undone")} ${now.applied}`);
    } catch (e) {
      if (e instanceof Failure && e.status === 412) toast(text("notUndone"), { bad: true });
      else toastFailure(e);
    }
  };
  const changed = (before: LinkData, change: Change, now: State & { applied: string }, message = text("saved")) => {
    loaded.set({ link: now.link, etag: now.etag });
    const back = former(change, before);
    const doubts = (now.link.warnings ?? []).map((w) => w.message).join(" ");
    toast([message, now.applied, doubts].filter(Boolean).join(" "), Object.keys(back).length ? { undo: () => void undo(back, now.etag) } : {});
  };
  const restore = async () => {
    const got = await answer(client.POST("/api/v1/urls/{code}/restore", { params: { path: { code: at.code }, query: { domain: at.domain, wait: "all" } } }));
    toast(`${text("restored")} ${applied(got.response)}`);
    document.getElementById("content")?.focus({ preventScroll: true }); // the button goes away
    loaded.reload();
  };
  return (
    <Await of={loaded}>
      {(state) => ("link" in state
        ? <Present at={at} state={state} changed={changed} reload={loaded.reload} restore={restore} deleted={() => loaded.reload()} />
        : <Absent at={at} missing={state} restore={restore} />)}
    </Await>
  );
}

/** deletion returns the entry of the history of a link that was deleted. */
async function deletion(at: Place, signal: AbortSignal): Promise<Schemas["LinkEvent"] | undefined> {
  try {
    const page = await ask(client.GET("/api/v1/urls/{code}/history", { params: { path: { code: at.code }, query: { domain: at.domain, limit: 1 } }, signal }));
    return page.changes.find((c) => c.what === "deleted" || c.what === "expired");
  } catch (e) {
    if (e instanceof Failure && (e.status === 404 || e.status === 410)) return undefined;
    throw e;
  }
}

function Absent({ at, missing, restore }: { at: Place; missing: Missing; restore: () => Promise<void> }) {
  const act = useAct();
  const head = useRef<HTMLHeadingElement>(null);
  const late = act.failure?.status === 410; // the API says why
  useEffect(() => {
    if (document.activeElement === document.body) head.current?.focus();
  }, [late]);
  const gone = missing.deleted;
  return (
    <section class="empty">
      <h1 ref={head} tabIndex={-1}>{gone ? textOf(gone.what === "expired" ? "isExpired" : "isDeleted", { code: at.code }) : missing.gone ? text("isGone", { code: at.code }) : text("isMissing", { code: at.code })}</h1>
      {gone ? <p>{gone.by && <><span dir="auto">{gone.by.name}</span>, </>}<Moment at={gone.at} /></p> : <p>{missing.gone ? words(missing.gone) : text("missingHint")}</p>}
      {gone?.what === "deleted" && !late && can("links:write") && <p><button type="button" class="primary" disabled={act.busy} onClick={() => void act.run(restore)}>{text("restore")}</button></p>}
      <Trouble failure={act.failure} />
      <p><a href="/console/links">{shared("toLinks")}</a></p>
    </section>
  );
}

function Present({ at, state, changed, reload, restore, deleted }: {
  at: Place; state: State; changed: (before: LinkData, change: Change, now: State & { applied: string }, message?: string) => void;
  reload: () => void; restore: () => Promise<void>; deleted: () => void;
}) {
  const { link } = state;
  const { url, query, route } = useLocation();
  const [open, setOpen] = useState<"qr" | "delete">();
  const act = useAct();
  const drawn = !expired(link) && !isPattern(link.short_code);
  useShortcuts(!drawn ? [] : [{ keys: "q", label: text("qr"), run: () => setOpen("qr") }]);
  const editing = query["edit"] !== undefined;
  const writes = can("links:write");
  const ruling = query["rules"] !== undefined;
  const draft = sessionStorage.getItem(`waypost.draft.${draftName(link)}`) !== null;
  const turn = (what: "edit" | "rules") => (on: boolean) => route(inQuery(url, { [what]: on ? "on" : undefined }), true);
  const edit = turn("edit");
  const renewed = (now: LinkData, response: Response, message = text("aliasAdded")) => (
    changed(link, {}, { link: now, etag: response.headers.get("ETag") ?? "", applied: applied(response) }, message)
  );
  const toggle = () => act.run(async () => {
    const change = { active: !link.active };
    changed(link, change, await changeLink(at, change), textOf(link.active ? "switchedOff" : "switchedOn"));
  });
  return (
    <>
      <header class="link-head">
        <p><a href="/console/links">{shared("links")}</a></p>
        <div class="head">
          <h1 dir="auto">{link.title || link.short_code}</h1>
          {writes && (
            <div class="row">
              <button type="button" class="primary" onClick={() => edit(true)}>{textOf(draft && !editing ? "editDraft" : "edit")}</button>
              {!link.rules && !ruling && <button type="button" onClick={() => turn("rules")(true)}>{textOf("rules")}</button>}
              <button type="button" disabled={act.busy} onClick={() => void toggle()}>{textOf(link.active ? "switchOff" : "switchOn")}</button>
              <button type="button" class="danger" onClick={() => setOpen("delete")}>{text("delete")}</button>
            </div>
          )}
        </div>
        <Trouble failure={act.failure} />
        <div class="row">
          <a class="mono" href={link.short_url} target="_blank" rel="noreferrer noopener">{link.short_url}</a>
          <Copy value={link.short_url} label={link.short_url} />
          {drawn && <button type="button" class="small" onClick={() => setOpen("qr")}>{text("qr")}</button>}
          <States link={link} />
        </div>
        <dl class="facts">
          <dt>{textOf("original_url")}</dt>
          <dd dir="ltr">{/^https?:/i.test(link.original_url) ? <a href={link.original_url} target="_blank" rel="noreferrer noopener">{link.original_url}</a> : link.original_url}</dd>
          <dt>{text("domain")}</dt><dd>{link.domain}</dd>
          {link.tags.length > 0 && (
            <>
              <dt>{textOf("tags")}</dt>
              <dd class="row">{link.tags.map((t) => <a key={t} class="tag" dir="auto" href={inQuery("/console/links", { tag: t })}>{t}</a>)}</dd>
            </>
          )}
          {longTexts.map((name) => link[name] && <Fragment key={name}><dt>{textOf(name)}</dt><dd dir="auto" class="written">{link[name]}</dd></Fragment>)}
          <dt>{textOf("redirect_status")}</dt>
          <dd>{link.redirect_status}{link.forward_query && ` · ${textOf("forward_query")}`}{link.forward_path && ` · ${textOf("forward_path")}`}</dd>
          {link.metadata && <><dt>{textOf("metadata")}</dt><dd class="mono">{JSON.stringify(link.metadata)}</dd></>}
        </dl>
      </header>
      {(link.rules || ruling) && <Rules at={at} state={state} saved={changed} editing={ruling} edit={turn("rules")} />}
      {(can("analytics:read") || can("links:read")) && <Statistics at={at} link={link} news={reload} />}
      {can("analytics:read") && <Views link={link} />}
      {!isPattern(link.short_code) && (link.aliases || writes) && <Aliases link={link} range={chosenSpan(query).range} saved={renewed} />}
      <History
        at={at} link={link}
        restore={async (change) => changed(link, change, await changeLink(at, change, state.etag), text("broughtBack"))}
      />
      {editing && writes && <Edit at={at} state={state} saved={changed} close={() => edit(false)} />}
      {open === "qr" && <Dialog title={text("qr")} close={() => setOpen(undefined)}><QR link={link} made={renewed} /></Dialog>}
      {open === "delete" && (
        <Confirm
          title={text("deleteTitle")} action={text("delete")} close={() => setOpen(undefined)}
          run={async () => {
            const got = await answer(client.DELETE("/api/v1/urls/{code}", { params: { path: { code: at.code }, query: { domain: at.domain, wait: "all" } } }));
            setOpen(undefined);
            toast(`${text("deleted")} ${applied(got.response)}`, expired(link) ? {} : { undo: () => void restore().catch(toastFailure) });
            deleted();
          }}
        >
          <p>{text("deleteAsk", { url: link.short_url })}</p>
        </Confirm>
      )}
    </>
  );
}

/** expired reports whether a link has expired. */
function expired(link: LinkData): boolean {
  return Date.parse(link.expires_at ?? "") <= Date.now();
}

/** States says whether a link redirects, in words. */
function States({ link }: { link: LinkData }) {
  const over = expired(link);
  return (
    <>
      {link.blocked && <span class="tag bad">{text("blocked")} {link.blocked.reason} <Ago at={link.blocked.since} /></span>}
      {!link.active && <span class="tag warn">{text("off")}</span>}
      {over && <span class="tag bad">{text("expired")} <Ago at={link.expires_at} /></span>}
      {link.active && !over && !link.blocked && <span class="tag good">{text("on")}</span>}
      {link.has_password && <span class="tag">{textOf("password")}</span>}
      {link.valid_from && Date.parse(link.valid_from) > Date.now() && <span class="tag warn">{textOf("valid_from")} <Ago at={link.valid_from} /></span>}
      {!over && link.expires_at && <span class="tag">{text("expires")} <Ago at={link.expires_at} /></span>}
    </>
  );
}
