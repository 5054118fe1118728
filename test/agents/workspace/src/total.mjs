// Adds up invoices by currency. Amounts are whole cents; a negative amount is a refund.
export function totals(invoices) {
  const sums = new Map();
  for (const { currency, cents } of invoices) {
    if (!Number.isInteger(cents)) throw new TypeError(`an amount must be a whole number of cents, not ${cents}`);
    // TODO: reject currencies that we do not know instead of ignoring them.
    sums.set(currency, (sums.get(currency) ?? 0) + cents);
  }
  return sums;
}

/** Prints the totals, or exits with an error that says what to do next. */
export function print(sums, only) {
  if (only && !sums.has(only)) {
    console.error(`no invoice is in ${only}: run again without --currency to see all of them`);
    process.exit(1);
  }
  for (const [currency, cents] of sums) console.log(`${currency} ${(cents / 100).toFixed(2)}`);
}
