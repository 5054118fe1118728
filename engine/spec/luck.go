package spec

// A Luck is how often guesses came true lately. The zero value has seen none.
type Luck struct {
	// Memory is about how many guesses it remembers; 0 means 10, for one
	// sequence.
	Memory int

	chance float64
	checks int
}

const (
	// firstHope is the chance assumed before any guess was checked.
	firstHope = 0.6
	// hopeWeight is how many checked guesses that assumption is worth.
	hopeWeight = 4
	// memoryDefault follows a sequence from one kind of text to another.
	memoryDefault = 10
)

// Chance returns how likely a guess is right if all before it were.
func (l *Luck) Chance() float64 {
	if l.chance == 0 && l.checks == 0 {
		return firstHope
	}
	return l.chance
}

// Fresh returns the luck of a new sequence, which expects what was seen of
// others until it knows better.
func (l *Luck) Fresh() Luck { return Luck{chance: l.Chance()} }

// Learn takes in how many of the guesses of a pass were right. Guesses after
// the first wrong one tell nothing.
func (l *Luck) Learn(guessed, right int) {
	for range right {
		l.lesson(1)
	}
	if right < guessed {
		l.lesson(0)
	}
}

func (l *Luck) lesson(came float64) {
	memory := l.Memory
	if memory == 0 {
		memory = memoryDefault
	}
	chance := l.Chance()
	l.checks++
	l.chance = chance + (came-chance)/float64(min(l.checks+hopeWeight, memory))
}
