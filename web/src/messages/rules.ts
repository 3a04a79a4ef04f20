import { catalogue } from "../app/i18n";
import values from "./of/rules.json";
import entries from "./rules.json";

/** Texts of the rules of a link. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
