"use strict";
(() => {
  const data = JSON.parse(document.getElementById("flows").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const FIRST = 12;
  // Shares of the people of the place of work, and how strong their color is.
  const CLASSES = [[0.1, "10 % or more", 1], [0.03, "3 to 10 %", 0.76], [0.01, "1 to 3 %", 0.54],
    [0.001, "0.1 to 1 %", 0.34], [0, "less", 0.18]];
  const outlined = Object.keys(data.shapes).length > 0;
  const ends = Object.keys(data.ends).map(Number);
  const number = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  const percent = (share) => (share >= 0.1 ? (100 * share).toFixed(0) : (100 * share).toPrecision(2)) + " %";
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const drawn = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  let end = -1;
  let all = false;

  /** The origins of a place of work, largest first. */
  function origins(place) {
    const flows = data.ends[place];
    const total = flows.people.reduce((sum, people) => sum + people, 0);
    const rows = flows.from.map((from, i) => {
      const people = flows.people[i];
      const band = data.bands ? [Math.max(people - flows.below, 0), people + flows.above] : [null, null];
      return { from, people, low: band[0], high: band[1], share: people / total, km: flows.km[i] };
    });
    return { total, rows: rows.sort((a, b) => b.people - a.people || a.from - b.from), sums: flows.sums };
  }

  const shapes = new Map();
  function draw() {
    const svg = drawn("svg", { viewBox: `0 0 720 ${data.height}`, role: "img", "aria-labelledby": "where" });
    for (const [place, name] of data.names.entries()) {
      const path = data.shapes[name];
      const [cx, cy] = data.points[place];
      const shape = path ? drawn("path", { d: path, "fill-rule": "evenodd" }) : drawn("circle", { cx, cy, r: 3 });
      shape.append(drawn("title", {}));
      shape.addEventListener("click", () => data.ends[place] && choose(place));
      svg.append(shape);
      shapes.set(place, shape);
    }
    svg.append(drawn("circle", { class: "ring", id: "ring", r: 8 }));
    byId("picture").replaceChildren(svg);
  }

  function paint(found) {
    const byOrigin = new Map(found.rows.map((row) => [row.from, row]));
    const most = found.rows[0].people;
    const above = data.ends[end].above;
    for (const [place, shape] of shapes) {
      const row = byOrigin.get(place);
      const dot = shape.tagName === "circle";
      const part = row ? CLASSES.find(([least]) => row.share >= least)[2] : 0;
      shape.setAttribute("class", `place${row ? " share" : ""}${place === end && !dot ? " end" : ""}`);
      shape.setAttribute("fill-opacity", row ? (dot ? 0.65 : part) : 1);
      if (dot) shape.setAttribute("r", row ? 2.5 + 19 * Math.sqrt(row.people / most) : 2);
      const band = !data.bands ? "" : row ? ` (${number(row.low)} to ${number(row.high)})` : ` (0 to ${number(above)})`;
      shape.firstChild.textContent = `${data.titles[place]}: ${number(row ? row.people : 0)} people${band}`;
    }
    if (!outlined) [...found.rows].forEach((row) => shapes.get(row.from).parentNode.append(shapes.get(row.from)));
    const [x, y] = data.points[end];
    const ring = byId("ring");
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    ring.parentNode.append(ring);
    shapes.get(end).parentNode.insertBefore(shapes.get(end), ring);
  }

  function legend(found) {
    const items = [];
    if (outlined) {
      for (const [, words, part] of CLASSES) {
        const item = element("li", "");
        const box = element("i", "", { class: "share" });
        box.style.setProperty("--part", part);
        item.append(box, words);
        items.push(item);
      }
      const none = element("li", "");
      none.append(element("i", ""), "nobody in the release");
      items.push(none);
    } else {
      items.push(element("li", `Dots grow with the number of people; the largest stands for ${number(found.rows[0].people)}.`));
    }
    const work = element("li", "");
    work.append(element("i", "", { class: "ring" }), "the place of work");
    byId("legend").replaceChildren(...items, work);
  }

  function tile(big, what) {
    const box = element("div", "");
    box.append(element("strong", big), element("span", what));
    return box;
  }

  function table(found) {
    const sums = found.sums;
    const header = sums ? ["homes", "people", "95 %", "share"] : ["home", "people", ...(data.bands ? ["95 %"] : []), "share", "km"];
    const row = (cells, kind) => {
      const line = element("tr", "");
      line.append(...cells.map((cell, i) => element(kind, cell, i ? { class: "number" } : {})));
      return line;
    };
    byId("head").replaceChildren(row(header, "th"));
    const lines = sums
      ? sums.map(([words, people, low, high]) => [words, number(people), `${number(low)} to ${number(high)}`, percent(people / found.total)])
      : found.rows.map((line) => [data.titles[line.from], number(line.people),
        ...(data.bands ? [`${number(line.low)} to ${number(line.high)}`] : []), percent(line.share), line.km.toFixed(1)]);
    const shown = all || sums ? lines : lines.slice(0, FIRST);
    byId("rows").replaceChildren(...shown.map((cells) => row(cells, "td")));
    byId("more").hidden = Boolean(sums) || lines.length <= FIRST;
    byId("more").textContent = all ? "Show fewer" : `Show all ${lines.length}`;
  }

  const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  function csv(places) {
    const lines = ["origin,destination,people,low,high,km"];
    for (const place of places) {
      for (const row of origins(place).rows) {
        lines.push([cell(data.names[row.from]), cell(data.names[place]), row.people, row.low ?? "", row.high ?? "", row.km].join(","));
      }
    }
    return lines.join("\r\n") + "\r\n";
  }

  function geojson(place) {
    const features = origins(place).rows.map((row) => {
      const name = data.names[row.from];
      const geometry = data.geometries[name] ?? { type: "Point", coordinates: data.coordinates[row.from] };
      const { people, low, high, km } = row;
      return { type: "Feature", properties: { origin: name, destination: data.names[place], people, low, high, km }, geometry };
    });
    return JSON.stringify({ type: "FeatureCollection", features });
  }

  /** A link whose file is made when it is used. */
  function offer(id, kind, name, content) {
    byId(id).onclick = () => {
      const address = URL.createObjectURL(new Blob([content()], { type: kind }));
      byId(id).href = address;
      byId(id).download = name();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    };
  }

  function choose(place) {
    end = place;
    const found = origins(place);
    const mean = found.rows.reduce((sum, row) => sum + row.people * row.km, 0) / found.total;
    const home = found.rows.find((row) => row.from === place);
    byId("place").value = String(place);
    byId("where").textContent = `Where the people live who work in ${data.titles[place]}`;
    byId("tiles").replaceChildren(
      tile(number(found.total), data.total
        ? `people work here; 95 %: ${number(Math.max(found.total - data.total, 0))} to ${number(found.total + data.total)}`
        : "people work here"),
      tile(`${mean.toFixed(1)} km`, "mean distance from home to work"),
      tile(percent(home ? home.share : 0), "live where they work"));
    paint(found);
    legend(found);
    table(found);
    history.replaceState(null, "", `#${encodeURIComponent(data.names[place])}`);
  }

  /** The place that the address names after #, or the one with the most people. */
  function fromAddress() {
    let name = "";
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch {
      // an address that is no text names no place
    }
    const place = data.names.indexOf(name);
    return data.ends[place] ? place : ends.reduce((best, next) => (totals.get(next) > totals.get(best) ? next : best));
  }

  const totals = new Map(ends.map((place) => [place, data.ends[place].people.reduce((sum, people) => sum + people, 0)]));
  const order = [...ends].sort((a, b) => data.titles[a].localeCompare(data.titles[b], "en", { numeric: true }));
  for (const place of order) byId("place").append(element("option", data.titles[place], { value: place }));
  byId("place").addEventListener("change", (event) => choose(Number(event.target.value)));
  byId("more").addEventListener("click", () => {
    all = !all;
    table(origins(end));
  });
  const file = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "-");
  offer("csv", "text/csv", () => `commute-${file(data.names[end])}.csv`, () => csv([end]));
  offer("geojson", "application/geo+json", () => `commute-${file(data.names[end])}.geojson`, () => geojson(end));
  offer("all", "text/csv", () => "commute.csv", () => csv(ends));
  byId("geojson").hidden = !data.degrees;
  byId("map").hidden = false;
  globalThis.discreet = { csv, geojson, choose, ends };
  if (!ends.length) {
    byId("where").textContent = "The release has nobody in it.";
    byId("place").disabled = true;
    return;
  }
  draw();
  addEventListener("hashchange", () => choose(fromAddress()));
  choose(fromAddress());
})();
