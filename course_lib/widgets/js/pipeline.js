// The pipeline timeline: producer and consumer warpgroups as lanes over time. simulate() is pipeline.py's, in the page;
// a test holds the two equal.

const SVG = "http://www.w3.org/2000/svg";
function element(namespace, name, attributes = {}, parent = null, text = "") {
  const node = namespace ? document.createElementNS(namespace, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  parent?.append(node);
  return node;
}
const svg = (name, attributes, parent, text) => element(SVG, name, attributes, parent, text);
const html = (name, attributes, parent, text) => element(null, name, attributes, parent, text);

export function simulate({ blocks, consumers, stages, load, qk, softmax, pv, mode }) {
  if (mode === "two-stage overlap" && stages < 2) return null; // two blocks are in use at a time
  const task = (lane, kind, block, left, needs) => ({ lane, kind, block, left, needs, start: null, end: null });
  const tasks = [], loads = [], products = {};
  for (let block = 0; block < blocks; block++) {
    const needs = loads.slice(-1);
    if (block >= stages) for (let lane = 1; lane <= consumers; lane++) needs.push(products[[lane, block - stages]]);
    loads.push(task(0, "load", block, load, needs));
    tasks.push(loads[block]);
    for (let lane = 1; lane <= consumers; lane++) products[[lane, block]] = task(lane, "PV", block, pv, []);
  }
  for (let lane = 1; lane <= consumers; lane++) {
    const scores = loads.map((from, block) => task(lane, "QK", block, qk, [from]));
    const weights = scores.map((from, block) => task(lane, "softmax", block, softmax, [from]));
    for (let block = 0; block < blocks; block++) {
      const product = products[[lane, block]];
      product.needs.push(weights[block]);
      if (block) {
        const last = products[[lane, block - 1]];
        weights[block].needs.push(weights[block - 1]);
        if (mode === "two-stage overlap") {
          scores[block].needs.push(weights[block - 1]);
          if (block > 1) scores[block].needs.push(products[[lane, block - 2]]);
          last.needs.push(scores[block]);
        } else scores[block].needs.push(last);
      }
      tasks.push(scores[block], weights[block], product);
    }
  }
  return run(tasks, mode === "ping-pong");
}

function run(tasks, exclusive) {
  const tensor = (t) => t.kind === "QK" || t.kind === "PV";
  let now = 0, waiting = [...tasks], running = [], queue = [];
  while (waiting.length || running.length || queue.length) {
    for (const t of waiting.filter((x) => x.needs.every((need) => need.end !== null))) {
      waiting = waiting.filter((x) => x !== t);
      if (tensor(t)) queue.push(t);
      else (t.start = now), running.push(t);
    }
    const busy = running.filter(tensor);
    while (queue.length && !(exclusive && busy.length)) {
      const t = queue.shift();
      t.start = now;
      running.push(t);
      busy.push(t);
    }
    const rate = (t) => (tensor(t) ? 1 / busy.length : 1);
    const step = Math.min(...running.map((t) => t.left / rate(t)));
    now += step;
    for (const t of running) {
      t.left -= step * rate(t);
      if (t.left <= 1e-9) t.end = now;
    }
    running = running.filter((t) => t.end === null);
  }
  return tasks
    .map(({ lane, kind, block, start, end }) => ({ lane, kind, block, start, end }))
    .sort((a, b) => a.start - b.start || a.lane - b.lane || a.end - b.end);
}

export function idleFraction(spans) {
  let busy = 0, reached = 0;
  const work = spans.filter((s) => s.kind === "QK" || s.kind === "PV").sort((a, b) => a.start - b.start || a.end - b.end);
  for (const { start, end } of work) {
    busy += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  return 1 - busy / Math.max(...spans.map((s) => s.end));
}

const NAMES = { load: "load K, V", QK: "QKᵀ", softmax: "softmax", PV: "PV" };

function render({ model, el }) {
  const data = model.get("data");
  el.classList.add("course-clickable");
  const root = html("div", { class: "pipeline", role: "application", "aria-label": data.alt }, el);
  const controls = html("div", { class: "controls" }, root);
  const choose = html("select", { "aria-label": "mode" }, html("label", {}, controls, "overlap "));
  for (const mode of data.modes) html("option", { value: mode }, choose, mode);
  const sliders = html("div", { class: "sliders" }, root);
  const values = { ...data.start };
  choose.value = values.mode;
  const LIMITS = { stages: [1, 4, 1], blocks: [2, 12, 1], consumers: [1, 3, 1], load: [0.5, 6, 0.5], qk: [0.5, 6, 0.5], softmax: [0.5, 6, 0.5], pv: [0.5, 6, 0.5] };
  const WORDS = { stages: "buffers", blocks: "blocks", consumers: "consumers", load: "load", qk: "QKᵀ", softmax: "softmax", pv: "PV" };
  for (const [name, [min, max, step]] of Object.entries(LIMITS)) {
    const label = html("label", {}, sliders);
    html("span", {}, label, WORDS[name]);
    const input = html("input", { type: "range", min, max, step, "aria-label": WORDS[name], "data-name": name }, label);
    input.value = values[name];
    const shown = html("output", {}, label, String(values[name]));
    input.addEventListener("input", () => {
      values[name] = Number(input.value);
      shown.textContent = input.value;
      draw();
    });
  }
  const words = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const message = html("div", { class: "message", role: "alert" }, root);
  const drawing = svg("svg", { role: "img", "aria-label": "lanes over time" }, root);
  const key = html("div", { class: "controls" }, root);
  for (const kind of Object.keys(NAMES)) {
    const item = html("span", {}, key, `■ ${NAMES[kind]}`);
    item.style.color = data.colors[kind];
    item.style.fontWeight = "bold";
  }
  html("span", {}, key, "□ waiting");

  function draw() {
    const spans = simulate(values);
    message.textContent = spans ? "" : "two-stage overlap needs at least 2 buffers: two blocks are in use at a time";
    if (!spans) return;
    const end = Math.max(...spans.map((s) => s.end));
    const lanes = values.consumers + 2, height = 46, left = 110, width = 860;
    const x = (time) => left + ((width - left - 24) * time) / end;
    drawing.replaceChildren();
    drawing.setAttribute("viewBox", `0 0 ${width} ${lanes * height + 34}`);
    const lane = (number, name) => {
      const y = number * height + 4;
      svg("text", { x: left - 10, y: y + 22, style: "text-anchor: end; font-size: 13px" }, drawing, name);
      svg("rect", { x: x(0), y, width: x(end) - x(0), height: height - 12, fill: "var(--clickable-line)", "fill-opacity": 0.25 }, drawing);
    };
    lane(0, "producer");
    for (let w = 1; w <= values.consumers; w++) lane(w, `warpgroup ${w}`);
    lane(lanes - 1, "tensor cores");
    const bar = (row, span, from, part) => {
      const y = row * height + 4 + from * (height - 12), w = x(span.end) - x(span.start);
      const box = svg("rect", { x: x(span.start), y, width: Math.max(1, w - 1), height: part * (height - 12), fill: data.colors[span.kind] }, drawing);
      svg("title", {}, box, `${NAMES[span.kind]} of block ${span.block}: ${span.start.toFixed(2)} to ${span.end.toFixed(2)}`);
      if (w > 30 && part > 0.6) svg("text", { x: x(span.start) + w / 2, y: y + 22, style: "fill: #fff; font-weight: bold" }, drawing,
        span.kind === "load" || w < 64 ? String(span.block) : `${NAMES[span.kind]} ${span.block}`);
    };
    for (const span of spans) {
      const beside = spans.some((s) => s !== span && s.lane === span.lane && s.start < span.end - 1e-9 && span.start < s.end - 1e-9);
      bar(span.lane, span, beside && span.kind === "softmax" ? 0.5 : 0, beside ? 0.5 : 1);
      if (span.kind === "QK" || span.kind === "PV") bar(lanes - 1, span, (span.lane - 1) / values.consumers, 1 / values.consumers);
    }
    const axis = lanes * height + 6;
    for (let i = 0; i <= 4; i++) svg("text", { x: x((end * i) / 4), y: axis + 16 }, drawing, `${((end * i) / 4).toFixed(1)}`);
    words.textContent = `tensor cores idle: ${(100 * idleFraction(spans)).toFixed(1)} % of ${end.toFixed(1)} units of time`;
  }
  choose.addEventListener("change", () => {
    values.mode = choose.value;
    draw();
  });
  draw();
}

export default { render };
