const { chips, batches, operations, axes, box, links } = data;
const [left, right, top, bottom] = box;
const scale = ([first, last], low, high) => value =>
  low + ((Math.log10(value) - first) / (last - first)) * (high - low);
const x = scale(axes.x, left, right);
const y = scale(axes.y, bottom, top);
const ends = axes.x.map(power => 10 ** power);
const floor = 10 ** axes.y[0];
let chip = data.start[0];
let position = data.start[1];
let dtype = operations[0].dtype;
let level = "memory";
let shown = 0;

const round = value => {
  const three = Number(value.toPrecision(3));
  return three >= 1e6 || (three && three < 1e-3) ? three.toExponential() : three.toLocaleString("en", { maximumSignificantDigits: 3 });
};
const seconds = value => {
  const step = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [unit, name] = step.find(([unit]) => value >= unit) || step[3];
  return `${round(value / unit)} ${name}`;
};
const judge = operation => {
  const rates = chips[chip];
  const peak = rates.peak[operation.dtype];
  const moved = operation[level] && operation[level][position];
  if (!peak || !moved || !rates[level] || operation.dtype !== dtype) return null;
  const flops = operation.flops[position];
  const times = { compute: flops / peak, [level]: moved / rates[level] };
  const by = times.compute >= times[level] ? "compute" : level;
  const least = times[by];
  return {
    by, least, intensity: flops / moved, ridge: peak / rates[level],
    share: times.compute / least, rate: flops / least,
  };
};
const describe = () => {
  const operation = operations[shown];
  const found = judge(operation);
  const begin = `${operation.name} (${operation.kind}), batch ${batches[position]}, one device of ${chip}: `;
  if (!found) return begin + "no number for this choice.";
  const where = level === "memory" ? "HBM" : `${links} links`;
  return begin +
    `${round(found.intensity)} FLOP/byte over ${where}, ridge ${round(found.ridge)}. ` +
    `Bound by ${found.by}: at least ${seconds(found.least)}, ` +
    `at most ${round(100 * found.share)}% of the ${dtype} peak.`;
};
const draw = () => {
  for (const [name, rates] of Object.entries(chips)) {
    const peak = rates.peak[dtype], slope = rates[level];
    const path = part(`roof ${name}`), label = part(`label ${name}`);
    path.classList.toggle("chosen", name === chip);
    label.classList.toggle("chosen", name === chip);
    const from = Math.max(ends[0], floor / slope);
    path.setAttribute("d", peak && slope
      ? `M${x(from)} ${y(from * slope)}L${x(peak / slope)} ${y(peak)}H${x(ends[1])}` : "");
    label.toggleAttribute("hidden", !(peak && slope));
  }
  // The chosen roof lies on top of the others, and the points on top of it.
  root.querySelector("svg").insertBefore(part(`roof ${chip}`), root.querySelector("g"));
  operations.forEach((operation, index) => {
    const point = part(`point ${index + 1}`), found = judge(operation);
    point.toggleAttribute("hidden", !found);
    point.classList.toggle("focus", index === shown);
    if (index === shown) point.parentNode.append(point);
    if (!found) return;
    point.dataset.bound = found.by;
    const height = y(Math.max(found.rate, floor));
    point.setAttribute("transform", `translate(${x(found.intensity)} ${height})`);
  });
  part("across").textContent = `FLOP/byte (${level === "memory" ? "HBM" : `${links} links`})`;
  buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === shown));
  say(describe());
};
const show = index => ((shown = index), draw());

choice("Chip", Object.keys(chips), name => ((chip = name), draw())).value = chip;
const dtypes = [...new Set(operations.map(operation => operation.dtype))];
if (dtypes.length > 1) choice("Type", dtypes, name => {
  dtype = name;
  show(operations.findIndex(operation => operation.dtype === name));
});
if (operations.some(operation => operation.network))
  choice("Bytes over", ["memory", "network"], name => ((level = name), draw()));
slider("Batch", batches, position, index => ((position = index), draw()));

const list = part("names");
list.dataset.live = "";
const buttons = [...list.children].map((item, index) => {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = `${index + 1} ${item.textContent}`;
  element.onclick = element.onfocus = element.onpointerenter = () => show(index);
  item.replaceChildren(element);
  const point = part(`point ${index + 1}`);
  point.onclick = point.onpointerenter = () => show(index);
  return element;
});
list.onkeydown = event => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const from = buttons.indexOf(event.target);
  if (!step || from < 0) return;
  event.preventDefault();
  buttons[(from + step + buttons.length) % buttons.length].focus();
};
draw();
