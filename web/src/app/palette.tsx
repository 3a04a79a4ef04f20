import { useLocation } from "preact-iso/router";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { text } from "../messages/app";
import { Dialog } from "../ui/dialog";
import { words } from "../ui/failure";
import { ask, client, type Schemas } from "./api";
import { shortcuts } from "./keys";
import { useLoad } from "./load";
import { linkPath, searchOf } from "./paths";
import { allPlaces } from "./shell";

interface Entry {
  label: string;
  detail?: string;
  run: () => void;
}

/** Palette finds screens, commands and links by typing. */
export function Palette({ close }: { close: () => void }) {
  const { route } = useLocation();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const { urls, why } = useFound(typed);
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const fits = (label: string) => label.toLowerCase().includes(typed.trim().toLowerCase());
  const go = (to: string) => () => {
    close();
    route(to);
  };
  const entries: Entry[] = [
    ...allPlaces().filter(([, label]) => fits(label)).map(([to, label]) => ({ label, run: go(to) })),
    ...shortcuts.value.filter((s) => !s.keys.startsWith("g ") && !s.keys.startsWith("Ctrl") && fits(s.label)).map((s) => ({
      label: s.label, detail: s.keys,
      run: () => {
        close();
        s.run();
      },
    })),
    ...urls.map((l) => ({ label: l.title || l.short_code, detail: l.short_url, run: go(linkPath(l)) })),
  ];
  const chosen = Math.min(at, entries.length - 1);
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <Dialog title={text("commands")} close={close} wide>
      <input
        type="search" list={undefined} class="full" autofocus role="combobox" aria-expanded="true" aria-controls={id} aria-label={text("palettePlaceholder")}
        aria-activedescendant={entries.length ? `${id}-${chosen}` : undefined} placeholder={text("palettePlaceholder")} value={typed}
        onInput={(e) => {
          setTyped(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
          if (step) setAt((chosen + step + entries.length) % Math.max(1, entries.length));
          else if (e.key === "Enter") entries[chosen]?.run();
          else if (e.key === "Escape") close(); // a search field would only be emptied
          else return;
          e.preventDefault();
        }}
      />
      <ul class="palette" role="listbox" id={id} ref={list} aria-label={text("commands")}>
        {entries.map((entry, i) => (
          <li key={entry.label + entry.detail} id={`${id}-${i}`} role="option" aria-selected={i === chosen} onClick={entry.run}>
            <span dir="auto">{entry.label}</span> <span class="quiet">{entry.detail}</span>
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">{why ?? (entries.length === 0 && text("paletteNothing"))}</p>
    </Dialog>
  );
}

/** useFound returns the links that fit what is typed, or else why none are known. */
function useFound(typed: string): { urls: readonly Schemas["Link"][]; why?: string } {
  const domains = useLoad((signal) => ask(client.GET("/api/v1/domains", { signal })), []).data?.domains ?? [];
  const { search, domain } = searchOf(typed.trim(), domains);
  const of = `${domain} ${search}`;
  const short = search.length < 2;
  const { data, failure, loading } = useLoad(async (signal) => {
    if (short) return undefined;
    await new Promise((done) => setTimeout(done, 120)); // the next letter may follow
    return { of, urls: (await ask(client.GET("/api/v1/urls", { params: { query: { search, domain, limit: 8 } }, signal }))).urls };
  }, [of]);
  if (short) return { urls: [] };
  if (data?.of === of) return data; // and not of what was typed before
  return { urls: [], why: failure && !loading ? words(failure) : text("paletteSearching") };
}

/** Help lists the shortcuts of the screen. */
export function Help({ close }: { close: () => void }) {
  const seen = new Map(shortcuts.value.map((s) => [s.keys, s.label]));
  return (
    <Dialog title={text("shortcutHelp")} close={close}>
      <dl class="keys">
        {[...seen].map(([keys, label]) => (
          <div key={keys}><dt>{keys.split(" ").map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{label}</dd></div>
        ))}
      </dl>
    </Dialog>
  );
}
