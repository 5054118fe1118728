package fleet

// A poisonCheck is how many workers were lost with a request since its last token. One
// that kills workers must be given up before it has killed all of them, again and
// again; one that is unlucky must not be. The difference is whether workers are
// also lost without it.
type poisonCheck struct {
	// blame is how much speaks against the request, losses is how often a worker was
	// lost with it.
	blame, losses int
	// own of the deaths that the fleet has had since from were of workers that had
	// this request.
	own, from uint64
}

// poisonLossFactor is how many times what is allowed a request may lose, however much
// speaks for it.
const poisonLossFactor = 3

// hedgeLost notes that one of two workers that computed the request was lost.
func (o *poisonCheck) hedgeLost() { o.own++ }

// add notes that the request lost its worker, when the fleet had lost deaths workers.
func (o *poisonCheck) add(blame int, deaths uint64) {
	o.own++
	if deaths-o.from > o.own { // some died without it
		o.blame, o.own, o.from = 0, 0, deaths
	}
	o.blame += blame
	o.losses++
}

// exceeded reports whether the request must be given up.
func (o *poisonCheck) exceeded(allowed int) bool {
	return o.blame > allowed || o.losses > poisonLossFactor*allowed
}

// reset notes that a token has come.
func (o *poisonCheck) reset() { o.blame, o.losses = 0, 0 }
