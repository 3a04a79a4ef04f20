import { catalogue } from "../app/i18n";
import values from "./of/settings.json";
import entries from "./settings.json";

/** Texts of the settings and of the invitation. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
