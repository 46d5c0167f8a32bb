// One question, played step by step; and an ε to turn.

import { json } from "./api.js";
import { failure, fill, find, h, later, loading, reachable } from "./dom.js";

const room = find("exhibit");
const name = encodeURIComponent(room.dataset.name);
const epsilons = room.dataset.epsilons.split(" ");

// What this server drew and escaped
const nodes = (html) => [...new DOMParser().parseFromString(html, "text/html").body.childNodes];

const told = [...room.querySelectorAll(".step")]; // what happens, before the attack runs
let steps = null;
let shown = 1;
let waiting = null;

function result(step) {
  const part = h("section", { class: "step", tabindex: "-1" }, h("h2", {}, `${shown}. ${step.title}`), ...nodes(step.html));
  room.append(part);
  reachable(part);
  return part;
}

function count() {
  find("where").textContent = steps ? `step ${shown} of ${told.length + steps.length}` : `step ${shown}`;
  find("next").hidden = Boolean(steps) && shown >= told.length + steps.length;
}

function advance() {
  if (shown >= told.length && !steps) {
    if (!waiting) room.append((waiting = loading("The attack runs on generated people; this can take half a minute …")));
    return;
  }
  shown++;
  const part = shown <= told.length ? told[shown - 1] : result(steps[shown - told.length - 1]);
  part.hidden = false;
  part.focus();
  count();
}

find("next").addEventListener("click", advance);
count();

async function run() {
  try {
    steps = (await json(`/gallery/${name}/steps`)).steps;
    const asked = waiting;
    asked?.remove();
    if (asked) advance();
    else count();
  } catch (error) {
    waiting?.remove();
    room.append(failure(error));
  }
}
run();

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
