// Draws the figures of a page with uPlot, from the data in the page. Each policy's charts are drawn when they are
// opened, and all charts show the same part of the run.
"use strict";
(() => {
  const holder = document.getElementById("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = 8;
  const colour = (index) => css(index < COLOURS ? `--c${index}` : "--other");
  // The text of a duration; `at` makes the text of a time since the run began.
  const time = (ms) => (ms >= 100 ? ms.toFixed(1) : ms.toFixed(3)) + " ms";
  const at = (ms) => (ms / 1000).toFixed(6) + " s";
  const longest = Math.max(...data.runs.map((run) => run.duration));
  const policyColour = (index) => css(`--p${index % 6}`);
  const drawn = []; // Items are { draw, chart }, to be drawn again in other colours or with another width.
  let view = { min: 0, max: longest };

  // Returns a function that returns the next number of `text` (LEB128) at each call, and `undefined` after the last
  // one.
  const numbers = (text) => {
    const raw = atob(text);
    let at = 0;
    return () => {
      if (at >= raw.length) return undefined;
      let value = 0, factor = 1, byte;
      do {
        byte = raw.charCodeAt(at++);
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte & 128);
      return value;
    };
  };

  // Decodes the periods of a thread: releases, deadlines and ends of the work in ms, and whether they were missed.
  const decodePeriods = (lane) => {
    const number = numbers(lane.periods), ms = 2 / 1000;
    const all = { thread: lane.thread, from: [], due: [], to: [], missed: [] };
    let released = 0, since;
    while ((since = number()) !== undefined) {
      released += since;
      const due = released + number(), done = number();
      all.from.push(released * ms);
      all.due.push(due * ms);
      all.to.push((released + Math.floor(done / 2)) * ms);
      all.missed.push(done % 2 === 1);
    }
    return all;
  };

  // Decodes the slices of each CPU: beginnings and ends in ms, and threads.
  const decode = (text, cpus) => {
    const number = numbers(text);
    return Array.from({ length: cpus }, () => {
      const count = number();
      const lane = { from: new Float64Array(count), to: new Float64Array(count), thread: new Uint32Array(count) };
      let us = 0;
      for (let i = 0; i < count; i++) {
        us += number();
        lane.from[i] = us / 1000;
        us += number();
        lane.to[i] = us / 1000;
        lane.thread[i] = number();
      }
      return lane;
    });
  };

  // The index of the first slice that ends after `ms`.
  const after = (lane, ms) => {
    let low = 0, high = lane.to.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.to[middle] <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const axis = (more) => ({
    stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") },
    font: "12px system-ui, sans-serif", ...more,
  });
  const gutter = () => (innerWidth < 600 ? 62 : 90);
  // The name of the thread, shortened to fit the gutter.
  const short = (name) => {
    const most = Math.floor((gutter() - 12) / 7);
    return name.length > most ? `${name.slice(0, most - 1)}…` : name;
  };
  const width = (element) => Math.max(240, element.clientWidth);

  let moving = false;
  const show = (min, max) => {
    const span = Math.min(Math.max(max - min, 0.01), longest);
    const from = Math.min(Math.max(min, 0), longest - span);
    view = { min: from, max: from + span };
    moving = true;
    for (const { chart, onTime } of drawn) if (onTime && chart) chart.setScale("x", view);
    moving = false;
    document.getElementById("view").textContent = `${at(view.min)} to ${at(view.max)}`;
  };
  const zoom = (factor) => {
    const middle = (view.min + view.max) / 2, half = ((view.max - view.min) * factor) / 2;
    show(middle - half, middle + half);
  };
  const pan = (share) => {
    const by = (view.max - view.min) * share;
    show(view.min + by, view.max + by);
  };
  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.25), right: () => pan(0.25), all: () => show(0, longest),
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "all", 0: "all",
    w: "in", s: "out", a: "left", d: "right",
  };
  document.querySelectorAll("[data-action]").forEach((button) => {
    button.addEventListener("click", actions[button.dataset.action]);
  });

  // A chart over time, with one lane below the other.
  const overTime = (element, height, more) => ({
    width: width(element), height, legend: { show: false },
    scales: { x: { time: false, min: view.min, max: view.max }, y: { range: more.range } },
    // The timeline itself handles a click after a drag.
    cursor: { y: false, drag: { x: true, y: false, setScale: false, click: () => {} }, sync: { key: "time" }, points: { show: false } },
    series: more.series,
    axes: [
      axis({ values: (u, splits) => splits.map((ms) => +(ms / 1000).toFixed(6)), size: 42, label: "s", labelSize: 16 }),
      axis({ size: gutter(), splits: () => more.lanes.map((_, i) => more.lanes.length - i - 0.5),
        values: () => more.lanes, grid: { show: false }, ticks: { show: false } }),
    ],
    hooks: {
      setSelect: [(u) => {
        if (u.select.width > 3) show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setScale: [(u, key) => {
        // A double click shows the whole run.
        if (key === "x" && !moving && (u.scales.x.min !== view.min || u.scales.x.max !== view.max)) {
          queueMicrotask(() => show(0, longest));
        }
      }],
      ...more.hooks,
    },
  });

  // Shows a description of the place at the cursor beside the cursor.
  const pointer = (element, rows, what) => (u) => {
    const { left, top } = u.cursor, said = element.nextElementSibling;
    if (left === undefined || left < 0 || !u.over.matches(":hover")) {
      said.textContent = "";
      return;
    }
    const ms = u.posToVal(left, "x");
    const row = Math.min(rows - 1, Math.max(0, Math.floor((top / u.over.clientHeight) * rows)));
    const tip = document.createElement("span");
    tip.textContent = `${at(ms)}, ${what(ms, row)}`;
    // Place the description on the side with more room. The description's element is as wide as the chart, and is at
    // the chart's lower edge.
    const box = said.getBoundingClientRect(), over = u.over.getBoundingClientRect();
    const x = over.left - box.left + left, isLeft = left < over.width / 2;
    tip.style[isLeft ? "left" : "right"] = `${(isLeft ? x : box.width - x) + 14}px`;
    tip.style.top = `${over.top - box.top + top + 14}px`;
    said.replaceChildren(tip);
  };

  let selected = null; // The missed period whose reason is shown: { run, thread, from, due, to }.

  const timeline = (element, run, index) => {
    const lanes = decode(run.slices, data.cpus), periods = run.periodic.map(decodePeriods);
    const cpus = lanes.length, rows = cpus + periods.length;
    const row = Math.max(4, Math.min(20, 640 / rows));
    const nameOf = (cpu) => [gutter() < 80 ? "" : "CPU", cpu, data.kinds[cpu]].filter((it) => it !== "").join(" ");
    const names = lanes.map((_, cpu) => (row >= 12 || cpu % Math.ceil(16 / row) === 0 ? nameOf(cpu) : ""))
      .concat(periods.map((lane) => short(data.threads[lane.thread])));
    const colours = data.threads.map((_, thread) => colour(thread));
    const paint = (u) => {
      const { ctx } = u, { left, top, width: wide, height: high } = u.bbox;
      const { min, max } = u.scales.x;
      const scale = wide / (max - min), lane = high / rows, thin = devicePixelRatio;
      const x = (ms) => left + (ms - min) * scale;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, wide, high);
      ctx.clip();
      if (selected && selected.run === index) {
        ctx.fillStyle = css("--band");
        const from = x(selected.from);
        ctx.fillRect(from, top, Math.max(x(selected.to) - from, 2 * thin), high);
      }
      lanes.forEach((slices, cpu) => {
        const y = top + cpu * lane + lane * 0.1;
        // Slices that share a pixel are drawn once.
        let painted = -1;
        for (let i = after(slices, min); i < slices.from.length && slices.from[i] < max; i++) {
          const from = x(slices.from[i]), end = x(slices.to[i]);
          if (end <= painted) continue;
          ctx.fillStyle = colours[slices.thread[i]];
          ctx.fillRect(from, y, Math.max(end - from, 1), lane * 0.8);
          painted = Math.floor(Math.max(end, from + 1));
        }
      });
      periods.forEach((lane_of, place) => {
        const y = top + (cpus + place) * lane;
        const { from, due, to, missed } = lane_of;
        const each = (what) => {
          for (let i = Math.max(0, after(lane_of, min) - 1); i < from.length && from[i] < max; i++) what(i);
        };
        ctx.fillStyle = colours[lane_of.thread];
        each((i) => ctx.fillRect(x(from[i]), y + lane * 0.3, Math.max((to[i] - from[i]) * scale, thin), lane * 0.4));
        // If periods are narrow, their deadlines would cover everything else.
        ctx.fillStyle = css("--text");
        each((i) => {
          if ((due[i] - from[i]) * scale >= 6 * thin) ctx.fillRect(x(due[i]) - thin / 2, y + lane * 0.1, thin, lane * 0.8);
        });
        ctx.fillStyle = css("--missed");
        each((i) => {
          if (missed[i]) ctx.fillRect(x(due[i]), y + lane * 0.1, Math.max((to[i] - due[i]) * scale, 2 * thin), lane * 0.8);
        });
      });
      if (cpus < rows) {
        ctx.fillStyle = css("--dim");
        ctx.fillRect(left, top + cpus * lane - thin / 2, wide, thin);
      }
      if (run.shown < run.duration) {
        ctx.fillStyle = css("--panel");
        ctx.fillRect(x(run.shown), top, left + wide - x(run.shown), cpus * lane);
      }
      ctx.restore();
    };
    // The period at a time. If there are several, the missed one is chosen, or otherwise the last one.
    const periodAt = (lane, ms, near) => {
      let found = -1;
      for (let i = Math.max(0, after(lane, ms - near) - 1); i < lane.from.length && lane.from[i] <= ms + near; i++) {
        const to = Math.max(lane.to[i], lane.due[i]);
        if (to + near >= ms && (found < 0 || lane.missed[i] || !lane.missed[found])) found = i;
      }
      return found;
    };
    const what = (ms, place) => {
      if (place >= cpus) {
        const lane = periods[place - cpus], name = data.threads[lane.thread], i = periodAt(lane, ms, 0);
        if (i < 0) return name;
        return `${name}: ${lane.missed[i] ? "missed its deadline" : "deadline"} at ${at(lane.due[i])}, done after ` +
          time(lane.to[i] - lane.from[i]);
      }
      const i = after(lanes[place], ms);
      const runs = i < lanes[place].from.length && lanes[place].from[i] <= ms;
      const kind = data.kinds[place] ? ` (${data.kinds[place]})` : "";
      return `CPU ${place}${kind}: ` + (runs
        ? `${data.threads[lanes[place].thread[i]]}, for ${time(lanes[place].to[i] - lanes[place].from[i])}` : "idle");
    };
    const chart = new uPlot(overTime(element, rows * row + 62, {
      lanes: names, range: [0, rows], series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: { draw: [paint], setCursor: [pointer(element, rows, what)] },
    }), [[0, longest], [0, 0]], element);
    let pressed = 0;
    chart.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    chart.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) > 3) return;
      const box = chart.over.getBoundingClientRect();
      const place = Math.floor(((event.clientY - box.top) / box.height) * rows);
      const ms = chart.posToVal(event.clientX - box.left, "x"), pixel = (view.max - view.min) / box.width;
      const lane = periods[place - cpus];
      const i = lane ? periodAt(lane, ms, 3 * pixel) : -1;
      if (i < 0) return;
      explain(index, { thread: lane.thread, from: lane.from[i], due: lane.due[i], to: lane.to[i], missed: lane.missed[i] });
    });
    return chart;
  };

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const swatch = (thread) => {
    const made = element("span", "", "swatch");
    made.dataset.thread = data.threads[thread];
    made.style.background = thread < COLOURS ? `var(--c${thread})` : "var(--other)";
    return made;
  };

  // Shows, below the chart of run `index`, the reasons for the length of a period.
  const explain = (index, period) => {
    const panel = document.querySelector(`[data-run="${index}"] [data-part="why"]`);
    const name = data.threads[period.thread];
    const close = element("button", "Close");
    close.type = "button";
    close.addEventListener("click", () => {
      selected = null;
      panel.replaceChildren();
      redraw();
    });
    selected = { ...period, run: index };
    const known = [...document.querySelectorAll(`.miss[data-of="${index}"]`)].find((miss) =>
      miss.dataset.thread === name && Math.abs(miss.dataset.due - period.due) < 0.01);
    const title = element("p", "", "best");
    title.append(swatch(period.thread), `${name}: deadline at ${at(period.due)}, ` + (period.missed
      ? (period.to > period.due ? `missed by ${time(period.to - period.due)}`
        : "lost, because the thread was still at work on the previous period")
      : `work done ${time(period.due - period.to)} before`));
    document.querySelectorAll('[data-part="why"]').forEach((other) => other.replaceChildren());
    panel.append(close, title);
    if (known) {
      [...known.children].slice(1).forEach((child) => panel.append(child.cloneNode(true)));
    } else if (period.missed && period.to > period.due) {
      const say = element("p", "This page explains only the worst misses of each policy. To explain this one, run ");
      say.append(element("code", `${data.runs[index].explain} --task ${data.words[period.thread]} --at ${(period.due / 1000).toFixed(6)}s`));
      panel.append(say);
    }
    redraw();
  };
  const redraw = () => drawn.forEach(({ chart, onTime }) => onTime && chart && chart.redraw(false));

  // Draws lanes of values, each from its own base line.
  const lanes = (element, run, of) => {
    const list = run[of], rows = list.length;
    const x = list[0].values.map((_, i) => i * run.bin);
    x.push(run.duration);
    const base = (i) => rows - 1 - i;
    const series = list.map((lane, i) => ({
      stroke: css("--accent"), width: 1, fill: css("--accent") + "55", points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }), fillTo: () => base(i),
    }));
    const values = list.map((lane, i) => {
      const at = lane.values.map((value) => base(i) + (0.9 * value) / lane.top);
      at.push(at[at.length - 1]);
      return at;
    });
    const inside = of === "power"; // The names are too long for the axis.
    const row = inside ? 40 : rows > 8 ? 22 : 30;
    const label = (u) => {
      const { ctx } = u, { left, top, height: high } = u.bbox;
      ctx.save();
      ctx.fillStyle = css("--text");
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      list.forEach((lane, i) => ctx.fillText(lane.name, left + 6, top + (i * high) / rows));
      ctx.restore();
    };
    const what = (ms, i) => {
      const value = list[i].values[Math.min(list[i].values.length - 1, Math.floor(ms / run.bin))];
      return `${list[i].name}: ${value} ${list[i].unit}`;
    };
    return new uPlot(overTime(element, rows * row + 62, {
      lanes: list.map((lane) => (inside ? `to ${lane.top} ${lane.unit}` : lane.name)), range: [0, rows],
      series: [{}, ...series],
      hooks: { setCursor: [pointer(element, rows, what)], draw: inside ? [label] : [] },
    }), [x, ...values], element);
  };

  const latency = (element, index) => {
    const chosen = data.latencies[index];
    const series = data.runs.map((run, policy) => ({
      label: run.policy, stroke: policyColour(policy), width: 2, dash: policy < 6 ? [] : [6, 4],
      show: chosen.percent[policy].length > 0, value: (u, v) => (v == null ? "-" : v.toFixed(1) + " %"),
    }));
    const least = Math.min(...chosen.percent.filter((percent) => percent.length).map((percent) => percent[0]));
    const empty = chosen.us.map(() => null);
    return new uPlot({
      width: width(element), height: Math.min(360, innerHeight * 0.6),
      scales: { x: { time: false, distr: 3 }, y: { range: [Math.floor(least / 10) * 10, 100] } },
      series: [{ label: "at most", value: (u, v) => (v == null ? "-" : v + " us") }, ...series],
      axes: [
        axis({ label: "from the wakeup until it runs, us", labelSize: 20, values: (u, splits) => splits.map((us) =>
          us != null && Math.abs(Math.log10(us) % 1) < 1e-9 ? us : null) }),
        axis({ label: "wakeups, %", labelSize: 20, size: 44 }),
      ],
      cursor: { drag: { x: true, y: false } },
    }, [chosen.us, ...chosen.percent.map((percent) => (percent.length ? percent : empty))], element);
  };

  // Draws into `element` now, and again when colours or the width change.
  const put = (element, onTime, draw) => {
    const entry = { onTime, chart: null };
    entry.draw = () => {
      if (entry.chart) entry.chart.destroy();
      entry.chart = draw(element);
      // Screen readers read the image's description instead of the drawing.
      element.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
    };
    entry.draw();
    drawn.push(entry);
    return entry;
  };

  // Charts in closed parts of the page are drawn when the parts are opened.
  document.querySelectorAll("details[data-run]").forEach((details) => {
    const index = Number(details.dataset.run), run = data.runs[index];
    const more = details.querySelector(".more");
    const drawAll = (parent, parts) => () => {
      if (!parent.open || !details.open || parent.dataset.drawn) return;
      parent.dataset.drawn = "yes";
      parts.forEach(([part, draw]) => {
        const place = details.querySelector(`[data-part="${part}"]`);
        if (place) put(place, true, draw);
      });
    };
    const lanesOf = (of) => [of, (place) => lanes(place, run, of)];
    const opened = drawAll(details, [["timeline", (place) => timeline(place, run, index)]]);
    const openedMore = drawAll(more, ["busy", "frequency", "power"].map(lanesOf));
    details.addEventListener("toggle", opened);
    details.addEventListener("toggle", openedMore);
    more.addEventListener("toggle", openedMore);
    opened();
    openedMore();
  });

  // Opens and closes the rows of policies that another policy beats.
  document.querySelectorAll("tbody[data-folded]").forEach((body) => {
    const button = element("button", `${body.dataset.folded} more, which another policy beats`);
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    body.hidden = true;
    button.addEventListener("click", () => {
      body.hidden = !body.hidden;
      button.setAttribute("aria-expanded", String(!body.hidden));
    });
    body.closest(".scroll").after(button);
  });

  // A thread has one colour in the whole page.
  const legend = document.getElementById("threads");
  const entry = (sign, text) => {
    const item = element("li");
    item.append(sign, text);
    legend.append(item);
  };
  data.threads.slice(0, COLOURS).forEach((name, thread) => entry(swatch(thread), name));
  if (data.threads.length > COLOURS) {
    const grey = element("span", "", "swatch");
    grey.style.background = "var(--other)";
    const others = data.threads.length - COLOURS;
    entry(grey, others === 1 ? "1 other" : `${others} others`);
  }
  if (data.runs.some((run) => run.periodic.length)) {
    entry(element("span", "", "deadline"), "deadline");
    const missed = element("span", "", "swatch");
    missed.style.background = "var(--missed)";
    entry(missed, "missed");
  }
  const ranks = new Map(data.threads.map((name, thread) => [name, thread]));
  document.querySelectorAll("tbody th, .miss .thread").forEach((cell) => {
    // Measures have names of the form THREAD/MEASURE.
    const thread = ranks.get(cell.textContent.split("/")[0]);
    if (thread !== undefined) cell.prepend(swatch(thread));
  });
  document.querySelectorAll(".miss").forEach((miss) => miss.addEventListener("toggle", () => {
    if (!miss.open) return;
    const { of, thread, from, due, done } = miss.dataset, run = Number(of);
    document.querySelector(`[data-run="${run}"]`).open = true;
    selected = { run, thread: ranks.get(thread), from: +from, due: +due, to: +done };
    const span = Math.max(+done, +due) - from;
    show(from - 2 * span, Math.max(+done, +due) + 2 * span);
    redraw();
  }));

  document.querySelectorAll(".chart[data-part]").forEach((chart) => {
    chart.addEventListener("wheel", (event) => {
      const over = chart.querySelector(".u-over");
      if (!event.ctrlKey || !over) return;
      event.preventDefault();
      const box = over.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
      const factor = event.deltaY < 0 ? 0.8 : 1.25, span = view.max - view.min, middle = view.min + part * span;
      show(middle - part * span * factor, middle + (1 - part) * span * factor);
    }, { passive: false });
    chart.addEventListener("keydown", (event) => {
      const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    });
  });
  if (data.view) show(data.view[0], data.view[1]);
  else show(0, longest);

  const select = document.getElementById("thread"), cdf = document.getElementById("cdf");
  if (select && cdf) {
    const place = document.getElementById("thread-swatch");
    const mark = () => {
      const thread = ranks.get(data.latencies[Number(select.value)].thread);
      place.replaceChildren(...(thread === undefined ? [] : [swatch(thread)]));
    };
    const shown = put(cdf, false, (element) => latency(element, Number(select.value)));
    select.addEventListener("change", () => { mark(); shown.draw(); });
    mark();
  }

  const again = () => drawn.forEach((entry) => entry.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);
  let last = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === last) return;
    last = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(again, 150);
  });
})();
