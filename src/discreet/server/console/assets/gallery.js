// One question, played step by step; and an ε to turn.

import { json } from "./api.js";
import { failure, fill, find, h, later, loading, reachable } from "./dom.js";

const room = find("exhibit");
const name = encodeURIComponent(room.dataset.name);
const epsilons = room.dataset.epsilons.split(" ");

// What this server drew and escaped
const nodes = (html) => [...new DOMParser().parseFromString(html, "text/html").body.childNodes];

let steps = [];
let shown = 0;

function advance() {
  const step = steps[shown++];
  const part = h("section", { class: "step", tabindex: "-1" }, h("h2", {}, `${shown}. ${step.title}`), ...nodes(step.html));
  room.append(part);
  reachable(part);
  if (shown > 1) part.focus();
  find("where").textContent = `step ${shown} of ${steps.length}`;
  find("next").disabled = shown >= steps.length;
  if (shown >= steps.length) find("next").hidden = true;
}

find("next").addEventListener("click", advance);

fill(room, loading("The attack runs on generated people; this takes a few seconds …"));
try {
  steps = (await json(`/gallery/${name}/steps`)).steps;
  fill(room);
  advance();
} catch (error) {
  fill(room, failure(error));
}

const turn = find("turn");
const dialed = find("dialed");
const play = later(120, async () => {
  const place = Number(turn.value);
  if (!dialed.firstChild) fill(dialed, loading("Attacking …"));
  try {
    const found = await json(`/gallery/${name}/dial/${place}`);
    if (place === Number(turn.value)) fill(dialed, ...nodes(found.html));
    reachable(dialed);
  } catch (error) {
    fill(dialed, failure(error));
  }
});
if (turn) {
  turn.addEventListener("input", () => {
    find("turned").textContent = epsilons[turn.value];
    turn.setAttribute("aria-valuetext", `ε ${epsilons[turn.value]}`);
    play();
  });
  turn.setAttribute("aria-valuetext", `ε ${epsilons[turn.value]}`);
  play();
}
