// The page: what it shows, and its controls.

const $ = (id) => document.getElementById(id);
const current = { step: 0, weight: data.weight, k: data.numNeighbours, changed: new Set(), best: null, timer: null };
const isAsPlayed = (weight, k) => weight === data.weight && k === data.numNeighbours;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function showFrame() {
  const { step } = current;
  const canvas = $("frame");
  draw(canvas.getContext("2d"), "frames", step, 0, 0, canvas.width, canvas.height, () => current.step === step);
  canvas.setAttribute("aria-label", `${data.isRendered ? "The state" : "What the agent sees"} at step ${step + 1} of ${numSteps}`);
  if (data.axes) showAxes(row(data.observations, step, data.axes.names.length));
  const total = Number(returns[step].toFixed(2));
  $("where").replaceChildren(element("b", {}, `${step + 1}`), ` / ${numSteps}`, element("span", { class: "long" }, ` · return ${total}`));
  $("scrubber").value = step;
  const changed = current.changed.has(step) ? ", the memory changes the decision" : "";
  $("scrubber").setAttribute("aria-valuetext", `step ${step + 1} of ${numSteps}, return ${total}${changed}`);
}

// The numbers of a vector: a bar from 0, or from the low end of the range if 0 is outside.
function showAxes(numbers) {
  const { names, ranges, bounded } = data.axes;
  const rows = [...numbers].map((value, axis) => {
    const [low, high] = ranges[axis];
    const percent = (at) => 100 * (Math.max(low, Math.min(high, at)) - low) / (high - low);
    const [from, to] = [percent(Math.max(low, Math.min(high, 0))), percent(value)];
    const bar = element("i");
    Object.assign(bar.style, { left: `${Math.min(from, to)}%`, width: `max(2px, ${Math.abs(to - from)}%)` });
    const name = names[axis] + (bounded[axis] ? "" : " *");
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "n", "data-value": value }, formatted(value)),
      element("td", { class: "n low" }, brief(low)), element("td", {}, element("div", { class: "bar", "aria-hidden": "true" }, bar)),
      element("td", { class: "high" }, brief(high)));
  });
  $("axes").tBodies[0].replaceChildren(...rows);
}

const MOST_NUMBERS = 12;

// The numbers of a remembered state in words, or an empty text if observations are images.
function numbersOf(tile) {
  if (!data.axes) return "";
  const { names } = data.axes;
  return [...row(data.tileObservations, tile, names.length)].map((value, axis) => `${names[axis]} ${formatted(value)}`).join(", ");
}

function showDecision({ theta, np, eva }) {
  const names = data.actionNames;
  const [alone, mixed, taken] = [greedy(theta), greedy(eva), data.actions[current.step]];
  const explored = taken !== greedy(row(data.qEva, current.step));
  const kind = np === null ? "network alone" : alone === mixed ? "agreed" : "changed";
  const badge = (text) => element("span", { class: "badge", "data-kind": text }, text);
  const action = (series, name) => element("span", { class: series }, name);
  $("outcome").replaceChildren(
    ...(kind === "changed" ? [action("theta", names[alone]), "→"] : []), action(np === null ? "theta" : "eva", names[mixed]),
    badge(kind), ...(explored ? [badge("explored")] : []));
  Object.assign($("decision").dataset, { network: alone, mixed, kind });
  const words = {
    "network alone": `The network prefers ${names[alone]}; ${current.k > data.numNeighbours ? `the value buffer holds fewer than ${current.k} entries` : "nothing is remembered yet"}.`,
    agreed: `Network and memory agree on ${names[mixed]}.`,
    changed: `The network alone prefers ${names[alone]}, with the memory it is ${names[mixed]}.`,
  };
  $("decision").textContent = `${words[kind]} Taken: ${names[taken]}${explored ? " (explored at random)" : ""}, ` +
    `reward ${signed(data.rewards[current.step])}.`;
}

// The range of the bars. If all values have one sign and are close, the bars start near the smallest instead of at 0.
function barScale(...lists) {
  const [least, most] = range(...lists);
  if (least * most > 0 && most - least < 0.5 * Math.max(-least, most)) {
    const low = least - 0.15 * (most - least);
    return { low, high: most, zero: low };
  }
  return { low: Math.min(0, least), high: Math.max(0, most), zero: 0 };
}

function showValues({ theta, np, eva }) {
  const columns = { theta, np, eva };
  const lists = Object.values(columns).filter((values) => values !== null);
  const { low, high, zero } = barScale(...lists);
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
        cell.append(element("b", {}, formatted(value)), element("div", { class: "bar", "aria-hidden": "true" }, bar));
        cell.dataset.value = value;
        if (action === greedy(values)) cell.dataset.best = "";
      } else cell.append("–");
      line.append(cell);
    }
    return line;
  });
  $("values").tBodies[0].replaceChildren(...rows);
  $("baseline").textContent = "✓ the action taken; bold: the best of each column." +
    (zero === 0 ? "" : ` The values are close: bars begin at ${brief(low)}.`);
}

function shot(tile, caption, label, kind = "") {
  const numbers = numbersOf(tile);
  return element("figure", { class: kind, ...(numbers && { title: numbers }) }, thumbnail(tile, label), element("figcaption", {}, ...caption));
}

function stepTable(begin, end) {
  const cells = (tag, values) => values.map((value) => element(tag, tag === "th" ? { scope: "col" } : {}, value));
  const body = element("tbody");
  for (let s = begin; s < end; s++) {
    const values = [data.actionNames[data.trajectoryActions[s]], signed(data.trajectoryRewards[s]),
      formatted(data.trajectoryValues[s]), data.trajectoryAges[s].toLocaleString("en")];
    body.append(element("tr", {}, element("th", { scope: "row" }, `${s - begin + 1}`), ...cells("td", values)));
  }
  const head = element("thead", {}, element("tr", {}, ...cells("th", ["Step", "Action", "Reward", "Value", "Transitions ago"])));
  return element("table", {}, head, body);
}

// Up to eight steps of a trajectory with their pictures; the recalled step replaces the last shown step before it.
function shownSteps(trajectory, at, tile) {
  const [first, last] = [data.shownOffsets[trajectory], data.shownOffsets[trajectory + 1]];
  const shown = Array.from(data.shownSteps.subarray(first, last), (step, place) => ({ step, tile: data.shownTiles[first + place] }));
  shown[shown.filter(({ step }) => step <= at).length - 1] = { step: at, tile };
  return shown;
}

function memory(entry, distance, rank) {
  const trajectory = data.entryTrajectories[entry];
  const [begin, end] = [data.trajectoryOffsets[trajectory], data.trajectoryOffsets[trajectory + 1]];
  const [at, length] = [data.entrySteps[entry], end - begin];
  const name = (s) => data.actionNames[data.trajectoryActions[begin + s]];
  const caption = (s) => [element("b", {}, name(s)), `step ${s + 1}`, element("br"),
    `r ${signed(data.trajectoryRewards[begin + s])}`, element("br"), `v ${formatted(data.trajectoryValues[begin + s])}`];
  const shots = element("div", { class: "shots", role: "group", "aria-label": `Pictures of memory ${rank}` });
  for (const { step, tile } of shownSteps(trajectory, at, data.entryTiles[entry])) {
    const label = step === at ? "The remembered state" : "Its trajectory";
    shots.append(shot(tile, caption(step), `${label}, step ${step + 1} of ${length}`, step === at ? "self" : ""));
  }
  const backed = element("canvas", { class: "backed", role: "img", "aria-label": "Backed-up values along the trajectory, " +
    `from ${formatted(data.trajectoryValues[begin])} to ${formatted(data.trajectoryValues[end - 1])}` });
  const details = element("details", {}, element("summary", {}, `All ${length} steps`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(stepTable(begin, end));
  });
  const preferred = data.actionNames[greedy(row(data.entryValues, entry))];
  const age = data.trajectoryAges[begin + at].toLocaleString("en");
  const title = element("h3", {}, `${rank}. Prefers ${preferred}, at distance ${formatted(distance)} `,
    element("span", {}, `· lived ${age} transitions ago · step ${at + 1} of ${length} of its trajectory`));
  const numbers = data.axes && data.axes.names.length <= MOST_NUMBERS
    ? [element("p", { class: "hint numbers" }, `Remembered: ${numbersOf(data.entryTiles[entry])}.`)] : [];
  const item = element("li", { class: "memory", "data-entry": entry, "data-distance": distance }, title, shots, ...numbers, backed, details);
  return { item, paint: () => drawBackedUp(backed, trajectory, at) };
}

function memoriesNote(found) {
  if (found >= current.k) {
    return "The nearest planned states and what each speaks for. Outlined: the state, among what was lived around it, with " +
      "action, reward (r) and backed-up value (v). The line is that value along the trajectory, ticks are rewards." +
      (data.axes ? ` The bars of a picture are, from left to right: ${data.axes.names.join(", ")}.` : "");
  }
  if (found > 0) return `The value buffer holds only ${found} entries here: with k = ${current.k} the network decides alone.`;
  if (data.weight === 0) return "With weight 0 nothing is planned or recalled. Run eva inspect with --weight 0.4 to see memories.";
  return data.neighbourEntries.length === 0
    ? "Nothing was recalled in this episode: the memory is empty, or no plan was made before it was over."
    : "Nothing is planned yet: the first plan is made after the first decision, for those after it.";
}

function showMemories() {
  const { entries, distances } = neighbours(current.step, current.k);
  const made = [...entries].map((entry, place) => memory(entry, distances[place], place + 1));
  $("memories").replaceChildren(...made.map(({ item }) => item));
  made.forEach(({ paint }) => paint());
  $("memories-note").textContent = memoriesNote(entries.length);
  $("memories-note").classList.toggle("empty", entries.length === 0);
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
  drawTimeline($("timeline"), current.step, current.best, current.changed);
  $("previous").disabled = nextChange(-1) === undefined;
  $("next").disabled = nextChange(1) === undefined;
}

function go(step) {
  current.step = Math.max(0, Math.min(numSteps - 1, step));
  show();
}

// The nearest change before (-1) or after (1) the current step.
function nextChange(direction) {
  const ahead = [...current.changed].filter((step) => (step - current.step) * direction > 0);
  return direction > 0 ? ahead[0] : ahead[ahead.length - 1];
}

function jump(direction) {
  go(nextChange(direction) ?? current.step);
}

function mix(weight, k) {
  Object.assign(current, { weight, k, ...outcomes(weight, k) });
  const played = isAsPlayed(weight, k);
  $("weight").value = weight;
  $("k").value = k;
  $("weight-value").textContent = Number(weight.toFixed(3));
  $("k-value").textContent = k;
  $("what-if").textContent = `${played ? "As played: the memory changed" : "What if: the memory would change"} ` +
    `${current.changed.size.toLocaleString("en")} of ${numSteps.toLocaleString("en")} decisions.`;
  $("as-played").hidden = played;
  drawMarks($("marks"), current.changed);
  show();
}

function play(on) {
  clearInterval(current.timer);
  current.timer = on ? setInterval(() => (current.step < numSteps - 1 ? go(current.step + 1) : play(false)), 150) : null;
  $("play").textContent = on ? "Pause" : "Play";
  $("decision").setAttribute("aria-live", on ? "off" : "polite");  // screen readers do not read out playback
}

function toggle() {
  const on = current.timer === null;
  if (on && current.step === numSteps - 1) go(0);
  play(on);
}

const KEYS = { ArrowLeft: () => go(current.step - 1), ArrowRight: () => go(current.step + 1), Home: () => go(0),
  End: () => go(numSteps - 1), n: () => jump(1), p: () => jump(-1), " ": toggle };

// Sliders keep the keys that move them; buttons and summaries keep the space bar.
function onKey(event) {
  const ownKeys = event.target.matches("input") ? ["ArrowLeft", "ArrowRight", "Home", "End"] : event.target.matches("button, summary") ? [" "] : [];
  if (!(event.key in KEYS) || ownKeys.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
}

function describeMap() {
  const [low, high] = range(data.mapValues);
  $("map-low").textContent = `value ${brief(low)}`;
  $("map-high").textContent = brief(high);
  const empty = data.mapValues.length === 0;
  $("map-low").parentElement.hidden = empty;
  const shown = empty ? "The memory is empty: these are the episode's embeddings" : "The memory's embeddings, coloured by the network's value,";
  $("map-note").textContent = `${shown} along their two main directions (${Math.round(100 * data.mapExplained)}% of the variance). ` +
    `Ringed: the present state, with the way of the last ${TRAIL} steps, and the recalled ones (orange).`;
}

function listen() {
  $("scrubber").addEventListener("input", (event) => go(Number(event.target.value)));
  $("weight").addEventListener("input", (event) => mix(Number(event.target.value), current.k));
  $("k").addEventListener("input", (event) => mix(current.weight, Number(event.target.value)));
  $("as-played").addEventListener("click", () => mix(data.weight, data.numNeighbours));
  $("previous").addEventListener("click", () => jump(-1));
  $("next").addEventListener("click", () => jump(1));
  $("play").addEventListener("click", toggle);
  $("film").addEventListener("click", (event) => go(filmGeometry.first + Math.floor(event.offsetX / filmGeometry.tile)));
  const seek = (event) => { if (event.buttons === 1) go(stepOnTimeline($("timeline"), event)); };
  $("timeline").addEventListener("pointerdown", seek);
  $("timeline").addEventListener("pointermove", seek);
  document.addEventListener("keydown", onKey);
  const redraw = () => { drawMarks($("marks"), current.changed); show(); };
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

function begin() {
  const { width, height } = data.frames;
  Object.assign($("frame"), { width, height });
  if (data.isRendered) $("frame").style.imageRendering = "auto";
  $("frame").style.width = `min(100%, calc(min(56vh, 29rem) * ${width / height}))`;
  $("scrubber").max = numSteps - 1;
  const counts = Array.from({ length: numSteps }, (_, step) => data.neighbourOffsets[step + 1] - data.neighbourOffsets[step]);
  $("k").max = counts.reduce((most, count) => Math.max(most, count), data.numNeighbours);
  $("weight").disabled = $("k").disabled = data.neighbourEntries.length === 0;
  $("timeline").setAttribute("aria-label", `Timeline: return ${Number(returns[numSteps - 1].toFixed(2))} after ${numSteps} steps`);
  describeMap();
  listen();
  const [firstChange] = outcomes(data.weight, data.numNeighbours).changed;
  current.step = firstChange ?? Math.max(0, counts.findIndex((count) => count > 0));
  mix(data.weight, data.numNeighbours);
}

begin();
