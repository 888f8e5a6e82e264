// Marks the section in view in the list of the page's contents. The theme leaves this
// to Bootstrap, which is nine tenths of its JavaScript and has no other use here.
document.addEventListener("DOMContentLoaded", () => {
  const links = new Map();
  for (const link of document.querySelectorAll("#pst-page-toc-nav a")) {
    const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (section) links.set(section, link);
  }
  const inView = new Set();
  const mark = (entries) => {
    for (const { target, isIntersecting } of entries) {
      inView[isIntersecting ? "add" : "delete"](target);
    }
    // Of nested sections that are in view, the innermost comes last.
    const current = [...links.keys()].filter((section) => inView.has(section)).pop();
    if (!current) return;
    for (const [section, link] of links) {
      const on = section === current;
      link.classList.toggle("active", on);
      link.parentElement.classList.toggle("active", on);
      if (on) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const observer = new IntersectionObserver(mark, { rootMargin: "-15% 0px -75%" });
  for (const section of links.keys()) observer.observe(section);
});
