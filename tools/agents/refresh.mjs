// Writes the marks of bots in rules/agents/bots.txt, from the patterns of the npm packages
// crawler-user-agents and isbot, with their licenses: see refresh.sh. It reports the patterns
// that it cannot write as marks.
//
//   node refresh.mjs NODE_MODULES LEFT_OUT BOTS
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [packages, leftOut, to] = process.argv.slice(2);
const load = createRequire(join(resolve(packages), "x"));
const { RegExpParser } = load("@eslint-community/regexpp");
const read = (...names) => readFileSync(join(packages, ...names), "utf8");
const versionOf = (name) => JSON.parse(read(name, "package.json")).version;

const longest = 40; // bytes of the text of a mark, as package agents has it
const most = 64; // marks for a pattern
const tooMany = "it stands for too many texts";

/** A mark is a text, in lower case, and what must be around it: see the header below. */
const nothing = { text: "", start: false, begins: false, ends: false, digit: false, after: [] };

const written = (m) => `${m.start ? "^" : m.begins ? "<" : ""}${m.text}${m.ends ? ">" : m.digit ? "#" : ""}${m.after.map((s) => `~${s}`).join("")}`;

/** parse reads a mark as it is written. */
function parse(s) {
  const [, sign, text, end, after] = s.match(/^([\^<]?)([^~]*?)([>#]?)((?:~[^~]*)*)$/);
  return { text, start: sign === "^", begins: sign === "<", ends: end === ">", digit: end === "#", after: after.split("~").slice(1) };
}

/** has reports whether an agent has a mark. */
function has(m, agent) {
  const quote = (s) => s.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  m.expression ??= new RegExp((m.start ? "^" : m.begins ? "(?<![a-z0-9])" : "") + m.after.map((s) => `(?<!${quote(s)})`).join("") +
    quote(m.text) + (m.ends ? "(?![a-z0-9])" : m.digit ? "(?=[0-9])" : ""));
  return m.expression.test(agent.toLowerCase());
}

/** marksOf returns the marks that stand for a pattern. */
function marksOf(pattern) {
  const [, behind, rest] = pattern.match(/^\(\?<!([^|\\[(.)]*)\)(.*)$/) ?? [null, "", pattern];
  return expand(new RegExpParser().parsePattern(rest)).map((m) => {
    if ((m.text.length < 3 && !m.start) || m.text.length > longest) throw new Error("it stands for a text that is too short or too long");
    return { ...m, after: behind ? [behind] : [] };
  });
}

/** expand returns the marks of a node of a regular expression. */
function expand(node) {
  switch (node.type) {
    case "Pattern": case "Group": case "CapturingGroup":
      return node.alternatives.flatMap((one) => one.elements.map(expand).reduce(joined, [nothing]));
    case "Character":
      return [{ ...nothing, text: node.raw.replace(/^\\/, "").toLowerCase() }];
    case "CharacterSet":
      if (node.kind === "digit" && !node.negate) return [{ ...nothing, digit: true }];
      if (node.kind === "space" && !node.negate) return [{ ...nothing, text: " " }]; // no other is in a header
      break;
    case "CharacterClass":
      if (node.raw === "[0-9]") return [{ ...nothing, digit: true }];
      if (!node.negate && node.elements.length < 9 && node.elements.every((e) => e.type === "Character" || e.kind === "space")) {
        return node.elements.flatMap(expand);
      }
      break;
    case "Quantifier":
      if (node.min === 0 && node.max === 1) return [nothing, ...expand(node.element)];
      if (node.min === 1 && node.max === Infinity) return expand(node.element);
      break;
    case "Assertion":
      if (node.kind === "start") return [{ ...nothing, start: true }];
      if (node.kind === "end" || (node.kind === "word" && !node.negate)) return [{ ...nothing, ends: true }]; // or begins: see joined
  }
  throw new Error(tooMany);
}

/** joined returns each of first with each of then behind it. */
function joined(first, then) {
  const all = first.flatMap((a) => then.map((b) => {
    if (b.text === "" && b.ends && a.text === "" && !a.start) return { ...a, begins: true };
    if (a.ends || a.digit || (b.start && a.text !== "")) throw new Error(tooMany);
    return { ...a, text: a.text + b.text, start: a.start || b.start, ends: b.ends, digit: b.digit };
  }));
  if (all.length > most) throw new Error(tooMany);
  return all;
}

/** narrowed lets a mark begin and end with words, where it does in all agents that it is
 * meant for, so that a name is not found in another word. */
function narrowed(m, instances) {
  const meant = instances.filter((agent) => has(m, agent));
  for (const narrower of [/^[a-z0-9]/.test(m.text) && !m.start && { begins: true }, /[a-z0-9]$/.test(m.text) && !m.digit && { ends: true }]) {
    const n = { ...m, ...narrower, expression: undefined };
    if (meant.length > 0 && meant.every((agent) => has(n, agent))) m = n;
  }
  return m;
}

/** covers reports whether each agent with the mark m has n as well: it tries all kinds of
 * surroundings. */
function covers(n, m) {
  if (!m.text.includes(n.text)) return false;
  const before = ["", " ", "x", "0", ...n.after.flatMap((s) => Array.from(s, (_, i) => s.slice(0, i + 1)))];
  const agents = before.flatMap((b) => ["", " ", "x", "0"].map((behind) => b + m.text + behind));
  return agents.filter((agent) => has(m, agent)).every((agent) => has(n, agent));
}

// Fields of a line are separated by tabs: the pattern, the marks in its place, the reason.
const unused = new Map();
const marks = [];
for (const line of readFileSync(leftOut, "utf8").split("\n").filter((l) => l && !l.startsWith("#"))) {
  const [pattern, instead, reason] = line.split("\t");
  if (!reason) throw new Error(`${leftOut}: the line "${line}" has no three fields`);
  unused.set(pattern, false);
  if (instead) marks.push(...instead.split("|").map(parse));
}
const crawlers = JSON.parse(read("crawler-user-agents", "crawler-user-agents.json"));
const patterns = [...crawlers, ...load("isbot").list.map((pattern) => ({ pattern, instances: [] }))];
for (const { pattern, instances } of patterns) {
  if (unused.has(pattern)) {
    unused.set(pattern, true);
    continue;
  }
  try {
    marks.push(...marksOf(pattern).map((m) => narrowed(m, instances)));
  } catch (e) {
    console.error(`left out: ${pattern}: ${e.message}`);
  }
}
for (const [pattern, used] of unused) {
  if (!used) console.error(`no list has the pattern ${pattern} any more, which ${leftOut} leaves out`);
}
const unique = [...new Map(marks.map((m) => [written(m), m])).values()];
const needed = unique.filter((m) => !unique.some((n) => n !== m && covers(n, m)));
for (const { pattern, instances } of crawlers.filter((c) => !unused.has(c.pattern))) {
  for (const agent of instances.filter((a) => !needed.some((m) => has(m, a)))) console.error(`not found: ${agent}, for ${pattern}`);
}
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
needed.sort((a, b) => order(a.text, b.text) || order(written(a), written(b)));
const licenses = ["crawler-user-agents", "isbot"].map((name) => `
# The license of ${name}:
#
${read(name, "LICENSE").trim().split("\n").map((line) => `# ${line}`.trim()).join("\n")}
`);
writeFileSync(to, `# Marks of bots, from the patterns of crawler-user-agents ${versionOf("crawler-user-agents")} (MIT) and isbot ${versionOf("isbot")} (Unlicense),
# whose licenses are at the end. Written by make agents: do not edit.
#
# An agent with one of these texts, in any case, is a bot. ^ before a text: the agent begins
# with it; <: a word begins there, and no letter or digit is before it. Behind a text, >: a
# word ends there; #: a digit follows; &: the name of a host follows; ~cam: cam is not before.
${needed.map((m) => `${written(m)}\n`).join("")}${licenses.join("")}`);
console.error(`${patterns.length} patterns became ${needed.length} marks`);
