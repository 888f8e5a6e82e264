// The frame's own part of each interactive figure; helpers/widgets.py puts in the two
// names between at signs. `start` gets what a figure needs and draws nothing itself.
(start => {
  for (const root of document.querySelectorAll('[data-widget="@ID@"]')) {
    // A notebook runs the script again with each output that it shows.
    if (root.dataset.started) continue;
    root.dataset.started = "yes";
    const part = name => root.querySelector(`[data-part="${name}"]`);
    const labelled = (text, element) => {
      const label = document.createElement("label");
      label.append(text, element);
      part("controls").append(label);
      return element;
    };
    const choice = (label, options, changed) => {
      const select = document.createElement("select");
      for (const option of options) select.add(new Option(option, option));
      select.onchange = () => changed(select.value);
      return labelled(label, select);
    };
    const slider = (label, texts, position, changed) => {
      const input = document.createElement("input");
      const value = document.createElement("output");
      Object.assign(input, { type: "range", min: 0, max: texts.length - 1, step: 1 });
      const show = () => {
        value.textContent = texts[input.value];
        input.setAttribute("aria-valuetext", texts[input.value]);
      };
      input.value = position;
      input.oninput = () => (show(), changed(Number(input.value)));
      show();
      labelled(label, input).after(value);
      return input;
    };
    const button = (label, pressed) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = label;
      element.onclick = pressed;
      part("controls").append(element);
      return element;
    };
    const say = text => (part("status").textContent = text);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const data = JSON.parse(part("data").textContent);
    try {
      start({ root, part, data, say, calm, choice, slider, button });
    } catch (error) {
      // What reads without a script is still there.
      root.dataset.started = "failed";
      part("controls").replaceChildren();
      console.error(error);
    }
  }
})(({ root, part, data, say, calm, choice, slider, button }) => {
@SCRIPT@
});
