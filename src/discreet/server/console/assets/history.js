// What was asked: in this tab, with its terms; and what was paid for, from the record.

import { dataset, here, memory } from "./api.js";
import { fill, find, h, number } from "./dom.js";

const kept = JSON.parse(sessionStorage.getItem(memory) || "[]");

function open(asked) {
  sessionStorage.setItem("discreet:open", JSON.stringify({ dataset, asked }));
  location.assign(here(""));
}

if (kept.length) {
  const rows = kept.map(({ asked, charge, when }) =>
    h("tr", {}, h("td", { class: "number" }, charge ? number(charge) : "free"),
      h("td", {}, h("button", { type: "button", onclick: () => open(asked) }, "Open")), h("td", { class: "long" }, h("code", {}, asked.sql)),
      h("td", { class: "number" }, asked.epsilon ?? asked.error ?? "–"), h("td", { class: "whole" }, when.slice(11, 19))));
  fill(find("recent"), h("h2", {}, "In this tab"),
    h("div", { class: "wide" }, h("table", { class: "grid" },
      h("thead", {}, h("tr", {}, ["charge", "", "question", "ε", "when (UTC)"].map((name) => h("th", { scope: "col", class: name === "charge" || name === "ε" ? "number" : null }, name)))), h("tbody", {}, rows))));
}
for (const button of document.querySelectorAll("[data-sql]")) {
  const same = kept.find((one) => String(one.charge) === button.dataset.charge);
  const { sql, epsilon } = button.dataset;
  button.addEventListener("click", () => open(same ? same.asked : { sql, ...(epsilon ? { epsilon } : {}) }));
}
