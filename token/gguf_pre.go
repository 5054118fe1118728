package token

import "strings"

// ggufRules is how a pre-tokenizer type of GGUF files splits text.
type ggufRules struct {
	patterns   []string // run in order, each on the pieces of the one before
	wholeWords bool     // a word that is a token is that token
	addBOS     bool     // unless the file says otherwise
}

// Patterns of GGUF pre-tokenizer types that are not in split_known.go.
const (
	ggufQwen2  = spelledOut + letters + `|\p{N}` + punctuationLines + lineTail
	ggufQwen35 = spelledOut + lettersAndMarks + `|\p{N}` + punctuationMarks + lineTail
	ggufLlama3 = spelledOut + letters + `|\p{N}{1,3}` + punctuationLines + lineTail
	ggufTekken = casedWords + `|\p{N}` + punctuationPaths
	ggufGPT4o  = casedSpelledOut + `|\p{N}{1,3}` + punctuationPaths
	ggufBloom  = ` ?[^(\s|.,!?…。，、।۔،)]+`
	ggufLatin  = "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF" +
		"\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481" +
		"\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B" +
		"\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B" +
		"\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB" +
		"\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128" +
		"\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4" +
		"\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF" +
		"\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3" +
		"\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2" +
		"\U000118A0-\U000118DF\U0001E900-\U0001E943]+"
	ggufCJK   = `[一-龥ࠀ-一가-퟿]+`
	ggufSeed  = spelledOut + letters + `|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + lineTail
	ggufJais2 = spelledOut + letters + `|\p{N}{1,3}` + punctuationLines +
		`|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`
	ggufBailing = `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])` + letters + `|\p{N}` + punctuationLines +
		`|\s*[\r\n]|\s+(?!\S)|\s+`
	ggufExaoneMoE = spelledOut +
		`|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`
	ggufYoutu = `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`
)

// ggufSplits knows the pre-tokenizer types by the names GGUF files use.
var ggufSplits = byName(map[string]ggufRules{
	"default": {patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2NoSpaces, `\p{N}+`, `[0-9][0-9][0-9]`}},
	"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt olmo jais " +
		"trillion granite-docling": {
		patterns: []string{gpt2NoSpaces}},
	"jina-v1-en jina-v2-code roberta-bpe": {patterns: []string{gpt2NoSpaces}},
	"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": {patterns: []string{`\p{N}`,
		gpt2NoSpaces}},
	"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": {
		patterns: []string{ggufLlama3}, wholeWords: true, addBOS: true},
	"dbrx smaug-bpe glm4 chatglm-bpe":                                                 {patterns: []string{ggufLlama3}},
	"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": {patterns: []string{ggufQwen2}},
	"qwen35": {patterns: []string{ggufQwen35}},
	"deepseek-llm": {patterns: []string{`[\r\n]`, ggufLatin, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`,
		ggufCJK, `\p{N}+`}},
	"deepseek-coder":                      {patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, ggufCJK, `\p{N}`}},
	"deepseek-v3 hunyuan-dense joyai-llm": {patterns: []string{`\p{N}{1,3}`, deepseekHan, deepseekWords}},
	"falcon": {patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2NoSpaces,
		`[0-9][0-9][0-9]`}},
	"tekken": {patterns: []string{ggufTekken}, wholeWords: true, addBOS: true},
	"gpt-4o llama4 kanana2 talkie minimax-m2": {patterns: []string{ggufGPT4o}},
	"tiny_aya cohere2moe":                     {patterns: []string{`\d{1,3}(?=(?:\d{3})*\b)`, ggufGPT4o}},
	"superbpe":                                {patterns: []string{`\p{N}+`, `(?=(\d{3})+(?!\d))`}},
	"poro-chat bloom gpt3-finnish":            {patterns: []string{ggufBloom}},
	"viking":                                  {patterns: []string{ggufBloom, `\p{N}`}},
	"bailingmoe bailingmoe2 llada-moe":        {patterns: []string{ggufBailing}},
	"seed-coder":                              {patterns: []string{ggufSeed}},
	"jais-2":                                  {patterns: []string{ggufJais2}},
	"exaone-moe":                              {patterns: []string{ggufExaoneMoE}},
	"youtu": {patterns: []string{ggufYoutu,
		casedSpelledOut + `|\p{N}` + punctuationPaths}, wholeWords: true},
	"laguna": {patterns: []string{`[^\n]+|[\n]+`, ggufQwen2}},
	"minicpm5": {patterns: []string{`\p{N}{1,3}`, spelledOut + letters + `|\p{N}+` + punctuationLines + lineTail},
		wholeWords: true},
	"chameleon": {patterns: []string{`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`,
		`\p{N}`,
		"[\\p{P}!-/:-@\\[-`{-~]", gpt2NoSpaces}, addBOS: true},
})

// byName gives each of the names in a key an entry of its own.
func byName(groups map[string]ggufRules) map[string]ggufRules {
	rules := map[string]ggufRules{}
	for names, r := range groups {
		for name := range strings.FieldsSeq(names) {
			rules[name] = r
		}
	}
	return rules
}
