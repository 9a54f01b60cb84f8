// Texts of others: what controls a screen, or is invisible, is shown as an escape.
import { options } from "preact";

// As in `simkit/core/output.py`: control characters, bidirectional controls, tags, zero widths.
export const HIDDEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

export const escaped = (sign: string): string => {
  const code = sign.codePointAt(0) ?? 0;
  return code < 0x20 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
};

/** The text for places that hold nothing but text: a title, a label. */
export const plain = (text: string): string => text.replace(HIDDEN, escaped);

const SPOKEN = ["title", "aria-label"];

/** Escapes each text that is drawn and each label, so that no view can forget it. */
export const escapeAllTexts = (): void => {
  const before = options.vnode;
  options.vnode = (node) => {
    const drawn = node as { type: unknown; props: unknown };
    // A node without a type is a text, and its props are the text.
    if (typeof drawn.props === "string") drawn.props = plain(drawn.props);
    else if (typeof drawn.type === "string") {
      const props = drawn.props as Record<string, unknown>;
      for (const name of SPOKEN) {
        const text = props[name];
        if (typeof text === "string") props[name] = plain(text);
      }
    }
    before?.(node);
  };
};
