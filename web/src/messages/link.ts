import { catalogue } from "../app/i18n";
import entries from "./link.json";

/** Texts of the screen of one link. */
export const text = catalogue(entries);
