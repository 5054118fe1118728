package safety

import "math/bits"

// A guard is what a system prompt forbids to speak of, as stems of words. A
// user who asks for just that is not asking what the application is for.
type guard struct {
	// strict stems stand in a sentence that forbids, loose ones elsewhere in a
	// prompt that forbids something.
	strict, loose map[uint32]bool
	secret        bool
	// about are the topics of sentences that forbid, beside those of others.
	about, beside classes
}

// forbids are the words with which a prompt forbids.
var forbids = wordSet("not", "dont", "never", "avoid", "avoiding", "cannot", "cant", "mustnt", "shouldnt", "forbidden",
	"prohibited", "refuse",
	"refrain", "strictly", "secret", "confidential", "disallowed", "without", "no", "except", "nobody", "private",
	"guard")

// fillers are words that say nothing of a topic.
var fillers = wordSet("about", "above", "all", "also", "always", "and", "any", "anyone", "answer", "answers", "are",
	"asked", "assistant", "because",
	"been", "being", "between", "both", "but", "can", "cannot", "cant", "chatbot", "circumstances", "costs", "could",
	"developed", "discuss",
	"discussing", "dont", "due", "does", "doing", "each", "ever", "every", "following", "for", "from", "give", "good",
	"had", "has", "have", "having", "help",
	"helps", "her", "here", "hers", "him", "his", "how", "however", "into", "its", "job", "just", "know", "like",
	"made", "maintain", "make", "many", "matter", "may",
	"more", "most", "much", "must", "name", "need", "never", "not", "now", "often", "only", "other", "our", "out",
	"over", "please", "programmed", "provide",
	"question", "questions", "related", "role", "same", "share", "should", "some", "such", "task", "tell", "than",
	"that", "the", "their", "them", "then", "there",
	"these", "they", "this", "those", "topic", "topics", "under", "until", "use", "used", "user", "users", "using",
	"very", "want", "was", "were", "what", "when",
	"where", "which", "while", "who", "why", "will", "with", "would", "you", "your", "yours", "reveal", "avoid",
	"anything", "information", "explain", "write", "work")

// workWords are those in which the system prompts of coding agents speak of their work. What such
// a prompt forbids are ways of working, not subjects: "never commit unless asked" does not make a commit suspect.
var workWords = wordSet("bash", "cli", "code", "codebase", "command", "commands", "commit", "directory", "edit", "file",
	"files", "folder", "git", "grep", "programming", "repo", "repository", "shell", "software", "terminal", "tests",
	"tool", "tools", "workspace")

// workWordsMin is how many different work words make a system prompt that of a coding agent. Those of seven
// agents have 5 to 22 of them; prompts that guard a secret or a subject have at most 4.
const workWordsMin = 5

// forWork reports whether p is the system prompt of a coding agent.
func (p *page) forWork() bool {
	met := map[string]bool{}
	for i := range p.words {
		if word := string(p.text(i)); workWords[word] {
			met[word] = true
		}
	}
	return len(met) >= workWordsMin
}

// stemLen is how many letters of a word make its stem.
const stemLen = 5

func (p *page) stem(i int) (uint32, bool) {
	letters := p.text(i)
	if len(letters) < 2 || len(letters) < 3 && p.words[i].mark&loud == 0 && p.words[i].end-p.words[i].start > 2 ||
		fillers[string(letters)] {
		return 0, false
	}
	return hashOf(letters[:min(len(letters), stemLen)]), len(letters) > 2
}

// guardMax bounds how much of a system prompt is read, in bytes; guardStems how
// many stems one may forbid. The prompts of coding agents have hundreds of them in
// sentences that forbid something: every text meets some, so that it says nothing.
const (
	guardMax   = 16 << 10
	guardStems = 64
)

// newGuard reads a system prompt. It returns nil if that forbids nothing, more than
// it can mean, or only ways of working.
func newGuard(system string) *guard {
	if system == "" {
		return nil
	}
	var p page
	p.read(system[:min(len(system), guardMax)], 0, 0)
	if p.forWork() {
		return nil
	}
	g := &guard{strict: map[uint32]bool{}, loose: map[uint32]bool{}}
	secret := theLexicon.named("secret")
	before := 0
	for from := 0; from < len(p.words); {
		to := from + 1
		for to < len(p.words) && p.words[to].mark&first == 0 {
			to++
		}
		if p.forbidding(from, to) {
			// "Do not reveal it" speaks of the sentence before.
			if !p.note(g.strict, &g.about, from, to) {
				p.note(g.strict, &g.about, before, from)
			}
		} else {
			p.note(g.loose, &g.beside, from, to)
		}
		before, from = from, to
	}
	for i := range p.words {
		g.secret = g.secret || p.words[i].classes&secret != 0
	}
	if len(g.strict) == 0 || len(g.strict) > guardStems {
		return nil
	}
	return g
}

// forbidding reports whether the words of a sentence forbid something.
func (p *page) forbidding(from, to int) bool {
	for i := from; i < to; i++ {
		if forbids[string(p.text(i))] {
			return true
		}
	}
	return false
}

// note adds the stems and topics of a sentence, and reports whether it speaks of anything.
func (p *page) note(stems map[uint32]bool, topics *classes, from, to int) (some bool) {
	for i := from; i < to; i++ {
		if s, ok := p.stem(i); ok {
			stems[s] = true
			some = some || !forbids[string(p.text(i))]
		}
		found, _ := theTopics.find(p.text(i))
		*topics |= found
	}
	return some
}

// context appends the buckets of how the words of p meet what g guards.
func (g *guard) context(to []uint32, p *page) []uint32 {
	if g == nil {
		return to
	}
	strict, loose := map[uint32]bool{}, map[uint32]bool{}
	asksSecret := false
	secret := theLexicon.named("secret")
	for i := range p.words {
		asksSecret = asksSecret || p.words[i].classes&secret != 0
		s, ok := p.stem(i)
		switch {
		case !ok:
		case g.strict[s]:
			strict[s] = true
		case g.loose[s]:
			loose[s] = true
		}
	}
	if n := min(len(strict), 3); n > 0 {
		to = append(to, bucket(featContext, 16), bucket(featContext, 16+uint32(n)))
	}
	if n := min(len(loose), 3); n > 0 {
		to = append(to, bucket(featContext, 32), bucket(featContext, 32+uint32(n)))
	}
	if g.secret && asksSecret {
		to = append(to, bucket(featContext, 2))
	}
	if len(strict)+len(loose) > 1 {
		to = append(to, bucket(featContext, 3))
	}
	return g.topics(to, p)
}

// topics appends the buckets of how what p is about meets what g guards.
func (g *guard) topics(to []uint32, p *page) []uint32 {
	var about classes
	for i := range p.words {
		found, _ := theTopics.find(p.text(i))
		about |= found
	}
	met := bits.OnesCount64(uint64(about & g.about))
	if met > 0 {
		to = append(to, bucket(featContext, 40), bucket(featContext, 40+uint32(min(met, 3))))
	}
	if about&g.beside != 0 {
		to = append(to, bucket(featContext, 44))
	}
	if !p.elsewhere() {
		return to
	}
	to = append(to, bucket(featContext, 48))
	if met > 0 {
		to = append(to, bucket(featContext, 49))
	}
	if g.secret {
		to = append(to, bucket(featContext, 50))
	}
	return to
}

// named returns the class of a name.
func (l *lexicon) named(name string) classes {
	for i, n := range l.names {
		if n == name {
			return 1 << i
		}
	}
	return 0
}
