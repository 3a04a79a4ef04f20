// What is wrong with the fleet, in words. Limits and remedies are those of
// docs/operations/monitor.md and troubleshoot.md.
import type { Schemas } from "../../app/api";
import { duration } from "../../app/i18n";
import { text, textOf } from "../../messages/fleet";

export type Edge = Schemas["Edge"];

export type Act = "verify" | "accept" | "drain" | "undrain" | "revoke" | "gone" | "enrol";

/** Finding is something that an operator should know. Notes are no faults. */
export interface Finding {
  level: "bad" | "warn" | "note";
  what: string;
  remedy: string;
  since?: string;
  /** The edge; without one it concerns several. */
  node?: string;
  act?: Act;
  command?: string;
}

const oldAge = 10; // seconds
const longLag = 5; // seconds
const clicksWait = 60; // seconds

/** findings lists what is wrong with edges, faults first. */
export function findings(edges: readonly Edge[]): Finding[] {
  const alive = edges.filter((e) => e.state === "alive");
  const old = alive.filter((e) => (e.age_seconds ?? 0) > oldAge);
  const allOld = old.length > 1 && old.length === alive.length;
  const all = edges.flatMap((e) => ofEdge(e, allOld));
  if (allOld) {
    const least = Math.min(...old.map((e) => e.age_seconds!));
    all.push({ level: "bad", what: text("allOld", { age: duration(least) }), remedy: text("allOldDo"), since: before(old[0]!.last_seen, least) });
  }
  const versions = [...new Set(alive.map((e) => e.version))];
  if (versions.length > 1) {
    const list = versions.map((v) => `${v} (${alive.filter((e) => e.version === v).map((e) => e.node).join(", ")})`).join("; ");
    all.push({ level: "warn", what: text("versions", { list }), remedy: text("versionsDo") });
  }
  const shared = alive.filter((e) => e.credential === "shared").length;
  if (shared) all.push({ level: "note", what: text("shared", { n: shared }), remedy: text("sharedDo"), act: "enrol" });
  const order = ["bad", "warn", "note"];
  return all.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

/** before returns the moment some seconds before another. */
function before(at: string, seconds: number): string {
  return new Date(new Date(at).getTime() - seconds * 1000).toISOString();
}

function ofEdge(e: Edge, allOld: boolean): Finding[] {
  const { node, region } = e;
  const found: Finding[] = [];
  const add = (level: Finding["level"], what: string, remedy: string, more: Partial<Finding> = {}) => found.push({ level, what, remedy, node, ...more });
  const named = { node, region };
  if (e.credential === "revoked") add("bad", text("revoked", named), text("revokedDo"), { act: "enrol" });
  if (e.twins.length) add("bad", text("twin", { ...named, others: e.twins.join(", ") }), text("twinDo"));
  if (e.state === "silent") {
    add("bad", textOf(e.via === "gossip" ? "cutOff" : "silent", named), text("silentDo"), { since: e.since });
    return found;
  }
  if (e.state === "gone") {
    add("warn", text("gone", named), text("goneDo"), { since: e.since, act: "gone", command: `waypost edges gone ${node}` });
    return found;
  }
  if (e.held || e.replica === "held") {
    const kind = e.held === "mass-delete" ? "massDelete" : e.held === "empty-snapshot" ? "emptySnapshot" : "heldRecord";
    const why = e.held_why ? ` ${e.held_why}` : "";
    add("bad", textOf(kind, named) + why, textOf(`${kind}Do`), { act: "accept", command: `waypost edges accept ${node}` });
  } else if (e.replica === "degraded" && !e.disk_low) {
    add("bad", text("degraded", named), text("degradedDo"));
  } else if (e.replica === "waiting") {
    add("warn", text("waiting", named) + (e.held_why ? ` ${e.held_why}` : ""), text("waitingDo"));
  } else if (e.replica === "verifying") {
    add("warn", text("verifying", named), text("verifyingDo"), { ...(e.started_at ? { since: e.started_at } : {}) });
  } else if (e.replica === "restoring" || e.replica === "repairing") {
    add("warn", textOf(e.replica, named), text("progressDo"));
  } else if (e.replica === "" && e.position === null) {
    add("warn", text("unknownReplica", named), text("waitingDo"));
  }
  if (e.disk_low) add("bad", text("diskLow", named), text("diskLowDo"));
  const age = e.age_seconds ?? 0;
  if (age > oldAge && !allOld) {
    add("bad", text("old", { ...named, age: duration(age) }), text("oldDo"), { since: before(e.last_seen, age) });
  } else if ((e.lag_seconds ?? 0) > longLag && e.lag_changes) {
    add("warn", text("behind", { ...named, n: e.lag_changes, age: duration(e.lag_seconds!) }), text("behindDo"), { since: before(e.last_seen, e.lag_seconds!) });
  }
  const v = e.verified;
  if (v?.damage) {
    add("warn", text("damaged", { ...named, why: v.damage }), text("damagedDo"), { since: v.at, act: "verify", command: `waypost verify --edge ${node}` });
  } else if (v?.error) {
    add("warn", text("verifyFailed", { ...named, why: v.error }), text("verifyFailedDo"), { since: v.at, act: "verify" });
  }
  if (e.clicks_pending && e.clicks_until && new Date(e.last_seen).getTime() - new Date(e.clicks_until).getTime() > clicksWait * 1000) {
    add("warn", text("clicksWait", { ...named, n: e.clicks_pending }), text("clicksWaitDo"), { since: e.clicks_until });
  }
  if (e.draining) add("note", text("isDraining", named), text("isDrainingDo"), { act: "undrain" });
  return found;
}

/** stateOf returns the state of an edge in a word, and its colour. */
export function stateOf(e: Edge): [label: string, kind: "good" | "warn" | "bad" | ""] {
  if (e.state === "silent") return [text("stateSilent"), "bad"];
  if (e.state === "gone") return [text("stateGone"), "warn"];
  if (e.held || e.replica === "held") return [text("stateHeld"), "bad"];
  if (e.disk_low) return [text("stateDiskLow"), "bad"];
  if (e.replica === "degraded") return [text("stateDegraded"), "bad"];
  if (e.replica === "verifying") return [text("stateVerifying"), "warn"];
  if (e.replica === "waiting") return [text("stateWaiting"), "warn"];
  if (e.replica === "restoring") return [text("stateRestoring"), "warn"];
  if (e.replica === "repairing") return [text("stateRepairing"), "warn"];
  if (e.draining) return [text("stateDraining"), "warn"];
  return [text("stateAlive"), "good"];
}
