// Screens of operators, which are loaded together, because they compress better so. The
// first import is as in workspace.ts.
import "../app/app";
export { default as Audit } from "./audit/audit";
export { default as Fleet } from "./fleet/fleet";
export { default as Ranges } from "./ranges/ranges";
