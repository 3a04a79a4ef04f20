import { catalogue } from "../app/i18n";
import values from "./of/overview.json";
import entries from "./overview.json";

/** Texts of the overview. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
