const oracle = { krr, hadamard, hashing, unary, subset, planar }[channel.kind];

function respond(value) {
  const report = oracle.randomize(value);
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const payload = Array.isArray(report) ? `[${report.join(",")}]` : String(report);
  const line = `{"survey":${JSON.stringify(survey.digest)},"version":${survey.version},"report":${payload},"id":"${id}"}`;
  if (survey.area) return { line, fitting: [], place: corner(report) };
  return { line, fitting: survey.answers.filter((_, each) => oracle.fits(report, each)) };
}

// What this browser remembers: the reports that were given out, and one that is waiting. Never an answer.

const key = `discreet:${survey.digest}`;
let memory = { sent: [], waiting: null };

// Before every step: another tab of this page may have drawn or given out a report since.
function recall() {
  try {
    memory = { ...memory, ...JSON.parse(localStorage.getItem(key) ?? "{}") };
  } catch { /* a browser that keeps nothing */ }
}

// One tab at a time, where the browser knows such locks.
async function alone(step) {
  let begun = false;
  try {
    return await navigator.locks.request(key, () => { begun = true; return step(); });
  } catch (problem) {
    if (begun) throw problem;
    return step();
  }
}

function remember() {
  try {
    localStorage.setItem(key, JSON.stringify(memory));
  } catch { /* then it is forgotten when the page is closed */ }
}

// The page

const $ = (id) => document.getElementById(id);
const km = (distance) => `${Math.abs(distance).toFixed(2)} km`;
const say = (text) => { $("said").textContent = text; };
const shown = (labels) =>
  labels.length > 12 ? `${labels.slice(0, 12).map((label) => `“${label}”`).join(", ")} and ${labels.length - 12} more`
    : labels.map((label) => `“${label}”`).join(", ");

function fill() {
  $("question").textContent = survey.question;
  $("how").textContent = survey.how;
  $("cost").textContent = survey.cost;
  $("send").hidden = !survey.endpoint;
  const answers = $("answers");
  if (survey.area) {
    for (const name of survey.area.center ? ["Latitude", "Longitude"] : ["East, km", "North, km"]) {
      const line = document.createElement("label");
      const input = document.createElement("input");
      line.className = "answer";
      Object.assign(input, { type: "text", name: "place", inputMode: "decimal", autocomplete: "off" });
      line.append(`${name} `, input);
      answers.append(line);
    }
    $("here").hidden = !(survey.area.center && navigator.geolocation);
    draw_map();
    return;
  }
  if (survey.answers.length > 30) {
    const choice = document.createElement("select");
    choice.name = "answer";
    choice.append(new Option("Choose …", ""), ...survey.answers.map((label, value) => new Option(label, value)));
    answers.append(choice);
    return;
  }
  survey.answers.forEach((label, value) => {
    const line = document.createElement("label");
    const input = document.createElement("input");
    line.className = "answer";
    Object.assign(input, { type: "radio", name: "answer", value });
    line.append(input, ` ${label}`);
    answers.append(line);
  });
}

// The area as a map to point at: its outline and a few lines, no picture from anywhere.
function draw_map() {
  const { columns, rows, cell } = survey.area;
  const part = (name, settings) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(settings).forEach(([key, value]) => element.setAttribute(key, value));
    return element;
  };
  const lines = [1, 2, 3].map((n) => `M${(columns * n) / 4} 0v${rows}M0 ${(rows * n) / 4}h${columns}`).join("");
  const marker = part("circle", { r: Math.max(columns, rows) / 60, visibility: "hidden" });
  $("map").setAttribute("viewBox", `0 0 ${columns} ${rows}`);
  $("map").append(part("rect", { width: columns, height: rows }), part("path", { d: lines }), marker);
  $("map").toggleAttribute("hidden", false);
  $("scale").hidden = false;
  $("scale").textContent = `Point at your place, or write it. The map is ${km(columns * cell)} wide and ${km(rows * cell)} high, north is up.`;
}

// The marker where the place is that was written; none while there is none.
function mark_map() {
  const position = survey.area && chosen() !== null ? position_of(...typed_place()) : null;
  const marker = document.querySelector("#map circle");
  if (!marker) return;
  marker.setAttribute("visibility", position ? "visible" : "hidden");
  if (!position) return;
  const within = (steps, most) => Math.min(Math.max(steps, 0), most);
  marker.setAttribute("cx", within(position[0] / survey.area.cell, survey.area.columns));
  marker.setAttribute("cy", survey.area.rows - within(position[1] / survey.area.cell, survey.area.rows));
}

function write_place(place, digits) {
  document.querySelectorAll("[name=place]").forEach((input, n) => { input.value = place[n].toFixed(digits); });
  update();
}

function update() {
  $("randomize").disabled = chosen() === null;
  mark_map();
}

// The two numbers of a place, with a decimal point or a comma; null while they are none.
function typed_place() {
  const typed = new FormData($("form")).getAll("place").map((text) => text.trim().replace("−", "-").replace(",", "."));
  return typed.every((text) => /^[+-]?\d+(\.\d+)?$/.test(text)) ? typed.map(Number) : null;
}

// The number of the answer that is chosen, or of the cell of the place; null while there is none.
function chosen() {
  const answer = new FormData($("form")).get("answer");
  if (!survey.area) return answer ? Number(answer) : null;
  const place = typed_place();
  return place ? cell_of(...place) : null;
}

function meaning(waiting) {
  if (survey.area) {
    if (!waiting.place) return "The report says: further away than the map reaches.";
    const [x, y] = waiting.place;
    return `The report names a place ${km(x)} ${x < 0 ? "west" : "east"} and ${km(y)} ${y < 0 ? "south" : "north"} of the south-west corner of the area.`;
  }
  return waiting.fitting.length
    ? `The report fits these answers, whether or not yours is among them: ${shown(waiting.fitting)}.`
    : "The report fits none of the answers.";
}

function show() {
  const waiting = memory.waiting;
  const done = memory.sent.length >= survey.times;
  $("form").hidden = waiting !== null || done;
  $("report").hidden = waiting === null;
  if (waiting) {
    $("line").textContent = waiting.line;
    $("meaning").textContent = meaning(waiting);
  }
  $("history").hidden = !memory.sent.length;
  $("sent").replaceChildren(...memory.sent.map(({ line, when }) => {
    const item = document.createElement("li");
    item.textContent = `${when}: ${line}`;
    return item;
  }));
  $("spent").textContent = `${memory.sent.length} of at most ${survey.times} reports; each cost ε = ${survey.epsilon}${survey.area ? " for each km" : ""}.`;
}

// A report that left: written down once, whichever tab it left from.
function given(line, how) {
  return alone(() => {
    recall();
    if (!memory.sent.some((one) => one.line === line)) {
      memory.sent.push({ line, when: new Date().toISOString().slice(0, 10) });
    }
    if (memory.waiting?.line === line) memory.waiting = null;
    remember();
    show();
    say(how);
  });
}

// The report that waits; null, and the page as it is now, where another tab has given it out.
function waiting() {
  recall();
  if (!memory.waiting) {
    show();
    say("This report was already given out.");
  }
  return memory.waiting?.line ?? null;
}

// Nobody may draw again until they like the outcome: a report that was drawn waits here, also after a reload.
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const answer = chosen();
  $("form").reset();
  update();
  if (answer === null) return;
  alone(() => {
    recall();
    const late = memory.waiting !== null || memory.sent.length >= survey.times;
    if (!late) memory.waiting = respond(answer);
    remember();
    say(late ? "This question was already answered from another tab of this browser." : "");
    show();
  });
});
for (const event of ["input", "change"]) {
  $("form").addEventListener(event, update);
}
$("map").addEventListener("click", (event) => {
  const { rows, cell } = survey.area;
  const { a, d, e, f } = $("map").getScreenCTM();
  const place = place_at(((event.clientX - e) / a) * cell, (rows - (event.clientY - f) / d) * cell);
  if (place) write_place(place, survey.area.center ? 5 : 3);
});
$("here").addEventListener("click", () => {
  navigator.geolocation.getCurrentPosition(
    ({ coords }) => {
      write_place([coords.latitude, coords.longitude], 6);
      say(chosen() === null ? "This device is too far from the area that is asked about." : "");
    },
    () => say("This browser does not tell the page where the device is. Please write it yourself."),
  );
});
addEventListener("storage", (event) => {
  if (event.key !== key) return;
  recall();
  show();
});
$("decline").addEventListener("click", () => {
  $("form").reset();
  update();
  say("Nothing was sent, and nothing will be.");
});
$("withdraw").addEventListener("click", () => {
  $("report").hidden = true;
  say("Nothing was sent. Should you change your mind, this page will offer the same report again.");
});
$("send").addEventListener("click", async () => {
  const line = waiting();
  if (line === null) return;
  $("send").disabled = true;
  say("Sending …");
  try {
    const answer = await fetch(survey.endpoint, {
      method: "POST",
      body: `${line}\n`,
      headers: { "Content-Type": "text/plain;charset=UTF-8" },
      credentials: "omit",
      cache: "no-store",
      referrerPolicy: "no-referrer",
    });
    if (!answer.ok) throw new Error(`the collector answered ${answer.status}`);
    await given(line, "Sent. Thank you.");
  } catch (problem) {
    say(`It is not known whether it arrived (${problem.message}). The same report can be sent again: it counts once.`);
  }
  $("send").disabled = false;
});
$("copy").addEventListener("click", async () => {
  const line = waiting();
  if (line === null) return;
  try {
    await navigator.clipboard.writeText(line);
    await given(line, "Copied. Give the line to whoever asks.");
  } catch {
    getSelection().selectAllChildren($("line"));
    say("This browser does not let the page copy. The line is marked: copy it by hand.");
  }
});
$("save").addEventListener("click", () => {
  const line = waiting();
  if (line === null) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${line}\n`], { type: "application/json" }));
  link.download = `${survey.digest.split("/")[0]}-report.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  given(line, "Saved. Give the file to whoever asks.");
});

fill();
recall();
show();
globalThis.discreet = Object.freeze({ respond, randomize: oracle.randomize, cell_of, place_at });  // for whoever wants to check
