import { catalogue } from "../app/i18n";
import entries from "./transfer.json";

/** Texts of import and export. */
export const text = catalogue(entries);
