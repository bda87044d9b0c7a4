// The episode's numbers, and Eq. 1 for any weight and k.

const data = JSON.parse(document.getElementById("data").textContent);

function unpack(text, kind) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return new kind(bytes.buffer);
}
const FLOATS = ["rewards", "qTheta", "qNp", "qEva", "neighbourDistances", "entryValues", "trajectoryRewards",
  "trajectoryValues", "observations", "tileObservations", "mapPoints", "mapValues", "mapPath", "mapEntries"];
const INTEGERS = ["actions", "neighbourOffsets", "neighbourEntries", "entryTrajectories", "entrySteps", "entryTiles",
  "trajectoryOffsets", "trajectoryActions", "trajectoryAges", "shownOffsets", "shownSteps", "shownTiles"];
for (const name of FLOATS) data[name] = unpack(data[name], Float32Array);
for (const name of INTEGERS) data[name] = unpack(data[name], Int32Array);

const numActions = data.actionNames.length;
const numSteps = data.actions.length;
const returns = new Float64Array(numSteps);
data.rewards.forEach((reward, step) => { returns[step] = reward + (step > 0 ? returns[step - 1] : 0); });

const row = (array, index, width = numActions) => array.subarray(index * width, (index + 1) * width);

function greedy(values) {
  let best = 0;
  for (let action = 1; action < values.length; action++) if (values[action] > values[best]) best = action;
  return best;
}

// Entries of the value buffer and their distances, nearest first.
function neighbours(step, k) {
  const begin = data.neighbourOffsets[step];
  const end = Math.min(data.neighbourOffsets[step + 1], begin + k);
  return { entries: data.neighbourEntries.subarray(begin, end), distances: data.neighbourDistances.subarray(begin, end) };
}

const nearest = Float64Array.from({ length: numSteps }, (_, step) => neighbours(step, 1).distances[0] ?? NaN);

// The values of a step: the agent's own with the run's weight and k, otherwise Eq. 1 in float32.
// With fewer than k entries in the value buffer, the network decides alone (P24).
function valuesAt(step, weight, k) {
  const theta = row(data.qTheta, step);
  const { entries } = neighbours(step, k);
  if (entries.length < k) return { theta, np: null, eva: theta };
  if (weight === data.weight && k === data.numNeighbours) {
    return { theta, np: row(data.qNp, step), eva: row(data.qEva, step) };
  }
  const np = new Float32Array(numActions);
  for (const entry of entries) row(data.entryValues, entry).forEach((value, action) => { np[action] += value; });
  const [thetaWeight, npWeight] = [Math.fround(1 - weight), Math.fround(weight)];
  const eva = new Float32Array(numActions);
  for (let action = 0; action < numActions; action++) {
    np[action] /= entries.length;
    eva[action] = Math.fround(thetaWeight * theta[action]) + Math.fround(npWeight * np[action]);
  }
  return { theta, np, eva };
}

// For a weight and a k: the steps at which the memory changes the greedy action, and the best values of all steps.
function outcomes(weight, k) {
  const changed = new Set();
  const [best, bestMixed] = [new Float64Array(numSteps), new Float64Array(numSteps)];
  for (let step = 0; step < numSteps; step++) {
    const { theta, eva } = valuesAt(step, weight, k);
    const [alone, mixed] = [greedy(theta), greedy(eva)];
    if (alone !== mixed) changed.add(step);
    best[step] = theta[alone];
    bestMixed[step] = eva[mixed];
  }
  return { changed, best: { theta: best, eva: bestMixed } };
}

function formatted(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : value.toPrecision(Math.max(4, Math.ceil(Math.log10(size))));
}
const brief = (value, digits = 3) => String(Number(value.toPrecision(digits)));
const signed = (value) => (value > 0 ? "+" : "") + Number(value.toPrecision(4));
