// What the parts of the page share: its data, the address, files that are loaded when they are wanted.
const DATA = JSON.parse(document.getElementById("data").textContent);
const params = new URLSearchParams(location.search);
const remember = (name, value) => {
  if (value) params.set(name, value); else params.delete(name);
  const query = params.toString();
  try { history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash); }
  catch (error) { console.info("the address cannot be changed here", error.name); }
};
const make = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
};
// A page from a file may load a script, and nothing else: so all that is loaded later is one.
const load = (file) => new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = file;
  script.onload = () => { script.remove(); done(); };
  script.onerror = () => { script.remove(); failed(new Error(file)); };
  document.head.append(script);
});

const known = new Map(); // the traces of each curve that was loaded
window.maxviewCurve = (number, traces) => known.set(number, traces);

// ---- a phone: what is secondary is folded, until it is wanted
const reveal = (element) => { for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
const phone = matchMedia("(max-width: 40rem)").matches;
if (phone) for (const section of document.querySelectorAll("main > section:not(.front, #why, #metrics, #curves)")) {
  const part = make("details", "part"), head = make("summary");
  head.append(section.querySelector("h2"));
  part.append(head, ...section.childNodes);
  section.append(part);
}

// ---- rows of one verdict; on a phone at first those that a reader has to look at
const calm = document.getElementById("calm"), CALM = ["same", "not judged"];
const showRows = (word) => {
  for (const button of document.querySelectorAll("[data-rows]")) button.setAttribute("aria-pressed", String(button.dataset.rows === word));
  const brief = phone && word === "" && !calm.dataset.all;
  let left = 0;
  for (const row of document.querySelectorAll("[data-verdict]")) {
    row.hidden = word ? row.dataset.verdict !== word : brief && CALM.includes(row.dataset.verdict);
    left += row.hidden;
  }
  for (const group of document.querySelectorAll("#metrics tr.group")) group.hidden = !group.parentNode.querySelector("[data-verdict]:not([hidden])");
  if (calm) Object.assign(calm, { hidden: !brief || !left, textContent: `show ${left} rows that are the same or not judged` });
  remember("rows", word);
};
calm?.addEventListener("click", () => { calm.dataset.all = "1"; showRows(""); });
const table = document.getElementById("metrics");
for (const button of document.querySelectorAll("[data-rows]")) {
  button.addEventListener("click", () => {
    const word = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.rows;
    showRows(word);
    if (word && table.getBoundingClientRect().top > innerHeight - 200) table.scrollIntoView();
  });
}
if (calm) showRows(params.get("rows") ?? "");
const revealTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.hidden) calm.click();
  reveal(target?.querySelector(":scope > .part") ?? target);
};
addEventListener("hashchange", revealTarget);
revealTarget();

// ---- differences
const sought = document.getElementById("find-difference");
const showDifferences = () => {
  const wanted = sought.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("#differences tbody tr, #differences .equals li")) {
    row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
  }
  if (wanted) for (const part of document.querySelectorAll("#differences details")) part.open = true;
  remember("differs", wanted);
};
if (sought) {
  sought.addEventListener("input", showDifferences);
  sought.value = params.get("differs") ?? "";
  if (sought.value) showDifferences();
}

// ---- commands; the clipboard of `navigator` is only there over https
const copied = make("p", "unseen");
copied.setAttribute("role", "status");
document.querySelector(".commands")?.after(copied);
for (const command of document.querySelectorAll(".commands code")) {
  const button = make("button", "", "copy"), name = command.parentNode.previousElementSibling.textContent;
  button.type = "button";
  button.setAttribute("aria-label", `copy the command: ${name}`);
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(command);
    const told = document.execCommand("copy") ? "copied" : "marked: copy it with Ctrl-C";
    button.textContent = told;
    copied.textContent = `${name}: ${told}`;
  });
  command.after(button);
}

// ---- the cases before and after this one, out of a file that all pages of the comparison share
window.maxviewCases = (cases) => {
  const [name, target, baseline, candidate] = DATA.place;
  const own = cases.filter((item) => item.target === target && item.baseline === baseline && item.candidate === candidate);
  const at = own.findIndex((item) => item.case === name);
  const place = document.getElementById("neighbours");
  for (const [step, sign, word] of [[-1, "‹", "previous"], [1, "›", "next"]]) {
    const item = at < 0 ? null : own[at + step];
    if (!item) continue;
    const link = make("a", "", sign);
    link.href = `../../${encodeURIComponent(item.case)}/${encodeURIComponent(item.id)}/index.html`;
    link.title = `${word} case: ${item.case}, ${item.outcome}`;
    link.setAttribute("aria-label", link.title);
    link.rel = step < 0 ? "prev" : "next";
    place.append(link);
  }
  if (at < 0) return;
  showNights(own[at]);
  if (own[at].quarantine) Object.assign(document.getElementById("quarantine"), { hidden: false, textContent: `⊘ This case is in quarantine: ${own[at].quarantine}. It runs every night, and counts for nothing until the quarantine ends.` });
};
// This case over time, from the oldest to the newest, and how long it has been dead.
const showNights = ({ nights }) => {
  const place = document.getElementById("nights"), here = nights.findIndex(([id]) => id === DATA.id);
  if (here < 0 || nights.length < 2) return;
  place.append("this case over time: ");
  nights.forEach(([id, day, outcome, sign], at) => {
    const link = make(at === here ? "strong" : "a", `one v v-${outcome.split(" ")[0]}`, sign);
    link.title = `${day}: ${outcome}${at === here ? ", this page" : ""}`;
    link.setAttribute("aria-label", link.title);
    if (at === here) link.setAttribute("aria-current", "page"); else link.href = `../${encodeURIComponent(id)}/index.html`;
    place.append(link);
  });
  for (const [step, word] of [[-1, "‹ the one before"], [1, "the one after ›"]]) if (nights[here + step]) {
    const link = make("a", "", word);
    link.href = `../${encodeURIComponent(nights[here + step][0])}/index.html`;
    place.append(" ", link);
  }
  let first = here;
  while (first > 0 && nights[first - 1][2] === "died") first -= 1;
  for (const since of document.querySelectorAll(".since")) since.textContent = first < here ? ` It has died since ${nights[first][1]} (${here - first + 1} times).` : ` It is the first death in ${here + 1} comparisons.`;
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const link = { "[": "a[rel=prev]", "]": "a[rel=next]" }[event.key];
  if (link) document.querySelector(link)?.click();
  if (event.key === "/") { event.preventDefault(); document.getElementById("find")?.focus(); }
});
