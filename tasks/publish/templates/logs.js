// ---- logs: read piece by piece, of any size; only the lines that are near are in the document
const BLOCK = 400; // lines that are shown or not shown together
const LINE = 24; // pixels of a line that is not wrapped
const LONG = 4000; // characters of a line that are shown
const HITS = 500; // lines of a search that are listed
const FIRST = 30; // of them, that are shown before the others: what fits into their window
const KEPT = 24; // pieces of all logs that are held
const AHEAD = 4; // pieces that a search asks for before it needs them
const loading = new Map(), loaded = new Map();

window.maxviewLog = (name, number, text) => loaded.set(`${name}-${number}`, text);

// The text of a piece; those that were wanted last are held.
const textOf = (name, index) => {
  const key = `${name}-${index + 1}`;
  const known = loading.get(key) || load(`logs/${key}.js`).then(() => {
    const text = loaded.get(key);
    loaded.delete(key);
    return text;
  }, (error) => { loading.delete(key); throw error; });
  loading.delete(key);
  if (loading.size >= KEPT) loading.delete(loading.keys().next().value);
  loading.set(key, known);
  return known;
};
// Whether a piece may hold a word, by the filter that was made of its lines; see word_filter.py.
const letters = new Map();
window.maxviewLetters = (name, filters) => letters.set(name, filters.map(atob));
const lettersOf = async (log) => {
  if (log.pieces.length > 1 && !letters.has(log.name)) await load(`logs/${log.name}-letters.js`).catch(() => letters.set(log.name, []));
};
const mayHold = (filter, word) => {
  const codes = [...word.replace(/[1-9]/g, "0")].map((one) => one.codePointAt(0));
  return !filter || codes.every((code, i) => {
    const three = codes.slice(i, i + 3);
    if (three.length < 3 || three.some((one) => one > 127)) return true;
    const place = (three[0] << 10 ^ three[1] << 5 ^ three[2]) % 32768;
    return filter.charCodeAt(place >> 3) >> (place & 7) & 1;
  });
};
const linesOf = async (name, index) => (await textOf(name, index)).split("\n");

const levelOf = (text) =>
  /(^|\s)(E|F)\d{4} |\b(ERROR|CRITICAL|FATAL)\b|^\w*(Error|Exception)\b/.test(text) ? "l-error" :
  /(^|\s)W\d{4} |\bWARN(ING)?\b/.test(text) ? "l-warning" : "";

const shorten = (text) => text.length <= LONG ? text : `${text.slice(0, LONG)} … [${text.length - LONG} characters left out]`;

let word = ""; // what is sought, and marked wherever it is shown
const mark = (code, text) => {
  const low = text.toLowerCase(), parts = [];
  let from = 0;
  for (let at = word ? low.indexOf(word) : -1; at >= 0; at = low.indexOf(word, from)) {
    parts.push(text.slice(from, at), make("mark", "", text.slice(at, at + word.length)));
    from = at + word.length;
  }
  code.replaceChildren(...parts, text.slice(from));
  return code;
};

class Log {
  constructor(box) {
    this.box = box;
    this.name = box.dataset.log;
    Object.assign(this, DATA.logs[this.name]);
    this.pane = box.querySelector(".lines");
    this.first = this.pieces[0][0];
    this.blocks = [];
    this.here = null;
    // its lines are drawn behind the frame that shows what a search has found above them
    box.addEventListener("toggle", () => { if (box.open) requestAnimationFrame(() => setTimeout(() => this.open())); });
    box.querySelector("[data-values]").addEventListener("click", () => this.listValues());
  }

  open() {
    if (this.blocks.length) return;
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.isIntersecting ? this.fill(entry.target) : this.empty(entry.target);
    }, { root: this.pane, rootMargin: "1200px" });
    for (const [index, [first, count]] of this.pieces.entries()) {
      for (let at = 0; at < count; at += BLOCK) {
        const block = make("div");
        Object.assign(block, { piece: index, at, from: first + at, to: first + Math.min(at + BLOCK, count) - 1 });
        block.style.height = `${(block.to - block.from + 1) * LINE}px`;
        this.blocks.push(block);
      }
    }
    this.pane.replaceChildren(...this.blocks);
    for (const block of this.blocks) this.seen.observe(block);
  }

  async fill(block) {
    if (block.wanted) return;
    block.wanted = true;
    let lines;
    try { lines = await linesOf(this.name, block.piece); } catch (error) {
      block.textContent = `${error.message} is not where this page looks for it: keep the page in its folder.`;
      return;
    }
    if (!block.wanted) return;
    block.replaceChildren(...this.draw(block, lines));
    block.style.height = "";
  }

  empty(block) {
    if (!block.wanted || (block.from <= this.here && this.here <= block.to)) return; // what was asked for stays
    if (block.firstChild) block.style.height = `${block.getBoundingClientRect().height || (block.to - block.from + 1) * LINE}px`;
    block.wanted = false;
    block.replaceChildren();
  }

  draw(block, lines) {
    const drawn = [];
    let fold = null, box = null;
    for (let number = block.from; number <= block.to; number += 1) {
      if (!fold) {
        fold = this.folds.find(([first, last]) => first <= number && number <= last) || null;
        if (fold) {
          box = make("details");
          box.append(make("summary", "", `${fold[2]} (traceback of ${fold[1] - fold[0] + 1} lines)`));
          box.open = this.here >= fold[0] && this.here <= fold[1];
          drawn.push(box);
        }
      }
      (fold ? box : { append: (line) => drawn.push(line) }).append(this.line(number, lines[number - block.from + block.at]));
      if (fold && number === fold[1]) fold = null;
    }
    return drawn;
  }

  line(number, text) {
    const line = make("div", "line"), told = this.values[number];
    line.id = `${this.name}-L${number}`;
    if (told) line.classList.add("ref");
    if (number === this.here) line.classList.add("here");
    const link = make("a", "no", String(number));
    link.href = `#${line.id}`;
    link.setAttribute("aria-label", `line ${number}`);
    line.append(link, mark(make("code", levelOf(text)), shorten(text)));
    if (told) line.append(make("span", "values", told));
    return line;
  }

  // Show a line in the middle of the pane.
  async goTo(number) {
    reveal(this.box);
    this.open();
    const block = this.blockOf(number);
    if (!block) return;
    const before = this.here;
    this.here = number;
    document.getElementById(`${this.name}-L${before}`)?.classList.remove("here");
    block.wanted = false;
    await this.scrollTo(number, this.pane.clientHeight / 2);
    document.getElementById(`${this.name}-L${number}`)?.classList.add("here");
    this.pane.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  blockOf(number) { return this.blocks.find((item) => item.from <= number && number <= item.to); }

  // Bring a line to a height in the pane.
  async scrollTo(number, height) {
    const block = this.blockOf(number);
    if (!block) return;
    await this.fill(block);
    for (let tries = 0; tries < 3; tries += 1) { // what stands above may yet get its true height
      const line = document.getElementById(`${this.name}-L${number}`);
      if (!line) break;
      const off = line.getBoundingClientRect().top - this.pane.getBoundingClientRect().top - height;
      if (Math.abs(off) < 2) break;
      this.pane.scrollTop += off;
      await new Promise(requestAnimationFrame);
    }
  }

  // The number of the line at the top of the pane.
  top() {
    const edge = this.pane.getBoundingClientRect().top;
    const block = this.blocks.find((item) => item.getBoundingClientRect().bottom > edge + 1);
    if (!block) return this.first;
    const place = block.getBoundingClientRect();
    const line = [...block.querySelectorAll(".line")].find((item) => item.getBoundingClientRect().bottom > edge + 1);
    return line ? Number(line.id.split("-L").pop()) : block.from + Math.max(0, Math.floor((edge - place.top) / LINE));
  }

  list(found) {
    const place = this.box.querySelector("[data-hits]");
    place.replaceChildren(...found.map(([number, text]) => {
      const link = make("a");
      link.href = `#${this.name}-L${number}`;
      link.append(make("span", "no", String(number)), mark(make("span", levelOf(text)), shorten(text)));
      return link;
    }));
  }

  async listValues() {
    const found = [];
    for (const number of Object.keys(this.values).map(Number).sort((a, b) => a - b)) {
      const index = this.pieces.findIndex(([first, count]) => first <= number && number < first + count);
      const lines = await linesOf(this.name, index);
      found.push([number, `${this.values[number]}: ${lines[number - this.pieces[index][0]]}`]);
    }
    this.list(found);
  }
}

const logs = [...document.querySelectorAll("details.log")].map((box) => new Log(box));

// ---- a line of a log, wherever it was asked for
const showLine = () => {
  const found = /^#(.+)-L(\d+)$/.exec(decodeURIComponent(location.hash));
  const log = found && logs.find((item) => item.name === found[1]);
  if (log) log.goTo(Number(found[2]));
};
addEventListener("hashchange", showLine);
const goToLine = (anchor) => { if (location.hash === `#${anchor}`) showLine(); else location.hash = anchor; };
document.addEventListener("click", (event) => { // the same line again
  const link = event.target.closest?.("a[href^='#']");
  if (link && link.getAttribute("href") === location.hash) showLine();
});

// ---- search: every piece of every log, and it says how far it is
const find = document.getElementById("find"), count = document.getElementById("count"), level = document.getElementById("level");
let search = 0, hitLines = [], hitAt = -1;
const goToHit = (by) => {
  if (!hitLines.length) return;
  hitAt = hitAt < 0 && by < 0 ? hitLines.length - 1 : (hitAt + by + hitLines.length) % hitLines.length;
  goToLine(hitLines[hitAt]);
  document.getElementById("at-hit").textContent = `${hitAt + 1} of ${hitLines.length}`;
};
const fits = (text) => !level.value || [level.value, "l-error"].includes(levelOf(text));
// The places of the lines of a text that hold the word; a text without it is never split.
const placesOf = (text, wanted) => {
  const low = text.toLowerCase(), found = [];
  let line = 0, start = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, start)) {
    for (let end = low.indexOf("\n", start); end >= 0 && end < at; end = low.indexOf("\n", start)) { line += 1; start = end + 1; }
    found.push(line);
    const end = low.indexOf("\n", at);
    if (end < 0) break;
    line += 1;
    start = end + 1;
  }
  return found;
};
const searchLogs = async () => {
  const wanted = find.value.trim().toLowerCase(), mine = search += 1;
  remember("find", find.value.trim());
  remember("level", level.value);
  word = wanted;
  [hitLines, hitAt] = [[], -1];
  for (const log of logs) {
    log.list([]);
    for (const code of log.pane.querySelectorAll(".line code")) mark(code, code.textContent);
  }
  document.getElementById("hit-tools").hidden = !wanted && !level.value;
  document.getElementById("at-hit").textContent = count.textContent = "";
  if (!wanted && !level.value) return;
  const total = logs.reduce((sum, log) => sum + log.lines, 0);
  await Promise.all(logs.map(lettersOf));
  if (mine !== search) return;
  const pieces = logs.flatMap((log) => log.pieces.map(([first, lines], index) => ({ log, index, first, lines })));
  const todo = pieces.filter(({ log, index }) => mayHold(letters.get(log.name)?.[index], wanted));
  todo.sort((one, other) => one.index - other.index); // all logs at once, each from its beginning
  const found = new Map(logs.map((log) => [log, []]));
  let read = total - todo.reduce((sum, { lines }) => sum + lines, 0), hits = 0; // what cannot hold it is as good as read
  for (const [place, { log, index, first, lines }] of todo.entries()) {
    for (const next of todo.slice(place + 1, place + AHEAD)) textOf(next.log.name, next.index).catch(() => {});
    let text;
    try { text = await textOf(log.name, index); } catch (error) { count.textContent = `${error.message} is missing`; return; }
    if (mine !== search) return;
    let places = placesOf(text, wanted);
    const all = places.length ? text.split("\n") : [], own = found.get(log);
    if (level.value) places = places.filter((line) => fits(all[line]));
    hits += places.length;
    read += lines;
    if (places.length && own.length < HITS) {
      const before = own.length;
      own.push(...places.slice(0, HITS - before).map((line) => [first + line, all[line]]));
      log.list(own.slice(0, Math.max(before, FIRST)));
      log.box.open = true;
      await new Promise((shown) => { requestAnimationFrame(shown); setTimeout(shown, 50); }); // the reader sees them at once
      if (mine !== search) return;
      log.list(own);
      hitLines = logs.flatMap((one) => found.get(one).map(([number]) => `${one.name}-L${number}`));
    }
    count.textContent = `${hits.toLocaleString("en")} lines found, ${read.toLocaleString("en")} of ${total.toLocaleString("en")} read`;
  }
  const listed = hits > HITS ? `; the first ${HITS} of each log are listed` : "";
  count.textContent = `${hits.toLocaleString("en")} of ${total.toLocaleString("en")} lines${listed}`;
};

// ---- side by side: the first log of each side, and where one is scrolled to a step, the other is, too
const beside = document.getElementById("beside");
const stepLines = async () => { // of each log the (step, line) pairs in the order of its lines, out of the first curve
  if (!DATA.figures.length) return null;
  if (!known.has(0)) await load("curves/0.js");
  return new Map(["baseline", "candidate"].map((side) => {
    const trace = known.get(0).find((item) => item.side === side);
    const pairs = trace ? trace.steps.map((step, i) => [step, trace.lines[i]]).filter(([, line]) => line) : [];
    return [side, pairs.sort((one, other) => one[1] - other[1])];
  }));
};
const last = (pairs, item, wanted) => { // the last pair whose step or line is not beyond
  let low = -1, high = pairs.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (pairs[middle][item] <= wanted) low = middle; else high = middle - 1; }
  return low < 0 ? null : pairs[low];
};
const showBeside = async () => {
  const pair = ["baseline", "candidate"].map((side) => logs.find((log) => log.name === side));
  const steps = await stepLines().catch(() => null);
  document.getElementById("panes").classList.add("beside");
  beside.setAttribute("aria-pressed", "true");
  remember("beside", "1");
  for (const log of pair) { log.box.open = true; log.open(); }
  let leader = null, asked = false;
  const follow = async () => {
    asked = false;
    const other = pair.find((log) => log !== leader), top = leader.top();
    const own = steps && last(steps.get(leader.name), 1, top);
    const there = own && last(steps.get(other.name), 0, own[0]);
    const rest = own ? top - own[1] : top - leader.first; // lines behind the step's own
    const next = there && steps.get(other.name).find(([, line]) => line > there[1]);
    const wanted = there ? Math.min(there[1] + rest, next ? next[1] - 1 : Infinity) : other.first + rest;
    document.getElementById("at-step").textContent = own ? `step ${own[0].toLocaleString("en")}` : "before the first step";
    await other.scrollTo(Math.min(wanted, other.first + other.lines - 1), 0);
  };
  for (const log of pair) {
    for (const kind of ["pointerenter", "pointerdown", "wheel", "touchstart", "keydown", "focusin"]) log.pane.addEventListener(kind, () => { leader = log; }, { passive: true });
    log.pane.addEventListener("scroll", () => {
      if (leader !== log || asked || !document.getElementById("panes").classList.contains("beside")) return;
      asked = true;
      requestAnimationFrame(follow);
    });
  }
};
if (beside) {
  let ready = null;
  beside.addEventListener("click", () => {
    const on = beside.getAttribute("aria-pressed") !== "true";
    if (on && !ready) { ready = showBeside(); return; }
    document.getElementById("panes").classList.toggle("beside", on);
    beside.setAttribute("aria-pressed", String(on));
    remember("beside", on ? "1" : "");
  });
  if (params.get("beside")) beside.click();
}
if (find) {
  let timer = 0;
  find.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(searchLogs, 200); });
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") goToHit(event.shiftKey ? -1 : 1); });
  level.addEventListener("input", searchLogs);
  for (const button of document.querySelectorAll("[data-hit]")) button.addEventListener("click", () => goToHit(Number(button.dataset.hit)));
  document.getElementById("wrap").addEventListener("change", (event) => {
    for (const log of logs) log.pane.classList.toggle("nowrap", !event.target.checked);
  });
  find.value = params.get("find") ?? "";
  level.value = params.get("level") ?? "";
  if (find.value || level.value) searchLogs();
}
showLine();
