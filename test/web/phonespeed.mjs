// How fast a browser is here, by Lighthouse's benchmark index as its documentation defines it: the mean of how many times in
// a tenth of a second a text of 10,000 letters can be built letter by letter, and 100,000 numbers be copied. Chrome's
// developer tools take 264 for a slow phone (a Moto G Power of 2022) and 1000 for a middling one (a Pixel 5).
/** Runs in the page. */
function index(ms) {
  const perTenth = (work) => {
    const began = performance.now();
    let times = 0;
    do {
      for (let n = 0; n < 10; n++) work(times++);
    } while (performance.now() - began < ms / 2);
    return (times * 100) / (performance.now() - began);
  };
  const build = () => {
    let text = '';
    for (let n = 0; n < 10_000; n++) text += 'a';
    if (text.length === 1) throw new Error('this keeps the loop from being left out');
  };
  const numbers = [[], []].map((list) => {
    for (let n = 0; n < 100_000; n++) list[n] = n;
    return list;
  });
  const copy = (turn) => {
    const from = numbers[turn % 2];
    const to = numbers[1 - (turn % 2)];
    for (let n = 0; n < from.length; n++) to[n] = from[n];
  };
  return (perTenth(build) + perTenth(copy)) / 2;
}

export async function benchmarkIndex(tab) {
  const measured = [];
  for (let n = 0; n < 7; n++) measured.push(await tab.evaluate(`(${index})(300)`));
  return Math.round(measured.sort((a, b) => a - b)[3]);
}
