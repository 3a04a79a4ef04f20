import { catalogue } from "../app/i18n";
import values from "./of/audit.json";
import entries from "./audit.json";

/** Texts of the audit log. */
export const text = /* @__PURE__ */ catalogue(entries);
const textOf = catalogue(values);

/** actText says an act in words; an act that is not known stays as it is. */
export function actText(action: string): string {
  return Object.hasOwn(values, action) ? textOf(action as keyof typeof values) : action;
}
