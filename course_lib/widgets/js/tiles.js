// The tile explorer: a trace of loads, stores and computations, replayed on a drawing of the matrices.
// All data comes from Python (tiles.py); nothing here computes attention, and nothing is fetched.

const OPS = ["load", "store", "tile", "free", "compute"];
const number = (x) => x.toLocaleString("en-US");
const ink = (colour) => (colour === "#000000" ? "var(--clickable-ink)" : colour);

// --- replaying the trace ---

// What is on the chip after each event, and the bytes and tiles moved so far, for every step at once.
function replay(run) {
  const resident = new Map();
  const states = [{ resident: [], sram: 0, moved: {} }];
  let moved = {};
  for (const [op, name, , , , , bytes, sram] of run.events) {
    const kind = OPS[op];
    if (kind === "load" || kind === "tile") resident.set(name, bytes);
    if (kind === "free") resident.delete(name);
    if (kind === "load" || kind === "store") {
      const tensor = name.split("[")[0];
      const old = moved[tensor] ?? { loads: 0, stores: 0, read: 0, written: 0 };
      const now = { ...old };
      if (kind === "load") (now.loads += 1), (now.read += bytes);
      else (now.stores += 1), (now.written += bytes);
      moved = { ...moved, [tensor]: now };
    }
    states.push({ resident: [...resident.entries()], sram, moved });
  }
  return states;
}

// --- drawing the matrices ---

// Rows of names, as the product is written: A, B above C; Q, K above S, V above O.
const LAYOUT = {
  matmul: [[null, "B"], ["A", "C"]],
  attention: [[null, "K", null, "V"], ["Q", "S", "P", "O", "m", "l", "L"]],
};

function drawMatrices(run, colors, parent, width, height) {
  const tensors = Object.fromEntries(run.tensors.map((t) => [t.name, t]));
  const shape = (t) => (t.transposed ? [t.cols, t.rows] : [t.rows, t.cols]);
  const layout = LAYOUT[run.kind].map((row) => row.map((name) => (tensors[name] ? name : null)));
  const columns = Math.max(...layout.map((row) => row.length));
  const wide = Array.from({ length: columns }, (_, c) =>
    Math.max(0, ...layout.map((row) => (row[c] ? shape(tensors[row[c]])[1].length : 0))));
  const high = layout.map((row) => Math.max(0, ...row.map((name) => (name ? shape(tensors[name])[0].length : 0))));
  const used = wide.filter((x) => x > 0).length;
  const gap = 30;
  const unit = Math.max(7, Math.min(56, (width - gap * (used + 1)) / wide.reduce((a, b) => a + b), (height - 90) / high.reduce((a, b) => a + b)));
  const drawing = svg("svg", { role: "group", "aria-label": `matrices of ${run.name}` });
  const tiles = new Map();
  let bottom = 0, right = 0, y = 22;
  layout.forEach((row, r) => {
    let x = 26;
    row.forEach((name, c) => {
      if (!wide[c]) return;
      if (name) {
        const tensor = tensors[name];
        const [rows, cols] = shape(tensor);
        const top = r === 0 ? y + (high[0] - rows.length) * unit : y;
        const label = name + (tensor.transposed ? "ᵀ" : "") + (tensor.hbm ? "" : " (on chip)");
        svg("text", { x: x + (cols.length * unit) / 2, y: top - 7, class: "name" }, drawing, label);
        rows.forEach((_, i) => cols.forEach((_, j) => {
          const box = svg("rect", {
            x: x + j * unit, y: top + i * unit, width: unit - 2, height: unit - 2, rx: 3, class: "cell",
            stroke: ink(colors[name] ?? "#8A8A8A"), fill: ink(colors[name] ?? "#8A8A8A"), tabindex: -1, role: "button",
          }, drawing);
          const [a, b] = tensor.transposed ? [j, i] : [i, j];
          const key = `${name}:${a},${b}`;
          const words = tensor.cols.length === 1 ? `${name}${a}` : `${name}(${a},${b})`;
          box.setAttribute("aria-label", `tile ${words}`);
          box.dataset.tile = key;
          if (rows.length * cols.length <= 64) box.setAttribute("tabindex", 0);
          if (unit >= 26) {
            svg("text", { x: x + (j + 0.5) * unit - 1, y: top + (i + 0.5) * unit + 4, class: "index" }, drawing,
              tensor.cols.length === 1 ? `${a}` : `${a},${b}`);
          }
          tiles.set(key, box);
        }));
        right = Math.max(right, x + cols.length * unit);
        bottom = Math.max(bottom, top + rows.length * unit);
      }
      x += wide[c] * unit + gap;
    });
    y += high[r] * unit + 34;
  });
  drawing.setAttribute("viewBox", `0 0 ${right + 14} ${bottom + 10}`);
  drawing.style.width = `${Math.min(width, right + 14)}px`;
  parent.append(drawing);
  return tiles;
}

// --- one algorithm: its matrices, its chip, its counters, its code ---

class View {
  constructor(run, colors, parent, [width, height], withCode, jump) {
    this.run = run;
    this.colors = colors;
    this.states = replay(run);
    this.length = run.events.length;
    this.lit = [];
    this.root = html("div", { class: "view" }, parent);
    const left = html("div", { class: "matrices" }, this.root);
    html("div", { class: "title" }, left, run.name);
    this.tiles = drawMatrices(run, colors, left, width, height);
    for (const [key, box] of this.tiles) {
      box.addEventListener("click", () => jump(this, key));
      box.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") event.preventDefault(), event.stopPropagation(), jump(this, key);
      });
    }
    const side = html("div", { class: "side" }, this.root);
    this.event = html("div", { class: "event", role: "status", "aria-live": "polite" }, side);
    this.chip = html("div", { class: "chip" }, side);
    this.table = html("table", { class: "counters" }, side);
    this.detail = html("div", { class: "detail" }, side);
    if (withCode) {
      this.code = html("pre", { class: "code", "aria-label": "the algorithm" }, side);
      this.lines = run.code.map((line) => html("span", {}, this.code, line + "\n"));
    }
    const head = html("tr", {}, html("thead", {}, this.table));
    for (const words of ["", "loads", "bytes read", "stores", "bytes written"]) html("th", {}, head, words);
    const body = html("tbody", {}, this.table);
    this.cells = {};
    for (const tensor of run.tensors.filter((t) => t.hbm)) {
      const row = html("tr", { "data-tensor": tensor.name }, body);
      html("th", {}, row, tensor.name).style.borderLeftColor = ink(colors[tensor.name] ?? "#8A8A8A");
      this.cells[tensor.name] = ["loads", "read", "stores", "written"].map((what) => html("td", { "data-count": what }, row, "0"));
    }
  }

  show(step) {
    this.step = Math.max(0, Math.min(step, this.length));
    const state = this.states[this.step];
    const event = this.run.events[this.step - 1];
    for (const box of this.lit) box.setAttribute("class", "cell");
    this.lit = [];
    const mark = (name, type) => {
      for (const key of this.run.places[name] ?? []) {
        const box = this.tiles.get(key);
        if (box) box.setAttribute("class", `${box.getAttribute("class")} ${type}`), this.lit.push(box);
      }
    };
    for (const [name] of state.resident) {
      mark(name, "held");
      const accumulator = name === "O_i" ? this.tiles.get(`O:${event[10]},0`) : null;
      if (accumulator) accumulator.setAttribute("class", "cell held"), this.lit.push(accumulator);
    }
    if (event && OPS[event[0]] === "load") mark(event[1], "loading");
    if (event && OPS[event[0]] === "store") mark(event[1], "storing");
    this.showNeeds(event, state);
    const pair = this.run.pairs[this.step];
    const current = pair ? this.tiles.get(`S:${pair[0]},${pair[1]}`) : null;
    if (current) current.setAttribute("class", `${current.getAttribute("class")} held`), this.lit.push(current);
    this.showChip(state);
    for (const [name, cells] of Object.entries(this.cells)) {
      const moved = state.moved[name] ?? { loads: 0, read: 0, stores: 0, written: 0 };
      [moved.loads, moved.read, moved.stores, moved.written].forEach((value, i) => {
        const whole = this.run.tensors.find((t) => t.name === name).bytes;
        const words = value === 0 ? "" : i % 2 ? `${number(value)} = ${Number((value / whole).toPrecision(3))}×` : number(value);
        if (cells[i].textContent !== words) cells[i].textContent = words;
      });
    }
    this.showCode(event);
    this.showEvent(event);
    this.showDetail(pair);
  }

  // While a tile of C is computed: its row of A and its column of B, and the sum on the chip.
  showNeeds(event, state) {
    const tile = event ? this.run.groups[event[9]].tile : null;
    if (!tile) return;
    const [i, j] = tile;
    for (const [key, box] of this.tiles) {
      const [name, at] = key.split(":");
      const [row, col] = at.split(",").map(Number);
      const mine = (name === "A" && row === i) || (name === "B" && col === j) || (name === "C" && row === i && col === j);
      if (!mine) continue;
      const held = name === "C" && state.resident.some(([part]) => part === "acc");
      box.setAttribute("class", `${box.getAttribute("class")} needed${held ? " held" : ""}`);
      this.lit.push(box);
    }
  }

  showChip(state) {
    const room = this.run.sram;
    const full = room ? ` of ${number(room)}` : "";
    const total = room ?? Math.max(...this.states.map((s) => s.sram), 1);
    this.chip.replaceChildren();
    html("div", { class: "caption" }, this.chip, `SRAM: ${number(state.sram)}${full} bytes`);
    const bar = html("div", { class: "bar" }, this.chip);
    for (const [name, bytes] of state.resident) {
      const part = html("span", { title: `${name}: ${number(bytes)} bytes` }, bar, name.split("[")[0]);
      part.style.width = `${(100 * bytes) / total}%`;
      part.style.setProperty("--colour", ink(this.colors[name.split(/[[_]/)[0]] ?? "#8A8A8A"));
    }
  }

  showEvent(event) {
    const words = event ? this.say(event) : "before the first step";
    if (this.event.textContent !== words) this.event.textContent = words;
  }

  // One step in words.
  say([op, name, , , , , bytes, , , , , kind]) {
    const size = `${number(bytes)} bytes`;
    if (OPS[op] === "load") return `load ${name}: ${size} from HBM`;
    if (OPS[op] === "store") return `store ${name}: ${size} to HBM`;
    if (OPS[op] === "tile") return `${name} takes ${size} on the chip`;
    if (OPS[op] === "free") return `${name} leaves the chip`;
    return `compute: ${kind}`;
  }

  showCode(event) {
    if (!this.code || (event && OPS[event[0]] === "free")) return;
    const line = event ? this.lines[event[8] - this.run.first_line] : null;
    if (line === this.marked) return;
    this.marked?.classList.remove("now");
    line?.classList.add("now");
    if (line) this.code.scrollTop = line.offsetTop - this.code.offsetTop - this.code.clientHeight / 2;
    this.marked = line;
  }

  showDetail(pair) {
    const words = this.run.kind === "matmul" ? this.terms() : this.scores(pair ?? this.lastPair());
    if (words !== this.words) this.detail.replaceChildren(...words.split("\n").map((line) => html("div", {}, null, line)));
    this.words = words;
  }

  // The products that have entered the tile of C at hand.
  terms() {
    const event = this.run.events[this.step - 1];
    const group = event ? this.run.groups[event[9]] : null;
    if (!group?.tile) return "click a tile of C";
    const [i, j] = group.tile;
    const passed = this.run.events.slice(group.begin, this.step).map((e) => OPS[e[0]]);
    const entered = passed.filter((op) => op === "compute").length;
    const lines = [`C(${i},${j}) =`];
    for (let k = 0; k < entered; k++) lines.push(`term ${k + 1}: A(${i},${k})·B(${k},${j})${group.terms ? ` = ${group.terms[k]}` : ""}`);
    if (passed.includes("store")) lines.push(`sum${group.sum ? ` = ${group.sum}` : ", stored"}`);
    return lines.join("\n");
  }

  // The block of S that was at hand last, going back from this step.
  lastPair() {
    for (let step = this.step; step > 0; step--) if (this.run.pairs[step]) return this.run.pairs[step];
    return null;
  }

  // The block of scores at hand, with m, l and the correction of its rows.
  scores(pair) {
    if (!pair) return "click a block of S";
    const [i, j] = pair;
    const found = this.run.details[`${i},${j}`];
    const lines = [`S(${i},${j}) = Q${i} K${j}ᵀ${this.run.scaled ? " / √d" : ""}`];
    if (!found) return `${lines[0]}\n(blocks of this size are not shown as numbers)`;
    if (found.m) lines[0] += ", and after this block:";
    found.s.forEach((row, r) => {
      const old = j === 0 || !found.m ? "" : `   old l and O × ${found.factor[r]}`;
      lines.push(`[${row.join("  ")}]${found.m ? `   m = ${found.m[r]}   l = ${found.l[r]}${old}` : ""}`);
    });
    return lines.join("\n");
  }
}

// --- the widget ---

function render({ model, el }) {
  const data = model.get("data");
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "tiles", tabindex: 0, role: "application", "aria-label": data.alt }, el);
  const bar = html("div", { class: "course-bar" }, root);
  const stage = html("div", { class: "stage" }, root);
  const legend = html("div", { class: "legend" }, root);
  for (const [look, words] of [["held", "on the chip"], ["loading", "being loaded"], ["storing", "being stored"], ["needed", "needed for this tile of C"]]) {
    if (look === "needed" && data.runs[0].kind !== "matmul") continue;
    const drawing = svg("svg", { width: 22, height: 18, "aria-hidden": "true" }, legend);
    svg("rect", { x: 4, y: 3, width: 13, height: 12, rx: 3, class: `cell ${look}`, stroke: "#0072B2", fill: "#0072B2" }, drawing);
    html("span", {}, legend, words);
  }
  let views = [], step = 0, stop = Infinity, timer = null;

  const button = (words, label, act) => {
    const node = html("button", { type: "button", "aria-label": label, title: label }, bar, words);
    node.addEventListener("click", act);
    return node;
  };
  const choose = html("select", { "aria-label": "algorithm" }, bar);
  data.runs.forEach((run, i) => html("option", { value: i }, choose, run.name));
  if (data.runs.length > 1) html("option", { value: "both" }, choose, data.runs.map((run) => run.name).join(" beside "));
  if (data.runs.length === 1) choose.hidden = true;
  button("|◀", "to the start (Home)", () => move(0));
  button("◀", "one step back (left arrow)", () => move(step - 1));
  const play = button("▶ play", "play or pause (space)", () => (timer ? pause() : start(Infinity)));
  button("▶", "one step forward (right arrow)", () => move(step + 1));
  const scrub = html("input", { type: "range", min: 0, value: 0, "aria-label": "step" }, bar);
  const where = html("span", { class: "where" }, bar);
  const speed = html("select", { "aria-label": "steps a second" }, bar);
  for (const rate of [1, 4, 15, 60]) html("option", { value: rate }, speed, `${rate} steps/s`);
  speed.value = 4;

  function show(to) {
    const last = Math.max(...views.map((view) => view.length));
    step = Math.max(0, Math.min(to, last));
    for (const view of views) view.show(step);
    scrub.value = step;
    scrub.setAttribute("aria-valuetext", `step ${step} of ${last}: ${views[0].event.textContent}`);
    where.textContent = `${number(step)} / ${number(last)}`;
    if (step >= Math.min(stop, last)) pause();
  }
  function move(to) {
    pause();
    show(to);
  }
  function pause() {
    cancelAnimationFrame(timer);
    timer = null;
    stop = Infinity;
    play.textContent = "▶ play";
  }
  function start(until) {
    pause();
    stop = until;
    if (step >= Math.max(...views.map((view) => view.length))) show(0);
    play.textContent = "❚❚ pause";
    let before = null;
    const tick = (now) => {
      before ??= now;
      const rate = Number(speed.value);
      const due = Math.floor(((now - before) / 1000) * rate + 0.05); // a frame may come a little early
      if (due > 0) (before += (due * 1000) / rate), show(Math.min(step + due, stop));
      if (timer !== null) timer = requestAnimationFrame(tick);
    };
    timer = requestAnimationFrame(tick);
  }
  // A click on a tile: go to where it is used, and play what belongs to it.
  function jump(view, key) {
    const target = view.run.targets[key];
    if (!target) return;
    move(target.begin);
    if (target.end > target.begin) start(target.end);
  }
  function build() {
    pause();
    const both = choose.value === "both";
    const runs = both ? data.runs : [data.runs[Number(choose.value)]];
    stage.replaceChildren();
    stage.classList.toggle("both", both);
    views = runs.map((run) => new View(run, data.colors, stage, both ? [380, 330] : [440, 430], !both, jump));
    scrub.max = Math.max(...views.map((view) => view.length));
    show(0);
  }

  choose.addEventListener("change", build);
  scrub.addEventListener("input", () => move(Number(scrub.value)));
  root.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => move(step + 1), ArrowLeft: () => move(step - 1), Home: () => move(0), End: () => move(Infinity) };
    if (event.key === " " && event.target.tagName !== "BUTTON") act[" "] = () => play.click();
    if (!act[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    act[event.key]();
  });
  build();
  return pause;
}

export default { render };
