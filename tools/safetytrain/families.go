package main

import (
	_ "embed"
	"strings"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

//go:embed families.txt
var familiesText string

// familiesSource is the source of attacks written by families.
const familiesSource = "families"

// familyWeight is what an attack of a family, and its harmless sibling, count beside a row of the data.
const familyWeight = 1

// familyRows are the attacks of families.txt and the harmless texts beside them. Those of
// a family are one group, so that whatever scores a family has not learned it.
func familyRows(text string) (list []*row) {
	family := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "= "); ok {
			family = name
			continue
		}
		fields := strings.Split(strings.ReplaceAll(line, `\n`, "\n"), " | ")
		if strings.HasPrefix(line, "#") || len(fields) < 2 {
			continue
		}
		for i, text := range fields[1:] {
			list = append(list, &row{
				Text:   text,
				System: strings.TrimPrefix(fields[0], "-"),
				Label:  1 - i,
				Cats:   []string{family},
				Source: familiesSource,
				group:  xxhash.Sum64String(familiesSource + " " + family),
			})
		}
	}
	return list
}

func familyExamples() (list []*example) {
	for _, r := range familyRows(familiesText) {
		e := &example{row: r, sample: safety.Extract(r.Text, r.System), target: clean(), weight: familyWeight}
		if r.Label == 1 {
			e.target = orderTarget(unknown)
			e.target[safety.HeadInjection] = 1
		}
		list = append(list, e)
	}
	return list
}
