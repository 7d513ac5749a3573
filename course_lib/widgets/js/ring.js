// Attention on a ring of ranks, step by step: which queries meet which keys, who works, who waits.

// The rank that owns each token; model.parallel.owners is the model.
export function owners(order, ranks, length) {
  return Array.from({ length }, (_, i) => {
    if (order === "striped") return i % ranks;
    if (order === "contiguous") return Math.floor(i / (length / ranks));
    const piece = Math.floor(i / (length / (2 * ranks)));
    return Math.min(piece, 2 * ranks - 1 - piece);
  });
}
// Pairs of a query and a key, [step][rank], as model.parallel.step_pairs.
export function stepPairs(owner, ranks, causal) {
  const found = Array.from({ length: ranks }, () => Array(ranks).fill(0));
  owner.forEach((r, i) => owner.forEach((s, j) => { if (!causal || j <= i) found[(r - s + ranks) % ranks][r] += 1; }));
  return found;
}

function render({ model, el }) {
  const data = model.get("data"), n = data.length;
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "ring", role: "group", "aria-label": data.alt }, el);
  const bar = html("div", { class: "course-bar" }, root);
  const select = (words, options, value) => {
    const node = html("select", { "aria-label": words }, html("label", {}, bar, `${words} `));
    for (const option of options) html("option", { value: option }, node, option);
    node.value = value;
    node.addEventListener("change", () => { step = 0; chosen = null; draw(); });
    return node;
  };
  let step = 0, chosen = null;
  const order = select("order", data.orders, data.order);
  const ranks = select("ranks", data.ranks, data.start);
  const mask = select("mask", ["causal", "none"], "causal");
  const button = (words, label, by) => {
    const node = html("button", { type: "button", "aria-label": label, title: label }, bar, words);
    node.addEventListener("click", () => walk(by));
  };
  button("◀", "the step before (left arrow)", -1);
  const where = html("output", { class: "where" }, bar);
  button("▶", "the next step (right arrow)", 1);
  const drawing = wideSvg(860, { viewBox: "0 0 860 430", role: "group", "aria-label": data.alt }, root);
  const said = html("div", { class: "said" }, root);
  const words = html("div", { class: "formula", role: "status", "aria-live": "polite" }, said);
  html("div", { class: "legend" }, said, "Strong: multiplied at this step. Pale: done. Empty: to come. Dots: hidden by the mask. Dashed: waiting. Click a rank to see it alone.");

  const walk = (by) => {
    step = Math.min(Number(ranks.value) - 1, Math.max(0, step + by));
    draw();
  };
  function draw() {
    const P = Number(ranks.value), causal = mask.value === "causal", owner = owners(order.value, P, n);
    const pairs = stepPairs(owner, P, causal), now = pairs[step], busiest = Math.max(...now);
    const at = document.activeElement?.dataset?.rank, size = 24, left = 42, top = 42, shade = (r) => data.colors[r];
    drawing.replaceChildren();
    svg("text", { x: left + (n * size) / 2, y: 14, class: "name" }, drawing, "keys");
    svg("text", { x: 9, y: top + (n * size) / 2, class: "name", transform: `rotate(-90 12 ${top + (n * size) / 2})` }, drawing, "queries");
    owner.forEach((r, i) => {
      svg("rect", { x: left + i * size, y: top - 16, width: size - 2, height: 12, fill: shade(r) }, drawing);
      svg("rect", { x: left - 16, y: top + i * size, width: 12, height: size - 2, fill: shade(r) }, drawing);
      owner.forEach((s, j) => {
        const x = left + j * size, y = top + i * size, when = (r - s + P) % P, other = chosen !== null && chosen !== r;
        if (causal && j > i) {
          svg("circle", { cx: x + size / 2 - 1, cy: y + size / 2 - 1, r: 1.5, fill: "var(--clickable-line)" }, drawing);
          return;
        }
        const strong = when === step, fill = when > step ? "none" : shade(r);
        svg("rect", {
          x, y, width: size - 2, height: size - 2, fill, stroke: "var(--clickable-line)", "stroke-width": 0.7,
          "fill-opacity": other ? 0.06 : strong ? 1 : 0.22, "data-cell": `${i},${j}`, "data-strong": strong,
        }, drawing);
      });
    });
    const x0 = 540, wide = 312, tall = Math.min(44, 208 / P), unit = wide / Math.max(...pairs.flat());
    svg("text", { x: x0 + wide / 2, y: 14, class: "name" }, drawing, "this step");
    now.forEach((count, r) => {
      const y = top + r * tall, source = (r - step + P) % P;
      const label = count === 0 ? "waits" : count < busiest ? `${count}, then waits` : `${count}`;
      const row = svg("g", { tabindex: 0, role: "button", "data-rank": r, "aria-pressed": chosen === r, style: "cursor: pointer",
        "aria-label": `Q${r} meets K${source} ${label}: rank ${r}, keys of rank ${source}, ${count} pairs` }, drawing);
      svg("rect", { x: x0 - 108, y, width: wide + 108, height: tall - 3, fill: "transparent" }, row);
      svg("text", { x: x0 - 58, y: y + tall / 2 + 3, style: `font-size: 15px; font-weight: ${chosen === r ? "bold" : "normal"}` }, row, `Q${r} meets K${source} `);
      svg("rect", { x: x0, y: y + 2, width: count * unit, height: tall - 8, fill: shade(r) }, row);
      if (count < busiest) svg("rect", { x: x0 + count * unit, y: y + 2, width: (busiest - count) * unit, height: tall - 8, fill: "none", stroke: shade(r), "stroke-dasharray": "4 4" }, row);
      svg("text", { x: x0 + 6, y: y + tall / 2 + 3, style: "text-anchor: start; font-size: 16px; paint-order: stroke; stroke: var(--clickable-paper); stroke-width: 3px" }, row, label);
      const act = () => { chosen = chosen === r ? null : r; draw(); };
      row.addEventListener("click", act);
      row.addEventListener("keydown", (event) => {
        const to = { ArrowUp: r - 1, ArrowDown: r + 1 }[event.key];
        if (to === undefined && event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        if (to === undefined) act();
        else drawing.querySelector(`[data-rank="${to}"]`)?.focus();
      });
    });
    const sum = (x) => x.reduce((a, b) => a + b, 0), so = pairs.slice(0, step + 1);
    const worked = sum(so.map(sum)), lasted = sum(so.map((x) => Math.max(...x)));
    where.textContent = `step ${step + 1} of ${P}`;
    words.textContent = `So far the ranks have worked ${Math.round((100 * worked) / (P * lasted))} % of the time: ${worked} pairs in ${P} × ${lasted} places.`;
    if (at !== undefined) drawing.querySelector(`[data-rank="${at}"]`)?.focus();
  }
  root.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    walk(by);
  });
  draw();
}

export default { render };
