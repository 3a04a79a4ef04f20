import { catalogue } from "../app/i18n";
import values from "./of/ranges.json";
import entries from "./ranges.json";

/** Texts of the key ranges. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
