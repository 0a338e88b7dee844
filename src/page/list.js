// A list that has elements for the rows on the screen only, so that a million rows scroll like ten.

/** Rows of a block: the unit in which heights are summed. */
const BLOCK = 256;
/** Browsers limit the height of an element; beyond this the scroll bar is proportional. */
const HEIGHT_MAX = 12e6;
/** Rows beyond each edge that are made in advance. */
const SPARE = 8;

export class List {
  /**
   * @param {HTMLElement} scroller
   * @param {{length: () => number, make: (at: number) => HTMLElement, nearEnd: () => void}} source
   */
  constructor(scroller, source) {
    this.scroller = scroller;
    this.source = source;
    this.space = document.createElement("div");
    this.space.className = "space";
    this.space.role = "presentation";
    this.layer = document.createElement("div");
    this.layer.className = "layer";
    this.layer.role = "rowgroup";
    this.space.append(this.layer);
    scroller.append(this.space);
    /** @type {Map<number, HTMLElement>} */
    this.made = new Map();
    this.isWrapped = false;
    /** Whether heights are measured: of lines that wrap, or because a row is open. */
    this.isMeasured = false;
    /** Height of a row of one line, as in page.css. */
    this.row = 22;
    /** @type {Uint16Array} measured heights, 0 if unknown */
    this.heights = new Uint16Array(0);
    /** @type {{sum: number, known: number}[]} */
    this.blocks = [];
    this.mean = this.row;
    this.frame = 0;
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    let width = 0;
    // Another height changes what is seen; another width also how lines wrap.
    new ResizeObserver(() => {
      if (scroller.clientWidth === width) return this.draw();
      width = scroller.clientWidth;
      this.forget();
    }).observe(scroller);
  }

  /** Makes all rows anew. @param {boolean} isWrapped @param {boolean} hasOpen whether some are open @param {number} row the height of the others */
  reset(isWrapped, hasOpen, row) {
    this.isWrapped = isWrapped;
    this.isMeasured = isWrapped || hasOpen;
    this.row = row;
    this.forget();
  }

  /** Makes a row anew that is open now, or closed. @param {number} at */
  resize(at) {
    this.isMeasured = true;
    const block = this.blocks[Math.floor(at / BLOCK)];
    if (block && this.heights[at]) {
      block.sum -= this.heights[at];
      block.known--;
      this.heights[at] = 0;
    }
    this.redo(at);
    this.draw();
  }

  /** Forgets heights and elements. */
  forget() {
    this.heights = new Uint16Array(0);
    this.blocks = [];
    this.mean = this.row;
    for (const element of this.made.values()) element.remove();
    this.made.clear();
    this.draw();
  }

  /** Draws in the next frame. */
  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  /** The top of a row in the list as if no height were limited. @param {number} at */
  top(at) {
    if (!this.isMeasured) return at * this.row;
    let top = 0;
    const block = Math.floor(at / BLOCK);
    for (let b = 0; b < block; b++) {
      const { sum, known } = this.blocks[b] ?? { sum: 0, known: 0 };
      top += sum + (BLOCK - known) * this.mean;
    }
    for (let i = block * BLOCK; i < at; i++) top += this.heights[i] || this.mean;
    return top;
  }

  /** The row at a height. @param {number} y */
  at(y) {
    const length = this.source.length();
    if (!this.isMeasured) return Math.min(length - 1, Math.max(0, Math.floor(y / this.row)));
    let [low, high] = [0, length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.top(middle) <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** The whole height, the height on the page, and how far one scrolls for the other. */
  scale() {
    const whole = this.top(this.source.length());
    const height = Math.min(whole, HEIGHT_MAX);
    const view = this.scroller.clientHeight;
    return { whole, height, ratio: whole > HEIGHT_MAX ? (whole - view) / (height - view) : 1 };
  }

  drawNow() {
    const length = this.source.length();
    const { height, ratio } = this.scale();
    this.space.style.height = height + "px";
    const view = this.scroller.clientHeight;
    const y = this.scroller.scrollTop * ratio;
    const first = Math.max(0, this.at(y) - SPARE);
    const last = Math.min(length - 1, this.at(y + view) + SPARE);
    for (const [at, element] of this.made) {
      if (at < first || at > last) {
        element.remove();
        this.made.delete(at);
      }
    }
    let next = /** @type {Element|null} */ (null);
    for (let at = last; at >= first; at--) {
      let element = this.made.get(at);
      if (!element) {
        element = this.source.make(at);
        this.made.set(at, element);
        this.layer.insertBefore(element, next);
      }
      next = element;
    }
    this.layer.style.transform = `translateY(${this.top(first) - y + this.scroller.scrollTop}px)`;
    if (this.isMeasured && length) this.measure(y);
    if (last >= length - 200) this.source.nearEnd();
  }

  /** Notes the heights of rows that were drawn for the first time. @param {number} y */
  measure(y) {
    const length = this.source.length();
    if (this.heights.length < length) {
      const grown = new Uint16Array(Math.max(length, this.heights.length * 2));
      grown.set(this.heights);
      this.heights = grown;
    }
    const anchor = this.at(y);
    const before = this.top(anchor);
    let isNew = false;
    for (const [at, element] of this.made) {
      if (this.heights[at]) continue;
      const height = Math.max(1, element.offsetHeight);
      const block = (this.blocks[Math.floor(at / BLOCK)] ??= { sum: 0, known: 0 });
      this.heights[at] = height;
      block.sum += height;
      block.known++;
      isNew = true;
    }
    if (!isNew) return;
    const all = this.blocks.reduce((all, block) => ({ sum: all.sum + block.sum, known: all.known + block.known }), { sum: 0, known: 0 });
    // Rows that nobody opened have one height.
    if (this.isWrapped && all.known < 1000) this.mean = all.sum / all.known;
    const moved = this.top(anchor) - before;
    if (moved && this.scroller.scrollTop) this.scroller.scrollTop += moved / this.scale().ratio;
    this.draw();
  }

  /** Makes a row anew, if it is on the screen. @param {number} at */
  redo(at) {
    const element = this.made.get(at);
    if (!element) return;
    const fresh = this.source.make(at);
    element.replaceWith(fresh);
    this.made.set(at, fresh);
  }

  /** Scrolls until a row is seen. @param {number} at @param {number} [head] height of what covers the top */
  show(at, head = 0) {
    const { ratio } = this.scale();
    const [y, view] = [this.scroller.scrollTop * ratio, this.scroller.clientHeight];
    const [top, bottom] = [this.top(at), this.top(at + 1)];
    if (top < y) this.scroller.scrollTop = top / ratio;
    else if (bottom + head > y + view) this.scroller.scrollTop = (bottom + head - view) / ratio;
    this.drawNow();
  }
}
