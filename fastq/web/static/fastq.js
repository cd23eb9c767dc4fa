"use strict";
/* Live updates: the page's own address as a stream of its contents, put into the page without losing focus, selection or what was
   opened. Without this script every page works, and is as old as its last load.

   One stream while the page can be seen, none behind another tab: browsers give a site six connections. Where there is no stream,
   the page is asked for again now and then. Nothing that arrives is run: it is parsed as a document of its own. */
(() => {
  const page = document.getElementById("page");
  const address = page && page.dataset.live;
  const RETRY = 5000; // ms until the next try after a stream broke; as long as a person looks twice
  const KEEP = ["open"]; // attributes that belong to the person who reads
  let stream = null, retry = 0, paused = false, waiting = null, button = null;

  /* Times: the words for how far away they are. */
  const UNITS = [["d", 86400], ["h", 3600], ["m", 60]];
  function words(seconds) {
    const size = Math.abs(seconds);
    const unit = UNITS.find(([, length]) => size >= 2 * length);
    const text = unit ? Math.round(size / unit[1]) + unit[0] : Math.round(size) + "s";
    return seconds >= 0 ? text + " ago" : "in " + text;
  }
  function tellTimes() {
    for (const time of document.querySelectorAll("time[datetime]:not([data-kept])")) {
      const text = words((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text && !busy(time)) time.textContent = text;
    }
  }

  /* Swapping: change the nodes that differ and leave the others, so that focus and selection stay where they are. */
  function busy(node) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(node, true);
  }
  function keyOf(node) {
    return node.nodeType === 1 ? node.id || node.getAttribute("data-key") || "" : "";
  }
  function alike(one, other) {
    return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
  }
  function swapAttributes(from, to) {
    for (const { name } of [...from.attributes])
      if (!to.hasAttribute(name) && !KEEP.includes(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes)
      if (from.getAttribute(name) !== value && !KEEP.includes(name)) from.setAttribute(name, value);
  }
  function swap(from, to) {
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.matches("input, select, textarea")) return; // what somebody is about to write stays
    if (from.nodeName === "TIME" && from.getAttribute("datetime") === to.getAttribute("datetime")) return;
    swapAttributes(from, to);
    swapChildren(from, to);
  }
  function removeWithGap(child) {
    const gap = child.nextSibling;
    if (gap && gap.nodeType === 3 && !gap.nodeValue.trim()) gap.remove();
    child.remove();
  }
  function swapChildren(from, to) {
    const keyed = new Map(), kept = new Set([...to.childNodes].map(keyOf));
    for (const child of [...from.childNodes])
      if (keyOf(child) && !kept.has(keyOf(child))) removeWithGap(child); // first, so that those behind it need not be moved
      else if (keyOf(child)) keyed.set(keyOf(child), child);
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      while (at && wanted.nodeType !== 3 && at.nodeType === 3 && !at.nodeValue.trim()) {
        const gap = at; // a blank in the page as it was loaded: passed over, or all that follows would be made anew
        at = at.nextSibling;
        gap.remove();
      }
      const known = keyOf(wanted) ? keyed.get(keyOf(wanted)) : null;
      keyed.delete(keyOf(wanted)); // of several with one key each node is taken once
      if (known && known.nodeName === wanted.nodeName && known !== at) {
        from.insertBefore(known, at);
        swap(known, wanted);
      } else if (at && alike(at, wanted)) {
        const next = at.nextSibling;
        swap(at, wanted);
        at = next;
      } else {
        from.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }
  function show(html) {
    waiting = null;
    if (busy(page)) {
      waiting = html; // somebody has marked text here: it stays until the mark is gone
      return;
    }
    const made = new DOMParser().parseFromString('<div id="page">' + html + "</div>", "text/html");
    const wanted = made.getElementById("page");
    if (wanted) follow(() => swapChildren(page, wanted));
  }

  /* The log of a job that runs: whoever looks at its end goes on to do so, whoever has scrolled up stays there. */
  function toEnds(logs) {
    for (const log of Array.isArray(logs) ? logs : page.querySelectorAll(".log[data-follow]")) log.scrollTop = log.scrollHeight;
  }
  function follow(change) {
    const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 8;
    const ends = [...page.querySelectorAll(".log[data-follow]")].filter(atEnd);
    change();
    toEnds(ends);
  }

  /* The stream, while the page is seen. */
  function begin() {
    end();
    if (!address || paused || document.hidden) return;
    if (!window.EventSource) return later(again);
    stream = new EventSource(address + location.search);
    stream.onmessage = (event) => {
      tell(false);
      show(event.data);
    };
    stream.onerror = () => {
      tell(true);
      if (stream && stream.readyState === EventSource.CLOSED) later(again);
    };
  }
  function end() {
    clearTimeout(retry);
    if (stream) stream.close();
    stream = null;
  }
  function later(action) {
    clearTimeout(retry);
    retry = setTimeout(action, RETRY);
  }
  async function again() {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(address + location.search, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.ok) {
        const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("page");
        if (made && !busy(page)) follow(() => swapChildren(page, made));
      }
      tell(!answer.ok);
      if (answer.status === 401 || answer.status === 403) return;
    } catch {
      tell(true);
    }
    if (window.EventSource && !stream) later(begin);
    else later(again);
  }

  /* The button that holds the page still. */
  function tell(away) {
    if (!button) return;
    button.classList.toggle("away", away && !paused);
    button.textContent = paused ? "Held still" : away ? "Connecting" : "Live";
  }
  function addButton() {
    button = document.createElement("button");
    button.type = "button";
    button.className = "pulse";
    button.title = "Hold this page still, or let it follow what happens (key: p)";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", hold);
    document.querySelector(".side").append(button);
    tell(false);
  }
  function hold() {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    if (paused) end();
    else begin();
    tell(false);
  }

  /* Keys: / goes to the first field, p holds the page still. */
  function onKey(event) {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
    if (event.key === "/") {
      const field = page && page.querySelector("input:not([type=hidden], [type=checkbox])");
      if (field) {
        event.preventDefault();
        field.focus();
      }
    } else if (event.key === "p" && button) {
      hold();
    }
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", begin);
  document.addEventListener("selectionchange", () => {
    if (waiting !== null && !busy(page)) show(waiting);
  });
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", (event) => event.persisted && begin());
  const here = document.querySelector(".side [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "center" }); // the menu of a narrow screen scrolls sideways
  setInterval(tellTimes, 1000);
  tellTimes();
  if (address) {
    if (document.readyState === "complete") toEnds();
    else window.addEventListener("load", toEnds); // before that a log may be without its style, and as high as its lines
    addButton();
    begin();
  }
})();
