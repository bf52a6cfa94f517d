// Other pages link to #history and #invariants, because only this page is rewritten when these pages are made.
const entry = document.querySelector(`nav.site a[id="${CSS.escape(location.hash.slice(1))}"]`);
if (entry && !entry.matches("[aria-current]")) location.replace(entry.href);

// Lists and filters all comparisons. The page has the newest; older ones are in segments, which load when they are needed.
const list = byId("list"); // an empty store has none
if (list) {
  const { base, fields, signs } = list.dataset, signOf = JSON.parse(signs), names = fields.split(" ");
  const DATA = JSON.parse(byId("data").textContent);
  const items = [], total = Object.values(DATA.counts).reduce((sum, n) => sum + n, 0);
  const cells = unpack(DATA.matrix, names), cellsOf = all("[data-item]");
  const PAGE = matchMedia("(max-width: 66rem)").matches ? 12 : 40; // a row of a phone is as high as four
  const AT_ONCE = 8, heads = [...list.tHead.rows[0].cells], pattern = list.tBodies[0].rows[0].cloneNode(true);
  let segments = [...DATA.segments], shown = PAGE, order = "", sign = 0, want = {}, found = [], loading = false, broken = false, everyCase = false;

  const textOf = (item) => `${item.case} ${item.comparison} ${item.baseline} ${item.candidate} ${item.id} ${item.headline}`;
  const fits = (item) =>
    (!want.verdict || item.outcome === want.verdict) && (!want.target || item.target === want.target) && item.created >= want.since &&
    holds(textOf(item), want.find);
  const add = (more) => { items.push(...more); found.push(...more.filter(fits)); };
  const line = (item) => {
    const row = pattern.cloneNode(true), [, verdict, , , when, because] = row.cells;
    row.querySelector("a").href = [base, ...[item.comparison, item.case, item.id].map(encodeURIComponent), "index.html"].join("/");
    for (const [i, bdi] of all("bdi", row).entries()) bdi.textContent = [item.case, item.pair, item.target][i];
    const word = make("span", item.died ? "died" : `v v-${item.verdict}`), mark = make("span", "", signOf[item.outcome]);
    mark.setAttribute("aria-hidden", "true");
    word.append(mark, ` ${item.outcome}`);
    verdict.replaceChildren(word);
    when.textContent = item.created.slice(0, 16).replace("T", " ");
    because.textContent = because.title = item.headline;
    row.cells[2].title = item.pair;
    return row;
  };

  // ---- segments
  window.maxviewSegment = ({ comparisons }) => add(unpack(comparisons, names));
  const load = (name) => new Promise((done) => {
    const script = document.createElement("script");
    script.src = name;
    script.addEventListener("load", () => { script.remove(); done(); });
    script.addEventListener("error", () => { broken = true; done(); });
    document.body.append(script);
  });
  const wanted = () => segments.filter(([, , , last]) => last >= want.since);
  const isFiltered = () => want.find || want.verdict || want.target || want.since;
  const loadMore = async () => {
    if (loading) return;
    loading = true;
    while (!broken && wanted().length && (sign || isFiltered() || found.length < shown)) {
      const some = wanted().slice(0, AT_ONCE);
      segments = segments.filter((segment) => !some.includes(segment));
      await Promise.all(some.map(([digest]) => load(`index/${digest}.js`)));
      show();
    }
    loading = false;
    show();
  };
  const show = () => {
    const number = (n) => n.toLocaleString("en"), rest = wanted().reduce((sum, [, n]) => sum + n, 0);
    if (!loading || !sign) found.sort(sign ? (one, other) => sign * compare(one[order], other[order]) : (one, other) => (one.created < other.created) - (one.created > other.created));
    list.tBodies[0].replaceChildren(...found.slice(0, shown).map(line));
    byId("count").textContent = broken ? `only the newest ${number(items.length)} of ${number(total)} comparisons: the older ones are in files that this address does not open; open the store's folder, or: maxview site serve`
      : isFiltered() ? `${number(found.length)} of ${number(total)} comparisons fit${rest ? `, ${number(rest)} to search` : ""}`
      : `the lists below show all ${number(total)} comparisons of all nights`;
    byId("more").hidden = found.length <= shown && (broken || !wanted().length);
    byId("nothing").hidden = found.length > 0 || rest > 0;
  };
  const apply = () => {
    found = items.filter(fits);
    show();
    if (isFiltered() || sign) byId("all").open = true;
    for (const night of all(".night")) night.hidden = (want.target && night.dataset.target !== want.target) || night.dataset.ended < want.since;
    for (const row of all("#nights tbody tr, .changes li")) row.hidden = !holds(row.textContent, `${want.find} ${want.verdict}`);
    for (const cell of cellsOf) cell.classList.toggle("off", !fits(cells[cell.dataset.item]));
    byId("matrix").classList.toggle("every", everyCase || Boolean(isFiltered()));
    loadMore();
  };
  for (const cell of cellsOf) cell.querySelector("a").title = cells[cell.dataset.item].headline;
  items.push(...unpack(DATA.comparisons, names));
  sortBy(heads, (column, up) => { [order, sign] = [heads[column].dataset.sort, up]; apply(); });
  filterBy((values) => { [want, shown] = [values, PAGE]; apply(); });
  if (location.hash === "#compared") byId("all").open = true;
  byId("every")?.addEventListener("click", () => { everyCase = true; apply(); });
  byId("more").addEventListener("click", () => { shown += PAGE; apply(); });
  document.documentElement.dataset.ready = "yes";
}
