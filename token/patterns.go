package token

import "strings"

// The patterns of widely used vocabularies, as their files spell them. Text is scanned by hand for these: a regular
// expression engine would take most of the time of encoding.
const (
	contractions     = `'s|'t|'re|'ve|'m|'ll|'d`
	anyContractions  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spelledOut       = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	shortFold        = `'(?i:[sdmt]|ll|ve|re)`
	spaceTail        = `|\s+(?!\S)|\s+`
	lineTail         = `|\s*[\r\n]+` + spaceTail
	gpt2Words        = `| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
	gpt2Pattern      = contractions + gpt2Words + spaceTail
	gpt2NoSpaces     = contractions + gpt2Words + `|\s+(?!\S)`
	letters          = `|[^\r\n\p{L}\p{N}]?\p{L}+`
	punctuationLines = `| ?[^\s\p{L}\p{N}]+[\r\n]*`
	lettersAndMarks  = `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`
	punctuationMarks = `| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*`
	uppers           = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowers           = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	punctuationPaths = `| ?[^\s\p{L}\p{N}]+[\r\n/]*` + lineTail
	casedWords       = uppers + `*` + lowers + `+|` + uppers + `+` + lowers + `*`
	casedContracted  = uppers + `*` + lowers + `+` + anyContractions + `?|` + uppers + `+` + lowers + `*` +
		anyContractions + `?`
	casedSpelledOut = uppers + `*` + lowers + `+` + spelledOut + `?|` + uppers + `+` + lowers + `*` + spelledOut + `?`
	deepseekWords   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		"|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
		"| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
	deepseekHan = `[一-龥぀-ゟ゠-ヿ]+`
)

// knownScanner returns the scanner written for a pattern, if there is one.
func knownScanner(pattern string) (scanner, bool) {
	s, ok := knownScanners[spellLineEnds(pattern)]
	return s, ok
}

// spellLineEnds writes line ends as escapes; some files hold them as they are.
func spellLineEnds(pattern string) string {
	return strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(pattern)
}

// completePatterns are the known patterns whose matches leave no gaps.
var knownScanners, completePatterns = buildKnownScanners()

func buildKnownScanners() (known map[string]scanner, complete map[string]bool) {
	complete = map[string]bool{}
	known = map[string]scanner{
		gpt2Pattern:   scanGPT2,
		gpt2NoSpaces:  scanGPT2,
		deepseekWords: scanDeepSeek,
		deepseekHan:   scanDeepSeekHan,
		`\s+$`:        scanLineEnd,
		`\p{N}`:       scanNumbers(1),
		`\p{N}{1}`:    scanNumbers(1),
		`\p{N}{1,3}`:  scanNumbers(3),
		`\p{N}+`:      scanNumbers(1 << 30),
	}
	digits := map[string]int{`|\p{N}`: 1, `|\p{N}{1}`: 1, `|\p{N}{1,1}`: 1, `|\p{N}{1,2}`: 2, `|\p{N}{1,3}`: 3,
		`|\p{N}+`: 1 << 30}
	for spelled, digitsMax := range digits {
		for _, start := range []string{anyContractions, shortFold, spelledOut} {
			folds := start != spelledOut
			known[start+letters+spelled+punctuationLines+lineTail] = lineWords{digitsMax, letter, folds}.scan
			known[start+lettersAndMarks+spelled+punctuationMarks+lineTail] = lineWords{digitsMax, letter | mark,
				folds}.scan
		}
		known[casedWords+spelled+punctuationPaths] = casedScanner{digitsMax, false, false}.scan
		known[casedContracted+spelled+punctuationPaths] = casedScanner{digitsMax, true, true}.scan
		known[casedSpelledOut+spelled+punctuationPaths] = casedScanner{digitsMax, true, false}.scan
	}
	for pattern := range known {
		complete[pattern] = pattern == gpt2NoSpaces || strings.HasSuffix(pattern, spaceTail) && pattern != deepseekWords
	}
	return known, complete
}
