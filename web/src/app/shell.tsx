import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { text } from "../messages/app";
import { language, setLanguage, type Language } from "./i18n";
import { setShortcutsOn, shortcutsOn } from "./keys";
import { live } from "./live";
import { can, chooseWorkspace, me, operator, signOut } from "./session";
import { setTheme, theme, type Theme } from "./theme";
import { toastFailure } from "../ui/failure";
import { Picker } from "../ui/field";

type Place = readonly [path: string, label: string];

function places(): { mine: readonly Place[]; operation: readonly Place[] } {
  return {
    mine: [
      ["/console/links", text("links")], ["/console/overview", text("overview")],
      ...(can("analytics:read") ? [["/console/unknown", text("unknownAddresses")] as const] : []), ["/console/import", text("importExport")],
      ["/console/bin", text("bin")], ["/console/settings", text("settings")],
    ],
    operation: operator.value
      ? [["/console/fleet", text("fleet")], ["/console/ranges", text("ranges")], ["/console/audit", text("audit")]]
      : can("admin") ? [["/console/audit", text("audit")]] : [],
  };
}

/** allPlaces lists the screens that the user may open, for the palette. */
export function allPlaces(): readonly Place[] {
  const { mine, operation } = places();
  return [...mine, ...operation];
}

/** setTitle names the page, for tabs and screen readers. */
export function setTitle(name: string): void {
  document.title = `${name} · Waypost`;
}

/** Shell is the frame around all screens: navigation, workspace, account and the state of the live news. */
export function Shell({ children, openPalette, openHelp }: { children: ComponentChildren; openPalette: () => void; openHelp: () => void }) {
  const { path } = useLocation();
  const menu = useRef<HTMLDetailsElement>(null);
  const { mine, operation } = places();
  // On a narrow screen the menu covers the content, so it closes after a choice.
  useEffect(() => {
    menu.current?.removeAttribute("open");
    setTitle(allPlaces().find(([to]) => path === to || path.startsWith(`${to}/`))?.[1] ?? text("notFound"));
  }, [path]);
  const item = ([to, label]: Place) => (
    <li key={to}><a href={to} aria-current={path === to || path.startsWith(`${to}/`) ? "page" : undefined}>{label}</a></li>
  );
  const nav = (
    <>
      <ul>{mine.map(item)}</ul>
      {operation.length > 0 && (
        <>
          <h2>{text("operation")}</h2>
          <ul>{operation.map(item)}</ul>
        </>
      )}
    </>
  );
  return (
    <div class="shell">
      <a class="skip" href="#content">{text("skip")}</a>
      <header class="top">
        <details class="menu narrow-only" ref={menu}>
          <summary aria-label={text("menu")}>☰</summary>
          <nav aria-label={text("navigation")}>{nav}</nav>
        </details>
        <a class="brand" href="/console/links">Waypost</a>
        <Workspaces />
        <span class="grow" />
        <Live />
        <button type="button" class="small wide-only" onClick={openPalette}>{text("commands")} <kbd>Ctrl K</kbd></button>
        <Account openHelp={openHelp} />
      </header>
      <nav class="side wide-only" aria-label={text("navigation")}>{nav}</nav>
      <main id="content" tabIndex={-1}>{children}</main>
    </div>
  );
}

function Workspaces() {
  const all = me.value?.workspaces ?? [];
  const slug = me.value?.workspace?.slug ?? "";
  if (all.length < 2) return <span class="quiet">{all[0]?.name ?? (me.value?.credential === "none" ? text("anonymous") : slug)}</span>;
  return (
    <Picker
      label={text("workspace")} value={slug} options={all.map((w) => [w.slug, w.name])} action={text("switch")}
      take={(chosen) => void chooseWorkspace(chosen).catch(toastFailure)}
    />
  );
}

/** Live says whether what is shown follows the server. */
function Live() {
  if (live.value === "off") return null;
  const [kind, label] = live.value === "open" ? ["good", text("liveOpen")] : live.value === "connecting" ? ["", text("liveConnecting")] : ["bad", text("liveLost")];
  return <span class={`live ${kind}`} role="status">{label}</span>;
}

function Account({ openHelp }: { openHelp: () => void }) {
  const { route } = useLocation();
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => menu.current?.removeAttribute("open");
  return (
    <details
      class="menu account" ref={menu}
      onKeyDown={(e) => {
        if (e.key !== "Escape" || !menu.current?.open) return;
        close();
        menu.current.querySelector("summary")?.focus();
      }}
      onFocusOut={(e) => {
        if (e.relatedTarget instanceof Node && !menu.current?.contains(e.relatedTarget)) close();
      }}
    >
      <summary>{me.value?.user?.name || me.value?.user?.email || text("account")}</summary>
      <div class="panel">
        {me.value?.user && <p class="quiet">{me.value.user.email}</p>}
        <label class="field">
          <span>{text("theme")}</span>
          <select value={theme.value} onChange={(e) => setTheme(e.currentTarget.value as Theme)}>
            <option value="auto">{text("themeAuto")}</option>
            <option value="light">{text("themeLight")}</option>
            <option value="dark">{text("themeDark")}</option>
          </select>
        </label>
        <label class="field">
          <span>{text("language")}</span>
          <select value={language} onChange={(e) => setLanguage(e.currentTarget.value as Language)}>
            <option value="en" lang="en">English</option>
            <option value="de" lang="de">Deutsch</option>
          </select>
        </label>
        <label class="check">
          <input type="checkbox" checked={shortcutsOn.value} onChange={(e) => setShortcutsOn(e.currentTarget.checked)} />
          <span>{text("shortcutsOn")}</span>
        </label>
        <button
          type="button"
          onClick={() => {
            close();
            openHelp();
          }}
        >
          {text("shortcutHelp")}
        </button>
        {me.value?.credential === "session" && (
          <button type="button" onClick={() => void signOut().then(() => route("/console/sign-in"), toastFailure)}>{text("signOut")}</button>
        )}
      </div>
    </details>
  );
}
