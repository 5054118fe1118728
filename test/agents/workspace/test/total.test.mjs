import assert from 'node:assert/strict';
import { test } from 'node:test';
import { totals } from '../src/total.mjs';

test('refunds are subtracted', () => {
  assert.equal(totals([{ currency: 'EUR', cents: 500 }, { currency: 'EUR', cents: -120 }]).get('EUR'), 380);
});

test('unknown currencies are rejected', () => {
  assert.throws(() => totals([{ currency: 'XXX', cents: 1 }]), /unknown currency/);
});
