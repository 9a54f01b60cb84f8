// The whole run as a strip: where something happened, what is in sight, and a way to any place.
import type { JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Axis } from "./axis";
import type { Finding, RunData } from "./document";
import { BAD } from "./marks";

const HIGH = 30;

/** The pixels beside the names of the lanes, which stay where they are. */
export const seenOf = (box: HTMLElement): number =>
  box.clientWidth - (box.firstElementChild as HTMLElement).offsetWidth;

/** Draws on a canvas: a run of 10,000 turns has too many events for elements. */
const draw = (
  canvas: HTMLCanvasElement, run: RunData, layout: { axis: Axis; lanes: string[] }, pinned: Map<number, Finding[]>,
): void => {
  const wide = canvas.clientWidth;
  const scale = devicePixelRatio || 1;
  canvas.width = wide * scale;
  canvas.height = HIGH * scale;
  const pen = canvas.getContext("2d");
  if (!pen || !wide) return;
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const lanes = new Map(layout.lanes.map((name, place) => [name, place]));
  const high = (HIGH - 8) / Math.max(1, layout.lanes.length);
  const used = layout.lanes.map(() => new Uint8Array(wide + 1));
  const ratio = wide / layout.axis.width;
  run.marks.forEach((mark, place) => {
    const lane = lanes.get(mark.agent || "user");
    if (lane === undefined) return;
    const x = Math.floor(layout.axis.at[place] * ratio);
    used[lane][x] = BAD.has(mark.kind) ? 2 : Math.max(1, used[lane][x]);
  });
  const thick = Math.max(1, Math.min(6, ratio * 0.8));
  used.forEach((pixels, lane) => {
    for (let x = 0; x <= wide; x++) {
      if (!pixels[x]) continue;
      pen.fillStyle = colour(pixels[x] === 2 ? "--bad" : "--hue-0");
      pen.fillRect(x, 7 + lane * high, thick, Math.max(1, high - 1));
    }
  });
  for (const [mark, findings] of pinned) {
    pen.fillStyle = colour(findings.some((finding) => finding.level === "failing") ? "--bad" : "--warn");
    const x = layout.axis.at[mark] * ratio;
    pen.beginPath();
    pen.moveTo(x - 4, 0);
    pen.lineTo(x + 4, 0);
    pen.lineTo(x, 6);
    pen.fill();
  }
};

export const Strip = ({
  run, layout, slot, pinned, box, pad, width,
}: {
  run: RunData;
  layout: { axis: Axis; lanes: string[] };
  slot: number;
  pinned: Map<number, Finding[]>;
  /** What the strip shows a part of, and scrolls. */
  box: RefObject<HTMLDivElement | null>;
  pad: number;
  width: number;
}): JSX.Element => {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [fits, setFits] = useState(false);
  useEffect(() => {
    const element = box.current;
    const strip = canvas.current;
    if (!element || !strip) return;
    const follow = (): void => {
      const seen = seenOf(element);
      setFits(seen >= width);
      const ratio = strip.clientWidth / (layout.axis.width * slot);
      if (!frame.current) return;
      frame.current.style.left = `${Math.max(0, element.scrollLeft - pad) * ratio}px`;
      frame.current.style.width = `${Math.max(6, Math.min(strip.clientWidth, seen * ratio))}px`;
    };
    const paint = (): void => {
      draw(strip, run, layout, pinned);
      follow();
    };
    paint();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    element.addEventListener("scroll", follow, { passive: true });
    addEventListener("resize", paint);
    dark.addEventListener("change", paint);
    return () => {
      element.removeEventListener("scroll", follow);
      removeEventListener("resize", paint);
      dark.removeEventListener("change", paint);
    };
  }, [run, slot, width, pinned, fits]);
  const go = (event: PointerEvent): void => {
    const element = box.current;
    const strip = canvas.current;
    if (!element || !strip || !(event.buttons & 1)) return;
    const share = (event.clientX - strip.getBoundingClientRect().left) / strip.clientWidth;
    element.scrollLeft = share * layout.axis.width * slot - seenOf(element) / 2;
  };
  // The lanes below can be scrolled by the keyboard, so that the strip says nothing of its own.
  return (
    <div class={fits ? "strip fits" : "strip"} aria-hidden="true" onPointerDown={go} onPointerMove={go}>
      <canvas ref={canvas} height={HIGH} />
      <div class="frame" ref={frame} />
    </div>
  );
};
