// The analyst's desk: a question, its price as one types, the answer.

import { dataset, here, json, memory, v1 } from "./api.js";
import { AnswerView } from "./answer.js";
import { Builder } from "./builder.js";
import { failure, fill, find, h, later, loading, number, picture, tabs, thin, unaffordable } from "./dom.js";
import { Editor } from "./editor.js";

const catalog = JSON.parse(find("catalog").textContent);
const TERMS = ["error", "delta", "groups", "rows", "confidence"];
const YEARS = /^integer from (1[5-9]|2[01])\d\d to (1[5-9]|2[01])\d\d\b/;
let price = null;
let running = null;
let left = null;

// Tables, bounds and values in words; a click puts a name into the question

function tableView(table) {
  const columns = table.columns.map((column) =>
    h("li", {}, h("button", { type: "button", class: "name", onclick: () => insert(column.name) }, column.name), " ", h("span", { class: "soft" }, inWords(column))));
  const about = table.private
    ? `private; protects ${table.protects}` + (table.max_groups_per_unit ? `; at most ${table.max_groups_per_unit} ${table.max_groups_per_unit === 1 ? "group" : "groups"} a person` : "")
    : "public";
  return h("details", { open: catalog.tables.length < 3 }, h("summary", {}, h("b", {}, table.name)),
    h("p", { class: "soft" }, about), h("ul", {}, columns));
}

// Without its name, and with the first of its declared values
function inWords(column) {
  const described = column.words.replace(`${column.name}: `, "");
  const dated = column.type === "date" || column.type === "timestamp" || YEARS.test(described); // years have no thin spaces
  const words = dated ? described : described.replace(/(?<![\d.-])\d{4,}(?![\d.-])/g, (digits) => number(Number(digits)));
  if (!column.values) return words;
  const some = column.values.slice(0, 6).map((value) => (value === null ? "no value" : String(value))).join(", ");
  return `${words.replace(/, one of \d+ declared values/, "")}: ${some}${column.values.length > 6 ? `, and ${column.values.length - 6} more` : ""}`;
}

function insert(name) {
  const area = find("sql");
  area.setRangeText(name, area.selectionStart, area.selectionEnd, "end");
  area.focus();
  area.dispatchEvent(new Event("input"));
}

// The question as it stands

function question() {
  const found = { sql: editor.text };
  for (const name of TERMS) {
    const text = find(name).value.trim();
    if (text) found[name] = name === "groups" || name === "rows" ? Number(text) : text;
  }
  const epsilon = find("epsilon").value.trim();
  if (epsilon && (!found.error || found.error.endsWith("%"))) found.epsilon = epsilon;
  return found;
}

// The price: asked for a moment after the last key

const refresh = later(40, async () => {
  running?.abort();
  if (!editor.text.trim()) {
    price = null;
    editor.mark(null);
    find("refusal").textContent = "";
    fill(find("price"), h("p", { class: "empty" }, "Type a question, or build one: its price and its error are shown here before anything is paid."));
    find("pay").disabled = true;
    return;
  }
  const asked = question();
  if (!asked.epsilon && !asked.error) {
    refuse("say what to pay, as an ε, or under Further terms how exact the answer must be");
    return;
  }
  running = new AbortController();
  if (!price) fill(find("price"), loading("The price is worked out …"));
  try {
    const found = await json(here("/price"), { body: asked, signal: running.signal });
    price = { asked, found };
    editor.mark(null);
    find("refusal").textContent = "";
    showPrice(found);
  } catch (error) {
    if (error.name === "AbortError") return;
    refuse(thin(error.words || error.message), Number.isInteger(error.facts?.start) ? error.facts.start : null);
  }
});

// Why there is no price; where a term is missing that is out of sight, it comes into sight
function refuse(words, place = null) {
  price = null;
  const pay = find("pay");
  pay.disabled = true;
  pay.textContent = "Ask";
  find("trade").textContent = "";
  find("refusal").textContent = words;
  if (/\bstate (a delta|a number of (groups|rows))|Further terms/.test(words)) find("further").open = true;
  editor.mark(place);
  if (find("price").querySelector(".loading")) fill(find("price"));
  find("price").classList.add("stale");
}

const shareOf = (one) => Object.entries(one).find(([name]) => name.startsWith("error ×"));
const isShare = (one) => typeof one.error !== "number" && Boolean(shareOf(one));

function errorWords(one, rows = "the rows of its group") {
  if (typeof one.error === "number") return `± ${number(one.error)}`;
  if (isShare(one)) return `± ${number(shareOf(one)[1])} ÷ ${rows}`;
  if (one.ranks !== undefined) return `± ${number(one.ranks)} ranks`;
  return "not known before";
}

function showPrice(found) {
  const budget = found.budget || {};
  const numbers = found.releases.flatMap((release) => release.numbers);
  const groups = found.releases.map((release) => release.groups?.answered).filter((count) => Number.isInteger(count));
  const percent = number(100 * found.confidence);
  const tiles = h("div", { class: "tiles" },
    h("div", {}, h("strong", {}, budget.free ? "free" : `ε ${number(found.epsilon)}`), h("span", {}, budget.free ? "asked before, or nothing private" : found.delta ? `to pay, with δ ${found.delta}` : "to pay")),
    typeof budget.own === "number" ? h("div", {}, h("strong", {}, `ε ${number(budget.own)}`), h("span", {}, typeof budget.own_after === "number" ? `left for you; then ε ${number(budget.own_after)}` : "left for you")) : null,
    numbers.length ? h("div", {}, h("strong", {}, errorWords(numbers[0], "n")), h("span", {}, `${numbers[0].number}, at ${percent}\u202f%${isShare(numbers[0]) ? "; n: the rows of its group" : ""}`)) : null,
    groups.length ? h("div", {}, h("strong", {}, number(groups[0])), h("span", {}, groups[0] === 1 ? "row" : "rows, all answered")) : null);
  const errors = numbers.length > 1
    ? h("div", { class: "wide" }, h("table", { class: "grid" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "number"), h("th", { class: "number", scope: "col" }, `error at ${percent}\u202f%`))),
        h("tbody", {}, numbers.map((one) => h("tr", {}, h("td", {}, one.number), h("td", { class: "number" }, errorWords(one)))))))
    : null;
  const payable = budget.affordable !== false;
  fill(find("price"), h("h2", {}, "Price"), tiles,
    payable ? null : unaffordable(budget.words),
    ...found.warnings.map((warning) => h("p", { class: "note" }, thin(warning))),
    found.preview ? h("figure", {}, picture(found.preview)) : null, errors,
    h("details", {}, h("summary", {}, "What would be done"), h("pre", {}, found.words)));
  find("price").classList.remove("stale");
  if (typeof budget.own === "number") left = budget.own;
  const pay = find("pay");
  pay.disabled = !payable;
  pay.textContent = budget.free ? "Ask, free" : `Ask for ε ${number(found.epsilon)}`;
  const first = numbers[0];
  find("trade").textContent = first ? `${errorWords(first)} for ε ${number(found.epsilon)}` : "";
  place(found.epsilon);
}

// The slider trades ε for error, in steps that feel even

const ends = () => [Math.log(Math.max(catalog.least, 0.001)), Math.log(Math.max(left ?? catalog.usual * 4, catalog.least * 2))];

function place(epsilon) {
  if (document.activeElement === find("slider")) return;
  const [low, high] = ends();
  find("slider").value = Math.round((1000 * (Math.log(epsilon) - low)) / (high - low));
}

find("slider").addEventListener("input", (event) => {
  const [low, high] = ends();
  const value = Math.exp(low + ((high - low) * event.target.value) / 1000);
  const text = String(Number(value.toPrecision(2)));
  find("epsilon").value = Number(text) > (left ?? Infinity) ? String(left) : text;
  find("error").value = "";
  event.target.setAttribute("aria-valuetext", `ε ${find("epsilon").value}`);
  refresh();
});
for (const name of ["epsilon", ...TERMS]) find(name).addEventListener("input", () => refresh());

// Asking

const view = new AnswerView(find("answer"), (again) => ask(again));

async function ask(asked) {
  const pay = find("pay");
  pay.disabled = true;
  fill(find("answer"), loading("Asking …"));
  try {
    const answer = await json(v1("/ask"), { body: asked });
    remember(asked, answer.receipt);
    await view.show(asked, answer);
    find("answer").focus({ preventScroll: true });
    find("answer").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
    refresh();
    meter();
  } catch (error) {
    fill(find("answer"), failure(error));
    editor.mark(Number.isInteger(error.facts?.start) ? error.facts.start : null);
    refresh();
  }
}

async function meter() {
  const text = await (await fetch(location.pathname, { credentials: "same-origin" })).text();
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("left");
  if (fresh) find("left").replaceChildren(...fresh.childNodes);
}

find("question").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!price || find("pay").disabled) return;
  if (JSON.stringify(question()) === JSON.stringify(price.asked)) ask(price.asked);
  else refresh(); // what was priced is no longer what is asked for: show the new price first
});

// What this tab asked: gone when it is closed, or somebody signs out

function remember(asked, receipt) {
  const kept = JSON.parse(sessionStorage.getItem(memory) || "[]").filter((one) => JSON.stringify(one.asked) !== JSON.stringify(asked));
  kept.unshift({ asked, charge: receipt.charge, when: new Date().toISOString() });
  sessionStorage.setItem(memory, JSON.stringify(kept.slice(0, 100)));
}

const editor = new Editor(find("sql"), find("shade"), find("completions"), catalog, () => refresh());
const builder = new Builder(find("by-builder"), catalog, (sql) => { editor.text = sql; });
tabs(document.querySelector('[role="tablist"]'), (tab) => {
  if (tab.id === "tab-builder") builder.tell();
});
fill(find("tables"), h("h2", {}, "Tables"), ...catalog.tables.map(tableView));
find("epsilon").value = String(catalog.usual);

const handed = JSON.parse(sessionStorage.getItem("discreet:open") || "null");
sessionStorage.removeItem("discreet:open");
if (handed && handed.dataset === dataset) {
  for (const name of ["epsilon", ...TERMS]) if (handed.asked[name] !== undefined) find(name).value = handed.asked[name];
  editor.text = handed.asked.sql;
} else {
  refresh();
}
