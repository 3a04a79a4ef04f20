import { effect } from "@preact/signals";
import lazy, { ErrorBoundary } from "preact-iso/lazy";
import { LocationProvider, Route, Router, useLocation } from "preact-iso/router";
import { useEffect, useState } from "preact/hooks";
import { text } from "../messages/app";
import Links from "../screens/links/links";
import { Trouble } from "../ui/failure";
import { Toasts } from "../ui/toast";
import { sessionEnded, workspaceSlug } from "./api";
import { startLive } from "./live";
import { Help, Palette } from "./palette";
import { loadMe, me, meFailure } from "./session";
import { Shell } from "./shell";
import { SignInScreen, SignInAgain } from "./signin";
import { useShortcuts } from "./keys";

const others = () => import("../screens/others");

const Link = lazy(() => others().then((m) => m.Link));
const Bin = lazy(() => others().then((m) => m.Bin));
const Overview = lazy(() => others().then((m) => m.Overview));
const Unknown = lazy(() => others().then((m) => m.Unknown));
const Import = lazy(() => others().then((m) => m.Transfer));
const Settings = lazy(() => others().then((m) => m.Settings));
const Invitation = lazy(() => others().then((m) => m.Invitation));
const Fleet = lazy(() => others().then((m) => m.Fleet));
const Ranges = lazy(() => others().then((m) => m.Ranges));
const Audit = lazy(() => others().then((m) => m.Audit));

/** App is the whole console. */
export function App() {
  return (
    <LocationProvider scope="/console">
      <Gate />
      <Toasts />
    </LocationProvider>
  );
}

/** Gate shows the sign-in, or the screens of the user who has signed in. */
function Gate() {
  const { path } = useLocation();
  useEffect(() => void loadMe(), []);
  if (path === "/console/sign-in") return <SignInScreen />;
  if (path === "/console/invitation") return <main class="center"><Router>{[<Route path="/console/invitation" component={Invitation} />]}</Router></main>;
  if (meFailure.value && !me.value) return <main class="center"><Trouble failure={meFailure.value} retry={() => void loadMe()} /></main>;
  if (me.value === undefined) return <main class="center"><p class="quiet waits" role="status">{text("loading")}</p></main>;
  if (me.value === null) return <SignInScreen />;
  return <Screens />;
}

type Overlay = "palette" | "help" | undefined;

function Screens() {
  const { route } = useLocation();
  const [overlay, setOverlay] = useState<Overlay>();
  // A new stream for each workspace, and after each sign-in.
  useEffect(() => {
    let stop: (() => void) | undefined;
    const dispose = effect(() => {
      if (sessionEnded.value) stop?.();
      else stop = startLive();
    });
    return () => {
      dispose();
      stop?.();
    };
  }, []);
  useShortcuts([
    { keys: "?", label: text("keyHelp"), run: () => setOverlay("help") },
    { keys: "Ctrl+k", label: text("keyPalette"), run: () => setOverlay("palette") },
    { keys: "g l", label: text("keyGo", { name: text("links") }), run: () => route("/console/links") },
    { keys: "g o", label: text("keyGo", { name: text("overview") }), run: () => route("/console/overview") },
    { keys: "g i", label: text("keyGo", { name: text("importExport") }), run: () => route("/console/import") },
    { keys: "g s", label: text("keyGo", { name: text("settings") }), run: () => route("/console/settings") },
    { keys: "c", label: text("create"), run: () => route("/console/links?create") },
  ]);
  return (
    <Shell openPalette={() => setOverlay("palette")} openHelp={() => setOverlay("help")}>
      <ErrorBoundary key={workspaceSlug.value}>
        <Router onRouteChange={() => document.getElementById("content")?.focus({ preventScroll: true })}>
          <Route path="/console" component={Home} />
          <Route path="/console/links" component={Links} />
          <Route path="/console/links/:code" component={Link} />
          <Route path="/console/bin" component={Bin} />
          <Route path="/console/overview" component={Overview} />
          <Route path="/console/unknown" component={Unknown} />
          <Route path="/console/import/:id?" component={Import} />
          <Route path="/console/settings/:part?" component={Settings} />
          <Route path="/console/fleet" component={Fleet} />
          <Route path="/console/ranges" component={Ranges} />
          <Route path="/console/audit" component={Audit} />
          <Route default component={NotFound} />
        </Router>
      </ErrorBoundary>
      {overlay === "palette" && <Palette close={() => setOverlay(undefined)} />}
      {overlay === "help" && <Help close={() => setOverlay(undefined)} />}
      {sessionEnded.value && <SignInAgain />}
    </Shell>
  );
}

function Home() {
  const { route } = useLocation();
  useEffect(() => route("/console/links", true), []);
  return null;
}

function NotFound() {
  return (
    <section class="empty">
      <h1>{text("notFound")}</h1>
      <p><a href="/console/links">{text("toLinks")}</a></p>
    </section>
  );
}
