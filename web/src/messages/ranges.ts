import { catalogue } from "../app/i18n";
import entries from "./ranges.json";

/** Texts of the key ranges. */
export const text = catalogue(entries);
