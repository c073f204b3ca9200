"use strict";
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const probe = document.body.appendChild(document.createElement("i"));
  const printed_px = 680, printed_part = 0.85; // of a page: two charts share it

  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const template = () => {
    const [ink, muted, line, paper] = ["ink", "muted", "line", "paper"].map(colour);
    const clear = "rgba(0,0,0,0)";
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line };
    return { layout: {
      font: { color: ink, family: "system-ui, sans-serif", size: 12 },
      paper_bgcolor: clear, plot_bgcolor: clear, xaxis: axis, yaxis: axis,
      hoverlabel: { bgcolor: paper, bordercolor: muted, font: { color: ink } },
      modebar: { bgcolor: clear, color: muted, activecolor: ink },
      legend: { bgcolor: clear },
    }, data: { bar: [{ insidetextfont: { color: ink } }] } };
  };

  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const restyle = (change = () => ({})) => {
    toggle.textContent = isDark() ? "Light colours" : "Dark colours";
    const look = template();
    for (const plot of plots) {
      if (plot.data) Plotly.relayout(plot, { template: look, ...change(plot) });
    }
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    restyle();
  });
  dark.addEventListener("change", () => restyle());

  const heights = new Map(); // on the screen, of what is printed
  let themeOnScreen;
  addEventListener("beforeprint", () => {
    for (const plot of plots) complete(plot);
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    restyle((plot) => {
      const { height, meta } = plot.layout;
      heights.set(plot, height);
      return { width: printed_px, height: meta?.panel_px ? height : printed_part * height };
    });
  });
  addEventListener("afterprint", () => {
    if (themeOnScreen) root.dataset.theme = themeOnScreen;
    else delete root.dataset.theme;
    restyle((plot) => ({ width: null, autosize: true, height: heights.get(plot) }));
  });

  // text of traces and names is escaped for the chart; a table shows it as it was
  const plain = (text) => new DOMParser().parseFromString(text, "text/html").body.textContent;
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = plain(String(value)).replace(/^(?=[=+\-@\t\r])/, "'"); // no formula of a spreadsheet
    return `"${text.replaceAll('"', '""')}"`;
  };
  const axisTitle = (plot, reference) => {
    const name = reference.replace(/^([xy])/, "$1axis");
    return plot.layout[name]?.title?.text;
  };
  const csv = (plot) => {
    const first = (letter) => plot.layout.meta?.[letter]
      ?? plot.data.map((t) => axisTitle(plot, t[letter + "axis"] ?? letter)).find(Boolean) ?? letter;
    const rows = [["panel", "series", first("x"), first("y"), "label"]];
    for (const { meta, name, x, y, customdata, text } of plot.data) {
      const labels = Array.isArray(customdata) ? customdata : Array.isArray(text) ? text : [];
      for (let i = 0; i < x.length; i++) rows.push([meta?.panel, name, x[i], y[i], labels[i]]);
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  };
  for (const button of document.querySelectorAll("button[data-chart]")) {
    button.addEventListener("click", () => {
      const plot = document.getElementById(button.dataset.chart);
      complete(plot);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(plot)], { type: "text/csv" }));
      link.download = button.dataset.file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // small multiples stand side by side, on a phone one below the other; legends get their room
  const narrow = matchMedia("(max-width: 40rem)");
  const entry_px = 16;
  const placed = (layout, data) => {
    const panel_px = layout.meta?.panel_px;
    if (!narrow.matches) return layout;
    const legend_px = entry_px * data.filter((trace) => trace.showlegend !== false).length;
    if (!panel_px) return { ...layout, height: layout.height + legend_px };
    const titles = layout.annotations, all_px = panel_px * titles.length;
    const { t, b } = layout.margin;
    const changed = { ...layout, height: all_px + t + b + legend_px };
    const titled = (letter) => Object.keys(layout).filter((key) => key.startsWith(`${letter}axis`))
      .map((key) => layout[key].title).find((title) => title?.text);
    const [x_title, y_title] = ["x", "y"].map(titled);
    changed.annotations = titles.map((title, i) => (
      { ...title, x: 0.5, y: 1 - (i * panel_px + 28) / all_px, yanchor: "bottom" }));
    titles.forEach((_, i) => {
      const number = i ? i + 1 : "", top = 1 - (i * panel_px + 32) / all_px;
      const domain = [1 - ((i + 1) * panel_px - 62) / all_px, top];
      changed[`xaxis${number}`] = { ...layout[`xaxis${number}`], title: x_title, domain: [0, 1] };
      changed[`yaxis${number}`] = (
        { ...layout[`yaxis${number}`], title: y_title, domain, showticklabels: true });
    });
    return changed;
  };

  const pending = new Map(); // charts to draw, with what is in them
  const config = {
    displaylogo: false, responsive: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const wanted = (plot) => {
    const { data, layout } = JSON.parse(document.getElementById(`${plot.id}-data`).textContent);
    pending.set(plot, [data, placed(layout, data)]);
    plot.style.minHeight = `${pending.get(plot)[1].height}px`; // nothing moves when it is drawn
  };
  const complete = (plot) => {
    if (!pending.has(plot)) return;
    const [data, layout] = pending.get(plot);
    pending.delete(plot);
    Plotly.newPlot(plot, data, { ...layout, template: template() }, config);
    plot.style.minHeight = "";
  };

  // what is in view first, then the nearest, one after the other: the page can be read meanwhile
  const beyond = (plot) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return Math.max(0, top - innerHeight, -bottom);
  };
  const nearest = () => [...pending.keys()].reduce((a, b) => (a && beyond(a) <= beyond(b) ? a : b),
    undefined);
  const idle = window.requestIdleCallback ?? ((then) => setTimeout(then));
  const goOn = () => {
    const plot = nearest(), inView = plot && beyond(plot) === 0;
    if (!inView) root.dataset.shown = "1";
    if (!plot) root.dataset.ready = "1";
    else if (inView) setTimeout(drawNext);
    else idle(drawNext, { timeout: 200 });
  };
  const drawNext = () => {
    complete(nearest());
    goOn();
  };
  const draw = () => {
    const idling = pending.size === 0;
    plots.forEach(wanted);
    if (idling) goOn();
  };
  narrow.addEventListener("change", draw);
  restyle();
  draw();
})();
