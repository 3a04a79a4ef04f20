// The files of imports on their way to the control plane. They go on while other screens
// are shown, a part at a time, so that no file is in memory as a whole.
import { signal } from "@preact/signals";
import { asFailure, ask, client, Failure, sessionEnded, workspaceSlug, type Schemas } from "../../app/api";

export const largest = 1 << 30; // bytes of a file
const part = 4 << 20; // bytes sent at a time

export interface Upload {
  sent: number; // bytes
  size: number; // bytes of the file
  /** Why the newest try had no success. */
  failure?: Failure | undefined;
  /** Whether no further try is made. */
  ended?: boolean;
}

/** The uploads of this page, by the ids of their imports. */
export const uploads = signal<Readonly<Record<string, Upload>>>({});

/** forget ends an upload, if there is one. */
export function forget(id: string): void {
  const { [id]: _, ...others } = uploads.value;
  uploads.value = others;
}

const stay = (e: Event) => e.preventDefault();

/** begin makes an import and uploads its file. It returns the import before the file is sent. */
export async function begin(file: File, body: Schemas["NewImport"]): Promise<Schemas["Import"]> {
  const made = await ask(client.POST("/api/v1/imports", { body }));
  void upload(made.id, file);
  return made;
}

/** upload sends the whole file of an import. A part that was sent before does no harm. */
export async function upload(id: string, file: File): Promise<void> {
  // The user may choose another workspace meanwhile.
  const headers: Record<string, string> = workspaceSlug.value ? { "Waypost-Workspace": workspaceSlug.value } : {};
  const set = (u: Upload) => (uploads.value = { ...uploads.value, [id]: u });
  const parts = Math.max(1, Math.ceil(file.size / part));
  set({ sent: 0, size: file.size });
  addEventListener("beforeunload", stay);
  try {
    for (let n = 1; n <= parts; n++) {
      const content = await file.slice((n - 1) * part, n * part).arrayBuffer().catch(() => {
        throw new Failure(0, "unreadable", "");
      });
      const sent = await persist(id, set, () => ask(client.PUT("/api/v1/imports/{id}/parts/{n}", { params: { path: { id, n } }, body: content as never, headers })));
      if (!sent) return;
      set({ sent: Math.min(file.size, n * part), size: file.size });
    }
    if (await persist(id, set, () => ask(client.POST("/api/v1/imports/{id}/read", { params: { path: { id } }, body: { parts }, headers })))) forget(id);
  } catch (e) {
    if (uploads.value[id]) set({ ...uploads.value[id], failure: asFailure(e), ended: true });
  } finally {
    if (Object.values(uploads.value).every((u) => u.ended)) removeEventListener("beforeunload", stay);
  }
}

/** persist tries a request until it has success, as long as a later try can have it. It
 * returns false once the upload is forgotten. */
async function persist(id: string, set: (u: Upload) => void, send: () => Promise<unknown>): Promise<boolean> {
  for (let wait = 1; uploads.value[id]; wait = Math.min(2 * wait, 30)) {
    try {
      await send();
      return Boolean(uploads.value[id]);
    } catch (e) {
      const failure = asFailure(e);
      if (failure.kind !== "unreachable" && ![401, 408, 429, 502, 503, 504].includes(failure.status)) throw e;
      if (uploads.value[id]) set({ ...uploads.value[id], failure });
      await pause(Math.max(wait, failure.retryAfter));
      while (sessionEnded.value) await pause(0.5); // until the user has signed in again
    }
  }
  return false;
}

const pause = (seconds: number) => new Promise((done) => setTimeout(done, 1000 * seconds));
