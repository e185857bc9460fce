// Draws the page's plots and keeps them in the reader's colour scheme.
// A colour in a specification is the name of a CSS variable, "--per", or "--per/0.16" for a part of
// its opacity; `resolve` puts in the value the variable has now.
(() => {
  "use strict";
  const plots = JSON.parse(document.getElementById("plot-data").textContent);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: false,
    scrollZoom: false,
  };

  const valueOf = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const resolve = (part) => {
    if (typeof part === "string" && part.startsWith("--")) {
      const [name, opacity] = part.split("/");
      const value = valueOf(name);
      if (!opacity) return value;
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
      return `rgba(${r},${g},${b},${opacity})`;
    }
    if (Array.isArray(part)) return part.map(resolve);
    if (part && typeof part === "object") {
      return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, resolve(value)]));
    }
    return part;
  };

  const hidden = (place) => place.closest("figure").hiddenGroups ?? new Set();

  const draw = (place) => {
    const { data, layout } = resolve(plots[Number(place.dataset.plot)]);
    for (const trace of data) trace.visible = !hidden(place).has(trace.legendgroup);
    layout.dragmode = coarse.matches ? false : "zoom";
    return Plotly.react(place, data, layout, config);
  };

  const places = [...document.querySelectorAll("[data-plot]")];

  // One plot a turn of the event loop: the text can be read and scrolled meanwhile.
  const drawAll = async () => {
    for (const place of places) {
      await draw(place);
      await new Promise((done) => setTimeout(done));
    }
    root.dataset.plots = "drawn";
  };

  const redraw = () => places.forEach((place) => draw(place));

  // A legend entry shows and hides its curve in every panel of its figure.
  for (const entry of document.querySelectorAll(".legend button")) {
    entry.addEventListener("click", () => {
      const figure = entry.closest("figure");
      figure.hiddenGroups ??= new Set();
      const shown = entry.getAttribute("aria-pressed") === "true";
      entry.setAttribute("aria-pressed", String(!shown));
      figure.hiddenGroups[shown ? "add" : "delete"](entry.dataset.group);
      figure.querySelectorAll("[data-plot]").forEach((place) => draw(place));
    });
  }

  dark.addEventListener("change", redraw);
  // Paper is white, whatever the screen is.
  addEventListener("beforeprint", () => { root.dataset.scheme = "light"; redraw(); });
  addEventListener("afterprint", () => { delete root.dataset.scheme; redraw(); });
  drawAll();
})();
