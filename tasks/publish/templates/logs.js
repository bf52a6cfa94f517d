// ---- logs of any size: read piece by piece; only lines that came near the view are in the document
const BLOCK = 400; // lines that are drawn together
const LINE = 24; // pixels of a line that is not wrapped
const LONG = 4000; // characters of a line that are shown
const HITS = 500; // lines of a search that are listed
const KEPT = 24; // pieces of all logs that are held
const AHEAD = 4; // pieces that a search asks for before it needs them
const loading = new Map(), loaded = new Map(), letters = new Map();
window.maxviewLog = (name, number, text) => loaded.set(`${name}-${number}`, text);
window.maxviewLetters = (name, filters) => letters.set(name, filters.map(atob));

// The text of a piece; keeps the most recent pieces.
const textOf = (name, index) => {
  const key = `${name}-${index + 1}`;
  const text = loading.get(key) || load(`logs/${key}.js`).then(() => {
    const text = loaded.get(key);
    loaded.delete(key);
    return text;
  }, (error) => { loading.delete(key); throw error; });
  loading.delete(key);
  if (loading.size >= KEPT) loading.delete(loading.keys().next().value);
  return loading.set(key, text).get(key);
};
const linesOf = async (name, index) => (await textOf(name, index)).split("\n");
const lettersOf = async ({ name, pieces }) => {
  if (pieces.length > 1 && !letters.has(name)) await load(`logs/${name}-letters.js`).catch(() => letters.set(name, []));
};
// Whether a piece may hold a word, by the filter of its lines; see `SearchFilter` in logview.py.
const mayHold = (filter, word) => !filter || [...word].every((_, i) => {
  const [first, second = 128, third = 128] = [...word.replace(/[1-9]/g, "0")].slice(i, i + 3).map((one) => one.codePointAt(0));
  const place = (first << 10 ^ second << 5 ^ third) % 32768;
  return Math.max(first, second, third) > 127 || filter.charCodeAt(place >> 3) >> (place & 7) & 1;
});

const levelOf = (text) =>
  /(^|\s)(E|F)\d{4} |\b(ERROR|CRITICAL|FATAL)\b|^\w*(Error|Exception)\b/.test(text) ? "l-error" :
  /(^|\s)W\d{4} |\bWARN(ING)?\b/.test(text) ? "l-warning" : "";
const shorten = (text) => text.length <= LONG ? text : `${text.slice(0, LONG)} … [${text.length - LONG} characters left out]`;
let word = ""; // the search, which is marked in every text that is shown
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
    // lines are drawn after the frame that shows the hits above them
    box.addEventListener("toggle", () => { if (box.open) requestAnimationFrame(() => setTimeout(() => this.open())); });
    box.querySelector("[data-values]").addEventListener("click", () => this.listValues());
  }

  open() {
    if (this.blocks.length) return;
    const seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) this.fill(target);
    }, { root: this.pane, rootMargin: "1200px" });
    for (const [piece, [first, count]] of this.pieces.entries()) for (let at = 0; at < count; at += BLOCK) {
      const block = Object.assign(make("div"), { piece, at, from: first + at, to: first + Math.min(at + BLOCK, count) - 1 });
      block.style.height = `${(block.to - block.from + 1) * LINE}px`;
      this.blocks.push(block);
    }
    this.pane.replaceChildren(...this.blocks);
    for (const block of this.blocks) seen.observe(block);
  }

  fill(block) {
    return block.filled ??= linesOf(this.name, block.piece).then((lines) => {
      block.replaceChildren(...this.draw(block, lines.slice(block.at)));
      block.style.height = "";
    }, (error) => { block.textContent = error.message; });
  }

  // The lines of a block; a traceback is folded under its exception.
  draw({ from, to }, lines) {
    const drawn = [];
    for (let number = from, box = null; number <= to; number += 1) {
      const fold = this.folds.find(([first, last]) => first <= number && number <= last);
      if (fold && (number === fold[0] || !box)) {
        drawn.push(box = make("details"));
        box.append(make("summary", "", `${fold[2]} (traceback of ${fold[1] - fold[0] + 1} lines)`));
      }
      const line = this.line(number, lines[number - from]);
      if (fold) box.append(line); else drawn.push(line);
    }
    return drawn;
  }

  line(number, text) {
    const line = make("div", "line"), told = this.values[number], id = `${this.name}-L${number}`;
    line.id = id;
    line.append(link(number, `#${id}`, `line ${number}`, { className: "no", title: "" }), mark(make("code", levelOf(text)), shorten(text)));
    if (told) {
      line.classList.add("ref");
      line.append(make("span", "values", told));
    }
    return line;
  }

  // Show a line in the middle of the pane.
  async goTo(number) {
    reveal(this.box);
    this.open();
    const line = await this.drawn(number);
    reveal(line);
    await this.scrollTo(line, this.pane.clientHeight / 2);
    this.pane.querySelector(".here")?.classList.remove("here");
    line?.classList.add("here");
    this.pane.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  // The element of a line, in a block that is filled.
  async drawn(number) {
    const block = this.blocks.find(({ from, to }) => from <= number && number <= to);
    if (block) await this.fill(block);
    return byId(`${this.name}-L${number}`);
  }

  // Bring a line to a height in the pane.
  async scrollTo(line, height) {
    for (let tries = 0; line && tries < 3; tries += 1) { // blocks above may still get their true height
      const off = line.getBoundingClientRect().top - this.pane.getBoundingClientRect().top - height;
      if (Math.abs(off) < 2) break;
      this.pane.scrollTop += off;
      await new Promise(requestAnimationFrame);
    }
  }

  // The number of the line at the top of the pane.
  top() {
    const edge = this.pane.getBoundingClientRect().top + 1, isBelow = (item) => item.getBoundingClientRect().bottom > edge;
    const block = this.blocks.find(isBelow);
    if (!block) return this.first;
    const line = all(".line", block).find(isBelow);
    return line ? Number(line.id.split("-L").pop()) : block.from + Math.max(0, Math.floor((edge - block.getBoundingClientRect().top) / LINE));
  }

  list(found) {
    this.box.querySelector("[data-hits]").replaceChildren(...found.map(([number, text]) => {
      const hit = link("", `#${this.name}-L${number}`, "");
      hit.append(make("span", "no", number), mark(make("span", levelOf(text)), shorten(text)));
      return hit;
    }));
  }

  async listValues() {
    const found = [];
    for (const [number, told] of Object.entries(this.values)) {
      const index = this.pieces.findLastIndex(([first]) => first <= number), lines = await linesOf(this.name, index);
      found.push([number, `${told}: ${lines[number - this.pieces[index][0]]}`]);
    }
    this.list(found);
  }
}
const logs = all("details.log").map((box) => new Log(box));

// ---- a link to a line of a log
const showLine = () => {
  const [, name, number] = /^#(.+)-L(\d+)$/.exec(decodeURIComponent(location.hash)) ?? [];
  logs.find((log) => log.name === name)?.goTo(Number(number));
};
const goToLine = (anchor) => { if (location.hash === `#${anchor}`) showLine(); else location.hash = anchor; };
addEventListener("hashchange", showLine);
document.addEventListener("click", (event) => { // the same line again
  if (event.target.closest?.("a[href^='#']")?.getAttribute("href") === location.hash) showLine();
});

// ---- search: every piece of every log, with its progress
const find = byId("find"), count = byId("count"), level = byId("level");
let search = 0, hitLines = [], hitAt = -1;
const goToHit = (by) => {
  if (!hitLines.length) return;
  hitAt = hitAt < 0 && by < 0 ? hitLines.length - 1 : (hitAt + by + hitLines.length) % hitLines.length;
  goToLine(hitLines[hitAt]);
  byId("at-hit").textContent = `${hitAt + 1} of ${hitLines.length}`;
};
// The places of the lines that hold the word; a text without it is never split.
const placesOf = (text, wanted) => {
  const low = text.toLowerCase();
  return low.includes(wanted) ? low.split("\n").flatMap((line, place) => line.includes(wanted) ? place : []) : [];
};
const searchLogs = async () => {
  const mine = search += 1, levels = [level.value, "l-error"], show = (number) => number.toLocaleString("en");
  word = find.value.trim().toLowerCase();
  [hitLines, hitAt] = [[], -1];
  for (const log of logs) {
    log.list([]);
    for (const code of all(".line code", log.pane)) mark(code, code.textContent);
  }
  byId("hit-tools").hidden = !word && !level.value;
  byId("at-hit").textContent = count.textContent = "";
  if (!word && !level.value) return;
  const total = logs.reduce((sum, log) => sum + log.lines, 0), found = new Map(logs.map((log) => [log, []]));
  await Promise.all(logs.map(lettersOf));
  if (mine !== search) return;
  const pieces = logs.flatMap((log) => log.pieces.map(([first, lines], index) => ({ log, index, first, lines })));
  const todo = pieces.filter(({ log, index }) => mayHold(letters.get(log.name)?.[index], word));
  todo.sort((one, other) => one.index - other.index); // all logs at once, each from its beginning
  let read = total - todo.reduce((sum, { lines }) => sum + lines, 0), hits = 0; // a piece that cannot hold it counts as read
  for (const [place, { log, index, first, lines }] of todo.entries()) {
    for (const next of todo.slice(place + 1, place + AHEAD)) textOf(next.log.name, next.index).catch(() => {});
    let text;
    try { text = await textOf(log.name, index); } catch (error) { count.textContent = error.message; return; }
    if (mine !== search) return;
    const own = found.get(log), before = own.length, inside = placesOf(text, word), texts = inside.length ? text.split("\n") : [];
    const places = inside.filter((line) => !level.value || levels.includes(levelOf(texts[line])));
    hits += places.length;
    read += lines;
    if (places.length && before < HITS) {
      own.push(...places.slice(0, HITS - before).map((line) => [first + line, texts[line]]));
      log.list(own);
      log.box.open = true;
      await new Promise((shown) => { requestAnimationFrame(shown); setTimeout(shown, 50); }); // the reader sees them at once
      if (mine !== search) return;
      hitLines = logs.flatMap((one) => found.get(one).map(([number]) => `${one.name}-L${number}`));
    }
    count.textContent = `${show(hits)} lines found, ${show(read)} of ${show(total)} read`;
  }
  count.textContent = `${show(hits)} of ${show(total)} lines${hits > HITS ? `; the first ${HITS} of each log are listed` : ""}`;
};
if (find) {
  let timer = 0;
  find.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(searchLogs, 200); });
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") goToHit(event.shiftKey ? -1 : 1); });
  level.addEventListener("input", searchLogs);
  for (const button of all("[data-hit]")) button.addEventListener("click", () => goToHit(Number(button.dataset.hit)));
  if (find.value || level.value) searchLogs();
}

// ---- side by side: the first log of each side; a log follows the step to which the other is scrolled
const beside = byId("beside"), panes = byId("panes"), SIDES = ["baseline", "candidate"];
const followEachOther = async () => {
  const pair = SIDES.map((side) => logs.find((log) => log.name === side)), traces = DATA.figures.length ? await curve(0).catch(() => []) : [];
  const steps = new Map(SIDES.map((side) => { // the (step, line) pairs of each log
    const { steps = [], lines = [] } = traces.find((item) => item.side === side) ?? {};
    return [side, steps.map((step, i) => [step, lines[i]]).filter(([, line]) => line).sort((one, other) => one[1] - other[1])];
  }));
  for (const log of pair) { log.box.open = true; log.open(); }
  let leader = null, isAsked = false;
  const follow = async () => {
    isAsked = false;
    const other = pair.find((log) => log !== leader), top = leader.top(), places = steps.get(other.name);
    const own = steps.get(leader.name).findLast(([, line]) => line <= top), at = own ? places.findLastIndex(([step]) => step <= own[0]) : -1;
    const rest = top - (own?.[1] ?? leader.first), end = places[at + 1]?.[1] - 1 || other.first + other.lines - 1; // lines after the step's own
    byId("at-step").textContent = own ? `step ${own[0].toLocaleString("en")}` : "before the first step";
    await other.scrollTo(await other.drawn(Math.min((places[at]?.[1] ?? other.first) + rest, end)), 0);
  };
  for (const log of pair) {
    for (const kind of ["pointerenter", "pointerdown", "wheel", "touchstart", "keydown", "focusin"]) log.pane.addEventListener(kind, () => { leader = log; }, { passive: true });
    log.pane.addEventListener("scroll", () => {
      if (leader !== log || isAsked || !panes.classList.contains("beside")) return;
      isAsked = true;
      requestAnimationFrame(follow);
    });
  }
};
let following = null;
beside?.addEventListener("click", () => {
  const on = panes.classList.toggle("beside");
  beside.setAttribute("aria-pressed", on);
  remember("beside", on ? "1" : "");
  following ??= followEachOther();
});
if (params.get("beside")) beside?.click();
showLine();
