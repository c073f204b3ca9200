"use strict";
(async () => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("block-map-data").textContent);
  const root = document.documentElement;
  const inDark = matchMedia("(prefers-color-scheme: dark)");
  const FRAMES_PER_S = 12, FRAMES = 240, SLIDER = 1000;
  let colour = "state";
  let position = 0;
  let timer = null;
  let playedTo = 0;

  // ---- data ----

  async function unpacked(text, cells) {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const plane = new Uint8Array(await new Response(stream).arrayBuffer());
    for (let i = cells; i < plane.length; i++) plane[i] ^= plane[i - cells];
    return plane;
  }

  for (const panel of data.panels) {
    for (const name of Object.keys(panel.planes)) {
      panel.planes[name] = await unpacked(panel.planes[name], panel.cells);
    }
  }
  const times = [...new Set(data.panels.flatMap((panel) => panel.seconds))].sort((a, b) => a - b);
  if (!times.length) times.push(0);
  const first = times[0], last = times[times.length - 1];
  const digits = last - first < 1 ? 4 : last - first < 100 ? 2 : 1;
  const seconds = (value) => `${value.toFixed(digits)} s`;

  // the last snapshot up to a time; before the first one that one is shown
  function snapshotAt(panel, time) {
    let low = 0, high = panel.seconds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (panel.seconds[middle] <= time) low = middle + 1; else high = middle;
    }
    return Math.max(low - 1, 0);
  }

  // ---- colours ----

  const palette = () => ((root.dataset.theme ?? (inDark.matches ? "dark" : "light")) === "dark" ? data.dark : data.light);

  function mixed(colour1, colour2, part) {
    const number = (text, at) => parseInt(text.slice(at, at + 2), 16);
    const channel = (at) => Math.round(part * number(colour1, at) + (1 - part) * number(colour2, at));
    return `rgb(${channel(1)},${channel(3)},${channel(5)})`;
  }

  function lookColours() {
    const now = palette();
    return data.looks.map((look) => now[look]);
  }

  // by owner: full colour for tokens, pale for owned empty slots
  function ownerColours() {
    const now = palette();
    return data.owners.map((owner) => ({
      token: owner, shared: now.ink, reserved: mixed(owner, now.paper, data.pale),
      internal: mixed(owner, now.paper, data.pale), external: now.free, cached: now.dim, free: now.free,
    }));
  }

  // ---- panels ----

  function element(kind, text, parent, className) {
    const made = document.createElement(kind);
    if (text) made.textContent = text;
    if (className) made.className = className;
    if (parent) parent.append(made);
    return made;
  }

  function poolWords(panel) {
    const cells = panel.blockSize > 1
      ? `${Math.round(panel.slots / panel.blockSize).toLocaleString("en")} blocks`
      : `${panel.slots.toLocaleString("en")} slots`;
    const blocks = panel.cellSlots / panel.blockSize;
    const square = panel.blockSize === 1 ? `${panel.cellSlots} slots` : blocks === 1 ? "a block" : `${blocks} blocks`;
    return `${panel.allocator}; ${cells}, a square is ${square}`;
  }

  for (const panel of data.panels) {
    const figure = element("figure", "", byId("bm-panels"));
    const caption = element("figcaption", "", figure);
    element("h2", panel.name, caption);
    element("p", poolWords(panel), caption);
    panel.numbers = element("p", "", caption, "numbers");
    panel.canvas = element("canvas", "", figure, "map");
    panel.canvas.setAttribute("role", "img");
    panel.strip = element("canvas", "", figure, "strip");
    panel.strip.setAttribute("aria-hidden", "true");
    const axis = element("div", "", figure, "axis");
    element("span", seconds(first), axis);
    element("span", "time of the run", axis);
    element("span", seconds(last), axis);
    panel.canvas.addEventListener("pointermove", (event) => showTip(panel, event));
    panel.canvas.addEventListener("pointerdown", (event) => showTip(panel, event));
    panel.canvas.addEventListener("pointerleave", hideTip);
    panel.strip.addEventListener("click", (event) => {
      const box = panel.strip.getBoundingClientRect();
      goToTime(first + (last - first) * (event.clientX - box.left) / box.width);
    });
  }

  // the canvas in device pixels: cells are whole pixels, so that edges are sharp
  function sized(panel) {
    const width = Math.round(panel.canvas.clientWidth * devicePixelRatio);
    const pitch = Math.max(Math.floor(width / panel.columns), 1);
    const rows = Math.ceil(panel.cells / panel.columns);
    panel.pitch = pitch;
    panel.gap = pitch >= 4 ? Math.max(Math.round(pitch / 8), 1) : 0;
    if (panel.canvas.width !== pitch * panel.columns || panel.canvas.height !== pitch * rows) {
      panel.canvas.width = pitch * panel.columns;
      panel.canvas.height = pitch * rows;
      panel.canvas.style.width = `${pitch * panel.columns / devicePixelRatio}px`;
    }
  }

  function drawMap(panel) {
    panel.canvas.style.width = "100%";
    sized(panel);
    const context = panel.canvas.getContext("2d");
    context.clearRect(0, 0, panel.canvas.width, panel.canvas.height);
    if (!panel.seconds.length) return;
    const { pitch, gap, columns, planes, cells } = panel;
    const side = pitch - gap, start = panel.snapshot * cells;
    const byLook = lookColours(), byOwner = ownerColours();
    const dots = [];
    for (let cell = 0; cell < cells; cell++) {
      const at = start + cell, looks = planes.looks[at];
      const x = (cell % columns) * pitch, y = Math.floor(cell / columns) * pitch;
      const one = colourOf(panel, at, looks & 15, byLook, byOwner);
      const width = Math.round(side * planes.share[at] / 255);
      context.fillStyle = one;
      context.fillRect(x, y, width, side);
      if (width < side) {
        context.fillStyle = colourOf(panel, at, looks >> 4, byLook, byOwner);
        context.fillRect(x + width, y, side - width, side);
      }
      if (planes.evicted[at]) dots.push([x, y]);
    }
    const dot = Math.max(Math.round(side / 5), 1), inset = (side - dot) >> 1;
    context.fillStyle = palette().paper;
    for (const [x, y] of dots) context.fillRect(x + inset, y + inset, dot, dot);
  }

  function ownerOf(panel, at) {
    return panel.planes.owner0[at] + 256 * panel.planes.owner1[at] + 65536 * panel.planes.owner2[at] - 1;
  }

  function colourOf(panel, at, look, byLook, byOwner) {
    const owner = ownerOf(panel, at);
    if (colour === "state") return byLook[look];
    return byOwner[Math.max(owner, 0) % byOwner.length][data.looks[look]];
  }

  // shares of the pool over the run; looks that nobody has take no room
  function drawStrip(panel) {
    const strip = panel.strip, context = strip.getContext("2d");
    strip.width = Math.max(Math.round(strip.clientWidth * devicePixelRatio), 1);
    strip.height = Math.round(strip.clientHeight * devicePixelRatio);
    const colours = lookColours(), span = last - first || 1;
    const place = (time) => strip.width * (time - first) / span;
    panel.seconds.forEach((time, number) => {
      const left = Math.floor(place(time));
      const right = number + 1 < panel.seconds.length ? Math.floor(place(panel.seconds[number + 1])) : strip.width;
      let y = strip.height;
      panel.shares[number].forEach((share, look) => {
        const height = share * strip.height;
        context.fillStyle = colours[look];
        context.fillRect(left, y - height, Math.max(right - left, 1), height + 0.5);
        y -= height;
      });
    });
    const cursor = Math.max(Math.round(devicePixelRatio * 2), 2);
    context.fillStyle = palette().ink;
    const x = Math.min(place(times[position]), strip.width - cursor);
    context.fillRect(x, 0, cursor, strip.height);
  }

  const percent = (part) => `${(100 * part).toFixed(1)}\u00a0%`;

  function tellNumbers(panel) {
    if (!panel.seconds.length) {
      panel.numbers.textContent = "no snapshot was taken";
      return;
    }
    const shares = panel.shares[panel.snapshot];
    const parts = data.looks.map((look, place) => [look, shares[place]]).filter(([, part]) => part >= 0.0005);
    const words = parts.map(([look, part]) => `${look}\u00a0${percent(part)}`).join(", ");
    panel.numbers.textContent =
      `${panel.running[panel.snapshot]} running, ${panel.waiting[panel.snapshot]} waiting · ${words}`;
    panel.canvas.setAttribute("aria-label", `${panel.name} at ${seconds(times[position])}: ${words}`);
  }

  // ---- time ----

  function draw() {
    for (const panel of data.panels) {
      panel.snapshot = snapshotAt(panel, times[position]);
      tellNumbers(panel);
      drawMap(panel);
      drawStrip(panel);
    }
    byId("bm-time").value = Math.round(SLIDER * (times[position] - first) / (last - first || 1));
    byId("bm-time").setAttribute("aria-valuetext", seconds(times[position]));
    byId("bm-now").textContent = `t = ${seconds(times[position])}`;
  }

  function goTo(number) {
    position = Math.min(Math.max(number, 0), times.length - 1);
    hideTip();
    draw();
  }

  function goToTime(time) {
    let nearest = 0;
    times.forEach((one, number) => {
      if (Math.abs(one - time) < Math.abs(times[nearest] - time)) nearest = number;
    });
    goTo(nearest);
  }

  function play(on) {
    clearInterval(timer);
    playedTo = times[position];
    timer = on ? setInterval(playOn, 1000 / FRAMES_PER_S) : null;
    byId("bm-play").textContent = on ? "Pause" : "Play";
    byId("bm-play").setAttribute("aria-pressed", String(on));
  }

  // as fast at all times, whatever the distance of the snapshots
  function playOn() {
    playedTo += (last - first) / FRAMES;
    const next = times.findIndex((time) => time > playedTo) - 1;
    if (next >= 0 && next !== position) goTo(next);
    if (next < 0) {
      goTo(times.length - 1);
      play(false);
    }
  }

  function playOrPause() {
    if (timer === null && position === times.length - 1) goTo(0);
    play(timer === null);
  }

  function paint(by) {
    colour = by;
    document.querySelector(`input[name=bm-colour][value=${by}]`).checked = true;
    drawLegend();
    draw();
  }

  function drawLegend() {
    const legend = byId("bm-legend"), now = palette();
    legend.textContent = "";
    const entry = (fill, text, className) => {
      const item = element("span", "", legend);
      element("i", "", item, className).style.background = fill;
      item.append(text);
    };
    if (colour === "state") {
      for (const look of data.looks) entry(now[look], data.labels[look]);
    } else {
      const [one] = ownerColours();
      entry(`linear-gradient(90deg, ${data.owners.slice(0, 4).join(", ")})`, "tokens, a colour a request");
      entry(one.internal, "owned, without a token");
      entry(one.shared, "shared by several requests");
      entry(one.cached, "cached, nobody's");
      entry(one.free, "free or unusable");
    }
    entry(now.paper, data.evicted, "dot");
  }

  // ---- what a square is ----

  function showTip(panel, event) {
    const box = panel.canvas.getBoundingClientRect(), tip = byId("bm-tip");
    const pixels = panel.canvas.width / box.width / panel.pitch;
    const column = Math.floor((event.clientX - box.left) * pixels);
    const cell = Math.floor((event.clientY - box.top) * pixels) * panel.columns + column;
    if (column < 0 || column >= panel.columns || cell < 0 || cell >= panel.cells || !panel.seconds.length) {
      hideTip();
      return;
    }
    tip.textContent = words(panel, cell);
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  }

  function words(panel, cell) {
    const at = panel.snapshot * panel.cells + cell, { planes } = panel;
    const lines = [placeWords(panel, cell)];
    const one = planes.looks[at] & 15, other = planes.looks[at] >> 4, part = planes.share[at] / 255;
    lines.push(one === other ? `all ${data.labels[data.looks[one]]}`
      : `${data.looks[one]} ${percent(part)}, ${data.looks[other]} ${percent(1 - part)}`);
    const owner = ownerOf(panel, at), owners = planes.owners[at];
    if (owner >= 0) {
      lines.push(owners > 1 ? `request ${owner} and ${owners - 1} more` : `request ${owner}`);
    }
    if (planes.evicted[at]) lines.push("lost cached content since the last snapshot");
    return lines.join("\n");
  }

  function placeWords(panel, cell) {
    const start = cell * panel.cellSlots, end = Math.min(start + panel.cellSlots, panel.slots);
    const size = panel.blockSize;
    const [what, low, high] = size > 1 ? ["block", start / size, end / size - 1] : ["slot", start, end - 1];
    return low === high ? `${what} ${low}` : `${what}s ${low} to ${high}`;
  }

  function hideTip() {
    byId("bm-tip").hidden = true;
  }

  // ---- hands ----

  const KEYS = {
    ArrowLeft: () => goTo(position - 1), ArrowRight: () => goTo(position + 1),
    PageUp: () => goTo(position - 10), PageDown: () => goTo(position + 10),
    Home: () => goTo(0), End: () => goTo(times.length - 1),
    " ": playOrPause, c: () => paint(colour === "state" ? "request" : "state"),
  };
  document.addEventListener("keydown", (event) => {
    const isButton = event.target.closest("button, a, summary") !== null;
    const isRadio = event.target.matches("input[type=radio]");
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || (isButton && event.key === " ")) return;
    if (isRadio && (event.key === " " || event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    if (event.key !== " ") play(false);
    act();
  });
  byId("bm-time").max = SLIDER;
  byId("bm-time").addEventListener("input", (event) => {
    play(false);
    goToTime(first + (last - first) * Number(event.target.value) / SLIDER);
  });
  byId("bm-play").addEventListener("click", playOrPause);
  byId("bm-back").addEventListener("click", () => { play(false); goTo(position - 1); });
  byId("bm-on").addEventListener("click", () => { play(false); goTo(position + 1); });
  for (const radio of document.querySelectorAll("input[name=bm-colour]")) {
    radio.addEventListener("change", () => paint(radio.value));
  }
  inDark.addEventListener("change", () => paint(colour));
  new MutationObserver(() => paint(colour)).observe(root, { attributeFilter: ["data-theme"] });
  addEventListener("resize", draw);

  // the fullest moment of all, to begin with
  const fullness = (time) => data.panels.reduce((sum, panel) => {
    const shares = panel.shares[snapshotAt(panel, time)] || [];
    return sum + shares.slice(0, 4).reduce((a, b) => a + b, 0);
  }, 0);
  const start = times.reduce((best, time, number) => fullness(time) > fullness(times[best]) ? number : best, 0);
  drawLegend();
  goTo(start);
  root.dataset.blockMap = "ready";
})();
