package stat

// Least finds the three weights, none of them negative, under which measured
// features sum up to one as nearly as can be: least squares, of which old
// measurements are forgotten. The zero value knows nothing.
//
// It forgets only in the direction of what is measured anew. While all
// measurements are alike, what is known about others stays as it is: plain
// forgetting would lose it, and the next one that differs would throw the
// weights far off.
type Least struct {
	// Forgetting is the share of what was known in the direction of a measurement that is
	// lost with it; 0 means 0.004. Half as much is lost of all else.
	Forgetting float64
	// Known is the sum of the products of features with each other, Sums that of the features.
	Known [3][3]float64
	Sums  [3]float64
	// free are the best weights of any sign, and explained how much of the squares they
	// explain, as Solve found them.
	free      [3]float64
	explained float64
}

const (
	// forgetting is that of a [Least] which does not say.
	forgetting = 0.004
	// doubt is what stands for no knowledge at all, so that there is always a
	// solution; tiny beside any measurement.
	doubt = 1e-6
	// alike is which share of a feature must be left when what others say of it is
	// taken away: less is the error of the arithmetic.
	alike = 1e-12
)

// Add takes in the features of one measurement. It is called in turns with Solve.
func (l *Least) Add(x [3]float64) {
	free := l.free
	if l.explained == 0 {
		free = l.Solve()
	}
	var seen [3]float64 // known · x
	strength := 0.0
	for i := range x {
		for j := range x {
			seen[i] += float64(l.Known[i][j] * x[j])
		}
		strength += float64(x[i] * seen[i])
	}
	lose := l.Forgetting
	if lose == 0 {
		lose = forgetting
	}
	forgotten, general := 0.0, 1-float64(lose/2)
	if strength > 0 {
		forgotten = lose / strength
	}
	for i := range x {
		for j := range x {
			lost := float64(forgotten * seen[i] * seen[j])
			l.Known[i][j] = float64(x[i]*x[j]) + float64(general*(l.Known[i][j]-lost))
			l.Sums[i] -= float64(lost * free[j])
		}
		l.Sums[i] = x[i] + float64(general*l.Sums[i])
	}
}

// all says that every weight may be other than zero; a choice has a bit for each.
const all = 1<<3 - 1

// Solve returns the best weights. More weights explain no less, so where none of three is negative they are the best.
func (l *Least) Solve() (best [3]float64) {
	l.free, l.explained = l.among(all)
	if l.explained > 0 && min(l.free[0], l.free[1], l.free[2]) >= 0 {
		return l.free
	}
	most := 0.0
	for choice := 1; choice < all; choice++ {
		w, explained := l.among(choice)
		if explained > most && min(w[0], w[1], w[2]) >= 0 {
			best, most = w, explained
		}
	}
	return best
}

// among returns the best weights if only the chosen ones are not zero, of any
// sign, and how much of the squares they explain: nothing if the measurements do not
// tell the chosen ones apart.
func (l *Least) among(choice int) (w [3]float64, explained float64) {
	a, b := l.Known, l.Sums
	chosen := func(i int) bool { return choice&(1<<i) != 0 }
	whole := [3]float64{a[0][0] + doubt, a[1][1] + doubt, a[2][2] + doubt}
	for i := range a {
		a[i][i] = whole[i]
	}
	for i := range a { // elimination without pivots: the matrix is positive definite
		if !chosen(i) {
			continue
		}
		if !(a[i][i] > alike*whole[i]) {
			return [3]float64{}, 0
		}
		for k := i + 1; k < len(a); k++ {
			if !chosen(k) {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := i; j < len(a); j++ {
				a[k][j] -= float64(f * a[i][j])
			}
			b[k] -= float64(f * b[i])
		}
	}
	for i := len(a) - 1; i >= 0; i-- {
		if !chosen(i) {
			continue
		}
		w[i] = b[i]
		for j := i + 1; j < len(a); j++ {
			w[i] -= float64(a[i][j] * w[j])
		}
		w[i] /= a[i][i]
		explained += float64(l.Sums[i] * w[i])
	}
	return w, explained
}
