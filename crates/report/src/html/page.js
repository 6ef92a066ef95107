// Draws the figures of a page from the data in it, with uPlot. Each policy's charts are drawn when they are opened,
// and all show the same part of the run.
"use strict";
(() => {
  const holder = document.getElementById("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = 8;
  const colour = (index) => css(index < COLOURS ? `--c${index}` : "--other");
  const time = (ms) => (ms >= 100 ? ms.toFixed(1) : ms.toFixed(3)) + " ms";
  const longest = Math.max(...data.runs.map((run) => run.duration));
  const drawn = []; // { draw, chart } of each figure, to be drawn again when colours or the width change
  let view = { min: 0, max: longest };

  // The slices of each CPU: beginnings, ends (ms) and threads.
  const decode = (text, cpus) => {
    const raw = atob(text);
    let at = 0;
    const number = () => {
      let value = 0, factor = 1, byte;
      do {
        byte = raw.charCodeAt(at++);
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte & 128);
      return value;
    };
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

  // The first slice that ends after `ms`.
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
  const width = (element) => Math.max(240, element.clientWidth);

  let moving = false;
  const show = (min, max) => {
    const span = Math.min(Math.max(max - min, 0.01), longest);
    const from = Math.min(Math.max(min, 0), longest - span);
    view = { min: from, max: from + span };
    moving = true;
    for (const { chart, onTime } of drawn) if (onTime && chart) chart.setScale("x", view);
    moving = false;
    document.getElementById("view").textContent = `${time(view.min)} to ${time(view.max)}`;
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
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "all", 0: "all" };
  document.querySelectorAll("[data-action]").forEach((button) => {
    button.addEventListener("click", actions[button.dataset.action]);
  });

  // A chart over time whose lanes lie one below the other.
  const overTime = (element, height, more) => ({
    width: width(element), height, legend: { show: false },
    scales: { x: { time: false, min: view.min, max: view.max }, y: { range: more.range } },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, sync: { key: "time" }, points: { show: false } },
    series: more.series,
    axes: [
      axis({ values: (u, splits) => splits.map((ms) => +ms.toFixed(3)), size: 42, label: "ms", labelSize: 16 }),
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

  // Shows below a chart what the cursor points at.
  const pointer = (element, rows, what) => (u) => {
    const { left, top } = u.cursor, said = element.nextElementSibling;
    if (left === undefined || left < 0 || !u.over.matches(":hover")) {
      said.textContent = "";
      return;
    }
    const ms = u.posToVal(left, "x");
    const row = Math.min(rows - 1, Math.max(0, Math.floor((top / u.over.clientHeight) * rows)));
    said.textContent = `${time(ms)}, ${what(ms, row)}`;
  };

  const timeline = (element, run) => {
    const lanes = decode(run.slices, data.cpus);
    const rows = lanes.length;
    const row = Math.max(4, Math.min(20, 640 / rows));
    const names = lanes.map((_, cpu) => (row >= 12 || cpu % Math.ceil(16 / row) === 0 ? `CPU ${cpu}` : ""));
    const colours = data.threads.map((_, index) => colour(index));
    const paint = (u) => {
      const { ctx } = u, { left, top, width: wide, height: high } = u.bbox;
      const { min, max } = u.scales.x;
      const scale = wide / (max - min), lane = high / rows;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, wide, high);
      ctx.clip();
      lanes.forEach((slices, cpu) => {
        const y = top + cpu * lane + lane * 0.1;
        // Slices that share a pixel are drawn once.
        let painted = -1;
        for (let i = after(slices, min); i < slices.from.length && slices.from[i] < max; i++) {
          const x = left + (slices.from[i] - min) * scale;
          const end = left + (slices.to[i] - min) * scale;
          if (end <= painted) continue;
          ctx.fillStyle = colours[slices.thread[i]];
          ctx.fillRect(x, y, Math.max(end - x, 1), lane * 0.8);
          painted = Math.floor(Math.max(end, x + 1));
        }
      });
      if (run.shown < run.duration) {
        const x = left + (run.shown - min) * scale;
        ctx.fillStyle = css("--panel");
        ctx.fillRect(x, top, left + wide - x, high);
      }
      ctx.restore();
    };
    const what = (ms, cpu) => {
      const i = after(lanes[cpu], ms);
      const runs = i < lanes[cpu].from.length && lanes[cpu].from[i] <= ms;
      return `CPU ${cpu}: ` + (runs
        ? `${data.threads[lanes[cpu].thread[i]]}, for ${time(lanes[cpu].to[i] - lanes[cpu].from[i])}` : "idle");
    };
    return new uPlot(overTime(element, rows * row + 62, {
      lanes: names, range: [0, rows], series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: { draw: [paint], setCursor: [pointer(element, rows, what)] },
    }), [[0, longest], [0, 0]], element);
  };

  // Lanes of values, each from its own base line.
  const lanes = (element, run, of) => {
    const list = run[of], rows = list.length;
    const x = list[0].values.map((_, i) => i * run.bin);
    x.push(run.duration);
    const base = (i) => rows - 1 - i;
    const series = list.map((lane, i) => ({
      stroke: colour(0), width: 1, fill: colour(0) + "55", points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }), fillTo: () => base(i),
    }));
    const values = list.map((lane, i) => {
      const at = lane.values.map((value) => base(i) + (0.9 * value) / lane.top);
      at.push(at[at.length - 1]);
      return at;
    });
    const row = rows > 8 ? 22 : 30;
    const what = (ms, i) => {
      const value = list[i].values[Math.min(list[i].values.length - 1, Math.floor(ms / run.bin))];
      return `${list[i].name}: ${value} ${list[i].unit}`;
    };
    return new uPlot(overTime(element, rows * row + 62, {
      lanes: list.map((lane) => lane.name), range: [0, rows], series: [{}, ...series],
      hooks: { setCursor: [pointer(element, rows, what)] },
    }), [x, ...values], element);
  };

  const latency = (element, index) => {
    const chosen = data.latencies[index];
    const series = data.runs.map((run, policy) => ({
      label: run.policy, stroke: colour(policy % COLOURS), width: 2, dash: policy < COLOURS ? [] : [6, 4],
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
      // For screen readers, the image's description stands for the drawing.
      element.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
    };
    entry.draw();
    drawn.push(entry);
    return entry;
  };

  document.querySelectorAll("details[data-run]").forEach((details) => {
    const run = data.runs[details.dataset.run];
    const part = (name) => details.querySelector(`[data-part="${name}"]`);
    const open = () => {
      if (!details.open || details.dataset.drawn) return;
      details.dataset.drawn = "yes";
      put(part("timeline"), true, (element) => timeline(element, run));
      for (const of of ["busy", "frequency"]) {
        if (run[of].length) put(part(of), true, (element) => lanes(element, run, of));
      }
      part("legend").replaceChildren(...data.threads.slice(0, COLOURS).map((name, index) => {
        const item = document.createElement("li"), swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = `var(--c${index})`;
        item.append(swatch, name);
        return item;
      }));
      if (data.threads.length > COLOURS) {
        const item = document.createElement("li");
        item.textContent = `grey: ${data.threads.length - COLOURS} others`;
        part("legend").append(item);
      }
    };
    details.addEventListener("toggle", open);
    open();
  });
  document.querySelectorAll(".chart[data-part]").forEach((chart) => {
    chart.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    });
  });
  show(0, longest);

  const select = document.getElementById("thread"), cdf = document.getElementById("cdf");
  if (select && cdf) {
    const entry = put(cdf, false, (element) => latency(element, Number(select.value)));
    select.addEventListener("change", entry.draw);
  }

  const again = () => drawn.forEach((entry) => entry.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let last = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === last) return;
    last = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(again, 150);
  });
})();
