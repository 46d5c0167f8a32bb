// An answer: table and chart with error bars, notes, the receipt, and files to take away.

import { dataset, here, json, send, v1 } from "./api.js";
import { failure, fill, fixed, h, number, picture, pixels, save, thin, THIN } from "./dom.js";

const MOST = 500;
const WORDS = { bars: "Bars", line: "Line", map: "Map", heatmap: "Heatmap", table: "Table" };

// The numbers of a column have as many decimals as the greatest needs, so that they can be compared
function writer(values) {
  const known = values.filter((value) => typeof value === "number");
  const most = Math.max(...known.map(Math.abs), 0);
  if (known.every(Number.isInteger) || most < 0.001 || most >= 1e9) return number;
  const digits = Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(most))));
  return (value) => (value === null ? "–" : fixed(value, digits));
}

// What stands beside each number of a column: ± where all intervals are even, else from where to where
function intervalWords(values, ends, write) {
  const known = values.map((value, row) => typeof value === "number" && ends.low[row] !== null);
  const uneven = values.some((value, row) => known[row] &&
    Math.abs(ends.high[row] - value - (value - ends.low[row])) > 1e-6 * Math.max(1, ends.high[row] - ends.low[row]));
  return values.map((value, row) => !known[row] ? "" : uneven ? `${write(ends.low[row])} to ${write(ends.high[row])}` : `± ${write(ends.high[row] - value)}`);
}

function interval(words, width) {
  const node = h("span", { class: "interval" }, words);
  node.style.minWidth = `${width}ch`;
  return node;
}

// The head of a column; beside a number's name stands how sure its interval is
function heading(name, cells, confidence) {
  const first = cells[0];
  const beside = first?.querySelector(".interval");
  return h("th", { class: first?.className || null, scope: "col" }, name,
    beside ? " " : null, beside ? interval(`${number(100 * confidence)}${THIN}%`, parseInt(beside.style.minWidth, 10)) : null);
}

// The cells of a column, from top to bottom
function column(answer, place, count) {
  const name = answer.columns[place];
  const values = answer.rows.slice(0, count).map((row) => row[place]);
  if (!values.some((value) => typeof value === "number")) return values.map((value) => h("td", {}, value === null ? "no value" : String(value)));
  const ends = answer.columns.filter((other) => other === name).length === 1 ? answer.intervals[name] : undefined;
  const years = !ends && values.every((value) => value === null || (Number.isInteger(value) && Math.abs(value) < 10_000)); // years have no thin spaces
  const write = years ? String : writer(values);
  const words = ends ? intervalWords(values, ends, write) : [];
  const most = Math.max(...words.map((text) => text.length), 0);
  return values.map((value, row) => {
    const beside = most ? interval(words[row], most) : null;
    return h("td", { class: "number" }, typeof value === "number" ? write(value) : "no value", beside ? " " : null, beside);
  });
}

function table(answer) {
  const count = Math.min(answer.rows.length, MOST);
  const columns = answer.columns.map((_, place) => column(answer, place, count));
  const head = h("tr", {}, answer.columns.map((name, place) => heading(name, columns[place], answer.confidence)));
  const rows = Array.from({ length: count }, (_, row) => h("tr", {}, columns.map((cells) => cells[row])));
  const more = answer.rows.length > MOST ? h("p", { class: "soft" }, `The first ${MOST} of ${number(answer.rows.length)} rows; files have them all.`) : null;
  return [h("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": "The answer as a table" },
    h("table", { class: "grid" }, h("thead", {}, head), h("tbody", {}, rows))),
  answer.rows.length ? null : h("p", { class: "empty" }, "There is no row: no group was named, or none is left after the question's own conditions."), more];
}

// A notebook that asks the same again, for free, with a token from the environment
function notebook(question) {
  const { sql, ...terms } = question;
  const given = Object.entries(terms).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`).join("");
  const code = [
    "import discreet", "",
    `data = discreet.connect(${JSON.stringify(location.origin)}, dataset=${JSON.stringify(dataset)})  # the token: DISCREET_TOKEN`,
    `answer = data.ask(${JSON.stringify(sql)}${given})`, "answer",
  ];
  const cells = [
    { cell_type: "markdown", metadata: {}, source: [`# A question to ${dataset}\n`, "\n", "It was paid for; asking it again is free."], id: "words" },
    { cell_type: "code", metadata: {}, source: code.map((line) => `${line}\n`), outputs: [], execution_count: null, id: "ask" },
  ];
  return JSON.stringify({ cells, metadata: { language_info: { name: "python" } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}

export class AnswerView {
  constructor(room, again) {
    Object.assign(this, { room, again });
  }

  async show(question, answer) {
    Object.assign(this, { question, answer, kind: null, column: null, drawn: null });
    this.figure = h("figure", { class: "wide-figure" });
    this.table = h("div", {}, table(answer));
    this.kinds = h("div", { class: "kinds", role: "group", "aria-label": "How to show it" });
    const receipt = answer.receipt;
    const paid = receipt.free
      ? `Free: ${receipt.charge ? `cached from charge #${receipt.charge}` : "it was paid for before, or reads nothing private"}. `
      : `ε ${number(receipt.epsilon)}${receipt.delta ? `, δ ${receipt.delta}` : ""} charged as #${receipt.charge}; ε ${number(receipt.remaining)} left in the budget. `;
    fill(
      this.room,
      h("h2", {}, "Answer"),
      h("p", { class: `receipt verdict ${receipt.free ? "good" : ""}` }, h("b", {}, "Receipt "), paid,
        h("span", { class: "soft" }, `${receipt.when ? `${receipt.when.slice(0, 19).replace("T", " ")} UTC, ` : ""}statement ${receipt.statement.slice(0, 12)}`)),
      h("div", { class: "files", role: "group", "aria-label": "Files" },
        h("button", { type: "button", onclick: () => this.again(this.question) }, "Ask again, free"),
        ...["CSV", "Parquet", "PNG", "SVG", "Notebook"].map((kind) =>
          h("button", { type: "button", "data-file": kind, onclick: () => this.download(kind) }, kind))),
      (this.remark = h("p", { class: "refusal", role: "status" })),
      this.kinds,
      h("div", { class: "shown" }, this.figure, this.table),
      answer.note ? h("p", { class: "soft" }, thin(answer.note)) : null,
      answer.notes.length ? h("ul", { class: "notes" }, answer.notes.map((note) => h("li", {}, thin(note)))) : null,
    );
    await this.draw();
  }

  async draw(kind, column) {
    const known = answerHasNumbers(this.answer);
    if (!known) {
      this.kinds.hidden = this.figure.hidden = true;
      return;
    }
    try {
      const made = await json(here("/chart"), { body: { ...this.question, kind, column } });
      this.drawn = made.svg;
      this.kinds.hidden = this.figure.hidden = !made.svg; // no chart fits, as of numbers that are places alone
      if (!made.svg) return;
      fill(this.figure, picture(made.svg));
      this.buttons(made, column ?? made.columns[0]);
    } catch (error) {
      fill(this.figure, h("p", { class: "soft" }, error.words || error.message));
    }
  }

  buttons(made, column) {
    const chosen = this.shown === "table" ? "table" : made.kind;
    const button = (kind) =>
      h("button", { type: "button", "aria-pressed": String(kind === chosen), onclick: () => this.turn(kind, column) }, WORDS[kind]);
    const select = made.columns.length > 1
      ? h("label", {}, "Column ", h("select", { onchange: (event) => this.draw(made.kind, event.target.value) },
          made.columns.map((name) => h("option", { selected: name === column }, name))))
      : null;
    fill(this.kinds, ...made.kinds.map(button), button("table"), select);
  }

  turn(kind, column) {
    this.shown = kind === "table" ? "table" : null;
    this.figure.hidden = kind === "table";
    for (const other of this.kinds.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other.textContent === WORDS[kind]));
    if (kind !== "table") this.draw(kind, column);
  }

  async download(kind) {
    this.remark.textContent = "";
    try {
      const body = this.question;
      if (kind === "CSV") save("answer.csv", await (await send(v1("/ask?intervals=true"), { body, accept: "text/csv" })).blob());
      else if (kind === "Parquet") save("answer.parquet", await (await send(v1("/ask?intervals=true"), { body, accept: "application/vnd.apache.parquet" })).blob());
      else if (kind === "Notebook") save("answer.ipynb", notebook(body), "application/x-ipynb+json");
      else if (!this.drawn) this.remark.textContent = "There is no picture of this answer.";
      else if (kind === "SVG") save("answer.svg", this.drawn, "image/svg+xml");
      else save("answer.png", await pixels(this.drawn));
    } catch (error) {
      this.room.append(failure(error));
    }
  }
}

const answerHasNumbers = (answer) => answer.rows.some((row) => row.some((value) => typeof value === "number"));
