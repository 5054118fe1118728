// The choice of tokens, by the definition of engine/sample: weights are whole
// numbers made of exact double arithmetic, so that this chooses what the host would.
#include "common.cuh"

#define THREADS 1024
#define AT_ONCE 8
#define WAYS 8
#define SORTED 2048 // so few are sorted
#define STEPS_PER_OCTAVE 512
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

// A division has the sums of the scores whose keys lie in each of WAYS ranges.
struct division {
	u64 mass[WAYS];
	u32 count[WAYS];
};

struct selection {
	u64 mass;  // of all up to and including the index
	int index; // -1: all of them fell short
};

FORCE void add_mass(u64 *at, u64 v) { asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(shared_address(at)), "l"(v) : "memory"); }

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

// divide sums the scores whose keys are at least from and at most bounds[0], those
// after them up to bounds[1], and so on. Sums are kept in registers: many scores lie
// close together, and would meet in a few places of shared memory. Each has all up to its
// bound, so that a score takes one comparison a range.
FORCE void divide(const row &r, u64 from, const u64 *bounds, division *sums) {
	__shared__ division warps[THREADS / 32];
	u64 mass[WAYS] = {};
	u32 count[WAYS] = {};
	r.each([&](float score, int index) __attribute__((always_inline)) {
		double steps = r.steps(score);
		u64 key = key_of(score, index);
		if (!(steps <= r.limit) || key < from || key > bounds[WAYS - 1]) return;
		u64 weight = weight_at(r.roots, steps);
		UNROLL for (int i = 0; i < WAYS; i++)
			if (key <= bounds[i]) mass[i] += weight, count[i]++;
	});
	UNROLL for (int i = WAYS - 1; i > 0; i--) mass[i] -= mass[i - 1], count[i] -= count[i - 1];
	UNROLL for (int i = 0; i < WAYS; i++) {
		for (int lanes = 16; lanes > 0; lanes >>= 1) {
			mass[i] += shuffle_xor(mass[i], lanes);
			count[i] += shuffle_xor(count[i], lanes);
		}
		if (threadx % 32 == 0) warps[threadx / 32].mass[i] = mass[i], warps[threadx / 32].count[i] = count[i];
	}
	sync_block();
	if (threadx < WAYS) {
		u64 m = 0;
		u32 n = 0;
		for (int w = 0; w < THREADS / 32; w++) m += warps[w].mass[threadx], n += warps[w].count[threadx];
		sums->mass[threadx] = m, sums->count[threadx] = n;
	}
	sync_block();
}

// first_bounds cuts at octaves below the peak; the last range has all that count.
FORCE void first_bounds(const row &r, u64 *bounds) {
	const int octaves[WAYS - 1] = {1, 2, 3, 4, 6, 9, 14};
	UNROLL for (int i = 0; i < WAYS - 1; i++)
		bounds[i] = key_of((float)(r.peak - octaves[i] * STEPS_PER_OCTAVE / r.per_unit), -1);
	bounds[WAYS - 1] = NO_KEY;
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

// pick walks the scores with keys from one to another, at most SORTED, until their weights
// sum to want_mass or they are want_rank many, of which it must be one.
FORCE selection pick(const row &r, u64 from, u64 to, u64 want_mass, u32 want_rank) {
	__shared__ u64 keys[SORTED], sums[THREADS / 32];
	__shared__ int found;
	__shared__ selection result;
	if (threadx == 0) found = 0;
	sync_block();
	r.each([&](float score, int index) {
		u64 key = key_of(score, index);
		if (r.steps(score) <= r.limit && key >= from && key <= to) keys[__nvvm_atom_add_gen_i(&found, 1)] = key;
	});
	sync_block();
	int n = found, room = 2;
	while (room < n) room *= 2;
	for (int i = n + threadx; i < room; i += THREADS) keys[i] = NO_KEY;
	sort(keys, room);
	// Each thread has two weights, whose sums are added up over lanes and then over warps.
	u64 mine[2] = {}, upTo = 0;
	UNROLL for (int i = 0; i < 2; i++) {
		int at = threadx * 2 + i;
		if (at < n) mine[i] = weight_at(r.roots, r.steps(score_of(keys[at])));
		upTo += mine[i];
	}
	for (int lanes = 1; lanes < 32; lanes *= 2) {
		u32 low, high;
		asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(low) : "r"((u32)upTo), "r"(lanes));
		asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(high) : "r"((u32)(upTo >> 32)), "r"(lanes));
		if (threadx % 32 >= lanes) upTo += (u64)high << 32 | low;
	}
	if (threadx % 32 == 31) sums[threadx / 32] = upTo;
	sync_block();
	for (int w = 0; w < threadx / 32; w++) upTo += sums[w];
	upTo -= mine[0] + mine[1];
	UNROLL for (int i = 0; i < 2; i++) {
		u32 at = threadx * 2 + i;
		bool before = upTo >= want_mass || at >= want_rank;
		upTo += mine[i];
		if (!before && (int)at < n && (upTo >= want_mass || at + 1 >= want_rank)) result = {upTo, (int)(u32)keys[at]};
	}
	sync_block();
	selection s = result;
	sync_block();
	return s;
}

// reach walks the scores from the best down until their weights sum to want_mass or
// they are want_rank many. The division is that of the whole row by its first bounds;
// inner is scratch.
FORCE selection reach(const row &r, const division *whole, division *inner, u64 want_mass, u32 want_rank) {
	u64 bounds[WAYS], from = 0, passed = 0;
	u32 ranks = 0;
	first_bounds(r, bounds);
	for (const division *d = whole;; d = inner) {
		u64 to = 0;
		u32 count = 0;
		bool reached = false;
		UNROLL for (int i = 0; i < WAYS; i++) {
			if (reached) continue;
			to = bounds[i], count = d->count[i];
			reached = passed + d->mass[i] >= want_mass || ranks + count >= want_rank;
			if (!reached) passed += d->mass[i], ranks += count, from = bounds[i] + 1;
		}
		if (!reached) return {passed, -1};
		u32 rank = want_rank == NO_RANK ? NO_RANK : want_rank - ranks;
		if (count <= SORTED) {
			selection s = pick(r, from, to, want_mass - passed, rank);
			return {passed + s.mass, s.index};
		}
		UNROLL for (int i = 0; i < WAYS - 1; i++) bounds[i] = from + (to - from) / WAYS * (i + 1);
		bounds[WAYS - 1] = to;
		sync_block(); // all have read the division before
		divide(r, from, bounds, inner);
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
	__shared__ division whole, inner;
	const draw d = a.draws[blockx];
	row r = {a.logits + (u64)blockx * a.vocab, a.roots, a.vocab, 0, d.per_unit, d.limit};
	u64 best = best_of(r.best());
	if (best == ~0ull || d.greedy || d.top_k == 1) {
		if (threadx == 0) a.chosen[blockx] = best == ~0ull ? -1 : (int)(u32)best;
		return;
	}
	r.peak = (double)score_of(best);
	u64 bounds[WAYS], kept = 0;
	first_bounds(r, bounds);
	divide(r, 0, bounds, &whole);
	UNROLL for (int i = 0; i < WAYS; i++) kept += whole.mass[i];
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
		selection s = reach(r, &whole, &inner, want, rank);
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
