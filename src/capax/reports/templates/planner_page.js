"use strict";
// The planner's section of the page: fields and sliders in, table and figure out.
(() => {
  const { data, element, paint, short } = window.capaxReport;
  const law = data.planner;
  if (!law) return;
  const at = (name) => document.getElementById(name);
  const { start, domain } = law;

  // Sliders reach as far as the law is known, or beyond when asked; those over several powers of ten are logarithmic.
  const known = (name) => domain.ranges[name] || (domain.protocol[name] ? [domain.protocol[name][0], domain.protocol[name][0]] : null);
  const reach = (name, beyond) => {
    switch (name) {
      case "sequences": return [Math.max(start.sequences / 50, 1), start.sequences * (beyond ? 1000 : 20)];
      case "max_parameters": return [law.reach[0], law.reach[1] * (beyond ? 100 : 1)];
      case "probability": return [0.5, 0.99];
      default: {
        const ends = known(name) || [2, 100000];
        return beyond ? [Math.max(2, Math.round(ends[0] / 8)), ends[1] * 8] : ends;
      }
    }
  };
  const LINEAR = new Set(["probability"]);
  const sliders = [...document.querySelectorAll("[data-slider]")];
  const place = (slider) => {
    const name = slider.dataset.slider;
    const [low, high] = reach(name, at("plan-extrapolate").checked);
    const way = LINEAR.has(name) ? (value) => value : Math.log;
    const text = at(`plan-${name}`).value;
    const value = text === "" ? (name === "max_parameters" ? high : start[name]) : Number(text);
    slider.min = way(low);
    slider.max = way(high);
    slider.value = way(Math.max(value, low / 2));
    slider.disabled = low === high;
    slider.setAttribute("aria-valuetext", text === "" ? "any" : text);
  };
  const slid = (slider) => {
    const name = slider.dataset.slider;
    const value = Number(slider.value);
    const field = at(`plan-${name}`);
    if (LINEAR.has(name)) field.value = value.toFixed(2);
    else if (name === "max_parameters" && value >= Number(slider.max) - 1e-9) field.value = "";
    else {
      const count = Math.exp(value);
      field.value = Math.round(count < 1000 ? count : Number(count.toPrecision(3)));
    }
  };

  const listed = (name) => {
    const text = at(`plan-${name}`).value;
    if (text.trim() === "") return null;
    const words = text.split(",").map((word) => word.trim());
    if (!words.every((word) => /^[+-]?\d+$/.test(word))) throw new Error(`${name}: integers separated by commas, got '${text}'`);
    return words.map(Number);
  };
  const asked = () => {
    const question = { extrapolate: at("plan-extrapolate").checked };
    for (const field of document.querySelectorAll("[data-question]")) {
      const name = field.dataset.question;
      if (field.value !== "") question[name] = Number(field.value);
      else if (name === "sequences" || name === "seq_len" || name === "probability") throw new Error(`${name}: a number is needed`);
    }
    for (const name of ["n_heads", "n_layers", "d_model"]) question[name] = listed(name);
    return question;
  };

  const whole = (value) => Math.round(value).toLocaleString("en");
  const few = (value) => (value === null ? "–" : Number(value.toPrecision(3)).toString());
  const bytes = (count) => {
    for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (count >= size) return `${Number((count / size).toPrecision(3))} ${unit}`;
    return `${count} B`;
  };
  const ofHeads = (number) => `${number} head${number === 1 ? "" : "s"}`;
  const COLUMNS = [
    ["layers", (row) => row.n_layers], ["heads", (row) => row.n_heads], ["width", (row) => row.d_model],
    ["trainable", (row) => whole(row.trainable_parameters)], ["total", (row) => whole(row.total_parameters)], ["size", (row) => bytes(row.bytes)],
    ["expected", (row) => whole(row.memorized)], ["at least", (row) => whole(row.at_least)], ["tokens/par.", (row) => few(row.tokens_per_parameter)],
    ["+head", (row) => few(row.gain_of_head)], ["+width", (row) => few(row.gain_of_width)],
  ];
  const tabulate = (rows) => {
    const head = element("tr");
    head.append(...COLUMNS.map(([name]) => element("th", name, { scope: "col", class: "number" })));
    const body = element("tbody");
    for (const row of rows) {
      const line = element("tr");
      line.append(...COLUMNS.map(([, text]) => element("td", String(text(row)), { class: "number" })));
      body.append(line);
    }
    const table = at("plan-table");
    table.replaceChildren();
    if (rows.length) table.createTHead().append(head);
    table.append(body);
  };

  // Marks at 1, 2 and 5 times the powers of ten, or at 1 and 3, or the powers alone, as there is room for.
  const ticks = (values, most) => {
    const [low, high] = [Math.min(...values), Math.max(...values)].map((value) => Math.max(value, 0.1));
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) powers.push(power);
    const marks = [[1, 2, 5], [1, 3], [1]].map((steps) => powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`))));
    const tickvals = marks.find((some) => some.filter((value) => value >= low && value <= high).length <= most) || marks.at(-1);
    return { tickvals, ticktext: tickvals.map(short) };
  };

  const percent = (share) => `${capaxPlanner.general(100 * share)} %`;
  const figure = (found) => {
    const lines = new Map();
    for (const row of found.candidates) {
      const name = (law.several_depths ? `${row.n_layers} layer${row.n_layers === 1 ? "" : "s"}, ` : "") + ofHeads(row.n_heads);
      if (!lines.has(name)) lines.set(name, []);
      lines.get(name).push(row);
    }
    const traces = [];
    [...lines].forEach(([name, rows], group) => {
      const color = law.looks.colors[group % law.looks.colors.length];
      const symbol = law.looks.symbols[group % law.looks.symbols.length];
      const x = rows.map((row) => row.trainable_parameters);
      const words = rows.map((row) => `${name}, width ${row.d_model}: ${whole(row.trainable_parameters)} parameters; at least ${whole(row.at_least)}, expected ${whole(row.memorized)}`);
      const usual = { x, legendgroup: name, hoverinfo: "text", hovertext: words };
      traces.push({ ...usual, y: rows.map((row) => row.at_least), name, mode: "lines+markers", line: { color }, marker: { color, symbol, size: rows.length > 20 ? 4 : 8 } });
      traces.push({ ...usual, y: rows.map((row) => row.memorized), name: `${name}, expected`, mode: "lines", showlegend: false, line: { color, dash: "dot", width: 1 } });
    });
    const shown = found.architectures;
    traces.push({
      x: shown.map((row) => row.trainable_parameters), y: shown.map((row) => row.at_least), name: "holds the target", mode: "markers", hoverinfo: "skip",
      marker: { size: 18, symbol: "circle-open", color: law.looks.grey, line: { width: 3 } },
    });
    const ends = found.candidates.map((row) => row.trainable_parameters);
    const held = [found.sequences, ...found.candidates.flatMap((row) => [row.at_least, row.memorized])];
    traces.push({ x: [Math.min(...ends), Math.max(...ends)], y: [found.sequences, found.sequences], name: "target", mode: "lines", line: { dash: "dash", color: law.looks.grey }, hoverinfo: "name" });
    const layout = {
      height: 440, margin: { l: 70, r: 20, t: 20, b: 60 }, hovermode: "closest", legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" },
      xaxis: { type: "log", title: { text: "trainable parameters" }, automargin: true, ...ticks(ends, at("plan-plot").clientWidth < 500 ? 5 : 10) },
      yaxis: { type: "log", title: { text: "sequences" }, automargin: true, ...ticks(held, 10) },
    };
    paint(at("plan-plot"), traces, layout);
    at("plan-caption").textContent = `Solid: how many sequences of ${found.seq_len} tokens each architecture holds at least, with probability ${percent(found.probability)}; dotted: how many are expected. Ringed: the smallest of each ${law.several_depths ? "depth and " : ""}number of heads that holds the target.`;
  };

  let seen = false; // the figure is drawn when it comes near the screen, as the others are
  let latest = null;
  const draw = () => {
    if (seen && latest) figure(latest);
  };
  const answer = (found) => {
    const [first] = found.architectures;
    const target = `${whole(found.sequences)} sequences of ${found.seq_len} tokens from ${whole(found.vocab_size)}, with probability ${percent(found.probability)}`;
    const size = (row) => `${row.n_layers} layer${row.n_layers === 1 ? "" : "s"}, ${ofHeads(row.n_heads)}, width ${row.d_model}: ${whole(row.trainable_parameters)} trainable parameters`;
    const words = first ? `${target}: the smallest has ${size(first)}.` : `${target}: no architecture to choose from (${domain.words}) holds them. The nearest holds at least ${whole(found.nearest.at_least)}: ${size(found.nearest)}.`;
    return [words, ...found.outside.map((reason) => `Note: ${reason}.`)].join(" ");
  };
  const redraw = () => {
    const place_ = at("plan-answer");
    try {
      latest = capaxPlanner.plan(law, asked());
      place_.classList.remove("refused");
      place_.textContent = answer(latest);
      tabulate(latest.architectures.length ? latest.architectures : [latest.nearest]);
    } catch (error) {
      latest = null;
      place_.classList.add("refused");
      place_.textContent = error.message;
      tabulate([]);
    }
    at("plan-figure").hidden = latest === null;
    draw();
  };

  for (const name of ["sequences", "seq_len", "vocab_size", "probability"]) at(`plan-${name}`).value = start[name];
  for (const name of ["n_heads", "n_layers", "d_model"]) {
    const range = known(name);
    at(`plan-${name}`).placeholder = range === null ? "1" : range[0] === range[1] ? String(range[0]) : `all from ${range[0]} to ${range[1]}${name === "d_model" ? ", by 8" : ""}`;
  }
  let waiting = false;
  at("plan").addEventListener("input", (event) => {
    if (event.target.dataset.slider) slid(event.target);
    sliders.filter((slider) => slider !== event.target).forEach(place);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; redraw(); });
  });
  at("plan").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("themed", draw);
  const look = () => { if (!seen) { seen = true; draw(); } };
  window.addEventListener("beforeprint", look);
  const watcher = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) look(); }, { rootMargin: "400px" });
  window.addEventListener("load", () => watcher.observe(at("plan-figure")));
  sliders.forEach(place);
  redraw();
})();
