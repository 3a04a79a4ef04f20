// A run over a file: a dry run or an import, batch by batch. It waits while the API cannot
// take more, and can be continued, because each batch has the same name every time.
import { answer, client, Failure, sessionEnded, workspaceSlug, type Schemas } from "../../app/api";
import { batches, refusedHeader, refusedRow, type Batch, type NewLink, type Refusal, type Shape } from "./rows";
import { text } from "../../messages/transfer";

export interface Job {
  file: File;
  shape: Shape;
  fingerprint: string;
  /** One link for a target. */
  dedupe: boolean;
  /** Host for rows without one; "": the shared domain. */
  domain: string;
}

/** Where an import is. It is kept in the browser until the import has ended. */
export interface Progress {
  /** Batches that are done, and their last row. */
  batches: number;
  row: number;
  created: number;
  /** Those that get new codes. */
  coded: number;
  found: number;
  refused: number;
  /** Rows of batches that an earlier import of the file had created. */
  replayed: number;
  dedupe: boolean;
  domain: string;
}

export const begun = (dedupe: boolean, domain: string): Progress => ({ batches: 0, row: 0, created: 0, coded: 0, found: 0, refused: 0, replayed: 0, dedupe, domain });

const keyOf = (fingerprint: string) => `waypost.import.${workspaceSlug.value}.${fingerprint}`;

/** unfinished returns how far an earlier import of the file came. */
export function unfinished(fingerprint: string): Progress | undefined {
  try {
    return JSON.parse(localStorage.getItem(keyOf(fingerprint)) ?? "null") as Progress ?? undefined;
  } catch {
    return undefined;
  }
}

function keep(fingerprint: string, progress: Progress | undefined): void {
  try {
    if (progress) localStorage.setItem(keyOf(fingerprint), JSON.stringify(progress));
    else localStorage.removeItem(keyOf(fingerprint));
  } catch {
    // A later import starts from the beginning, and its first batches create nothing.
  }
}

/** A pause, because the API could not take a batch. */
export interface Pause {
  why: Failure;
  until: number;
}

export interface Watch {
  progress: (p: Progress, read: number) => void;
  pause: (p: Pause | undefined) => void;
}

/** The rows of a run that were refused, also if it is stopped and goes on. */
export interface Refusals {
  /** The first ones. */
  shown: Refusal[];
  /** All of them, as they were, with the reasons. */
  lines: Blob[];
  /** Those up to this row are unknown, because the page was closed since. */
  after: number;
}

export const refusals = (from: Progress, shape: Shape): Refusals => ({ shown: [], lines: [new Blob([refusedHeader(shape)])], after: from.refused && from.row });

const most = 200; // refused rows that are shown

/** run sends a file from where progress says, and adds to the refusals. It returns where
 * the file cannot be read on. Aborted, it throws an AbortError. */
export async function run(job: Job, dry: boolean, from: Progress, { shown, lines }: Refusals, watch: Watch, signal: AbortSignal): Promise<Batch["broken"]> {
  const p = { ...from };
  const codes = new Map<string, string>(); // of a dry run, with their targets: the API sees a batch at a time
  let broken: Batch["broken"];
  for await (const batch of batches(job.file, job.shape)) {
    signal.throwIfAborted();
    if (batch.number < from.batches) continue;
    if (job.domain) batch.rows.forEach(({ link }) => (link.domain ??= job.domain));
    const refused = [...batch.bad];
    const outcomes = await deliver(job, dry, batch, watch, signal);
    outcomes.forEach((r, i) => {
      const { row, link, source } = batch.rows[i]!;
      if (r.error) {
        // The only conflict of a new link is that of its code.
        const at = r.error.errors?.[0];
        refused.push({ row, field: fieldAt(at?.location ?? (r.status === 409 ? "custom_code" : "")), reason: at?.message ?? r.error.detail, url: link.original_url, source });
        return;
      }
      const before = dry ? targetBefore(codes, link) : undefined;
      if (r.replayed) p.replayed++;
      else if (r.status === 200 || (before === link.original_url && dedupes(job, link))) p.found++;
      else if (before !== undefined) refused.push({ row, field: "custom_code", reason: text("codeTwice"), url: link.original_url, source });
      else {
        p.created++;
        if (!link.custom_code) p.coded++;
      }
    });
    refused.sort((a, b) => a.row - b.row);
    p.refused += refused.length;
    if (shown.length < most) shown.push(...refused.slice(0, most - shown.length));
    if (refused.length > 0) lines.push(new Blob(refused.map((r) => refusedRow(job.shape, r))));
    p.batches = batch.number + 1;
    p.row = batch.last;
    broken = batch.broken;
    if (!dry) keep(job.fingerprint, p);
    watch.progress({ ...p }, batch.read);
  }
  if (!dry) keep(job.fingerprint, undefined);
  return broken;
}

/** fieldAt names the field of body.links[3].tags[0]. */
function fieldAt(location: string): string {
  return location.replace(/^body\.links\[\d+\]\.?/, "").replace(/^body\./, "");
}

/** targetBefore returns the target of an earlier row with the code of a link, and notes the link otherwise. */
function targetBefore(codes: Map<string, string>, link: NewLink): string | undefined {
  if (!link.custom_code) return undefined;
  const key = `${link.domain?.toLowerCase() ?? ""}/${link.custom_code}`;
  const first = codes.get(key);
  if (first === undefined) codes.set(key, link.original_url);
  return first;
}

/** dedupes reports whether a row asks for the one link of its target. */
function dedupes(job: Job, link: NewLink): boolean {
  return link.dedupe ?? (job.dedupe && link.active !== false && !decides(link));
}

/** decides reports whether a link is more than its target, so that it is not the one link of that. */
function decides(link: NewLink): boolean {
  return Boolean(link.rules?.length || link.valid_from || link.expired_url || link.max_clicks || link.password);
}

type Outcome = Schemas["LinkOutcome"] & { replayed: boolean };

/** deliver sends a batch, and returns the outcome of each row. Rows for which the API has no
 * time are sent again. */
async function deliver(job: Job, dry: boolean, batch: Batch, watch: Watch, signal: AbortSignal): Promise<Outcome[]> {
  const links = batch.rows.map(({ link }): NewLink => (dedupes(job, link) ? { ...link, dedupe: true } : link));
  const name = `import-${job.fingerprint.slice(0, 32)}${job.dedupe ? "-dedupe" : ""}${job.domain && `-${job.domain}`}-${batch.number}`;
  const outcomes: Outcome[] = [];
  let left = [...links.keys()]; // the rows without an outcome
  let again = 0;
  let lost = false; // the answer to an attempt
  for (let wait = 1; left.length > 0; wait = Math.min(2 * wait, 60)) {
    let why: Failure | undefined;
    try {
      const { data: { results }, response } = await answer(client.POST("/api/v1/urls/bulk", {
        params: { query: dry ? { dry_run: "true" } : {}, header: { Prefer: "return=minimal", ...(dry ? {} : { "Idempotency-Key": again ? `${name}-again${again}` : name }) } },
        body: { links: left.map((i) => links[i]!) }, signal,
      }));
      const replayed = response.headers.get("Idempotency-Replayed") === "true";
      const late: number[] = [];
      for (const [k, r] of results.entries()) {
        const failure = r.error && new Failure(r.status, r.error.type.split(":").at(-1)!, r.error.detail);
        if (failure && (r.status === 429 || r.status === 503)) {
          why = failure;
          late.push(left[k]!);
        } else outcomes[left[k]!] = { ...r, replayed: replayed && !lost };
      }
      // What was answered before may have changed since.
      if (why && !replayed && !passing(why)) throw why;
      // The API keeps an answer under its key if it created a link. If not, the same request
      // under the same key cannot create one twice.
      const kept = replayed || results.some((r) => r.status === 201);
      if (dry || kept || !why) left = late;
      if (kept) again++;
      lost = !kept;
    } catch (e) {
      if (!(e instanceof Failure) || !passing(e)) throw e;
      lost ||= e.status === 0 || e.status >= 500;
      why = e;
    }
    if (!why) break;
    const seconds = Math.max(wait, why.retryAfter);
    watch.pause({ why, until: Date.now() + seconds * 1000 });
    await sleep(seconds, signal);
    while (sessionEnded.value) await sleep(0.5, signal); // until the user has signed in again
  }
  watch.pause(undefined);
  return outcomes;
}

/** passing reports whether a later try can work. */
function passing(e: Failure): boolean {
  return ["unreachable", "in-progress"].includes(e.kind) || (e.kind !== "keys-exhausted" && [401, 408, 429, 502, 503, 504].includes(e.status));
}

async function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise((done, fail) => {
    setTimeout(done, seconds * 1000);
    signal.addEventListener("abort", () => fail(signal.reason));
  });
}
