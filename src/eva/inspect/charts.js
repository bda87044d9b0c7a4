// The film strip, the timeline, the marks above the scrubber, a trajectory's values, and the map.

function range(...lists) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (Number.isNaN(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function polyline(context, values, x, y, stroke, width = 1.5) {
  context.beginPath();
  let down = false;
  values.forEach((value, index) => {
    if (Number.isNaN(value)) { down = false; return; }
    if (down) context.lineTo(x(index), y(value)); else context.moveTo(x(index), y(value));
    down = true;
  });
  Object.assign(context, { strokeStyle: stroke, lineWidth: width, lineJoin: "round" });
  context.stroke();
}

function dot(context, x, y, radius, fill) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
}

function ring(context, x, y, radius, stroke) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  Object.assign(context, { strokeStyle: stroke, lineWidth: 2.5 });
  context.stroke();
}

const FILM = { gap: 6, top: 14, tall: 56 };
const filmGeometry = { first: 0, tile: 1 };

// As many whole tiles as fit the width, with the current step in the middle where possible.
function drawFilm(canvas, step, changed) {
  const aspect = data.frames.width / data.frames.height;
  const wide = canvas.getBoundingClientRect().width;
  const shown = Math.max(3, Math.round(wide / (FILM.tall * aspect + FILM.gap)));
  const tile = (wide - FILM.gap * shown) / shown;
  canvas.style.height = `${tile / aspect + FILM.top + FILM.gap}px`;
  const { context } = fitted(canvas);
  const first = Math.max(0, Math.min(step - Math.floor(shown / 2), numSteps - shown));
  Object.assign(filmGeometry, { first, tile: tile + FILM.gap });
  for (let place = 0; place < shown && first + place < numSteps; place++) {
    const [index, x] = [first + place, place * (tile + FILM.gap) + FILM.gap / 2];
    draw(context, "frames", index, x, FILM.top, tile, tile / aspect, () => filmGeometry.first === first);
    if (changed.has(index)) dot(context, x + tile / 2, 5, 3.5, named("np"));
    if (index === step) {
      Object.assign(context, { strokeStyle: colour("ink"), lineWidth: 3 });
      context.strokeRect(x - 1.5, FILM.top - 1.5, tile + 3, tile / aspect + 3);
    }
  }
}

function drawMarks(canvas, changed) {
  const { context, width, height } = fitted(canvas);
  const inset = 8;  // half of the scrubber's thumb
  context.fillStyle = named("np");
  for (const step of changed) {
    context.fillRect(inset + (width - 2 * inset) * step / Math.max(1, numSteps - 1) - 1, 0, 2, height);
  }
}

const TIMELINE = { left: 60, right: 10, top: 32, bottom: 12 };

// Three panels, one above the other; a vertical line marks the current step.
function drawTimeline(canvas, step, { theta, eva }, changed) {
  const { context, width, height } = fitted(canvas);
  const panels = [
    { title: "return so far", lines: [["", returns, "ink"]] },
    { title: "best value", lines: [["network", theta, "theta"], ["mixed", eva, "eva"]] },
    { title: "distance to the nearest memory", lines: [["", nearest, "np"]] },
  ];
  const each = height / panels.length;
  const x = (s) => TIMELINE.left + (width - TIMELINE.left - TIMELINE.right) * s / Math.max(1, numSteps - 1);
  panels.forEach((panel, number) => drawPanel(context, panel, x, width, number * each, each, step));
  for (const s of changed) dot(context, x(s), 2 * each - 4, 2, named("np"));
}

function drawPanel(context, { title, lines }, x, width, above, tall, step) {
  const [top, bottom] = [above + TIMELINE.top, above + tall - TIMELINE.bottom];
  const [low, high] = range(...lines.map(([, values]) => values));
  const y = (value) => bottom - (bottom - top) * (value - low) / (high - low);
  context.font = "12px " + colour("font");
  Object.assign(context, { fillStyle: colour("muted"), textAlign: "right", textBaseline: "middle" });
  const isEmpty = lines.every(([, values]) => values.every(Number.isNaN));
  if (!isEmpty) [[high, top], [low, bottom]].forEach(([value, edge]) => context.fillText(brief(value), TIMELINE.left - 8, edge));
  Object.assign(context, { textAlign: "left", textBaseline: "alphabetic" });
  let place = 0;
  const write = (text, fill, weight = "") => {
    context.font = `${weight} 12px ${colour("font")}`;
    context.fillStyle = fill;
    context.fillText(text, place, top - 15);
    place += context.measureText(text).width;
  };
  write(title + " ", colour("muted"));
  for (const [name, values, series] of lines) {
    dot(context, place + 7, top - 19, 3.5, named(series));
    place += 15;
    write(`${name} ${Number.isNaN(values[step]) ? "–" : brief(values[step], 4)}  `.trimStart(), colour("ink"), "600");
  }
  context.fillStyle = colour("rule");
  for (const edge of [top, bottom]) context.fillRect(TIMELINE.left, Math.round(edge), width - TIMELINE.left - TIMELINE.right, 1);
  context.fillStyle = colour("muted");
  context.fillRect(Math.round(x(step)), top, 1, bottom - top);
  for (const [, values, series] of lines) polyline(context, values, x, y, named(series));
  for (const [, values, series] of lines) if (!Number.isNaN(values[step])) dot(context, x(step), y(values[step]), 4, named(series));
}

function stepOnTimeline(canvas, event) {
  const { left, width } = canvas.getBoundingClientRect();
  return Math.round((event.clientX - left - TIMELINE.left) / (width - TIMELINE.left - TIMELINE.right) * (numSteps - 1));
}

const largestReward = data.trajectoryRewards.reduce((largest, reward) => Math.max(largest, Math.abs(reward)), 0);

// Backed-up values along a trajectory, with a tick at each reward and a dot at the remembered state.
function drawBackedUp(canvas, trajectory, at) {
  const { context, width, height } = fitted(canvas);
  const [begin, end] = [data.trajectoryOffsets[trajectory], data.trajectoryOffsets[trajectory + 1]];
  const values = data.trajectoryValues.subarray(begin, end);
  const rewards = data.trajectoryRewards.subarray(begin, end);
  const [low, high] = range(values);
  const x = (s) => 6 + (width - 12) * s / Math.max(1, values.length - 1);
  const y = (value) => height - 8 - (height - 16) * (value - low) / (high - low);
  rewards.forEach((reward, s) => {
    if (reward === 0) return;
    context.fillStyle = named(reward > 0 ? "eva" : "muted");
    const tall = Math.max(2, height * 0.5 * Math.abs(reward) / largestReward);
    context.fillRect(x(s) - 1, height - tall, 2, tall);
  });
  polyline(context, values, x, y, named("np"));
  dot(context, x(at), y(values[at]), 4, named("np"));
}

// A colour for each of `num` values from low to high, between the four of the style sheet.
function palette(num) {
  const stops = [0, 1, 2, 3].map((stop) => [1, 3, 5].map((at) => parseInt(colour(`ramp-${stop}`).slice(at, at + 2), 16)));
  return Array.from({ length: num }, (_, shade) => {
    const place = 3 * shade / (num - 1);
    const [from, to] = [stops[Math.floor(place)], stops[Math.ceil(place)]];
    return `rgb(${from.map((part, channel) => Math.round(part + (to[channel] - part) * (place % 1))).join(" ")})`;
  });
}

const TRAIL = 20;
const every = (list, offset) => list.filter((_, index) => index % 2 === offset);
const mapLists = [data.mapPoints, data.mapPath, data.mapEntries];
const [[mapLeft, mapRight], [mapBottom, mapTop]] = [0, 1].map((offset) => range(...mapLists.map((list) => every(list, offset))));
const cloud = { key: null, canvas: document.createElement("canvas") };

function onMap(list, index, width, height) {
  return [12 + (width - 24) * (list[2 * index] - mapLeft) / (mapRight - mapLeft),
    height - 12 - (height - 24) * (list[2 * index + 1] - mapBottom) / (mapTop - mapBottom)];
}

// The memory's states do not move: they are drawn once per size and colour scheme.
function drawCloud(canvas, width, height) {
  const key = [canvas.width, canvas.height, colour("ramp-0")].join();
  if (cloud.key === key) return;
  Object.assign(cloud.canvas, { width: canvas.width, height: canvas.height });
  const context = cloud.canvas.getContext("2d");
  context.scale(canvas.width / width, canvas.height / height);
  context.globalAlpha = 0.65;
  const [low, high] = range(data.mapValues);
  const shades = palette(64);
  data.mapValues.forEach((value, index) => {
    dot(context, ...onMap(data.mapPoints, index, width, height), 2.2, shades[Math.round(63 * (value - low) / (high - low))]);
  });
  cloud.key = key;
}

function drawMap(canvas, step, entries) {
  const { context, width, height } = fitted(canvas);
  drawCloud(canvas, width, height);
  context.drawImage(cloud.canvas, 0, 0, width, height);
  const at = (list, index) => onMap(list, index, width, height);
  const trail = Array.from({ length: Math.min(TRAIL, step) + 1 }, (_, back) => at(data.mapPath, step - back));
  polyline(context, trail.map((_, index) => index), (index) => trail[index][0], (index) => trail[index][1], colour("ink"), 1);
  for (const entry of [...entries].reverse()) ring(context, ...at(data.mapEntries, entry), 6, named("np"));
  ring(context, ...at(data.mapPath, step), 9, colour("ink"));
  dot(context, ...at(data.mapPath, step), 3.5, colour("ink"));
}
