"use strict";
// Chooses from a table that Python made (capax/reports/planner.py): nothing of a law is computed here.
const capaxPlanner = (() => {
  // The smallest architectures that hold a target; throws an Error where there is nothing to choose from.
  const plan = (law, { target, sizes, lists, probability, max_parameters }) => {
    const place = law.probabilities.indexOf(probability);
    const wanted = (row) => Object.entries(sizes).every(([name, value]) => row[name] === value) && Object.entries(lists).every(([name, values]) => !values || values.includes(row[name]));
    const rows = law.rows.map((row) => Object.fromEntries(law.columns.map((name, column) => [name, row[column]])));
    const offered = rows.filter(wanted).map((row) => ({ ...row, at_least: row.at_least[place] }));
    if (!offered.length) throw new Error(`no architecture has these sizes; the law is known for ${law.domain}`);
    const candidates = offered.filter((row) => !(max_parameters && row.trainable_parameters > max_parameters));
    if (!candidates.length) throw new Error(`max_parameters: at least ${Math.min(...offered.map((row) => row.trainable_parameters))} for the smallest architecture to choose from, got ${max_parameters}`);
    const smallest = new Map();
    for (const row of candidates.filter((one) => one.at_least >= target)) {
      const key = law.axes.slice(0, -1).map((name) => row[name]).join();
      if (!smallest.has(key)) smallest.set(key, row);
    }
    const architectures = [...smallest.values()].sort((a, b) => a.trainable_parameters - b.trainable_parameters || a.total_parameters - b.total_parameters);
    return { architectures, nearest: architectures.length ? null : candidates.reduce((best, row) => (row.at_least > best.at_least ? row : best)), candidates };
  };
  return { plan };
})();
if (window.capaxReport && window.capaxReport.data.planner) (({ data: { planner: law }, element, paint }) => {
  const at = (name) => document.getElementById(`plan-${name}`);
  const slid = (name) => JSON.parse(at(name).dataset.values)[Number(at(name).value)];
  const number = (name) => (at(name).value === "" ? null : Number(at(name).value));
  const listed = (name) => {
    const text = at(name).value.trim();
    if (text && !/^\d+( *, *\d+)*$/.test(text)) throw new Error(`${name}: integers separated by commas, got '${text}'`);
    return [name, text ? text.split(",").map(Number) : null];
  };
  const asked = () => {
    if (!(number("target") >= 1)) throw new Error(`${law.items}: at least 1, got ${at("target").value || "none"}`);
    return { target: number("target"), sizes: Object.fromEntries(Object.keys(law.asked).map((name) => [name, slid(name)])), lists: Object.fromEntries(law.axes.map(listed)), probability: slid("probability"), max_parameters: number("max_parameters") };
  };
  const few = (value) => (value === null ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
  const COLUMNS = [...law.axes.map((name) => [name, name]), ["trainable", "trainable_parameters"], ["total", "total_parameters"], ["expected", "memorized"], ["at least", "at_least"], ["tokens/par.", "tokens_per_parameter"]];
  const tabulate = (rows) => {
    const line = (tag, texts, scope) => { const made = element("tr"); made.append(...texts.map((text) => element(tag, text, { class: "number", ...scope }))); return made; };
    const [head, body] = [element("thead"), element("tbody")];
    if (rows.length) head.append(line("th", COLUMNS.map(([name]) => name), { scope: "col" }));
    body.append(...rows.map((row) => line("td", COLUMNS.map(([, name]) => few(row[name])))));
    at("table").replaceChildren(head, body);
  };
  const figure = (found, target) => {
    const lines = Map.groupBy(found.candidates, (row) => law.axes.slice(0, -1).filter((name) => new Set(found.candidates.map((one) => one[name])).size > 1).map((name) => `${name} ${row[name]}`).join(", ") || "all");
    const x = (rows) => rows.map((row) => row.trainable_parameters);
    const trace = (rows, name, more) => ({ x: x(rows), y: rows.map((row) => row.at_least), name, mode: "markers", ...more });
    const traces = [...lines].map(([name, rows], group) => {
      const looks = { color: law.looks.colors[group % law.looks.colors.length], symbol: law.looks.symbols[group % law.looks.symbols.length] };
      return trace(rows, name, { mode: "lines+markers", line: { color: looks.color }, marker: { ...looks, size: rows.length > 20 ? 4 : 8 }, text: rows.map((row) => `${law.axes.map((axis) => `${axis} ${row[axis]}`).join(", ")}: at least ${few(row.at_least)}, expected ${few(row.memorized)}`), hoverinfo: "text" });
    });
    traces.push(trace(found.architectures, "holds the target", { hoverinfo: "skip", marker: { size: 18, symbol: "circle-open", color: law.looks.grey, line: { width: 3 } } }));
    traces.push({ x: [Math.min(...x(found.candidates)), Math.max(...x(found.candidates))], y: [target, target], name: "target", mode: "lines", line: { dash: "dash", color: law.looks.grey }, hoverinfo: "name" });
    const axis = (text) => ({ type: "log", title: { text }, automargin: true, nticks: 8 });
    paint(at("plot"), traces, { height: 440, margin: { l: 70, r: 20, t: 20, b: 60 }, hovermode: "closest", legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" }, xaxis: axis("trainable parameters"), yaxis: axis(`${law.items} held at least`) });
  };
  const redraw = () => {
    for (const slider of document.querySelectorAll("#plan [data-values]")) { slider.labels[0].querySelector("output").textContent = slid(slider.id.slice(5)); slider.setAttribute("aria-valuetext", slid(slider.id.slice(5))); }
    let [found, words] = [null, ""];
    try {
      found = capaxPlanner.plan(law, asked());
      const first = found.architectures[0] || found.nearest;
      const size = `${law.axes.map((name) => `${name} ${first[name]}`).join(", ")}: ${few(first.trainable_parameters)} trainable parameters`;
      words = found.nearest ? `No architecture to choose from (${law.domain}) holds them. The nearest holds at least ${few(first.at_least)}: ${size}.` : `The smallest has ${size}.`;
      figure(found, number("target"));
    } catch (error) {
      words = error.message;
    }
    at("answer").textContent = words;
    at("answer").classList.toggle("refused", !found);
    at("figure").hidden = !found;
    tabulate(found ? (found.nearest ? [found.nearest] : found.architectures) : []);
  };
  document.getElementById("plan").addEventListener("input", redraw);
  document.getElementById("plan").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("themed", redraw);
  redraw();
})(window.capaxReport);
