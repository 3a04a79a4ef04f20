import { catalogue } from "../app/i18n";
import values from "./of/links.json";
import entries from "./links.json";

/** Texts of the lists of links and of the form that creates one. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
