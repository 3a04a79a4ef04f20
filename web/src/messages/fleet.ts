import { catalogue } from "../app/i18n";
import values from "./of/fleet.json";
import entries from "./fleet.json";

/** Texts of the fleet. */
export const text = /* @__PURE__ */ catalogue(entries);
export const textOf = catalogue(values);
