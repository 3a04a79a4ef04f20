import { catalogue } from "../app/i18n";
import values from "./of/transfer.json";
import entries from "./transfer.json";

/** Texts of import and export. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
