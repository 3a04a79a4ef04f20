// What JSX becomes in built files. It takes less room than calls of preact/jsx-runtime, for
// which the types are checked.
export { createElement, Fragment } from "preact";
