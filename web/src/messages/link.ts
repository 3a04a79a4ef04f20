import { catalogue } from "../app/i18n";
import values from "./of/link.json";
import entries from "./link.json";

/** Texts of the screen of one link. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
