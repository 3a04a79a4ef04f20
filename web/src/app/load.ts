// Data of a screen: loaded, reloaded, and never shown as fresh when it is not.
import { useEffect, useRef, useState } from "preact/hooks";
import { asFailure, type Failure } from "./api";

export interface Loaded<T> {
  /** The newest answer; it stays when a later request fails. */
  data: T | undefined;
  /** Why the newest request had no success. */
  failure: Failure | undefined;
  loading: boolean;
  /** Whether the request has taken longer than a person expects. */
  slow: boolean;
  /** When data arrived. */
  at: Date | undefined;
  reload: () => void;
  /** Replaces the data, for example after a change whose answer is known. An answer that is
   * on its way may be older, so the data is asked for again, unless newer data will come. */
  set: (data: T, again?: boolean) => void;
}

const patience = 1500; // milliseconds

/** useLoad loads data when the screen appears and when deps change. An answer for former
 * deps is dropped. A reload waits for the answer that is on its way, so that data arrives
 * also when reloads are more frequent than answers. Deps are compared one by one. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; failure?: Failure; loading: boolean; at?: Date }>({ loading: true });
  const [slow, setSlow] = useState(false);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const asked = useRef(0); // loads that were asked for since the newest answer
  const reload = () => {
    if (asked.current++ === 0) setTurn((n) => n + 1);
  };
  useEffect(() => {
    const abort = new AbortController();
    asked.current = 1;
    setState((s) => ({ ...s, loading: true }));
    const timer = setTimeout(() => setSlow(true), patience);
    latest.current(abort.signal).then(
      (data) => abort.signal.aborted || setState({ data, loading: false, at: new Date() }),
      (e: unknown) => {
        if (abort.signal.aborted) return;
        const failure = asFailure(e);
        setState((s) => ({ ...s, failure, loading: false }));
        if (failure.status === 202) setTimeout(() => abort.signal.aborted || reload(), failure.retryAfter * 1000);
      },
    ).finally(() => {
      clearTimeout(timer);
      if (abort.signal.aborted) return;
      setSlow(false);
      const again = asked.current > 1;
      asked.current = 0;
      if (again) reload();
    });
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [...deps, turn]);
  return {
    data: state.data, failure: state.failure, loading: state.loading, slow: slow && state.loading, at: state.at,
    reload,
    set: (data, again = true) => {
      setState({ data, loading: false, at: new Date() });
      if (again && asked.current) setTurn((n) => n + 1);
    },
  };
}

/** useAct runs changes one at a time, and keeps why the newest one failed. */
export function useAct(): { busy: boolean; failure: Failure | undefined; run: (act: () => Promise<unknown>) => Promise<boolean>; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const running = useRef(false);
  return {
    busy, failure,
    clear: () => setFailure(undefined),
    run: async (act) => {
      if (running.current) return false;
      running.current = true;
      setBusy(true);
      setFailure(undefined);
      try {
        await act();
        return true;
      } catch (e) {
        setFailure(asFailure(e));
        return false;
      } finally {
        running.current = false;
        setBusy(false);
      }
    },
  };
}

/** differing returns the fields of a form whose values differ from those before, because
 * others may have changed the rest meanwhile; undefined when none differs. */
export function differing<T extends object>(form: T, before: { [K in keyof T]: unknown }): Partial<T> | undefined {
  const changed = Object.entries(form).filter(([name, value]) => value !== before[name as keyof T]);
  return changed.length ? (Object.fromEntries(changed) as Partial<T>) : undefined;
}

/** useStored is state that survives a reload of the page in this tab, for text that was typed. */
export function useStored<T>(name: string, initial: T): [T, (next: T) => void, () => void] {
  const key = `waypost.draft.${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = sessionStorage.getItem(key);
      return kept === null ? initial : (JSON.parse(kept) as T);
    } catch {
      return initial;
    }
  });
  return [
    value,
    (next) => {
      setValue(next);
      try {
        sessionStorage.setItem(key, JSON.stringify(next));
      } catch {
        // The text stays in memory.
      }
    },
    () => {
      sessionStorage.removeItem(key);
      setValue(initial);
    },
  ];
}

/** useSettled returns a value once it has not changed for a moment. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 300);
    return () => clearTimeout(timer);
  }, [JSON.stringify(value)]);
  return settled;
}
