// Elements, numbers and files. Text always goes in as text, never as HTML.

export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const find = (name) => document.getElementById(name);

// New contents of an element; what had the focus and is still there, by its name or its words, keeps it
export function fill(node, ...children) {
  const held = node.contains(document.activeElement) ? document.activeElement : null;
  node.replaceChildren(...children.flat().filter(Boolean));
  if (!held || held === node || node.contains(held)) return;
  const same = (other) => (held.name ? other.name === held.name : other.textContent === held.textContent);
  [...node.querySelectorAll(held.tagName)].find(same)?.focus({ preventScroll: true });
}

// A picture of the server, which wrote it from data and escaped it
export function picture(text) {
  const node = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return document.importNode(node, true);
}

export const THIN = "\u202f";

// A number for people: thin spaces between thousands, no more digits than matter
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return String(value).replace("-", "−").replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  const size = Math.abs(value);
  const text = size >= 1000 ? value.toFixed(0) : size >= 0.001 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
  return spaced(text);
}

// A number with so many decimals
export const fixed = (value, digits) => spaced(value.toFixed(digits));

function spaced(text) {
  const [whole, rest] = text.replace("-", "−").split(".");
  return whole.replace(/\B(?=(\d{3})+(?!\d))/g, THIN) + (rest ? `.${rest}` : "");
}

export function save(name, content, kind) {
  const blob = content instanceof Blob ? content : new Blob([content], { type: kind });
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A picture in pixels, drawn by the browser: twice as dense, on white
export async function pixels(svg) {
  const image = new Image();
  const loaded = new Promise((resolve, reject) => {
    image.onload = resolve;
    image.onerror = reject;
  });
  image.src = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  await loaded;
  const canvas = document.createElement("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export function later(milliseconds, work) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

// Tabs with arrow keys (WAI-ARIA)
export function tabs(list, changed) {
  const buttons = [...list.querySelectorAll('[role="tab"]')];
  const choose = (chosen, focus) => {
    for (const button of buttons) {
      button.setAttribute("aria-selected", String(button === chosen));
      button.tabIndex = button === chosen ? 0 : -1;
      const panel = find(button.getAttribute("aria-controls"));
      if (panel) panel.hidden = button !== chosen;
    }
    if (focus) chosen.focus();
    if (changed) changed(chosen);
  };
  buttons.forEach((button, place) => {
    button.addEventListener("click", () => choose(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) choose(buttons[(place + step + buttons.length) % buttons.length], true);
    });
  });
  return choose;
}

// What scrolls can be reached by the keyboard
export function reachable(root) {
  for (const node of root.querySelectorAll(".wide:not([tabindex]), figure.wide-figure:not([tabindex]), pre:not([tabindex], [aria-hidden])")) node.tabIndex = 0;
}

// The numbers in a sentence with thin spaces, and no line end before a percent sign
export const thin = (text) => text.replace(/(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])/g, (digits) => digits.replaceAll(",", THIN)).replaceAll(" %", `${THIN}%`);

// Lines of a name and its words, as a program writes them for a terminal, as a table
export function facts(text) {
  const lines = thin(text).split("\n").filter((line) => line.trim()).map((line) => /^(\S.*?) {2,}(\S.*)$/.exec(line));
  if (!lines.length || lines.includes(null)) return h("pre", {}, text);
  return h("table", { class: "facts" }, h("tbody", {}, lines.map(([, name, words]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, words)))));
}

// Why something cannot be paid or asked, as the budget says it: "cannot be paid: …"
export function unaffordable(words) {
  const [, what, why] = /^cannot be (paid|asked): ([^]*)$/.exec(words) || ["", "paid", words];
  return h("p", { class: "verdict bad" }, h("b", {}, `Cannot be ${what}: `), thin(why));
}

export const loading = (words) => h("p", { class: "loading", role: "status" }, words);
export const failure = (error) =>
  h("p", { class: "verdict bad", role: "alert" }, h("b", {}, "Not done: "), thin(error.words || error.message));
