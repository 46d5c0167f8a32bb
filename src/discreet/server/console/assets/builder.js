// Questions for people who know no SQL: what to measure, by what to group, whom to keep. It shows the SQL that it makes.

import { h, fill } from "./dom.js";

const NUMBERS = new Set(["integer", "real"]);
const quoted = (name) => (/^[a-z_][a-z_0-9]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
const literal = (value, type) =>
  NUMBERS.has(type) || type === "boolean" ? String(value) : `'${String(value).replaceAll("'", "''")}'`;
const isNumber = (text) => /^-?\d+(\.\d+)?$/.test(text.trim());

// Whether what was typed, perhaps not to its end, can stand beside a column of a type
function fits(text, type) {
  if (NUMBERS.has(type)) return isNumber(text);
  if (type === "boolean") return /^(true|false)$/i.test(text);
  if (type === "date" || type === "timestamp") return /^\d{4}-\d{2}-\d{2}/.test(text);
  return text !== "";
}

export function sqlOf({ table, measure, column, groups, part, filters }) {
  const keys = groups.map((group) => {
    if (part && (group.type === "date" || group.type === "timestamp")) return { sql: `${part}(${quoted(group.name)})`, name: part.toLowerCase() };
    return { sql: quoted(group.name), name: "" };
  });
  const what = {
    rows: "COUNT(*) AS number",
    people: table.unit && table.unit !== "row" ? `COUNT(DISTINCT ${quoted(table.unit)}) AS people` : "COUNT(*) AS people",
    average: column ? `AVG(${quoted(column.name)}) AS average` : "",
    sum: column ? `SUM(${quoted(column.name)}) AS total` : "",
    median: column ? `MEDIAN(${quoted(column.name)}) AS median` : "",
  }[measure];
  const shown = keys.map((key) => (key.name ? `${key.sql} AS ${key.name}` : key.sql));
  const kept = filters
    .filter((filter) => fits(filter.value, filter.column.type))
    .map((filter) => `${quoted(filter.column.name)} ${filter.sign} ${literal(filter.value, filter.column.type)}`);
  const lines = [`SELECT ${[...shown, what].join(", ")}`, `FROM ${quoted(table.name)}`];
  if (kept.length) lines.push(`WHERE ${kept.join(" AND ")}`);
  if (keys.length) lines.push(`GROUP BY ${keys.map((key) => key.sql).join(", ")}`, `ORDER BY ${keys.map((_, place) => place + 1).join(", ")}`);
  return lines.join("\n");
}

const option = (value, words, chosen) => h("option", { value, selected: value === chosen }, words);
const choice = (label, name, options, chosen) =>
  h("label", {}, label, h("select", { name }, ...options.map(([value, words]) => option(value, words, chosen))));

const offers = (column) => column.values || (column.type === "boolean" ? [true, false] : []);

export class Builder {
  constructor(room, catalog, changed) {
    Object.assign(this, { room, catalog, changed, filters: 0 });
    this.tables = catalog.tables.filter((table) => table.private);
    this.build(this.tables[0]);
  }

  build(table) {
    this.table = table;
    const numbers = table.columns.filter((column) => NUMBERS.has(column.type) && column.lower !== undefined);
    const groupable = table.columns.filter((column) => column.values || column.type === "boolean" || (column.lower !== undefined && column.type !== "real"));
    const measures = [["rows", "how many rows"], ["people", "how many people"]];
    if (numbers.length) measures.push(["average", "the average of"], ["sum", "the sum of"], ["median", "the middle value of"]);
    this.kept = h("div", { class: "filters" });
    fill(
      this.room,
      h("div", { class: "fields" },
        choice("Table", "table", this.tables.map((other) => [other.name, other.name]), table.name),
        choice("Measure", "measure", measures, "rows"),
        numbers.length ? choice("of", "column", numbers.map((column) => [column.name, column.name]), numbers[0].name) : null,
        choice("for each", "group", [["", "(no groups)"], ...groupable.map((column) => [column.name, column.name])], ""),
        choice("and each", "second", [["", "(no more)"], ...groupable.map((column) => [column.name, column.name])], ""),
        choice("dates by", "part", [["", "day"], ["MONTH", "month of the year"], ["YEAR", "year"]], "")),
      this.kept,
      h("button", { type: "button", class: "quiet", onclick: () => this.addFilter() }, "Add a filter"),
      h("p", { class: "soft" }, "The SQL that this makes:"),
      (this.shown = h("pre", { class: "made", tabindex: "0", "aria-label": "The SQL that this makes" })),
    );
    this.room.oninput = (event) => {
      if (event.target.name === "table") this.build(this.tables.find((other) => other.name === event.target.value));
      this.tell();
    };
  }

  addFilter() {
    const number = ++this.filters;
    const row = h("div", { class: "fields filter" },
      choice("Only where", `column-${number}`, this.table.columns.map((column) => [column.name, column.name]), (this.table.columns.find((column) => column.values) || this.table.columns[0]).name),
      choice("is", `sign-${number}`, [["=", "equal to"], [">=", "at least"], ["<=", "at most"], ["<>", "other than"]], "="),
      h("label", {}, "value", h("input", { name: `value-${number}`, maxlength: "200", list: `values-${number}` }), h("datalist", { id: `values-${number}` })),
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this filter", onclick: () => { row.remove(); this.tell(); } }, "Remove"));
    const [which, , , offered] = row.querySelectorAll("select, input, datalist");
    const offer = () => fill(offered, ...offers(this.table.columns.find((column) => column.name === which.value)).map((value) => h("option", { value: String(value) })));
    which.addEventListener("change", offer);
    offer();
    this.kept.append(row);
    row.querySelector("select").focus();
  }

  get sql() {
    const value = (name) => this.room.querySelector(`[name="${name}"]`)?.value ?? "";
    const column = (name) => this.table.columns.find((other) => other.name === name);
    const names = [value("group"), value("second")].filter((name, place, all) => name && all.indexOf(name) === place);
    const filters = [...this.kept.children].map((row) => {
      const [which, sign, text] = row.querySelectorAll("select, input");
      return { column: column(which.value), sign: sign.value, value: text.value.trim() };
    });
    return sqlOf({ table: this.table, measure: value("measure"), column: column(value("column")), groups: names.map(column), part: value("part"), filters });
  }

  // What does not matter to the question is not asked for
  hide() {
    const grouped = ["group", "second"].map((name) => this.room.querySelector(`[name="${name}"]`).value);
    const dated = this.table.columns.some((column) => grouped.includes(column.name) && (column.type === "date" || column.type === "timestamp"));
    const of = this.room.querySelector('[name="column"]');
    if (of) of.parentElement.hidden = ["rows", "people"].includes(this.room.querySelector('[name="measure"]').value);
    this.room.querySelector('[name="part"]').parentElement.hidden = !dated;
  }

  tell() {
    this.hide();
    this.shown.textContent = this.sql;
    this.changed(this.sql);
  }
}
