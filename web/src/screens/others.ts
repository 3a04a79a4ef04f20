// All screens but the first, which are loaded together, because they compress better so. The
// first import is for the builder: with it all code that screens share with the frame is in
// one file, which saves 2 kB.
import "../app/app";
export { default as Audit } from "./audit/audit";
export { default as Bin } from "./links/bin";
export { default as Fleet } from "./fleet/fleet";
export { default as Invitation } from "./settings/invitation";
export { default as Link } from "./link/link";
export { default as Overview } from "./overview/overview";
export { Try } from "./link/explain";
export { RuleFields, toRules } from "./link/rules";
export { default as Ranges } from "./ranges/ranges";
export { default as Settings } from "./settings/settings";
export { default as Transfer } from "./transfer/transfer";
export { default as Unknown } from "./unknown/unknown";
