/** Formulas become MathML, which browsers draw themselves. The reader is large, so it is loaded when the first formula comes. */

type Render = (tex: string, into: HTMLElement, display: boolean) => void;

let loading: Promise<Render> | undefined;
let ready: Render | undefined;

function load(): Promise<Render> {
  loading ??= import('temml').then(({ default: temml }) => {
    ready = (tex, into, display) => temml.render(tex, into, { displayMode: display, throwOnError: true });
    return ready;
  });
  return loading;
}

/** Shows a formula: as its source at first, and where it is not a formula for good. */
export function mathElement(tex: string, display: boolean): HTMLElement {
  const element = document.createElement(display ? 'div' : 'span');
  element.className = display ? 'math block' : 'math';
  element.textContent = tex;
  const draw = (render: Render): void => {
    const drawn = document.createElement('span');
    try {
      render(tex, drawn, display);
      element.replaceChildren(...drawn.childNodes);
    } catch {
      element.classList.add('source');
    }
  };
  if (ready) draw(ready);
  else void load().then(draw, () => element.classList.add('source'));
  return element;
}
