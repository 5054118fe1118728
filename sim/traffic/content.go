package traffic

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"parley"
)

// A Content turns the keys of parts into tokens or words. The same seed gives
// the same content everywhere.
//
// Content number i of a key is digit i of the key, written in base n for n
// choices with the lowest digit first, and shifted by noise that depends only
// on the digits before it. So keys that differ give content that differs as
// soon as their digits do: keys below n at the first token, below n*n within
// two. After the last digit all is noise that depends on the whole key.
type Content struct {
	Seed uint64
	// First is the lowest token id used and Choices how many follow from it;
	// 0 means [DefaultChoices].
	First   parley.Token
	Choices int
}

// DefaultFirst and DefaultChoices are a range of token ids that nearly every
// vocabulary has, clear of the control and byte tokens at its beginning.
const (
	DefaultFirst   = 300
	DefaultChoices = 3700
)

// Validate reports what is wrong with the numbers.
func (c Content) Validate() error {
	if n := c.choices(); c.First < 0 || n < 2 || int64(c.First)+int64(n) > 1<<31 {
		return fmt.Errorf("token ids from %d, %d of them: expected at least 2, within 0 to %d", c.First, n, 1<<31-1)
	}
	return nil
}

func (c Content) choices() int {
	if c.Choices == 0 {
		return DefaultChoices
	}
	return c.Choices
}

// Tokens returns the token ids of a prompt.
func (c Content) Tokens(parts []Part) []parley.Token {
	total := 0
	for _, p := range parts {
		total += p.Tokens
	}
	out := make([]parley.Token, 0, total)
	for _, p := range parts {
		out = c.AppendTokens(out, p)
	}
	return out
}

// AppendTokens appends the token ids of a part.
func (c Content) AppendTokens(out []parley.Token, p Part) []parley.Token {
	out = slices.Grow(out, p.Tokens)
	for digit := range c.digits(p, c.choices()) {
		out = append(out, c.First+parley.Token(digit))
	}
	return out
}

// WriteWords adds a part as plain words to text, one for each token wanted:
// the words are so common that most vocabularies have a token for each. How
// many tokens they really are, only the server can say.
func (c Content) WriteWords(text *strings.Builder, p Part) {
	for digit := range c.digits(p, len(words)) {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(words[digit])
	}
}

// digits yields the content of p in base n.
func (c Content) digits(p Part, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		base, seed := uint64(n), scatter(c.Seed)
		spelled, place, rest := uint64(0), uint64(1), p.Key
		for i := range p.Tokens {
			digit := scatter(scatter(seed+uint64(i))+spelled) % base
			if rest > 0 {
				of := rest % base
				digit = (digit + of) % base
				spelled += of * place
				place *= base
				rest /= base
			}
			if !yield(int(digit)) {
				return
			}
		}
	}
}

// scatter is the finalizer of SplitMix64, a bijection that changes half the bits for
// any bit changed.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

var words = strings.Fields(`
	about above across after again against air all almost along also always among and animal another answer any are area
	around ask away back bad ball bank base be bear beat because become bed been before began begin behind below best
	better between big bird black blue boat body book both box boy bread bring brother brown build but by call came can car
	care carry cat catch cause center change check child city class clear close cold color come common could country course
	cross cut dark day deep did different do dog done door down draw dream dress drink drive drop dry during each early
	earth east easy eat egg end enough even ever every eye face fact fall family far farm fast father feel feet few field
	fill find fine fire first fish five floor fly follow food foot for force form found four free fresh friend from front
	full game gave get girl give glass go gold good got great green ground group grow had hair half hand happy hard has hat
	have he head hear heard heart heat help her here high hill him his hold home hope horse hot hour house how hundred ice
	idea if in inside into is island it job just keep key kind king knew know land large last late laugh law lay lead learn
	leave left leg less let letter life light like line list listen little live long look lost lot love low machine made
	make man many map mark may me mean measure men might mile milk mind minute miss money moon more morning most mother
	mountain move much music must my name near need never new next night no north nose not note nothing now number of off
	often oil old on once one only open or order other our out over own page paper part party pass past path pay people
	person picture piece place plan plant play point poor power press problem pull push put question quick rain ran reach
	read ready real red rest rich ride right ring river road rock room round rule run safe said sail salt same sand saw say
	school sea seat second see seem sell send set seven several shall shape she ship shoe short should show side sign
	simple since sing sister sit six size skin sky sleep slow small snow so soft some son song soon sound south space
	speak special stand star start state stay step still stone stop store story street strong study such summer sun sure
	table take talk tall teach tell ten test than that the their them then there these they thing think this those though
	three through time tire to today together told too took top toward town travel tree true try turn two under unit until
	up upon us use very voice wait walk wall want warm was watch water wave way we week weight well went were west what
	wheel when where which while white who whole why wide wild will wind window winter wish with woman wonder wood word
	work world would write wrong year yellow yes yet you young your`)
