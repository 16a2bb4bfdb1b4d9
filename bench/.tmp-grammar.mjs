// bench/grammar.ts
import { readFileSync } from "node:fs";
import { cpus } from "node:os";

// src/grammar/json.ts
var JsonFault = class extends Error {
  at;
  constructor(problem, at) {
    super(`${problem} at offset ${at}`);
    this.at = at;
  }
};
var maxDepth = 256;
var maxExponent = 400;
function isDecimal(value) {
  return typeof value === "object" && value !== null && "digits" in value;
}
function parseJson(text3) {
  const reader = new Reader(text3);
  reader.blanks();
  const value = reader.value(0);
  reader.blanks();
  if (reader.at < text3.length) throw new JsonFault("text after the value", reader.at);
  return value;
}
function fromValue(value, depth = 0) {
  if (depth > maxDepth) throw new JsonFault(`deeper than ${maxDepth} levels`, 0);
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "bigint") return decimal(value, 0);
  if (typeof value === "number" && Number.isFinite(value)) return parseDecimal(String(value));
  if (Array.isArray(value)) return value.map((item) => fromValue(item, depth + 1));
  if (typeof value !== "object") throw new JsonFault(`a ${typeof value} is not JSON`, 0);
  const members = Object.entries(value).filter(([, member2]) => member2 !== void 0);
  return new Map(members.map(([key, member2]) => [key, fromValue(member2, depth + 1)]));
}
function canonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (isDecimal(value)) return decimalText(value);
  const keys = [...value.keys()].sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value.get(key))}`).join()}}`;
}
function decimal(digits2, scale) {
  if (scale < 0) return { digits: digits2 * 10n ** BigInt(-scale), scale: 0 };
  while (scale > 0 && digits2 % 10n === 0n) {
    digits2 /= 10n;
    scale--;
  }
  return { digits: digits2, scale };
}
function parseDecimal(text3) {
  const match = /^(-?(?:0|[1-9]\d*))(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text3);
  if (!match) return void 0;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  if (Math.abs(Number(exponent)) > maxExponent) return void 0;
  return decimal(BigInt(whole + fraction), fraction.length - Number(exponent));
}
function decimalText(value) {
  if (value.scale === 0) return value.digits.toString();
  const sign = value.digits < 0n ? "-" : "";
  const digits2 = (value.digits < 0n ? -value.digits : value.digits).toString();
  const padded = digits2.padStart(value.scale + 1, "0");
  return `${sign}${padded.slice(0, -value.scale)}.${padded.slice(-value.scale)}`;
}
var Reader = class {
  text;
  at = 0;
  constructor(text3) {
    this.text = text3;
  }
  blanks() {
    while (" 	\n\r".includes(this.text[this.at] ?? "x")) this.at++;
  }
  value(depth) {
    if (depth > maxDepth) throw new JsonFault(`deeper than ${maxDepth} levels`, this.at);
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }
  object(depth) {
    const members = /* @__PURE__ */ new Map();
    this.at++;
    this.blanks();
    if (this.taken("}")) return members;
    do {
      this.blanks();
      if (this.text[this.at] !== '"') throw new JsonFault("a key is missing", this.at);
      const key = this.string();
      this.blanks();
      if (!this.taken(":")) throw new JsonFault("a colon is missing", this.at);
      this.blanks();
      members.set(key, this.value(depth + 1));
      this.blanks();
    } while (this.taken(","));
    if (!this.taken("}")) throw new JsonFault("an object is not closed", this.at);
    return members;
  }
  array(depth) {
    const items = [];
    this.at++;
    this.blanks();
    if (this.taken("]")) return items;
    do {
      this.blanks();
      items.push(this.value(depth + 1));
      this.blanks();
    } while (this.taken(","));
    if (!this.taken("]")) throw new JsonFault("an array is not closed", this.at);
    return items;
  }
  string() {
    const start = this.at;
    this.at++;
    while (this.at < this.text.length && this.text[this.at] !== '"') {
      this.at += this.text[this.at] === "\\" ? 2 : 1;
    }
    this.at++;
    try {
      return JSON.parse(this.text.slice(start, this.at));
    } catch {
      throw new JsonFault("a string is malformed", start);
    }
  }
  number() {
    const pattern = /[-+.\deE]*/y;
    pattern.lastIndex = this.at;
    const value = parseDecimal(pattern.exec(this.text)[0]);
    if (value === void 0) throw new JsonFault("no JSON value", this.at);
    this.at = pattern.lastIndex;
    return value;
  }
  word(word, value) {
    if (!this.text.startsWith(word, this.at)) throw new JsonFault("no JSON value", this.at);
    this.at += word.length;
    return value;
  }
  taken(character) {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }
};

// src/grammar/charset.ts
var lastCodePoint = 1114111;
var anyChar = [0, 55295, 57344, lastCodePoint];
function charSet(...ranges2) {
  ranges2.sort((a, b) => a[0] - b[0]);
  const merged = [];
  for (const [from, to] of ranges2) {
    const end = merged.at(-1);
    if (end !== void 0 && from <= end + 1) merged[merged.length - 1] = Math.max(end, to);
    else merged.push(from, to);
  }
  return intersect(merged, anyChar);
}
function union(a, b) {
  return charSet(...pairs(a), ...pairs(b));
}
function intersect(a, b) {
  const out = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const from = Math.max(a[i], b[j]);
    const to = Math.min(a[i + 1], b[j + 1]);
    if (from <= to) out.push(from, to);
    if (a[i + 1] < b[j + 1]) i += 2;
    else j += 2;
  }
  return out;
}
function complement(set2) {
  const out = [];
  let next2 = 0;
  for (let i = 0; i < set2.length; i += 2) {
    if (next2 < set2[i]) out.push(next2, set2[i] - 1);
    next2 = set2[i + 1] + 1;
  }
  if (next2 <= lastCodePoint) out.push(next2, lastCodePoint);
  return intersect(out, anyChar);
}
function chars(text3) {
  return charSet(
    ...Array.from(text3, (c) => [c.codePointAt(0), c.codePointAt(0)])
  );
}
var digits = [48, 57];
var wordChars = charSet([48, 57], [65, 90], [95, 95], [97, 122]);
var spaces = charSet(
  [9, 13],
  [32, 32],
  [160, 160],
  [5760, 5760],
  [8192, 8202],
  [8232, 8233],
  [8239, 8239],
  [8287, 8287],
  [12288, 12288],
  [65279, 65279]
);
var lineEnds = chars("\n\r\u2028\u2029");
var properties = /* @__PURE__ */ new Map();
function property(name) {
  if (!properties.has(name)) properties.set(name, scanProperty(name));
  return properties.get(name);
}
function scanProperty(name) {
  if (!/^[\w=]+$/.test(name)) return void 0;
  let runs;
  try {
    runs = new RegExp(`\\p{${name}}+`, "gu");
  } catch {
    return void 0;
  }
  const out = [];
  for (let i = 0; i < anyChar.length; i += 2) {
    for (let from = anyChar[i]; from <= anyChar[i + 1]; from += 4096) {
      const to = Math.min(from + 4095, anyChar[i + 1]);
      const text3 = String.fromCodePoint(
        ...Array.from({ length: to - from + 1 }, (_, k) => from + k)
      );
      const width2 = from > 65535 ? 2 : 1;
      for (const run of text3.matchAll(runs)) {
        const first2 = from + run.index / width2;
        out.push([first2, first2 + run[0].length / width2 - 1]);
      }
    }
  }
  return charSet(...out);
}
function pairs(set2) {
  const out = [];
  for (let i = 0; i < set2.length; i += 2) out.push([set2[i], set2[i + 1]]);
  return out;
}

// src/grammar/dfa.ts
var TooLarge = class extends Error {
};
var maxStates = 2e4;
var maxFinite = 4e5;
var maxTransitions = 5e6;
var maxClasses = 4096;
function alphabetOf(sets) {
  const edges = [];
  let count2 = 0;
  for (const set2 of new Set(sets)) {
    for (let i = 0; i < set2.length; i += 2) edges.push([set2[i], count2], [set2[i + 1] + 1, count2]);
    count2++;
  }
  edges.sort((a, b) => a[0] - b[0]);
  const ids2 = /* @__PURE__ */ new Map();
  const starts = [];
  const classOf = [];
  const inside = /* @__PURE__ */ new Set();
  const open = (at2) => {
    const name = [...inside].sort((a, b) => a - b).join();
    const known2 = ids2.get(name) ?? ids2.size + 1;
    ids2.set(name, known2);
    if (known2 === classOf.at(-1)) return;
    starts.push(at2);
    classOf.push(known2);
  };
  let at = 0;
  for (const next2 of [0, 55296, 57344, lastCodePoint + 1]) {
    for (; edges[at] !== void 0 && edges[at][0] <= next2; ) {
      const place = edges[at][0];
      for (; edges[at]?.[0] === place; at++) {
        const set2 = edges[at][1];
        if (!inside.delete(set2)) inside.add(set2);
      }
      if (place < next2) open(place);
    }
    if (next2 === 55296) {
      starts.push(next2);
      classOf.push(0);
    } else if (next2 <= lastCodePoint) open(next2);
    if (ids2.size > maxClasses) throw new TooLarge("too many kinds of characters");
  }
  return {
    starts: Uint32Array.from(starts),
    classOf: Uint16Array.from(classOf),
    classes: ids2.size + 1
  };
}
function classAt(alphabet, codePoint) {
  return alphabet.classOf[intervalAt(alphabet, codePoint)];
}
function samples(alphabet) {
  const out = new Uint32Array(alphabet.classes);
  for (let i = alphabet.starts.length - 1; i >= 0; i--) {
    out[alphabet.classOf[i]] = alphabet.starts[i];
  }
  return out;
}
function classesIn(alphabet, from, to) {
  const found = /* @__PURE__ */ new Set();
  for (let i = intervalAt(alphabet, from); i < alphabet.starts.length; i++) {
    if (alphabet.starts[i] > to) break;
    if (alphabet.classOf[i] !== 0) found.add(alphabet.classOf[i]);
  }
  return [...found];
}
function classSizes(alphabet) {
  const sizes = new Uint32Array(alphabet.classes);
  alphabet.starts.forEach((start, i) => {
    const end = alphabet.starts[i + 1] ?? lastCodePoint + 1;
    sizes[alphabet.classOf[i]] += end - start;
  });
  return sizes;
}
function step(dfa, state, codePoint) {
  return dfa.next[state * dfa.classes + classAt(dfa, codePoint)];
}
function matches(dfa, text3) {
  let state = dfa.start;
  for (const character of text3) {
    if (state < 0) return false;
    state = step(dfa, state, character.codePointAt(0));
  }
  return state >= 0 && dfa.accepts[state] === 1;
}
function explore(alphabet, start, key, row, accepts) {
  const ids2 = /* @__PURE__ */ new Map([[key(start), 0]]);
  const states = [start];
  const next2 = [];
  const into = Array.from({ length: alphabet.classes });
  for (let i = 0; i < states.length; i++) {
    row(states[i], into.fill(void 0));
    next2.push(-1);
    for (let c = 1; c < alphabet.classes; c++) {
      const to = into[c];
      if (to === void 0 || to === into[c - 1]) {
        next2.push(to === void 0 ? -1 : next2.at(-1));
        continue;
      }
      const name = key(to);
      let id = ids2.get(name);
      if (id === void 0) {
        id = states.push(to) - 1;
        ids2.set(name, id);
        if (id >= maxStates || id * alphabet.classes > maxTransitions) {
          throw new TooLarge("the automaton grows too large");
        }
      }
      next2.push(id);
    }
  }
  const flags = Uint8Array.from(states, (state) => accepts(state) ? 1 : 0);
  return minimize(trim({ ...alphabet, next: Int32Array.from(next2), accepts: flags, start: 0 }));
}
function combine(dfas, keep) {
  const alphabet = commonAlphabet(dfas);
  const maps = classMaps(alphabet, dfas);
  return explore(
    alphabet,
    dfas.map((dfa) => dfa.start),
    stateKey,
    (states, into) => {
      for (let c = 1; c < alphabet.classes; c++) into[c] = stepAll(dfas, maps, states, c);
    },
    (states) => keep(states.map((state, i) => state >= 0 && dfas[i].accepts[state] === 1))
  );
}
function classMaps(alphabet, dfas) {
  const sample = samples(alphabet);
  return dfas.map((dfa) => Uint16Array.from(sample, (c, i) => i === 0 ? 0 : classAt(dfa, c)));
}
function stepAll(dfas, maps, states, c) {
  return states.map((state, i) => {
    const { next: next2, classes } = dfas[i];
    return state < 0 ? -1 : next2[state * classes + maps[i][c]];
  });
}
function stateKey(states) {
  let key = "";
  for (const state of states) key += String.fromCharCode(state + 1);
  return key;
}
function commonAlphabet(dfas) {
  const sets = [];
  for (const dfa of dfas) {
    const byClass = Array.from({ length: dfa.classes }, () => []);
    dfa.starts.forEach((start, i) => {
      byClass[dfa.classOf[i]].push(start, (dfa.starts[i + 1] ?? lastCodePoint + 1) - 1);
    });
    sets.push(...byClass.slice(1));
  }
  return alphabetOf(sets);
}
function finite(words) {
  const nodes = [/* @__PURE__ */ new Map()];
  const ends = /* @__PURE__ */ new Set();
  const seen = /* @__PURE__ */ new Set();
  for (const word of words) {
    let node2 = 0;
    for (const character of word) {
      const c = character.codePointAt(0);
      seen.add(c);
      let to = nodes[node2].get(c);
      if (to === void 0) {
        to = nodes.push(/* @__PURE__ */ new Map()) - 1;
        nodes[node2].set(c, to);
        if (to >= maxFinite) throw new TooLarge("too many words");
      }
      node2 = to;
    }
    ends.add(node2);
  }
  const alphabet = alphabetOf(Array.from(seen, (c) => intersect([c, c], anyChar)));
  const ids2 = /* @__PURE__ */ new Map();
  const rows = [];
  const accepts = [];
  const stateOf = new Int32Array(nodes.length);
  for (let node2 = nodes.length - 1; node2 >= 0; node2--) {
    const row = [];
    for (const [c, to] of nodes[node2]) {
      const of = classAt(alphabet, c);
      if (of !== 0 && stateOf[to] >= 0) row.push([of, stateOf[to]]);
    }
    row.sort(([a], [b]) => a - b);
    const isEnd = ends.has(node2);
    const key = `${isEnd} ${row.join(" ")}`;
    const lives = isEnd || row.length > 0;
    const known2 = lives ? ids2.get(key) ?? rows.length : -1;
    stateOf[node2] = known2;
    if (known2 < rows.length) continue;
    ids2.set(key, known2);
    rows.push(row);
    accepts.push(isEnd ? 1 : 0);
    if (rows.length >= maxStates || rows.length * alphabet.classes > maxTransitions) {
      throw new TooLarge("too many words");
    }
  }
  const next2 = new Int32Array(rows.length * alphabet.classes).fill(-1);
  rows.forEach((row, state) => {
    for (const [c, to] of row) next2[state * alphabet.classes + c] = to;
  });
  return { ...alphabet, next: next2, accepts: Uint8Array.from(accepts), start: stateOf[0] };
}
function lengths(min, max) {
  const last = max === Number.POSITIVE_INFINITY ? min : max + 1;
  if (last >= maxStates) throw new TooLarge("a length bound this large cannot be combined here");
  return explore(
    alphabetOf([]),
    0,
    (n) => n,
    (n, into) => {
      if (n < max) into.fill(Math.min(n + 1, last), 1);
    },
    (n) => n >= min
  );
}
var anything = lengths(0, Number.POSITIVE_INFINITY);
function intervalAt({ starts }, codePoint) {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = low + high + 1 >> 1;
    if (starts[middle] <= codePoint) low = middle;
    else high = middle - 1;
  }
  return low;
}
function trim(dfa) {
  const count2 = dfa.accepts.length;
  const into = Array.from({ length: count2 }, () => []);
  for (let i = 0; i < dfa.next.length; i++) {
    if (dfa.next[i] >= 0) into[dfa.next[i]].push(Math.floor(i / dfa.classes));
  }
  const lives = Uint8Array.from(dfa.accepts);
  const queue = [];
  lives.forEach((live, state) => {
    if (live) queue.push(state);
  });
  for (let state = queue.pop(); state !== void 0; state = queue.pop()) {
    for (const from of into[state]) {
      if (lives[from]) continue;
      lives[from] = 1;
      queue.push(from);
    }
  }
  return renumber(dfa, lives, (state) => state);
}
function minimize(dfa) {
  const { blockOf, blocks } = refine(dfa);
  const count2 = dfa.accepts.length;
  if (blocks === count2) return dfa;
  const first2 = new Int32Array(blocks).fill(-1);
  const keep = new Uint8Array(count2);
  for (let state = 0; state < count2; state++) {
    if (first2[blockOf[state]] >= 0) continue;
    first2[blockOf[state]] = state;
    keep[state] = 1;
  }
  return renumber(dfa, keep, (state) => first2[blockOf[state]]);
}
function refine({ accepts, next: next2, classes }) {
  const count2 = accepts.length;
  const { starts: sources2, from } = inverse(next2, classes, count2);
  const members = new Int32Array(count2);
  const place = new Int32Array(count2);
  const blockOf = new Int32Array(count2);
  const begin2 = new Int32Array(count2 + 1);
  const size = new Int32Array(count2 + 1);
  const marked = new Int32Array(count2 + 1);
  let blocks = 0;
  let filled = 0;
  for (const flag of [0, 1]) {
    begin2[blocks] = filled;
    for (let q = 0; q < count2; q++) {
      if (accepts[q] !== flag) continue;
      place[q] = filled;
      members[filled++] = q;
      blockOf[q] = blocks;
    }
    size[blocks] = filled - begin2[blocks];
    if (size[blocks] > 0) blocks++;
  }
  const waiting = Array.from({ length: blocks }, (_, block) => block);
  const waits = new Uint8Array(count2 + 1).fill(1, 0, blocks);
  for (let block = waiting.pop(); block !== void 0; block = waiting.pop()) {
    waits[block] = 0;
    const splitter = members.slice(begin2[block], begin2[block] + size[block]);
    for (let c = 1; c < classes; c++) {
      const touched = [];
      for (const q of splitter) {
        const edge = c * count2 + q;
        for (let i = sources2[edge]; i < sources2[edge + 1]; i++) {
          const p = from[i];
          const b = blockOf[p];
          const border = begin2[b] + marked[b];
          if (place[p] < border) continue;
          if (marked[b]++ === 0) touched.push(b);
          const other = members[border];
          members[place[p]] = other;
          place[other] = place[p];
          members[border] = p;
          place[p] = border;
        }
      }
      for (const b of touched) {
        const inside = marked[b];
        marked[b] = 0;
        if (inside === size[b]) continue;
        begin2[blocks] = begin2[b];
        size[blocks] = inside;
        begin2[b] += inside;
        size[b] -= inside;
        for (let i = begin2[blocks]; i < begin2[b]; i++) blockOf[members[i]] = blocks;
        const again = waits[b] || inside <= size[b] ? blocks : b;
        waits[again] = 1;
        waiting.push(again);
        blocks++;
      }
    }
  }
  return { blockOf, blocks };
}
function inverse(next2, classes, count2) {
  const starts = new Int32Array(classes * count2 + 2);
  for (let i = 0; i < next2.length; i++) {
    if (next2[i] >= 0) starts[i % classes * count2 + next2[i] + 2]++;
  }
  for (let i = 2; i < starts.length; i++) starts[i] += starts[i - 1];
  const from = new Int32Array(starts.at(-1));
  for (let i = 0; i < next2.length; i++) {
    if (next2[i] >= 0) {
      from[starts[i % classes * count2 + next2[i] + 1]++] = Math.floor(i / classes);
    }
  }
  return { starts, from };
}
function renumber(dfa, keep, stand) {
  const ids2 = new Int32Array(keep.length).fill(-1);
  const kept = [];
  keep.forEach((yes, state) => {
    if (yes) ids2[state] = kept.push(state) - 1;
  });
  const next2 = new Int32Array(kept.length * dfa.classes).fill(-1);
  kept.forEach((state, i) => {
    for (let c = 1; c < dfa.classes; c++) {
      const to = dfa.next[state * dfa.classes + c];
      if (to >= 0) next2[i * dfa.classes + c] = ids2[stand(to)];
    }
  });
  return {
    starts: dfa.starts,
    classOf: dfa.classOf,
    classes: dfa.classes,
    next: next2,
    accepts: Uint8Array.from(kept, (state) => dfa.accepts[state]),
    start: dfa.start < 0 || kept.length === 0 ? -1 : ids2[stand(dfa.start)]
  };
}

// src/grammar/regex.ts
var PatternFault = class extends Error {
};
function patternLanguage(pattern) {
  const known2 = patterns.get(pattern) ?? language(new Parser(pattern).whole(), anyText);
  patterns.delete(pattern);
  patterns.set(pattern, known2);
  if (patterns.size > mostPatterns) patterns.delete(patterns.keys().next().value);
  return known2;
}
var patterns = /* @__PURE__ */ new Map();
var mostPatterns = 200;
function wholeLanguage(pattern) {
  return language(new Parser(pattern).whole(), { seq: [] });
}
var anyText = { repeat: { chars: anyChar }, min: 0, max: Number.POSITIVE_INFINITY };
function language(body, around) {
  return determinize(resolveLooks([around, body, around], around));
}
function resolveLooks(items, around) {
  const at = items.findIndex(hasLook);
  if (at < 0) return { seq: items };
  const before = items.slice(0, at);
  const after = items.slice(at + 1);
  const item = items[at];
  if ("seq" in item) return resolveLooks([...before, ...item.seq, ...after], around);
  if ("alt" in item) {
    const options = item.alt.map((option) => resolveLooks([option, ...after], around));
    return { seq: [...before, { alt: options }] };
  }
  if ("repeat" in item) {
    if (item.max > 16) throw new PatternFault("a look-ahead inside a repetition");
    const options = [];
    for (let n = item.min; n <= item.max; n++) {
      options.push(resolveLooks([...Array(n).fill(item.repeat), ...after], around));
    }
    return { seq: [...before, { alt: options }] };
  }
  if (!("look" in item)) throw new Error("internal: only these hold look-aheads");
  if ([item.look, ...after].some(looksBack)) {
    throw new PatternFault("^ or \\b after a look-ahead");
  }
  const ahead = determinize(resolveLooks([item.look, anyText], around));
  const rest = determinize(resolveLooks(after, around));
  const both2 = combine([ahead, rest], ([a, r]) => r && a !== item.negative);
  return { seq: [...before, { rest: both2 }] };
}
function hasLook(re) {
  if ("look" in re) return true;
  if ("seq" in re) return re.seq.some(hasLook);
  if ("alt" in re) return re.alt.some(hasLook);
  return "repeat" in re && hasLook(re.repeat);
}
function looksBack(re) {
  if ("assert" in re) return re.assert !== "end";
  if ("seq" in re) return re.seq.some(looksBack);
  if ("alt" in re) return re.alt.some(looksBack);
  if ("look" in re) return looksBack(re.look);
  return "repeat" in re && looksBack(re.repeat);
}
var maxNfa = 5e4;
function determinize(re) {
  const nfa = { free: [], moves: [], total: /* @__PURE__ */ new Set() };
  const final = node(nfa);
  const first2 = build(nfa, re, final);
  const sets = /* @__PURE__ */ new Set();
  for (const moves2 of nfa.moves) for (const { on } of moves2) sets.add(on);
  const bounded = nfa.free.some(
    (list2) => list2.some((f) => f.when === "word" || f.when === "notWord")
  );
  if (bounded) sets.add(wordChars);
  const alphabet = alphabetOf(sets);
  const sample = samples(alphabet);
  const classes = Array.from(sample.keys()).slice(1);
  const kinds = Array.from(
    sample,
    (c) => bounded && isIn(c, wordChars) ? "word" : "other"
  );
  const reads = new Map(
    Array.from(sets, (on) => [on, classes.filter((c) => isIn(sample[c], on))])
  );
  const moves = nfa.moves.map((list2) => list2.map(({ on, to }) => ({ on: reads.get(on), to })));
  const closures = new Closures(nfa);
  markTotal(nfa, final);
  const targets = Array.from(sample, () => "");
  const subsets2 = /* @__PURE__ */ new Map();
  const subset = (before, nodes) => {
    const key = before + nodes;
    const known2 = subsets2.get(key) ?? { before, nodes: distinct(nodes) };
    subsets2.set(key, known2);
    return known2;
  };
  const add = ({ before, nodes }, after, into) => {
    const reached = closures.of(nodes, before, after);
    const total = reached.find((from) => nfa.total.has(from));
    targets.fill("");
    if (total === void 0) {
      for (const from of reached) {
        for (const { on, to } of moves[from]) {
          const node2 = String.fromCharCode(to);
          for (const c of on) targets[c] += node2;
        }
      }
    }
    for (const c of classes) {
      if (kinds[c] !== after) continue;
      if (total !== void 0) into[c] = subset("other", String.fromCharCode(total));
      else if (targets[c] !== "") into[c] = subset(after, targets[c]);
    }
  };
  return explore(
    alphabet,
    { before: "edge", nodes: [first2] },
    ({ before, nodes }) => before + stateKey(nodes),
    (from, into) => {
      add(from, "other", into);
      if (bounded) add(from, "word", into);
    },
    ({ before, nodes }) => closures.of(nodes, before, "edge").includes(final)
  );
}
function isIn(codePoint, set2) {
  let low = 0;
  let high = set2.length / 2;
  while (low < high) {
    const middle = low + high >> 1;
    if (set2[middle * 2 + 1] < codePoint) low = middle + 1;
    else high = middle;
  }
  return low * 2 < set2.length && set2[low * 2] <= codePoint;
}
function distinct(nodes) {
  if (nodes.length === 1) return [nodes.charCodeAt(0)];
  return [...new Set(nodes.split(""))].map((node2) => node2.charCodeAt(0)).sort((a, b) => a - b);
}
function node(nfa) {
  if (nfa.free.length >= maxNfa) throw new TooLarge("the pattern is too long when written out");
  nfa.moves.push([]);
  return nfa.free.push([]) - 1;
}
function build(nfa, re, to) {
  if ("seq" in re) return re.seq.reduceRight((after, item) => build(nfa, item, after), to);
  const from = node(nfa);
  if ("chars" in re) nfa.moves[from].push({ on: re.chars, to });
  else if ("assert" in re) nfa.free[from].push({ to, when: re.assert });
  else if ("alt" in re) {
    for (const option of re.alt) nfa.free[from].push({ to: build(nfa, option, to) });
  } else if ("rest" in re) {
    nfa.free[from].push(...embed(nfa, re.rest, to));
  } else if ("repeat" in re) {
    let after = to;
    if (re.max === Number.POSITIVE_INFINITY) {
      const loop = node(nfa);
      nfa.free[loop].push({ to: build(nfa, re.repeat, loop) }, { to });
      after = loop;
    } else {
      for (let i = re.min; i < re.max; i++) {
        const optional = node(nfa);
        nfa.free[optional].push({ to: build(nfa, re.repeat, after) }, { to });
        after = optional;
      }
    }
    for (let i = 0; i < re.min; i++) after = build(nfa, re.repeat, after);
    nfa.free[from].push({ to: after });
  } else throw new Error("internal: look-aheads are resolved before");
  return from;
}
function embed(nfa, dfa, to) {
  if (dfa.start < 0) return [];
  const sets = Array.from({ length: dfa.classes }, () => []);
  dfa.starts.forEach((start, i) => {
    sets[dfa.classOf[i]].push(start, (dfa.starts[i + 1] ?? 1114112) - 1);
  });
  const base = nfa.free.length;
  for (let state = 0; state < dfa.accepts.length; state++) node(nfa);
  for (let state = 0; state < dfa.accepts.length; state++) {
    if (dfa.accepts[state]) nfa.free[base + state].push({ to, when: "end" });
    for (let c = 1; c < dfa.classes; c++) {
      const target = dfa.next[state * dfa.classes + c];
      if (target >= 0) nfa.moves[base + state].push({ on: sets[c], to: base + target });
    }
  }
  return [{ to: base + dfa.start }];
}
function markTotal(nfa, final) {
  for (let from = 0; from < nfa.free.length; from++) {
    const leaves2 = nfa.free[from].some(({ to, when }) => to === final && when === void 0);
    const loops = nfa.free[from].some(
      ({ to, when }) => when === void 0 && nfa.moves[to].some((move) => move.on === anyChar && move.to === from)
    );
    if (leaves2 && loops) nfa.total.add(from);
  }
}
var Closures = class {
  nfa;
  known = /* @__PURE__ */ new Map();
  stamps;
  stamp = 0;
  constructor(nfa) {
    this.nfa = nfa;
    this.stamps = new Int32Array(nfa.free.length);
  }
  of(nodes, before, after) {
    const sides = `${before} ${after}`;
    let known2 = this.known.get(sides);
    if (!known2) {
      known2 = [];
      this.known.set(sides, known2);
    }
    const lists = nodes.map((node2) => known2[node2] ??= this.find(node2, before, after));
    this.stamp++;
    return lists.flatMap((list2) => this.fresh(list2));
  }
  fresh(list2) {
    const out = [];
    for (const node2 of list2) {
      if (this.stamps[node2] === this.stamp) continue;
      this.stamps[node2] = this.stamp;
      out.push(node2);
    }
    return out;
  }
  /** Only nodes that read, or end, matter to whoever asks. */
  find(node2, before, after) {
    this.stamp++;
    const reached = this.fresh([node2]);
    for (const from of reached) {
      for (const { to, when } of this.nfa.free[from]) {
        if (when === void 0 || holds(when, before, after)) reached.push(...this.fresh([to]));
      }
    }
    const { moves, free, total } = this.nfa;
    return Int32Array.from(
      reached.filter((n) => moves[n].length > 0 || free[n].length === 0 || total.has(n))
    );
  }
};
function holds(assertion2, before, after) {
  switch (assertion2) {
    case "start":
      return before === "edge";
    case "end":
      return after === "edge";
    default:
      return before === "word" !== (after === "word") === (assertion2 === "word");
  }
}
var classEscapes = {
  d: digits,
  D: complement(digits),
  w: wordChars,
  W: complement(wordChars),
  s: spaces,
  S: complement(spaces)
};
var controlEscapes = { f: 12, n: 10, r: 13, t: 9, v: 11 };
var Parser = class {
  source;
  at = 0;
  depth = 0;
  constructor(pattern) {
    this.source = Array.from(pattern);
  }
  whole() {
    const re = this.alternatives();
    if (this.at < this.source.length) throw new PatternFault("a ) that closes nothing");
    return re;
  }
  alternatives() {
    if (++this.depth > 100) throw new PatternFault("groups nested too deep");
    const options = [];
    do {
      const items = [];
      while (this.at < this.source.length && !this.sees("|") && !this.sees(")")) {
        items.push(this.quantified());
      }
      options.push({ seq: items });
    } while (this.take("|"));
    this.depth--;
    return options.length === 1 ? options[0] : { alt: options };
  }
  quantified() {
    const re = this.atom();
    const bounds = this.quantifier();
    if (!bounds) return re;
    this.take("?");
    if (bounds[0] > bounds[1]) throw new PatternFault("a repetition whose bounds are out of order");
    if ("assert" in re) throw new PatternFault("a repeated assertion");
    return { repeat: re, min: bounds[0], max: bounds[1] };
  }
  quantifier() {
    if (this.take("*")) return [0, Number.POSITIVE_INFINITY];
    if (this.take("+")) return [1, Number.POSITIVE_INFINITY];
    if (this.take("?")) return [0, 1];
    const rest = this.source.slice(this.at, this.at + 24).join("");
    const match = /^\{(\d+)(,(\d*))?\}/.exec(rest);
    if (!match) return void 0;
    this.at += match[0].length;
    const min = Number(match[1]);
    if (match[2] === void 0) return [min, min];
    return [min, match[3] === "" ? Number.POSITIVE_INFINITY : Number(match[3])];
  }
  atom() {
    const c = this.source[this.at++];
    switch (c) {
      case "(":
        return this.group();
      case "[":
        return { chars: this.charClass() };
      case ".":
        return { chars: complement(lineEnds) };
      case "^":
        return { assert: "start" };
      case "$":
        return { assert: "end" };
      case "\\":
        return this.escape();
      case "*":
      case "+":
      case "?":
        throw new PatternFault(`nothing to repeat before ${c}`);
      default:
        return { chars: one(c.codePointAt(0)) };
    }
  }
  group() {
    let look2;
    if (this.take("?")) {
      if (this.take("=")) look2 = { negative: false };
      else if (this.take("!")) look2 = { negative: true };
      else if (this.take("<")) {
        if (this.sees("=") || this.sees("!")) throw new PatternFault("a look-behind");
        const name = [];
        while (this.at < this.source.length && !this.sees(">")) name.push(this.source[this.at++]);
        if (!this.take(">") || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name.join(""))) {
          throw new PatternFault("a malformed group name");
        }
      } else if (!this.take(":")) throw new PatternFault("a group of a kind that is not read");
    }
    const inner = this.alternatives();
    if (!this.take(")")) throw new PatternFault("a group that is not closed");
    return look2 ? { look: inner, ...look2 } : inner;
  }
  escape() {
    const c = this.source[this.at];
    if (c === "b" || c === "B") {
      this.at++;
      return { assert: c === "b" ? "word" : "notWord" };
    }
    if (c === "k" || c !== void 0 && c >= "1" && c <= "9") {
      throw new PatternFault("a back reference");
    }
    return { chars: this.escapedSet() };
  }
  /** After a backslash, inside or outside brackets. */
  escapedSet() {
    const c = this.source[this.at++];
    if (c === void 0) throw new PatternFault("a backslash at the end");
    if (classEscapes[c]) return classEscapes[c];
    if (c === "p" || c === "P") return this.property(c === "P");
    return one(this.escapedCharacter(c));
  }
  property(negated) {
    const name = [];
    if (!this.take("{")) throw new PatternFault("\\p without {name}");
    while (this.at < this.source.length && !this.sees("}")) name.push(this.source[this.at++]);
    this.at++;
    const set2 = property(name.join("")) ?? loosely(name.join(""));
    if (set2 === void 0) throw new PatternFault(`the unknown property ${name.join("")}`);
    return negated ? complement(set2) : set2;
  }
  escapedCharacter(c) {
    if (controlEscapes[c] !== void 0) return controlEscapes[c];
    if (c === "0" && !/\d/.test(this.source[this.at] ?? "")) return 0;
    if (c === "c") {
      const letter = this.source[this.at++] ?? "";
      if (/^[A-Za-z]$/.test(letter)) return letter.charCodeAt(0) % 32;
      throw new PatternFault("\\c without a letter");
    }
    if (c === "x") return this.hex(2);
    if (c === "u") {
      if (this.take("{")) {
        const end = this.source.indexOf("}", this.at);
        const value = Number.parseInt(this.source.slice(this.at, end).join(""), 16);
        if (end < 0 || !(value <= 1114111)) throw new PatternFault("a malformed \\u{\u2026}");
        this.at = end + 1;
        return value;
      }
      const unit = this.hex(4);
      const pairs2 = unit >= 55296 && unit <= 56319 && this.sees("\\") && this.source[this.at + 1] === "u";
      if (!pairs2) return unit;
      const back = this.at;
      this.at += 2;
      const low = this.hex(4);
      if (low >= 56320 && low <= 57343) return 65536 + (unit - 55296) * 1024 + low - 56320;
      this.at = back;
      return unit;
    }
    if (/^[A-Za-z0-9]$/.test(c)) throw new PatternFault(`the unknown escape \\${c}`);
    return c.codePointAt(0);
  }
  hex(length) {
    const text3 = this.source.slice(this.at, this.at + length).join("");
    if (!/^[0-9a-fA-F]+$/.test(text3) || text3.length !== length) {
      throw new PatternFault("a malformed hexadecimal escape");
    }
    this.at += length;
    return Number.parseInt(text3, 16);
  }
  charClass() {
    const negated = this.take("^");
    let set2 = [];
    while (!this.take("]")) {
      if (this.at >= this.source.length) throw new PatternFault("a [ that is not closed");
      const from = this.member();
      const isRange = this.sees("-") && this.source[this.at + 1] !== "]";
      if (isRange && this.at + 1 < this.source.length) {
        this.at++;
        const to = this.member();
        if (typeof from !== "number" || typeof to !== "number" || from > to) {
          throw new PatternFault("a range out of order");
        }
        set2 = union(set2, charSet([from, to]));
      } else set2 = union(set2, typeof from === "number" ? one(from) : from);
    }
    return negated ? complement(set2) : set2;
  }
  member() {
    const c = this.source[this.at++];
    if (c !== "\\") return c.codePointAt(0);
    const escaped2 = this.source[this.at];
    if (escaped2 === void 0) throw new PatternFault("a backslash at the end");
    if (classEscapes[escaped2] || escaped2 === "p" || escaped2 === "P") return this.escapedSet();
    this.at++;
    return escaped2 === "b" ? 8 : this.escapedCharacter(escaped2);
  }
  sees(c) {
    return this.source[this.at] === c;
  }
  take(c) {
    if (!this.sees(c)) return false;
    this.at++;
    return true;
  }
};
function loosely(name) {
  const known2 = { digit: "Nd", letter: "L", alpha: "Alphabetic" };
  const meant = known2[name.toLowerCase()];
  return meant === void 0 ? void 0 : property(meant);
}
function one(codePoint) {
  return isIn(codePoint, anyChar) ? [codePoint, codePoint] : [];
}

// src/grammar/formats.ts
var leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
var date = `(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|${leap}-02-29)`;
var hours = "(?:[01]\\d|2[0-3])";
var zone = `(?:[Zz]|[+-]${hours}:[0-5]\\d)`;
var time = `(?:${hours}:[0-5]\\d:[0-5]\\d(?:\\.\\d+)?${zone}|${leapSeconds()})`;
var durationTime = "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
var durationDate = "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)";
var duration = `P(?:${durationDate}(?:${durationTime})?|${durationTime}|\\d+W)`;
var an = "[A-Za-z0-9]";
var anh = "[A-Za-z0-9-]";
var label = `(?:${an}(?:${an}|${anh}${an})?|${an}${anh}(?:(?:${an}|-)${an}|(?:${an}${anh}|-${an})${anh}{0,58}${an}))`;
var hostname = `${label}(?:\\.${label})*`;
var foreign = "(?:[\\u00df-\\u00f6\\u00f8-\\u00ff]|[\\u03b1-\\u03c9]|[\\u0430-\\u044f]|[\\u3041-\\u3096]|[\\u4e00-\\u9fa5]|[\\uac00-\\ud7a3])";
var idnLabel = `(?:${label}|(?:${foreign}){1,12})`;
var idnHostname = `${idnLabel}(?:[.\\u3002\\uff0e\\uff61]${idnLabel})*`;
var octet = "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])";
var ipv4 = `${octet}(?:\\.${octet}){3}`;
var ipv6 = ipv6Forms();
var atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
var quoted = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"';
var literal = `\\[(?:${ipv4}|IPv6:${ipv6})\\]`;
var email = `(?:${atom}+(?:\\.${atom}+)*|${quoted})@(?:${hostname}|${literal})`;
var wide = "(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[\\u0080-\\u{10ffff}])";
var wideQuoted = '"(?:[ !#-\\[\\]-~\\u0080-\\u{10ffff}]|\\\\[ -~])*"';
var idnEmail = `(?:${wide}+(?:\\.${wide}+)*|${wideQuoted})@(?:${idnHostname}|${literal})`;
var pointer = "(?:/(?:[^~/]|~[01])*)*";
var relativePointer = `(?:0|[1-9]\\d*)(?:#|${pointer})`;
var hex = "[0-9A-Fa-f]";
var varName = `(?:\\w|%${hex}{2})(?:\\.?(?:\\w|%${hex}{2}))*`;
var varSpec = `${varName}(?::[1-9]\\d{0,3}|\\*)?`;
var literals = "[!#$&'()*+,\\-./0-9:;=?@A-Z\\[\\]_a-z~\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}]";
var uriTemplate = `(?:${literals}|%${hex}{2}|\\{[+#./;?&]?${varSpec}(?:,${varSpec})*\\})*`;
var plain = "[^\\^$\\\\.*+?()\\[\\]{}|]";
var escaped = "\\\\(?:[dDwWsSfnrtv/^$.*+?()\\[\\]{}|\\\\]|c[A-Za-z])";
var brackets = "\\[\\^?(?:[^\\\\\\[\\]^-]|\\\\[dDwWsSfnrtv\\\\\\]\\[^-])*\\]";
var times = "(?:[*+?]\\??|\\{\\d{1,3},?\\}\\??)";
var assertion = "(?:\\^|\\$|\\\\[bB])";
var leaf = `(?:(?:${plain}|${escaped}|${brackets}|\\.)${times}?|${assertion})`;
var group = (inner) => `(?:\\((?:\\?:)?${inner}*(?:\\|${inner}*)*\\)${times}?)`;
var look = (inner) => `(?:\\(\\?<?[=!]${inner}*(?:\\|${inner}*)*\\))`;
var deeper = `(?:${leaf}|${group(leaf)}|${look(leaf)})`;
var regex = `(?:${deeper}|${group(deeper)}|\\|)*|\\(\\?<[a-z]+>${leaf}*\\)`;
var sources = {
  date: { source: date },
  time: { source: time },
  "date-time": { source: `${date}[Tt]${time}` },
  duration: { source: duration },
  email: { source: email },
  "idn-email": { source: idnEmail },
  hostname: { source: hostname, maxLength: 253 },
  "idn-hostname": { source: idnHostname, maxLength: 63 },
  ipv4: { source: ipv4 },
  ipv6: { source: ipv6 },
  uri: { source: uriForms("", false) },
  "uri-reference": { source: uriForms("", true) },
  iri: {
    source: uriForms("\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}", false)
  },
  "iri-reference": {
    source: uriForms("\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}", true)
  },
  "uri-template": { source: uriTemplate },
  uuid: { source: `${hex}{8}(?:-${hex}{4}){3}-${hex}{12}` },
  "json-pointer": { source: pointer },
  "relative-json-pointer": { source: relativePointer },
  regex: { source: regex }
};
var formats = Object.assign(
  /* @__PURE__ */ Object.create(null),
  Object.fromEntries(
    Object.entries(sources).map(([name, { source, maxLength }]) => {
      let language2;
      const format = {
        language: () => language2 ??= wholeLanguage(source),
        ...maxLength === void 0 ? {} : { maxLength }
      };
      return [name, format];
    })
  )
);
function leapSeconds() {
  const two = (n) => String(n).padStart(2, "0");
  const forms = ["23:59:60(?:\\.\\d+)?[Zz]"];
  for (let offset = 0; offset < 24 * 60; offset += 15) {
    for (const sign of [1, -1]) {
      const local = (23 * 60 + 59 + sign * offset + 24 * 60) % (24 * 60);
      const away = `${sign > 0 ? "\\+" : "-"}${two(Math.floor(offset / 60))}:${two(offset % 60)}`;
      forms.push(`${two(Math.floor(local / 60))}:${two(local % 60)}:60(?:\\.\\d+)?${away}`);
    }
  }
  return forms.join("|");
}
function ipv6Forms() {
  const h16 = `[0-9A-Fa-f]{1,4}`;
  const last = `(?:${h16}:${h16}|${ipv4})`;
  const forms = [`(?:${h16}:){6}${last}`, `::(?:${h16}:){5}${last}`];
  for (let before = 1; before <= 7; before++) {
    const head = `(?:${h16}(?::${h16}){0,${before - 1}})?`;
    const after = 5 - before;
    const tail = after >= 0 ? `(?:${h16}:){${after}}${last}` : after === -1 ? h16 : "";
    forms.push(`${head}::${tail}`);
  }
  return `(?:${forms.join("|")})`;
}
function uriForms(more, relative) {
  const unreserved = `A-Za-z0-9._~\\-${more}`;
  const sub = "!$&'()*+,;=";
  const percent = `%${hex}{2}`;
  const char = `(?:[${unreserved}${sub}:@]|${percent})`;
  const query = `(?:[${unreserved}${sub}:@/?]|${percent})*`;
  const name = `(?:[${unreserved}${sub}]|${percent})*`;
  const host = `(?:\\[(?:${ipv6}|[vV]${hex}+\\.[${unreserved}${sub}:]+)\\]|${name})`;
  const user = `(?:(?:[${unreserved}${sub}:]|${percent})*@)?`;
  const authority = `//${user}${host}(?::\\d*)?(?:/${char}*)*`;
  const absolutePath = `/(?:${char}+(?:/${char}*)*)?`;
  const tail = `(?:\\?${query})?(?:#${query})?`;
  const scheme = "[A-Za-z][A-Za-z0-9+.\\-]*:";
  const whole = `${scheme}(?:${authority}|${absolutePath}|${char}+(?:/${char}*)*|)${tail}`;
  if (!relative) return whole;
  const first2 = `(?:[${unreserved}${sub}@]|${percent})+`;
  const reference = `(?:${authority}|${absolutePath}|${first2}(?:/${char}*)*|)${tail}`;
  return `${whole}|${reference}`;
}

// src/grammar/schema.ts
var types = {
  null: 1,
  false: 2,
  true: 4,
  number: 8,
  string: 16,
  array: 32,
  object: 64
};
var anyType = 127;
var SchemaFault = class extends Error {
  fault;
  constructor(pointer2, keyword, reason) {
    super(`${pointer2 || "/"} ${keyword}: ${reason}`);
    this.fault = { pointer: pointer2, keyword, reason };
  }
};
var rootBase = "schema:///";
var recursive = "recursive anchor";
var inOne = ["additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"];
inOne.push("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties");
var inList = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
var inMap = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];
inMap.push("properties");
function readSchema(document, options) {
  return new SchemaDocument(document, options);
}
var SchemaDocument = class {
  root;
  nodes = [];
  /** Whether the dynamic scope matters: without such references it need not be followed. */
  usesDynamicScope = false;
  document;
  options;
  byPointer = /* @__PURE__ */ new Map();
  resources = /* @__PURE__ */ new Map();
  // URI → pointer of its root
  resourceAt = /* @__PURE__ */ new Map();
  // pointer of a root → URI
  anchors = /* @__PURE__ */ new Map();
  // URI#name → pointer
  dynamicAnchors = /* @__PURE__ */ new Map();
  // URI#name → pointer
  patterns = /* @__PURE__ */ new Map();
  dialect;
  constructor(document, options) {
    this.document = document;
    this.options = options;
    this.dialect = options.dialect ?? dialectOf(document) ?? "2020-12";
    this.resources.set(rootBase, "");
    this.resourceAt.set("", rootBase);
    this.scan(document, "", rootBase);
    this.root = this.nodeAt("", "", "$ref");
  }
  /** A schema without a place of its own: consts of enumerated values and the like. */
  synthetic(pointer2, resource, always) {
    const place = { id: this.nodes.length, pointer: pointer2, resource, dialect: this.dialect };
    const node2 = always === void 0 ? place : { ...place, always };
    this.nodes.push(node2);
    return node2;
  }
  dynamicTarget(resource, anchor) {
    const pointer2 = this.dynamicAnchors.get(`${resource}#${anchor}`);
    return pointer2 === void 0 ? void 0 : this.nodeAt(pointer2, pointer2, "$dynamicRef");
  }
  // ---- identifiers ----
  scan(schema, pointer2, base) {
    if (!(schema instanceof Map)) return;
    const id = schema.get("$id") ?? (this.dialect === "draft-04" ? schema.get("id") : void 0);
    const overridden = this.legacy() && schema.has("$ref");
    if (typeof id === "string" && !overridden) {
      if (id.startsWith("#")) this.anchors.set(`${base}${id}`, pointer2);
      else {
        base = absolute(id, base).replace(/#$/, "");
        this.resources.set(base, pointer2);
        this.resourceAt.set(pointer2, base);
      }
    }
    const anchor = schema.get("$anchor");
    if (typeof anchor === "string") this.anchors.set(`${base}#${anchor}`, pointer2);
    const dynamic = schema.get("$recursiveAnchor") === true ? recursive : schema.get("$dynamicAnchor");
    if (typeof dynamic === "string") {
      this.anchors.set(`${base}#${dynamic}`, pointer2);
      this.dynamicAnchors.set(`${base}#${dynamic}`, pointer2);
    }
    if (schema.has("$dynamicRef") || schema.has("$recursiveRef")) this.usesDynamicScope = true;
    for (const [keyword, value] of schema) {
      const at = `${pointer2}/${escapeToken(keyword)}`;
      if (inOne.includes(keyword)) this.scan(value, at, base);
      if (inList.includes(keyword) && Array.isArray(value)) {
        for (const [i, item] of value.entries()) this.scan(item, `${at}/${i}`, base);
      }
      if (inMap.includes(keyword) && value instanceof Map) {
        for (const [name, item] of value) this.scan(item, `${at}/${escapeToken(name)}`, base);
      }
    }
  }
  resourceOf(pointer2) {
    for (let at = pointer2; ; at = at.slice(0, at.lastIndexOf("/"))) {
      const uri = this.resourceAt.get(at);
      if (uri !== void 0) return uri;
    }
  }
  /** The pointer into the document that a reference means. */
  resolve(ref, from, keyword) {
    if (typeof ref !== "string") throw new SchemaFault(from.pointer, keyword, "is not a string");
    const target = absolute(ref, from.resource);
    const hash = target.indexOf("#");
    const uri = hash < 0 ? target : target.slice(0, hash);
    const root = this.resources.get(uri);
    if (root === void 0) {
      const reason = `${ref} is not part of this document, and documents from outside are not read`;
      throw new SchemaFault(from.pointer, keyword, reason);
    }
    let fragment = hash < 0 ? "" : target.slice(hash + 1);
    try {
      fragment = decodeURIComponent(fragment);
    } catch {
      throw new SchemaFault(from.pointer, keyword, `${ref} is not a URI reference`);
    }
    if (fragment === "" || fragment.startsWith("/")) return { pointer: root + fragment, name: "" };
    const pointer2 = this.anchors.get(`${uri}#${fragment}`);
    if (pointer2 === void 0) {
      throw new SchemaFault(from.pointer, keyword, `${ref} names no anchor of this document`);
    }
    return { pointer: pointer2, name: fragment };
  }
  nodeAt(pointer2, from, keyword) {
    const known2 = this.byPointer.get(pointer2);
    if (known2) return known2;
    let value = this.document;
    for (const token of pointer2.split("/").slice(1).map(unescapeToken)) {
      if (value instanceof Map) value = value.get(token);
      else if (Array.isArray(value) && /^(0|[1-9]\d*)$/.test(token)) value = value[Number(token)];
      else value = void 0;
    }
    if (value === void 0) throw new SchemaFault(from, keyword, `there is nothing at #${pointer2}`);
    const isSchema = typeof value === "boolean" || value instanceof Map;
    if (!isSchema) throw new SchemaFault(from, keyword, "is no schema: neither object nor boolean");
    const node2 = {
      id: this.nodes.length,
      pointer: pointer2,
      resource: this.resourceOf(pointer2),
      dialect: this.dialect,
      ...typeof value === "boolean" ? { always: value } : {}
    };
    if (this.nodes.length >= 5e4) throw new SchemaFault(pointer2, "$ref", "too many subschemas");
    this.nodes.push(node2);
    this.byPointer.set(pointer2, node2);
    if (value instanceof Map) this.fill(node2, value);
    return node2;
  }
  // ---- keywords ----
  fill(node2, schema) {
    const onlyRef = this.legacy() && schema.has("$ref");
    for (const [keyword, read2] of Object.entries(keywords)) {
      const value = schema.get(keyword);
      if (value === void 0 || onlyRef && keyword !== "$ref") continue;
      if (this.options.dropped.has(`${node2.pointer} ${keyword}`)) continue;
      try {
        read2(new KeywordReader(this, node2, schema, keyword), value);
      } catch (error) {
        if (error instanceof PatternFault || error instanceof TooLarge) {
          throw new SchemaFault(node2.pointer, keyword, error.message);
        }
        throw error;
      }
    }
  }
  child(node2, ...path) {
    const tail = path.map((token) => `/${escapeToken(String(token))}`).join("");
    return this.nodeAt(node2.pointer + tail, node2.pointer, String(path[0]));
  }
  reference(node2, keyword, value) {
    const { pointer: pointer2, name } = this.resolve(value, node2, keyword);
    const isDynamic = this.dynamicAnchors.get(`${this.resourceOf(pointer2)}#${name}`) === pointer2;
    const fallback = this.nodeAt(pointer2, node2.pointer, keyword);
    return { fallback, anchor: name !== "" && isDynamic ? name : void 0 };
  }
  recursiveReference(node2) {
    const root = this.resources.get(node2.resource);
    const isDynamic = this.dynamicAnchors.get(`${node2.resource}#${recursive}`) === root;
    const fallback = this.nodeAt(root, node2.pointer, "$recursiveRef");
    return { fallback, anchor: isDynamic ? recursive : void 0 };
  }
  /** The texts a pattern is found in; equal patterns are one automaton. */
  language(key, make) {
    const known2 = this.patterns.get(key);
    if (known2) return known2;
    const language2 = make();
    this.patterns.set(key, language2);
    return language2;
  }
  assertsFormats() {
    return this.options.formats;
  }
  legacy() {
    return this.dialect === "draft-04" || this.dialect === "draft-07";
  }
};
var KeywordReader = class {
  document;
  node;
  schema;
  keyword;
  constructor(document, node2, schema, keyword) {
    this.document = document;
    this.node = node2;
    this.schema = schema;
    this.keyword = keyword;
  }
  fail(reason) {
    throw new SchemaFault(this.node.pointer, this.keyword, reason);
  }
  decimal(value) {
    return isDecimal(value) ? value : this.fail("is not a number");
  }
  /** A count; beyond 2^53 it is as good as endless. */
  count(value) {
    if (!isDecimal(value) || value.scale > 0 || value.digits < 0n) {
      return this.fail("is not a non-negative integer");
    }
    return Math.min(Number(value.digits), Number.MAX_SAFE_INTEGER);
  }
  flag(value) {
    return typeof value === "boolean" ? value : this.fail("is not a boolean");
  }
  strings(value) {
    const isList2 = Array.isArray(value) && value.every((item) => typeof item === "string");
    return isList2 ? value : this.fail("is not a list of strings");
  }
  map(value) {
    return value instanceof Map ? [...value] : this.fail("is not an object");
  }
  one() {
    return this.document.child(this.node, this.keyword);
  }
  list(value) {
    if (!Array.isArray(value)) return this.fail("is not a list of schemas");
    return value.map((_, i) => this.document.child(this.node, this.keyword, i));
  }
  named(value) {
    const entries = this.map(value);
    return new Map(entries.map(([k]) => [k, this.document.child(this.node, this.keyword, k)]));
  }
  pattern(source) {
    if (typeof source !== "string") return this.fail("is not a string");
    return this.document.language(`pattern ${source}`, () => patternLanguage(source));
  }
  tighten(key, value, open) {
    const old = this.node[key];
    const sign = key === "minimum" ? 1 : -1;
    const closer = old === void 0 ? 1 : sign * compare(value, old.value);
    if (closer > 0 || closer === 0 && open) this.node[key] = { value, open };
  }
};
var keywords = {
  $ref: (r, v) => {
    r.node.ref = r.document.reference(r.node, "$ref", v).fallback;
  },
  $dynamicRef: (r, v) => {
    r.node.dynamic = r.document.reference(r.node, "$dynamicRef", v);
  },
  $recursiveRef: (r) => {
    r.node.dynamic = r.document.recursiveReference(r.node);
  },
  type: (r, v) => {
    r.node.type = { mask: 0, integer: false };
    const names = Array.isArray(v) ? r.strings(v) : [v];
    for (const name of names) r.node.type.mask |= typeMask(name) || r.fail("names no type");
    if (r.schema.get("nullable") === true) r.node.type.mask |= types.null;
    r.node.type.integer = names.includes("integer") && !names.includes("number");
  },
  enum: (r, v) => {
    r.node.values = Array.isArray(v) ? v : r.fail("is not a list");
  },
  const: (r, v) => {
    const same = (item) => canonical(item) === canonical(v);
    r.node.values = r.node.values ? r.node.values.filter(same) : [v];
  },
  minimum: (r, v) => r.tighten("minimum", r.decimal(v), r.schema.get("exclusiveMinimum") === true),
  maximum: (r, v) => r.tighten("maximum", r.decimal(v), r.schema.get("exclusiveMaximum") === true),
  exclusiveMinimum: (r, v) => {
    if (typeof v !== "boolean") r.tighten("minimum", r.decimal(v), true);
  },
  exclusiveMaximum: (r, v) => {
    if (typeof v !== "boolean") r.tighten("maximum", r.decimal(v), true);
  },
  multipleOf: (r, v) => {
    r.node.multipleOf = r.decimal(v);
    if (r.node.multipleOf.digits <= 0n) r.fail("is not a positive number");
  },
  minLength: (r, v) => {
    r.node.minLength = r.count(v);
  },
  maxLength: (r, v) => {
    r.node.maxLength = r.count(v);
  },
  pattern: (r, v) => {
    r.node.languages = [r.pattern(v)];
  },
  format: (r, v) => {
    if (!r.document.assertsFormats() || typeof v !== "string") return;
    const format = formats[v];
    if (format === void 0) return;
    r.node.languages = [...r.node.languages ?? [], format.language()];
    r.node.maxLength = Math.min(r.node.maxLength ?? Infinity, format.maxLength ?? Infinity);
  },
  prefixItems: (r, v) => {
    r.node.prefix = r.list(v);
  },
  items: (r, v) => {
    if (Array.isArray(v)) r.node.prefix = r.list(v);
    else r.node.rest = r.one();
  },
  additionalItems: (r) => {
    if (Array.isArray(r.schema.get("items"))) r.node.rest = r.one();
  },
  contains: (r) => {
    const bound = (key, none) => {
      const given = r.schema.get(key);
      return given === void 0 ? none : r.count(given);
    };
    const [min, max] = [bound("minContains", 1), bound("maxContains", Number.POSITIVE_INFINITY)];
    r.node.contains = { schema: r.one(), min, max };
  },
  minItems: (r, v) => {
    r.node.minItems = r.count(v);
  },
  maxItems: (r, v) => {
    r.node.maxItems = r.count(v);
  },
  uniqueItems: (r, v) => {
    r.node.unique = r.flag(v);
  },
  unevaluatedItems: (r) => {
    r.node.unevaluatedItems = r.one();
  },
  properties: (r, v) => {
    r.node.properties = r.named(v);
  },
  patternProperties: (r, v) => {
    r.node.patterns = [...r.named(v)].map(([source, schema]) => [r.pattern(source), schema]);
  },
  additionalProperties: (r) => {
    r.node.additional = r.one();
  },
  propertyNames: (r) => {
    r.node.names = r.one();
  },
  required: (r, v) => {
    r.node.required = r.strings(v);
  },
  minProperties: (r, v) => {
    r.node.minProperties = r.count(v);
  },
  maxProperties: (r, v) => {
    r.node.maxProperties = r.count(v);
  },
  dependentRequired: (r, v) => {
    const lists = r.map(v).map(([k, names]) => [k, r.strings(names)]);
    r.node.dependentRequired = new Map(lists);
  },
  dependentSchemas: (r, v) => {
    r.node.dependentSchemas = r.named(v);
  },
  dependencies: (r, v) => {
    for (const [name, needs] of r.map(v)) {
      if (Array.isArray(needs)) {
        r.node.dependentRequired ??= /* @__PURE__ */ new Map();
        const others = r.node.dependentRequired.get(name) ?? [];
        r.node.dependentRequired.set(name, [...others, ...r.strings(needs)]);
      } else {
        r.node.dependentSchemas ??= /* @__PURE__ */ new Map();
        if (r.node.dependentSchemas.has(name)) r.fail("repeats a name of dependentSchemas");
        r.node.dependentSchemas.set(name, r.document.child(r.node, "dependencies", name));
      }
    }
  },
  unevaluatedProperties: (r) => {
    r.node.unevaluatedProperties = r.one();
  },
  allOf: (r, v) => {
    r.node.allOf = r.list(v);
  },
  anyOf: (r, v) => {
    r.node.anyOf = r.list(v);
  },
  oneOf: (r, v) => {
    r.node.oneOf = r.list(v);
  },
  not: (r) => {
    r.node.not = r.one();
  },
  if: (r) => {
    r.node.if = r.one();
    if (r.schema.has("then")) r.node.ifMet = r.document.child(r.node, "then");
    if (r.schema.has("else")) r.node.ifNot = r.document.child(r.node, "else");
  }
};
function typeMask(name) {
  if (name === "boolean") return types.true | types.false;
  if (name === "integer") return types.number;
  if (typeof name !== "string" || !Object.hasOwn(types, name)) return 0;
  return name === "true" || name === "false" ? 0 : types[name];
}
function dialectOf(document) {
  const uri = document instanceof Map ? document.get("$schema") : void 0;
  if (typeof uri !== "string") return void 0;
  if (/draft-0[34]/.test(uri)) return "draft-04";
  if (/draft-0[67]/.test(uri)) return "draft-07";
  return /2019-09/.test(uri) ? "2019-09" : "2020-12";
}
function compare(a, b) {
  const scale = Math.max(a.scale, b.scale);
  const left = a.digits * 10n ** BigInt(scale - a.scale);
  const right = b.digits * 10n ** BigInt(scale - b.scale);
  return left < right ? -1 : left > right ? 1 : 0;
}
function absolute(ref, base) {
  if (ref.startsWith("#")) return base + ref;
  try {
    return new URL(ref, base).href;
  } catch {
    return ref;
  }
}
function escapeToken(token) {
  return token.replaceAll("~", "~0").replaceAll("/", "~1");
}
function unescapeToken(token) {
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}

// src/grammar/facts.ts
var nothing = { names: /* @__PURE__ */ new Set(), languages: [], outside: false };
var allNames = { names: /* @__PURE__ */ new Set(), languages: [], outside: true };
var noFacts = {
  mask: anyType,
  integer: false,
  fractional: false,
  minimum: void 0,
  maximum: void 0,
  multiples: [],
  notMultiples: [],
  numbers: void 0,
  excludedNumbers: [],
  minLength: 0,
  maxLength: Number.POSITIVE_INFINITY,
  languages: [],
  notLanguages: [],
  strings: void 0,
  excludedStrings: [],
  items: [],
  someItems: [],
  minItems: 0,
  maxItems: Number.POSITIVE_INFINITY,
  unique: false,
  repeats: void 0,
  members: [],
  someMembers: [],
  names: [],
  someNames: [],
  required: /* @__PURE__ */ new Set(),
  minProperties: 0,
  maxProperties: Number.POSITIVE_INFINITY,
  seenNames: nothing,
  seenItems: 0,
  seenContained: []
};
function facts(some) {
  return { ...noFacts, ...some };
}
function both(a, b) {
  if (a === noFacts) return b;
  if (b === noFacts) return a;
  let mask = a.mask & b.mask;
  if (a.integer && b.fractional) mask &= ~types.number;
  if (b.integer && a.fractional) mask &= ~types.number;
  const minimum = tighter(a.minimum, b.minimum, 1);
  const maximum = tighter(a.maximum, b.maximum, -1);
  if (minimum && maximum) {
    const order = compare(minimum.value, maximum.value);
    if (order > 0 || order === 0 && (minimum.open || maximum.open)) mask &= ~types.number;
  }
  const numbers2 = common(a.numbers, b.numbers, decimalText);
  if (numbers2?.length === 0) mask &= ~types.number;
  const strings = common(a.strings && [...a.strings], b.strings && [...b.strings], (s) => s);
  if (strings?.length === 0) mask &= ~types.string;
  const minLength = Math.max(a.minLength, b.minLength);
  const maxLength = Math.min(a.maxLength, b.maxLength);
  if (minLength > maxLength) mask &= ~types.string;
  const minItems = Math.max(a.minItems, b.minItems);
  const maxItems = Math.min(a.maxItems, b.maxItems);
  if (minItems > maxItems) mask &= ~types.array;
  const required = a.required.size === 0 ? b.required : /* @__PURE__ */ new Set([...a.required, ...b.required]);
  const minProperties = Math.max(a.minProperties, b.minProperties);
  const maxProperties = Math.min(a.maxProperties, b.maxProperties);
  if (Math.max(minProperties, required.size) > maxProperties) mask &= ~types.object;
  if (mask === 0) return void 0;
  return {
    mask,
    integer: a.integer || b.integer,
    fractional: a.fractional || b.fractional,
    minimum,
    maximum,
    multiples: joined(a.multiples, b.multiples),
    notMultiples: joined(a.notMultiples, b.notMultiples),
    numbers: numbers2,
    excludedNumbers: joined(a.excludedNumbers, b.excludedNumbers),
    minLength,
    maxLength,
    languages: joined(a.languages, b.languages),
    notLanguages: joined(a.notLanguages, b.notLanguages),
    strings: strings && new Set(strings),
    excludedStrings: joined(a.excludedStrings, b.excludedStrings),
    items: joined(a.items, b.items),
    someItems: joined(a.someItems, b.someItems),
    minItems,
    maxItems,
    unique: a.unique || b.unique,
    repeats: a.repeats ?? b.repeats,
    members: joined(a.members, b.members),
    someMembers: joined(a.someMembers, b.someMembers),
    names: joined(a.names, b.names),
    someNames: joined(a.someNames, b.someNames),
    required,
    minProperties,
    maxProperties,
    seenNames: eitherName(a.seenNames, b.seenNames),
    seenItems: Math.max(a.seenItems, b.seenItems),
    seenContained: joined(a.seenContained, b.seenContained)
  };
}
function unseen(facts2) {
  return { ...facts2, seenNames: nothing, seenItems: 0, seenContained: [] };
}
function namesOf(names, languages) {
  return { names: new Set(names), languages, outside: false };
}
function othersThan(set2) {
  return { ...set2, outside: !set2.outside };
}
function includes(set2, name, matched) {
  const listed = name !== void 0 && set2.names.has(name);
  return (listed || set2.languages.some((language2) => matched.has(language2))) !== set2.outside;
}
function eitherName(a, b) {
  if (a === allNames || b === allNames) return allNames;
  if (a === nothing) return b;
  if (b === nothing) return a;
  return namesOf([...a.names, ...b.names], joined(a.languages, b.languages));
}
function joined(a, b) {
  if (a.length === 0 || a === b) return b;
  if (b.length === 0) return a;
  return [.../* @__PURE__ */ new Set([...a, ...b])];
}
function tighter(a, b, sign) {
  if (!a || !b) return a ?? b;
  const order = sign * compare(a.value, b.value);
  if (order === 0) return a.open ? a : b;
  return order > 0 ? a : b;
}
function common(a, b, key) {
  if (!a || !b) return a ?? b;
  const known2 = new Set(b.map(key));
  return a.filter((value) => known2.has(key(value)));
}

// src/grammar/expand.ts
var maxCases = 3e3;
var maxWork = 4e5;
var maxScopes = 500;
var Literals = class {
  document;
  entries = [];
  ids = /* @__PURE__ */ new Map();
  scopes = [[]];
  scopeIds = /* @__PURE__ */ new Map([["", 0]]);
  expanded = /* @__PURE__ */ new Map();
  open = /* @__PURE__ */ new Set();
  exclusive = /* @__PURE__ */ new Map();
  constants = /* @__PURE__ */ new Map();
  work = 0;
  /** Tells whether a case might have a value, looking a few levels deep; set by whoever can look. */
  mayLive = () => true;
  constructor(document) {
    this.document = document;
  }
  literal(node2, scope, negative) {
    return this.intern(`${node2.id} ${scope} ${negative}`, { node: node2, scope, negative });
  }
  /** One of several holds. */
  any(literals2, node2) {
    return this.intern(`any ${literals2.join()}`, { any: literals2, node: node2 });
  }
  negated(literal3) {
    const entry = this.entries[literal3];
    if ("any" in entry) throw new Error("internal: alternatives are never negated");
    return this.literal(entry.node, entry.scope, !entry.negative);
  }
  /** Where a literal comes from, for errors. */
  pointer(literal3) {
    return this.entries[literal3].node.pointer;
  }
  /** The cases in which all of the literals hold. */
  cases(literals2) {
    let all = [noFacts];
    for (const literal3 of literals2) {
      all = this.product(all, this.expand(literal3, "ignored"), this.entries[literal3].node);
    }
    return coalesce(all);
  }
  intern(key, entry) {
    let id = this.ids.get(key);
    if (id === void 0) {
      id = this.entries.push(entry) - 1;
      this.ids.set(key, id);
    }
    return id;
  }
  expand(literal3, seen) {
    const key = `${literal3} ${seen}`;
    const known2 = this.expanded.get(key);
    if (known2) return known2;
    const entry = this.entries[literal3];
    if (this.open.has(key)) {
      throw new SchemaFault(entry.node.pointer, "$ref", "refers back to itself for the same value");
    }
    this.open.add(key);
    try {
      const result = this.expandEntry(entry, seen);
      this.expanded.set(key, result);
      return result;
    } finally {
      this.open.delete(key);
    }
  }
  expandEntry(entry, seen) {
    if ("any" in entry) return entry.any.flatMap((option) => this.expand(option, "ignored"));
    const place = new Place(this, entry.node, this.entered(entry.scope, entry.node));
    return entry.negative ? place.negative() : place.positive(seen);
  }
  holds(node2, scope, seen) {
    return this.expand(this.literal(node2, scope, false), seen);
  }
  fails(node2, scope) {
    return this.expand(this.literal(node2, scope, true), "ignored");
  }
  product(left, right, blame, keyword = "") {
    const out = [];
    for (const a of left) {
      for (const b of right) {
        if (++this.work > maxWork) {
          throw new SchemaFault(blame.pointer, keyword, "the schema has too many combinations");
        }
        const merged = both(a, b);
        if (merged && !this.contradicts(merged)) out.push(merged);
      }
    }
    if (out.length > maxCases) {
      throw new SchemaFault(blame.pointer, keyword, `more than ${maxCases} cases to keep apart`);
    }
    return out;
  }
  /** Whether no value satisfies both: then "one but not the other" is just "one". */
  exclude(a, b, scope) {
    const key = `${a.id} ${b.id} ${scope}`;
    let known2 = this.exclusive.get(key);
    if (known2 === void 0) {
      this.exclusive.set(key, false);
      const merged = this.product(
        this.holds(a, scope, "ignored"),
        this.holds(b, scope, "ignored"),
        a,
        "oneOf"
      );
      known2 = !merged.some((facts2) => this.mayLive(facts2));
      this.exclusive.set(key, known2);
    }
    return known2;
  }
  anyItem(literals2, node2) {
    return literals2.length === 1 ? literals2[0] : this.any(literals2, node2);
  }
  /** A required member whose constants exclude each other: what tells most branches apart. */
  contradicts(merged) {
    if (merged.mask !== types.object) return false;
    for (const name of merged.required) {
      let values;
      for (const { where, literals: literals2 } of merged.members) {
        if (where.outside || !where.names.has(name)) continue;
        for (const literal3 of literals2) {
          const own = this.constantsOf(literal3);
          if (!own) continue;
          const before = values;
          values = before ? new Set([...own].filter((value) => before.has(value))) : own;
          if (values.size === 0) return true;
        }
      }
    }
    return false;
  }
  constantSets = /* @__PURE__ */ new Map();
  constantsOf(literal3) {
    if (!this.constantSets.has(literal3)) {
      const entry = this.entries[literal3];
      const values = "any" in entry || entry.negative ? void 0 : entry.node.values;
      this.constantSets.set(literal3, values && new Set(values.map(canonical)));
    }
    return this.constantSets.get(literal3);
  }
  /** The schema that only this value satisfies. */
  constant(value, near) {
    const key = canonical(value);
    let node2 = this.constants.get(key);
    if (node2) return node2;
    node2 = this.document.synthetic(near.pointer, near.resource);
    this.constants.set(key, node2);
    if (Array.isArray(value)) {
      node2.type = { mask: types.array, integer: false };
      node2.prefix = value.map((item) => this.constant(item, near));
      node2.minItems = value.length;
      node2.maxItems = value.length;
    } else if (value instanceof Map) {
      node2.type = { mask: types.object, integer: false };
      node2.properties = new Map([...value].map(([k, member2]) => [k, this.constant(member2, near)]));
      node2.required = [...value.keys()];
      node2.maxProperties = value.size;
    } else node2.values = [value];
    return node2;
  }
  /** The literal that never holds. */
  get never() {
    this.falseNode ??= this.document.synthetic("", this.document.root.resource, false);
    return this.literal(this.falseNode, 0, false);
  }
  falseNode;
  // ---- dynamic scope: the resources entered, outermost first, each once ----
  entered(scope, node2) {
    if (!this.document.usesDynamicScope) return 0;
    const resources = this.scopes[scope];
    if (resources.includes(node2.resource)) return scope;
    const deeper2 = [...resources, node2.resource];
    const key = deeper2.join(" ");
    let id = this.scopeIds.get(key);
    if (id === void 0) {
      id = this.scopes.push(deeper2) - 1;
      this.scopeIds.set(key, id);
      if (id > maxScopes) {
        throw new SchemaFault(node2.pointer, "$dynamicRef", "too many dynamic scopes");
      }
    }
    return id;
  }
  dynamicTarget(node2, scope) {
    const { fallback, anchor } = node2.dynamic;
    if (anchor === void 0) return fallback;
    for (const resource of this.scopes[scope]) {
      const target = this.document.dynamicTarget(resource, anchor);
      if (target) return target;
    }
    return fallback;
  }
};
var Place = class {
  all;
  node;
  scope;
  constructor(all, node2, scope) {
    this.all = all;
    this.node = node2;
    this.scope = scope;
  }
  positive(seen) {
    const { node: node2, all } = this;
    if (node2.always !== void 0) return node2.always ? [noFacts] : [];
    const asks = node2.unevaluatedItems !== void 0 || node2.unevaluatedProperties !== void 0;
    const inner = asks && seen === "ignored" ? "some" : seen;
    let cases = this.conjunction(inner);
    if (node2.unevaluatedProperties) {
      const literals2 = [this.literal(node2.unevaluatedProperties)];
      cases = cases.map((c) => ({
        ...c,
        members: [...c.members, { where: othersThan(c.seenNames), literals: literals2 }],
        seenNames: allNames
      }));
    }
    if (node2.unevaluatedItems) {
      const own = this.literal(node2.unevaluatedItems);
      cases = cases.map((c) => {
        if (c.seenItems === Number.POSITIVE_INFINITY) return c;
        const literals2 = [all.anyItem([own, ...c.seenContained], node2)];
        const item = { from: c.seenItems, to: Number.POSITIVE_INFINITY, literals: literals2 };
        return { ...c, items: [...c.items, item], seenItems: Number.POSITIVE_INFINITY };
      });
    }
    return cases;
  }
  /** All keywords but the unevaluated ones. */
  conjunction(seen) {
    let cases = [noFacts];
    for (const [keyword, part] of this.parts(seen)) {
      cases = this.all.product(cases, part, this.node, keyword);
    }
    return cases;
  }
  parts(seen) {
    const { node: node2, all, scope } = this;
    const parts = this.assertions().map(([k, yes]) => [k, [yes]]);
    const holds2 = (child) => all.holds(child, scope, seen);
    if (node2.values) parts.push(["enum", this.oneOfValues(node2.values)]);
    if (node2.ref) parts.push(["$ref", holds2(node2.ref)]);
    if (node2.dynamic) parts.push(["$dynamicRef", holds2(all.dynamicTarget(node2, scope))]);
    for (const child of node2.allOf ?? []) parts.push(["allOf", holds2(child)]);
    if (node2.not) parts.push(["not", all.fails(node2.not, scope)]);
    for (const [name, names] of node2.dependentRequired ?? []) {
      const together = facts({ mask: types.object, required: /* @__PURE__ */ new Set([name, ...names]) });
      parts.push(["dependentRequired", [this.without(name), together, notObject]]);
    }
    for (const [name, child] of node2.dependentSchemas ?? []) {
      const present = [facts({ mask: types.object, required: /* @__PURE__ */ new Set([name]) })];
      const together = all.product(present, holds2(child), node2, "dependentSchemas");
      parts.push(["dependentSchemas", [this.without(name), ...together, notObject]]);
    }
    if (node2.if) parts.push(["if", this.conditional(node2.if, seen)]);
    if (node2.oneOf) parts.push(["oneOf", this.exactlyOne(node2.oneOf, seen)]);
    if (node2.anyOf) parts.push(["anyOf", this.atLeastOne(node2.anyOf, seen)]);
    return parts;
  }
  negative() {
    const { node: node2, all, scope } = this;
    if (node2.always !== void 0) return node2.always ? [] : [noFacts];
    const out = this.assertions().flatMap(([, , no]) => no);
    const fails = (child) => all.fails(child, scope);
    if (node2.values) out.push(...this.noneOfValues(node2.values));
    if (node2.ref) out.push(...fails(node2.ref));
    if (node2.dynamic) out.push(...fails(all.dynamicTarget(node2, scope)));
    for (const child of node2.allOf ?? []) out.push(...fails(child));
    if (node2.not) out.push(...all.holds(node2.not, scope, "ignored"));
    for (const [name, names] of node2.dependentRequired ?? []) {
      for (const other of names) {
        const present = facts({ mask: types.object, required: /* @__PURE__ */ new Set([name]) });
        out.push(...all.product([present], [this.without(other)], node2, "dependentRequired"));
      }
    }
    for (const [name, child] of node2.dependentSchemas ?? []) {
      const present = facts({ mask: types.object, required: /* @__PURE__ */ new Set([name]) });
      out.push(...all.product([present], fails(child), node2, "dependentSchemas"));
    }
    if (node2.if) {
      const { ifMet: yes, ifNot: no } = node2;
      const met = all.holds(node2.if, scope, "ignored");
      if (yes) out.push(...all.product(met, fails(yes), node2, "then"));
      if (no) out.push(...all.product(fails(node2.if), fails(no), node2, "else"));
    }
    if (node2.oneOf) out.push(...this.noneOrTwo(node2.oneOf));
    if (node2.anyOf) out.push(...this.none(node2.anyOf, "anyOf"));
    out.push(...this.someUnevaluated());
    return out.map(unseen);
  }
  someUnevaluated() {
    const { node: node2, all } = this;
    const out = [];
    if (!node2.unevaluatedProperties && !node2.unevaluatedItems) return out;
    for (const c of this.conjunction("exact")) {
      if (node2.unevaluatedProperties && (c.mask & types.object) !== 0) {
        const literals2 = [all.negated(this.literal(node2.unevaluatedProperties))];
        const some = { where: othersThan(c.seenNames), literals: literals2 };
        if (c.seenNames !== allNames) {
          out.push({ ...c, mask: types.object, someMembers: [...c.someMembers, some] });
        }
      }
      if (node2.unevaluatedItems && (c.mask & types.array) !== 0 && Number.isFinite(c.seenItems)) {
        const literals2 = [this.literal(node2.unevaluatedItems), ...c.seenContained].map(
          (l) => all.negated(l)
        );
        const some = { from: c.seenItems, literals: literals2, min: 1, max: Number.POSITIVE_INFINITY };
        out.push({ ...c, mask: types.array, someItems: [...c.someItems, some] });
      }
    }
    return out;
  }
  // ---- keywords that look at the value itself: [keyword, what it says, the cases of its negation] ----
  assertions() {
    const out = [];
    this.typeAndNumbers(out);
    this.strings(out);
    this.arrays(out);
    this.objects(out);
    return out;
  }
  typeAndNumbers(out) {
    const { node: node2 } = this;
    if (node2.type) {
      const { mask: mask2, integer } = node2.type;
      const others = [facts({ mask: anyType & ~mask2 })];
      if (integer) others.push(facts({ mask: types.number, fractional: true }));
      out.push(["type", facts({ mask: mask2, integer }), others.filter((f) => f.mask !== 0)]);
    }
    const { minimum, maximum, multipleOf } = node2;
    const mask = types.number;
    if (minimum) {
      const below = { value: minimum.value, open: !minimum.open };
      out.push(["minimum", facts({ minimum }), [facts({ mask, maximum: below })]]);
    }
    if (maximum) {
      const above = { value: maximum.value, open: !maximum.open };
      out.push(["maximum", facts({ maximum }), [facts({ mask, minimum: above })]]);
    }
    if (multipleOf) {
      const not = facts({ mask, notMultiples: [multipleOf] });
      out.push(["multipleOf", facts({ multiples: [multipleOf] }), [not]]);
    }
  }
  strings(out) {
    const { minLength, maxLength, languages } = this.node;
    const mask = types.string;
    if (minLength) {
      const shorter = facts({ mask, maxLength: minLength - 1 });
      out.push(["minLength", facts({ minLength }), [shorter]]);
    }
    if (maxLength !== void 0 && Number.isFinite(maxLength)) {
      out.push(["maxLength", facts({ maxLength }), [facts({ mask, minLength: maxLength + 1 })]]);
    }
    for (const language2 of languages ?? []) {
      const not = facts({ mask, notLanguages: [language2] });
      out.push(["pattern", facts({ languages: [language2] }), [not]]);
    }
  }
  arrays(out) {
    const { node: node2, all } = this;
    const mask = types.array;
    const endless3 = Number.POSITIVE_INFINITY;
    const { minItems, maxItems, contains } = node2;
    if (minItems) {
      out.push(["minItems", facts({ minItems }), [facts({ mask, maxItems: minItems - 1 })]]);
    }
    if (maxItems !== void 0) {
      out.push(["maxItems", facts({ maxItems }), [facts({ mask, minItems: maxItems + 1 })]]);
    }
    node2.prefix?.forEach((child, i) => {
      const literals2 = [this.literal(child)];
      const not = { from: i, to: i + 1, literals: [all.negated(literals2[0])] };
      const fact = facts({ items: [{ from: i, to: i + 1, literals: literals2 }], seenItems: i + 1 });
      out.push(["prefixItems", fact, [facts({ mask, items: [not], minItems: i + 1 })]]);
    });
    if (node2.rest) {
      const from = node2.prefix?.length ?? 0;
      const literals2 = [this.literal(node2.rest)];
      const some = { from, literals: literals2.map((l) => all.negated(l)), min: 1, max: endless3 };
      const fact = facts({ items: [{ from, to: endless3, literals: literals2 }], seenItems: endless3 });
      out.push(["items", fact, [facts({ mask, someItems: [some] })]]);
    }
    if (contains) {
      const literals2 = [this.literal(contains.schema)];
      const { min, max } = contains;
      const of = (least, most) => ({ from: 0, literals: literals2, min: least, max: most });
      const opposite = [];
      if (min > 0) opposite.push(facts({ mask, someItems: [of(0, min - 1)] }));
      if (max < endless3) opposite.push(facts({ mask, someItems: [of(max + 1, endless3)] }));
      const someItems = min > 0 || max < endless3 ? [of(min, max)] : [];
      const seenContained = node2.dialect === "2020-12" ? literals2 : [];
      out.push(["contains", facts({ someItems, seenContained }), opposite]);
    }
    if (node2.unique) out.push(["uniqueItems", facts({ unique: true }), [this.twins()]]);
  }
  // "Some two items are equal" would have to remember a value and ask for it again.
  twins() {
    return facts({ mask: types.array, repeats: this.node.pointer });
  }
  objects(out) {
    const { node: node2, all } = this;
    const mask = types.object;
    if (node2.required) {
      const lacking = node2.required.map((name) => this.without(name));
      out.push(["required", facts({ required: new Set(node2.required) }), lacking]);
    }
    const { minProperties, maxProperties } = node2;
    if (minProperties) {
      const fewer = facts({ mask, maxProperties: minProperties - 1 });
      out.push(["minProperties", facts({ minProperties }), [fewer]]);
    }
    if (maxProperties !== void 0) {
      const more = facts({ mask, minProperties: maxProperties + 1 });
      out.push(["maxProperties", facts({ maxProperties }), [more]]);
    }
    if (node2.properties) {
      const members = Array.from(node2.properties, ([name, child]) => {
        return { where: namesOf([name], []), literals: [this.literal(child)] };
      });
      const wrong = members.map(({ where, literals: literals2 }) => {
        const not = { where, literals: [all.negated(literals2[0])] };
        return facts({ mask, members: [not], required: where.names });
      });
      const seenNames = namesOf(node2.properties.keys(), []);
      out.push(["properties", facts({ members, seenNames }), wrong]);
    }
    for (const [language2, child] of node2.patterns ?? []) {
      const where = namesOf([], [language2]);
      out.push(["patternProperties", ...this.everyMember(where, where, this.literal(child))]);
    }
    if (node2.additional) {
      const languages = (node2.patterns ?? []).map(([language2]) => language2);
      const where = othersThan(namesOf(node2.properties?.keys() ?? [], languages));
      const literal3 = this.literal(node2.additional);
      out.push(["additionalProperties", ...this.everyMember(where, allNames, literal3)]);
    }
    if (node2.names) {
      const literal3 = this.literal(node2.names);
      const fact = facts({ names: [literal3] });
      out.push(["propertyNames", fact, [facts({ mask, someNames: [all.negated(literal3)] })]]);
    }
  }
  everyMember(where, seenNames, literal3) {
    const some = { where, literals: [this.all.negated(literal3)] };
    const opposite = facts({ mask: types.object, someMembers: [some] });
    return [facts({ members: [{ where, literals: [literal3] }], seenNames }), [opposite]];
  }
  // ---- applicators ----
  atLeastOne(children, seen) {
    const { all, scope, node: node2 } = this;
    if (seen === "ignored") return children.flatMap((child) => all.holds(child, scope, seen));
    const plain2 = seen === "exact" ? [] : children.filter((child) => this.showsNothing(child, seen));
    let chosen = plain2.flatMap((child) => all.holds(child, scope, seen));
    let none = [noFacts];
    for (const child of children.filter((c) => !plain2.includes(c))) {
      const yes = all.holds(child, scope, seen);
      const no = seen === "exact" ? all.fails(child, scope) : [noFacts];
      const also = all.product(chosen, yes, node2, "anyOf");
      const first2 = all.product(none, yes, node2, "anyOf");
      chosen = [...all.product(chosen, no, node2, "anyOf"), ...also, ...first2];
      none = all.product(none, no, node2, "anyOf");
    }
    return chosen;
  }
  showsNothing(child, seen) {
    return this.all.holds(child, this.scope, seen).every(
      (c) => unseen(c).seenNames === c.seenNames && c.seenItems === 0 && c.seenContained.length === 0
    );
  }
  exactlyOne(children, seen) {
    const { all, scope, node: node2 } = this;
    return children.flatMap((child, i) => {
      let cases = all.holds(child, scope, seen);
      children.forEach((other, j) => {
        if (i === j || cases.length === 0) return;
        const [a, b] = i < j ? [child, other] : [other, child];
        if (all.exclude(a, b, scope)) return;
        cases = all.product(cases, all.fails(other, scope), node2, "oneOf");
      });
      return cases;
    });
  }
  noneOrTwo(children) {
    const { all, scope, node: node2 } = this;
    const out = this.none(children, "oneOf");
    children.forEach((a, i) => {
      for (const b of children.slice(i + 1)) {
        if (all.exclude(a, b, scope)) continue;
        const two = [a, b].map((child) => all.holds(child, scope, "ignored"));
        out.push(...all.product(two[0], two[1], node2, "oneOf"));
      }
    });
    return out;
  }
  none(children, keyword) {
    let cases = [noFacts];
    for (const child of children) {
      cases = this.all.product(cases, this.all.fails(child, this.scope), this.node, keyword);
    }
    return cases;
  }
  conditional(condition, seen) {
    const { all, scope, node: node2 } = this;
    if (!node2.ifMet && !node2.ifNot && seen === "ignored") return [noFacts];
    const branch = (child) => child ? all.holds(child, scope, seen) : [noFacts];
    const met = all.product(all.holds(condition, scope, seen), branch(node2.ifMet), node2, "then");
    const failed = all.fails(condition, scope);
    return [...met, ...all.product(failed, branch(node2.ifNot), node2, "else")];
  }
  // ---- constants ----
  oneOfValues(values) {
    const { all, node: node2 } = this;
    const simple = values.filter((value) => !isCompound(value));
    const out = [];
    let mask = 0;
    for (const value of simple) mask |= typeOf(value);
    const strings = new Set(simple.filter((value) => typeof value === "string"));
    if (mask !== 0) out.push(facts({ mask, strings, numbers: simple.filter(isDecimal) }));
    for (const value of values.filter(isCompound)) {
      out.push(...all.holds(all.constant(value, node2), 0, "ignored"));
    }
    return out;
  }
  noneOfValues(values) {
    const { all, node: node2 } = this;
    let mask = anyType;
    const excludedNumbers = [];
    const excludedStrings = [];
    for (const value of values) {
      if (typeof value === "string") excludedStrings.push(value);
      else if (isDecimal(value)) excludedNumbers.push(value);
      else if (!isCompound(value)) mask &= ~typeOf(value);
    }
    let cases = [facts({ mask, excludedNumbers, excludedStrings })];
    for (const value of values.filter(isCompound)) {
      cases = all.product(cases, all.fails(all.constant(value, node2), 0), node2, "enum");
    }
    return cases;
  }
  literal(child) {
    return this.all.literal(child, this.scope, false);
  }
  without(name) {
    const members = [{ where: namesOf([name], []), literals: [this.all.never] }];
    return facts({ mask: types.object, members });
  }
};
var notObject = facts({ mask: anyType & ~types.object });
function isCompound(value) {
  return Array.isArray(value) || value instanceof Map;
}
function typeOf(value) {
  if (value === null) return types.null;
  if (typeof value === "boolean") return value ? types.true : types.false;
  return typeof value === "string" ? types.string : types.number;
}
function coalesce(cases) {
  const simple = types.null | types.false | types.true | types.string | types.number;
  const isList2 = (c) => {
    const stringsListed = (c.mask & types.string) === 0 || c.strings !== void 0;
    const numbersListed = (c.mask & types.number) === 0 || c.numbers !== void 0;
    const plain2 = c.languages.length + c.notLanguages.length + c.multiples.length === 0;
    const unbounded = !c.integer && !c.fractional && !c.minimum && !c.maximum;
    const whole = c.minLength === 0 && c.maxLength === Number.POSITIVE_INFINITY;
    const kept = c.excludedNumbers.length + c.excludedStrings.length + c.notMultiples.length === 0;
    const listed = stringsListed && numbersListed && (c.mask & ~simple) === 0;
    return listed && plain2 && unbounded && whole && kept;
  };
  const lists = cases.filter(isList2);
  if (lists.length < 2) return cases;
  const merged = facts({
    mask: lists.reduce((mask, c) => mask | c.mask, 0),
    strings: new Set(lists.flatMap((c) => [...c.strings ?? []])),
    numbers: lists.flatMap((c) => [...c.numbers ?? []])
  });
  return [merged, ...cases.filter((c) => !isList2(c))];
}

// src/grammar/values.ts
var maxWork2 = 2e4;
var Values = class {
  limit;
  active = /* @__PURE__ */ new Set();
  work = 0;
  constructor(limit) {
    this.limit = limit;
  }
  /** @param spent how many values the caller cannot use, so that as many more are listed */
  ofGoal(goal, spent = 0) {
    if (this.active.has(goal)) return void 0;
    this.active.add(goal);
    this.limit += spent;
    const found = this.ofCases(goal);
    this.limit -= spent;
    this.active.delete(goal);
    return found;
  }
  ofArray(array, state, items) {
    const found = /* @__PURE__ */ new Set();
    return this.listArray(array, state, items, found) ? found : void 0;
  }
  ofObject(object, state, members) {
    const found = /* @__PURE__ */ new Set();
    return this.listObject(object, state, members, 0, found) ? found : void 0;
  }
  ofCases(goal) {
    const found = /* @__PURE__ */ new Set();
    for (const c of goal.cases) {
      for (const word of ["null", "true", "false"]) {
        if (c.has(types[word])) found.add(word);
      }
      if (c.has(types.number)) {
        const numbers2 = c.numbers.values(this.limit);
        if (!numbers2) return void 0;
        for (const number of numbers2) found.add(decimalText(number));
      }
      if (c.has(types.string)) {
        const words = c.strings.words(this.limit);
        if (!words) return void 0;
        for (const word of words) found.add(JSON.stringify(word));
      }
      if (c.has(types.array) && !this.listArray(c.array, c.array.start, [], found)) return void 0;
      if (c.has(types.object)) {
        if (!this.listObject(c.object, c.object.start, /* @__PURE__ */ new Map(), 0, found)) return void 0;
      }
      if (found.size > this.limit) return void 0;
    }
    return found;
  }
  /** Adds all arrays that go on from a state; false when they are too many. */
  listArray(array, state, items, found) {
    if (++this.work > maxWork2) return false;
    if (array.canClose(state)) found.add(`[${items.join()}]`);
    if (found.size > this.limit) return false;
    for (const { goal, to } of array.ways(state)) {
      const values = this.ofGoal(goal, array.unique ? items.length : 0);
      if (!values) return false;
      for (const value of values) {
        if (array.unique && items.includes(value)) continue;
        if (!this.listArray(array, to, [...items, value], found)) return false;
      }
    }
    return true;
  }
  listObject(object, state, members, from, found) {
    if (++this.work > maxWork2) return false;
    if (object.canClose(state)) found.add(objectText(members));
    if (found.size > this.limit || object.hasEndlessNames(state, object.firstPlace)) return false;
    for (let k = from; k < object.names.length; k++) {
      const name = object.names[k];
      const place = object.placeOf(name);
      for (const way of object.finished(state, place)) {
        const values = this.ofGoal(way.goal);
        if (!values) return false;
        const after = object.after(state, place, way.owed);
        for (const value of values) {
          const more = new Map(members).set(name, value);
          if (!this.listObject(object, after, more, k + 1, found)) return false;
        }
      }
    }
    return true;
  }
};
function objectText(members) {
  const names = [...members.keys()].sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${members.get(name)}`).join()}}`;
}
function canSeat(places, taken) {
  const owner = /* @__PURE__ */ new Map();
  const seat = (place, tried) => {
    for (const value of places[place]) {
      if (taken.has(value) || tried.has(value)) continue;
      tried.add(value);
      const other = owner.get(value);
      if (other === void 0 || seat(other, tried)) {
        owner.set(value, place);
        return true;
      }
    }
    return false;
  };
  return places.every((_, place) => seat(place, /* @__PURE__ */ new Set()));
}

// src/grammar/arrays.ts
var endless = Number.POSITIVE_INFINITY;
var maxSome = 6;
var maxSearch = 5e4;
var made = 0;
var ArrayCase = class {
  id = ++made;
  start;
  unique;
  goals;
  goal;
  min;
  max;
  some;
  /** From here on all items are alike. */
  prefix;
  literals;
  // [prefix + 1]  of each place, the last for all that follow
  states = /* @__PURE__ */ new Map();
  settled = false;
  constructor(goals, facts2, goal) {
    if (facts2.repeats !== void 0) {
      throw goals.unenforceable(facts2.repeats, "uniqueItems", "two equal items cannot be asked for");
    }
    this.goals = goals;
    this.goal = goal;
    this.some = facts2.someItems.filter((s) => s.min > 0 || s.max < endless);
    if (this.some.length > maxSome) throw goals.fault(goal, "too many conditions on some items");
    const needed = this.some.map((s) => s.from + s.min);
    this.min = Math.max(facts2.minItems, ...needed);
    this.max = facts2.maxItems;
    this.unique = facts2.unique && this.max > 1;
    const edges = facts2.items.flatMap(({ from, to }) => [from, to === endless ? 0 : to]);
    this.prefix = Math.max(0, ...edges, ...this.some.map((s) => s.from));
    this.literals = Array.from(
      { length: this.prefix + 1 },
      (_, i) => facts2.items.filter(({ from, to }) => from <= i && i < to).flatMap((item) => item.literals)
    );
    this.start = this.state(
      0,
      this.some.map(() => 0)
    );
  }
  /** Every goal that an item may have to satisfy. */
  *leadsTo() {
    if (this.max === 0) return;
    for (let i = 0; i <= Math.min(this.prefix, this.max - 1); i++) {
      for (const taken of this.choices(i)) yield this.itemGoal(i, taken);
    }
  }
  lives(probe) {
    return this.min <= this.max && this.completes(this.start, probe);
  }
  /** From here on what is found out stays true. */
  settle() {
    this.settled = true;
    for (const state of this.states.values()) state.ways = void 0;
  }
  /** Whether items that may not repeat have too few values for as many as there have to be. Asked once it is settled. */
  lacksValues() {
    if (!this.unique) return false;
    const missing = this.missing(this.start);
    const places = [];
    for (let i = 0; i < missing; i++) {
      const values = new Values(missing).ofGoal(this.plainGoal(i));
      if (values) places.push(values);
      else if (i >= this.prefix) break;
    }
    if (this.hasSome && [...this.leadsTo()].some((goal) => new Values(64).ofGoal(goal))) {
      const { pointer: pointer2 } = this.goal;
      const reason = "together with contains, too few values for different items";
      throw this.goals.unenforceable(pointer2, "uniqueItems", reason);
    }
    return !canSeat(places, /* @__PURE__ */ new Set());
  }
  canClose(state) {
    state.closes ??= state.count >= this.min && state.count <= this.max && this.some.every((s, k) => state.met[k] >= s.min && state.met[k] <= s.max);
    return state.closes;
  }
  /** The items that may come next such that the array can be finished after them. */
  ways(state) {
    state.ways ??= this.open(state, alive).filter(({ to }) => this.completes(to, alive));
    if (!this.settled) throw new Error("internal: arrays are walked once they are settled");
    return state.ways;
  }
  /** How many items still have to come at least. */
  missing(state) {
    return Math.max(0, this.min - state.count);
  }
  /** The goal of the item at a place, the "some" aside. */
  plainGoal(at) {
    return this.itemGoal(Math.min(at, this.prefix), []);
  }
  get hasSome() {
    return this.some.length > 0;
  }
  open(state, probe) {
    if (state.count >= this.max) return [];
    const place = Math.min(state.count, this.prefix);
    const out = [];
    for (const taken of this.choices(state.count)) {
      const met = state.met.map((n, k) => this.capped(k, n + (taken[k] === true ? 1 : 0)));
      const useful = taken.every((yes, k) => !yes || met[k] !== state.met[k]);
      const tooMany = this.some.some((s, k) => met[k] > s.max);
      if (!useful || tooMany) continue;
      const goal = this.itemGoal(place, taken);
      if (probe(goal)) out.push({ goal, to: this.state(state.count + 1, met) });
    }
    return out;
  }
  /** For each of the "some": met (true), not met (false), or not looked at (undefined: more of them never hurt). */
  *choices(at) {
    const count2 = this.some.length;
    for (let bits = 0; bits < 1 << count2; bits++) {
      const taken = this.some.map((s, k) => {
        if (at < s.from) return void 0;
        return (bits >> k & 1) === 1 || (s.max < endless ? false : void 0);
      });
      if (this.some.every((s, k) => at >= s.from || (bits >> k & 1) === 0)) yield taken;
    }
  }
  itemGoal(place, taken) {
    const literals2 = [...this.literals[Math.min(place, this.prefix)]];
    taken.forEach((yes, k) => {
      const own = this.some[k].literals;
      if (yes) literals2.push(...own);
      else if (yes === false) {
        if (own.length !== 1) throw new Error("internal: only single conditions have a maximum");
        literals2.push(this.goals.literals.negated(own[0]));
      }
    });
    return this.goals.goal(literals2);
  }
  capped(k, met) {
    const { min, max } = this.some[k];
    return Math.min(met, max === endless ? min : max + 1);
  }
  state(count2, met) {
    const last = this.max === endless ? Math.max(this.prefix, this.min) : this.max;
    const capped = Math.min(count2, last);
    const key = `${capped}:${met.join()}`;
    let state = this.states.get(key);
    if (!state) {
      state = { key, count: capped, met, ways: void 0, closes: void 0 };
      if (this.settled || this.states.size < maxSearch) this.states.set(key, state);
      else throw this.goals.fault(this.goal, "too many items to count");
    }
    return state;
  }
  completes(from, probe) {
    if (!this.hasSome) {
      for (let i = from.count; i < this.min; i++) {
        if (!probe(this.itemGoal(Math.min(i, this.prefix), []))) return false;
        if (i >= this.prefix) break;
      }
      return from.count <= this.max;
    }
    const seen = /* @__PURE__ */ new Set([from]);
    for (const state of seen) {
      if (this.canClose(state)) return true;
      if (seen.size > maxSearch) throw this.goals.fault(this.goal, "too many items to count");
      for (const { to } of this.open(state, probe)) seen.add(to);
    }
    return false;
  }
};
var alive = (goal) => goal.alive === true;

// src/grammar/numbers.ts
var wholeDigits = 64;
var fractionDigits = 20;
var roughDigits = 6;
var maxExponent2 = 308;
var maxTries = 2e3;
var made2 = 0;
var NumberLanguage = class {
  id = ++made2;
  start;
  scale;
  low;
  high;
  step;
  nots;
  excluded;
  only;
  multiples;
  notMultiples;
  /** No constraint but perhaps "integer": nothing has to be looked at but the spelling. */
  free;
  /** No constraint but bounds. */
  onlyBounded;
  mostWhole;
  mostFraction;
  interned = /* @__PURE__ */ new Map();
  empty;
  constructor(facts2) {
    const constants = [...facts2.multiples, ...facts2.notMultiples, ...facts2.excluded];
    for (const bound of [facts2.minimum, facts2.maximum]) if (bound) constants.push(bound.value);
    constants.push(...facts2.only ?? []);
    let scale = Math.max(0, ...constants.map((c) => c.scale));
    const rough = facts2.fractional || facts2.excluded.length + facts2.notMultiples.length > 0;
    if (!facts2.integer && !facts2.only) {
      scale = Math.max(scale + 1, rough ? roughDigits : fractionDigits);
    }
    let unit = 10n ** BigInt(scale);
    const on = (value) => value.digits * 10n ** BigInt(scale - value.scale);
    let step2 = facts2.multiples.reduce((all, m) => lcm(all, on(m)), facts2.integer ? unit : 1n);
    let low = facts2.minimum && on(facts2.minimum.value);
    if (low !== void 0 && facts2.minimum.open) {
      low = largest(low + 1n, -floorDivide(-nextDouble(facts2.minimum.value, 1) * unit, tiny));
    }
    let high = facts2.maximum && on(facts2.maximum.value);
    if (high !== void 0 && facts2.maximum.open) {
      high = -largest(1n - high, -floorDivide(nextDouble(facts2.maximum.value, -1) * unit, tiny));
    }
    this.multiples = facts2.multiples.map((m) => Number(decimalText(m)));
    this.notMultiples = facts2.notMultiples.map((m) => Number(decimalText(m)));
    let nots = facts2.notMultiples.map(on);
    if (facts2.fractional) nots.push(unit);
    let excluded = facts2.excluded.map(on);
    let only2 = facts2.only?.map(on);
    if (step2 % unit === 0n && scale > 0) {
      step2 /= unit;
      low = low === void 0 ? void 0 : -floorDivide(-low, unit);
      high = high === void 0 ? void 0 : floorDivide(high, unit);
      nots = nots.map((n) => lcm(n, unit) / unit);
      excluded = excluded.filter((value) => value % unit === 0n).map((value) => value / unit);
      only2 = only2?.filter((value) => value % unit === 0n).map((value) => value / unit);
      scale = 0;
      unit = 1n;
    }
    this.scale = scale;
    this.step = step2;
    this.low = low;
    this.high = high;
    this.nots = nots;
    this.excluded = new Set(excluded);
    this.only = only2;
    this.free = low === void 0 && high === void 0 && step2 === 1n && nots.length + excluded.length === 0;
    this.free &&= only2 === void 0 && facts2.multiples.length === 0;
    const widest = [low, high, step2, ...nots, ...only2 ?? []].map((value) => width(value ?? 0n));
    this.onlyBounded = step2 === 1n && nots.length + excluded.length + facts2.multiples.length === 0;
    this.onlyBounded &&= only2 === void 0;
    this.mostWhole = Math.max(wholeDigits, ...widest.map((w) => w - scale + 2));
    this.mostFraction = Math.max(scale, 3);
    this.start = new NumberNode(this, "start", false, 0n, 0, 0, "");
  }
  get isListed() {
    return this.only !== void 0;
  }
  isEmpty() {
    this.empty ??= !this.start.lives();
    return this.empty;
  }
  has(value) {
    const onGrid = this.gridValue(value.digits, -value.scale);
    return onGrid !== void 0 && this.exists(onGrid, onGrid);
  }
  /** All allowed numbers when they are at most `limit`; undefined otherwise. */
  values(limit) {
    if (this.only) {
      const found2 = this.only.filter((value) => this.exists(value, value));
      return found2.length > limit ? void 0 : found2.map((value) => decimal(value, this.scale));
    }
    if (this.low === void 0 || this.high === void 0) return void 0;
    const most = BigInt(limit + this.excluded.size) * (this.nots.length > 0 ? 4n : 1n);
    if ((this.high - this.low) / this.step > most) return void 0;
    const found = [];
    for (let k = -floorDivide(-this.low, this.step); k * this.step <= this.high; k++) {
      const value = k * this.step;
      if (this.allowed(value)) found.push(decimal(value, this.scale));
    }
    return found.length > limit ? void 0 : found;
  }
  /** digits · 10^exponent in grid steps; undefined when it lies between them. */
  gridValue(digits2, exponent) {
    const shift = exponent + this.scale;
    if (shift >= 0) return digits2 * power(shift);
    const divisor = power(-shift);
    return digits2 % divisor === 0n ? digits2 / divisor : void 0;
  }
  /** Whether an allowed value lies in [from, to]. */
  exists(from, to) {
    if (this.low !== void 0 && this.low > from) from = this.low;
    if (this.high !== void 0 && this.high < to) to = this.high;
    if (from > to) return false;
    if (this.only) {
      return this.only.some((value) => value >= from && value <= to && this.allowed(value));
    }
    if (to <= 0n) return this.findsFrom(floorDivide(to, this.step), -1n, from, to);
    if (from >= 0n) return this.findsFrom(-floorDivide(-from, this.step), 1n, from, to);
    return this.findsFrom(0n, 1n, from, to) || this.findsFrom(-1n, -1n, from, to);
  }
  findsFrom(first2, direction, from, to) {
    let k = first2;
    for (let tries = 0; tries < maxTries + this.excluded.size; tries++, k += direction) {
      const value = k * this.step;
      if (value < from || value > to) return false;
      if (this.allowed(value)) return true;
    }
    return false;
  }
  /** The largest magnitude of an allowed value of one sign; undefined when there is none. */
  reach(negative) {
    if (!negative) return this.high;
    return this.low === void 0 ? void 0 : -this.low;
  }
  /** Whether all magnitudes from `from` on, to `to` if there is one, are within the bounds. */
  contains(from, to, negative) {
    const [low, high] = negative ? [this.high, this.low] : [this.low, this.high];
    const sign = negative ? -1n : 1n;
    const enters = low === void 0 || sign * low <= from;
    if (to === void 0) return enters && high === void 0;
    return enters && (high === void 0 || sign * high >= to);
  }
  allowed(value) {
    if (this.low !== void 0 && value < this.low) return false;
    if (this.high !== void 0 && value > this.high) return false;
    if (value % this.step !== 0n || this.excluded.has(value)) return false;
    return this.nots.every((not) => value % not !== 0n) && this.agreesAsDouble(value);
  }
  agreesAsDouble(value) {
    if (this.multiples.length + this.notMultiples.length === 0) return true;
    const isSmall = value <= Number.MAX_SAFE_INTEGER && value >= -Number.MAX_SAFE_INTEGER;
    const inOnes = [...this.multiples, ...this.notMultiples].every(Number.isInteger);
    if (this.scale === 0 && isSmall && inOnes) return true;
    const double = Number(decimalText(decimal(value, this.scale)));
    const isMultiple = (of) => Number.isInteger(double / of) && Math.abs(double / of) < 1e21;
    return this.multiples.every(isMultiple) && !this.notMultiples.some(isMultiple);
  }
  /** One node for each distinct outlook: prefixes of unconstrained numbers share theirs. */
  intern(node2) {
    const key = node2.outlook();
    const known2 = this.interned.get(key);
    if (known2) return known2;
    if (this.interned.size > 2e4) this.interned.clear();
    this.interned.set(key, node2);
    return node2;
  }
};
var NumberNode = class _NumberNode {
  language;
  phase;
  negative;
  /** Whatever digits follow, the number is allowed: only the spelling still counts. */
  easy;
  /** All digits so far, the point left out. */
  digits;
  whole;
  // digits before the point
  fraction;
  // digits after it
  exponent;
  next = [];
  exponents;
  ends;
  constructor(language2, phase, negative, digits2, whole, fraction, exponent, easy = false) {
    this.language = language2;
    this.phase = phase;
    this.negative = negative;
    this.digits = digits2;
    this.whole = whole;
    this.fraction = fraction;
    this.exponent = exponent;
    this.easy = language2.free || easy && isDigits(phase) || this.isInside();
  }
  /** What follows a byte; null when no allowed number continues so. */
  step(byte) {
    if (byte < 43 || byte > 101) return null;
    const known2 = this.next[byte];
    if (known2 !== void 0) return known2;
    const node2 = this.after(byte);
    const result = node2?.lives() ? this.language.intern(node2) : null;
    this.next[byte] = result;
    return result;
  }
  /** Whether the number may be complete here. */
  canEnd() {
    this.ends ??= this.complete();
    return this.ends;
  }
  outlook() {
    const shape = `${this.phase}${this.negative ? "-" : ""}${this.whole}.${this.fraction}`;
    return this.easy && this.whole + this.fraction > 1 ? `${shape}e${this.exponent}` : `${shape}:${this.digits}e${this.exponent}`;
  }
  lives() {
    const { language: language2 } = this;
    const shape = this.whole <= language2.mostWhole && this.fraction <= language2.mostFraction;
    if (!shape) return false;
    switch (this.phase) {
      case "start":
        return this.intervalLives(0n, void 0) || this.mirrored().intervalLives(0n, void 0);
      case "minus":
        return language2.free || this.intervalLives(0n, void 0);
      case "zero":
        return this.easy || this.intervalLives(0n, this.span(0));
      case "whole":
        return this.easy || this.wholeLives();
      case "point":
      case "fraction":
        return this.easy ? this.fractionFree() : this.fractionLives();
      default:
        return this.exponentOptions().some(
          (text3) => text3.startsWith(this.exponentTail()) && this.mayBe(text3)
        );
    }
  }
  after(byte) {
    const c = String.fromCharCode(byte);
    const isDigit = byte >= 48 && byte <= 57;
    switch (this.phase) {
      case "start":
        if (c === "-") return this.with("minus", { negative: true });
        return isDigit ? this.firstDigit(c) : null;
      case "minus":
        return isDigit ? this.firstDigit(c) : null;
      case "zero":
      case "whole":
      case "fraction":
        if (isDigit && this.phase !== "zero") return this.digit(this.phase, c);
        if (c === "." && this.phase !== "fraction") return this.with("point", {});
        return (c === "e" || c === "E") && this.mayScale() ? this.with("e", {}) : null;
      case "point":
        return isDigit ? this.digit("fraction", c) : null;
      case "e":
        if (c === "+" || c === "-") return this.with("sign", { exponent: c });
        return isDigit ? this.with("exponent", { exponent: c }) : null;
      case "sign":
      case "exponent":
        return isDigit ? this.with("exponent", { exponent: this.exponent + c }) : null;
    }
  }
  // Where anything goes, or after a single digit: what an exponent makes of more digits costs too much to find out. Listed
  // numbers are written as they are.
  mayScale() {
    const { language: language2 } = this;
    return language2.free || !language2.isListed && this.whole + this.fraction <= 1;
  }
  firstDigit(c) {
    return this.with(c === "0" ? "zero" : "whole", { digits: BigInt(c), whole: 1 });
  }
  digit(phase, c) {
    const digits2 = this.digits * 10n + BigInt(c);
    const whole = this.whole + (phase === "whole" ? 1 : 0);
    const fraction = this.fraction + (phase === "fraction" ? 1 : 0);
    return this.with(phase, { digits: digits2, whole, fraction });
  }
  with(phase, change) {
    return new _NumberNode(
      this.language,
      phase,
      change.negative ?? this.negative,
      change.digits ?? this.digits,
      change.whole ?? this.whole,
      change.fraction ?? this.fraction,
      change.exponent ?? this.exponent,
      this.easy && isDigits(this.phase)
    );
  }
  // All completions, exponents aside, lie within the bounds, and nothing but the bounds is asked.
  isInside() {
    const { language: language2 } = this;
    if (!language2.onlyBounded || !isDigits(this.phase)) return false;
    if (this.fraction > language2.scale) return false;
    const from = this.digits * power(language2.scale - this.fraction);
    const isOpen = this.phase === "whole";
    return language2.contains(
      from,
      isOpen ? void 0 : from + this.span(this.fraction),
      this.negative
    );
  }
  mirrored() {
    return this.with(this.phase, { negative: !this.negative });
  }
  /** Grid steps in one unit of the last digit written, less one. */
  span(fraction) {
    return power(this.language.scale - fraction) - 1n;
  }
  /** Whether an allowed value has a magnitude in [from, to]; no `to` is as far as spellings go. */
  intervalLives(from, to) {
    const { scale, mostWhole } = this.language;
    const end = to ?? power(scale + mostWhole) - 1n;
    return this.negative ? this.language.exists(-end, -from) : this.language.exists(from, end);
  }
  wholeLives() {
    const { scale, mostWhole } = this.language;
    for (let more = 0; this.whole + more <= mostWhole; more++) {
      const unit = power(scale + more);
      const from = this.digits * unit;
      if (this.intervalLives(from, from + unit - 1n)) return true;
      const limit = this.language.reach(this.negative);
      if (limit !== void 0 && from > limit) return false;
    }
    return false;
  }
  fractionFree() {
    if (this.language.scale > 0) return true;
    return this.digits % power(this.fraction) === 0n;
  }
  fractionLives() {
    const at = this.language.gridValue(this.digits, -this.fraction);
    if (this.fraction > this.language.scale) {
      return at !== void 0 && this.intervalLives(at, at);
    }
    return at !== void 0 && this.intervalLives(at, at + this.span(this.fraction));
  }
  complete() {
    switch (this.phase) {
      case "zero":
      case "whole":
      case "fraction": {
        if (this.easy) return this.phase !== "fraction" || this.fractionFree();
        const at = this.language.gridValue(this.digits, -this.fraction);
        return at !== void 0 && this.intervalLives(at, at);
      }
      case "exponent":
        return this.exponentOptions().some(
          (text3) => text3 === this.exponentTail() && this.mayBe(text3)
        );
      default:
        return false;
    }
  }
  /** What has been written of the exponent, a plus sign left out. */
  exponentTail() {
    return this.exponent.startsWith("+") ? this.exponent.slice(1) : this.exponent;
  }
  mayBe(option) {
    return !(this.exponent.startsWith("+") && option.startsWith("-"));
  }
  /** The exponents, without sign when positive, that make an allowed number of the digits so far. */
  exponentOptions() {
    if (this.exponents) return this.exponents;
    const { language: language2 } = this;
    if (language2.free) {
      const least = language2.scale === 0 ? 0 : -maxExponent2;
      const roomy = this.digits <= 1n && this.whole + this.fraction <= 1;
      this.exponents = integersBetween(least, maxExponent2 - this.whole + (roomy ? 1 : 0));
      return this.exponents;
    }
    const options = [];
    const last = maxExponent2 - (this.digits > 1n ? 1 : 0);
    const limit = language2.reach(this.negative);
    for (let e = -language2.scale; e <= last; e++) {
      const at = language2.gridValue(this.digits, e);
      if (limit !== void 0 && at > limit) break;
      if (this.intervalLives(at, at)) options.push(String(e));
    }
    this.exponents = options;
    return options;
  }
};
var tinyScale = 1100;
var tiny = 10n ** BigInt(tinyScale);
function nextDouble(value, direction) {
  const double = Number(decimalText(value));
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, double);
  const away = double > 0 === direction > 0 ? 1n : -1n;
  if (double === 0) bits.setBigUint64(0, direction > 0 ? 1n : 1n << 63n | 1n);
  else bits.setBigUint64(0, bits.getBigUint64(0) + away);
  return exact(bits.getBigUint64(0));
}
function exact(bits) {
  const exponent = bits >> 52n & 0x7ffn;
  const fraction = bits & (1n << 52n) - 1n;
  const mantissa = exponent === 0n ? fraction : fraction | 1n << 52n;
  const power2 = (exponent === 0n ? 1n : exponent) - 1075n;
  const magnitude = power2 >= 0n ? (mantissa << power2) * tiny : mantissa * tiny >> -power2;
  return bits >> 63n === 1n ? -magnitude : magnitude;
}
function largest(a, b) {
  return a > b ? a : b;
}
var ranges = /* @__PURE__ */ new Map();
function integersBetween(from, to) {
  const key = `${from} ${to}`;
  let texts = ranges.get(key);
  if (!texts) {
    texts = Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => String(from + i));
    ranges.set(key, texts);
  }
  return texts;
}
function isDigits(phase) {
  return phase === "zero" || phase === "whole" || phase === "point" || phase === "fraction";
}
var powers = [];
function power(exponent) {
  powers[exponent] ??= 10n ** BigInt(exponent);
  return powers[exponent];
}
function floorDivide(a, b) {
  const quotient = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
}
function lcm(a, b) {
  let [x, y] = [a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  return a / x * b;
}
function width(value) {
  return (value < 0n ? -value : value).toString().length;
}

// src/grammar/strings.ts
var known = /* @__PURE__ */ new Map();
var between = decoding("between", 0, 0, 0, lastCodePoint);
function decode(at, byte) {
  let to = at.next[byte];
  if (to === void 0) {
    to = read(at, byte);
    at.next[byte] = to;
  }
  return to;
}
function read(at, byte) {
  switch (at.kind) {
    case "between":
      return first(byte);
    case "utf8":
      return byte >= 128 && byte < 192 ? utf8(at.value << 6 | byte & 63, at.missing - 1, at) : -1;
    case "backslash": {
      if (byte === 117) return decoding("hex", 0, 4, 0, lastCodePoint);
      const escaped2 = '"\\/bfnrt'.indexOf(String.fromCharCode(byte));
      return escaped2 < 0 ? -1 : '"\\/\b\f\n\r	'.charCodeAt(escaped2);
    }
    case "hex":
      return hex2(at, byte);
    case "pairBackslash":
      return byte === 92 ? decoding("pairU", at.value, 0, at.from, at.to) : -1;
    case "pairU":
      return byte === 117 ? decoding("pairHex", at.value, 4, at.from, at.to) : -1;
    case "pairHex":
      return pairHex(at, byte);
  }
}
function first(byte) {
  if (byte === 92) return decoding("backslash", 0, 0, 0, lastCodePoint);
  if (byte < 32 || byte === 34) return -1;
  if (byte < 128) return byte;
  if (byte >= 194 && byte < 224) return utf8(byte & 31, 1);
  if (byte >= 224 && byte < 240) return utf8(byte & 15, 2);
  return byte >= 240 && byte < 245 ? utf8(byte & 7, 3) : -1;
}
var shortest = [0, 128, 2048, 65536];
function utf8(value, missing, after) {
  if (missing === 0) return value;
  const low = Math.max(value << 6 * missing, after?.from ?? shortest[missing]);
  const high = Math.min((value + 1 << 6 * missing) - 1, lastCodePoint);
  const isSurrogate = low >= 55296 && high <= 57343;
  return low > high || isSurrogate ? -1 : decoding("utf8", value, missing, low, high);
}
function hex2(at, byte) {
  const digit = hexDigit(byte);
  if (digit < 0) return -1;
  const value = at.value * 16 + digit;
  const missing = at.missing - 1;
  const low = value << 4 * missing;
  const high = (value + 1 << 4 * missing) - 1;
  if (missing === 0) {
    if (value >= 56320 && value <= 57343) return -1;
    if (value < 55296 || value > 57343) return value;
    const pair = 65536 + (value - 55296) * 1024;
    return decoding("pairBackslash", pair, 0, pair, pair + 1023);
  }
  if (low >= 56320 && high <= 57343) return -1;
  if (low >= 55296 && high <= 56319) {
    const end = 65536 + (high - 55296) * 1024 + 1023;
    return decoding("hex", value, missing, 65536 + (low - 55296) * 1024, end);
  }
  return decoding(
    "hex",
    value,
    missing,
    low,
    high >= 55296 && low <= 56319 ? lastCodePoint : high
  );
}
function pairHex(at, byte) {
  const digit = hexDigit(byte);
  if (digit < 0) return -1;
  const missing = at.missing - 1;
  if (missing === 3) return digit === 13 ? decoding("pairHex", at.value, 3, at.from, at.to) : -1;
  if (missing === 2) {
    if (digit < 12) return -1;
    const from = at.value + (digit - 12) * 256;
    return decoding("pairHex", from, 2, from, from + 255);
  }
  if (missing === 1) {
    const from = at.value + digit * 16;
    return decoding("pairHex", from, 1, from, from + 15);
  }
  return at.value + digit;
}
var escapeWorthy = [
  [0, 31],
  [34, 34],
  [47, 47],
  [92, 92],
  [127, lastCodePoint]
];
function rangesOf({ kind, from, to }) {
  return kind === "backslash" ? escapeWorthy : [[from, to]];
}
function hexDigit(byte) {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
function decoding(kind, value, missing, from, to) {
  const key = `${kind} ${value} ${missing} ${from} ${to}`;
  let found = known.get(key);
  if (!found) {
    found = { id: known.size, kind, value, missing, from, to, next: [] };
    known.set(key, found);
  }
  return found;
}
var made3 = 0;
var endless2 = Number.POSITIVE_INFINITY;
var unread = -2;
var StringLanguage = class {
  id = ++made3;
  dfa;
  min;
  max;
  /** Any characters will do; only their number counts. */
  free;
  shortest;
  // [states]  fewest characters to acceptance
  longest;
  // [states]  most characters to acceptance, perhaps Infinity
  ways;
  endlessStates;
  places = /* @__PURE__ */ new Map();
  list = [];
  /** Where each byte leads from each place, by index; `unread` where nobody asked yet. It is replaced when it grows. */
  table = new Int32Array(16 * 256).fill(unread);
  // [places, 256]
  /** The fewest characters from each place to the end of a string, the one being read included. It is replaced, too. */
  least = new Float64Array(16);
  // [places]
  /** Whether each place is between two characters. It is replaced, too. */
  whole = new Uint8Array(16);
  // [places]
  /** The most that any place needs to its end. */
  farthest;
  /** @throws TooLarge when the lengths of the language repeat too late to be tabulated. */
  constructor(dfa, min, max) {
    this.dfa = dfa;
    this.min = min;
    this.max = max;
    this.free = dfa === anything;
    this.shortest = shortestPaths(dfa);
    this.longest = longestPaths(dfa);
    this.ways = min > 0 && !this.free ? new AcceptingLengths(dfa) : void 0;
    this.farthest = this.shortest.reduce((most, n) => n > most && n < endless2 ? n : most, 0) + 1;
    this.endlessStates = Uint8Array.from(this.longest, (n) => n === endless2 ? 1 : 0);
  }
  /**
   * A length that stands for all with which tokens of at most so many characters can do the same inside a string:
   * undefined when no bound is in reach.
   */
  roomFor(length, chars2) {
    const above = this.max - length >= chars2 + this.farthest;
    return above && (length >= this.min || this.free) ? void 0 : length;
  }
  /** Whether strings go on without end from every place. */
  get isWide() {
    return this.max === endless2 && this.endlessStates.every((yes) => yes === 1);
  }
  /** Whether strings without end, or too many to count, go on from a place. */
  isEndless(state, length) {
    return this.endlessStates[state] === 1 && this.max - length > this.farthest + 8;
  }
  isEmpty() {
    return this.dfa.start < 0 || !this.lives(this.dfa.start, 0);
  }
  has(text3) {
    let state = this.dfa.start;
    let length = 0;
    for (const character of text3) {
      if (state < 0) return false;
      const c = character.codePointAt(0);
      state = c >= 55296 && c <= 57343 ? -1 : step(this.dfa, state, c);
      length++;
    }
    return state >= 0 && this.accepts(state, length);
  }
  accepts(state, length) {
    return this.dfa.accepts[state] === 1 && length >= this.min && length <= this.max;
  }
  /** Whether a string of `length` characters that led to `state` can still be completed. */
  lives(state, length) {
    const low = Math.max(0, this.min - length);
    const high = this.max - length;
    if (this.shortest[state] > high || this.longest[state] < low) return false;
    if (this.shortest[state] >= low || this.free || !this.ways) return true;
    return this.ways.between(state, low, high);
  }
  /** A number of characters, as far as it can matter. */
  counted(length) {
    if (this.max !== Number.POSITIVE_INFINITY) return length;
    return length < this.min ? length : this.min;
  }
  /** All strings when they are at most `limit`; undefined otherwise. */
  words(limit) {
    return this.isEmpty() ? [] : this.completions(this.dfa.start, 0, between, limit);
  }
  /** How strings go on from a place, when there are at most `limit` ways; undefined otherwise. */
  completions(state, length, at, limit) {
    const found = [];
    let front = [[state, ""]];
    for (let far = length; front.length > 0; far++) {
      const ahead = [];
      const isFirst = far === length && at !== between;
      for (const [q, text3] of front) {
        if (!isFirst && this.accepts(q, far)) found.push(text3);
        for (const [from, to] of intervals(this.dfa, isFirst ? at : between)) {
          const next2 = step(this.dfa, q, from);
          if (next2 < 0 || !this.lives(next2, far + 1)) continue;
          if (found.length + ahead.length + to - from + 1 > limit) return void 0;
          for (let c = from; c <= to; c++) ahead.push([next2, text3 + String.fromCodePoint(c)]);
        }
      }
      front = ahead;
    }
    return found.length > limit ? void 0 : found;
  }
  /** What `StringPlace.step` says, by index, and remembered: -1 for nothing. */
  read(index, byte) {
    const to = this.list[index].step(byte)?.index ?? -1;
    this.table[index * 256 + byte] = to;
    return to;
  }
  placeAt(index) {
    return this.list[index];
  }
  /** The place before the first character. */
  start() {
    return this.place(this.dfa.start, between);
  }
  grow() {
    const table = new Int32Array(this.table.length * 2).fill(unread);
    table.set(this.table);
    this.table = table;
    const least = new Float64Array(this.least.length * 2);
    least.set(this.least);
    this.least = least;
    const whole = new Uint8Array(this.whole.length * 2);
    whole.set(this.whole);
    this.whole = whole;
  }
  place(state, decoding2) {
    const key = decoding2.id * this.dfa.accepts.length + state;
    let place = this.places.get(key);
    if (!place) {
      place = new StringPlace(this, state, decoding2, this.list.length);
      this.places.set(key, place);
      this.list.push(place);
      if (place.index * 256 >= this.table.length) this.grow();
      let least = endless2;
      for (const to of place.targets) least = Math.min(least, this.shortest[to]);
      this.least[place.index] = least + (place.isBetween ? 0 : 1);
      this.whole[place.index] = place.isBetween ? 1 : 0;
    }
    return place;
  }
};
var StringPlace = class {
  language;
  state;
  decoding;
  index;
  /** States that the character being read may lead to; only the state itself between characters. */
  targets;
  next = [];
  constructor(language2, state, decoding2, index) {
    this.language = language2;
    this.index = index;
    this.state = state;
    this.decoding = decoding2;
    if (decoding2 === between) this.targets = [state];
    else {
      const { dfa } = language2;
      const classes = rangesOf(decoding2).flatMap(([from, to]) => classesIn(dfa, from, to));
      const found = new Set(classes.map((c) => dfa.next[state * dfa.classes + c]));
      this.targets = [...found].filter((to) => to >= 0);
    }
  }
  get isBetween() {
    return this.decoding === between;
  }
  /** After a byte that is no closing quote; null when no string of the language goes on so, lengths aside. */
  step(byte) {
    let to = this.next[byte];
    if (to === void 0) {
      to = this.after(byte);
      this.next[byte] = to;
    }
    return to;
  }
  /** Whether, `length` characters being finished, the string can still be completed. */
  lives(length) {
    const { language: language2 } = this;
    if (this.decoding === between) return language2.lives(this.state, length);
    return this.targets.some((to) => language2.lives(to, length + 1));
  }
  after(byte) {
    const read2 = decode(this.decoding, byte);
    if (typeof read2 !== "number") {
      const place = this.language.place(this.state, read2);
      return place.targets.length > 0 ? place : null;
    }
    if (read2 < 0 || intersect([read2, read2], anyChar).length === 0) return null;
    const state = step(this.language.dfa, this.state, read2);
    return state < 0 ? null : this.language.place(state, between);
  }
};
function intervals(dfa, { from, to }) {
  const out = [];
  dfa.starts.forEach((start, i) => {
    const low = Math.max(start, from);
    const high = Math.min((dfa.starts[i + 1] ?? lastCodePoint + 1) - 1, to);
    if (low <= high && dfa.classOf[i] !== 0) out.push([low, high]);
  });
  return out;
}
function shortestPaths(dfa) {
  const count2 = dfa.accepts.length;
  const found = Float64Array.from(dfa.accepts, (yes) => yes ? 0 : Number.POSITIVE_INFINITY);
  const into = predecessors(dfa);
  let front = [];
  for (let q = 0; q < count2; q++) if (dfa.accepts[q]) front.push(q);
  for (let distance = 1; front.length > 0; distance++) {
    const ahead = [];
    for (const q of front) {
      for (const from of into[q]) {
        if (found[from] <= distance) continue;
        found[from] = distance;
        ahead.push(from);
      }
    }
    front = ahead;
  }
  return found;
}
function longestPaths(dfa) {
  const count2 = dfa.accepts.length;
  const found = new Float64Array(count2).fill(Number.POSITIVE_INFINITY);
  const into = predecessors(dfa);
  const open = new Int32Array(count2);
  for (let q = 0; q < count2; q++) for (const from of into[q]) open[from]++;
  const ready = [];
  for (let q = 0; q < count2; q++) if (open[q] === 0) ready.push(q);
  for (let q = ready.pop(); q !== void 0; q = ready.pop()) {
    found[q] = 0;
    for (let c = 1; c < dfa.classes; c++) {
      const to = dfa.next[q * dfa.classes + c];
      if (to >= 0) found[q] = Math.max(found[q], found[to] + 1);
    }
    for (const from of into[q]) if (--open[from] === 0) ready.push(from);
  }
  return found;
}
function predecessors({ accepts, next: next2, classes }) {
  const into = Array.from(accepts, () => []);
  for (let q = 0, i = 0; q < accepts.length; q++) {
    for (let c = 0; c < classes; c++, i++) {
      const to = next2[i];
      if (to >= 0 && into[to].at(-1) !== q) into[to].push(q);
    }
  }
  return into;
}
var AcceptingLengths = class {
  rounds = [];
  loopsTo;
  constructor(dfa) {
    const into = predecessors(dfa);
    const seen = /* @__PURE__ */ new Map();
    let current = Uint8Array.from(dfa.accepts);
    for (; ; ) {
      const key = Buffer.from(current).toString("latin1");
      const before = seen.get(key);
      if (before !== void 0) {
        this.loopsTo = before;
        return;
      }
      if (this.rounds.length * current.length > 4e6) {
        throw new TooLarge("its lengths and its pattern together are too intricate");
      }
      seen.set(key, this.rounds.length);
      this.rounds.push(current);
      const earlier = new Uint8Array(current.length);
      current.forEach((yes, q) => {
        if (yes) for (const from of into[q]) earlier[from] = 1;
      });
      current = earlier;
    }
  }
  between(state, low, high) {
    const last = Math.min(high, Math.max(low, this.loopsTo) + this.rounds.length - this.loopsTo);
    for (let k = low; k <= last; k++) if (this.rounds[this.wrap(k)][state]) return true;
    return false;
  }
  wrap(k) {
    const period = this.rounds.length - this.loopsTo;
    return k < this.rounds.length ? k : this.loopsTo + (k - this.loopsTo) % period;
  }
};

// src/grammar/objects.ts
var maxSome2 = 6;
var maxClasses2 = 30;
var maxNameStates = 5e3;
var maxFewNames = 1e3;
var maxSearch2 = 2e4;
var made4 = 0;
var ObjectCase = class {
  id = ++made4;
  start;
  firstPlace;
  /** Mentioned names, sorted. */
  names;
  goals;
  goal;
  /** What members have to satisfy: by name, and by sets that more than list names. */
  byName = /* @__PURE__ */ new Map();
  byPattern = [];
  some;
  required;
  isRequired;
  // [names]
  min;
  max;
  product;
  /** Literals and "some" bits of each mentioned name, then of each class. */
  kinds;
  goalCache = [];
  ends = [];
  constructor(goals, facts2, goal) {
    this.goals = goals;
    this.goal = goal;
    const members = [...facts2.members];
    this.some = [...facts2.someMembers];
    if (facts2.names.length > 0) {
      const where = othersThan(namesOf([], [goals.language(facts2.names)]));
      members.push({ where, literals: [goals.literals.never] });
    }
    for (const literal3 of facts2.someNames) {
      this.some.push({ where: namesOf([], [goals.language([literal3])]), literals: [] });
    }
    if (this.some.length > maxSome2) throw goals.fault(goal, "too many conditions on some members");
    const sets = [...members, ...this.some].map(({ where }) => where);
    for (const { where, literals: literals2 } of members) {
      if (!isList(where)) this.byPattern.push({ where, literals: literals2 });
      else
        for (const name of where.names)
          this.byName.set(name, [...this.byName.get(name) ?? [], ...literals2]);
    }
    const languages = [...new Set(sets.flatMap((set2) => set2.languages))];
    this.product = productOf(languages);
    const mentioned = /* @__PURE__ */ new Set([...facts2.required, ...sets.flatMap((set2) => [...set2.names])]);
    for (const name of this.product.fewNames()) mentioned.add(name);
    this.names = [...mentioned].sort();
    const index = new Map(this.names.map((name, i) => [name, i]));
    this.required = [...facts2.required].map((name) => index.get(name));
    this.isRequired = Uint8Array.from(this.names, (name) => facts2.required.has(name) ? 1 : 0);
    this.min = facts2.minProperties;
    this.max = facts2.maxProperties;
    this.kinds = [
      ...this.names.map((name) => {
        const matched = new Set(languages.filter((language2) => matches(language2, name)));
        return this.kind(name, matched);
      }),
      ...this.product.classes.map((matched) => this.kind(void 0, matched))
    ];
    this.start = {
      seen: new Uint32Array(this.names.length + 31 >> 5),
      others: [],
      count: 0,
      owed: (1 << this.some.length) - 1,
      ways: [],
      description: void 0,
      missing: void 0
    };
    this.firstPlace = { text: "", state: 0, low: 0, high: this.names.length };
  }
  *leadsTo() {
    for (let k = 0; k < this.kinds.length; k++) {
      if (k >= this.names.length && !this.product.isEndless(k - this.names.length)) continue;
      for (const owed of subsets(this.kinds[k].some)) yield this.memberGoal(k, owed);
    }
  }
  lives(probe) {
    if (this.min > this.max || this.required.length > this.max) return false;
    return this.completes(this.start, void 0, this.start.owed, probe);
  }
  /** From here on what is found out stays true. */
  settle() {
    this.start.ways.length = 0;
    this.start.missing = void 0;
  }
  canClose(state) {
    return state.owed === 0 && state.count >= this.min && state.count <= this.max && this.required.every((k) => has(state.seen, k));
  }
  /** Whether any member may follow. */
  canGrow(state) {
    if (state.count >= this.max) return false;
    return this.placeLives(state, this.firstPlace, between);
  }
  /** After a character of a name. */
  advance(place, codePoint) {
    const text3 = place.text + String.fromCodePoint(codePoint);
    const low = this.firstName(place, (name) => name >= text3);
    const high = this.firstName({ low, high: place.high }, (name) => !name.startsWith(text3));
    return { text: text3, state: this.product.step(place.state, codePoint), low, high };
  }
  /** Of the names between two places, the first of those at the end for which something is so. */
  firstName({ low, high }, isSo) {
    while (low < high) {
      const middle = low + high >> 1;
      if (isSo(this.names[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  }
  /** The ways on when a name ends here; none when it may not. */
  finished(state, place) {
    if (this.names[place.low] === place.text && place.low < place.high) {
      return this.waysFor(state, place.low);
    }
    if (state.others.includes(place.text)) return [];
    return this.waysFor(state, this.names.length + this.product.classOf(place.state));
  }
  /** Whether a name that has come so far can still become one that may come next. */
  placeLives(state, place, decoding2) {
    if (decoding2 === between) return this.textLives(state, place);
    const ranges2 = rangesOf(decoding2);
    for (let k = place.low; k < place.high; k++) {
      const next2 = this.names[k].codePointAt(place.text.length) ?? -1;
      if (!ranges2.some(([from, to]) => next2 >= from && next2 <= to)) continue;
      if (this.waysFor(state, k).length > 0) return true;
    }
    return ranges2.flatMap(([from, to]) => this.product.after(place.state, from, to)).some((next2) => this.othersLive(state, next2, place.text, decoding2));
  }
  after(state, place, owed) {
    const mentioned = this.names[place.low] === place.text && place.low < place.high;
    const seen = mentioned ? Uint32Array.from(state.seen) : state.seen;
    if (mentioned) seen[place.low >> 5] |= 1 << (place.low & 31);
    const others = mentioned ? state.others : [...state.others, place.text];
    const count2 = state.count + 1;
    return { seen, others, count: count2, owed, ways: [], description: void 0, missing: void 0 };
  }
  describe(state) {
    if (state.description === void 0) {
      const others = state.others.length > 0 ? JSON.stringify([...state.others].sort()) : "";
      state.description = `${this.id}:${state.seen.join()}:${state.owed}${others}`;
    }
    return state.description;
  }
  placeOf(name) {
    let place = this.firstPlace;
    for (const character of name) place = this.advance(place, character.codePointAt(0));
    return place;
  }
  /** Where a mentioned name ends. */
  endOf(k) {
    this.ends[k] ??= this.placeOf(this.names[k]);
    return this.ends[k];
  }
  /** The place, in the language of the names that are neither mentioned nor seen, of a name that has come so far. */
  otherNames(state, place) {
    let allowed = 0;
    this.product.classes.forEach((_, index) => {
      const isOpen = this.waysFor(state, this.names.length + index).length > 0;
      if (isOpen && this.product.isEndless(index)) allowed |= 1 << index;
    });
    return this.product.namesFrom(place.state, allowed);
  }
  /** Whether names without end, all of them new, are allowed from here. */
  hasEndlessNames(state, place, decoding2 = between) {
    const ends = (at) => this.product.endlessFrom(at).some((index) => this.waysFor(state, this.names.length + index).length > 0);
    if (decoding2 === between) return ends(place.state);
    return this.product.after(place.state, decoding2.from, decoding2.to).some(ends);
  }
  /** The mentioned names that may still come of a half-written one, and their ways on. */
  mentionedWays(state, place, decoding2 = between) {
    const out = [];
    for (let k = place.low; k < place.high; k++) {
      const name = this.names[k];
      const next2 = name.codePointAt(place.text.length) ?? -1;
      const fits2 = decoding2 === between || next2 >= decoding2.from && next2 <= decoding2.to;
      if (fits2) for (const way of this.waysFor(state, k)) out.push([name, way]);
    }
    return out;
  }
  textLives(state, place) {
    for (let k = place.low; k < place.high; k++) {
      if (this.waysFor(state, k).length > 0) return true;
    }
    return this.othersLive(state, place.state, place.text, between);
  }
  othersLive(state, at, text3, decoding2) {
    const allowed = (index) => this.waysFor(state, this.names.length + index).length > 0;
    if (this.product.endlessFrom(at).some(allowed)) return true;
    for (const [word, index] of this.product.wordsFrom(at)) {
      if (!allowed(index)) continue;
      if (decoding2 !== between) return true;
      const name = text3 + word;
      if (!state.others.includes(name) && !this.names.includes(name)) return true;
    }
    return false;
  }
  waysFor(state, k) {
    state.ways[k] ??= this.findWays(state, k);
    return state.ways[k];
  }
  findWays(state, k) {
    if (state.count >= this.max || k < this.names.length && has(state.seen, k)) return [];
    const ways = [];
    for (const met of subsets(this.kinds[k].some & state.owed)) {
      const goal = this.memberGoal(k, met);
      if (!goal.alive) continue;
      const owed = state.owed & ~met;
      if (this.completes(state, k, owed, alive2)) ways.push({ goal, owed });
    }
    return ways;
  }
  memberGoal(k, met) {
    this.goalCache[k] ??= [];
    this.goalCache[k][met] ??= this.goals.goal([
      ...this.kinds[k].literals,
      ...this.some.flatMap(({ literals: literals2 }, i) => met >> i & 1 ? literals2 : [])
    ]);
    return this.goalCache[k][met];
  }
  kind(name, matched) {
    const literals2 = this.byPattern.filter(({ where }) => includes(where, name, matched)).flatMap((member2) => member2.literals);
    if (name !== void 0) literals2.push(...this.byName.get(name) ?? []);
    let some = 0;
    this.some.forEach(({ where }, i) => {
      if (includes(where, name, matched)) some |= 1 << i;
    });
    return { literals: literals2, some };
  }
  /** Whether the object can be finished once `next`, if any, has joined the members. */
  completes(state, next2, owed, probe) {
    const isFree = (k) => k !== next2 && !has(state.seen, k);
    const count2 = state.count + (next2 === void 0 ? 0 : 1);
    const missing = this.missing(state, probe);
    if (missing === void 0) return false;
    const needed = missing - (next2 !== void 0 && this.isRequired[next2] === 1 ? 1 : 0);
    if (count2 + needed > this.max) return false;
    if (owed === 0 && count2 + needed >= this.min) return true;
    const grows = this.product.classes.some(
      (_, i) => this.product.isEndless(i) && probe(this.memberGoal(this.names.length + i, 0))
    );
    if (!grows && count2 + needed < this.min) {
      let free = 0;
      for (let k = 0; k < this.names.length; k++) {
        if (isFree(k) && probe(this.memberGoal(k, 0))) free++;
      }
      if (count2 + free < this.min) return false;
    }
    return owed === 0 || this.pays(owed, isFree, this.max - count2 - needed, probe);
  }
  /** How many required members still have to come; undefined when one of them cannot. */
  missing(state, probe) {
    if (probe === alive2 && state.missing !== void 0) return state.missing;
    let missing = 0;
    for (const k of this.required) {
      if (has(state.seen, k)) continue;
      if (!probe(this.memberGoal(k, 0))) return void 0;
      missing++;
    }
    if (probe === alive2) state.missing = missing;
    return missing;
  }
  /** Whether members still to come can meet all that is owed, at most `spare` of them beyond the required ones. */
  pays(owed, isFree, spare, probe) {
    let work = 0;
    const assign = (left, taken, extra) => {
      if (left === 0) return true;
      if (++work > maxSearch2) throw this.goals.fault(this.goal, "too many conditions on members");
      const bit = left & -left;
      for (const [i, { k, met }] of taken.entries()) {
        if ((this.kinds[k].some & bit) === 0 || !probe(this.memberGoal(k, met | bit))) continue;
        const joined2 = taken.with(i, { k, met: met | bit });
        if (assign(left & ~bit, joined2, extra)) return true;
      }
      for (let k = 0; k < this.kinds.length; k++) {
        if ((this.kinds[k].some & bit) === 0) continue;
        const isName = k < this.names.length;
        if (isName && (!isFree(k) || taken.some((t) => t.k === k))) continue;
        if (!isName && !this.product.isEndless(k - this.names.length)) continue;
        const costs = isName && this.isRequired[k] === 1 ? 0 : 1;
        if (extra + costs > spare || !probe(this.memberGoal(k, bit))) continue;
        if (assign(left & ~bit, [...taken, { k, met: bit }], extra + costs)) return true;
      }
      return false;
    };
    return assign(owed, [], 0);
  }
};
var products = /* @__PURE__ */ new Map();
var mostProducts = 64;
var numbers = /* @__PURE__ */ new WeakMap();
var numbered = 0;
function productOf(languages) {
  for (const language2 of languages) {
    if (!numbers.has(language2)) numbers.set(language2, ++numbered);
  }
  const key = languages.map((language2) => numbers.get(language2)).join();
  const product = products.get(key) ?? new NameProduct(languages);
  products.delete(key);
  products.set(key, product);
  if (products.size > mostProducts) products.delete(products.keys().next().value);
  return product;
}
var NameProduct = class {
  /** The languages that the names of each class match. */
  classes = [];
  isTrivial;
  alphabet;
  next = [];
  // [states, character classes]
  classIds = [];
  // [states]
  endless = [];
  // [states]  classes with names without end from there
  words = [];
  languages = /* @__PURE__ */ new Map();
  constructor(languages) {
    this.isTrivial = languages.length === 0;
    this.alphabet = commonAlphabet(languages);
    const maps = classMaps(this.alphabet, languages);
    const ids2 = /* @__PURE__ */ new Map();
    const classIds = /* @__PURE__ */ new Map();
    const states = [];
    const intern = (state) => {
      const key = stateKey(state);
      let id = ids2.get(key);
      if (id !== void 0) return id;
      id = states.push(state) - 1;
      ids2.set(key, id);
      if (id > maxNameStates) throw new TooLarge("the patterns of names together are too large");
      const matched = languages.filter((l, i) => state[i] >= 0 && l.accepts[state[i]] === 1);
      const name = matched.map((language2) => languages.indexOf(language2)).join();
      let classId = classIds.get(name);
      if (classId === void 0) {
        classId = this.classes.push(new Set(matched)) - 1;
        classIds.set(name, classId);
        if (classId >= maxClasses2) throw new TooLarge("too many combinations of name patterns");
      }
      this.classIds.push(classId);
      return id;
    };
    intern(languages.map((language2) => language2.start));
    for (let i = 0; i < states.length; i++) {
      this.next.push(-1);
      for (let c = 1; c < this.alphabet.classes; c++) {
        this.next.push(intern(stepAll(languages, maps, states[i], c)));
      }
    }
    this.findEndless();
  }
  step(state, codePoint) {
    return this.next[state * this.alphabet.classes + classAt(this.alphabet, codePoint)];
  }
  after(state, from, to) {
    const found = classesIn(this.alphabet, from, to).map(
      (c) => this.next[state * this.alphabet.classes + c]
    );
    return [...new Set(found)];
  }
  /** Names of some classes, a bit for each, as a language whose states are those here; undefined where none is left. */
  namesFrom(state, classes) {
    let names = this.languages.get(classes);
    if (!names) {
      const { alphabet, classIds } = this;
      const isOne = (index) => (classes >> index & 1) === 1;
      const leads = this.reachable(isOne);
      const next2 = Int32Array.from(this.next, (to) => to >= 0 && leads[to] ? to : -1);
      const accepts = Uint8Array.from(classIds, (index) => isOne(index) ? 1 : 0);
      const dfa = { ...alphabet, next: next2, accepts, start: 0 };
      names = { of: new StringLanguage(dfa, 0, Number.POSITIVE_INFINITY), leads };
      this.languages.set(classes, names);
    }
    return names.leads[state] ? names.of.place(state, between) : void 0;
  }
  classOf(state) {
    return this.classIds[state];
  }
  endlessFrom(state) {
    return this.endless[state];
  }
  isEndless(index) {
    return this.endless[0].includes(index);
  }
  /** All names of the classes that have only a few. */
  fewNames() {
    return this.wordsFrom(0).map(([word]) => word);
  }
  /** How names go on from a state when their class has only a few from there. */
  wordsFrom(state) {
    this.words[state] ??= this.findWords(state);
    return this.words[state];
  }
  findWords(start) {
    const out = [];
    const few = (state, index) => !this.endless[state].includes(index);
    const leads = this.classes.map((_, index) => this.reachable((id) => id === index));
    const wanted2 = this.classes.flatMap((_, index) => few(start, index) ? [index] : []);
    const characters = charactersByClass(this.alphabet);
    let front = [[start, ""]];
    while (front.length > 0) {
      const ahead = [];
      for (const [state, text3] of front) {
        if (wanted2.includes(this.classIds[state])) out.push([text3, this.classIds[state]]);
        for (let c = 1; c < this.alphabet.classes; c++) {
          const to = this.next[state * this.alphabet.classes + c];
          if (!wanted2.some((index) => leads[index][to])) continue;
          for (const character of characters[c]) ahead.push([to, text3 + character]);
        }
      }
      front = ahead;
    }
    return out;
  }
  reachable(wanted2) {
    const found = this.classIds.map(wanted2);
    const width2 = this.alphabet.classes;
    for (let changed = true; changed; ) {
      changed = false;
      for (let i = this.next.length - 1; i >= 0; i--) {
        const from = Math.floor(i / width2);
        if (found[from] || this.next[i] < 0 || !found[this.next[i]]) continue;
        found[from] = true;
        changed = true;
      }
    }
    return found;
  }
  // A class has names without end from a state when a cycle of states that still reach the class can be entered from it.
  // Peel off the states without successors: what cannot be peeled enters one; of what can, the names are counted, and more
  // than an object will ever have are as good as endless.
  findEndless() {
    const count2 = this.classIds.length;
    const width2 = this.alphabet.classes;
    const sizes = classSizes(this.alphabet);
    this.endless.push(...Array.from({ length: count2 }, () => []));
    for (let index = 0; index < this.classes.length; index++) {
      const open = this.reachable((id) => id === index);
      const reaches = [...open];
      const left = new Int32Array(count2);
      const into = Array.from({ length: count2 }, () => /* @__PURE__ */ new Set());
      this.next.forEach((to, i) => {
        const from = Math.floor(i / width2);
        if (to < 0 || !reaches[from] || !reaches[to] || into[to].has(from)) return;
        into[to].add(from);
        left[from]++;
      });
      const names = new Float64Array(count2);
      const queue = [...left.keys()].filter((state) => left[state] === 0);
      for (const state of queue) {
        if (reaches[state]) {
          names[state] = this.classIds[state] === index ? 1 : 0;
          for (let c = 1; c < width2; c++) {
            names[state] += sizes[c] * names[this.next[state * width2 + c]];
          }
        }
        open[state] = names[state] > maxFewNames;
        for (const from of into[state]) if (--left[from] === 0) queue.push(from);
      }
      open.forEach((yes, state) => {
        if (yes) this.endless[state].push(index);
      });
    }
  }
};
function charactersByClass(alphabet) {
  const out = Array.from({ length: alphabet.classes }, () => []);
  alphabet.starts.forEach((start, i) => {
    const end = alphabet.starts[i + 1] ?? 1114112;
    const list2 = out[alphabet.classOf[i]];
    for (let c = start; c < end && list2.length <= maxFewNames; c++)
      list2.push(String.fromCodePoint(c));
  });
  return out;
}
function* subsets(bits) {
  for (let subset = bits; ; subset = subset - 1 & bits) {
    yield subset;
    if (subset === 0) return;
  }
}
function isList({ languages, outside }) {
  return languages.length === 0 && !outside;
}
function has(bits, index) {
  return (bits[index >> 5] >> (index & 31) & 1) === 1;
}
var alive2 = (goal) => goal.alive === true;

// src/grammar/goals.ts
var maxGoals = 2e4;
var mostBounds = 1e3;
var made5 = 0;
var Goal = class {
  id = ++made5;
  literals;
  /** Set once it is settled. */
  alive;
  goals;
  made;
  constructor(goals, literals2) {
    this.goals = goals;
    this.literals = literals2;
  }
  get cases() {
    this.made ??= this.goals.literals.cases(this.literals).map((facts2) => new Case(this.goals, facts2, this));
    return this.made;
  }
  get pointer() {
    return this.literals.length === 0 ? "" : this.goals.literals.pointer(this.literals[0]);
  }
  /** Forgets the cases that no value satisfies. */
  settle(alive3) {
    this.alive = alive3;
    this.made = alive3 ? this.cases.filter((c) => c.mask !== 0) : [];
    for (const c of this.made) {
      if (c.has(types.array)) c.array.settle();
      if (c.has(types.object)) c.object.settle();
    }
  }
};
var Goals = class {
  literals;
  byKey = /* @__PURE__ */ new Map();
  constructor(literals2) {
    this.literals = literals2;
    literals2.mayLive = (facts2) => this.mayLive(facts2, 2);
  }
  goal(literals2) {
    const list2 = [...new Set(literals2)].sort((a, b) => a - b);
    const key = list2.join();
    let goal = this.byKey.get(key);
    if (!goal) {
      goal = new Goal(this, list2);
      if (this.byKey.size >= maxGoals)
        throw this.fault(goal, "the schema has too many combinations");
      this.byKey.set(key, goal);
    }
    return goal;
  }
  /** Settles a goal and everything it leads to, and makes all cases there are, so that none is left to surprise later. */
  settle(root) {
    const found = /* @__PURE__ */ new Set([root]);
    for (const goal of found) {
      for (const c of goal.cases) for (const next2 of c.leadsTo()) found.add(next2);
    }
    const open = [...found].filter((goal) => goal.alive === void 0);
    do
      this.findLiving(open);
    while (this.dropBarren(open));
    return root.alive === true;
  }
  findLiving(open) {
    const living = /* @__PURE__ */ new Set();
    const probe = (goal) => goal.alive ?? living.has(goal);
    for (let before = -1; before !== living.size; ) {
      before = living.size;
      for (const goal of open) {
        if (!living.has(goal) && goal.cases.some((c) => c.lives(probe))) living.add(goal);
      }
    }
    for (const goal of open) for (const c of goal.cases) c.prune(probe);
    for (const goal of open) goal.settle(living.has(goal));
  }
  // Arrays whose items may not repeat but are too few; whether they are shows only when everything else is settled, and
  // when one is dropped, what needed it may have to go as well.
  dropBarren(open) {
    const cases = open.flatMap((goal) => goal.cases).filter((c) => c.has(types.array));
    const barren = cases.filter((c) => c.array.lacksValues());
    for (const c of barren) c.mask &= ~types.array;
    if (barren.length > 0) for (const goal of open) goal.alive = void 0;
    return barren.length > 0;
  }
  /** The names, as texts, that satisfy the literals. */
  language(literals2) {
    const parts = this.goal(literals2).cases.filter((c) => (c.mask & types.string) !== 0);
    const whole = parts.map((c) => c.wholeLanguage());
    if (whole.length === 1) return whole[0];
    return combine([anything, ...whole], ([, ...accepted]) => accepted.includes(true));
  }
  glances = /* @__PURE__ */ new WeakMap();
  // A quick look that never says no to what lives: a few levels deep, then yes.
  mayLive(facts2, depth) {
    if (depth === 0) return true;
    let known2 = this.glances.get(facts2);
    if (!known2) {
      known2 = [];
      this.glances.set(facts2, known2);
    }
    known2[depth] ??= this.glance(facts2, depth);
    return known2[depth];
  }
  glance(facts2, depth) {
    const c = new Case(this, facts2, this.goal([]));
    const probe = (goal) => {
      try {
        const cases = this.literals.cases(goal.literals);
        return cases.some((deeper2) => this.mayLive(deeper2, depth - 1));
      } catch (error) {
        if (error instanceof SchemaFault) return true;
        throw error;
      }
    };
    return c.lives(probe);
  }
  unenforceable(pointer2, keyword, reason) {
    return new SchemaFault(pointer2, keyword, reason);
  }
  fault(goal, reason) {
    return new SchemaFault(goal.pointer, "", reason);
  }
};
var Case = class {
  mask;
  goals;
  facts;
  goal;
  numberLanguage;
  stringLanguage;
  arrayCase;
  objectCase;
  constructor(goals, facts2, goal) {
    this.goals = goals;
    this.facts = facts2;
    this.goal = goal;
    this.mask = facts2.mask;
  }
  get numbers() {
    this.numberLanguage ??= numberLanguage(this.facts);
    return this.numberLanguage;
  }
  /** The numbers but those of some canonical texts. */
  numbersWithout(avoid) {
    const numbers2 = [...avoid].flatMap((text3) => parseDecimal(text3) ?? []);
    if (numbers2.length === 0) return this.numbers;
    const excludedNumbers = [...this.facts.excludedNumbers, ...numbers2];
    return numberLanguage({ ...this.facts, excludedNumbers });
  }
  get strings() {
    this.stringLanguage ??= this.guarded(() => stringLanguage(this.facts));
    return this.stringLanguage;
  }
  get array() {
    this.arrayCase ??= this.guarded(() => new ArrayCase(this.goals, this.facts, this.goal));
    return this.arrayCase;
  }
  get object() {
    this.objectCase ??= this.guarded(() => new ObjectCase(this.goals, this.facts, this.goal));
    return this.objectCase;
  }
  leadsTo() {
    return /* @__PURE__ */ new Set([
      ...this.has(types.array) ? this.array.leadsTo() : [],
      ...this.has(types.object) ? this.object.leadsTo() : []
    ]);
  }
  lives(probe) {
    return this.has(types.null | types.true | types.false) || this.has(types.number) && !this.numbers.isEmpty() || this.has(types.string) && !this.strings.isEmpty() || this.has(types.array) && this.array.lives(probe) || this.has(types.object) && this.object.lives(probe);
  }
  /** Leaves only the types that have a value. */
  prune(probe) {
    if (this.has(types.number) && this.numbers.isEmpty()) this.mask &= ~types.number;
    if (this.has(types.string) && this.strings.isEmpty()) this.mask &= ~types.string;
    if (this.has(types.array) && !this.array.lives(probe)) this.mask &= ~types.array;
    if (this.has(types.object) && !this.object.lives(probe)) this.mask &= ~types.object;
  }
  has(mask) {
    return (this.mask & mask) !== 0;
  }
  wholeLanguage() {
    return this.guarded(() => languageOf(this.facts, true));
  }
  guarded(make) {
    try {
      return make();
    } catch (error) {
      if (error instanceof TooLarge) throw this.goals.fault(this.goal, error.message);
      throw error;
    }
  }
};
var plainNumbers = /* @__PURE__ */ new Map();
function numberLanguage(facts2) {
  const { integer, fractional, minimum, maximum, multiples, notMultiples, numbers: numbers2 } = facts2;
  const lists = [multiples, notMultiples, facts2.excludedNumbers, numbers2 ?? []];
  const isPlain = !minimum && !maximum && !numbers2 && lists.every((list2) => list2.length === 0);
  const key = `${integer} ${fractional}`;
  const known2 = isPlain ? plainNumbers.get(key) : void 0;
  if (known2) return known2;
  const language2 = new NumberLanguage({
    integer,
    fractional,
    minimum,
    maximum,
    multiples,
    notMultiples,
    excluded: facts2.excludedNumbers,
    only: numbers2 && distinct2(numbers2)
  });
  if (isPlain) plainNumbers.set(key, language2);
  return language2;
}
function distinct2(numbers2) {
  return [...new Map(numbers2.map((n) => [canonical(n), n])).values()];
}
var stringLanguages = /* @__PURE__ */ new WeakMap();
function stringLanguage(facts2) {
  const { minLength, maxLength } = facts2;
  const dfa = languageOf(facts2, false);
  const byBounds = stringLanguages.get(dfa) ?? /* @__PURE__ */ new Map();
  stringLanguages.set(dfa, byBounds);
  const bounds = `${minLength} ${maxLength}`;
  const language2 = byBounds.get(bounds) ?? new StringLanguage(dfa, minLength, maxLength);
  if (byBounds.size < mostBounds) byBounds.set(bounds, language2);
  return language2;
}
function languageOf(facts2, counted) {
  const { minLength: min, maxLength: max, languages, notLanguages, excludedStrings } = facts2;
  const bounded = min > 0 || max < Number.POSITIVE_INFINITY;
  const bounds = counted && bounded ? [lengths(min, max)] : [];
  const banned = [...notLanguages];
  if (facts2.strings) {
    const allowed = [...languages, ...bounds];
    return finite(
      [...facts2.strings].filter((text3) => wanted(text3, allowed, banned, excludedStrings))
    );
  }
  if (excludedStrings.length > 0) banned.push(finite(excludedStrings));
  const wantedDfas = [...languages, ...bounds];
  if (wantedDfas.length + banned.length === 0) return anything;
  if (wantedDfas.length === 1 && banned.length === 0) return wantedDfas[0];
  const count2 = wantedDfas.length;
  return combine(
    [...wantedDfas, ...banned],
    (accepted) => accepted.every((yes, i) => yes === i < count2)
  );
}
function wanted(text3, allowed, banned, excluded) {
  return !excluded.includes(text3) && allowed.every((dfa) => matches(dfa, text3)) && !banned.some((dfa) => matches(dfa, text3));
}

// src/grammar/distinct.ts
var Kept = class {
  /** Canonical texts. */
  avoid;
  within;
  mentioned;
  constructor(avoid, within) {
    this.avoid = avoid;
    this.within = within;
  }
  /** Every string and name that the value, or what it is part of, is compared with: all others are alike. */
  get mentions() {
    this.mentioned ??= /* @__PURE__ */ new Set([...stringsIn(this.avoid), ...this.within?.mentions ?? []]);
    return this.mentioned;
  }
  /** Whether a string that begins with `text` can still become one that need not be avoided. */
  leavesString(place, length, text3) {
    const { language: language2, decoding: decoding2 } = place;
    const banned = /* @__PURE__ */ new Set();
    for (const value of this.avoid) {
      if (!value.startsWith('"')) continue;
      const string = parseJson(value);
      if (string.startsWith(text3) && language2.has(string)) banned.add(string.slice(text3.length));
    }
    if (banned.size === 0) return true;
    const left = language2.completions(place.state, length, decoding2, banned.size);
    return left === void 0 || left.some((rest) => !banned.has(rest));
  }
};
var nothing2 = /* @__PURE__ */ new Set();
var Distinct = class _Distinct {
  avoid;
  unique;
  items;
  members;
  kept;
  // the whole
  constructor(kept, unique, items, members) {
    this.avoid = kept?.avoid ?? nothing2;
    this.unique = unique;
    this.items = items;
    this.members = members;
    this.kept = kept;
  }
  static array(kept, unique) {
    if (!kept && !unique) return void 0;
    return new _Distinct(kept, unique, [], /* @__PURE__ */ new Map());
  }
  static object(kept) {
    return new _Distinct(kept, false, [], /* @__PURE__ */ new Map());
  }
  withItem(value) {
    return new _Distinct(this.kept, this.unique, [...this.items, value], this.members);
  }
  withMember(name, value) {
    const members = new Map(this.members).set(name, value);
    return new _Distinct(this.kept, this.unique, this.items, members);
  }
  get mentions() {
    return /* @__PURE__ */ new Set([...stringsIn(this.items), ...this.kept?.mentions ?? []]);
  }
  /** Whether it matters which members there are. */
  get isWatched() {
    return this.avoid.size > 0;
  }
  avoids(value) {
    return this.avoid.has(value);
  }
  arrayValue() {
    return `[${this.items.join()}]`;
  }
  objectValue() {
    return objectText(this.members);
  }
  describe() {
    const members = JSON.stringify([...this.members]);
    return `!${this.unique ? "u" : ""}${this.items.join()};${members};${[...this.avoid].join()}`;
  }
  // ---- arrays ----
  leavesArray(array, state) {
    if (this.avoid.size === 0) return true;
    return this.escapes(new Values(this.avoid.size).ofArray(array, state, this.items));
  }
  /** What the item of a way must avoid; undefined when nothing would be left of it. */
  itemKept(array, way) {
    const avoid = new Set(this.unique ? this.items : []);
    for (const value of this.wholes()) {
      const next2 = [...this.items, value];
      const values = new Values(this.avoid.size).ofArray(array, way.to, next2);
      if (!this.escapes(values)) avoid.add(value);
    }
    if (this.unique) this.addHoarded(array, way, avoid);
    return leaves(way.goal, avoid) ? new Kept(avoid, this) : void 0;
  }
  /** Items that would make the array begin like one to avoid. */
  *wholes() {
    const at = this.items.length;
    for (const text3 of this.avoid) {
      if (!text3.startsWith("[")) continue;
      const value = parseJson(text3).map(canonical);
      if (value.length > at && this.items.every((item, i) => item === value[i])) yield value[at];
    }
  }
  // Where items still to come have few values, this one must not take what the last of them needs.
  addHoarded(array, way, avoid) {
    const missing = array.missing(way.to);
    if (missing === 0) return;
    const places = [];
    const limit = this.items.length + 1 + missing;
    for (let i = 0; i < missing; i++) {
      const values = new Values(limit).ofGoal(array.plainGoal(way.to.count + i));
      if (values) places.push(values);
    }
    if (places.length === 0) return;
    const candidates = new Set(places.flatMap((values) => [...values]));
    for (const value of candidates) {
      if (!avoid.has(value) && !canSeat(places, /* @__PURE__ */ new Set([...this.items, value]))) avoid.add(value);
    }
  }
  // ---- objects ----
  leavesObject(object, state) {
    if (this.avoid.size === 0) return true;
    return this.escapes(new Values(this.avoid.size).ofObject(object, state, this.members));
  }
  /** Whether some further member leads to an object that need not be avoided. */
  objectGrows(object, state) {
    return this.nameLives(object, state, object.firstPlace);
  }
  nameLives(object, state, place, decoding2) {
    if (this.avoid.size === 0) return true;
    if (object.hasEndlessNames(state, place, decoding2)) return true;
    return object.mentionedWays(state, place, decoding2).some(([name, way]) => {
      return this.valueKept(object, state, object.placeOf(name), way) !== void 0;
    });
  }
  /** What the value of a member must avoid; undefined when nothing would be left of it. */
  memberKept(object, state, place, way) {
    return this.avoid.size === 0 ? new Kept(nothing2, this) : this.valueKept(object, state, place, way);
  }
  valueKept(object, state, place, way) {
    const avoid = /* @__PURE__ */ new Set();
    const after = object.after(state, place, way.owed);
    for (const text3 of this.avoid) {
      if (!text3.startsWith("{")) continue;
      const whole = parseJson(text3);
      const own = whole.get(place.text);
      const agrees = [...this.members].every(([name, value]) => {
        const other = whole.get(name);
        return other !== void 0 && canonical(other) === value;
      });
      if (own === void 0 || !agrees) continue;
      const members = new Map(this.members).set(place.text, canonical(own));
      const values = new Values(this.avoid.size).ofObject(object, after, members);
      if (!this.escapes(values)) avoid.add(canonical(own));
    }
    return leaves(way.goal, avoid) ? new Kept(avoid, this) : void 0;
  }
  escapes(values) {
    if (values === void 0) return true;
    for (const value of values) if (!this.avoid.has(value)) return true;
    return false;
  }
};
function stringsIn(texts) {
  const found = /* @__PURE__ */ new Set();
  const add = (value) => {
    if (typeof value === "string") found.add(value);
    else if (Array.isArray(value)) value.forEach(add);
    else if (value instanceof Map) {
      for (const [name, member2] of value) {
        found.add(name);
        add(member2);
      }
    }
  };
  for (const text3 of texts) add(parseJson(text3));
  return found;
}
function leaves(goal, avoid) {
  if (avoid.size === 0) return true;
  const values = new Values(avoid.size).ofGoal(goal);
  return values === void 0 || [...values].some((value) => !avoid.has(value));
}

// src/grammar/machine.ts
var named = 0;
var Context = class {
  /** One blank is allowed after a comma and after a colon. */
  spaced;
  names = /* @__PURE__ */ new Map();
  constructor(spaced) {
    this.spaced = spaced;
  }
  /** Equal descriptions have equal numbers; numbers are never used twice, not even by another context. */
  signature(description) {
    let id = this.names.get(description);
    if (id === void 0) {
      if (this.names.size > 2e5) this.names.clear();
      id = ++named;
      this.names.set(description, id);
    }
    return id;
  }
};
var unmentioned = "\0\0other";
var Frame = class {
  context;
  known = 0;
  constructor(context) {
    this.context = context;
  }
  /** Whether the text may end here. */
  finishes() {
    return false;
  }
  /** Frames of one grammar with equal signatures have the same future. */
  get signature() {
    if (this.known === 0) this.known = this.context.signature(this.describe());
    return this.known;
  }
};
function advance(frames, byte) {
  const out = [];
  for (const frame of frames) frame.step(byte, out);
  return out.length > 1 ? withoutTwins(out) : out;
}
function withoutTwins(frames) {
  const seen = /* @__PURE__ */ new Set();
  return frames.filter((frame) => {
    if (seen.has(frame.signature)) return false;
    seen.add(frame.signature);
    return true;
  });
}
var quote = 34;
var comma = 44;
var blank = 32;
var ValueFrame = class _ValueFrame extends Frame {
  goal;
  rest;
  kept;
  mayBlank;
  constructor(context, goal, rest, kept, mayBlank = false) {
    super(context);
    this.goal = goal;
    this.rest = rest;
    this.kept = kept;
    this.mayBlank = mayBlank && context.spaced;
  }
  step(byte, out) {
    const { context, rest, kept } = this;
    if (byte === blank && this.mayBlank) {
      out.push(new _ValueFrame(context, this.goal, rest, kept));
      return;
    }
    for (const c of this.goal.cases) {
      switch (byte) {
        case quote:
          if (c.has(types.string)) this.startString(c, out);
          break;
        case 123:
          if (c.has(types.object)) {
            const distinct3 = kept && Distinct.object(kept);
            pushLiving(
              new ObjectFrame(context, c.object, c.object.start, rest, "open", distinct3),
              out
            );
          }
          break;
        case 91:
          if (c.has(types.array)) {
            const distinct3 = Distinct.array(kept, c.array.unique);
            pushLiving(new ArrayFrame(context, c.array, c.array.start, rest, "open", distinct3), out);
          }
          break;
        case 116:
          this.startWord(c, types.true, "true", out);
          break;
        case 102:
          this.startWord(c, types.false, "false", out);
          break;
        case 110:
          this.startWord(c, types.null, "null", out);
          break;
        default:
          if (c.has(types.number)) this.startNumber(c, byte, out);
      }
    }
  }
  startString(c, out) {
    const { context, rest, kept } = this;
    const frame = new StringFrame(context, c.strings.start(), 0, rest, kept, "", 0);
    if (frame.lives()) out.push(frame);
  }
  startNumber(c, byte, out) {
    const language2 = this.kept ? c.numbersWithout(this.kept.avoid) : c.numbers;
    const node2 = language2.start.step(byte);
    const raw = this.kept && String.fromCharCode(byte);
    if (node2) out.push(new NumberFrame(this.context, node2, this.rest, raw));
  }
  startWord(c, type, word, out) {
    if (!c.has(type) || this.kept?.avoid.has(word)) return;
    out.push(new WordFrame(this.context, word, 1, this.rest));
  }
  describe() {
    const kept = this.kept ? `!${[...this.kept.avoid].join()}` : "";
    return `v${this.goal.id}${this.mayBlank ? "_" : ""}${kept}|${this.rest.signature}`;
  }
};
function pushLiving(frame, out) {
  if (frame.lives()) out.push(frame);
}
var WordFrame = class _WordFrame extends Frame {
  word;
  at;
  rest;
  constructor(context, word, at, rest) {
    super(context);
    this.word = word;
    this.at = at;
    this.rest = rest;
  }
  step(byte, out) {
    if (this.word.charCodeAt(this.at) !== byte) return;
    if (this.at + 1 === this.word.length) this.rest.resume(this.word, out);
    else out.push(new _WordFrame(this.context, this.word, this.at + 1, this.rest));
  }
  describe() {
    return `w${this.word}${this.at}|${this.rest.signature}`;
  }
};
var NumberFrame = class _NumberFrame extends Frame {
  node;
  rest;
  /** The spelling so far, when the value is kept. */
  raw;
  after;
  constructor(context, node2, rest, raw) {
    super(context);
    this.node = node2;
    this.rest = rest;
    this.raw = raw;
  }
  step(byte, out) {
    const next2 = this.node.step(byte);
    if (next2) {
      const raw = this.raw === void 0 ? void 0 : this.raw + String.fromCharCode(byte);
      out.push(new _NumberFrame(this.context, next2, this.rest, raw));
    } else for (const frame of this.ended()) frame.step(byte, out);
  }
  finishes() {
    return this.ended().some((frame) => frame.finishes());
  }
  // A number ends where something else begins.
  ended() {
    if (this.after) return this.after;
    const frames = [];
    if (this.node.canEnd()) {
      const value = this.raw === void 0 ? void 0 : decimalText(parseDecimal(this.raw));
      this.rest.resume(value, frames);
    }
    this.after = frames;
    return frames;
  }
  describe() {
    const at = `${this.node.language.id}:${this.node.outlook()}`;
    return `n${at}:${this.raw ?? ""}|${this.rest.signature}`;
  }
};
var StringFrame = class _StringFrame extends Frame {
  place;
  /** Finished characters, as far as they are counted. */
  length;
  rest;
  kept;
  /** The bytes so far, when the value is kept, and how many of them are finished characters. */
  raw;
  finished;
  constructor(context, place, length, rest, kept, raw, finished) {
    super(context);
    this.place = place;
    this.length = length;
    this.rest = rest;
    this.kept = kept;
    this.raw = raw;
    this.finished = finished;
  }
  step(byte, out) {
    if (byte === quote && this.place.isBetween) {
      if (!this.place.language.accepts(this.place.state, this.length)) return;
      out.push(...this.closed(this.kept ? this.text() : ""));
      return;
    }
    const place = this.place.step(byte);
    if (!place) return;
    const length = place.language.counted(this.length + (place.isBetween ? 1 : 0));
    if (!place.lives(length)) return;
    const same = place === this.place && length === this.length && !this.kept;
    const raw = this.kept ? this.raw + String.fromCharCode(byte) : "";
    const finished = place.isBetween ? raw.length : this.finished;
    const next2 = same ? this : new _StringFrame(this.context, place, length, this.rest, this.kept, raw, finished);
    if (next2.lives()) out.push(next2);
  }
  /** Whether a value that need not be avoided can still come of it. */
  lives() {
    if (!this.kept || this.kept.avoid.size === 0) return true;
    return this.kept.leavesString(this.place, this.length, this.text());
  }
  /** Undefined when it has to be asked byte by byte. */
  inside() {
    const { place, length, kept } = this;
    const mentions = kept ? [...kept.mentions] : [];
    if (mentions.length > 0 && !place.isBetween) return void 0;
    const text3 = mentions.length > 0 ? this.text() : "";
    const special = mentions.filter((mention) => mention.startsWith(text3)).map((mention) => ({
      rest: mention.slice(text3.length),
      leads: false,
      closed: () => this.closed(mention)
    }));
    let others;
    const closed = () => {
      others ??= this.closed(unmentioned);
      return others;
    };
    return { place, length, closed, special, isKept: kept !== void 0 };
  }
  /** What follows when the text is closed here. */
  closed(text3) {
    const out = [];
    const value = this.kept && JSON.stringify(text3);
    if (value === void 0 || !this.kept.avoid.has(value)) this.rest.resume(value, out);
    return out;
  }
  /** The finished characters. */
  text() {
    const bytes = Buffer.from(this.raw.slice(0, this.finished), "latin1");
    return parseJson(`"${bytes.toString("utf8")}"`);
  }
  describe() {
    const { place } = this;
    const kept = this.kept ? `${this.raw}!${[...this.kept.avoid].join()}` : "";
    const at = `${place.language.id}:${place.state}:${place.decoding.id}:${this.length}`;
    return `s${at}${kept}|${this.rest.signature}`;
  }
};
var ArrayFrame = class _ArrayFrame extends Frame {
  array;
  state;
  rest;
  phase;
  distinct;
  constructor(context, array, state, rest, phase, distinct3) {
    super(context);
    this.array = array;
    this.state = state;
    this.rest = rest;
    this.phase = phase;
    this.distinct = distinct3;
  }
  lives() {
    return this.distinct?.leavesArray(this.array, this.state) ?? true;
  }
  step(byte, out) {
    if (byte === 93 && this.phase !== "next") {
      if (!this.array.canClose(this.state)) return;
      const value = this.distinct?.arrayValue();
      if (value === void 0 || !this.distinct?.avoids(value)) this.rest.resume(value, out);
    } else if (this.phase !== "after") this.item(byte, out);
    else if (byte === comma && this.grows()) {
      out.push(
        new _ArrayFrame(this.context, this.array, this.state, this.rest, "next", this.distinct)
      );
    }
  }
  grows() {
    const ways = this.array.ways(this.state);
    const { distinct: distinct3 } = this;
    if (!distinct3) return ways.length > 0;
    return ways.some((way) => distinct3.itemKept(this.array, way) !== void 0);
  }
  item(byte, out) {
    const { context, distinct: distinct3 } = this;
    if (byte === blank && this.phase === "open") return;
    for (const way of this.array.ways(this.state)) {
      const kept = distinct3?.itemKept(this.array, way);
      if (distinct3 && !kept) continue;
      const rest = new ArrayRest(context, this.array, way.to, this.rest, distinct3);
      new ValueFrame(context, way.goal, rest, kept, true).step(byte, out);
    }
  }
  describe() {
    const distinct3 = this.distinct?.describe() ?? "";
    return `a${this.array.id}:${this.state.key}${this.phase}${distinct3}|${this.rest.signature}`;
  }
};
var ArrayRest = class {
  context;
  array;
  to;
  rest;
  distinct;
  known = 0;
  constructor(context, array, to, rest, distinct3) {
    this.context = context;
    this.array = array;
    this.to = to;
    this.rest = rest;
    this.distinct = distinct3;
  }
  get signature() {
    const { array, to, rest, distinct: distinct3 } = this;
    this.known ||= this.context.signature(
      `A${array.id}:${to.key}${distinct3?.describe() ?? ""}|${rest.signature}`
    );
    return this.known;
  }
  resume(value, out) {
    const distinct3 = this.distinct?.withItem(value);
    out.push(new ArrayFrame(this.context, this.array, this.to, this.rest, "after", distinct3));
  }
};
var ObjectFrame = class _ObjectFrame extends Frame {
  object;
  state;
  rest;
  phase;
  distinct;
  constructor(context, object, state, rest, phase, distinct3) {
    super(context);
    this.object = object;
    this.state = state;
    this.rest = rest;
    this.phase = phase;
    this.distinct = distinct3;
  }
  lives() {
    return this.distinct?.leavesObject(this.object, this.state) ?? true;
  }
  step(byte, out) {
    const { context, object, state, rest, distinct: distinct3 } = this;
    if (byte === 125 && this.phase !== "next") {
      if (!object.canClose(state)) return;
      const value = distinct3?.objectValue();
      if (value === void 0 || !distinct3?.avoids(value)) rest.resume(value, out);
    } else if (byte === quote && this.phase !== "after") {
      if (!this.grows()) return;
      out.push(new NameFrame(context, object, state, object.firstPlace, between, rest, distinct3));
    } else if (byte === comma && this.phase === "after") {
      if (this.grows()) out.push(new _ObjectFrame(context, object, state, rest, "next", distinct3));
    } else if (byte === blank && this.phase === "next" && context.spaced) {
      out.push(new BlankFrame(context, this));
    }
  }
  grows() {
    if (!this.object.canGrow(this.state)) return false;
    return this.distinct?.objectGrows(this.object, this.state) ?? true;
  }
  describe() {
    const distinct3 = this.distinct?.describe() ?? "";
    const state = this.object.describe(this.state);
    return `o${state}${this.phase}${distinct3}|${this.rest.signature}`;
  }
};
var BlankFrame = class extends Frame {
  before;
  constructor(context, before) {
    super(context);
    this.before = before;
  }
  step(byte, out) {
    if (byte !== blank) this.before.step(byte, out);
  }
  describe() {
    return `_${this.before.signature}`;
  }
};
var NameFrame = class _NameFrame extends Frame {
  object;
  state;
  place;
  decoding;
  rest;
  distinct;
  constructor(context, object, state, place, decoding2, rest, distinct3) {
    super(context);
    this.object = object;
    this.state = state;
    this.place = place;
    this.decoding = decoding2;
    this.rest = rest;
    this.distinct = distinct3;
  }
  step(byte, out) {
    const { object, state } = this;
    if (byte === quote && this.decoding === between) {
      out.push(...this.closed(this.place));
      return;
    }
    const read2 = decode(this.decoding, byte);
    if (read2 === -1) return;
    const finished = typeof read2 === "number";
    const place = finished ? object.advance(this.place, read2) : this.place;
    const decoding2 = finished ? between : read2;
    if (!object.placeLives(state, place, decoding2)) return;
    if (this.distinct?.nameLives(object, state, place, decoding2) ?? true) {
      const { context, rest, distinct: distinct3 } = this;
      out.push(new _NameFrame(context, object, state, place, decoding2, rest, distinct3));
    }
  }
  /** Undefined when it has to be asked byte by byte. */
  inside() {
    const { object, state, place, distinct: distinct3 } = this;
    if (this.decoding !== between) return void 0;
    const others = object.otherNames(state, place);
    if (distinct3?.isWatched && others && !others.language.isEndless(others.state, 0)) {
      return void 0;
    }
    const special = [];
    for (let k = place.low; k < place.high; k++) {
      const end = object.endOf(k);
      const closed2 = () => this.closed(end);
      const leads = distinct3 ? closed2().length > 0 : object.finished(state, end).length > 0;
      special.push({ rest: object.names[k].slice(place.text.length), leads, closed: closed2 });
    }
    for (const name of /* @__PURE__ */ new Set([...state.others, ...distinct3?.mentions ?? []])) {
      if (!name.startsWith(place.text)) continue;
      const end = object.placeOf(name);
      if (end.low < end.high && object.names[end.low] === name) continue;
      special.push({
        rest: name.slice(place.text.length),
        leads: false,
        closed: () => this.closed(end)
      });
    }
    const byState = /* @__PURE__ */ new Map();
    const closed = ({ state: at }) => {
      const frames = byState.get(at) ?? this.closed({ text: unmentioned, state: at, low: 0, high: 0 });
      byState.set(at, frames);
      return frames;
    };
    return { place: others, length: 0, closed, special, isKept: true };
  }
  /** What follows when the name is closed at a place. */
  closed(place) {
    const { context, object, state, distinct: distinct3 } = this;
    const out = [];
    for (const way of object.finished(state, place)) {
      const kept = distinct3?.memberKept(object, state, place, way);
      if (distinct3 && !kept) continue;
      const after = object.after(state, place, way.owed);
      const rest = new ObjectRest(context, object, after, this.rest, place.text, distinct3);
      out.push(new ColonFrame(context, new ValueFrame(context, way.goal, rest, kept, true)));
    }
    return out;
  }
  describe() {
    const { object, state, place, decoding: decoding2 } = this;
    const distinct3 = this.distinct?.describe() ?? "";
    const at = `${JSON.stringify(place.text)}${decoding2.id}`;
    return `k${object.describe(state)}:${at}${distinct3}|${this.rest.signature}`;
  }
};
var ColonFrame = class extends Frame {
  value;
  constructor(context, value) {
    super(context);
    this.value = value;
  }
  step(byte, out) {
    if (byte === 58) out.push(this.value);
  }
  describe() {
    return `:${this.value.signature}`;
  }
};
var ObjectRest = class {
  context;
  object;
  state;
  rest;
  name;
  distinct;
  known = 0;
  constructor(context, object, state, rest, name, distinct3) {
    this.context = context;
    this.object = object;
    this.state = state;
    this.rest = rest;
    this.name = name;
    this.distinct = distinct3;
  }
  get signature() {
    if (this.known === 0) {
      const distinct3 = this.distinct ? this.distinct.describe() + this.name : "";
      const state = this.object.describe(this.state);
      this.known = this.context.signature(`O${state}${distinct3}|${this.rest.signature}`);
    }
    return this.known;
  }
  resume(value, out) {
    const { context, object, state, rest } = this;
    const distinct3 = this.distinct?.withMember(this.name, value);
    out.push(new ObjectFrame(context, object, state, rest, "after", distinct3));
  }
};
var EndFrame = class extends Frame {
  step() {
  }
  finishes() {
    return true;
  }
  describe() {
    return "end";
  }
};
var End = class {
  signature = 0;
  frame;
  constructor(context) {
    this.frame = new EndFrame(context);
  }
  resume(_value, out) {
    out.push(this.frame);
  }
};

// src/grammar/parts.ts
function sequence(...parts) {
  return { kind: "sequence", parts };
}
function begin(context, part, rest, out) {
  switch (part.kind) {
    case "literal":
      if (part.bytes.length === 0) rest.resume(void 0, out);
      else out.push(new LiteralFrame(context, part.bytes, 0, rest));
      return;
    case "value":
      out.push(new ValueFrame(context, part.goal, rest));
      return;
    case "sequence":
      new SequenceRest(context, part.parts, 0, rest).resume(void 0, out);
      return;
    case "choice":
      for (const option of part.parts) begin(context, option, rest, out);
      return;
    case "list":
      new ListRest(context, part, 0, rest).start(out);
      return;
    case "text":
      out.push(new TextFrame(context, part.text, 0, rest));
  }
}
var LiteralFrame = class _LiteralFrame extends Frame {
  bytes;
  at;
  rest;
  constructor(context, bytes, at, rest) {
    super(context);
    this.bytes = bytes;
    this.at = at;
    this.rest = rest;
  }
  step(byte, out) {
    if (this.bytes[this.at] !== byte) return;
    if (this.at + 1 === this.bytes.length) this.rest.resume(void 0, out);
    else out.push(new _LiteralFrame(this.context, this.bytes, this.at + 1, this.rest));
  }
  describe() {
    return `l${this.bytes.subarray(this.at).join()}|${this.rest.signature}`;
  }
};
var made6 = 0;
var ids = /* @__PURE__ */ new WeakMap();
function idOf(part) {
  let id = ids.get(part);
  if (id === void 0) {
    id = ++made6;
    ids.set(part, id);
  }
  return id;
}
var SequenceRest = class _SequenceRest {
  signature;
  context;
  parts;
  at;
  rest;
  constructor(context, parts, at, rest) {
    this.context = context;
    this.parts = parts;
    this.at = at;
    this.rest = rest;
    this.signature = context.signature(`S${idOf(parts)}:${at}|${rest.signature}`);
  }
  resume(_value, out) {
    const { context, parts, at, rest } = this;
    if (at === parts.length) rest.resume(void 0, out);
    else begin(context, parts[at], new _SequenceRest(context, parts, at + 1, rest), out);
  }
};
var ListRest = class _ListRest {
  signature;
  context;
  list;
  count;
  rest;
  constructor(context, list2, count2, rest) {
    this.context = context;
    this.list = list2;
    this.count = list2.max === Number.POSITIVE_INFINITY ? Math.min(count2, list2.min + 1) : count2;
    this.rest = rest;
    this.signature = context.signature(`L${idOf(list2)}:${this.count}|${rest.signature}`);
  }
  start(out) {
    if (this.list.min === 0) this.rest.resume(void 0, out);
    if (this.list.max > 0) begin(this.context, this.list.part, this.next(), out);
  }
  resume(_value, out) {
    const { context, list: list2, count: count2, rest } = this;
    if (count2 >= list2.min) rest.resume(void 0, out);
    if (count2 < list2.max || list2.max === Number.POSITIVE_INFINITY) {
      begin(context, sequence(list2.separator, list2.part), this.next(), out);
    }
  }
  next() {
    return new _ListRest(this.context, this.list, this.count + 1, this.rest);
  }
};
var TextFrame = class _TextFrame extends Frame {
  text;
  state;
  rest;
  constructor(context, text3, state, rest) {
    super(context);
    this.text = text3;
    this.state = state;
    this.rest = rest;
  }
  /** Whether something may follow the text without a trigger. */
  get hasRest() {
    return this.text.stops && this.rest.signature !== 0;
  }
  at(state) {
    return state === this.state ? this : new _TextFrame(this.context, this.text, state, this.rest);
  }
  step(byte, out) {
    for (const frame of this.left()) frame.step(byte, out);
    const state = this.text.next(this.state, byte);
    const opened = this.text.opens(state);
    if (!opened) out.push(this.at(state));
    else begin(this.context, opened, this.text.again ? new TextRest(this) : this.rest, out);
  }
  finishes() {
    return this.left().some((frame) => frame.finishes());
  }
  left() {
    const frames = [];
    if (this.text.stops) this.rest.resume(void 0, frames);
    return frames;
  }
  describe() {
    return `t${idOf(this.text)}:${this.state}|${this.rest.signature}`;
  }
};
var TextRest = class {
  signature;
  frame;
  constructor(frame) {
    this.frame = frame.at(0);
    this.signature = frame.context.signature(`T${this.frame.signature}`);
  }
  resume(_value, out) {
    out.push(this.frame);
  }
};

// src/grammar/vocabulary.ts
var Trie = class {
  bytes;
  // [nodes]
  depth;
  // [nodes]  1 for the first byte
  skip;
  // [nodes]
  /** First entry that ends at a node, or -1; `twin` leads to the next one with equal bytes. */
  entry;
  // [nodes]
  twin;
  // [entries]
  /** The entries' bytes. */
  texts;
  /** The most bytes an entry has. */
  mostDepth;
  /** Entries with a backslash, and those with three quotes and more, in the order of their nodes. */
  escaped;
  repeating;
  constructor(entries) {
    this.texts = entries;
    const order = [...entries.keys()].filter((i) => entries[i].length > 0);
    const keys = entries.map((own) => Buffer.from(own).toString("latin1"));
    order.sort((a, b) => keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b);
    const total = entries.reduce((sum, bytes2) => sum + bytes2.length, 0);
    const bytes = new Uint8Array(total);
    const depth = new Uint16Array(total);
    const skip = new Int32Array(total);
    const entry = new Int32Array(total).fill(-1);
    this.twin = new Int32Array(entries.length).fill(-1);
    const path = [];
    let count2 = 0;
    let before = new Uint8Array();
    for (const i of order) {
      const own = entries[i];
      let shared = 0;
      while (shared < before.length && shared < own.length && before[shared] === own[shared])
        shared++;
      while (path.length > shared) skip[path.pop()] = count2;
      for (let at = shared; at < own.length; at++) {
        bytes[count2] = own[at];
        depth[count2] = at + 1;
        path.push(count2++);
      }
      const node2 = path.at(-1);
      this.twin[i] = entry[node2];
      entry[node2] = i;
      before = own;
    }
    while (path.length > 0) skip[path.pop()] = count2;
    this.bytes = bytes.slice(0, count2);
    this.depth = depth.slice(0, count2);
    this.skip = skip.slice(0, count2);
    this.entry = entry.slice(0, count2);
    this.mostDepth = this.depth.reduce((most, n) => Math.max(most, n), 0);
    this.escaped = this.listed((i) => keys[i].includes("\\"));
    this.repeating = this.listed((i) => keys[i].split('"').length > 3);
  }
  /** Of the nodes from `from` up to, not including, `to`, all at one level: the one of a byte, or -1. */
  child(from, to, byte) {
    let node2 = from;
    while (node2 < to && this.bytes[node2] < byte) node2 = this.skip[node2];
    return node2 < to && this.bytes[node2] === byte ? node2 : -1;
  }
  listed(isWanted) {
    const nodes = [];
    const entries = [];
    for (let node2 = 0; node2 < this.entry.length; node2++) {
      for (let e = this.entry[node2]; e >= 0; e = this.twin[e]) {
        if (!isWanted(e)) continue;
        nodes.push(node2);
        entries.push(e);
      }
    }
    return { nodes: Int32Array.from(nodes), entries: Int32Array.from(entries) };
  }
};
var Vocabulary = class {
  size;
  /** Words in a mask: bit i & 31 of word i >>> 5 is token i. */
  words;
  ends;
  tokens;
  trie;
  /** Tokens with a quote after plain characters, by these, as Latin-1. */
  heads = /* @__PURE__ */ new Map();
  /** What follows the first quote in them, each once. */
  tails;
  /** Tokens with a backslash: those without a quote, and those with one behind it. */
  escaped;
  escapedQuoted;
  /** The characters that each token with a backslash stands for, up to a quote, as far as they are finished. */
  unescaped = /* @__PURE__ */ new Map();
  /** The most characters a plain token has. */
  mostChars;
  plainByChars = [];
  plainMasks = [];
  /**
   * @param tokens the bytes of each id; empty for ids that are no text and may never be generated
   * @param ends ids that end a generation
   */
  constructor(tokens, ends) {
    this.size = tokens.length;
    this.words = tokens.length + 31 >>> 5;
    this.ends = ends;
    const isEnd = new Set(ends);
    this.tokens = tokens.map((bytes, id) => isEnd.has(id) ? new Uint8Array() : bytes);
    this.trie = new Trie(this.tokens);
    const tails = /* @__PURE__ */ new Map();
    const escaped2 = [];
    const escapedQuoted = [];
    this.tokens.forEach((bytes, id) => {
      if (bytes.length === 0) return;
      const { chars: chars2, end, plain: plain2 } = readPlain(bytes);
      if (plain2) {
        this.plainByChars[chars2] ??= [];
        this.plainByChars[chars2].push(id);
      } else if (bytes[end] === 34) this.addHead(id, bytes, end, chars2, tails);
      else if (bytes[end] === 92) {
        this.unescaped.set(id, unescaped(bytes));
        (bytes.includes(34) ? escapedQuoted : escaped2).push(id);
      }
    });
    this.tails = new Trie([...tails.keys()].map((tail) => Buffer.from(tail, "latin1")));
    this.escaped = tokenTrie(escaped2, this.tokens);
    this.escapedQuoted = tokenTrie(escapedQuoted, this.tokens);
    this.mostChars = Math.max(0, this.plainByChars.length - 1);
  }
  addHead(id, token, end, chars2, tails) {
    const bytes = token.subarray(0, end);
    const key = latin1(bytes);
    let head = this.heads.get(key);
    if (!head) {
      head = { bytes, chars: chars2, tokens: [], tails: [] };
      this.heads.set(key, head);
    }
    const tail = latin1(token.subarray(end + 1));
    if (tail !== "" && !tails.has(tail)) tails.set(tail, tails.size);
    head.tokens.push(id);
    head.tails.push(tails.get(tail) ?? -1);
  }
  /** The tokens that are at most so many plain characters. Do not change it. */
  plain(chars2) {
    const most = Math.min(chars2, this.mostChars);
    let mask = this.plainMasks[most];
    if (!mask) {
      mask = new Uint32Array(this.words);
      for (let n = 0; n <= most; n++) for (const id of this.plainByChars[n] ?? []) set(mask, id);
      this.plainMasks[most] = mask;
    }
    return mask;
  }
};
function set(mask, token) {
  mask[token >>> 5] |= 1 << (token & 31);
}
function tokenTrie(ids2, tokens) {
  return { trie: new Trie(ids2.map((id) => tokens[id])), tokens: ids2 };
}
function latin1(bytes) {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}
function unescaped(bytes) {
  let text3 = "";
  let at = between;
  for (const byte of bytes) {
    if (byte === 34 && at === between) break;
    const read2 = decode(at, byte);
    if (read2 === -1) break;
    if (typeof read2 === "number") {
      text3 += String.fromCodePoint(read2);
      at = between;
    } else at = read2;
  }
  return text3;
}
function readPlain(bytes) {
  let chars2 = 0;
  for (let at = 0; at < bytes.length; chars2++) {
    const byte = bytes[at];
    if (byte < 32 || byte === 34 || byte === 92) return { chars: chars2, end: at, plain: false };
    const length = byte < 128 ? 1 : byte < 194 ? 0 : byte < 224 ? 2 : byte < 240 ? 3 : 4;
    const low = byte === 224 ? 160 : byte === 240 ? 144 : 128;
    const high = byte === 237 ? 159 : byte === 244 ? 143 : 191;
    if (length === 0 || byte > 244) return { chars: chars2, end: bytes.length, plain: false };
    for (let i = 1; i < length && at + i < bytes.length; i++) {
      const next2 = bytes[at + i];
      if (next2 < (i === 1 ? low : 128) || next2 > (i === 1 ? high : 191)) {
        return { chars: chars2, end: bytes.length, plain: false };
      }
    }
    at += length;
  }
  return { chars: chars2, end: bytes.length, plain: true };
}

// src/grammar/masks.ts
var maxBytes = 64 << 20;
var byVocabulary = /* @__PURE__ */ new WeakMap();
function masksOf(vocabulary) {
  const masks = byVocabulary.get(vocabulary) ?? new Masks(vocabulary);
  byVocabulary.set(vocabulary, masks);
  return masks;
}
var Masks = class {
  vocabulary;
  /** By signature of a frame, or by language and place. */
  kept = /* @__PURE__ */ new Map();
  most;
  constructor(vocabulary) {
    this.vocabulary = vocabulary;
    this.most = Math.max(16, Math.floor(maxBytes / (4 * vocabulary.words)));
  }
  /** The tokens that a frame lets pass. Do not change it. */
  of(frame) {
    return this.known(frame.signature, (mask) => this.make(frame, mask));
  }
  known(key, make) {
    let mask = this.kept.get(key);
    if (mask) this.kept.delete(key);
    else {
      mask = new Uint32Array(this.vocabulary.words);
      make(mask);
    }
    this.kept.set(key, mask);
    if (this.kept.size > this.most) this.kept.delete(this.kept.keys().next().value);
    return mask;
  }
  make(frame, mask) {
    const { trie, ends } = this.vocabulary;
    const inside = insideOf(frame);
    if (inside && inside.place?.isBetween !== false) this.makeInside(frame, inside, mask);
    else walkFrames(trie, 0, trie.bytes.length, [frame], (token) => set(mask, token));
    if (frame.finishes()) for (const end of ends) set(mask, end);
  }
  makeInside(frame, inside, mask) {
    const { vocabulary } = this;
    const emit = (token) => set(mask, token);
    const special = new Map(inside.special.map((one2) => [utf82(one2.rest), one2]));
    if (inside.place) {
      mask.set(this.unclosed(inside.place, inside.length));
      this.addClosing(inside, inside.place, special, emit);
    }
    const doubtful = /* @__PURE__ */ new Set();
    for (const [rest, one2] of special) {
      const head = vocabulary.heads.get(rest);
      const closed = head ? one2.closed() : [];
      head?.tokens.forEach((token, i) => {
        const tail = head.tails[i];
        const fits2 = tail < 0 ? closed.length > 0 : passes(closed, vocabulary.tails.texts[tail]);
        if (fits2) set(mask, token);
      });
      const { trie } = vocabulary;
      const isTight = tightness(inside);
      const path = Buffer.from(rest, "latin1");
      descend(trie, 0, trie.bytes.length, path, (node2, depth) => {
        for (let e = trie.entry[node2]; e >= 0; e = trie.twin[e]) {
          if (one2.leads) set(mask, e);
          else if (isTight?.(path.subarray(0, depth))) doubtful.add(e);
        }
      });
    }
    if (inside.isKept) for (const token of vocabulary.trie.repeating.entries) doubtful.add(token);
    const isRelated = relation(inside);
    for (const [token, text3] of vocabulary.unescaped) if (isRelated(text3)) doubtful.add(token);
    for (const token of doubtful) {
      mask[token >>> 5] &= ~(1 << (token & 31));
      if (passes([frame], vocabulary.tokens[token])) set(mask, token);
    }
  }
  /** The tokens that stay inside the quotes, nothing being special. */
  unclosed(place, length) {
    const { vocabulary } = this;
    const { language: language2 } = place;
    const room = language2.roomFor(length, vocabulary.mostChars);
    return this.known(`${language2.id} ${place.index} ${room}`, (mask) => {
      const emit = (token) => set(mask, token);
      if (!language2.free) {
        const { trie: trie2 } = vocabulary;
        walkLanguage(trie2, 0, trie2.bytes.length, place, length, emit, void 0);
        return;
      }
      mask.set(vocabulary.plain(language2.max - length));
      const { trie, tokens } = vocabulary.escaped;
      const emitOf = (entry) => emit(tokens[entry]);
      walkLanguage(trie, 0, trie.bytes.length, place, length, emitOf, void 0);
    });
  }
  /** The tokens that close the quotes, after texts that are not special. */
  addClosing(inside, place, special, emit) {
    const { heads, tails, escapedQuoted } = this.vocabulary;
    const allowedAfter = /* @__PURE__ */ new Map();
    for (const [key, head] of heads) {
      const closed = closedAfter(inside, place, head);
      if (!closed || closed.length === 0 || special.has(key)) continue;
      let allowed = allowedAfter.get(closed);
      if (!allowed) {
        const flags = new Uint8Array(tails.texts.length);
        walkFrames(tails, 0, tails.bytes.length, closed, (entry) => {
          flags[entry] = 1;
        });
        allowed = flags;
        allowedAfter.set(closed, allowed);
      }
      for (let i = 0; i < head.tokens.length; i++) {
        const tail = head.tails[i];
        if (tail < 0 || allowed[tail] === 1) emit(head.tokens[i]);
      }
    }
    const { trie, tokens } = escapedQuoted;
    const emitOf = (entry) => emit(tokens[entry]);
    const closing = { closed: inside.closed, blocked: /* @__PURE__ */ new Set() };
    walkLanguage(trie, 0, trie.bytes.length, place, inside.length, emitOf, closing);
  }
};
function insideOf(frame) {
  return frame instanceof StringFrame || frame instanceof NameFrame ? frame.inside() : void 0;
}
function closedAfter(inside, place, head) {
  const { language: language2 } = place;
  let at = place.index;
  let { length } = inside;
  if (language2.free) length += head.chars;
  else {
    for (const byte of head.bytes) {
      at = next(place, at, byte);
      if (at < 0) return void 0;
      if (language2.placeAt(at).isBetween) length++;
    }
  }
  const end = language2.placeAt(at);
  const closes = end.isBetween && language2.accepts(end.state, language2.counted(length));
  return closes ? inside.closed(end) : void 0;
}
function passes(frames, bytes) {
  for (const byte of bytes) {
    frames = advance(frames, byte);
    if (frames.length === 0) return false;
  }
  return true;
}
function walkFrames(trie, from, to, frames, emit) {
  const rest = walkSpecial(trie, from, to, frames, emit);
  if (from >= to || rest.length === 0) return;
  const { bytes, depth, skip, entry, twin } = trie;
  const base = depth[from];
  const stack = [rest];
  for (let i = from; i < to; ) {
    const level = depth[i] - base;
    const reached = advance(stack[level], bytes[i]);
    if (reached.length > 0) for (let e = entry[i]; e >= 0; e = twin[e]) emit(e);
    const left = reached.length > 0 && skip[i] > i + 1 ? walkSpecial(trie, i + 1, skip[i], reached, emit) : reached;
    if (left.length === 0) i = skip[i];
    else {
      stack[level + 1] = left;
      i++;
    }
  }
}
function walkSpecial(trie, from, to, frames, emit) {
  if (from >= to) return [];
  return frames.filter((frame) => {
    if (frame instanceof TextFrame) walkText(trie, from, to, frame, emit);
    else {
      const inside = insideOf(frame);
      if (!inside) return true;
      walkInside(trie, from, to, frame, inside, emit);
    }
    return false;
  });
}
function walkInside(trie, from, to, frame, inside, emit) {
  const base = trie.depth[from] - 1;
  const blocked = /* @__PURE__ */ new Set();
  const doubtful = /* @__PURE__ */ new Set();
  const isTight = tightness(inside);
  for (const one2 of inside.special) {
    const path = Buffer.from(one2.rest);
    const end = descend(trie, from, to, path, (node2, depth) => {
      for (let e = trie.entry[node2]; e >= 0; e = trie.twin[e]) {
        if (one2.leads) emit(e);
        else if (isTight?.(path.subarray(0, depth))) doubtful.add(e);
      }
    });
    const quote2 = end ? trie.child(end.from, end.to, 34) : -1;
    if (quote2 < 0) continue;
    blocked.add(quote2);
    const closed = one2.closed();
    if (closed.length === 0) continue;
    for (let e = trie.entry[quote2]; e >= 0; e = trie.twin[e]) emit(e);
    walkFrames(trie, quote2 + 1, trie.skip[quote2], closed, emit);
  }
  if (inside.special.length > 0) {
    const isRelated = relation(inside);
    for (const e of between2(trie.escaped, from, to)) {
      if (isRelated(unescaped(trie.texts[e].subarray(base)))) doubtful.add(e);
    }
  }
  if (inside.isKept) for (const e of between2(trie.repeating, from, to)) doubtful.add(e);
  if (inside.place) {
    const sure = doubtful.size === 0 ? emit : (e) => doubtful.has(e) || emit(e);
    const closing = { closed: inside.closed, blocked };
    walkLanguage(trie, from, to, inside.place, inside.length, sure, closing);
  }
  for (const e of doubtful) if (passes([frame], trie.texts[e].subarray(base))) emit(e);
}
function walkLanguage(trie, from, to, place, length, emit, closing) {
  if (from >= to) return;
  const { bytes, depth, skip, entry, twin } = trie;
  const { language: language2 } = place;
  const { min, max } = language2;
  const base = depth[from];
  const places = [place.index];
  const lengths2 = [length];
  const counts = length < min || language2.roomFor(length, trie.mostDepth) !== void 0;
  let { table, least, whole } = language2;
  for (let i = from; i < to; ) {
    const level = depth[i] - base;
    const at = places[level];
    const byte = bytes[i];
    let reached = table[at * 256 + byte];
    if (reached === unread) {
      reached = language2.read(at, byte);
      ({ table, least, whole } = language2);
    }
    if (reached < 0) {
      const isEnd = byte === 34 && closing !== void 0 && !closing.blocked.has(i);
      const end = isEnd ? language2.placeAt(at) : void 0;
      if (closing && end?.isBetween && language2.accepts(end.state, lengths2[level])) {
        const closed = closing.closed(end);
        if (closed.length > 0) {
          for (let e = entry[i]; e >= 0; e = twin[e]) emit(e);
          walkFrames(trie, i + 1, skip[i], closed, emit);
        }
      }
      i = skip[i];
      continue;
    }
    if (counts) {
      const far = language2.counted(lengths2[level] + whole[reached]);
      const isDead = far + least[reached] > max;
      if (isDead || far < min && !language2.placeAt(reached).lives(far)) {
        i = skip[i];
        continue;
      }
      lengths2[level + 1] = far;
    } else lengths2[level + 1] = length;
    for (let e = entry[i]; e >= 0; e = twin[e]) emit(e);
    places[level + 1] = reached;
    i++;
  }
}
function next(place, at, byte) {
  const known2 = place.language.table[at * 256 + byte];
  return known2 === unread ? place.language.read(at, byte) : known2;
}
function walkText(trie, from, to, frame, emit) {
  const { bytes, depth, skip, entry, twin } = trie;
  const { text: text3, hasRest } = frame;
  const { table } = text3;
  const base = depth[from];
  const stack = [frame.state];
  for (let i = from; i < to; ) {
    const level = depth[i] - base;
    const reached = table[stack[level] * 256 + bytes[i]];
    if (hasRest || text3.opens(reached)) {
      const frames = advance([frame.at(stack[level])], bytes[i]);
      if (frames.length > 0) for (let e = entry[i]; e >= 0; e = twin[e]) emit(e);
      walkFrames(trie, i + 1, skip[i], frames, emit);
      i = skip[i];
      continue;
    }
    for (let e = entry[i]; e >= 0; e = twin[e]) emit(e);
    stack[level + 1] = reached;
    i++;
  }
}
function descend(trie, from, to, bytes, visit) {
  for (let depth = 0; depth < bytes.length; depth++) {
    const node2 = trie.child(from, to, bytes[depth]);
    if (node2 < 0) return void 0;
    visit(node2, depth + 1);
    from = node2 + 1;
    to = trie.skip[node2];
  }
  return { from, to };
}
function tightness({ place, length }) {
  if (!place || place.language.isWide) return void 0;
  const { language: language2 } = place;
  return (bytes) => {
    let at = place.index;
    let far = length;
    for (const byte of bytes) {
      at = next(place, at, byte);
      if (at < 0) return false;
      if (language2.placeAt(at).isBetween) far++;
    }
    const end = language2.placeAt(at);
    return !end.targets.every((state) => language2.isEndless(state, far + 1));
  };
}
function relation({ place, special }) {
  const isWide = place?.language.isWide === true;
  const byFirst = /* @__PURE__ */ new Map();
  for (const { rest } of special) {
    if (rest === "") continue;
    const list2 = byFirst.get(rest.slice(0, 1));
    if (list2) list2.push(rest);
    else byFirst.set(rest.slice(0, 1), [rest]);
  }
  return (text3) => {
    if (text3 === "") return !isWide && byFirst.size > 0;
    const near = byFirst.get(text3.slice(0, 1));
    if (!near) return false;
    return isWide ? near.includes(text3) : near.some((r) => r.startsWith(text3) || text3.startsWith(r));
  };
}
function between2({ nodes, entries }, from, to) {
  return entries.subarray(firstAt(nodes, from), firstAt(nodes, to));
}
function firstAt(nodes, from) {
  let low = 0;
  let high = nodes.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (nodes[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
function utf82(text3) {
  return Buffer.from(text3).toString("latin1");
}

// src/grammar/grammar.ts
var SchemaRefusal = class extends Error {
  fault;
  /** Whether it could be enforced, were there a value to satisfy it. */
  isUnsatisfiable;
  constructor(fault, isUnsatisfiable = false) {
    super(`#${fault.pointer}${fault.keyword && `/${fault.keyword}`}: ${fault.reason}`);
    this.fault = fault;
    this.isUnsatisfiable = isUnsatisfiable;
  }
};
var maxRounds = 32;
function compileSchema(schema, options = {}) {
  const document = readDocument(schema);
  const unenforced = [];
  const dropped = /* @__PURE__ */ new Set();
  for (; ; ) {
    try {
      return { part: compiled(document, options, dropped), unenforced };
    } catch (error) {
      if (!(error instanceof SchemaFault)) throw error;
      const { pointer: pointer2, keyword } = error.fault;
      const place = `${pointer2} ${keyword}`;
      const gives = options.lenient && keyword !== "" && !dropped.has(place);
      if (!gives || dropped.size >= maxRounds) throw new SchemaRefusal(error.fault);
      dropped.add(place);
      unenforced.push(error.fault);
    }
  }
}
function readDocument(schema) {
  try {
    return typeof schema === "string" ? parseJson(schema) : fromValue(schema);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    throw new SchemaRefusal({ pointer: "", keyword: "", reason: `is no JSON: ${error.message}` });
  }
}
function compiled(document, options, dropped) {
  const { dialect, formats: formats2 = true } = options;
  const read2 = readSchema(document, { dialect, formats: formats2, dropped });
  const literals2 = new Literals(read2);
  const goals = new Goals(literals2);
  const goal = goals.goal([literals2.literal(read2.root, 0, false)]);
  if (!goals.settle(goal)) {
    const reason = "no value satisfies this schema";
    throw new SchemaRefusal({ pointer: "", keyword: "", reason }, true);
  }
  return { kind: "value", goal };
}
var Grammar = class {
  start;
  constructor(part, options = {}) {
    const context = new Context(options.spaced ?? false);
    const start = [];
    begin(context, part, new End(context), start);
    this.start = start;
  }
  matcher(vocabulary) {
    return new Matcher(this, vocabulary, masksOf(vocabulary));
  }
};
var maxForced = 256;
var Matcher = class {
  vocabulary;
  masks;
  /** The state after each accepted token; the first before any. */
  states;
  ended = 0;
  // end tokens accepted
  constructor(grammar, vocabulary, masks) {
    this.vocabulary = vocabulary;
    this.masks = masks;
    this.states = [grammar.start];
  }
  /**
   * Fills `into` [ceil(vocabulary / 32)] with the tokens that may come next, end tokens when the text may end here.
   * @param back as it was so many moves ago
   */
  mask(into, back = 0) {
    into.fill(0);
    const frames = this.states[this.states.length - 1 - Math.max(0, back - this.ended)];
    if (this.ended > back || frames.every((frame) => frame instanceof EndFrame)) {
      for (const end of this.vocabulary.ends) into[end >>> 5] |= 1 << (end & 31);
      return;
    }
    for (const frame of frames) {
      const mask = this.masks.of(frame);
      for (let i = 0; i < mask.length; i++) into[i] |= mask[i];
    }
  }
  /** Moves on by a token; false, and no move, when it does not fit. */
  accept(token) {
    if (this.vocabulary.ends.includes(token)) {
      if (!this.canEnd()) return false;
      this.ended++;
      return true;
    }
    const bytes = this.vocabulary.tokens[token];
    if (!bytes || bytes.length === 0 || this.ended > 0) return false;
    return this.acceptBytes(bytes);
  }
  /** Moves on by bytes, as by one token; false, and no move, when they do not fit. */
  acceptBytes(bytes) {
    let frames = this.frames;
    for (const byte of bytes) {
      frames = advance(frames, byte);
      if (frames.length === 0) return false;
    }
    this.states.push(frames);
    return true;
  }
  /** Takes back the last `count` moves. */
  rollback(count2) {
    for (let i = 0; i < count2; i++) {
      if (this.ended > 0) this.ended--;
      else if (this.states.length > 1) this.states.pop();
      else throw new Error("internal: rolled back past the start");
    }
  }
  /** Whether the text may end here. */
  canEnd() {
    return this.frames.some((frame) => frame.finishes());
  }
  /** Whether the text has to end here: it may, and nothing else may follow. */
  get isComplete() {
    return this.ended > 0 || this.frames.every((frame) => frame instanceof EndFrame);
  }
  /** The bytes that have to come next, as far as there is no choice. */
  forced() {
    const out = [];
    let frames = this.frames;
    while (out.length < maxForced && !frames.some((frame) => frame.finishes())) {
      const only2 = onlyByte(frames);
      if (!only2) break;
      out.push(only2.byte);
      frames = only2.frames;
    }
    return Uint8Array.from(out);
  }
  get frames() {
    return this.states.at(-1);
  }
};
function onlyByte(frames) {
  let found;
  for (let byte = 0; byte < 256; byte++) {
    const next2 = advance(frames, byte);
    if (next2.length === 0) continue;
    if (found) return void 0;
    found = { byte, frames: next2 };
  }
  return found;
}

// bench/grammar.ts
var [which = "cl100k", count = "300", only = ""] = process.argv.slice(2);
async function main() {
  const { tokens, cut } = await tokenizer();
  const before = memory();
  const began = performance.now();
  const vocabulary = new Vocabulary([...tokens, new Uint8Array()], [tokens.length]);
  const built = performance.now() - began;
  console.log(`${cpus()[0].model}; ${which}: ${tokens.length} tokens`);
  console.log(
    `vocabulary: ${built.toFixed(0)} ms, ${((memory() - before) / 2 ** 20).toFixed(0)} MiB`
  );
  const compiles = [];
  const cold = [];
  const warm = [];
  const moves = [];
  let forced = 0;
  let bytes = 0;
  for (const [name, schema] of schemas().filter(([each]) => each.includes(only))) {
    const grammar = timed(compiles, name, () => new Grammar(compileSchema(schema).part));
    const document = cut(documentOf(schema, name));
    bytes += document.bytes;
    for (const times2 of [cold, warm]) {
      const isCut = document.bytes >= 1500;
      const matcher = grammar.matcher(vocabulary);
      const mask = new Uint32Array(vocabulary.words);
      for (const [i, token] of [...document.ids, ...isCut ? [] : [tokens.length]].entries()) {
        timed(
          times2,
          `${name}, token ${i} ${JSON.stringify(text2(tokens[token]))}`,
          () => matcher.mask(mask)
        );
        if (times2 === warm && isSingle(mask)) forced++;
        timed(moves, name, () => expectTaken(matcher, token, name));
      }
    }
  }
  console.log(`${compiles.length} schemas, ${cold.length} masks over ${bytes} bytes`);
  print("compile", compiles);
  print("mask, first visits", cold);
  print("mask, again", warm);
  print("token taken", moves);
  console.log(`forced: ${(forced / warm.length * 100).toFixed(1)} % of masks hold one token`);
  console.log("slowest first visits:");
  for (const { name, ms } of cold.sort((a, b) => b.ms - a.ms).slice(0, 12)) {
    console.log(`  ${ms.toFixed(2)} ms  ${name}`);
  }
  console.log("slowest compiles:");
  for (const { name, ms } of compiles.sort((a, b) => b.ms - a.ms).slice(0, 8)) {
    console.log(`  ${ms.toFixed(1)} ms  ${name}`);
  }
}
function timed(times2, name, run) {
  const began = process.cpuUsage();
  const result = run();
  const { user, system } = process.cpuUsage(began);
  times2.push({ name, ms: (user + system) / 1e3 });
  return result;
}
function print(what, times2) {
  const sorted = times2.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  const mean = sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length;
  const show = (ms) => ms < 0.1 ? `${(ms * 1e3).toFixed(1)} \xB5s` : `${ms.toFixed(2)} ms`;
  console.log(
    `${what.padEnd(20)} median ${show(at(0.5))}, mean ${show(mean)}, p90 ${show(at(0.9))}, p99 ${show(at(0.99))}, p99.9 ${show(at(0.999))}, most ${show(at(1))}`
  );
}
function expectTaken(matcher, token, name) {
  if (!matcher.accept(token)) throw new Error(`a token of its own document is refused: ${name}`);
}
function isSingle(mask) {
  const words = mask.filter((word) => word !== 0);
  return words.length === 1 && (words[0] & words[0] - 1) === 0;
}
function memory() {
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
function text2(bytes) {
  return Buffer.from(bytes ?? []).toString();
}
async function tokenizer() {
  const { default: ranks } = await import(`gpt-tokenizer/bpeRanks/${which}_base`);
  const { encode } = await import(`gpt-tokenizer/encoding/${which}_base`);
  const tokens = Array.from(
    ranks,
    (rank) => Uint8Array.from(typeof rank === "string" ? Buffer.from(rank) : rank)
  );
  const cut = (document) => ({
    ids: encode(document, { allowedSpecial: /* @__PURE__ */ new Set() }),
    bytes: Buffer.byteLength(document)
  });
  return { tokens, cut };
}
function schemas() {
  const file = new URL("../test/golden/schemas/documents.json", import.meta.url);
  const all = Object.entries(JSON.parse(readFileSync(file, "utf8")));
  const words = Array.from({ length: 1e3 }, (_, i) => `${WORDS[i % WORDS.length]} number ${i}`);
  const properties2 = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [`${WORDS[i % WORDS.length]}_${i}`, { type: "integer" }])
  );
  const required = Object.keys(properties2).slice(0, 20);
  all.push(["an enum of 1,000", { enum: words }]);
  all.push(["maxLength 100,000", { type: "string", minLength: 500, maxLength: 1e5 }]);
  all.push([
    "200 properties",
    { type: "object", properties: properties2, required, additionalProperties: false }
  ]);
  all.push(["200 open properties", { type: "object", properties: properties2, required }]);
  for (let seed = 1; all.length < Number(count); seed++) {
    all.push([`drawn ${seed}`, new Drawing(seed).parameters()]);
  }
  return all.slice(0, Number(count));
}
var plainBytes = new Vocabulary(
  [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [256]
);
function documentOf(schema, name) {
  const drawing = new Drawing(name.length * 31 + name.charCodeAt(name.length - 1));
  const matcher = new Grammar(compileSchema(schema).part).matcher(plainBytes);
  const text3 = JSON.stringify(schema);
  const names = [...new Set(text3.match(/"[^"\\]+(?=":)/g) ?? [])].map((each) => each.slice(1));
  const lists = text3.match(/"required":\[[^\]]*\]/g)?.join() ?? "";
  const required = names.filter((each) => lists.includes(`"${each}"`));
  const letters = Array.from("etaoinshrdlucmfwypvbgkjqxz0123456789ABCDEFT-./:@ ");
  const marks = Array.from('",:{[0123456789-ntfe}]');
  const others = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  const take = (piece) => matcher.acceptBytes(Buffer.from(piece, "latin1")) && piece;
  const first2 = (pieces) => {
    const from = drawing.next() * pieces.length;
    for (let i = 0; i < pieces.length; i++) {
      const taken = take(pieces[Math.floor(from + i) % pieces.length]);
      if (taken) return taken;
    }
    return false;
  };
  let out = "";
  while (out.length < 1500) {
    const late = out.length > 500;
    if (matcher.canEnd() && drawing.chance(late ? 1 : 0.3)) return decoded(out);
    const isText = fits(matcher, "~");
    const closers = isText ? ['"'] : out.endsWith('"') ? [] : ["}", "]", '"'];
    const close = drawing.chance(late ? 0.9 : isText ? 0.08 : 0.3) && first2(closers);
    const named2 = close || !isText && out.endsWith('"') && drawing.chance(0.7) && first2(required.map(member)) || !isText && out.endsWith('"') && drawing.chance(0.9) && first2(names.map(member));
    const piece = named2 || isText && first2(letters) || first2(marks) || first2(letters);
    out += piece || first2(others) || "";
  }
  return decoded(out);
}
function member(name) {
  return `${Buffer.from(name).toString("latin1")}":`;
}
function decoded(bytes) {
  return Buffer.from(bytes, "latin1").toString();
}
function fits(matcher, piece) {
  const taken = matcher.acceptBytes(Buffer.from(piece));
  if (taken) matcher.rollback(1);
  return taken;
}
var WORDS = "id name title description query location city country date start end limit offset page sort order filter status type kind value amount price currency user email phone address message body subject tags labels metadata source target path url file format language model temperature count total width height color size weight priority score reason notes category parent children items options settings enabled visible role team project account".split(
  " "
);
var Drawing = class {
  state;
  constructor(seed) {
    this.state = seed * 7919;
  }
  parameters() {
    const schema = this.object(2);
    return this.chance(0.2) ? { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema } : schema;
  }
  object(depth) {
    const names = Array.from({ length: 1 + this.below(depth === 2 ? 9 : 5) }, () => this.name());
    const properties2 = Object.fromEntries(names.map((name) => [name, this.value(depth)]));
    const required = Object.keys(properties2).filter(() => this.chance(0.5));
    return {
      type: "object",
      properties: properties2,
      ...required.length > 0 && { required },
      ...this.chance(0.6) && { additionalProperties: false }
    };
  }
  value(depth) {
    const described = this.chance(0.7) && {
      description: `The ${this.name()} of the ${this.name()}`
    };
    return { ...this.plain(depth), ...described };
  }
  plain(depth) {
    const word = () => this.name();
    const kinds = [
      () => ({ type: "string" }),
      () => ({ type: "string" }),
      () => ({ type: "string", minLength: 1, maxLength: 10 * (1 + this.below(20)) }),
      () => ({ type: "string", enum: Array.from({ length: 2 + this.below(8) }, word) }),
      () => ({ type: "integer" }),
      () => ({ type: "integer", minimum: this.below(2), maximum: 10 ** (1 + this.below(4)) }),
      () => ({ type: "number", minimum: 0, maximum: 1 }),
      () => ({ type: "number" }),
      () => ({ type: "boolean", default: false }),
      () => ({ type: "string", format: this.pick(["date", "date-time", "email", "uri", "uuid"]) }),
      () => ({ type: "string", pattern: this.pick(PATTERNS) }),
      () => ({ type: ["string", "null"] }),
      () => ({ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] }),
      () => ({ const: this.name() })
    ];
    const deeper2 = [
      () => this.object(depth - 1),
      () => this.object(depth - 1),
      () => ({ type: "array", items: this.value(depth - 1) }),
      () => ({ type: "array", items: this.value(depth - 1), minItems: 1, maxItems: 5 }),
      () => ({ type: "array", items: { type: "string" }, uniqueItems: true }),
      () => ({ anyOf: [this.object(depth - 1), { type: "null" }] }),
      () => ({ type: "object", additionalProperties: { type: "string" } }),
      () => ({
        oneOf: ["create", "update", "delete"].map((kind) => ({
          type: "object",
          properties: { kind: { const: kind }, [this.name()]: this.value(0) },
          required: ["kind"]
        }))
      })
    ];
    return this.pick(depth > 0 && this.chance(0.4) ? deeper2 : kinds)();
  }
  name() {
    const word = this.pick(WORDS);
    return this.chance(0.5) ? word : `${word}_${this.pick(WORDS)}`;
  }
  pick(list2) {
    return list2[this.below(list2.length)];
  }
  chance(part) {
    return this.next() < part;
  }
  below(n) {
    return Math.floor(this.next() * n);
  }
  next() {
    this.state = this.state + 1831565813 | 0;
    let t = Math.imul(this.state ^ this.state >>> 15, 1 | this.state);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  }
};
var PATTERNS = [
  "^[A-Z]{2,3}-\\d{3,6}$",
  "^\\+?[1-9]\\d{6,14}$",
  "^#[0-9a-f]{6}$",
  "^[a-z0-9]+(-[a-z0-9]+)*$",
  "\\S",
  "^(https?|ftp)://[^\\s/$.?#].[^\\s]*$",
  "^\\d{4}-\\d{2}-\\d{2}$",
  "^[A-Za-z0-9+/]*={0,2}$"
];
await main();
