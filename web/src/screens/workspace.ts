// Screens of the workspace that are loaded together, because they compress better so.
export { default as Bin } from "./links/bin";
export { default as Invitation } from "./settings/invitation";
export { default as Link } from "./link/link";
export { default as Overview } from "./overview/overview";
export { default as Settings } from "./settings/settings";
export { default as Transfer } from "./transfer/transfer";
