// Pictures, cut from sprite sheets that are decoded on first use.

const loaded = new Map();

function sheet(name, number) {
  const key = name + number;
  if (!loaded.has(key)) {
    const image = new Image();
    image.src = "data:image/png;base64," + data[name].files[number];
    loaded.set(key, image);
  }
  return loaded.get(key);
}

// Draw picture `index` of the sheets `name` when it is loaded, unless `wanted` returns false by then.
function draw(context, name, index, x, y, width, height, wanted = () => true) {
  const set = data[name];
  const image = sheet(name, Math.floor(index / set.perSheet));
  const place = index % set.perSheet;
  const column = place % set.columns;
  const line = Math.floor(place / set.columns);
  const paint = () => {
    if (!wanted()) return;
    context.imageSmoothingEnabled = width < set.width;
    context.drawImage(image, column * set.width, line * set.height, set.width, set.height, x, y, width, height);
  };
  if (image.complete && image.naturalWidth > 0) paint();
  else image.addEventListener("load", paint, { once: true });
}

// A canvas that shows one remembered state.
function thumbnail(tile, label) {
  const canvas = document.createElement("canvas");
  canvas.width = data.tiles.width;
  canvas.height = data.tiles.height;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  draw(canvas.getContext("2d"), "tiles", tile, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// Fit a canvas to its size on the screen and return its context, scaled to CSS pixels.
function fitted(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const named = (name) => colour({ theta: "series-0", np: "series-1", eva: "series-2" }[name] || name);
