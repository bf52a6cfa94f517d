// ---- logs: read piece by piece, of any size; only the lines that are near are in the document
const BLOCK = 400; // lines that are shown or not shown together
const LONG = 4000; // characters of a line that are shown
const HITS = 500; // lines of a search that are listed
const KEPT = 24; // pieces of a log that are held
const loading = new Map(), loaded = new Map();

window.maxviewLog = (name, number, text) => loaded.set(`${name}-${number}`, text);

const pieceOf = (name, index) => {
  const key = `${name}-${index + 1}`;
  if (!loading.has(key)) {
    if (loading.size >= KEPT) loading.delete(loading.keys().next().value);
    loading.set(key, load(`logs/${key}.js`).then(() => {
      const lines = loaded.get(key).split("\n");
      loaded.delete(key);
      return lines;
    }));
  }
  return loading.get(key);
};

const levelOf = (text) =>
  /(^|\s)(E|F)\d{4} |\b(ERROR|CRITICAL|FATAL)\b|^\w*(Error|Exception)\b/.test(text) ? "l-error" :
  /(^|\s)W\d{4} |\bWARN(ING)?\b/.test(text) ? "l-warning" : "";

const shorten = (text) => text.length <= LONG ? text : `${text.slice(0, LONG)} … [${text.length - LONG} characters left out]`;

class Log {
  constructor(box) {
    this.box = box;
    this.name = box.dataset.log;
    Object.assign(this, DATA.logs[this.name]);
    this.pane = box.querySelector(".lines");
    this.first = this.pieces[0][0];
    this.blocks = [];
    this.here = null;
    box.addEventListener("toggle", () => { if (box.open) this.open(); });
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
        block.style.height = `${(block.to - block.from + 1) * 18}px`;
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
    try { lines = await pieceOf(this.name, block.piece); } catch (error) {
      block.textContent = `${error.message} is not where this page looks for it: keep the page in its folder.`;
      return;
    }
    if (!block.wanted) return;
    block.replaceChildren(...this.draw(block, lines));
    block.style.height = "";
  }

  empty(block) {
    if (!block.wanted || (block.from <= this.here && this.here <= block.to)) return; // what was asked for stays
    if (block.firstChild) block.style.height = `${block.getBoundingClientRect().height || (block.to - block.from + 1) * 18}px`;
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
    line.append(link, make("code", levelOf(text), shorten(text)));
    if (told) line.append(make("span", "values", told));
    return line;
  }

  // Show a line in the middle of the pane.
  async goTo(number) {
    this.box.open = true;
    this.open();
    const block = this.blocks.find((item) => item.from <= number && number <= item.to);
    if (!block) return;
    const before = this.here;
    this.here = number;
    document.getElementById(`${this.name}-L${before}`)?.classList.remove("here");
    block.wanted = false;
    await this.fill(block);
    for (let tries = 0; tries < 3; tries += 1) { // what stands above may yet get its true height
      const line = document.getElementById(`${this.name}-L${number}`);
      if (!line) break;
      line.classList.add("here");
      const within = line.getBoundingClientRect().top - this.pane.getBoundingClientRect().top;
      this.pane.scrollTop += within - this.pane.clientHeight / 2;
      await new Promise(requestAnimationFrame);
    }
    this.pane.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  list(found) {
    const place = this.box.querySelector("[data-hits]");
    place.replaceChildren(...found.map(([number, text]) => {
      const link = make("a");
      link.href = `#${this.name}-L${number}`;
      link.append(make("span", "no", String(number)), make("span", levelOf(text), shorten(text)));
      return link;
    }));
  }

  async listValues() {
    const found = [];
    for (const number of Object.keys(this.values).map(Number).sort((a, b) => a - b)) {
      const index = this.pieces.findIndex(([first, count]) => first <= number && number < first + count);
      const lines = await pieceOf(this.name, index);
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
const find = document.getElementById("find"), count = document.getElementById("count");
let search = 0;
const searchLogs = async () => {
  const wanted = find.value.trim().toLowerCase(), mine = search += 1;
  remember("find", find.value.trim());
  for (const log of logs) log.list([]);
  count.textContent = "";
  if (!wanted) return;
  const total = logs.reduce((sum, log) => sum + log.lines, 0);
  let read = 0, hits = 0;
  for (const log of logs) {
    const found = [];
    let shown = -1;
    for (const [index, [first]] of log.pieces.entries()) {
      let lines;
      try { lines = await pieceOf(log.name, index); } catch (error) { count.textContent = `${error.message} is missing`; return; }
      if (mine !== search) return;
      lines.forEach((text, i) => {
        if (!text.toLowerCase().includes(wanted)) return;
        hits += 1;
        if (found.length < HITS) found.push([first + i, text]);
      });
      read += lines.length;
      if (found.length !== shown) { shown = found.length; log.list(found); if (shown) log.box.open = true; }
      count.textContent = `${hits.toLocaleString("en")} lines found, ${read.toLocaleString("en")} of ${total.toLocaleString("en")} read`;
    }
  }
  const listed = hits > HITS ? `; the first ${HITS} of each log are listed` : "";
  count.textContent = `${hits.toLocaleString("en")} of ${total.toLocaleString("en")} lines${listed}`;
};
if (find) {
  let timer = 0;
  find.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(searchLogs, 200); });
  document.getElementById("wrap").addEventListener("change", (event) => {
    for (const log of logs) log.pane.classList.toggle("nowrap", !event.target.checked);
  });
  if (params.get("find")) { find.value = params.get("find"); searchLogs(); }
}
showLine();
