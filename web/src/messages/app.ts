import { catalogue } from "../app/i18n";
import entries from "./app.json";

/** Texts of the frame around all screens, and of what several screens share. */
export const text = catalogue(entries);
