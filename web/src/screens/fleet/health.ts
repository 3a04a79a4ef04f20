// What is wrong with the fleet, as nodes report it.
import type { Schemas } from "../../app/api";
import { text } from "../../messages/fleet";

export type Edge = Schemas["Edge"];
export type ControlPlane = Schemas["ControlPlane"];
export type Fleet = Schemas["EdgeList"];
type Condition = Schemas["NodeCondition"];

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
  /** Of words that a node has reported. */
  lang?: "en";
}

/** acts that help against a condition. */
const acts: Record<string, Act> = { EdgeHeld: "accept", EdgeDown: "gone", EdgeRevoked: "enrol", EdgeDrained: "undrain", ReplicaDamaged: "verify" };

/** findings lists what nodes say is wrong with them, faults first. */
export function findings({ edges, control_planes }: Fleet): Finding[] {
  const all = [
    ...edges.flatMap((e) => e.conditions.map((c) => found(c, `${e.node} in ${e.region}`, e.node))),
    ...control_planes.flatMap((p) => p.conditions.map((c) => found(c, c.of || p.node))),
  ];
  const shared = edges.filter((e) => e.state === "alive" && e.credential === "shared").length;
  if (shared) all.push({ level: "note", what: text("shared", { n: shared }), remedy: text("sharedDo"), act: "enrol" });
  const order = ["bad", "warn", "note"];
  return all.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

function found(c: Condition, where: string, node?: string): Finding {
  const act = node ? acts[c.name] : undefined;
  return {
    level: c.severity === "critical" ? "bad" : "warn", what: `${where} ${c.what}.`, remedy: c.do, since: c.since, lang: "en",
    ...(node ? { node } : {}), ...(act ? { act } : {}),
  };
}

/** stateOf returns the state of an edge in a word, and its colour. */
export function stateOf(e: Edge): [label: string, kind: "good" | "warn" | "bad" | ""] {
  if (e.state === "silent") return [text("stateSilent"), "bad"];
  if (e.state === "gone") return [text("stateGone"), "warn"];
  if (e.held || e.replica === "held") return [text("stateHeld"), "bad"];
  if (e.conditions.some((c) => c.name === "ReplicaDiskLow")) return [text("stateDiskLow"), "bad"];
  if (e.replica === "degraded") return [text("stateDegraded"), "bad"];
  if (e.replica === "verifying") return [text("stateVerifying"), "warn"];
  if (e.replica === "waiting") return [text("stateWaiting"), "warn"];
  if (e.replica === "restoring") return [text("stateRestoring"), "warn"];
  if (e.replica === "repairing") return [text("stateRepairing"), "warn"];
  if (e.draining) return [text("stateDraining"), "warn"];
  return [text("stateAlive"), "good"];
}
