// What a page looks like: run on its document by tests/real/browser.py.
(page) => {
  const view = page.defaultView, root = page.documentElement;
  // Relative luminance and contrast as in WCAG 2.
  const light = (colour) => {
    const parts = colour.match(/[\d.]+/g).map((part) => part / 255).map(
      (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const paper = light(view.getComputedStyle(page.body).backgroundColor);
  const least = (things, property) => Math.min(...[...page.querySelectorAll(things)].map(
    (each) => contrast(light(view.getComputedStyle(each)[property]), paper)));
  const boxes = (things) => [...page.querySelectorAll(things)].map(
    (each) => each.getBoundingClientRect());
  return {
    paper,
    overflow: root.scrollWidth - root.clientWidth,
    headings: page.querySelectorAll("h1").length,
    drawings: boxes("figure svg").map((box) => box.width),
    smallest: Math.min(...[...page.querySelectorAll("svg text")].map((text) =>
      parseFloat(view.getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a)),
    letters: least("svg text", "fill"),
    words: least("p, td, th, li, dd, figcaption, small", "color"),
  };
}
