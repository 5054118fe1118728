package ledger

import (
	"errors"
	"fmt"
	"strings"

	"parley"
	"parley/limit"
)

// priceMax keeps the cost of any request far from what a number can hold.
const priceMax = 1_000_000 * 1_000_000

// Prices are what models cost, for all or for a tier. What has none is free.
type Prices map[PriceKey]limit.Price

// A PriceKey names a model and a tier; AnyTier is the price of the others.
type PriceKey struct {
	Model string
	Tier  parley.Class
}

// AnyTier stands for tiers without a price of their own.
const AnyTier = parley.Class(parley.Classes)

// Of returns the price of a model for a tier.
func (p Prices) Of(model string, tier parley.Class) limit.Price {
	if price, own := p[PriceKey{model, tier}]; own {
		return price
	}
	return p[PriceKey{model, AnyTier}]
}

var errPrice = errors.New(
	"not a price: write MODEL=INPUT/OUTPUT or MODEL=INPUT/CACHED/OUTPUT, for a million tokens each, such as " +
		"polly=0.10/0.05/0.40; for one tier MODEL@TIER=…")

// Add reads a price such as polly=0.10/0.40 or polly@free=0/0/0.
func (p Prices) Add(text string) error {
	named, amounts, ok := strings.Cut(text, "=")
	key, err := parsePriceKey(named)
	parts := strings.Split(amounts, "/")
	if !ok || err != nil || len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q is %w", text, errPrice)
	}
	var values []limit.Micros
	for _, part := range parts {
		value, err := limit.ParseMicros(part)
		if err != nil || value < 0 || value > priceMax {
			return fmt.Errorf("%q is %w", text, errPrice)
		}
		values = append(values, value)
	}
	price := limit.Price{Input: values[0], Cached: values[0], Output: values[len(values)-1]}
	if len(values) == 3 {
		price.Cached = values[1]
	}
	p[key] = price
	return nil
}

// parsePriceKey reads MODEL or MODEL@TIER.
func parsePriceKey(text string) (PriceKey, error) {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		for tier := range parley.Class(parley.Classes) {
			if tier.String() == text[at+1:] && at > 0 {
				return PriceKey{text[:at], tier}, nil
			}
		}
	}
	if text == "" {
		return PriceKey{}, errPrice
	}
	return PriceKey{text, AnyTier}, nil
}
