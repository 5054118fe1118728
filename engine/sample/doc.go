// Package sample turns a model's scores into tokens, reports their
// log-probabilities, and notices when an answer is complete. It only decides:
// it has no clock, no goroutine, no file and no randomness but the caller's
// seed, so the same input gives the same token on every machine.
//
// # The order of the steps
//
// A [Sampler] applies [parley.Sampling] in this order:
//
//  1. logit_bias is added.
//  2. The repetition penalty scales tokens of the prompt and the answer.
//  3. The frequency penalty, then the presence penalty, is subtracted from
//     tokens of the answer.
//  4. Temperature 0 ends here with the best score; the lowest id wins a tie.
//  5. Temperature divides.
//  6. top_k keeps the best scores; of equal scores the lowest ids.
//  7. A softmax over what is left gives probabilities.
//  8. top_p keeps the shortest run of the most probable tokens whose sum
//     reaches it, at least one.
//  9. min_p drops what is less probable than min_p times the best.
//  10. One token is drawn from the rest, in proportion.
//
// Steps 1 to 4 are the order of vLLM, and 1 and 3 are what OpenAI documents:
// both act on the scores themselves and both count for temperature 0. The
// repetition penalty counts the prompt because the models trained with it
// expect that; the two subtracted penalties count the answer alone, because
// OpenAI defines them over the text sampled so far. Temperature comes before
// the filters, as in vLLM, so that the filters see the distribution that is
// drawn from; llama.cpp puts it last by default. The filters themselves stand
// in llama.cpp's order. vLLM has min_p first, which matters only beside top_p:
// there top_p is a share of what min_p left, here it is a share of everything
// top_k left, which is how top_p is defined when it stands alone.
//
// # Scores that are not numbers
//
// NaN counts as minus infinity, which is never chosen. Plus infinity counts as
// the largest finite float32. If nothing is left to choose, [Sampler.Choose]
// returns [ErrNoToken] rather than inventing a token: a model that scores
// everything so is broken, and a long answer of token 0 would hide it.
//
// # Repeatable draws
//
// Draw i of choice c is the Philox2x64-10 block at counter (i, c) under the
// key seed. Nothing is carried from one draw to the next, so neither the
// batch, nor a restart, nor speculation can shift it.
//
// A probability is held as an integer: 2^42 times the weight relative to the
// best token. Sums of integers are exact in any order, which is what lets the
// fast selection, which never sorts the vocabulary, agree bit for bit with a
// full sort. The draw walks the tokens from the best score down, equal scores
// by id, and takes the one in which the scaled draw falls. A token less
// probable than 2^-43 of the best has weight 0 and is never drawn.
package sample
