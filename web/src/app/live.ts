// Live news from the control plane, by server-sent events. Of all pages in a browser one
// holds the stream and tells the others, because a browser has few connections to a host.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { sessionEnded, workspaceSlug } from "./api";

/** News, by kind. The data is the body of the operation that a screen would ask. */
export interface News {
  /** Links or clicks of the workspace have changed. */
  workspace: { clicks: number; newest_link: string };
  /** State of the edges, for operators: as GET /api/admin/edges. */
  edges: unknown;
}

/** off: not wanted. lost: no news arrives, and what is shown may be old. */
export type LiveState = "off" | "connecting" | "open" | "lost";

export const live = signal<LiveState>("off");

/** When the newest event, or heartbeat, arrived. */
export const heardAt = signal(0);

type Message = { kind: string; data?: unknown };
type Handler = (data: unknown) => void;

const handlers = new Map<string, Set<Handler>>();
const silence = 12_000; // milliseconds without a heartbeat, which comes every 5 s
const pause = 2000; // milliseconds between two renewals
let channel: BroadcastChannel | undefined;
let stop: (() => void) | undefined;

function take(m: Message): void {
  heardAt.value = Date.now();
  if (m.kind === "lost" || m.kind === "ended") {
    live.value = "lost";
    if (m.kind === "ended") sessionEnded.value = true;
    return;
  }
  live.value = "open";
  handlers.get(m.kind)?.forEach((handle) => handle(m.data));
}

/** startLive begins to listen; the returned function ends it. */
export function startLive(): () => void {
  stop?.();
  live.value = "connecting";
  const aborted = new AbortController();
  const slug = workspaceSlug.value;
  channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(`waypost.live.${slug}`);
  channel?.addEventListener("message", (e: MessageEvent<Message>) => take(e.data));
  const lead = () => stream(slug, aborted.signal, (m) => {
    take(m);
    channel?.postMessage(m);
  });
  if (channel && navigator.locks) {
    void navigator.locks.request(`waypost.live.${slug}`, { signal: aborted.signal }, lead).catch(() => undefined);
  } else {
    void lead();
  }
  const watch = setInterval(() => {
    if (live.value === "open" && Date.now() - heardAt.value > silence) live.value = "lost";
  }, 1000);
  stop = () => {
    clearInterval(watch);
    aborted.abort();
    channel?.close();
    live.value = "off";
    stop = undefined;
  };
  return stop;
}

/** stream holds the connection, and connects again after growing pauses. */
async function stream(slug: string, signal: AbortSignal, tell: (m: Message) => void): Promise<void> {
  for (let pause = 1000; !signal.aborted; pause = Math.min(pause * 2, 30_000)) {
    const began = Date.now();
    const ended = await connection(slug, signal, tell);
    if (signal.aborted) return;
    if (ended) return tell({ kind: "ended" });
    tell({ kind: "lost" });
    if (Date.now() - began > 30_000) pause = 1000;
    await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
  }
}

/** connection reads one stream to its end, and reports whether the session has ended. */
async function connection(slug: string, signal: AbortSignal, tell: (m: Message) => void): Promise<boolean> {
  const silent = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), silence);
  };
  heard();
  try {
    const response = await fetch("/api/v1/live", {
      headers: slug ? { "Waypost-Workspace": slug } : {}, signal: AbortSignal.any([signal, silent.signal]),
    });
    if (response.status === 401) return true;
    if (!response.ok || !response.body) return false;
    const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await lines.read();
      if (done) return false;
      heard();
      rest += value;
      const events = rest.split("\n\n");
      rest = events.pop()!;
      for (const event of events) {
        const m = parse(event);
        if (m.kind === "ended") return true;
        tell(m);
      }
    }
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

function parse(event: string): Message {
  let kind = "heartbeat";
  let data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  return { kind, data: data === "" ? undefined : (JSON.parse(data) as unknown) };
}

/** useNews calls a handler for each event of a kind while the component is shown. */
export function useNews<K extends keyof News>(kind: K, handle: (data: News[K]) => void): void {
  const latest = useRef(handle);
  latest.current = handle;
  useEffect(() => {
    const mine: Handler = (data) => latest.current(data as News[K]);
    const all = handlers.get(kind) ?? new Set();
    handlers.set(kind, all.add(mine));
    return () => void all.delete(mine);
  }, [kind]);
}

/** useRenewal calls a function when links or clicks of the workspace have changed: at
 * once, but at most once in each pause. */
export function useRenewal(renew: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const last = useRef(Date.now());
  useEffect(() => () => clearTimeout(timer.current), []);
  useNews("workspace", () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      last.current = Date.now();
      renew();
    }, last.current + pause - Date.now());
  });
}
