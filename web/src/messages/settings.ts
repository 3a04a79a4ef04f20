import { catalogue } from "../app/i18n";
import entries from "./settings.json";

/** Texts of the settings and of the invitation. */
export const text = catalogue(entries);
