// The choice of tokens, by the definition of engine/sample: weights are whole
// numbers made of exact double arithmetic, so that this chooses what the host would.
#include "common.cuh"

#define THREADS 1024
#define AT_ONCE 8
#define SORTED 2048 // of at most this many the keys are sorted
#define STEPS_PER_OCTAVE 512
#define STEPS_PER_BIN 16
#define BINS (43 * STEPS_PER_OCTAVE / STEPS_PER_BIN + 1)
#define RANGE_BITS 10 // a range of keys is divided into at most 1 << RANGE_BITS bins
#define HORIZON (43.0 * STEPS_PER_OCTAVE)
#define WEIGHT_ONE 4398046511104.0 // 2^42
#define NO_MASS (~0ull)
#define NO_RANK 0x7fffffff
#define NO_KEY (~0ull)
#define FAINT (100.0 * STEPS_PER_OCTAVE)
#define TOP_MOST 32
#define GREATEST 3.40282346638528859812e38f

// draw is compute.Draw as Go writes it: limit is how far below the peak scores count
// at all, min_p how far min_p lets them be.
struct draw {
	u64 seed, choice, position;
	double per_unit, top_p, min_p, limit;
	int top_k, greedy;
};

struct choose_args {
	const float *logits;
	const draw *draws;
	const double *roots;
	int *chosen;
	int vocab;
};

// A histogram has the weights of scores by bin, as halves of 64 bits.
struct histogram {
	u32 low[BINS], high[BINS], count[BINS];
};

struct selection {
	u64 mass;  // of all up to and including the index
	int index; // -1: all of them fell short
};

// A scope is the scores that a selection is among: those of a bin of steps with keys from one to another.
struct scope {
	int bin;
	u64 from, to;

	FORCE_MEMBER bool has(double steps, u64 key) const { return bin_of(steps) == bin && key >= from && key <= to; }
	static FORCE_MEMBER int bin_of(double steps) { return (int)(steps + 0.5) / STEPS_PER_BIN; }
};

FORCE void add_mass(u64 *at, u64 v) { asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(shared_address(at)), "l"(v) : "memory"); }
FORCE void add_shared(u32 *at, u32 v) { asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(shared_address(at)), "r"(v) : "memory"); }
FORCE u32 fetch_add_shared(u32 *at, u32 v) {
	u32 before;
	asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(shared_address(at)), "r"(v) : "memory");
	return before;
}

// key_of orders from the best score down, and equal scores from the lowest index up.
FORCE u64 key_of(float score, int index) {
	u32 order = bits_of(score + 0.0f);
	if (!(order >> 31)) order ^= 0x7fffffff;
	return (u64)order << 32 | (u32)index;
}

FORCE float score_of(u64 key) {
	u32 order = (u32)(key >> 32);
	if (!(order >> 31)) order ^= 0x7fffffff;
	return float_of(order);
}

// load_now is a load that stays before those after it: the compiler would move it to where it is used.
FORCE quad load_now(const quad *at) {
	quad q;
	asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(at));
	return q;
}

FORCE u64 least(u64 a, u64 b) { return a < b ? a : b; }

// fade is 2 to the power of -steps/STEPS_PER_OCTAVE.
FORCE double fade(const double *roots, double steps) {
	u32 whole = (u32)(int)(steps + 0.5);
	double x = ((double)(int)whole - steps) * (0.69314718055994530942 / STEPS_PER_OCTAVE);
	double series = 1 + x * (1 + x * (0.5 + x * (1.0 / 6)));
	double octave = __builtin_bit_cast(double, (u64)(1023 - whole / STEPS_PER_OCTAVE) << 52);
	return roots[whole % STEPS_PER_OCTAVE] * series * octave;
}

FORCE u64 weight_at(const double *roots, double steps) {
	return (u64)(long long)(fade(roots, steps) * WEIGHT_ONE + 0.5);
}

// philox is the first half of the block of Philox2x64-10.
FORCE u64 philox(u64 low, u64 high, u64 key) {
	for (int i = 0; i < 10; i++) {
		u64 upper, lower = low * 0xD2B74407B1CE6E93ull;
		asm("mul.hi.u64 %0, %1, %2;" : "=l"(upper) : "l"(low), "l"(0xD2B74407B1CE6E93ull));
		low = upper ^ high ^ key, high = lower;
		key += 0x9E3779B97F4A7C15ull;
	}
	return low;
}

// A row is the scores of one choice.
struct row {
	const float *scores;
	const double *roots;
	int vocab;
	double peak, per_unit, limit;

	// each calls f with every score and its index.
	template <class F> FORCE_MEMBER void each(F f) const {
		for (int base = threadx; base < vocab; base += AT_ONCE * THREADS) {
			float v[AT_ONCE];
			UNROLL for (int i = 0; i < AT_ONCE; i++) {
				int at = base + i * THREADS;
				v[i] = at < vocab ? scores[at] : float_of(0x7fc00000);
				v[i] = v[i] > GREATEST ? GREATEST : v[i];
			}
			UNROLL for (int i = 0; i < AT_ONCE; i++) f(v[i], base + i * THREADS);
		}
	}

	// best returns the least key of the thread's scores, all ones if there is none.
	FORCE_MEMBER u64 best() const {
		u64 key = ~0ull;
		auto look = [&](float score, int index) __attribute__((always_inline)) {
			score = score > GREATEST ? GREATEST : score;
			if (score >= -GREATEST) key = least(key, key_of(score, index));
		};
		if (vocab % 4) { // otherwise every row begins at a multiple of 16 bytes
			each(look);
			return key;
		}
		for (int base = threadx; base < vocab / 4; base += AT_ONCE * THREADS) {
			quad v[AT_ONCE];
			UNROLL for (int i = 0; i < AT_ONCE; i++) v[i] = load_now((const quad *)scores + least(base + i * THREADS, vocab / 4 - 1));
			UNROLL for (int i = 0; i < AT_ONCE; i++) {
				int at = least(base + i * THREADS, vocab / 4 - 1) * 4;
				look(float_of(v[i].x), at), look(float_of(v[i].y), at + 1);
				look(float_of(v[i].z), at + 2), look(float_of(v[i].w), at + 3);
			}
		}
		return key;
	}

	FORCE_MEMBER double steps(float score) const { return (peak - (double)score) * per_unit; }
};

// best_of returns the least key over all threads, all ones if there is none.
FORCE u64 best_of(u64 key) {
	__shared__ u64 warps[THREADS / 32];
	for (int i = 16; i > 0; i >>= 1) {
		u64 other = (u64)shuffle_xor((u32)(key >> 32), i) << 32 | shuffle_xor((u32)key, i);
		key = least(key, other);
	}
	if (threadx % 32 == 0) warps[threadx / 32] = key;
	sync_block();
	key = warps[0];
	for (int i = 1; i < THREADS / 32; i++) key = least(key, warps[i]);
	return key;
}

FORCE u64 shuffle_xor(u64 v, int lanes) {
	return (u64)shuffle_xor((u32)(v >> 32), lanes) << 32 | shuffle_xor((u32)v, lanes);
}

// tally sums the weights of the scores that count into the bins that bin_of gives them; below zero is none.
// Multiprocessors add 32 bits in shared memory at once, but 64 in a loop.
template <class F> FORCE void tally(const row &r, histogram *h, F bin_of) {
	for (int i = threadx; i < BINS; i += THREADS) h->low[i] = h->high[i] = h->count[i] = 0;
	sync_block();
	r.each([&](float score, int index) __attribute__((always_inline)) {
		double steps = r.steps(score);
		if (!(steps <= r.limit)) return;
		int bin = bin_of(steps, key_of(score, index));
		if (bin < 0) return;
		u64 weight = weight_at(r.roots, steps);
		u32 low = (u32)weight;
		bool carry = fetch_add_shared(&h->low[bin], low) + low < low;
		add_shared(&h->high[bin], (u32)(weight >> 32) + carry);
		add_shared(&h->count[bin], 1);
	});
	sync_block();
}

// An entry is a bin, or a score, on a walk from the best down.
struct entry {
	u64 mass;
	u32 count;
};

struct arrival {
	int at; // -1: all of them fell short
	u32 count;
	u64 passed; // the mass before it
	u32 ranks;  // and the count
	u64 mass;
};

FORCE u32 shuffle_up(u32 v, int lanes) {
	u32 r;
	asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lanes));
	return r;
}

// walk goes through the entries, of which each thread has two, until masses sum to want_mass
// or counts to want_rank. If they do not, passed is the mass of all.
FORCE arrival walk(const entry *mine, u64 want_mass, u32 want_rank) {
	__shared__ entry warps[THREADS / 32];
	__shared__ arrival result;
	entry all = {mine[0].mass + mine[1].mass, mine[0].count + mine[1].count}, sum = all;
	for (int lanes = 1; lanes < 32; lanes *= 2) {
		entry left = {(u64)shuffle_up((u32)(sum.mass >> 32), lanes) << 32 | shuffle_up((u32)sum.mass, lanes), shuffle_up(sum.count, lanes)};
		if (threadx % 32 >= lanes) sum.mass += left.mass, sum.count += left.count;
	}
	if (threadx % 32 == 31) warps[threadx / 32] = sum;
	sync_block();
	for (int w = 0; w < threadx / 32; w++) sum.mass += warps[w].mass, sum.count += warps[w].count;
	if (threadx == THREADS - 1) result = {-1, 0, sum.mass, sum.count, 0};
	sync_block();
	sum.mass -= all.mass, sum.count -= all.count;
	UNROLL for (int i = 0; i < 2; i++) {
		entry before = sum;
		sum.mass += mine[i].mass, sum.count += mine[i].count;
		bool first = before.mass < want_mass && before.count < want_rank;
		if (first && (sum.mass >= want_mass || sum.count >= want_rank))
			result = {threadx * 2 + i, mine[i].count, before.mass, before.count, mine[i].mass};
	}
	sync_block();
	arrival a = result;
	sync_block();
	return a;
}

FORCE arrival walk(const histogram *h, u64 want_mass, u32 want_rank) {
	entry mine[2] = {};
	UNROLL for (int i = 0; i < 2; i++) {
		int at = threadx * 2 + i;
		if (at < BINS) mine[i] = {(u64)h->high[at] << 32 | h->low[at], h->count[at]};
	}
	return walk(mine, want_mass, want_rank);
}

// sort orders n keys, a power of two.
FORCE void sort(u64 *keys, int n) {
	for (int size = 2; size <= n; size *= 2)
		for (int gap = size / 2; gap > 0; gap /= 2) {
			sync_block();
			for (int i = threadx; i < n / 2; i += THREADS) {
				int low = i / gap * 2 * gap + i % gap;
				u64 a = keys[low], b = keys[low + gap];
				if ((a > b) == ((low & size) == 0)) keys[low] = b, keys[low + gap] = a;
			}
		}
	sync_block();
}

// pick walks the scores of a scope, at most SORTED, until their weights sum to want_mass or they
// are want_rank many, of which it must be one.
FORCE selection pick(const row &r, const scope &in, u64 *keys, u64 want_mass, u32 want_rank) {
	__shared__ u32 found;
	if (threadx == 0) found = 0;
	sync_block();
	r.each([&](float score, int index) __attribute__((always_inline)) {
		double steps = r.steps(score);
		u64 key = key_of(score, index);
		if (steps <= r.limit && in.has(steps, key)) keys[fetch_add_shared(&found, 1)] = key;
	});
	sync_block();
	int n = found, room = 2;
	while (room < n) room *= 2;
	for (int i = n + threadx; i < room; i += THREADS) keys[i] = NO_KEY;
	sort(keys, room);
	entry mine[2] = {};
	UNROLL for (int i = 0; i < 2; i++) {
		int at = threadx * 2 + i;
		if (at < n) mine[i] = {weight_at(r.roots, r.steps(score_of(keys[at]))), 1};
	}
	arrival a = walk(mine, want_mass, want_rank);
	return {a.passed + a.mass, (int)(u32)keys[a.at]};
}

// tighten sets the bounds of a scope to the least and the greatest key in it.
FORCE void tighten(const row &r, scope &in) {
	u64 low = NO_KEY, high = NO_KEY;
	r.each([&](float score, int index) __attribute__((always_inline)) {
		double steps = r.steps(score);
		u64 key = key_of(score, index);
		if (steps <= r.limit && in.has(steps, key)) low = least(low, key), high = least(high, ~key);
	});
	in.from = best_of(low);
	sync_block();
	in.to = ~best_of(high);
}

// reach walks the scores from the best down until their weights sum to want_mass or
// they are want_rank many. The histogram is that of the whole row by steps.
FORCE selection reach(const row &r, const histogram *whole, u64 want_mass, u32 want_rank) {
	__shared__ union {
		histogram ranges;
		u64 keys[SORTED];
	} scratch;
	scope in = {-1, 0, NO_KEY};
	u64 passed = 0;
	int shift = 0;
	for (const histogram *h = whole;; h = &scratch.ranges) {
		arrival a = walk(h, want_mass - passed, want_rank);
		passed += a.passed;
		if (a.at < 0) return {passed, -1};
		if (want_rank != NO_RANK) want_rank -= a.ranks;
		if (in.bin >= 0) {
			in.from += (u64)a.at << shift;
			in.to = least(in.to, in.from + ((1ull << shift) - 1));
		} else {
			in.bin = a.at;
		}
		if (a.count <= SORTED) {
			selection s = pick(r, in, scratch.keys, want_mass - passed, want_rank);
			return {passed + s.mass, s.index};
		}
		if (h == whole) tighten(r, in);
		for (shift = 0; (in.to - in.from) >> shift >> RANGE_BITS; shift++) {}
		tally(r, &scratch.ranges, [&](double steps, u64 key) __attribute__((always_inline)) {
			return in.has(steps, key) ? (int)((key - in.from) >> shift) : -1;
		});
	}
}

// mass_within sums the weights of scores up to so many steps below the peak.
FORCE u64 mass_within(const row &r, double steps_most) {
	__shared__ u64 sum;
	sync_block();
	if (threadx == 0) sum = 0;
	sync_block();
	u64 mine = 0;
	r.each([&](float score, int) {
		double steps = r.steps(score);
		if (steps <= r.limit && steps <= steps_most) mine += weight_at(r.roots, steps);
	});
	if (mine) add_mass(&sum, mine);
	sync_block();
	return sum;
}

// share is the part p of a mass, rounded up, and at least 1.
FORCE u64 share(double p, u64 mass) {
	u64 part;
	asm("cvt.rpi.u64.f64 %0, %1;" : "=l"(part) : "d"(p * (double)mass));
	return part < 1 ? 1 : part;
}

// choose draws a token from each row of logits. A block of threads has one row.
KERNEL(THREADS) void choose(choose_args a) {
	__shared__ histogram whole;
	const draw d = a.draws[blockx];
	row r = {a.logits + (u64)blockx * a.vocab, a.roots, a.vocab, 0, d.per_unit, d.limit};
	u64 best = best_of(r.best());
	if (best == ~0ull || d.greedy || d.top_k == 1) {
		if (threadx == 0) a.chosen[blockx] = best == ~0ull ? -1 : (int)(u32)best;
		return;
	}
	r.peak = (double)score_of(best);
	tally(r, &whole, [](double steps, u64) __attribute__((always_inline)) { return scope::bin_of(steps); });
	u64 kept = walk(&whole, NO_MASS, NO_RANK).passed;
	int index = -1;
	// First top_k and then top_p bound what is kept, of which a token is drawn.
	_Pragma("nounroll") for (int phase = 0; phase < 3; phase++) {
		u64 want = NO_MASS;
		u32 rank = NO_RANK;
		if (phase == 0) {
			if (d.top_k >= a.vocab) continue;
			rank = d.top_k;
		} else if (phase == 1) {
			if (d.top_p >= 1) continue;
			want = share(d.top_p, kept);
		} else {
			u64 uniform = philox(d.position, d.choice, d.seed);
			asm("mul.hi.u64 %0, %1, %2;" : "=l"(want) : "l"(uniform), "l"(kept));
			want++;
		}
		selection s = reach(r, &whole, want, rank);
		kept = s.mass, index = s.index;
		if (phase == 1 && d.min_p < HORIZON) kept = least(kept, mass_within(r, d.min_p));
	}
	if (threadx == 0) a.chosen[blockx] = index;
}

// adjusted is compute.Adjustment as it lies in memory. Where the kernel has changed the score,
// steer is what it was before.
struct adjusted {
	int token;
	float steer, bias;
	int answered; // less than 0: in the prompt alone
};

// special is what else there is to a row: entries of adjusted tokens from first on, and
// room for one more; mask is where its bits begin, top how many of the best tokens are
// wanted, coming the row of the step before whose token counts. Each is -1 if there is none.
struct special {
	int row, first, entries, coming, mask, top;
	float repetition, presence, frequency;
	int pad;
};

// survey is what log-probabilities are computed of.
struct survey {
	double sum;
	float peak, score;
	int count, pad;
	u64 top[TOP_MOST];
};

struct prepare_args {
	float *logits;
	const special *specials;
	adjusted *entries;
	const u64 *masks;
	const double *roots;
	const int *before, *chosen; // by the step before, and by this one
	survey *surveys;
	double per_unit;
	int vocab;
};

// clean is what a score that is not a number counts as.
FORCE float clean(float v) { return v != v ? float_of(0xff800000) : v > GREATEST ? GREATEST : v; }

// examine sums the weights of a row's scores as they are, and finds the best.
FORCE void examine(const prepare_args &a, const float *scores, int top, survey *out) {
	__shared__ double lanes[THREADS];
	row r = {scores, a.roots, a.vocab, 0, a.per_unit, 0};
	u64 best = best_of(r.best());
	r.peak = best == NO_KEY ? 0 : (double)score_of(best);
	double sum = 0;
	r.each([&](float score, int) __attribute__((always_inline)) {
		double steps = r.steps(score);
		if (best != NO_KEY && steps < FAINT) sum += fade(r.roots, steps);
	});
	lanes[threadx] = sum;
	for (int half = THREADS / 2; half > 0; half /= 2) {
		sync_block();
		if (threadx < half) lanes[threadx] += lanes[threadx + half];
	}
	int count = 0;
	for (u64 key = best; count < top && key != NO_KEY; count++) {
		if (threadx == 0) out->top[count] = key;
		u64 next = NO_KEY;
		r.each([&](float score, int index) __attribute__((always_inline)) {
			u64 k = key_of(score, index);
			if (score >= -GREATEST && k > key) next = least(next, k);
		});
		sync_block(); // all have read what the best was found in
		key = best_of(next);
	}
	if (threadx == 0) out->sum = lanes[0], out->peak = (float)r.peak, out->count = count;
}

// adjust changes the score of one token.
FORCE void adjust(const special &s, adjusted *e, float *scores, int answered) {
	float raw = scores[e->token];
	float score = clean(raw + e->steer) + e->bias;
	if (answered && score > 0) score /= s.repetition;
	else if (answered) score *= s.repetition;
	if (answered > 0) {
		score -= (float)answered * s.frequency;
		score -= s.presence;
	}
	scores[e->token] = clean(score), e->steer = raw;
}

// prepare does all that a row may need before a token is drawn from it: a block of threads
// has one such row.
KERNEL(THREADS) void prepare(prepare_args a) {
	__shared__ int known;
	const special s = a.specials[blockx];
	float *scores = a.logits + (u64)s.row * a.vocab;
	if (threadx == 0) known = 0;
	if (s.top >= 0) examine(a, scores, s.top, a.surveys + blockx);
	sync_block();
	int coming = s.coming < 0 ? -1 : a.before[s.coming];
	for (int i = threadx; i < s.entries; i += THREADS) {
		adjusted *e = a.entries + s.first + i;
		int answered = e->answered;
		if (e->token == coming) answered = answered < 0 ? 1 : answered + 1, known = 1;
		adjust(s, e, scores, answered);
	}
	sync_block();
	if (threadx == 0) {
		adjusted *e = a.entries + s.first + s.entries;
		*e = {known ? -1 : coming, 0, 0, 1};
		if (e->token >= 0) adjust(s, e, scores, 1);
	}
	sync_block();
	if (s.mask < 0) return;
	for (int i = threadx; i < a.vocab; i += THREADS)
		if (!(a.masks[s.mask + i / 64] >> (i % 64) & 1)) scores[i] = float_of(0xff800000);
}

// recall finds what the chosen token's score was before it was adjusted.
KERNEL(128) void recall(prepare_args a) {
	const special s = a.specials[blockx];
	int token = a.chosen[s.row];
	if (s.top < 0 || token < 0) return;
	survey *out = a.surveys + blockx;
	if (threadx == 0) out->score = clean(a.logits[(u64)s.row * a.vocab + token]);
	sync_block();
	for (int i = threadx; i <= s.entries; i += 128)
		if (a.entries[s.first + i].token == token) out->score = clean(a.entries[s.first + i].steer);
}

struct copy_words_args {
	const int *from;
	int *to;
	int words;
	int first, rows;   // the words that are a step's tokens
	const int *chosen; // by the step before
};

// copy_words copies between device memory and pinned host memory: a copy by the copy engines would wait for the
// blocks that they move between tiers. A token below zero is the place of one that the step before chose.
KERNEL(256) void copy_words(copy_words_args a) {
	for (int i = blockx * 256 + threadx; i < a.words; i += gridx * 256) {
		int word = a.from[i];
		if ((u32)(i - a.first) < (u32)a.rows && word < 0) {
			int token = a.chosen[-1 - word];
			word = token < 0 ? 0 : token; // where there was none, what follows is dropped
		}
		a.to[i] = word;
	}
}
