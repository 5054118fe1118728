// Package models is the models that a gateway serves: under which names, for which
// callers, and how text becomes the tokens of a prompt that fits. It knows neither HTTP
// nor what becomes of a prompt.
//
//	config.go   a model as the operator configures it; model.go: as requests use it
//	set.go      the models that are served now; aliases.go: their names
//	render.go   messages -> text -> tokens, through the chat template
//	turns.go    messages for engines that render them themselves
//	gap.go      plain prompts, and texts with a gap -> tokens
//	length.go   what cannot fit by its bytes alone
//	fit.go      which messages of a conversation fit; tiers.go: what a tier may have
//	memory.go   what of a model is in memory, and until when
//	fallbacks.go  which models are asked where one does not answer
//	public.go   the beginnings of prompts that all tenants share
package models
