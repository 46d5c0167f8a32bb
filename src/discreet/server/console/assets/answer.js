// An answer: table and chart with error bars, notes, the receipt, and files to take away.

import { dataset, here, json, send, v1 } from "./api.js";
import { failure, fill, h, number, picture, pixels, save } from "./dom.js";

const MOST = 500;
const WORDS = { bars: "Bars", line: "Line", map: "Map", heatmap: "Heatmap", table: "Table" };

function cell(answer, row, place) {
  const name = answer.columns[place];
  const value = answer.rows[row][place];
  const ends = answer.columns.filter((other) => other === name).length === 1 ? answer.intervals[name] : undefined;
  if (value === null) return h("td", {}, "no value");
  if (typeof value !== "number") return h("td", {}, String(value));
  if (!ends) return h("td", { class: "number" }, Number.isInteger(value) && Math.abs(value) < 10_000 ? String(value) : number(value)); // a year
  if (ends.low[row] === null) return h("td", { class: "number" }, number(value));
  const [low, high] = [ends.low[row], ends.high[row]];
  const even = Math.abs(high - value - (value - low)) <= 1e-9 * Math.max(1, Math.abs(high - low));
  const words = even ? `± ${number(Number((high - value).toPrecision(6)))}` : `${number(low)} to ${number(high)}`;
  return h("td", { class: "number" }, number(value), " ", h("span", { class: "interval" }, words));
}

function table(answer) {
  const right = answer.columns.map((_, place) => answer.rows.some((row) => typeof row[place] === "number"));
  const head = h("tr", {}, answer.columns.map((name, place) => h("th", { class: right[place] ? "number" : null, scope: "col" }, name)));
  const rows = answer.rows.slice(0, MOST).map((_, row) => h("tr", {}, answer.columns.map((__, place) => cell(answer, row, place))));
  const more = answer.rows.length > MOST ? h("p", { class: "soft" }, `The first ${MOST} of ${number(answer.rows.length)} rows; files have them all.`) : null;
  return [h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "The answer as a table" },
    h("table", { class: "grid" }, h("thead", {}, head), h("tbody", {}, rows))), more];
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
      ? `Free: ${receipt.charge ? `kept from charge #${receipt.charge}` : "it was paid for before, or reads nothing private"}. `
      : `ε ${number(receipt.epsilon)}${receipt.delta ? `, δ ${receipt.delta}` : ""} charged as #${receipt.charge}; ε ${number(receipt.remaining)} left in the budget. `;
    fill(
      this.room,
      h("h2", {}, "Answer"),
      this.kinds, this.figure, this.table,
      answer.note ? h("p", { class: "soft" }, answer.note) : null,
      answer.notes.length ? h("ul", { class: "notes" }, answer.notes.map((note) => h("li", {}, note))) : null,
      h("p", { class: `receipt verdict ${receipt.free ? "good" : ""}` }, h("b", {}, "Receipt "), paid,
        h("span", { class: "soft" }, `${receipt.when.slice(0, 19).replace("T", " ")} statement ${receipt.statement.slice(0, 12)}`)),
      h("div", { class: "files", role: "group", "aria-label": "Files" },
        h("button", { type: "button", onclick: () => this.again(this.question) }, "Ask again, free"),
        ...["CSV", "Parquet", "PNG", "SVG", "Notebook"].map((kind) =>
          h("button", { type: "button", "data-file": kind, onclick: () => this.download(kind) }, kind))),
      (this.remark = h("p", { class: "refusal", role: "status" })),
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
      fill(this.figure, picture(made.svg));
      this.buttons(made, column ?? made.columns[0]);
      this.figure.hidden = false;
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
