import { catalogue } from "../app/i18n";
import values from "./of/app.json";
import entries from "./app.json";

/** Texts of the frame around all screens, and of what several screens share. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
