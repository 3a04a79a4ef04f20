import { catalogue } from "../app/i18n";

/** Texts of the audit log. */
export const text = catalogue({
  admins: ["The audit log is for administrators of the workspace.", "Das Protokoll ist für Administratoren des Workspace."],
  all: ["All workspaces", "Alle Workspaces"],
  search: ["Search in what is loaded", "Im Geladenen suchen"],
  empty: ["No administrator has done anything yet.", "Noch hat kein Administrator etwas getan."],
  nothing: ["Nothing that is loaded matches.", "Nichts Geladenes passt."],
  count: [["{n} of {all} loaded entries", "{n} of {all} loaded entries"], ["{n} von {all} geladenen Einträgen", "{n} von {all} geladenen Einträgen"]],
  end: ["These are all entries.", "Das sind alle Einträge."],
  when: ["When", "Wann"],
  who: ["Who", "Wer"],
  act: ["Act", "Handlung"],
  subject: ["Object", "Objekt"],
  workspace: ["Workspace", "Workspace"],
  details: ["Details", "Einzelheiten"],

  "clicks.forget": ["Deleted a link's clicks", "Klicks eines Links gelöscht"],
  "domains.add": ["Added a domain", "Domain hinzugefügt"],
  "domains.approve": ["Approved a domain", "Domain genehmigt"],
  "domains.prove": ["Proved a domain", "Domain nachgewiesen"],
  "domains.remove": ["Removed a domain", "Domain entfernt"],
  "domains.set": ["Changed a domain", "Domain geändert"],
  "domains.suspend": ["Suspended a domain", "Domain ausgesetzt"],
  "domains.unproved": ["The proof of a domain is missing", "Nachweis einer Domain fehlt"],
  "edges.accept": ["Let an edge take a held change", "Edge eine zurückgehaltene Änderung nehmen lassen"],
  "edges.drain": ["Drained an edge", "Edge umgeleitet"],
  "edges.enrol": ["Made a token with which an edge enrols", "Token zum Anmelden eines Edge erzeugt"],
  "edges.enrolled": ["Enrolled an edge", "Edge angemeldet"],
  "edges.gone": ["Declared an edge lost for good", "Edge als endgültig verloren erklärt"],
  "edges.revoke": ["Revoked the credential of an edge", "Zugang eines Edge widerrufen"],
  "edges.undrain": ["Ended the drain of an edge", "Umleitung eines Edge beendet"],
  "edges.verify": ["Compared an edge with PostgreSQL", "Edge mit PostgreSQL verglichen"],
  "keys.create": ["Created an API key", "API-Schlüssel erzeugt"],
  "keys.revoke": ["Revoked an API key", "API-Schlüssel widerrufen"],
  "keys.rotate": ["Replaced an API key", "API-Schlüssel ersetzt"],
  "ranges.assign": ["Assigned a prefix to a region", "Einer Region ein Präfix gegeben"],
  "ranges.drain": ["Stopped leases from a key range", "Leases aus einem Schlüsselbereich beendet"],
  "ranges.move": ["Moved keys to another region", "Schlüssel an eine andere Region gegeben"],
  "ranges.resume": ["Let keys be issued again", "Schlüsselausgabe fortgesetzt"],
  "ranges.retire": ["Retired a key range", "Schlüsselbereich beendet"],
  "ranges.revive": ["Let a key range be leased from again", "Leases aus einem Schlüsselbereich wieder erlaubt"],
  "ranges.split": ["Split a key range", "Schlüsselbereich geteilt"],
  "salts.destroy": ["Destroyed the visitor salt of a day", "Besucher-Salt eines Tages vernichtet"],
  "users.add": ["Added a user", "Benutzer hinzugefügt"],
  "users.admin": ["Made the first administrator", "Ersten Administrator angelegt"],
  "users.change": ["Changed a user", "Benutzer geändert"],
  "users.invite": ["Invited a user to set a password", "Benutzer zum Setzen eines Passworts eingeladen"],
  "users.remove": ["Removed a user", "Benutzer entfernt"],
  "workspaces.change": ["Changed a workspace", "Workspace geändert"],
  "workspaces.create": ["Created a workspace", "Workspace angelegt"],
  "workspaces.delete": ["Deleted a workspace", "Workspace gelöscht"],
});

const known = new Set([
  "clicks.forget", "domains.add", "domains.approve", "domains.prove", "domains.remove", "domains.set", "domains.suspend", "domains.unproved",
  "edges.accept", "edges.drain", "edges.enrol", "edges.enrolled", "edges.gone", "edges.revoke", "edges.undrain", "edges.verify",
  "keys.create", "keys.revoke", "keys.rotate",
  "ranges.assign", "ranges.drain", "ranges.move", "ranges.resume", "ranges.retire", "ranges.revive", "ranges.split",
  "salts.destroy", "users.add", "users.admin", "users.change", "users.invite", "users.remove",
  "workspaces.change", "workspaces.create", "workspaces.delete",
]);

/** actText says an act in words; an act that is not known stays as it is. */
export function actText(action: string): string {
  return known.has(action) ? text(action as Parameters<typeof text>[0]) : action;
}
