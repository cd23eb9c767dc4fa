"""Small checks of a page's accessibility, computed by the browser from the styles that hold: contrast, labels, order, targets."""

FAULTS = """
() => {
  const faults = [];
  const shown = (node) => {
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && box.width > 1 && box.height > 1;
  };
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { r: found[0], g: found[1], b: found[2], a: found.length > 3 ? found[3] : 1 };
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a === 1) return colour;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const name = (node) =>
    `${node.nodeName.toLowerCase()}.${node.getAttribute("class") || ""} "${(node.textContent || "").trim().slice(0, 40)}"`;

  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || seen.has(node) || !shown(node) || node.closest("svg title, .skip")) continue;
    seen.add(node);
    const style = getComputedStyle(node), inSvg = node.closest("svg");
    const back = inSvg ? parse(getComputedStyle(node.parentElement.querySelector("rect") || node).fill) : ground(node);
    const ratio = contrast(parse(inSvg ? style.fill : style.color), back);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (ratio < least) faults.push(`contrast ${ratio.toFixed(2)} of ${name(node)}`);
  }
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (!field.labels.length && !field.getAttribute("aria-label")) faults.push(`no label for ${field.name}`);
    const style = getComputedStyle(field);
    const ratio = contrast(parse(style.color), parse(style.backgroundColor));
    if (field.type !== "checkbox" && ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)} in ${field.name}`);
  }
  for (const one of document.querySelectorAll("a[href], button")) {
    const words = one.textContent.trim() || one.getAttribute("aria-label");
    if (shown(one) && !words) faults.push(`no words in ${one.outerHTML.slice(0, 80)}`);
  }
  for (const one of document.querySelectorAll("[tabindex]"))
    if (one.tabIndex > 0) faults.push(`an order of its own: ${name(one)}`);
  for (const one of document.querySelectorAll("svg:not([aria-hidden])")) {
    if (!one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby")) faults.push("a drawing without a name");
  }
  for (const one of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
    for (const id of (one.getAttribute("aria-labelledby") || one.getAttribute("aria-describedby")).split(" "))
      if (!document.getElementById(id)) faults.push(`nothing has the id ${id}`);
  }
  const levels = [...document.querySelectorAll("h1, h2, h3")].map((one) => Number(one.nodeName[1]));
  if (levels[0] !== 1 || levels.filter((one) => one === 1).length !== 1) faults.push(`headings ${levels}`);
  levels.forEach((one, place) => place && one > levels[place - 1] + 1 && faults.push(`a heading is left out: ${levels}`));
  for (const table of document.querySelectorAll("table"))
    if (table.querySelectorAll("th:not([scope])").length) faults.push("a table's head without scope");
  if (document.documentElement.lang !== "en" || !document.title) faults.push("no language, or no title");
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) faults.push(
    `wider than the window: ${document.documentElement.scrollWidth} of ${document.documentElement.clientWidth}`);
  return faults;
}
"""
