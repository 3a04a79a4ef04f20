// Bundles the console's source into files that the control plane serves, and checks their
// sizes against the budgets.
//
//   node build.mjs SOURCE DIRECTORY
//   node build.mjs -tests SOURCE DIRECTORY    bundles the unit tests, *.test.ts, for node --test
//
// The console is built once for each language. The names of the files hold a hash of their
// content, so that browsers may keep them forever; index.html names the current ones.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, parse, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { catalogue, languages } from "./catalogue.mjs";

/** budgets are bytes, compressed by gzip, of the files that a browser loads in one language. */
const budgets = {
  "first screen": 40 << 10, // scripts until the list of links is shown
  "style sheet": 10 << 10,
  map: 15 << 10, // of the world, loaded when asked for
  everything: 128 << 10,
};

const tests = process.argv[2] === "-tests";
const [given, dir] = process.argv.slice(tests ? 3 : 2);
if (!dir) {
  console.error("usage: build.mjs [-tests] SOURCE DIRECTORY");
  process.exit(2);
}
const source = resolve(given);
const esbuild = createRequire(join(source, "x"))("esbuild");
const common = { absWorkingDir: source, bundle: true, format: "esm", target: "es2022", tsconfigRaw: "{}", logLevel: "warning" };

/** build bundles the source into an emptied directory. */
async function build() {
  const page = readFileSync(join(source, "index.html"), "utf8");
  const frame = await bundle("", "boot.ts", "style.css", "icon.svg");
  const names = { boot: frame.nameOf("boot.ts"), style: frame.nameOf("style.css"), icon: frame.nameOf("icon.svg") };
  const consoles = {};
  for (const language of languages) {
    consoles[language] = await bundle(language, "main.tsx");
    names[language] = consoles[language].nameOf("main.tsx");
  }
  frame.files["index.html"] = Buffer.from(page.replace(/\{\{(\w+)\}\}/g, (mark, name) => names[name] ?? mark));
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  for (const { files } of [frame, ...Object.values(consoles)]) {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, name), content);
  }
  const over = languages.flatMap((language) => weigh(frame, consoles[language], language));
  if (over.length > 0) throw new Error(over.join("\n"));
}

/** buildTests bundles each unit test of the source, in English, into a directory. */
async function buildTests() {
  const all = readdirSync(source, { recursive: true }).filter((name) => name.endsWith(".test.ts"));
  await esbuild.build({
    ...common, entryPoints: all, outdir: resolve(dir), outExtension: { ".js": ".mjs" }, platform: "node", sourcemap: "inline",
    define: { LANGUAGE: '"en"' }, plugins: [catalogue(source, "en")],
    // Stand-ins for the parts of a browser that modules read when they are loaded.
    banner: { js: 'globalThis.localStorage ??= { getItem: () => null, setItem: () => {} };\nglobalThis.navigator ??= { languages: ["en"] };' },
  });
}

/** charts is a plugin that takes uPlot as its authors have compressed it, which is smaller
 * than a build of its modules. */
const charts = {
  name: "charts",
  setup: (b) => b.onLoad({ filter: /uplot\/dist\/uPlot\.esm\.js$/ }, ({ path }) => ({
    contents: `${readFileSync(path.replace(/esm\.js$/, "iife.min.js"), "utf8")}\nexport default uPlot;`, loader: "copy",
  })),
};

/** bundle builds entry points, in a language when they have texts. It returns the files by
 * name, with the name of an entry point's file and the files that a file imports at once. */
async function bundle(language, ...entries) {
  const { outputFiles, metafile } = await esbuild.build({
    ...common, entryPoints: entries.map((entry) => ({ in: entry, out: language ? `console-${language}` : parse(entry).name })),
    outdir: "/out", entryNames: "[name]-[hash]", chunkNames: "[name]-[hash]", assetNames: "[name]-[hash]", write: false,
    splitting: true, minify: true, legalComments: "eof", charset: "utf8", metafile: true, loader: { ".svg": "copy" },
    jsx: "transform", jsxFactory: "createElement", jsxFragment: "Fragment", inject: language ? [join(source, "jsx.ts")] : [],
    define: { LANGUAGE: JSON.stringify(language) }, plugins: [catalogue(source, language), charts],
  });
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, out]) => [basename(path), out]));
  return {
    files: Object.fromEntries(outputFiles.map((file) => [basename(file.path), file.contents])),
    nameOf: (entry) => [...outputs].find(([, out]) => out.entryPoint === entry)[0],
    importsOf: (name) => (outputs.get(name)?.imports ?? []).filter((i) => i.kind === "import-statement").map((i) => basename(i.path)),
  };
}

/** weigh prints the compressed size of each file that a browser may load in a language, and
 * returns the budgets that are exceeded. */
function weigh(frame, built, language) {
  const first = new Set([frame.nameOf("boot.ts"), built.nameOf("main.tsx")]);
  for (const name of first) for (const imported of built.importsOf(name)) first.add(imported); // grows as it is read
  const sizes = Object.entries({ ...frame.files, ...built.files }).map(([name, content]) => [name, gzipSync(content, { level: 9 }).length]);
  const sum = (is) => sizes.reduce((total, [name, size]) => total + (is(name) ? size : 0), 0);
  for (const [name, size] of sizes.sort(([, a], [, b]) => b - a)) console.log(String(size).padStart(8), name);
  const taken = {
    "first screen": sum((name) => first.has(name)), "style sheet": sum((name) => name === frame.nameOf("style.css")),
    map: sum((name) => name.startsWith("world-")), everything: sum(() => true),
  };
  return Object.entries(budgets).flatMap(([what, most]) => {
    console.log(`${String(taken[what]).padStart(8)} of ${String(most).padStart(6)} ${language}: ${what}`);
    return taken[what] > most ? [`${language}: ${what} has ${taken[what]} bytes and may have ${most}`] : [];
  });
}

await (tests ? buildTests() : build()).catch((e) => {
  if (!e.errors) console.error(`console: ${e.message}`); // esbuild has written its own
  process.exit(1);
});
