// Forms for larger releases: what they cost before, a report after.

import { here, json, send, v1 } from "./api.js";
import { facts, failure, fill, find, h, later, loading, number, save, unaffordable } from "./dom.js";

const catalog = JSON.parse(find("catalog").textContent);
const tables = catalog.tables.filter((table) => table.private && !table.link);
const room = find("make");
const NUMBERS = new Set(["integer", "real"]);
let kind = "synthesis";
let uploaded = null;
let price = null;

const KINDS = {
  synthesis: { words: "Synthetic table", about: "A table of people who do not exist, which looks like the private one.", file: null,
    fields: [["columns", "columns", "Columns"], ["rows", "number", "Rows (else about as many)"], ["delta", "text", "δ", catalog.delta]], results: [["text/csv", "table.csv"], ["application/vnd.apache.parquet", "table.parquet"]] },
  training: { words: "Model", about: "A model that predicts a column, trained by DP-SGD or by a classical method.", file: null,
    fields: [["target", "column", "Column to predict"], ["features", "columns", "From these columns"], ["examples", "number", "About how many people there are (public)", "1000"], ["model", "choice", "Kind", ["logistic", "network", "linear", "tree"]], ["delta", "text", "δ", catalog.delta || "1e-6"]], results: [["application/octet-stream", "result.model"]] },
  commute: { words: "Commuting map", about: "Synthetic flows between where people live and where they work.", file: ["places", "Places: a CSV file of names and coordinates"],
    fields: [["origin", "column", "Where from"], ["destination", "column", "Where to", "", 1]], results: [["text/csv", "flows.csv"]] },
  "fairness-audit": { words: "Fairness audit", about: "How far groups are apart in what a model says of people, whose labels and groups stay private.", file: ["predictions", "Predictions: a CSV file of keys and predictions"],
    fields: [["label", "column", "Column with the truth"], ["group", "column", "Groups by", "", 1], ["positive", "text", "Value that counts as yes"]], results: [] },
  bounds: { words: "Bounds", about: "Contribution bounds that suit the data, chosen privately.", file: null,
    fields: [["by", "columns", "Columns that questions group by"]], results: [["application/json", "bounds.json"]] },
};

const table = () => tables.find((one) => one.name === room.querySelector('[name="table"]')?.value) || tables[0];

// Columns with declared values first, since most forms need one; the column of the person is never chosen
const declared = (column) => Number(Boolean(column.values)) * 2 + Number(column.lower !== undefined || column.type === "boolean");

// A model takes no dates and no columns without bounds or values; by what questions group is for the owner to say
function checked(name, one) {
  const { type, values, lower } = table().columns.find((column) => column.name === one);
  return name === "columns" || (name === "features" && (Boolean(values) || type === "boolean" || (NUMBERS.has(type) && lower !== undefined)));
}

function control([name, form, label, given, place = 0]) {
  const columns = table().columns.filter((column) => column.name !== table().unit);
  const names = columns.map((column) => column.name);
  if (form === "column") {
    const sorted = [...columns].sort((a, b) => declared(b) - declared(a)).map((column) => column.name);
    const chosen = sorted[Math.min(place, sorted.length - 1)];
    return h("label", {}, label, h("select", { name, "data-form": form }, names.map((one) => h("option", { selected: one === chosen }, one))));
  }
  if (form === "choice") return h("label", {}, label, h("select", { name, "data-form": form }, given.map((one) => h("option", {}, one))));
  if (form === "columns") {
    return h("fieldset", { class: "whole" }, h("legend", {}, label), ...names.map((one) => h("label", { class: "check" }, h("input", { type: "checkbox", "data-many": name, value: one, checked: checked(name, one) }), one)));
  }
  return h("label", {}, label, h("input", { name, "data-form": form, value: given || "", maxlength: "200" }));
}

function build(chosen) {
  const about = KINDS[kind];
  uploaded = null;
  const options = tables.map((one) => h("option", { selected: one.name === chosen }, one.name));
  fill(room,
    h("div", { class: "kinds", role: "group", "aria-label": "What to make" }, Object.entries(KINDS).map(([name, one]) =>
      h("button", { type: "button", "aria-pressed": String(name === kind), onclick: () => { kind = name; build(); } }, one.words))),
    h("p", { class: "soft" }, about.about),
    h("form", { id: "job" }, h("div", { class: "fields" }, h("label", {}, "Table", h("select", { name: "table" }, options)), h("label", {}, "ε to pay", h("input", { name: "epsilon", "data-form": "text", value: "1", maxlength: "20" }))),
      h("div", { class: "fields", id: "fields" }),
      about.file ? h("label", {}, about.file[1], h("input", { type: "file", accept: ".csv", onchange: upload })) : null,
      h("div", { id: "cost", "aria-live": "polite" }),
      h("button", { class: "main", id: "start", disabled: true }, "Pay and start")),
    h("section", { id: "progress", "aria-live": "polite" }));
  fill(find("fields"), ...about.fields.map(control));
  room.oninput = (event) => {
    find("start").disabled = true; // what was priced is no longer what is asked for
    delete find("job").dataset.started;
    if (event.target.name === "table") build(event.target.value);
    else ask();
  };
  find("job").onsubmit = start;
  ask();
}

// A CSV file as columns by name; numbers become numbers
async function upload(event) {
  const lines = (await event.target.files[0].text()).split(/\r?\n/).filter(Boolean).map(cells);
  const columns = {};
  lines[0].forEach((name, place) => {
    const values = lines.slice(1).map((line) => line[place] ?? "");
    const numbers = values.every((value) => /^-?\d+(\.\d+)?$/.test(value));
    columns[name] = numbers ? values.map(Number) : values;
  });
  uploaded = columns;
  ask();
}

const cells = (line) => [...line.matchAll(/("((?:[^"]|"")*)"|[^,]*)(,|$)/g)].slice(0, -1 + (line.endsWith(",") ? 1 : 0) || undefined).map((part) => (part[2] !== undefined ? part[2].replaceAll('""', '"') : part[1]));

function request() {
  const found = { table: table().name };
  for (const field of room.querySelectorAll("[data-form]")) {
    const text = field.value.trim();
    if (text) found[field.name] = field.dataset.form === "number" ? Number(text) : text;
  }
  const many = {};
  for (const box of room.querySelectorAll("[data-many]")) (many[box.dataset.many] ||= []).push(...(box.checked ? [box.value] : []));
  for (const [name, values] of Object.entries(many)) found[name] = values.filter((value) => value !== found.target);
  if (KINDS[kind].file && uploaded) found[KINDS[kind].file[0]] = uploaded;
  return found;
}

const ask = later(200, async () => {
  find("start").disabled = true;
  if (KINDS[kind].file && !uploaded) return fill(find("cost"), h("p", { class: "empty" }, "Choose the file to see the price."));
  const asked = { kind, request: request() };
  const isOld = () => JSON.stringify(asked) !== JSON.stringify({ kind, request: request() }) || find("job").dataset.started;
  try {
    const found = await json(here("/job-price"), { body: asked });
    if (isOld()) return; // the form has changed since: its own price is on the way
    price = asked;
    const { free, affordable, own, own_after: then, words } = found.budget;
    fill(find("cost"), h("h2", {}, free ? "Free: it was made before" : "Price"), facts(found.words),
      affordable ? null : unaffordable(words),
      typeof own === "number" ? h("p", { class: "soft" }, `ε ${number(own)} is left for you${typeof then === "number" ? `, and ε ${number(then)} afterward` : ""}.`) : null);
    find("start").textContent = free ? "Start, free" : "Pay and start";
    find("start").disabled = !affordable;
  } catch (error) {
    if (isOld()) return;
    fill(find("cost"), h("p", { class: "verdict open" }, h("b", {}, "Not yet: "), error.words || error.message));
  }
});

// Chosen bounds as they stand in a policy
const policyLines = ({ table: name, columns, receipt, ...bounds }) => [`[tables.${name}]`,
  ...Object.entries(bounds).map(([bound, value]) => `${bound} = ${value}`),
  ...Object.entries(columns).map(([column, { lower, upper }]) => `${column}: lower = ${lower}, upper = ${upper}`)].join("\n");

async function start(event) {
  event.preventDefault();
  find("start").disabled = true;
  if (!price || JSON.stringify(price) !== JSON.stringify({ kind, request: request() })) return void ask();
  find("job").dataset.started = "yes"; // until something is changed
  const started = price;
  const about = KINDS[started.kind];
  const progress = find("progress");
  fill(progress, loading("It waits for its turn …"));
  try {
    let job = await json(v1("/jobs"), { body: started });
    while (job.state === "waiting" || job.state === "running") {
      await new Promise((resolve) => setTimeout(resolve, 400));
      job = await json(`/v1/jobs/${job.id}`);
      fill(progress, loading(job.words), job.progress === null ? null : h("progress", { value: job.progress, max: "1", "aria-label": "progress" }));
    }
    if (job.state !== "done") throw new Error(job.words);
    const result = `/v1/jobs/${job.id}/result`;
    const files = about.results.map(([accept, name]) => h("button", { type: "button", onclick: async () => save(name, await (await send(result, { accept })).blob()) }, name));
    const chosen = started.kind === "bounds" ? h("pre", {}, policyLines(await json(result))) : null;
    const report = chosen ? "For the policy:" : h("a", { href: result, target: "_blank", rel: "noopener" }, "Open the report");
    fill(progress, h("p", { class: "verdict good" }, h("b", {}, "Done. "), `${about.words}, in ${job.seconds} s. `, report), chosen, h("div", { class: "files" }, files));
  } catch (error) {
    fill(progress, failure(error));
  }
}

if (tables.length) build();
else fill(room, h("p", { class: "empty" }, "There is no table with a column that names the person."));
