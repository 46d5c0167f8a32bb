// Surveys: made with their price in the words that people will read; estimates that grow.

import { here, json, v1 } from "./api.js";
import { failure, fill, find, h, later, picture } from "./dom.js";

const form = find("survey");
const PLACES = "planar laplace";

function survey() {
  const places = find("randomizer").value === PLACES;
  const domain = places
    ? Object.fromEntries(["latitude", "longitude", "width", "height", "cell"].map((name) => [name, find(name).value.trim()]))
    : find("answers").value.split("\n").map((line) => line.trim()).filter(Boolean);
  return {
    name: find("name").value.trim(), version: 1, question: find("text").value.trim(), domain,
    randomizer: find("randomizer").value, epsilon: find("epsilon").value.trim(), times: Number(find("times").value),
  };
}

const check = later(150, async () => {
  const button = form.querySelector("button.main");
  button.disabled = true;
  const asked = survey();
  if (!asked.question || !asked.name || (Array.isArray(asked.domain) && asked.domain.length < 2)) return;
  try {
    const found = await json(here("/surveys/preview"), { body: { survey: asked } });
    fill(find("words"), h("h3", {}, "What people will read"), h("p", {}, found.how), h("p", {}, found.cost));
    find("refusal").textContent = "";
    button.disabled = false;
  } catch (error) {
    find("refusal").textContent = error.words || error.message;
  }
});

if (form) {
  form.addEventListener("input", () => {
    const places = find("randomizer").value === PLACES;
    find("for-places").hidden = !places;
    find("for-answers").hidden = places;
    if (places && find("epsilon").value === "ln 3") find("epsilon").value = "ln 2 at 1 km";
    check();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const made = await json(v1("/surveys"), { body: { survey: survey() } });
      location.assign(here(`/surveys/${made.id}`));
    } catch (error) {
      find("refusal").textContent = error.words || error.message;
    }
  });
}

const room = find("estimate");
let last = -1;

async function grow() {
  try {
    const found = await json(here(`/surveys/${room.dataset.survey}/estimate`));
    if (found.reports !== last) {
      last = found.reports;
      room.dataset.reports = String(last);
      if (!found.svg) fill(room, h("p", { class: "empty" }, "No report has come yet. Share the link, or let people scan the code."));
      else fill(room, h("figure", {}, picture(found.svg)), h("p", { class: "soft" }, "Updated as reports arrive."));
    }
  } catch (error) {
    fill(room, failure(error));
  }
  setTimeout(grow, 2000);
}
if (room) grow();
