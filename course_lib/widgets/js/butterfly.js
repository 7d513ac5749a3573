// The fast Hadamard rotation of one row: signs, then stages of sums and differences of two numbers.

const text = (x) => String(Number(x.toPrecision(3))).replaceAll("-", "−");

// Columns: the row, the row with signs, then each stage. quantize.butterflies is the model.
export function columns(row, signs) {
  const found = [row, row.map((x, i) => x * signs[i])];
  for (let half = 1; half < row.length; half *= 2) {
    const last = found.at(-1);
    found.push(last.map((x, i) => ((i & half ? last[i - half] - x : x + last[i + half]) / Math.SQRT2)));
  }
  return found;
}
// The share (+1, −1 or 0) of each number of the signed row in number i of a column.
export function shares(i, stage, length) {
  const width = 2 ** stage;
  return Array.from({ length }, (_, j) => {
    if (Math.floor(i / width) !== Math.floor(j / width)) return 0;
    let odd = 0;
    for (let both = i & j & (width - 1); both; both >>= 1) odd ^= both & 1;
    return odd ? -1 : 1;
  });
}

function render({ model, el }) {
  const data = model.get("data"), d = data.row.length, stages = Math.log2(d);
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "butterfly", role: "group", "aria-label": data.alt }, el);
  const controls = html("div", { class: "course-bar" }, root);
  const button = (words, act) => html("button", { type: "button" }, controls, words).addEventListener("click", act);
  const label = html("label", {}, controls, "outlier × ");
  const slider = html("input", { type: "range", min: 0, max: 10, step: 1, "aria-label": "size of an outlier" }, label);
  const sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
  slider.value = sizes.reduce((best, size, i) => (Math.abs(size - data.size) < Math.abs(sizes[best] - data.size) ? i : best), 0);
  let size = data.size;
  const shown = html("output", { class: "where" }, label, text(size));
  button("new signs", () => { signs = signs.map(() => (Math.random() < 0.5 ? -1 : 1)); draw(); });
  button("all signs +", () => { signs = signs.map(() => 1); draw(); });
  let signs = data.row.map(() => 1), large = new Set([data.outlier]), chosen = [stages + 1, 0];
  const words = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const drawing = wideSvg(860, { viewBox: `0 0 860 ${d * 38 + 96}`, role: "group", "aria-label": data.alt }, root);
  html("div", { class: "legend" }, root, "Click the row: an outlier comes or goes. Click the second column: a sign flips. Click any other number: what is it made of?");

  function draw() {
    const at = document.activeElement?.dataset?.cell;
    const all = columns(data.row.map((x, i) => (large.has(i) ? x * size : x)), signs);
    const made = chosen[0] >= 1 ? shares(chosen[1], chosen[0] - 1, d) : [];
    const width = Math.min(112, 860 / all.length - 40), step = (844 - width) / (all.length - 1), x = (c) => 8 + c * step, y = (i) => 34 + i * 38;
    drawing.replaceChildren();
    for (let c = 2; c < all.length; c++) {
      const half = 2 ** (c - 2);
      for (let i = 0; i < d; i++) for (const j of [i, i ^ half]) {
        const part = chosen[0] >= c && inCone(c, i);
        svg("line", { x1: x(c - 1) + width, y1: y(j) + 15, x2: x(c), y2: y(i) + 15, "stroke-width": part ? 2.5 : 1,
          stroke: part ? (i & half && j === i ? "#e69f00" : "#0072b2") : "var(--clickable-line)" }, drawing);
      }
    }
    all.forEach((column, c) => {
      const name = c === 0 ? "row" : c === 1 ? "with signs" : c === all.length - 1 ? "rotated" : `stage ${c - 1}`;
      svg("text", { x: x(c) + width / 2, y: 20, class: "name" }, drawing, name);
      const top = Math.max(...column.map(Math.abs)), scale = Math.max(...all[0].map(Math.abs));
      column.forEach((value, i) => {
        const cell = svg("g", { class: "cell", tabindex: 0, role: "button", "data-cell": `${c},${i}`, "aria-label": `${name}, number ${i + 1}: ${text(value)}` }, drawing);
        cell.style.fillOpacity = 1;
        const share = c === 1 && made[i] ? (made[i] > 0 ? "#0072b2" : "#e69f00") : null;
        const here = c === chosen[0] && i === chosen[1];
        svg("rect", { x: x(c), y: y(i), width, height: 30, fill: "var(--clickable-paper)", stroke: here ? "#d55e00" : share ?? "var(--clickable-line)", "stroke-width": here || share ? 3.5 : 1 }, cell);
        svg("rect", { x: x(c) + 2, y: y(i) + 2, height: 26, width: Math.max(0, (width - 4) * Math.abs(value) / scale), fill: "#009e73", "fill-opacity": 0.45 }, cell);
        svg("text", { x: x(c) + width / 2, y: y(i) + 20 }, cell, text(value));
        const act = () => {
          if (c === 0) large.has(i) ? large.delete(i) : large.add(i);
          else if (c === 1) signs[i] *= -1;
          else chosen = [c, i];
          draw();
        };
        cell.addEventListener("click", act);
        cell.addEventListener("keydown", (event) => {
          const move = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
          if (!move && event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          event.stopPropagation();
          if (move) drawing.querySelector(`[data-cell="${c + move[0]},${i + move[1]}"]`)?.focus();
          else act();
        });
      });
      const squares = column.reduce((sum, value) => sum + value * value, 0);
      for (const [line, said] of [[0, `largest ${text(top)}`], [1, `int8 step ${text(top / 127)}`], [2, `Σx² ${text(squares)}`]])
        svg("text", { x: x(c) + width / 2, y: y(d) + 14 + 18 * line, "data-column": c, style: line === 1 ? "font-weight: bold" : "" }, drawing, said);
    });
    const terms = made.map((share, j) => share * all[1][j]).filter((_, j) => made[j]).map((value) => `${value < 0 ? "−" : "+"} ${text(Math.abs(value))}`);
    words.textContent = `${text(all[chosen[0]][chosen[1]])} = (${terms.join(" ").replace(/^\+ /, "")}) / √${2 ** (chosen[0] - 1)}`;
    if (at) drawing.querySelector(`[data-cell="${at}"]`)?.focus();
  }
  // Whether number i of column c feeds the chosen one.
  function inCone(c, i) {
    const same = ~(2 ** (chosen[0] - 1) - 1) | (2 ** (c - 1) - 1); // the stages between mix the other bits of the index
    return (i & same) === (chosen[1] & same);
  }
  slider.addEventListener("input", () => {
    size = sizes[Number(slider.value)];
    shown.textContent = text(size);
    draw();
  });
  draw();
}

export default { render };
