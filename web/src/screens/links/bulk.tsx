// Changes of several links at once: a request for each, some at a time.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { answer, ask, asFailure, client, Failure } from "../../app/api";
import { useShortcuts } from "../../app/keys";
import { can } from "../../app/session";
import { Confirm, Dialog } from "../../ui/dialog";
import { words } from "../../ui/failure";
import { Field } from "../../ui/field";
import { download } from "../../ui/csv";
import { toast } from "../../ui/toast";
import { text as common } from "../../messages/app";
import { text } from "../../messages/links";
import { csvOf } from "./csv";
import { useTags } from "./filters";
import { nameOf, type Link, type LinkList } from "./list";

const atOnce = 6;
const tries = 5;
const many = 100; // links of a deletion that edges might hold back, which only their operator knows

/** Change is something that is done to each link, and how that is undone. */
interface Change {
  act: (link: Link) => Promise<Link | undefined>;
  undo?: (link: Link) => Promise<Link | undefined>;
  /** Says what was done to n links. */
  done: (n: number) => string;
  /** Whether the links leave the list. */
  leave?: boolean;
  /** Puts those that were done into the list again. */
  back?: (done: readonly Link[]) => void;
}

interface Outcome {
  done: Link[];
  changed: Link[];
  failed: (readonly [Link, Failure])[];
}

/** runAll changes links, some at a time, and tells how many are through. A request that
 * was one too many is sent again. */
async function runAll(links: readonly Link[], act: Change["act"], tell: (done: number) => void, stopped: () => boolean): Promise<Outcome> {
  const out: Outcome = { done: [], changed: [], failed: [] };
  const queue = [...links];
  const one = async (link: Link, left: number): Promise<void> => {
    try {
      const changed = await act(link);
      out.done.push(link);
      if (changed) out.changed.push(changed);
    } catch (e) {
      const failure = asFailure(e);
      if (failure.status === 429 && left > 1 && !stopped()) {
        await new Promise((wake) => setTimeout(wake, Math.min(failure.retryAfter || 1, 30) * 1000));
        return one(link, left - 1);
      }
      out.failed.push([link, failure]);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let link = queue.shift(); link && !stopped(); link = queue.shift()) {
      await one(link, tries);
      tell(out.done.length + out.failed.length);
    }
  }));
  return out;
}

function at(link: Link) {
  return { path: { code: link.short_code }, query: { domain: link.domain } };
}

function patch(link: Link, body: { active: boolean }): Promise<Link> {
  return ask(client.PATCH("/api/v1/urls/{code}", { params: at(link), body }));
}

/** retag changes the tags of a link as it is now, so that no tag is lost that somebody else
 * has added meanwhile. */
async function retag(link: Link, edit: (tags: readonly string[]) => string[]): Promise<Link> {
  for (let left = 3; ; left--) {
    const { data, response } = await answer(client.GET("/api/v1/urls/{code}", { params: { ...at(link), query: { domain: link.domain, expired: true } } }));
    try {
      return await ask(client.PATCH("/api/v1/urls/{code}", {
        params: { ...at(link), header: { "If-Match": response.headers.get("ETag") ?? "*" } }, body: { tags: edit(data.tags) },
      }));
    } catch (e) {
      if (left > 1 && e instanceof Failure && e.status === 412) continue;
      throw e;
    }
  }
}

async function remove(link: Link): Promise<undefined> {
  await ask(client.DELETE("/api/v1/urls/{code}", { params: at(link) }));
}

async function restore(link: Link): Promise<undefined> {
  await ask(client.POST("/api/v1/urls/{code}/restore", { params: at(link) }));
}

const adds = (tag: string) => (tags: readonly string[]) => (tags.includes(tag) ? [...tags] : [...tags, tag]);
const drops = (tag: string) => (tags: readonly string[]) => tags.filter((t) => t !== tag);

/** The changes, by name. Only links that a change alters are given to it. */
const changes = {
  tag: (tag: string): Change => ({ act: (l) => retag(l, adds(tag)), undo: (l) => retag(l, drops(tag)), done: (n) => text("doneTagged", { n }) }),
  untag: (tag: string): Change => ({ act: (l) => retag(l, drops(tag)), undo: (l) => retag(l, adds(tag)), done: (n) => text("doneUntagged", { n }) }),
  off: (): Change => ({ act: (l) => patch(l, { active: false }), undo: (l) => patch(l, { active: true }), done: (n) => text("doneOff", { n }) }),
  on: (): Change => ({ act: (l) => patch(l, { active: true }), undo: (l) => patch(l, { active: false }), done: (n) => text("doneOn", { n }) }),
  remove: (): Change => ({ act: remove, undo: restore, done: (n) => text("doneDeleted", { n }), leave: true }),
  restore: (): Change => ({ act: restore, undo: remove, done: (n) => text("doneRestored", { n }), leave: true }),
};

/** refocus puts the focus on a row, or on the search, when it has got lost. */
export function refocus(row: number): void {
  setTimeout(() => {
    if (document.activeElement && document.activeElement !== document.body) return;
    const to = document.querySelector<HTMLElement>(`[data-at="${Math.max(0, row)}"] [data-main]`) ?? document.querySelector<HTMLElement>("[data-main]") ??
      document.querySelector<HTMLElement>("[data-search]") ?? document.getElementById("content");
    to?.focus();
  }, 50);
}

/** useChanges runs changes of links, one after the other, and keeps what of the newest failed. */
export function useChanges(list: LinkList, clear: () => void, row: { current: number }) {
  const [progress, setProgress] = useState<{ done: number; n: number }>();
  const [failed, setFailed] = useState<{ change: Change; links: Outcome["failed"] }>();
  const stopped = useRef(false);
  const turns = useRef(Promise.resolve());
  const run = (links: readonly Link[], change: Change) => {
    stopped.current = false; // a stop is for all that wait
    turns.current = turns.current.then(() => one(links, change));
  };
  const one = async (links: readonly Link[], change: Change): Promise<void> => {
    if (links.length === 0) return toast(change.done(0));
    setFailed(undefined);
    setProgress({ done: 0, n: links.length });
    const out = await runAll(links, change.act, (done) => setProgress({ done, n: links.length }), () => stopped.current);
    setProgress(undefined);
    if (out.failed.length) setFailed({ change, links: out.failed });
    const back = change.leave && list.remove(new Set(out.done.map((l) => l.id)));
    change.back?.(out.done);
    list.merge(out.changed);
    if (change.leave || out.failed.length === 0) clear();
    refocus(row.current);
    if (out.done.length === 0) return;
    const { undo } = change;
    toast(change.done(out.done.length), undo ? { undo: () => run(out.done, { act: undo, done: (n) => text("doneUndone", { n }), ...(back && { back }) }) } : {});
  };
  return { run, progress, failed, dismiss: () => setFailed(undefined), stop: () => { stopped.current = true; } };
}

export type Changes = ReturnType<typeof useChanges>;

/** Failed lists the links that were not changed, and why. */
export function Failed({ of, row }: { of: Changes; row: { current: number } }) {
  if (!of.failed) return null;
  const { change, links } = of.failed;
  return (
    <div class="notice bad" role="alert">
      <div class="grow">
        <h2>{text("failed", { n: links.length })}</h2>
        <ul>{links.slice(0, 20).map(([link, failure]) => <li key={link.id}><span dir="auto">{nameOf(link)}</span>: {words(failure)}</li>)}</ul>
        {links.length > 20 && <p>{text("andMore", { n: links.length - 20 })}</p>}
      </div>
      <button type="button" onClick={() => of.run(links.map(([link]) => link), change)}>{text("retryFailed")}</button>
      <button
        type="button"
        onClick={() => {
          of.dismiss();
          refocus(row.current);
        }}
      >
        {text("dismiss")}
      </button>
    </div>
  );
}

/** sheet saves sheets of paper with the QR codes of links. */
async function sheet([first, ...others]: readonly Link[]): Promise<void> {
  const also = others.map((l) => `${l.domain}/${l.short_code}`);
  try {
    download("qr-codes.pdf", await ask(client.GET("/api/v1/urls/{code}/qr", {
      params: { path: { code: first!.short_code }, query: { domain: first!.domain, format: "pdf", also } }, parseAs: "blob",
    })) as unknown as Blob);
  } catch (e) {
    toast(words(asFailure(e)), { bad: true });
  }
}

type Open = "tag" | "untag" | "remove" | undefined;

/** Bulk is the bar of the selected links. */
export function Bulk({ of, list, selected, clear, row, bin = false, shared }: {
  of: Changes; list: LinkList; version: number; selected: ReadonlyMap<string, Link>; clear: () => void; row: { current: number }; bin?: boolean; shared: string;
}) {
  const [open, setOpen] = useState<Open>();
  // The links that the open dialog is about.
  const [links, setLinks] = useState<readonly Link[]>([]);
  const write = can("links:write");
  // The links as they are now, as far as the list has them.
  const present = (all: Iterable<Link>) => {
    const now = new Map(list.rows.map(({ link }) => [link.id, link]));
    return Array.from(all, (l) => now.get(l.id) ?? l);
  };
  const chosen = () => present(selected.values());
  const start = (what: Open) => {
    const row0 = list.rows[row.current]?.link;
    const all = selected.size > 0 ? chosen() : row0 ? [row0] : [];
    if (all.length === 0 || !write) return;
    setLinks(all);
    setOpen(what);
  };
  const close = () => setOpen(undefined);
  useShortcuts(bin ? [] : [
    { keys: "#", label: text("keyDelete"), run: () => start("remove") },
    { keys: "Delete", label: text("keyDelete"), run: () => start("remove") },
  ]);
  const run = (all: readonly Link[], change: Change) => {
    close();
    of.run(all, change);
  };
  const tags = [...new Set(links.flatMap((l) => l.tags))].sort();
  return (
    <>
      {(selected.size > 0 || of.progress) && (
        <section class="bulk" aria-label={text("bulk")}>
          {of.progress
            ? (
              <>
                <progress max={of.progress.n} value={of.progress.done} aria-label={text("progress", of.progress)} />
                <span role="status">{text("progress", of.progress)}</span>
                <button type="button" onClick={of.stop}>{text("stop")}</button>
              </>
            )
            : (
              <>
                <strong role="status">{text("selected", { n: selected.size })}</strong>
                {write && !bin && (
                  <>
                    <button type="button" onClick={() => start("tag")}>{text("addTag")}</button>
                    <button type="button" onClick={() => start("untag")}>{text("removeTag")}</button>
                    <button type="button" onClick={() => run(chosen().filter((l) => l.active), changes.off())}>{text("switchOff")}</button>
                    <button type="button" onClick={() => run(chosen().filter((l) => !l.active), changes.on())}>{text("switchOn")}</button>
                    <button type="button" class="danger" onClick={() => start("remove")}>{text("delete")}</button>
                  </>
                )}
                {write && bin && <button type="button" class="primary" onClick={() => run(chosen(), changes.restore())}>{text("restore")}</button>}
                {!bin && selected.size <= 100 && <button type="button" onClick={() => void sheet(chosen())}>{text("qrSheet")}</button>}
                {!bin && <button type="button" onClick={() => download("links.csv", new Blob([csvOf(chosen(), shared)], { type: "text/csv" }))}>{text("exportFound")}</button>}
                <button
                  type="button" class="plain"
                  onClick={() => {
                    clear();
                    refocus(row.current);
                  }}
                >
                  {text("unselect")}
                </button>
              </>
            )}
        </section>
      )}
      {open === "tag" && <AddTag links={links} close={close} add={(tag) => run(present(links).filter((l) => !l.tags.includes(tag)), changes.tag(tag))} />}
      {open === "untag" && (
        <Dialog title={text("removeTag")} close={close}>
          <Named links={links} />
          <div class="row">
            {tags.map((tag) => (
              <button key={tag} type="button" onClick={() => run(present(links).filter((l) => l.tags.includes(tag)), changes.untag(tag))}><span class="clip" dir="auto">{tag}</span></button>
            ))}
            {tags.length === 0 && <p class="quiet">{common("none")}</p>}
          </div>
        </Dialog>
      )}
      {open === "remove" && (
        <Confirm title={text("deleteTitle", { n: links.length })} action={text("delete")} close={close} run={async () => run(links, changes.remove())}>
          <Named links={links} />
          <p>{text("deleteText")}</p>
          {links.length >= many && <p class="notice warn">{text("deleteHeld")}</p>}
        </Confirm>
      )}
    </>
  );
}

/** RestoreButton restores one link of the bin. */
export function RestoreButton({ of, link }: { of: Changes; link: Link }) {
  if (!can("links:write")) return null;
  return (
    <button type="button" class="small" disabled={!!of.progress} aria-label={text("restoreOf", { name: nameOf(link) })} onClick={() => of.run([link], changes.restore())}>
      {text("restore")}
    </button>
  );
}

function Named({ links }: { links: readonly Link[] }) {
  const most = 5;
  return (
    <ul>
      {links.slice(0, most).map((l) => <li key={l.id} class="clip" dir="auto">{nameOf(l)}</li>)}
      {links.length > most && <li class="quiet">{text("andMore", { n: links.length - most })}</li>}
    </ul>
  );
}

function AddTag({ links, add, close }: { links: readonly Link[]; add: (tag: string) => void; close: () => void }): ComponentChildren {
  const [tag, setTag] = useState("");
  const tags = useTags(tag);
  const long = new TextEncoder().encode(tag.trim()).length > 64;
  return (
    <Dialog title={text("addTag")} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (tag.trim() && !long) add(tag.trim());
        }}
      >
        <Named links={links} />
        <Field label={text("tag")} value={tag} set={setTag} fault={long ? common("tooLong", { n: 64 }) : ""} offers={tags} autofocus autocomplete="off" dir="auto" />
        <footer>
          <button type="button" onClick={close}>{common("cancel")}</button>
          <button class="primary" disabled={!tag.trim() || long}>{text("addTag")}</button>
        </footer>
      </form>
    </Dialog>
  );
}
