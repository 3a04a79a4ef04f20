import { catalogue } from "../app/i18n";
import entries from "./fleet.json";

/** Texts of the fleet. */
export const text = catalogue(entries);
