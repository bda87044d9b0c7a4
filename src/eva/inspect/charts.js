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

const filmGeometry = { first: 0, tile: 1 };

function drawFilm(canvas, step, changed) {
  const { context, width, height } = fitted(canvas);
  const gap = 4;
  const tall = height - 14;
  const tile = Math.min(tall * data.frames.width / data.frames.height, 110);
  const shown = Math.max(1, Math.floor(width / (tile + gap)));
  const first = Math.max(0, Math.min(step - Math.floor(shown / 2), numSteps - shown));
  Object.assign(filmGeometry, { first, tile: tile + gap });
  const high = tile * data.frames.height / data.frames.width;
  for (let place = 0; place < shown && first + place < numSteps; place++) {
    const [index, x] = [first + place, place * (tile + gap) + 2];
    draw(context, "frames", index, x, 12, tile, high, () => current.step === step);
    if (changed.has(index)) dot(context, x + tile / 2, 5, 3.5, named("np"));
    if (index === step) {
      Object.assign(context, { strokeStyle: named("eva"), lineWidth: 4 });
      context.strokeRect(x, 12, tile, high);
    }
  }
}

function dot(context, x, y, radius, fill) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
}

function drawMarks(canvas, changed) {
  const { context, width, height } = fitted(canvas);
  const inset = 8;  // half of the scrubber's thumb
  context.fillStyle = named("np");
  for (const step of changed) {
    context.fillRect(inset + (width - 2 * inset) * step / Math.max(1, numSteps - 1) - 1, 0, 2, height);
  }
}

const TIMELINE_LEFT = 8;

// Three panels above each other; the step is a vertical line through all.
function drawTimeline(canvas, step, weight, k, changed) {
  const { context, width, height } = fitted(canvas);
  const best = (name) => Float64Array.from({ length: numSteps }, (_, s) => Math.max(...valuesAt(s, weight, k)[name]));
  const nearest = Float64Array.from({ length: numSteps }, (_, s) => {
    const { distances } = neighbours(s, 1);
    return distances.length > 0 ? distances[0] : NaN;
  });
  const panels = [
    { title: "return so far", lines: [[returns, "ink"]] },
    { title: "best value: network, mixed", lines: [[best("theta"), "theta"], [best("eva"), "eva"]] },
    { title: "distance to the nearest memory", lines: [[nearest, "np"]] },
  ];
  const x = (s) => TIMELINE_LEFT + (width - 2 * TIMELINE_LEFT) * s / Math.max(1, numSteps - 1);
  const each = height / panels.length;
  context.font = "12px " + colour("font");
  panels.forEach(({ title, lines }, number) => {
    const [top, bottom] = [number * each + 20, (number + 1) * each - 8];
    const [low, high] = range(...lines.map(([values]) => values));
    const y = (value) => bottom - (bottom - top) * (value - low) / (high - low);
    context.fillStyle = colour("muted");
    context.textAlign = "left";
    context.fillText(title, TIMELINE_LEFT, top - 7);
    context.textAlign = "right";
    context.fillText(`${brief(low)} to ${brief(high)}`, width - TIMELINE_LEFT, top - 7);
    context.fillStyle = colour("rule");
    context.fillRect(TIMELINE_LEFT, bottom + 1, width - 2 * TIMELINE_LEFT, 1);
    for (const [values, name] of lines) polyline(context, values, x, y, named(name));
    for (const [values, name] of lines) if (!Number.isNaN(values[step])) dot(context, x(step), y(values[step]), 3.5, named(name));
  });
  context.globalAlpha = 0.5;
  for (const s of changed) dot(context, x(s), 2 * each - 4, 1.8, named("np"));
  context.globalAlpha = 1;
  context.fillStyle = colour("muted");
  context.fillRect(x(step) - 0.5, 0, 1, height);
}

function stepOnTimeline(canvas, event) {
  const { left, width } = canvas.getBoundingClientRect();
  return Math.round((event.clientX - left - TIMELINE_LEFT) / (width - 2 * TIMELINE_LEFT) * (numSteps - 1));
}

// Backed-up values along a trajectory, with a tick at each reward and a ring at the remembered state.
function drawBackedUp(canvas, trajectory, at) {
  const { context, width, height } = fitted(canvas);
  const [begin, end] = [data.trajectoryOffsets[trajectory], data.trajectoryOffsets[trajectory + 1]];
  const values = data.trajectoryValues.subarray(begin, end);
  const rewards = data.trajectoryRewards.subarray(begin, end);
  const [low, high] = range(values);
  const x = (s) => 6 + (width - 12) * s / Math.max(1, values.length - 1);
  const y = (value) => height - 8 - (height - 16) * (value - low) / (high - low);
  const largest = Math.max(...rewards.map(Math.abs));
  rewards.forEach((reward, s) => {
    if (reward === 0) return;
    context.fillStyle = named(reward > 0 ? "eva" : "muted");
    const tall = Math.max(2, height * 0.5 * Math.abs(reward) / largest);
    context.fillRect(x(s) - 1, height - tall, 2, tall);
  });
  polyline(context, values, x, y, named("np"));
  dot(context, x(at), y(values[at]), 4, named("np"));
}

// Dark to light: values from low to high.
const RAMP = [[58, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(share) {
  const place = Math.min(0.9999, Math.max(0, share)) * (RAMP.length - 1);
  const [a, b, rest] = [RAMP[Math.floor(place)], RAMP[Math.floor(place) + 1], place % 1];
  return `rgb(${a.map((part, i) => Math.round(part + (b[i] - part) * rest)).join(" ")})`;
}

function drawMap(canvas, step, entries) {
  const { context, width, height } = fitted(canvas);
  const every = (offset) => [data.mapPoints, data.mapPath, data.mapEntries].map((list) => list.filter((_, i) => i % 2 === offset));
  const [[left, right], [bottom, top]] = [range(...every(0)), range(...every(1))];
  const x = (value) => 12 + (width - 24) * (value - left) / (right - left);
  const y = (value) => height - 12 - (height - 24) * (value - bottom) / (top - bottom);
  const at = (list, index) => [x(list[2 * index]), y(list[2 * index + 1])];
  const [low, high] = range(data.mapValues);
  context.globalAlpha = 0.6;
  data.mapValues.forEach((value, index) => dot(context, ...at(data.mapPoints, index), 2, ramp((value - low) / (high - low))));
  context.globalAlpha = 1;
  for (const entry of [...entries].reverse()) ring(context, ...at(data.mapEntries, entry), 6, named("np"));
  ring(context, ...at(data.mapPath, step), 9, colour("ink"));
  dot(context, ...at(data.mapPath, step), 3.5, colour("ink"));
}

function ring(context, x, y, radius, stroke) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  Object.assign(context, { strokeStyle: stroke, lineWidth: 2.5 });
  context.stroke();
}
