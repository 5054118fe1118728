package spec

// An Acceptance is the rate at which guesses were accepted lately. The zero value has seen none.
type Acceptance struct {
	// Memory is about how many guesses it remembers; 0 means 10, for one
	// sequence.
	Memory int

	chance float64
	checks int
}

const (
	// firstChance is the chance assumed before any guess was checked.
	firstChance = 0.6
	// firstWeight is how many checked guesses that assumption is worth.
	firstWeight = 4
	// memoryDefault follows a sequence from one kind of text to another.
	memoryDefault = 10
)

// Chance returns how likely a guess is right if all before it were.
func (a *Acceptance) Chance() float64 {
	if a.chance == 0 && a.checks == 0 {
		return firstChance
	}
	return a.chance
}

// Fresh returns the acceptance of a new sequence: that of others, until guesses of its own were checked.
func (a *Acceptance) Fresh() Acceptance { return Acceptance{chance: a.Chance()} }

// Learn takes in how many of the guesses of a pass were right. Guesses after
// the first wrong one tell nothing.
func (a *Acceptance) Learn(guessed, right int) {
	for range right {
		a.learnOne(1)
	}
	if right < guessed {
		a.learnOne(0)
	}
}

func (a *Acceptance) learnOne(accepted float64) {
	memory := a.Memory
	if memory == 0 {
		memory = memoryDefault
	}
	chance := a.Chance()
	a.checks++
	a.chance = chance + (accepted-chance)/float64(min(a.checks+firstWeight, memory))
}
