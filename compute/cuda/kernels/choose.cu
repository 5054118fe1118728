// The choice of tokens, by the definition of engine/sample: weights are whole
// numbers made of exact double arithmetic, so that this chooses what the host would.
#include "common.cuh"

#define THREADS 1024
#define AT_ONCE 8
#define BINS 256
#define STEPS_PER_OCTAVE 512
#define STEPS_PER_BUCKET (STEPS_PER_OCTAVE / 4)
#define HORIZON (43.0 * STEPS_PER_OCTAVE)
#define WEIGHT_ONE 4398046511104.0 // 2^42
#define NO_MASS (~0ull)
#define NO_RANK 0x7fffffff
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

struct bins {
	u64 mass[BINS];
	u32 count[BINS], who[BINS];
};

struct selection {
	u64 mass;  // of all up to and including the index
	int index; // -1: all of them fell short
};

FORCE void add_mass(u64 *at, u64 v) { asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(shared_address(at)), "l"(v) : "memory"); }
FORCE void add_count(u32 *at) { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(shared_address(at)) : "memory"); }
FORCE void set_greatest(u32 *at, u32 v) { asm volatile("red.shared.max.u32 [%0], %1;" ::"r"(shared_address(at)), "r"(v) : "memory"); }

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

FORCE u64 weight_at(const double *roots, double steps) {
	u32 whole = (u32)(int)(steps + 0.5);
	double x = ((double)(int)whole - steps) * (0.69314718055994530942 / STEPS_PER_OCTAVE);
	double series = 1 + x * (1 + x * (0.5 + x * (1.0 / 6)));
	double octave = __builtin_bit_cast(double, (u64)(1023 - whole / STEPS_PER_OCTAVE) << 52);
	double fade = roots[whole % STEPS_PER_OCTAVE] * series * octave;
	return (u64)(long long)(fade * WEIGHT_ONE + 0.5);
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

FORCE void clear(bins *b) {
	sync_block();
	for (int i = threadx; i < BINS; i += THREADS) b->mass[i] = 0, b->count[i] = 0, b->who[i] = 0;
	sync_block();
}

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

// A crossing is the bin in which sums reach what is wanted: bin is -1 if none does.
// Mass and count are those of the bins before it.
struct crossing {
	u64 mass;
	u32 count;
	int bin;
};

// cross finds the first bin up to which the masses sum to want_mass, or the counts to
// want_rank. The first warp does the work; each of its lanes has eight bins.
FORCE crossing cross(const bins *b, u64 want_mass, u32 want_rank) {
	__shared__ u64 mass[33];
	__shared__ u32 count[33];
	__shared__ crossing found;
	const int each = BINS / 32;
	sync_block();
	if (threadx < 32) {
		u64 m = 0;
		u32 n = 0;
		for (int i = 0; i < each; i++) m += b->mass[threadx * each + i], n += b->count[threadx * each + i];
		mass[threadx] = m, count[threadx] = n;
		if (threadx == 0) found.bin = -1;
		sync_warp();
		u64 before = 0;
		u32 ahead = 0;
		for (int i = 0; i < threadx; i++) before += mass[i], ahead += count[i];
		bool here = before + m >= want_mass || ahead + n >= want_rank;
		bool earlier = before >= want_mass || ahead >= want_rank;
		if (here && !earlier)
			for (int i = 0; i < each; i++) {
				m = b->mass[threadx * each + i], n = b->count[threadx * each + i];
				if (before + m >= want_mass || ahead + n >= want_rank) {
					found = {before, ahead, threadx * each + i};
					break;
				}
				before += m, ahead += n;
			}
		sync_warp();
		if (threadx == 31 && found.bin < 0) found.mass = before + m, found.count = ahead + n;
	}
	sync_block();
	crossing c = found;
	return c;
}

// reach walks the scores from the best down until their weights sum to want_mass or
// they are want_rank many. Buckets are those of the whole row, inner is scratch.
FORCE selection reach(const row &r, const bins *buckets, bins *inner, u64 want_mass, u32 want_rank) {
	crossing c = cross(buckets, want_mass, want_rank);
	if (c.bin < 0) return {c.mass, -1};
	u64 passed = c.mass, prefix = 0, mask = 0;
	u32 ranks = c.count;
	int bucket = c.bin;
	for (int shift = 56;; shift -= 8) {
		clear(inner);
		r.each([&](float score, int index) {
			double steps = r.steps(score);
			if (!(steps <= r.limit) || (int)steps / STEPS_PER_BUCKET != bucket) return;
			u64 key = key_of(score, index);
			if ((key & mask) != prefix) return;
			int digit = (int)(key >> shift) & 255;
			add_mass(&inner->mass[digit], weight_at(r.roots, steps));
			add_count(&inner->count[digit]);
			set_greatest(&inner->who[digit], (u32)index);
		});
		c = cross(inner, want_mass - passed, want_rank == NO_RANK ? NO_RANK : want_rank - ranks);
		if (c.bin < 0) return {passed + c.mass, -1}; // not possible: the bucket suffices
		passed += c.mass, ranks += c.count;
		if (inner->count[c.bin] == 1) return {passed + inner->mass[c.bin], (int)inner->who[c.bin]};
		prefix |= (u64)c.bin << shift, mask |= 255ull << shift;
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
	__shared__ bins buckets, inner;
	const draw d = a.draws[blockx];
	row r = {a.logits + (u64)blockx * a.vocab, a.roots, a.vocab, 0, d.per_unit, d.limit};
	u64 best = best_of(r.best());
	if (best == ~0ull || d.greedy || d.top_k == 1) {
		if (threadx == 0) a.chosen[blockx] = best == ~0ull ? -1 : (int)(u32)best;
		return;
	}
	r.peak = (double)score_of(best);
	clear(&buckets);
	r.each([&](float score, int) {
		double steps = r.steps(score);
		if (!(steps <= r.limit)) return;
		int bucket = (int)steps / STEPS_PER_BUCKET;
		add_mass(&buckets.mass[bucket], weight_at(r.roots, steps));
		add_count(&buckets.count[bucket]);
	});
	u64 kept = cross(&buckets, NO_MASS, NO_RANK).mass;
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
		selection s = reach(r, &buckets, &inner, want, rank);
		kept = s.mass, index = s.index;
		if (phase == 1 && d.min_p < HORIZON) kept = least(kept, mass_within(r, d.min_p));
	}
	if (threadx == 0) a.chosen[blockx] = index;
}

struct feed_args {
	int *tokens;
	const int *chosen; // by the step before
	int rows;
};

// feed puts the tokens that the step before chose in their places.
KERNEL(256) void feed(feed_args a) {
	int i = blockx * 256 + threadx;
	if (i >= a.rows || a.tokens[i] >= 0) return;
	int token = a.chosen[-1 - a.tokens[i]];
	a.tokens[i] = token < 0 ? 0 : token; // where there was none, what follows is dropped
}
