// Writes src/chat/math.woff2: of STIX Two Math what formulas use, with all the sizes in which brackets and roots grow.
// Browsers need a font with an OpenType MATH table to set MathML well, and phones have none. Run: npm run math-font
import { readFileSync, writeFileSync } from 'node:fs';
import subsetFont from 'subset-font';

const ranges = [
  [0x20, 0x7e], [0xa0, 0xff], [0x131, 0x131], [0x237, 0x237], [0x391, 0x3c9], [0x3d1, 0x3d6], [0x3f0, 0x3f5],
  [0x302, 0x30c], [0x2010, 0x2026], [0x2032, 0x2037], [0x2057, 0x2057], [0x2061, 0x2064], [0x20d0, 0x20dc],
  [0x2102, 0x2148], [0x2190, 0x21d5], [0x21da, 0x21dd], [0x2200, 0x22ff], [0x2308, 0x230b], [0x23b0, 0x23b1], [0x23dc, 0x23e1],
  [0x25a0, 0x25a1], [0x25b3, 0x25cb], [0x2660, 0x2667], [0x27c2, 0x27c2], [0x27e6, 0x27ef], [0x27f5, 0x27fc],
  [0x2a00, 0x2a06], [0x2a0c, 0x2a0c], [0x2a3f, 0x2a3f], [0x2a7d, 0x2a7e], [0x2aaf, 0x2ab0],
  [0x1d400, 0x1d59f], [0x1d5a0, 0x1d5d3], [0x1d670, 0x1d7ff],
];
const text = ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => String.fromCodePoint(from + i))).join('');
const whole = readFileSync('node_modules/@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff2');
const part = await subsetFont(whole, text, { targetFormat: 'woff2' });
writeFileSync('src/chat/math.woff2', part);
console.log(`src/chat/math.woff2: ${part.length} of ${whole.length} bytes`);
