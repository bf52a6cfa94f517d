// The parts of the page share its data, and files that are loaded on demand.
const DATA = JSON.parse(byId("data").textContent);
// A page from a file may load scripts only.
const load = (file) => new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = file;
  script.onload = () => { script.remove(); done(); };
  script.onerror = () => { script.remove(); failed(new Error(`${file} is not where this page looks for it: keep the page in its folder.`)); };
  document.head.append(script);
});
const known = new Map(); // number of a curve -> its traces
window.maxviewCurve = (number, traces) => known.set(number, traces);
const curve = async (number) => {
  if (!known.has(number)) await load(`curves/${DATA.figures[number].file}.js`);
  return known.get(number);
};

// ---- the secondary sections are folded, on a phone all but three
const reveal = (element) => { for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
const phone = matchMedia("(max-width: 40rem)").matches;
for (const section of all(phone ? "main > section:not(.front, #why, #metrics, #curves)" : "#evidence, #times, #parity, #floors, #differences, #checkpoints, #sides:not(:has(table)), #curves")) {
  const part = make("details", "part"), head = make("summary");
  head.append(section.querySelector("h2"));
  part.append(head, ...section.childNodes);
  section.append(part);
  part.open = all("[name]", part).some(({ name }) => params.has(name)) || (section.id === "curves" && params.has("x")) || (section.id === "evidence" && part.querySelector("ul") !== null); // choices in the address
}

// ---- rows of one verdict; at first only those that need a look
const calm = byId("calm"), words = all("[data-rows]");
const showRows = (word) => {
  for (const button of words) button.setAttribute("aria-pressed", button.dataset.rows === word);
  const brief = !word && !calm.dataset.all, rows = all("[data-verdict]");
  for (const row of rows) row.hidden = word ? row.dataset.verdict !== word : brief && ["same", "not judged"].includes(row.dataset.verdict);
  for (const group of all("#metrics tr.group")) group.hidden = !group.parentNode.querySelector("[data-verdict]:not([hidden])");
  const left = rows.filter((row) => row.hidden).length;
  rows[0].closest("table").tHead.hidden = left === rows.length;
  Object.assign(calm, { hidden: !brief || !left, textContent: `${left} rows same or not judged ▸` });
  remember("rows", word);
};
for (const button of words) button.addEventListener("click", () => {
  const word = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.rows, table = byId("metrics");
  showRows(word);
  if (word && table.getBoundingClientRect().top > innerHeight - 200) table.scrollIntoView();
});
if (calm) {
  calm.addEventListener("click", () => { calm.dataset.all = "1"; showRows(""); });
  showRows(params.get("rows") ?? "");
}
const revealTarget = () => {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (target?.closest("[hidden]")) calm.click();
  reveal(target?.querySelector(":scope > .part") ?? target);
};
addEventListener("hashchange", revealTarget);
revealTarget();

// ---- differences
const sought = byId("find-difference");
const showDifferences = () => {
  for (const row of all("#differences tbody tr, #differences .equals li")) row.hidden = !row.textContent.toLowerCase().includes(sought.value.trim().toLowerCase());
  if (sought.value) for (const part of all("#differences details")) part.open = true;
};
sought?.addEventListener("input", showDifferences);
if (sought?.value) showDifferences();

// ---- commands; `navigator` has a clipboard over https only
const copied = make("p", "unseen");
copied.setAttribute("role", "status");
document.querySelector(".commands")?.after(copied);
for (const command of all(".commands code")) {
  const button = make("button", "", "copy"), name = command.parentNode.previousElementSibling.textContent;
  button.type = "button";
  button.setAttribute("aria-label", `copy the command: ${name}`);
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(command);
    button.textContent = document.execCommand("copy") ? "copied" : "marked: copy it with Ctrl-C";
    copied.textContent = `${name}: ${button.textContent}`;
  });
  command.after(button);
}

// ---- the cases before and after this one, from a file that all pages of the pair share
const link = (text, href, title, more = {}) => {
  const made = make(href ? "a" : "strong", "", text);
  Object.assign(made, { title, ...(href ? { href } : {}), ...more });
  if (title) made.setAttribute("aria-label", title);
  return made;
};
window.maxviewCases = ({ comparisons, fields, signs, quarantine }) => {
  const results = unpack(comparisons, fields), cases = new Map(); // the newest result of each case
  for (const item of results) if (!cases.has(item.case)) cases.set(item.case, item);
  const own = [...cases.keys()].sort().map((name) => cases.get(name)), at = own.findIndex((item) => item.case === DATA.place[0]);
  if (at < 0) return;
  for (const [item, sign, word, rel] of [[own[at - 1], "‹", "previous", "prev"], [own[at + 1], "›", "next", "next"]]) {
    if (item) byId("neighbours").append(link(sign, `../../${encodeURIComponent(item.case)}/${encodeURIComponent(item.id)}/index.html`, `${word} case: ${item.case}, ${item.outcome}`, { rel }));
  }
  showNights(results.filter((item) => item.case === DATA.place[0]).map(({ id, created, outcome }) => [id, created.slice(0, 10), outcome, signs[outcome]]).reverse());
  const reason = quarantine[DATA.place[0]];
  if (reason) Object.assign(byId("quarantine"), { hidden: false, textContent: `⊘ This case is in quarantine: ${reason}. It runs every night, and counts for nothing until the quarantine ends.` });
};
// This case over time, from the oldest to the newest, and the number of nights since it died.
const showNights = (nights) => {
  const place = byId("nights"), here = nights.findIndex(([id]) => id === DATA.id), pageOf = (at) => `../${encodeURIComponent(nights[at][0])}/index.html`;
  if (here < 0) return;
  if (nights.length < 2) return place.append("is it new? This is the first comparison of the two in this case.");
  place.append("this case over time: ");
  for (const [at, [, day, outcome, sign]] of nights.entries()) {
    const className = `one v v-${outcome.split(" ")[0]}`;
    place.append(link(sign, at === here ? "" : pageOf(at), `${day}: ${outcome}${at === here ? ", this page" : ""}`, { className, ariaCurrent: at === here ? "page" : null }));
  }
  for (const [at, word] of [[here - 1, "‹ the one before"], [here + 1, "the one after ›"]]) if (nights[at]) place.append(" ", link(word, pageOf(at), ""));
  const outcome = nights[here][2];
  let began = here;
  while (began > 0 && nights[began - 1][2] === outcome) began -= 1;
  place.append(` ${outcome} ${began < here ? `since ${nights[began][1]}, ${here - began + 1} times` : here ? `for the first time, before that ${nights[here - 1][2]}` : "at first"}`);
  let first = here;
  while (first > 0 && nights[first - 1][2] === "died") first -= 1;
  for (const since of all(".since")) since.textContent = first < here ? ` It has died since ${nights[first][1]} (${here - first + 1} times).` : ` It is the first death in ${here + 1} comparisons.`;
};
onKeys({ "[": () => document.querySelector("a[rel=prev]")?.click(), "]": () => document.querySelector("a[rel=next]")?.click() });
