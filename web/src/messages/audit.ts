import { catalogue } from "../app/i18n";
import entries from "./audit.json";

/** Texts of the audit log. */
export const text = catalogue(entries);

/** actText says an act in words; an act that is not known stays as it is. */
export function actText(action: string): string {
  return action.includes(".") && Object.hasOwn(entries, action) ? text(action as keyof typeof entries) : action;
}
