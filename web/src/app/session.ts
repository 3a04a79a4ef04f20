// The user: found by the session's cookie, which scripts cannot read.
import { batch, computed, signal } from "@preact/signals";
import { answer, ask, client, Failure, sessionEnded, workspaceSlug, type Schemas } from "./api";

export type Me = Schemas["Me"];

/** The user; null: no one has signed in; undefined: not known yet. */
export const me = signal<Me | null | undefined>(undefined);

/** Why the user could not be looked up. */
export const meFailure = signal<Failure | undefined>(undefined);

export type Scope = "links:read" | "links:write" | "analytics:read" | "admin";

/** Whether the newest sign-in had success, and the browser has not kept its cookie. */
export const notKept = signal(false);

/** can reports whether the user may do something. The server decides; this hides what it would refuse. */
export function can(scope: Scope): boolean {
  return me.value?.scopes.includes(scope) ?? false;
}

/** Whether the user operates the whole installation. */
export const operator = computed(() => me.value?.operator ?? false);

/** loadMe looks the user up. */
export async function loadMe(): Promise<void> {
  try {
    const found = await ask(client.GET("/api/v1/me"));
    const slugs = found.workspaces.map((w) => w.slug);
    // The stored workspace may be another user's.
    if (found.credential === "session" && slugs.length > 0 && !slugs.includes(workspaceSlug.value)) {
      workspaceSlug.value = slugs[0]!;
      me.value = await ask(client.GET("/api/v1/me"));
    } else {
      me.value = found;
    }
    meFailure.value = undefined;
    sessionEnded.value = false;
  } catch (e) {
    if (!(e instanceof Failure)) throw e;
    if (e.status === 401) {
      me.value = null;
      sessionEnded.value = false;
    } else if (e.status === 403 && workspaceSlug.value) {
      workspaceSlug.value = "";
      localStorage.removeItem("waypost.workspace");
      await loadMe();
    } else {
      meFailure.value = e;
    }
  }
}

/** chooseWorkspace makes all requests act in another workspace. It throws a Failure. */
export async function chooseWorkspace(slug: string): Promise<void> {
  const found = await ask(client.GET("/api/v1/me", { headers: { "Waypost-Workspace": slug } }));
  localStorage.setItem("waypost.workspace", slug);
  batch(() => {
    workspaceSlug.value = slug;
    me.value = found;
  });
}

/** SignIn says who signs in: by password, or by the token of a one-time link. */
export type SignIn = Omit<Schemas["SignIn"], "cookie">;

/** signIn begins a session, whose cookie the browser keeps. It throws a Failure, of the
 * kind second-factor-required when the password was right and a code is missing. */
export async function signIn(by: SignIn): Promise<void> {
  await answer(client.POST("/api/v1/session", { body: { ...by, cookie: true } }));
  sessionEnded.value = false;
  await loadMe();
  notKept.value = !meFailure.value && me.value?.credential !== "session";
}

/** signOut ends the session. */
export async function signOut(): Promise<void> {
  await answer(client.DELETE("/api/v1/session"));
  me.value = null;
}
