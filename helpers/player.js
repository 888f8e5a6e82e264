const { texts, busy, said, step } = data;
const last = said.length - 1;
const places = [...root.querySelectorAll("svg text[data-from]")];
const cells = [...root.querySelectorAll("svg rect:not(.bar)")];
const bars = [...root.querySelectorAll("svg rect.bar")];
const ways = { left: [-step, 0], above: [0, -step], below: [0, step] };
let now = data.start;

const draw = forward => {
  places.forEach((place, index) => {
    const text = texts[now][index], way = ways[place.dataset.from];
    const fresh = forward && way && text;
    place.textContent = text;
    if (!fresh || calm || !place.animate) return;
    // Half of the way: values in the gaps would be read as belonging to neither cell.
    const from = way.map(distance => `${distance / 2}px`).join(",");
    place.animate([{ transform: `translate(${from})`, opacity: 0.3 }, { transform: "none", opacity: 1 }], 260);
  });
  cells.forEach((cell, index) => cell.classList.toggle("busy", busy[now][index]));
  bars.forEach((bar, index) => bar.classList.toggle("now", index === now));
  back.disabled = now === 0;
  ahead.disabled = now === last;
  say(said[now]);
};
const go = to => {
  const wanted = Math.max(0, Math.min(last, to));
  const forward = wanted === now + 1;
  now = wanted;
  if (Number(position.value) === now) return draw(forward);
  position.value = now;
  position.dispatchEvent(new Event("input"));
};

const back = button("Back", () => (stop(), go(now - 1)));
const ahead = button("Forward", () => (stop(), go(now + 1)));
let before = now;
const position = slider("Cycle", said.map((_, index) => `${index + 1} of ${last + 1}`), now, index => {
  const forward = index === before + 1;
  before = now = index;
  draw(forward);
});
let timer = 0;
const stop = () => {
  clearInterval(timer);
  timer = 0;
  if (run) run.textContent = "Play";
};
// Whoever wants no motion steps; nothing moves by itself.
const run = calm ? null : button("Play", () => {
  if (timer) return stop();
  if (now === last) go(0);
  run.textContent = "Pause";
  timer = setInterval(() => (now === last ? stop() : go(now + 1)), 900);
});

const picture = part("picture");
picture.tabIndex = 0;
root.onkeydown = event => {
  if (event.target === position || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
  if (to === undefined || event.target.closest("details")) return;
  event.preventDefault();
  stop();
  go(to);
};
draw(false);
