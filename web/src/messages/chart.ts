import { catalogue } from "../app/i18n";
import entries from "./chart.json";

/** Texts of charts, breakdowns and the map, which several screens show. */
export const text = catalogue(entries);
