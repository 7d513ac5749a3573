// Makes elements of HTML and SVG. Stands before each picture's own module (clickable.py).

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
// A drawing whose letters are 13 pixels high at its full width: where there is less room it scrolls, rather than have letters below 10.
const wideSvg = (width, attributes, parent) =>
  svg("svg", { style: `min-width: ${0.78 * width}px`, ...attributes }, html("div", { class: "drawing" }, parent));

