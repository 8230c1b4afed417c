"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // A column that says the same of every run travels as one value.
  const spread = (column) => (Array.isArray(column) ? column : Array(data.n_runs).fill(column.all));
  data.runs = Object.fromEntries(Object.entries(data.runs).map(([name, column]) => [name, spread(column)]));
  // What is not needed at once travels compressed: numbers of figures, and what the planner chooses from.
  const open = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };
  const packed = open(document.getElementById("packed").textContent);
  const root = document.documentElement;
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const shown = (value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value === "number" && !Number.isInteger(value)) return Number(value.toPrecision(4)).toString();
    return String(value);
  };

  // Theme: the system's, until the button chooses another.
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const colours = () => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    return { paper: colour("--paper"), ink: colour("--ink"), line: colour("--line") };
  };

  const PAPER_WIDTH = 660;
  const PANEL = 220; // pixels that a panel needs; where they do not have them beside each other, they stand in one column
  const NARROW = 480;
  // The colours of the page's theme, for what was coloured for white.
  const coloured = (trace) => {
    if (!isDark() || root.dataset.printing) return trace;
    const dark = (colour) => data.dark[colour] || colour;
    const painted = { ...trace };
    for (const part of ["line", "marker", "error_y"]) {
      if (trace[part] && trace[part].color) painted[part] = { ...trace[part], color: dark(trace[part].color) };
    }
    if (trace.fillcolor) painted.fillcolor = dark(trace.line.color) + "50"; // an area that is seen on black
    return painted;
  };
  const BUTTONS = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]; // none that needs a network
  // Figures: drawn when they come near the screen, or before printing; the page itself comes first.
  const plots = [...document.querySelectorAll("[data-figure]")];
  const themed = (layout) => {
    const { paper, ink, line } = colours();
    const painted = { ...layout, paper_bgcolor: paper, plot_bgcolor: paper, font: { color: ink, family: "system-ui, sans-serif" } };
    for (const name of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(name)) painted[name] = { ...layout[name], gridcolor: line, zerolinecolor: line, linecolor: line };
    }
    return painted;
  };
  // Plotly is read when the first figure is due: the page is there to be read before that.
  const plotly = () => {
    if (!window.Plotly) document.head.append(element("script", document.getElementById("plotly").textContent));
    return window.Plotly;
  };
  const paint = async (plot, traces, layout) => {
    // As wide as its place, and as high as it says: plotly's own resizing would forget the height.
    const width = root.dataset.printing ? PAPER_WIDTH : plot.clientWidth;
    plot.dataset.width = width;
    plot.style.minHeight = 0;
    await plotly().react(plot, traces.map(coloured), themed({ ...layout, width }), { displaylogo: false, modeBarButtons: BUTTONS });
    resized.observe(plot);
    // A screen reader has the figure's name and its table; the shapes would be images without a name.
    for (const shape of [...plot.querySelectorAll("svg"), ...document.querySelectorAll("#js-plotly-tester")]) shape.setAttribute("aria-hidden", "true");
  };
  const draw = (plot) => {
    const { data: traces, layout, narrow, columns } = data.figures[plot.dataset.figure];
    plot.dataset.drawn = "yes";
    const wide = root.dataset.printing || plot.clientWidth >= Math.max(NARROW, PANEL * columns);
    return paint(plot, traces, wide ? layout : narrow);
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
    }
  }, { rootMargin: "400px" });
  window.addEventListener("load", () => plots.forEach((plot) => watcher.observe(plot)));
  // A link to a figure that is folded away unfolds it.
  const unfold = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details.more")?.setAttribute("open", "");
  window.addEventListener("hashchange", unfold);
  unfold();
  // What has another width by now is drawn again: at once where it is seen, else when it comes near the screen.
  let waiting;
  const refit = () => {
    if (root.dataset.printing) return;
    for (const plot of plots) {
      if (!plot.dataset.drawn || Number(plot.dataset.width) === plot.clientWidth) continue;
      delete plot.dataset.drawn;
      watcher.unobserve(plot);
      watcher.observe(plot);
    }
    document.dispatchEvent(new Event("themed"));
  };
  const resized = new ResizeObserver((entries) => {
    if (entries.every(({ target }) => Number(target.dataset.width) === target.clientWidth)) return;
    clearTimeout(waiting);
    waiting = setTimeout(refit, 100);
  });
  const button = document.getElementById("theme");
  const repaint = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    for (const plot of plots.filter((one) => one.dataset.drawn)) {
      if (plot.clientWidth) draw(plot);
      else delete plot.dataset.drawn; // it is folded away, and drawn when it is seen
    }
    document.dispatchEvent(new Event("themed"));
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; repaint(); });
  system.addEventListener("change", repaint);
  // Paper is white and narrow, whatever the screen is.
  // On paper nothing can be unfolded: figures that are folded away are shown, and folded again afterwards.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    root.dataset.printing = "yes";
    unfolded = [...document.querySelectorAll("details.more:not([open])")];
    for (const more of unfolded) more.open = true;
    plots.forEach(draw);
    document.dispatchEvent(new Event("themed"));
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.printing;
    for (const more of unfolded) more.open = false;
    repaint();
  });
  repaint();

  // The numbers of a figure, as a table that a screen reader reads.
  const row = (...cells) => {
    const line = element("tr");
    line.append(...cells);
    return line;
  };
  const numbers = (chart) => chart.panels.map(({ title, x, y, heat, series }) => {
    const table = element("table");
    const head = heat ? [y.label + " \\ " + x.label, ...heat.x.map(shown)] : ["series", x.label, y.label, "from", "to"];
    const places = (one) => one.x.map((at, place) => [at, one.y[place], one.low && one.low[place], one.high && one.high[place]]);
    const lines = heat
      ? heat.y.map((at, place) => row(element("th", shown(at), { scope: "row" }), ...heat.texts[place].map((text) => element("td", text))))
      : series.flatMap((one) => places(one).map((values) => row(element("td", one.name), ...values.map((value) => element("td", shown(value), { class: "number" })))));
    table.append(element("caption", title || chart.title));
    table.createTHead().append(row(...head.map((text) => element("th", text, { scope: "col" }))));
    table.createTBody().append(...lines);
    return table;
  });
  for (const place of document.querySelectorAll("[data-numbers]")) {
    place.parentElement.addEventListener("toggle", async () => {
      const { charts } = await packed;
      if (!place.firstChild) place.append(...numbers(charts[place.dataset.numbers]));
    });
  }

  // Runs: a table that sorts and filters.
  const names = Object.keys(data.runs);
  const total = data.n_runs;
  const FIRST = 100; // rows in the page at first: thousands would make every keystroke slow
  const table = document.getElementById("table");
  const filter = document.getElementById("filter");
  const everything = document.getElementById("columns");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  let limit = FIRST;
  let sorted = { name: null, up: true };
  let rows = [...Array(total).keys()];
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last, up or down
    return (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))) * (sorted.up ? 1 : -1);
  };
  // A cell as the table shows it, and as it is.
  const texts = (name, row) => {
    const value = data.runs[name][row];
    return [name === "key" ? value.slice(0, 12) : shown(value), value === null ? "" : String(value)].map((text) => text.toLowerCase());
  };
  // Words, or name=value; in quotes where it has spaces: n_heads=2 "two words" library="two words.txt". Case does not count.
  const terms = () => (filter.value.toLowerCase().match(/(?:[^\s"]|"[^"]*"?)+/g) || []).map((term) => term.replaceAll('"', "")).filter(Boolean);
  const matches = (row, term) => {
    const at = term.indexOf("=");
    const name = names.find((other) => other.toLowerCase() === term.slice(0, Math.max(at, 0)));
    if (name) return texts(name, row).includes(term.slice(at + 1));
    return names.some((other) => texts(other, row).some((text) => text.includes(term)));
  };
  const visible = () => {
    const asked = terms();
    return rows.filter((row) => asked.every((term) => matches(row, term)));
  };
  // Results come first on a narrow screen, which shows two columns or three.
  const narrow = window.matchMedia(`(max-width: ${NARROW}px)`);
  const ordered = (columns) => {
    if (!narrow.matches || root.dataset.printing) return columns;
    return [...columns.filter((name) => data.results.includes(name)), ...columns.filter((name) => !data.results.includes(name))];
  };
  const render = () => {
    const columns = everything.checked && !root.dataset.printing ? names : ordered(data.brief);
    const numeric = new Set(columns.filter((name) => data.runs[name].some((value) => typeof value === "number")));
    const head = element("tr");
    for (const name of columns) {
      const cell = element("th", undefined, { scope: "col", "aria-sort": sorted.name === name ? (sorted.up ? "ascending" : "descending") : "none" });
      if (numeric.has(name)) cell.className = "number";
      const sorter = element("button", undefined, { type: "button" });
      name.split(/(?<=_)/).forEach((part, place) => sorter.append(...(place ? [element("wbr")] : []), part));
      if (sorted.name === name) sorter.append(sorted.up ? " ▲" : " ▼");
      sorter.addEventListener("click", () => {
        sorted = { name, up: sorted.name === name ? !sorted.up : true };
        rows.sort((a, b) => compare(data.runs[name][a], data.runs[name][b]));
        render();
        table.querySelectorAll("th button")[columns.indexOf(name)].focus();
      });
      cell.append(sorter);
      head.append(cell);
    }
    const body = element("tbody");
    const kept = visible();
    for (const run of kept.slice(0, limit)) {
      body.append(row(...columns.map((name) => {
        const text = name === "key" ? data.runs[name][run].slice(0, 12) : shown(data.runs[name][run]);
        return element("td", text.slice(0, 200), numeric.has(name) ? { class: "number" } : {});
      })));
    }
    table.replaceChildren();
    table.createTHead().append(head);
    table.append(body);
    const found = kept.length === total ? `${total} run${total === 1 ? "" : "s"}` : `${kept.length} of ${total} runs`;
    count.textContent = kept.length > limit ? `${found}, the first ${limit} shown` : found;
    more.hidden = kept.length <= limit;
    more.textContent = `Show all ${kept.length}`;
  };
  more.addEventListener("click", () => { limit = Infinity; render(); document.getElementById("table").querySelector("th button").focus(); });
  window.addEventListener("beforeprint", render);
  window.addEventListener("afterprint", render);
  filter.addEventListener("input", render);
  everything.addEventListener("change", render);
  narrow.addEventListener("change", render);
  render();

  // Downloads: what is embedded, of the rows that are shown.
  const save = (name, type, text) => {
    const link = element("a", undefined, { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quoted = (value) => {
    if (value === null) return "";
    const text = String(value);
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  document.getElementById("csv").addEventListener("click", () => {
    const lines = [names, ...visible().map((row) => names.map((name) => data.runs[name][row]))];
    save("capax-runs.csv", "text/csv", lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n");
  });
  document.getElementById("json").addEventListener("click", () => {
    const objects = visible().map((row) => Object.fromEntries(names.map((name) => [name, data.runs[name][row]])));
    save("capax-runs.json", "application/json", JSON.stringify(objects, null, 1));
  });
  window.capaxReport = { packed, element, paint };
})();
