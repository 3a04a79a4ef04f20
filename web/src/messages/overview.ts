import { catalogue } from "../app/i18n";
import entries from "./overview.json";

/** Texts of the overview. */
export const text = catalogue(entries);
