// The script of exported flame graphs: zoom by a click, search, details under the pointer.
// Each frame is <g class="f" data-b="begin" data-w="width">, both in bytes, parents first.
(function () {
  "use strict";
  var MARGIN = 10, ROW = 17, CHAR = 6.65, svg = document.documentElement;
  var frames = [].map.call(document.querySelectorAll(".f"), function (g) {
    var title = g.querySelector("title").textContent, line = title.indexOf("\n");
    return {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), title: title,
      name: title.slice(0, line), figures: title.slice(line + 1),
      label: g.getAttribute("data-n") || title.slice(0, line),
      begin: +g.getAttribute("data-b"), width: +g.getAttribute("data-w"),
      y: +g.querySelector("rect").getAttribute("y")
    };
  });
  var details = document.getElementById("details"), found = document.getElementById("found");
  var reset = document.getElementById("reset"), search = document.getElementById("search");
  var background = document.getElementById("background"), height = +svg.getAttribute("height");
  var at = frames[0], bare = details.textContent;

  // Shortens a label if needed, first by its enclosing scopes, which say the least.
  function fit(label, letters) {
    if (letters < 3) return "";
    for (var at; label.length > letters && (at = label.indexOf("::")) >= 0;)
      label = label.slice(at + 2);
    return label.length <= letters ? label : label.slice(0, letters - 1) + "\u2026";
  }

  function layout() {
    var all = Math.max(400, window.innerWidth || 1200), room = all - 2 * MARGIN;
    var end = at.begin + at.width;
    svg.setAttribute("width", all);
    svg.setAttribute("viewBox", "0 0 " + all + " " + height);
    background.setAttribute("width", all);
    search.setAttribute("x", all - MARGIN);
    reset.setAttribute("x", all - MARGIN - 70);
    found.setAttribute("x", all - MARGIN);
    frames.forEach(function (f) {
      var above = f.y < at.y && f.begin <= at.begin && f.begin + f.width >= end;
      var below = f.y >= at.y && f.begin >= at.begin && f.begin + f.width <= end;
      var x = above ? 0 : (f.begin - at.begin) / at.width * room;
      var width = above ? room : f.width / at.width * room;
      var letters = Math.floor((width - 6) / CHAR);
      f.g.style.display = (above || below) && width >= 0.1 ? "" : "none";
      f.g.classList.toggle("above", above);
      f.rect.setAttribute("x", MARGIN + x);
      f.rect.setAttribute("width", Math.max(width - 0.5, 0.1));
      f.text.setAttribute("x", MARGIN + x + 3);
      f.text.textContent = fit(f.label, letters);
    });
    reset.style.display = at === frames[0] ? "none" : "";
  }

  function zoom(f) {
    at = f;
    layout();
  }

  // Memory matched by several frames of a stack counts once.
  function mark(pattern) {
    var sum = 0, end = -1, test = null;
    if (pattern) {
      try {
        test = new RegExp(pattern, /[A-Z]/.test(pattern) ? "" : "i");
      } catch (error) {
        found.textContent = "no regular expression: " + pattern;
        return;
      }
    }
    frames.forEach(function (f) {
      var hit = test !== null && f !== frames[0] && test.test(f.name);
      f.g.classList.toggle("hit", hit);
      if (hit && f.begin >= end) {
        sum += f.width;
        end = f.begin + f.width;
      }
    });
    found.textContent = test
      ? "matched " + (sum / frames[0].width * 100).toFixed(1) + " %" : "";
  }

  function ask() {
    var pattern = window.prompt("Functions that match this regular expression (empty: none):", "");
    if (pattern !== null) mark(pattern);
  }

  frames.forEach(function (f) {
    f.g.addEventListener("click", function () { zoom(f); });
    f.g.addEventListener("mouseover", function () {
      details.textContent = f.name + ": " + f.figures;
    });
    f.g.addEventListener("mouseout", function () { details.textContent = bare; });
  });
  reset.addEventListener("click", function () { zoom(frames[0]); });
  search.addEventListener("click", ask);
  window.addEventListener("resize", layout);
  window.addEventListener("keydown", function (event) {
    if (event.key === "Escape") {
      mark("");
      zoom(frames[0]);
    } else if (event.key === "/" || ((event.ctrlKey || event.metaKey) && event.key === "f")) {
      event.preventDefault();
      ask();
    }
  });
  [reset, search].forEach(function (button) { button.style.visibility = "visible"; });
  layout();
  svg.setAttribute("class", "");
})();
