// A plain text area for SQL with colors behind it, completion, and a mark under the word that is wrong.

import { h, fill } from "./dom.js";

const WORDS = (
  "SELECT FROM WHERE GROUP BY ORDER LIMIT HAVING AS AND OR NOT IN BETWEEN LIKE IS NULL CASE WHEN THEN ELSE END JOIN " +
  "LEFT ON USING DISTINCT WITH UNION ALL DESC ASC OVER PARTITION TRUE FALSE DATE INTERVAL EXTRACT"
).split(" ");
const FUNCTIONS = "COUNT SUM AVG MIN MAX MEDIAN QUANTILE HISTOGRAM STDDEV VARIANCE ROUND YEAR MONTH DAY DATE_TRUNC".split(" ");
const KNOWN = new Set([...WORDS, ...FUNCTIONS]);
const PARTS = /(--[^\n]*)|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\d+(?:\.\d+)?)|([A-Za-z_][A-Za-z_0-9]*)|([^])/g;

export function shade(text, wrong) {
  const nodes = [];
  for (const part of text.matchAll(PARTS)) {
    const [whole, remark, quoted, named, digits, word] = part;
    const kind = remark ? "remark" : quoted ? "text" : digits ? "digits" : word && KNOWN.has(word.toUpperCase()) ? "word" : named ? "name" : "";
    const end = part.index + whole.length;
    const marked = wrong !== null && part.index <= wrong && wrong < end;
    const classes = [kind, marked ? "wrong" : ""].filter(Boolean).join(" ");
    nodes.push(classes ? h("span", { class: classes }, whole) : whole);
  }
  if (wrong !== null && wrong >= text.length) nodes.push(h("span", { class: "wrong" }, " "));
  return nodes;
}

// Names and words that begin like what stands before the cursor
export function suggestions(text, cursor, catalog) {
  const begun = /[A-Za-z_][A-Za-z_0-9]*$/.exec(text.slice(0, cursor));
  if (!begun || begun[0].length < 2) return { from: cursor, found: [] };
  const like = begun[0].toUpperCase();
  const names = catalog.tables.flatMap((table) => [
    { text: table.name, kind: "table" },
    ...table.columns.map((column) => ({ text: column.name, kind: column.words.replace(`${column.name}: `, "") })),
  ]);
  const all = [...names, ...FUNCTIONS.map((word) => ({ text: word, kind: "function" })), ...WORDS.map((word) => ({ text: word, kind: "" }))];
  const seen = new Set();
  const found = all.filter(({ text: name }) => {
    const upper = name.toUpperCase();
    if (!upper.startsWith(like) || upper === like || seen.has(upper)) return false;
    seen.add(upper);
    return true;
  });
  return { from: begun.index, found: found.slice(0, 8) };
}

export class Editor {
  constructor(area, back, list, catalog, changed) {
    Object.assign(this, { area, back, list, catalog, changed, wrong: null, chosen: -1, from: 0 });
    area.addEventListener("input", () => this.typed());
    area.addEventListener("scroll", () => this.follow());
    area.addEventListener("keydown", (event) => this.pressed(event));
    area.addEventListener("blur", () => setTimeout(() => this.close(), 120));
    new ResizeObserver(() => this.follow()).observe(area);
    this.paint();
  }

  get text() {
    return this.area.value;
  }

  set text(value) {
    this.area.value = value;
    this.wrong = null;
    this.close();
    this.paint();
    this.changed();
  }

  mark(place) {
    this.wrong = place;
    this.paint();
    if (place === null) this.area.removeAttribute("aria-invalid");
    else this.area.setAttribute("aria-invalid", "true");
  }

  paint() {
    fill(this.back, ...shade(this.area.value, this.wrong), "\n");
    this.follow();
  }

  follow() {
    this.back.scrollTop = this.area.scrollTop;
    this.back.scrollLeft = this.area.scrollLeft;
    this.back.style.height = `${this.area.offsetHeight}px`;
  }

  typed() {
    this.wrong = null;
    this.paint();
    this.changed();
    const { from, found } = suggestions(this.area.value, this.area.selectionStart, this.catalog);
    this.from = from;
    this.chosen = -1;
    fill(
      this.list,
      ...found.map(({ text, kind }, place) =>
        h("li", { role: "option", id: `completion-${place}`, "aria-selected": "false", "data-text": text,
                  onmousedown: (event) => { event.preventDefault(); this.take(text); } },
          h("b", {}, text), " ", h("span", {}, kind)),
      ),
    );
    this.list.hidden = found.length === 0;
    this.area.setAttribute("aria-expanded", String(found.length > 0));
    this.area.removeAttribute("aria-activedescendant");
  }

  close() {
    this.list.hidden = true;
    this.area.setAttribute("aria-expanded", "false");
    this.area.removeAttribute("aria-activedescendant");
  }

  move(step) {
    const items = [...this.list.children];
    this.chosen = (this.chosen + step + items.length) % items.length;
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === this.chosen)));
    this.area.setAttribute("aria-activedescendant", items[this.chosen].id);
    items[this.chosen].scrollIntoView({ block: "nearest" });
  }

  take(text) {
    const end = this.area.selectionStart;
    this.area.setRangeText(text, this.from, end, "end");
    this.close();
    this.paint();
    this.changed();
    this.area.focus();
  }

  pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      this.area.form.requestSubmit();
    } else if (!this.list.hidden && event.key === "ArrowDown") {
      event.preventDefault();
      this.move(1);
    } else if (!this.list.hidden && event.key === "ArrowUp") {
      event.preventDefault();
      this.move(-1);
    } else if (!this.list.hidden && event.key === "Escape") {
      this.close();
    } else if (!this.list.hidden && this.chosen >= 0 && event.key === "Enter") {
      event.preventDefault();
      this.take(this.list.children[this.chosen].dataset.text);
    }
  }
}
