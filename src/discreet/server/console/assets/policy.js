// A policy from the schema of a file. The file stays here: only its header or footer is sent.

import { here, json } from "./api.js";
import { fill, find, h, later, picture, save } from "./dom.js";

const KINDS = ["integer", "real", "text", "boolean", "date", "timestamp"];
let schema = null;

async function schemaOf(file) {
  if (file.name.toLowerCase().endsWith(".csv")) {
    const head = new Uint8Array(await file.slice(0, 1 << 20).arrayBuffer());
    const end = head.indexOf(10);
    return head.slice(0, end < 0 ? head.length : end + 1);
  }
  const tail = new Uint8Array(await file.slice(-8).arrayBuffer());
  const size = new DataView(tail.buffer).getUint32(0, true);
  const footer = new Uint8Array(await file.slice(-8 - size).arrayBuffer());
  const whole = new Uint8Array(4 + footer.length);
  whole.set([80, 65, 82, 49]);
  whole.set(footer, 4);
  return whole;
}

function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8192) text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  return btoa(text);
}

const quoted = (text) => JSON.stringify(text);
const key = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quoted(name));
const field = (name) => find("maker").querySelector(`[name="${name}"]`);
const end = (text, type) => (type === "date" || type === "timestamp" ? text : quoted(text));

function policyText(table, columns) {
  const lines = ["[dataset]", `name = ${quoted(field("dataset").value.trim() || table)}`, `neighbors = ${quoted(field("neighbors").value)}`, 'witness = "witness"', "",
    "[budget]", `epsilon = ${quoted(field("epsilon").value.trim() || "?")}`, 'everyone = "all"'];
  if (field("delta").value.trim()) lines.push(`delta = ${quoted(field("delta").value.trim())}`);
  lines.push("", `[tables.${key(table)}]`, `source = ${quoted(schema.name)}`, `unit = ${quoted(field("unit").value || "?")}`);
  if (field("groups").value.trim()) lines.push(`max_groups_per_unit = ${field("groups").value.trim()}`);
  if (field("rows").value.trim()) lines.push(`max_rows_per_group = ${field("rows").value.trim()}`);
  lines.push("", `[tables.${key(table)}.columns]`);
  columns.forEach((column, place) => {
    const value = (name) => field(`${name}-${place}`).value.trim();
    const type = value("type") || "?";
    const parts = [`type = ${quoted(type)}`];
    if (value("lower")) parts.push(`lower = ${end(value("lower"), type)}`);
    if (value("upper")) parts.push(`upper = ${end(value("upper"), type)}`);
    if (value("step")) parts.push(`granularity = ${quoted(value("step"))}`);
    const values = value("values").split(",").map((part) => part.trim()).filter(Boolean);
    if (values.length) parts.push(`values = [${values.map((part) => (type === "integer" ? part : quoted(part))).join(", ")}]`);
    lines.push(`${key(column.name)} = {${parts.join(", ")}}`);
  });
  return `${lines.join("\n")}\n`;
}

const select = (label, name, options, chosen) =>
  h("label", {}, label, h("select", { name }, options.map(([value, words]) => h("option", { value, selected: value === chosen }, words))));
const input = (label, name, value = "", placeholder = "") => h("label", {}, label, h("input", { name, value, placeholder, maxlength: "300" }));

function build({ table, columns }) {
  const cells = (column, place) => h("tr", {},
    h("td", {}, h("code", {}, column.name)),
    h("td", {}, h("select", { name: `type-${place}`, "aria-label": `type of ${column.name}` }, [h("option", { value: "" }, "?"), ...KINDS.map((kind) => h("option", { selected: kind === column.type }, kind))])),
    ...["lower", "upper", "step", "values"].map((name) => h("td", {}, h("input", { name: `${name}-${place}`, "aria-label": `${name} of ${column.name}`, maxlength: "2000", placeholder: name === "values" ? "a, b, c" : "" }))));
  fill(find("maker"),
    h("h2", {}, "Who is protected"),
    h("p", {}, "The unit is what a release protects: all rows of one person, or a single row. Where a person can have several rows, protecting rows protects the person less."),
    h("div", { class: "fields" }, input("Dataset", "dataset", table), select("Unit", "unit", [["", "?"], ...columns.map((column) => [column.name, `a person, by ${column.name}`]), ["row", "one row"], ["public", "nobody: public"]], ""),
      select("Neighbors", "neighbors", [["add or remove one", "add or remove one"], ["change one", "change one"]], "add or remove one"),
      input("Groups of a person, at most", "groups"), input("Rows in each, at most", "rows")),
    h("h2", {}, "How much may be learned"),
    h("p", {}, "ε is for everything that is ever released. 1 is strong, 10 is weak."),
    h("div", { class: "fields" }, input("ε of the budget", "epsilon", "1"), input("δ", "delta", "", "1e-6"), input("Largest value of a sum, for the picture", "bound", "100")),
    h("p", { id: "guess", class: "verdict" }), h("div", { class: "charts", id: "pictures" }),
    h("h2", {}, "What is publicly known of each column"),
    h("p", {}, "Bounds must hold without looking at the data: values outside are clamped. Declared values can be grouped by at no extra cost."),
    h("div", { class: "wide decisions" }, h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["column", "type", "lower", "upper", "step", "values"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, columns.map(cells)))),
    h("h2", {}, "The policy"), h("pre", { id: "text", tabindex: "0", "aria-label": "The policy" }), h("div", { id: "meaning", "aria-live": "polite" }),
    h("div", { class: "act" }, h("button", { type: "button", class: "main", onclick: () => save("policy.toml", find("text").textContent, "application/toml") }, "Download policy.toml"),
      h("span", { class: "soft" }, "put it beside the file, and run: discreet serve policy.toml")));
  const tell = () => {
    find("text").textContent = policyText(table, columns);
    check(columns);
    draw();
  };
  find("maker").oninput = tell;
  tell();
}

// What is still to be decided, in words
function open(columns) {
  const untyped = columns.filter((_, place) => !field(`type-${place}`).value).map((column) => column.name);
  return [field("unit").value ? null : "choose the unit", field("epsilon").value.trim() ? null : "choose ε",
    untyped.length ? `choose the type of ${untyped.join(", ")}` : null].filter(Boolean);
}

const check = later(200, async (columns) => {
  const undecided = open(columns);
  if (undecided.length) {
    fill(find("meaning"), h("p", { class: "verdict open" }, h("b", {}, "Not yet. "), `Still to do: ${undecided.join("; ")}.`));
    return;
  }
  try {
    const found = await json(here("/policy/check"), { body: { ...schema, text: find("text").textContent } });
    const misfits = found.findings.map((finding) => h("p", { class: `verdict ${finding.level === "error" ? "bad" : "open"}` }, h("b", {}, `${finding.level} `), `${finding.column || finding.table}: ${finding.problem}`));
    fill(find("meaning"), h("p", { class: "verdict good" }, h("b", {}, "It can be used. "), "This is what it means:"), ...misfits, h("pre", {}, found.words));
  } catch (error) {
    fill(find("meaning"), h("p", { class: "verdict open" }, h("b", {}, "Not yet: "), error.words || error.message));
  }
});

const draw = later(120, async () => {
  try {
    const found = await json(here("/policy/picture"), { body: { epsilon: field("epsilon").value.trim(), bound: field("bound").value.trim() || "1" } });
    find("guess").textContent = found.words;
    fill(find("pictures"), ...["guesser", "unit", "bound"].map((name) => h("figure", {}, picture(found[name]))));
  } catch (error) {
    find("guess").textContent = error.words || error.message;
  }
});

find("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (!file) return;
  find("remark").textContent = "";
  try {
    schema = { name: file.name, schema_part: base64(await schemaOf(file)) };
    build(await json(here("/policy/draft"), { body: schema }));
  } catch (error) {
    find("remark").textContent = error.words || error.message;
  }
});
