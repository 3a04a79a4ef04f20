import { catalogue } from "../app/i18n";
import entries from "./links.json";

/** Texts of the lists of links and of the form that creates one. */
export const text = catalogue(entries);
