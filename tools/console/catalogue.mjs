// The texts of the console, in one language, where the source asks for them.
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** languages are the languages of a text in the catalogue, in order. */
export const languages = ["en", "de"];

/** filling is the name of the function that puts values into a text, in built code. */
const filling = "fillText";

/** catalogue returns a plugin of esbuild that reduces the texts of messages/ to one
 * language. Texts that the source names are written in the place of the call, so that
 * neither their keys nor a table of them are loaded. The texts of messages/of/, which are
 * looked up by a value, remain a table. */
export function catalogue(source, language) {
  const load = (path) => {
    try {
      return inLanguage(JSON.parse(readFileSync(path, "utf8")), languages.indexOf(language));
    } catch (e) {
      throw new Error(`${path}: ${e.message}`);
    }
  };
  const areas = {};
  const area = (name) => (areas[name] ??= load(join(source, "messages", `${name}.json`)));
  const setup = (b) => {
    b.onLoad({ filter: /messages\/(of\/)?\w+\.json$/ }, ({ path }) => ({ contents: JSON.stringify(load(path)), loader: "json" }));
    b.onLoad({ filter: /\.tsx?$/ }, ({ path }) => {
      if (!path.startsWith(`${source}/`)) return undefined;
      let code = inPlace(readFileSync(path, "utf8"), area);
      if (code.includes(`${filling}(`)) code = `import { fill as ${filling} } from ${JSON.stringify(join(source, "app/i18n"))};${code}`;
      return { contents: code, loader: path.endsWith("x") ? "tsx" : "ts" };
    });
  };
  return { name: "catalogue", setup };
}

/** inPlace replaces the calls by which code asks for texts of areas. A call with values, or
 * for a text with a pair of forms, becomes a call of filling. A call with another argument
 * than a key is refused, because it would load the texts of the whole area. */
export function inPlace(code, area) {
  const functions = new Map(); // texts, by the name of the function
  for (const [, names, name] of code.matchAll(/import \{([^}]*)\} from "[^"]*\/messages\/(\w+)"/g)) {
    const named = names.match(/\btext\b(?: as (\w+))?/);
    if (named) functions.set(named[1] ?? "text", area(name));
  }
  for (const [call, name] of code.matchAll(/(?:^|[^\w.])(\w+)\([^")]/g)) {
    if (functions.has(name)) throw new Error(`${name} is called without a key, where textOf looks texts up: ${call}`);
  }
  return code.replace(/(^|[^\w.])(\w+)\("(\w+)"([,)])/g, (call, before, name, key, after) => {
    const texts = functions.get(name);
    if (!texts) return call;
    const text = texts[key];
    if (text === undefined) throw new Error(`no text ${key}`);
    const plain = after === ")" && typeof text === "string";
    return `${before}${plain ? "" : filling}(${JSON.stringify(text)}${after}`;
  });
}

/** inLanguage returns the texts of one language out of a file of the catalogue, by key. It
 * refuses a text without a translation, or with other placeholders in the translation. */
export function inLanguage(entries, language) {
  const chosen = {};
  for (const [key, texts] of Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (texts.length !== languages.length) throw new Error(`${key} has ${texts.length} languages`);
    const [first, ...others] = texts.map((text) => placeholders(key, text));
    const other = others.find((names) => names !== first);
    if (other !== undefined) throw new Error(`${key} has the placeholders "${first}" in one language and "${other}" in another`);
    chosen[key] = texts[language];
  }
  return chosen;
}

/** placeholders returns the names in a text, which is a string or a pair of one and other
 * forms. A form for one may leave {n} out. The detail of an answer of the API is English,
 * so that other languages may leave it out. */
function placeholders(key, text) {
  const forms = Array.isArray(text) && text.length === 2 ? text : [text];
  if (forms.some((form) => typeof form !== "string")) throw new Error(`${key} is neither a text nor a pair of forms`);
  const names = new Set(Array.from(forms.join(" ").matchAll(/\{(\w+)\}/g), ([, name]) => name));
  names.delete("detail");
  return [...names].sort().join();
}
