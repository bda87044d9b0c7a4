// The page: what is shown, and what moves it.

const $ = (id) => document.getElementById(id);
const current = { step: 0, weight: data.weight, k: data.numNeighbours, changed: new Set(), timer: null };

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function showFrame() {
  const { step } = current;
  const canvas = $("frame");
  if (canvas.width !== data.frames.width) Object.assign(canvas, { width: data.frames.width, height: data.frames.height });
  draw(canvas.getContext("2d"), "frames", step, 0, 0, canvas.width, canvas.height, () => current.step === step);
  canvas.setAttribute("aria-label", `What the agent sees at step ${step + 1} of ${numSteps}`);
  $("where").textContent = `${step + 1} / ${numSteps} · return ${Number(returns[step].toFixed(2))}`;
  $("scrubber").value = step;
  $("scrubber").setAttribute("aria-valuetext", `step ${step + 1} of ${numSteps}`);
}

function showDecision({ theta, np, eva }) {
  const names = data.actionNames;
  const [alone, mixed, taken] = [greedy(theta), greedy(eva), data.actions[current.step]];
  const drawn = taken === greedy(row(data.qEva, current.step)) ? "" : " (explored at random)";
  const line = $("decision");
  line.dataset.network = alone;
  line.dataset.mixed = mixed;
  const words = np === null
    ? [`The network alone says ${names[alone]}; nothing is remembered yet. `]
    : alone === mixed
      ? [`Network and memory agree on ${names[mixed]}. `]
      : [element("span", { class: "badge" }, "changed"), ` The network alone says ${names[alone]}, with the memory it is ${names[mixed]}. `];
  line.replaceChildren(...words, `Taken: ${names[taken]}${drawn}, reward ${signed(data.rewards[current.step])}.`);
}

function showValues({ theta, np, eva }) {
  const columns = { theta, np, eva };
  const lists = Object.values(columns).filter((values) => values !== null);
  const [least, most] = range(...lists);
  const close = most - least < 0.3 * Math.max(Math.abs(least), Math.abs(most));
  const low = close ? least - 0.1 * (most - least) : Math.min(0, least);
  const high = close ? most : Math.max(0, most);
  const zero = close ? low : 0;
  const percent = (value) => 100 * (value - low) / (high - low);
  const rows = data.actionNames.map((name, action) => {
    const line = element("tr", {}, element("th", { scope: "row" }, name));
    if (action === data.actions[current.step]) line.dataset.taken = "";
    for (const [kind, values] of Object.entries(columns)) {
      const cell = element("td", { class: kind });
      if (values !== null) {
        const value = values[action];
        const [from, to] = [Math.min(percent(zero), percent(value)), Math.max(percent(zero), percent(value))];
        const bar = element("i");
        Object.assign(bar.style, { left: `${from}%`, width: `${to - from}%` });
        cell.append(element("b", {}, told(value)), element("div", { class: "bar", "aria-hidden": "true" }, bar));
        cell.dataset.value = value;
        if (action === greedy(values)) cell.dataset.best = "";
      } else cell.append("–");
      line.append(cell);
    }
    return line;
  });
  $("values").tBodies[0].replaceChildren(...rows);
  $("baseline").textContent = "✓ the action taken; bold: the best of each column." +
    (close ? ` The values are close: bars begin at ${brief(low)}.` : "");
}

function shot(tile, caption, label, kind = "") {
  return element("figure", { class: kind }, thumbnail(tile, label), element("figcaption", {}, ...caption));
}

function stepTable(begin, end) {
  const cells = (tag, values) => values.map((value) => element(tag, tag === "th" ? { scope: "col" } : {}, value));
  const body = element("tbody");
  for (let s = begin; s < end; s++) {
    const values = [data.actionNames[data.trajectoryActions[s]], signed(data.trajectoryRewards[s]),
      told(data.trajectoryValues[s]), data.trajectoryAges[s].toLocaleString("en")];
    body.append(element("tr", {}, element("th", { scope: "row" }, `${s - begin + 1}`), ...cells("td", values)));
  }
  const head = element("thead", {}, element("tr", {}, ...cells("th", ["Step", "Action", "Reward", "Value", "Transitions ago"])));
  return element("table", {}, head, body);
}

function memory(entry, distance, rank) {
  const trajectory = data.entryTrajectories[entry];
  const [begin, end] = [data.trajectoryOffsets[trajectory], data.trajectoryOffsets[trajectory + 1]];
  const [at, length] = [data.entrySteps[entry], end - begin];
  const age = data.trajectoryAges[begin + at].toLocaleString("en");
  const caption = (s) => [element("b", {}, data.actionNames[data.trajectoryActions[begin + s]]),
    `step ${s + 1}`, element("br"), `r ${signed(data.trajectoryRewards[begin + s])}`, element("br"), `v ${told(data.trajectoryValues[begin + s])}`];
  const shots = element("div", { class: "shots", role: "group", tabindex: "0", "aria-label": `Pictures of memory ${rank}` });
  shots.append(shot(data.entryTiles[entry], caption(at), `The remembered state, step ${at + 1} of ${length}`, "self"));
  for (let place = data.shownOffsets[trajectory]; place < data.shownOffsets[trajectory + 1]; place++) {
    const s = data.shownSteps[place];
    shots.append(shot(data.shownTiles[place], caption(s), `Step ${s + 1} of its trajectory`));
  }
  const backed = element("canvas", { class: "backed", role: "img",
    "aria-label": `Backed-up values along the trajectory, ${told(data.trajectoryValues[begin])} at its start` });
  const details = element("details", {}, element("summary", {}, `All ${length} steps`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(stepTable(begin, end));
  });
  const title = element("h3", {}, `${rank}. distance ${told(distance)} `,
    element("span", {}, `· lived ${age} transitions ago · step ${at + 1} of ${length} of its trajectory`));
  const item = element("li", { class: "memory", "data-entry": entry, "data-distance": distance }, title, shots, backed, details);
  return { item, paint: () => drawBackedUp(backed, trajectory, at) };
}

function showMemories() {
  const { entries, distances } = neighbours(current.step, current.k);
  const made = [...entries].map((entry, place) => memory(entry, distances[place], place + 1));
  $("memories").replaceChildren(...made.map(({ item }) => item));
  made.forEach(({ paint }) => paint());
  $("no-memories").textContent = entries.length > 0
    ? "The nearest planned states, nearest first. Outlined: the remembered state; beside it what was lived around it, " +
      "with action, reward (r) and backed-up value (v). The line is that value along the trajectory, ticks are rewards."
    : data.weight === 0 ? "With weight 0 nothing is planned or recalled: inspect with a weight above 0 to see memories."
      : "Nothing has been planned for states like this one yet.";
  drawMap($("map"), current.step, entries);
  $("map").setAttribute("aria-label", `Map of the memory: the present state and ${entries.length} recalled ones`);
}

function show() {
  const values = valuesAt(current.step, current.weight, current.k);
  showFrame();
  showDecision(values);
  showValues(values);
  showMemories();
  drawFilm($("film"), current.step, current.changed);
  drawTimeline($("timeline"), current.step, current.weight, current.k, current.changed);
  const changed = [...current.changed];
  $("previous").disabled = !changed.some((step) => step < current.step);
  $("next").disabled = !changed.some((step) => step > current.step);
}

function go(step) {
  current.step = Math.max(0, Math.min(numSteps - 1, step));
  show();
}

function jump(direction) {
  const ahead = [...current.changed].filter((step) => (step - current.step) * direction > 0);
  if (ahead.length > 0) go(direction > 0 ? ahead[0] : ahead[ahead.length - 1]);
}

function mix(weight, k) {
  Object.assign(current, { weight, k, changed: new Set(changes(weight, k)) });
  const played = weight === data.weight && k === data.numNeighbours;
  $("weight").value = weight;
  $("k").value = k;
  $("weight-told").textContent = Number(weight.toFixed(3));
  $("k-told").textContent = k;
  $("what-if").textContent = `${played ? "As played" : "What if"}: the memory ${played ? "changed" : "would change"} ` +
    `${current.changed.size} of ${numSteps} decisions.`;
  $("as-played").hidden = played;
  drawMarks($("marks"), current.changed);
  show();
}

function play(on) {
  clearInterval(current.timer);
  current.timer = on ? setInterval(() => (current.step < numSteps - 1 ? go(current.step + 1) : play(false)), 150) : null;
  $("play").textContent = on ? "Pause" : "Play";
  $("decision").setAttribute("aria-live", on ? "off" : "polite");  // a film is not to be read aloud
}

function toggle() {
  const on = current.timer === null;
  if (on && current.step === numSteps - 1) go(0);
  play(on);
}

function onKey(event) {
  if (event.target.matches("input, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { ArrowLeft: () => go(current.step - 1), ArrowRight: () => go(current.step + 1), Home: () => go(0),
    End: () => go(numSteps - 1), n: () => jump(1), p: () => jump(-1), " ": toggle };
  if (!(event.key in keys) || (event.key === " " && event.target.matches("button"))) return;
  event.preventDefault();
  keys[event.key]();
}

function begin() {
  $("scrubber").max = numSteps - 1;
  $("k").max = Math.max(data.numNeighbours, ...Array.from({ length: numSteps }, (_, step) => neighbours(step, Infinity).entries.length));
  $("weight").disabled = $("k").disabled = data.neighbourEntries.length === 0;
  $("scrubber").addEventListener("input", (event) => go(Number(event.target.value)));
  $("weight").addEventListener("input", (event) => mix(Number(event.target.value), current.k));
  $("k").addEventListener("input", (event) => mix(current.weight, Number(event.target.value)));
  $("as-played").addEventListener("click", () => mix(data.weight, data.numNeighbours));
  $("previous").addEventListener("click", () => jump(-1));
  $("next").addEventListener("click", () => jump(1));
  $("play").addEventListener("click", toggle);
  $("film").addEventListener("click", (event) => go(filmGeometry.first + Math.floor(event.offsetX / filmGeometry.tile)));
  $("timeline").addEventListener("pointerdown", (event) => go(stepOnTimeline($("timeline"), event)));
  document.addEventListener("keydown", onKey);
  $("timeline").setAttribute("aria-label", `Timeline: return ${Number(returns[numSteps - 1].toFixed(2))} after ${numSteps} steps`);
  const [low, high] = range(data.mapValues);
  $("map-low").textContent = `value ${brief(low)}`;
  $("map-high").textContent = brief(high);
  $("map-note").textContent = `The memory's embeddings along their two main directions (${Math.round(100 * data.mapExplained)}% of the ` +
    "variance), coloured by the network's value. Ringed: the present state (dark) and the recalled ones (orange).";
  const redraw = () => { drawMarks($("marks"), current.changed); show(); };
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const [firstChange] = changes(data.weight, data.numNeighbours);
  const firstRecall = data.neighbourOffsets.findIndex((offset) => offset > 0) - 1;
  current.step = firstChange === undefined ? Math.max(0, firstRecall) : firstChange;
  mix(data.weight, data.numNeighbours);
}

begin();
