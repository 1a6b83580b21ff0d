/** Elements made in one expression. Text is always text: nothing in Studio writes HTML. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element: attributes by name, listeners as `onclick`, children as elements, texts or null. */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The one element that a selector names. */
export function one(selector, within = document) {
  return within.querySelector(selector);
}

/** Put a value into a field, unless somebody is typing there. */
export function put(field, value) {
  if (field !== document.activeElement) field.value = value;
}

/** Text for screen readers only. */
export function unseen(text) {
  return html("span", { class: "unseen" }, text);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}
