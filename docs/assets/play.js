/* The picture to play with, on "Understand". No library, nothing fetched.

   One group of N entries: a share p of them paid R, the others 0. Q is the value of the group, so TD
   errors are R - Q and -Q. `shares` gives, for each way to replay, how often the rare outcome is
   drawn and the mean target after importance weights. tests/browser/test_site.py compares it with
   the laws of real buffers. */
"use strict";

const replayPicture = (() => {
  const N = 1000;
  const EPSILON = 1e-6; // added to |TD error|, as the library does
  const FLOOR = 1; // LAP's

  /* Rare share and mean target of two kinds of entries with these masses, drawn in proportion to
     mass and weighted by mass^-beta. Masses may differ within a kind: lists. */
  function drawn(rare, common, beta, reward) {
    const sum = (list, power) => list.reduce((total, [mass, n]) => total + n * mass ** power, 0);
    const share = sum(rare, 1) / (sum(rare, 1) + sum(common, 1));
    const pull = sum(rare, 1 - beta);
    return { share, target: (reward * pull) / (pull + sum(common, 1 - beta)) };
  }

  function ranked(from, to, alpha) {
    const masses = [];
    for (let rank = from; rank <= to; rank += 1) masses.push([rank ** -alpha, 1]);
    return masses;
  }

  function shares({ p, R, alpha, beta, Q }) {
    const rare = Math.round(p * N);
    const common = N - rare;
    const far = Math.abs(R - Q);
    const near = Math.abs(Q);
    const mass = (error) => (error + EPSILON) ** alpha;
    const lap = (error) => Math.max(error, FLOOR) ** alpha;
    const first = far > near; // the rare entries have the first ranks
    return {
      happened: { share: rare / N, target: (rare / N) * R },
      PER: drawn([[mass(far), rare]], [[mass(near), common]], beta, R),
      rank: first
        ? drawn(ranked(1, rare, alpha), ranked(rare + 1, N, alpha), beta, R)
        : drawn(ranked(common + 1, N, alpha), ranked(1, common, alpha), beta, R),
      LAP: drawn([[lap(far), rare]], [[lap(near), common]], 0, R),
      SAMPLE: { share: rare / N, target: (rare / N) * R },
    };
  }

  const SLIDERS = [
    ["p", "chance p of the rare outcome", 0.001, 0.2, 0.001, 0.01, (x) => `${(100 * x).toFixed(1)} %`],
    ["R", "its reward R", -100, 100, 1, 100, (x) => x.toFixed(0)],
    ["alpha", "α, how much priority counts", 0, 1, 0.05, 0.6, (x) => x.toFixed(2)],
    ["beta", "β, how much weights take back", 0, 1, 0.05, 0.4, (x) => x.toFixed(2)],
    ["Q", "present value Q of the group", -20, 20, 0.5, 1, (x) => x.toFixed(1)],
  ];
  const ROWS = [
    ["happened", "what happened"],
    ["PER", "PER"],
    ["rank", "rank-based PER"],
    ["LAP", "LAP"],
    ["SAMPLE", "SAMPLE"],
  ];

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...children);
    return made;
  }

  function bars(title, what) {
    const chart = element("div", { class: "play-bars", role: "group", "aria-label": title });
    chart.append(element("p", { class: "play-title" }, title));
    ROWS.forEach(([name, words]) => {
      const bar = element("div", { class: `play-bar play-${name}` });
      const number = element("span", { class: "play-number", "data-of": `${name}-${what}` });
      const track = element("div", { class: "play-track" }, bar);
      chart.append(element("div", { class: "play-row" }, element("span", {}, words), track, number));
    });
    return chart;
  }

  function draw(place, inputs) {
    const at = Object.fromEntries(inputs.map((input) => [input.name, Number(input.value)]));
    const found = shares(at);
    const largest = Math.max(...ROWS.map(([name]) => Math.abs(found[name].target)), 1e-9);
    ROWS.forEach(([name]) => {
      const { share, target } = found[name];
      const show = (what, width, text) => {
        const number = place.querySelector(`[data-of="${name}-${what}"]`);
        number.textContent = text;
        number.previousSibling.firstChild.style.width = `${100 * width}%`;
      };
      show("share", share, `${(100 * share).toFixed(1)} %`);
      show("target", Math.abs(target) / largest, target.toFixed(2).replace("-", "−"));
    });
  }

  function build(place) {
    const inputs = [];
    const controls = element("div", { class: "play-controls" });
    SLIDERS.forEach(([name, words, min, max, step, value, text]) => {
      const input = element("input", { type: "range", name, min, max, step, value });
      const output = element("output", {}, text(value));
      input.addEventListener("input", () => {
        output.textContent = text(Number(input.value));
        draw(place, inputs);
      });
      inputs.push(input);
      controls.append(element("label", {}, element("span", {}, words, " ", output), input));
    });
    place.replaceChildren(
      controls,
      bars("How often the rare outcome is replayed", "share"),
      bars("Mean target after importance weights", "target"),
    );
    draw(place, inputs);
  }

  const place = document.getElementById("play");
  if (place) build(place);
  return { shares };
})();
window.replayPicture = replayPicture;
