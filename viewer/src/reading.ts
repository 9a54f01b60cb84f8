// Reads the page's data: the index at once, a run when somebody opens it.
import type { Index, RunData } from "./document";

interface Embedded { index: string; runs: string[] }

type FromBase64 = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => {
  const native = (Uint8Array as unknown as FromBase64).fromBase64;
  if (native) return native.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
};

const inflated = async <T>(base64: string): Promise<T> => {
  const stream = new Blob([bytesOf(base64)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).json() as Promise<T>;
};

export class Source {
  private readonly data: Embedded;
  private readonly opened = new Map<number, Promise<RunData>>();

  constructor(text: string) {
    this.data = JSON.parse(text) as Embedded;
  }

  index(): Promise<Index> {
    return inflated<Index>(this.data.index);
  }

  run(number: number): Promise<RunData> {
    let known = this.opened.get(number);
    if (!known) {
      known = inflated<RunData>(this.data.runs[number]);
      this.opened.set(number, known);
    }
    return known;
  }
}
