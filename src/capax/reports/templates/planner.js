"use strict";
// Chooses from a table that Python made (capax/reports/planner.py): nothing of a law is computed here.
const capaxPlanner = (() => {
  // What lies outside the domain in all of some networks.
  const ofAll = (rows) => rows.length ? rows[0].outside.filter((why) => rows.every((row) => row.outside.includes(why))).join("; ") : "";

  // The smallest architectures that hold a target; throws an Error where there is nothing to choose from.
  const plan = (law, { target, sizes, lists, probability, budget_parameters, extrapolate }) => {
    const place = law.probabilities.indexOf(probability);
    const column = (name) => law.columns.indexOf(name);
    const wanted = (row) => Object.entries(sizes).every(([name, value]) => row[column(name)] === value) && Object.entries(lists).every(([name, values]) => !values || values.includes(row[column(name)]));
    const named = (row) => Object.fromEntries(law.columns.map((name, at) => [name, row[at]]));
    const told = (row) => ({ ...row, at_least: row.at_least[place], outside: row.outside.map((at) => law.reasons[at]) });
    const every = law.rows.filter(wanted).map(named).map(told);
    const offered = every.filter((row) => extrapolate || !row.outside.length);
    if (!offered.length) throw new Error(`no architecture of the grid has these sizes${extrapolate ? "" : ` in the law's domain (${ofAll(every) || law.domain})`}`);
    const candidates = offered.filter((row) => !(budget_parameters && row.trainable_parameters > budget_parameters));
    if (!candidates.length) throw new Error(`budget_parameters: at least ${Math.min(...offered.map((row) => row.trainable_parameters))} for the smallest architecture to choose from, got ${budget_parameters}`);
    const smallest = [...Map.groupBy(candidates.filter((row) => row.at_least >= target), (row) => law.axes.slice(0, -1).map((name) => row[name]).join()).values()].map(([first]) => first);
    const places = smallest.length ? smallest : [candidates.reduce((best, row) => (row.at_least > best.at_least ? row : best))];
    const order = (a, b) => a.trainable_parameters - b.trainable_parameters || a.total_parameters - b.total_parameters;
    const beaten = (row) => places.some((one) => order(one, row) && one.trainable_parameters <= row.trainable_parameters && one.total_parameters <= row.total_parameters);
    const gain = (row, axis) => {
      const [next] = offered.filter((one) => one[axis] > row[axis] && law.axes.every((name) => name === axis || one[name] === row[name])).sort((a, b) => a[axis] - b[axis]);
      return next && next.trainable_parameters !== row.trainable_parameters ? (1000 * (next.memorized - row.memorized)) / (next.trainable_parameters - row.trainable_parameters) : null;
    };
    const gains = (row) => Object.fromEntries(Object.entries(law.gains).map(([name, axis]) => [name, gain(row, axis)]));
    const found = places.sort(order).map((row) => ({ ...row, ...gains(row), efficient: !beaten(row) }));
    return { architectures: smallest.length ? found : [], nearest: smallest.length ? null : found[0], candidates };
  };
  return { plan };
})();
if (document.getElementById("plan")) (async ({ packed, element, paint }) => {
  const { planner: law } = await packed;
  const at = (name) => document.getElementById(`plan-${name}`);
  const slid = (name) => JSON.parse(at(name).dataset.values)[Number(at(name).value)];
  const number = (name) => (at(name).value === "" ? null : Number(at(name).value));
  const listed = (name) => {
    const text = at(name).value.trim();
    if (!text || /^\d+( *, *\d+)*$/.test(text)) return [name, text ? text.split(",").map(Number) : null];
    throw new Error(`${name}: integers separated by commas, got '${text}'`);
  };
  const asked = () => {
    if (!(number("target") >= 1)) throw new Error(`${law.items}: at least 1, got ${at("target").value || "none"}`);
    return { target: number("target"), sizes: Object.fromEntries(Object.keys(law.asked).map((name) => [name, slid(name)])), lists: Object.fromEntries(law.axes.map(listed)), probability: slid("probability"), budget_parameters: number("budget_parameters"), extrapolate: Boolean(at("extrapolate")?.checked) };
  };
  const few = (value) => (value === null ? "–" : typeof value === "string" ? value : value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
  const COLUMNS = [...law.shown.map((name) => [name, name]), ["trainable", "trainable_parameters"], ["total", "total_parameters"], ["size", "size"], ["expected", "memorized"], ["at least", "at_least"], ["tokens/par.", "tokens_per_parameter"], ...Object.keys(law.gains).map((name) => [name.replace("gain_of_", "+"), name])];
  const line = (tag, texts, scope) => { const made = element("tr"); made.append(...texts.map((text) => element(tag, text, { class: "number", ...scope }))); return made; };
  const figure = (found, target) => {
    const lines = Map.groupBy(found.candidates, (row) => law.axes.slice(0, -1).filter((name) => new Set(found.candidates.map((one) => one[name])).size > 1).map((name) => `${name} ${row[name]}`).join(", ") || "all");
    const trace = (rows, name, more) => ({ x: rows.map((row) => row.trainable_parameters), y: rows.map((row) => row.at_least), name, mode: "markers", ...more });
    const traces = [...lines].map(([name, rows], group) => {
      const looks = { color: law.looks.colors[group % law.looks.colors.length], symbol: law.looks.symbols[group % law.looks.symbols.length] };
      return trace(rows, name, { mode: "lines+markers", line: { color: looks.color }, marker: { ...looks, size: rows.length > 20 ? 4 : 8 }, text: rows.map((row) => `${law.shown.map((axis) => `${axis} ${row[axis]}`).join(", ")}: at least ${few(row.at_least)}, expected ${few(row.memorized)}`), hoverinfo: "text" });
    });
    traces.push(trace(found.architectures, "holds the target", { hoverinfo: "skip", marker: { size: 18, symbol: "circle-open", color: law.looks.grey, line: { width: 3 } } }));
    traces.push({ x: [...found.candidates].map((row) => row.trainable_parameters).sort((a, b) => a - b), y: found.candidates.map(() => target), name: "target", mode: "lines", line: { dash: "dash", color: law.looks.grey }, hoverinfo: "name" });
    const axis = (text) => ({ type: "log", title: { text }, automargin: true, nticks: 8 });
    paint(at("plot"), traces, { height: 440, margin: { l: 70, r: 20, t: 20, b: 60 }, hovermode: "closest", legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" }, xaxis: axis("trainable parameters"), yaxis: axis(`${law.items} held at least`) });
  };
  const redraw = () => {
    for (const slider of document.querySelectorAll("#plan [data-values]")) { slider.labels[0].querySelector("output").textContent = slid(slider.id.slice(5)); slider.setAttribute("aria-valuetext", slid(slider.id.slice(5))); }
    let [found, words, shown] = [null, "", []];
    try {
      found = capaxPlanner.plan(law, asked());
      shown = found.nearest ? [found.nearest] : found.architectures;
      const [first] = shown;
      const size = `${law.shown.map((name) => `${name} ${first[name]}`).join(", ")}: ${few(first.trainable_parameters)} trainable parameters`;
      words = found.nearest ? `No architecture of the grid holds them. The nearest holds at least ${few(first.at_least)}: ${size}.` : `The smallest has ${size}.`;
      if (first.outside.length) words += ` It lies outside the law's domain: ${first.outside.join("; ")}.`;
      figure(found, number("target"));
    } catch (error) {
      words = error.message;
    }
    at("answer").textContent = words;
    at("answer").classList.toggle("refused", !found);
    at("figure").hidden = !found;
    at("head").replaceChildren(...(shown.length ? [line("th", COLUMNS.map(([name]) => name), { scope: "col" })] : []));
    at("body").replaceChildren(...shown.map((row) => line("td", COLUMNS.map(([, name]) => few(row[name])))));
  };
  document.getElementById("plan").addEventListener("input", redraw);
  document.getElementById("plan").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("themed", redraw);
  redraw();
})(window.capaxReport);
